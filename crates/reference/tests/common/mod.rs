//! A client for tests: the agent as a real process, spoken to by hand.

#![allow(dead_code, unreachable_pub)] // Each test program uses a part of it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// After this, a test that waits has failed.
const PATIENCE: Duration = Duration::from_mins(1);

/// An agent, and the client's end of its wire.
pub struct Agent {
    pub child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Vec<u8>>,
    last: u64,
    /// Every `update` received so far.
    pub updates: Vec<Value>,
    /// How many lines were no JSON.
    pub rubbish: usize,
    pub capabilities: Value,
}

impl Agent {
    /// Starts an agent and initializes it.
    pub fn start(args: &[&str]) -> Self {
        let mut agent = Self::spawn(args);
        let answer =
            agent.call("initialize", json!({ "protocolVersion": 1, "clientCapabilities": {} }));
        agent.capabilities = answer["result"].clone();
        agent
    }

    /// Starts an agent that remembers in `folder`.
    pub fn lasting(folder: &std::path::Path, more: &[&str]) -> Self {
        let folder = folder.to_str().unwrap();
        Self::start(&[&["--memory", folder, "--load", "--resume", "--list"], more].concat())
    }

    pub fn spawn(args: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_reference-agent"))
            .args(args)
            .env("REFERENCE_TEST", "seen")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let (sent, lines) = mpsc::channel();
        thread::spawn(move || {
            loop {
                let mut line = Vec::new();
                if stdout.read_until(b'\n', &mut line).unwrap_or(0) == 0 || sent.send(line).is_err()
                {
                    return;
                }
            }
        });
        let stdin = child.stdin.take();
        Self {
            child,
            stdin,
            lines,
            last: 0,
            updates: Vec::new(),
            rubbish: 0,
            capabilities: Value::Null,
        }
    }

    pub fn send(&mut self, frame: Value) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(format!("{frame}\n").as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    /// Sends a request and returns its id.
    pub fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.last += 1;
        let id = self.last;
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// Sends a request and returns the response to it.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        self.response(id)
    }

    pub fn reply(&mut self, request: &Value, result: Value) {
        self.send(json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }));
    }

    pub fn cancel(&mut self, session: &str) {
        let params = json!({ "sessionId": session });
        self.send(json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": params }));
    }

    /// The next line, or nothing when there is none any more.
    pub fn line(&self) -> Option<Vec<u8>> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("the agent says nothing"),
        }
    }

    /// The next frame. Updates are also kept.
    pub fn frame(&mut self) -> Option<Value> {
        loop {
            let line = self.line()?;
            let Ok(frame @ Value::Object(_)) = serde_json::from_slice::<Value>(&line) else {
                self.rubbish += 1;
                continue;
            };
            if frame["method"] == "session/update" {
                self.updates.push(frame["params"]["update"].clone());
            }
            return Some(frame);
        }
    }

    pub fn response(&mut self, id: u64) -> Value {
        self.until(|frame| frame["id"] == id && frame.get("method").is_none())
    }

    /// The next request of the agent.
    pub fn request(&mut self) -> Value {
        self.until(|frame| frame.get("id").is_some() && frame["method"].is_string())
    }

    pub fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let frame = self.frame().expect("the agent ended");
            if wanted(&frame) {
                return frame;
            }
        }
    }

    pub fn new_session(&mut self) -> String {
        let answer = self.call("session/new", json!({ "cwd": "/tmp", "mcpServers": [] }));
        answer["result"]["sessionId"].as_str().expect("a session").to_owned()
    }

    /// Sends one text as a prompt and returns the id of the request.
    pub fn tell(&mut self, session: &str, text: &str) -> u64 {
        self.ask("session/prompt", prompt(session, json!([{ "type": "text", "text": text }])))
    }

    /// Sends one text as a prompt, waits for its end and returns what the agent said.
    pub fn prompt(&mut self, session: &str, text: &str) -> String {
        let id = self.tell(session, text);
        self.answer(id).0
    }

    /// What the agent says until its response, and the response.
    pub fn answer(&mut self, id: u64) -> (String, Value) {
        let before = self.updates.len();
        let response = self.response(id);
        (self.said_since(before), response)
    }

    pub fn said_since(&self, before: usize) -> String {
        let chunks = self.updates[before..].iter();
        let chunks = chunks.filter(|update| update["sessionUpdate"] == "agent_message_chunk");
        chunks.filter_map(|update| update["content"]["text"].as_str()).collect()
    }

    pub fn attach(&mut self, method: &str, session: &str) -> Value {
        self.call(method, json!({ "sessionId": session, "cwd": "/tmp", "mcpServers": [] }))
    }

    /// Ends it with SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Waits until the agent has ended by itself.
    pub fn ended(&mut self) -> ExitStatus {
        while self.frame().is_some() {}
        self.child.wait().unwrap()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

pub fn prompt(session: &str, blocks: Value) -> Value {
    json!({ "sessionId": session, "prompt": blocks })
}

/// The kinds of updates, in order.
pub fn kinds(updates: &[Value]) -> Vec<&str> {
    updates.iter().filter_map(|update| update["sessionUpdate"].as_str()).collect()
}
