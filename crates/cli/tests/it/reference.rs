//! The reference agent as tests see it: what it holds, what it was asked, and what is left of it.

use std::path::Path;

pub(crate) use rethread_testkit::until;
use serde_json::Value;

use crate::env::TestEnv;

/// Waits until the agent has got so many prompts: the turn runs.
#[track_caller]
pub(crate) fn has_prompts(env: &TestEnv, count: usize) {
    until("a prompt", || (env.prompts("ref").len() == count).then_some(()));
}

/// One prompt as it reached the agent: kind and text of each block.
pub(crate) type Prompt = Vec<(String, String)>;

/// Who said something, and what.
pub(crate) type Record = (String, String);

impl TestEnv {
    /// The answer to a prompt, with how the conversation was opened and why not better.
    #[track_caller]
    pub(crate) fn ask(&self, args: &[&str]) -> (String, String, String) {
        let answer = self.json(args);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&answer["answer"]), text(&answer["opened"]["how"]), text(&answer["opened"]["why"]))
    }

    /// What `--json` prints as an error for a command that fails.
    #[track_caller]
    pub(crate) fn fails(&self, args: &[&str], code: &str) -> Value {
        let mut command = self.command(args);
        command.arg("--json");
        let output = self.finish(command, b"");
        let (exit, error) = output.error();
        let expected = if code == "cancelled" { 130 } else { 1 };
        assert_eq!((exit, error["code"].as_str()), (expected, Some(code)), "{args:?} {output}");
        assert_eq!(output.text(), "", "{args:?}");
        error
    }

    /// The id of the only session.
    #[track_caller]
    pub(crate) fn only(&self) -> String {
        let sessions = self.json(["list"]);
        assert_eq!(sessions.as_array().map(Vec::len), Some(1), "{sessions:#}");
        sessions[0]["session_id"].as_str().unwrap().to_owned()
    }

    /// What is recorded of a conversation, without tools.
    #[track_caller]
    pub(crate) fn records(&self, id: &str, conversation: &str) -> Vec<Record> {
        let own = |message: &Value| {
            message["conversation"].as_str().unwrap_or("main") == conversation
                && message["role"] != "tool"
        };
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        self.messages(id)
            .iter()
            .filter(|message| own(message))
            .map(|message| (text(&message["role"]), text(&message["content"])))
            .collect()
    }

    /// Every frame that the agent got, in order.
    pub(crate) fn received(&self, agent: &str) -> Vec<Value> {
        let log = std::fs::read_to_string(self.path(&format!("{agent}.log"))).unwrap_or_default();
        let frames = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        frames.filter(|frame| frame["dir"] == "in").map(|mut frame| frame["frame"].take()).collect()
    }

    /// Every method that the agent was called with, in order.
    pub(crate) fn methods(&self, agent: &str) -> Vec<String> {
        let received = self.received(agent);
        received.iter().filter_map(|frame| frame["method"].as_str().map(str::to_owned)).collect()
    }

    /// Every prompt that reached the agent.
    pub(crate) fn prompts(&self, agent: &str) -> Vec<Prompt> {
        let received = self.received(agent);
        let prompts = received.iter().filter(|frame| frame["method"] == "session/prompt");
        prompts.map(|frame| blocks(&frame["params"]["prompt"])).collect()
    }

    /// What the agent's newest session holds, in order: what it was told of the past, what it was asked, and what
    /// it said.
    pub(crate) fn held(&self, agent: &str) -> Vec<Record> {
        let sessions = std::fs::read_dir(self.path(&format!("{agent}.memory"))).unwrap();
        let sessions = sessions.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
        let parsed = sessions.map(|text| -> Vec<Value> {
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
        });
        let newest = parsed.max_by_key(|lines| lines[0]["at"].as_u64()).expect("a session");
        newest.iter().flat_map(records_of).collect()
    }

    /// The agent holds the conversation: every record once and in order.
    #[track_caller]
    pub(crate) fn assert_held(&self, agent: &str, id: &str, conversation: &str) {
        assert_eq!(self.held(agent), self.records(id, conversation));
    }

    /// Nothing is left of any agent of this test.
    #[track_caller]
    pub(crate) fn assert_nothing_runs(&self) {
        let mark = self.root().to_str().unwrap();
        until(&format!("processes of {mark} are left"), || running(mark).is_empty().then_some(()));
    }
}

/// The processes that have this on their command line.
pub(crate) fn running(mark: &str) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").unwrap();
    let ids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(|id| {
        let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(mark)
    })
    .collect()
}

/// The process whose id is in a file is gone, or waits to be buried by whoever is its parent now.
pub(crate) fn is_gone(file: &Path) -> bool {
    let id = std::fs::read_to_string(file).unwrap();
    let state = std::fs::read_to_string(format!("/proc/{}/stat", id.trim())).unwrap_or_default();
    state.rsplit(')').next().is_none_or(|rest| rest.is_empty() || rest.starts_with(" Z"))
}

fn blocks(prompt: &Value) -> Prompt {
    let blocks = prompt.as_array().unwrap().iter().map(|block| {
        let text = block["text"].as_str().or(block["resource"]["text"].as_str()).unwrap();
        (block["type"].as_str().unwrap().to_owned(), text.to_owned())
    });
    blocks.collect()
}

fn records_of(line: &Value) -> Vec<Record> {
    match line["kind"].as_str() {
        Some("told") => {
            let blocks = blocks(&line["blocks"]).into_iter();
            blocks
                .flat_map(|(_, text)| match history(&text) {
                    told if told.is_empty() => vec![("user".to_owned(), text)],
                    told => told,
                })
                .collect()
        }
        Some("said") => {
            let parts = line["parts"].as_array().unwrap().iter();
            let texts = parts.filter_map(|part| part["text"].as_str());
            texts.map(|text| ("assistant".to_owned(), text.to_owned())).collect()
        }
        _ => Vec::new(),
    }
}

/// The messages that a history quotes; nothing where it is none.
pub(crate) fn history(text: &str) -> Vec<Record> {
    let mut records: Vec<Record> = Vec::new();
    if !text.starts_with("This is the earlier history") && !text.starts_with("This was said in our")
    {
        return records;
    }
    for line in text.lines() {
        let role = line.strip_prefix("**").and_then(|rest| rest.split_once("** ("));
        match (role, line.strip_prefix("> ").or(line.strip_prefix('>')), records.last_mut()) {
            (Some((role, _)), ..) => records.push((role.to_lowercase(), String::new())),
            (None, Some(quoted), Some((_, said))) => {
                if !said.is_empty() {
                    said.push('\n');
                }
                said.push_str(quoted);
            }
            _ => (),
        }
    }
    records.retain(|(role, _)| role != "tool");
    records
}
