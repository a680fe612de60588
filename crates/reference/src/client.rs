//! What a turn asks of the client: permission, files, terminals.

use serde_json::{Value, json};

use crate::memory::Tool;
use crate::replay::tool_call;
use crate::second;
use crate::turn::{Cancelled, Step, Turn};
use crate::wire::{Reply, Signal};

/// What the client may choose when it is asked for permission. Each is its own kind.
const CHOICES: [(&str, &str); 4] = [
    ("allow_once", "Allow"),
    ("allow_always", "Always allow"),
    ("reject_once", "Reject"),
    ("reject_always", "Always reject"),
];

impl Turn {
    /// Asks whether a tool may be used, and says what the client chose.
    pub(crate) fn ask_permission(&mut self, title: &str) -> Step<String> {
        let id = self.tool_id();
        let params = self.permission(&id, title);
        let reply = self.call("session/request_permission", params);
        let chosen = match &reply {
            Ok(Ok(reply)) => choice(&reply["outcome"]),
            Ok(Err(error)) => described(error),
            Err(Cancelled) => "cancelled".to_owned(),
        };
        let completed = chosen == "allowed";
        self.end_tool(Tool { id, title: title.to_owned(), output: chosen.clone(), completed });
        if chosen == "cancelled" {
            // Whether the reply or the cancellation came first makes no difference.
            self.say(&chosen);
            return Err(Cancelled);
        }
        Ok(chosen)
    }

    /// Asks with a tool call of the given fields, or tells of them before and asks with the id only.
    pub(crate) fn ask_permission_as(&mut self, call: &str, is_told_before: bool) -> Step<String> {
        let mut call: Value = match serde_json::from_str(call) {
            Ok(call @ Value::Object(_)) => call,
            _ => return Ok(format!("error: not an object: {call}")),
        };
        let id = self.tool_id();
        call["toolCallId"] = json!(id);
        if is_told_before {
            let mut update = call;
            update["sessionUpdate"] = json!("tool_call");
            self.update(update);
            call = json!({ "toolCallId": id });
        }
        let params = json!({ "sessionId": self.id, "toolCall": call, "options": options() });
        Ok(match self.call("session/request_permission", params)? {
            Ok(reply) => choice(&reply["outcome"]),
            Err(error) => described(&error),
        })
    }

    /// Asks about several tools before the first is answered.
    pub(crate) fn ask_permissions(&mut self, titles: &[String]) -> Step<String> {
        let mut asked = Vec::new();
        for (number, title) in titles.iter().enumerate() {
            let params = self.permission(&format!("{}-{number}", self.tool_id()), title);
            asked.push(self.wire.request(&self.handle, "session/request_permission", params));
        }
        let mut chosen: Vec<Option<String>> = vec![None; titles.len()];
        while chosen.iter().any(Option::is_none) {
            let Ok(Signal::Reply(id, reply)) = self.signals.recv() else { return Err(Cancelled) };
            let Some(at) = asked.iter().position(|one| *one == id) else { continue };
            chosen[at] = Some(match reply {
                Ok(reply) => choice(&reply["outcome"]),
                Err(error) => described(&error),
            });
        }
        let told = titles.iter().zip(chosen.into_iter().flatten());
        Ok(told.map(|(title, chosen)| format!("{title} {chosen}")).collect::<Vec<_>>().join(", "))
    }

    /// Tells of a tool call; gives the question whether it may be made.
    fn permission(&self, id: &str, title: &str) -> Value {
        let mut call = tool_call(id, title);
        self.update(call.clone());
        if let Some(call) = call.as_object_mut() {
            call.remove("sessionUpdate");
        }
        json!({ "sessionId": self.id, "toolCall": call, "options": options() })
    }

    pub(crate) fn read_file(&self, path: &str) -> Step<String> {
        let params = json!({ "sessionId": self.id, "path": path });
        Ok(match self.call("fs/read_text_file", params)? {
            Ok(reply) => reply["content"].as_str().unwrap_or_default().to_owned(),
            Err(error) => described(&error),
        })
    }

    pub(crate) fn write_file(&self, path: &str, text: &str) -> Step<String> {
        let params = json!({ "sessionId": self.id, "path": path, "content": text });
        Ok(match self.call("fs/write_text_file", params)? {
            Ok(_) => "written".to_owned(),
            Err(error) => described(&error),
        })
    }

    /// Runs a command in a terminal of the client; without arguments it is a whole line.
    pub(crate) fn run_command(&self, command: &str, args: Option<&[String]>) -> Step<String> {
        let cwd = crate::lock(&self.session).cwd.clone();
        let mut params = json!({ "sessionId": self.id, "command": command, "cwd": cwd });
        if let Some(args) = args {
            params["args"] = json!(args);
        }
        let created = match self.call("terminal/create", params)? {
            Ok(created) => created,
            Err(error) => return Ok(described(&error)),
        };
        let terminal = json!({ "sessionId": self.id, "terminalId": created["terminalId"] });
        let ended = self.call("terminal/wait_for_exit", terminal.clone())?;
        let output = self.call("terminal/output", terminal.clone())?;
        let released = self.call("terminal/release", terminal)?;
        Ok(match ended.and(output).and_then(|output| released.map(|_| output)) {
            Ok(output) => {
                let text = output["output"].as_str().unwrap_or_default();
                // A turn without a word would be one that came to nothing.
                if text.is_empty() { "(no output)".to_owned() } else { text.to_owned() }
            }
            Err(error) => described(&error),
        })
    }

    /// Sends a request to the client and waits for its reply, or for the turn to be cancelled.
    fn call(&self, method: &str, mut params: Value) -> Step<Reply> {
        if self.wire.is_second() && params["toolCall"].is_object() {
            second::question(&mut params);
        }
        let asked = self.wire.request(&self.handle, method, params);
        loop {
            match self.signals.recv() {
                Ok(Signal::Reply(id, reply)) if id == asked => return Ok(reply),
                Ok(Signal::Reply(..)) => {}
                // The turn holds a sender itself, so the channel cannot close.
                Ok(Signal::Cancel) | Err(_) => return Err(Cancelled),
            }
        }
    }
}

fn options() -> Vec<Value> {
    let option = |(id, name): &(&str, &str)| json!({ "optionId": id, "name": name, "kind": id });
    CHOICES.iter().map(option).collect()
}

fn choice(outcome: &Value) -> String {
    let option = outcome["optionId"].as_str().unwrap_or_default();
    let chosen = match outcome["outcome"].as_str() {
        Some("selected") if option.starts_with("allow_") => "allowed",
        Some("selected") if option.starts_with("reject_") => "rejected",
        Some("cancelled") => "cancelled",
        _ => return format!("error: no choice in {outcome}"),
    };
    chosen.to_owned()
}

fn described(error: &Value) -> String {
    let message = error["message"].as_str().unwrap_or_default();
    format!("error {} {message}", error["code"])
}
