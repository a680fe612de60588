//! A server of its own for each test.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::client::{Answer, PATIENCE, Request};
use crate::env::TestEnv;

/// A server that runs, and the surroundings that it shares with the command line.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) env: TestEnv,
    pub(crate) address: SocketAddr,
    /// Of the user anna, for everything.
    pub(crate) token: String,
    /// What it has said so far.
    pub(crate) said: Arc<Mutex<String>>,
    child: Child,
    heard_all: Receiver<()>,
}

impl Drop for Site {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Site {
    pub(crate) fn new() -> Self {
        Self::within(TestEnv::new(), &[])
    }

    /// In these surroundings, with more to be said on the command line.
    pub(crate) fn within(env: TestEnv, more: &[&str]) -> Self {
        Self::on(env, "127.0.0.1:0", more)
    }

    /// On this address.
    pub(crate) fn on(env: TestEnv, address: &str, more: &[&str]) -> Self {
        let said = Arc::new(Mutex::new(String::new()));
        let (child, address, heard_all) = start(&env, address, more, &said);
        let mut site = Self { env, address, token: String::new(), said, child, heard_all };
        site.token = site.first_token();
        site
    }

    /// Starts it anew after its end, on another port.
    pub(crate) fn restart(&mut self) {
        (self.child, self.address, self.heard_all) =
            start(&self.env, "127.0.0.1:0", &[], &self.said);
    }

    /// The token that was made at the first start.
    fn first_token(&self) -> String {
        let file = format!("{}.token", self.env.store().display());
        let begun = std::time::Instant::now();
        loop {
            if let Ok(text) = std::fs::read_to_string(&file) {
                return text.trim().to_owned();
            }
            assert!(begun.elapsed() < PATIENCE, "there is no token in {file}");
            std::thread::yield_now();
        }
    }

    /// Ends it without a word, and gives back where it was.
    pub(crate) fn kill(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }

    /// Asks it to end, and hears it out; gives whether it ended well.
    pub(crate) fn stop(&mut self) -> bool {
        let pid = self.child.id().to_string();
        std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap();
        let ended_well = self.child.wait().unwrap().success();
        let heard = self.heard_all.recv_timeout(PATIENCE);
        assert_eq!(heard, Err(RecvTimeoutError::Disconnected), "something keeps its stderr open");
        ended_well
    }

    /// The lines of its log.
    pub(crate) fn log(&self) -> Vec<Value> {
        let said = self.said.lock().unwrap();
        said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Asks it to end, and fails if it did not end well or noted an error, such as a panic.
    pub(crate) fn stop_without_errors(&mut self) {
        assert!(self.stop(), "{}", self.said.lock().unwrap());
        let log = self.log();
        assert!(!log.is_empty(), "{}", self.said.lock().unwrap());
        let errors: Vec<&Value> = log.iter().filter(|line| line["level"] == "error").collect();
        assert!(errors.is_empty(), "{errors:#?}");
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A token for somebody.
    pub(crate) fn token_for(&self, user: &str, role: &str) -> String {
        let made = self.env.run(["token", "create", "--name", "t", "--role", role, "--user", user]);
        made.succeeded().text().trim().to_owned()
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        Request::new("GET", path).by(&self.token).send(self.address)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        Request::new("POST", path).by(&self.token).json(body).send(self.address)
    }

    /// A session with these messages of the user; gives its id.
    pub(crate) fn record(&self, title: &str, messages: &[&str]) -> String {
        let lines: Vec<String> = messages
            .iter()
            .map(|text| serde_json::json!({"role": "user", "content": text}).to_string())
            .collect();
        let out = self.env.feed(["record", "--title", title], lines.join("\n"));
        out.succeeded().text().trim().to_owned()
    }
}

/// Starts a server; gives where it listens.
fn start(
    env: &TestEnv,
    address: &str,
    more: &[&str],
    said: &Arc<Mutex<String>>,
) -> (Child, SocketAddr, Receiver<()>) {
    let args = ["serve", "--addr", address].into_iter().chain(more.iter().copied());
    begin(env.command(args), said)
}

/// A server that does not outlive its test.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Starts a server by this command; gives where it listens, and a channel that closes when all that
/// it said has been heard.
pub(crate) fn begin(
    mut command: Command,
    said: &Arc<Mutex<String>>,
) -> (Child, SocketAddr, Receiver<()>) {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let address = loop {
        let mut line = String::new();
        let read = lines.read_line(&mut line).unwrap();
        said.lock().unwrap().push_str(&line);
        assert!(read > 0, "the server ended: {}", said.lock().unwrap());
        if let Some(url) = line.trim_end().strip_prefix("Listening on ") {
            // Behind a proxy it tells the address of that.
            let own = || ([127, 0, 0, 1], crate::sockets::listening_port(child.id())).into();
            break url.split("://").nth(1).unwrap().parse().unwrap_or_else(|_| own());
        }
    };
    let heard = Arc::clone(said);
    let (all, heard_all) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        let mut line = String::new();
        while lines.read_line(&mut line).is_ok_and(|read| read > 0) {
            heard.lock().unwrap().push_str(&line);
            line.clear();
        }
        drop(all);
    });
    (child, address, heard_all)
}
