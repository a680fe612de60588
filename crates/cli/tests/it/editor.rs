//! An editor, as far as `rethread acp` sees one.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::env::TestEnv;

/// Longer than anything may take on a busy machine.
const WATCHDOG: Duration = Duration::from_mins(1);

/// A started `rethread acp`, seen from the editor.
#[derive(Debug)]
pub(crate) struct Editor {
    pub(crate) process: Child,
    to: Option<ChildStdin>,
    from: Receiver<Value>,
    next: u64,
    /// All that came since the last request, but for its answer.
    pub(crate) seen: Vec<Value>,
    folder: String,
}

impl Editor {
    /// Starts it, and greets it as version 1 does.
    pub(crate) fn start(env: &TestEnv, agent: &str) -> Self {
        let mut editor = Self::start_silently(env, agent);
        let fs = json!({ "readTextFile": true, "writeTextFile": true });
        let can = json!({ "fs": fs, "terminal": true });
        editor.ok("initialize", json!({ "protocolVersion": 1, "clientCapabilities": can }));
        editor
    }

    /// Starts it, and greets it as version 2 does.
    pub(crate) fn second(env: &TestEnv, agent: &str) -> (Self, Value) {
        let mut editor = Self::start_silently(env, agent);
        let info = json!({ "name": "test", "version": "0" });
        let hello = json!({ "protocolVersion": 2, "info": info, "capabilities": {} });
        let greeted = editor.ok("initialize", hello);
        (editor, greeted)
    }

    pub(crate) fn start_silently(env: &TestEnv, agent: &str) -> Self {
        Self::of(env, env.command(["acp", agent]))
    }

    /// The one that this command starts.
    pub(crate) fn of(env: &TestEnv, mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().unwrap();
        let (to, out) = (process.stdin.take(), process.stdout.take().unwrap());
        let (send, from) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                let frame = serde_json::from_str(&line).expect("a frame");
                if send.send(frame).is_err() {
                    break;
                }
            }
        });
        let folder = env.path("project").display().to_string();
        Self { process, to, from, next: 0, seen: Vec::new(), folder }
    }

    pub(crate) fn write(&mut self, line: &str) {
        // It may have ended already.
        let to = self.to.as_mut().expect("the editor has not ended");
        drop(to.write_all(format!("{line}\n").as_bytes()).and_then(|()| to.flush()));
    }

    /// What is no line.
    pub(crate) fn write_raw(&mut self, bytes: &[u8]) {
        let to = self.to.as_mut().expect("the editor has not ended");
        to.write_all(bytes).and_then(|()| to.flush()).unwrap();
    }

    pub(crate) fn send(&mut self, method: &str, params: Value) -> String {
        self.next += 1;
        let id = format!("e{}", self.next);
        let frame = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.write(&frame.to_string());
        id
    }

    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        let frame = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        self.write(&frame.to_string());
    }

    /// The next frame; `None` when there will be none any more.
    pub(crate) fn frame(&self) -> Option<Value> {
        match self.from.recv_timeout(WATCHDOG) {
            Ok(frame) => Some(frame),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => None,
            Err(silence) => panic!("the proxy says nothing: {silence}"),
        }
    }

    /// The answer to a request. Questions are answered as a friendly person would.
    pub(crate) fn answer(&mut self, id: &str) -> Value {
        self.seen.clear();
        self.until(|frame| frame.get("method").is_none() && frame["id"] == id)
    }

    /// The state that ends a prompt, as version 2 has it.
    pub(crate) fn idle(&mut self) -> Value {
        let is_idle = |frame: &Value| frame["params"]["update"]["state"] == "idle";
        self.until(is_idle)["params"]["update"].take()
    }

    fn until(&mut self, is_meant: impl Fn(&Value) -> bool) -> Value {
        loop {
            let frame = self.frame().expect("the proxy is gone");
            if is_meant(&frame) {
                return frame;
            }
            if frame.get("method").is_some() && frame.get("id").is_some() {
                let result = match frame["method"].as_str().unwrap() {
                    "session/request_permission" => {
                        let option = &frame["params"]["options"][0]["optionId"];
                        json!({ "outcome": { "outcome": "selected", "optionId": option } })
                    }
                    "fs/read_text_file" => json!({ "content": "from the editor" }),
                    "terminal/create" => json!({ "terminalId": "t1" }),
                    "terminal/wait_for_exit" => json!({ "exitCode": 0 }),
                    "terminal/output" => json!({ "output": "printed", "truncated": false }),
                    _ => json!({}),
                };
                let reply = json!({ "jsonrpc": "2.0", "id": frame["id"], "result": result });
                self.write(&reply.to_string());
            }
            self.seen.push(frame);
        }
    }

    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.answer(&id)
    }

    /// The result of a request that has to succeed.
    #[track_caller]
    pub(crate) fn ok(&mut self, method: &str, params: Value) -> Value {
        let mut answer = self.call(method, params);
        assert!(answer.get("error").is_none(), "{method}: {answer:#}");
        answer["result"].take()
    }

    #[track_caller]
    pub(crate) fn begin(&mut self) -> String {
        let params = json!({ "cwd": self.folder, "mcpServers": [] });
        self.ok("session/new", params)["sessionId"].as_str().unwrap().to_owned()
    }

    pub(crate) fn opened(&self, id: &str) -> Value {
        json!({ "sessionId": id, "cwd": self.folder, "mcpServers": [] })
    }

    pub(crate) fn prompt(&mut self, id: &str, text: &str) -> String {
        let prompt = json!([{ "type": "text", "text": text }]);
        self.send("session/prompt", json!({ "sessionId": id, "prompt": prompt }))
    }

    /// What the agent says to a prompt, with its stop reason.
    #[track_caller]
    pub(crate) fn say(&mut self, id: &str, text: &str) -> String {
        let asked = self.prompt(id, text);
        let answer = self.answer(&asked);
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer:#}");
        self.text("agent_message_chunk")
    }

    /// The same in version 2.
    #[track_caller]
    pub(crate) fn say_second(&mut self, id: &str, text: &str) -> String {
        let asked = self.prompt(id, text);
        let answer = self.answer(&asked);
        assert!(answer["result"]["messageId"].is_string(), "{answer:#}");
        let idle = self.idle();
        assert_eq!(idle["stopReason"], "end_turn", "{idle:#}");
        self.text("agent_message_chunk")
    }

    /// All texts of one kind that came.
    pub(crate) fn text(&self, kind: &str) -> String {
        let updates = self.updates();
        let own = updates.iter().filter(|update| update["sessionUpdate"] == kind);
        own.filter_map(|update| update["content"]["text"].as_str()).collect()
    }

    pub(crate) fn updates(&self) -> Vec<Value> {
        let updates = self.seen.iter().filter(|frame| frame["method"] == "session/update");
        updates.map(|frame| frame["params"]["update"].clone()).collect()
    }

    /// The editor closes its end.
    pub(crate) fn leave(&mut self) {
        drop(self.to.take());
    }

    /// The editor closes its end; the proxy has to follow.
    pub(crate) fn end(mut self) {
        self.leave();
        while self.from.recv_timeout(WATCHDOG).is_ok() {}
        assert!(self.process.wait().unwrap().success());
    }

    /// The editor is gone with both ends, as one that was killed.
    pub(crate) fn vanish(&mut self) {
        self.leave();
        // Whoever reads for us ends with the next frame.
        self.from = channel().1;
    }

    /// The proxy is killed.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
