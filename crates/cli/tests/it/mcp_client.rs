//! A client of `rethread mcp`, written by hand on raw JSON, so that it is not the library that it agrees with.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::env::TestEnv;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_mins(1);

#[derive(Debug)]
pub(crate) struct Mcp {
    pub(crate) child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    count: u64,
    /// What came beside answers.
    pub(crate) notes: Vec<Value>,
    /// Answers that nobody has waited for yet.
    early: Vec<Value>,
    /// The bytes of the longest line that came.
    pub(crate) longest: usize,
}

impl Mcp {
    pub(crate) fn start(env: &TestEnv) -> Self {
        Self::spawn(env.command(["mcp"]))
    }

    pub(crate) fn spawn(command: Command) -> Self {
        let mut mcp = Self::mute(command);
        let hello = json!({
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        });
        let answer = mcp.call("initialize", hello);
        assert_eq!(answer["result"]["serverInfo"]["name"], "rethread", "{answer}");
        mcp.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        mcp
    }

    /// One that has not said hello.
    pub(crate) fn mute(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the server starts");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                drop(send.send(line));
            }
        });
        let stdin = child.stdin.take();
        Self { child, stdin, lines, count: 0, notes: Vec::new(), early: Vec::new(), longest: 0 }
    }

    pub(crate) fn send_line(&mut self, line: &[u8]) {
        let stdin = self.stdin.as_mut().expect("a pipe");
        stdin.write_all(line).expect("the server listens");
        stdin.write_all(b"\n").expect("the server listens");
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.send_line(message.to_string().as_bytes());
    }

    /// Asks, and does not wait; gives the id of the request.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.count += 1;
        let id = self.count;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    pub(crate) fn ask_tool(&mut self, name: &str, arguments: Value) -> u64 {
        let meta = json!({"progressToken": format!("token-{}", self.count + 1)});
        self.ask("tools/call", json!({"name": name, "arguments": arguments, "_meta": meta}))
    }

    /// The answer to a request, whatever comes first.
    #[track_caller]
    pub(crate) fn answer(&mut self, id: u64) -> Value {
        if let Some(at) = self.early.iter().position(|message| message["id"] == id) {
            return self.early.remove(at);
        }
        loop {
            let message = self.next();
            if message["id"] == id {
                return message;
            }
            if message.get("id").is_some() { &mut self.early } else { &mut self.notes }
                .push(message);
        }
    }

    /// The next line, of whatever kind.
    #[track_caller]
    pub(crate) fn next(&mut self) -> Value {
        let line = self.lines.recv_timeout(PATIENCE).expect("the server answers");
        self.longest = self.longest.max(line.len());
        serde_json::from_str(&line).expect("JSON")
    }

    #[track_caller]
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        self.answer(id)
    }

    /// What a tool gives that succeeds.
    #[track_caller]
    pub(crate) fn tool(&mut self, name: &str, arguments: Value) -> Value {
        let id = self.ask_tool(name, arguments);
        let answer = self.answer(id);
        succeeded(&answer)
    }

    /// The text of a tool that fails: by its result, and by no error of the protocol.
    #[track_caller]
    pub(crate) fn refused(&mut self, name: &str, arguments: Value) -> String {
        let id = self.ask_tool(name, arguments);
        let answer = self.answer(id);
        failed(&answer)
    }

    #[track_caller]
    pub(crate) fn invoke(&mut self, arguments: Value) -> Value {
        self.tool("invoke_agent", arguments)
    }

    /// Ends its input and waits for its end.
    pub(crate) fn end(mut self) -> ExitStatus {
        self.stdin = None;
        self.child.wait().expect("it ends")
    }

    pub(crate) fn kill(self) {
        drop(self);
    }
}

impl Drop for Mcp {
    fn drop(&mut self) {
        // Nothing is left of a test, however it ends.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[track_caller]
pub(crate) fn succeeded(answer: &Value) -> Value {
    assert_eq!(answer["result"]["isError"], false, "{answer:#}");
    let text = answer["result"]["content"][0]["text"].as_str().expect("a text");
    let given: Value = serde_json::from_str(text).expect("JSON");
    // What is long is not given twice.
    match &answer["result"]["structuredContent"] {
        Value::Null => assert!(text.len() > 8 * 1024, "{text}"),
        structured => {
            assert!(text.len() <= 8 * 1024);
            assert_eq!(*structured, given);
        }
    }
    given
}

#[track_caller]
pub(crate) fn failed(answer: &Value) -> String {
    assert_eq!(answer["result"]["isError"], true, "{answer:#}");
    answer["result"]["content"][0]["text"].as_str().expect("a text").to_owned()
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not a text: {value}"))
}

/// A fresh passkey.
pub(crate) fn passkey() -> String {
    use std::hash::{BuildHasher, RandomState};
    format!("PASSKEY-{:016x}", RandomState::new().hash_one(0))
}
