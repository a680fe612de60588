//! Version 2 of the protocol, where it differs from version 1: a prompt is accepted at once and ends with a state, messages come
//! whole or in pieces, terminals are the agent's.
//!
//! It is recognised by the shape of the first answer: some agents echo the number 2 and mean version 1.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher as _};

use rethread_domain::turn::{MOST_OUTPUT_BYTES, Tool, Update};
use serde_json::{Value, json};

use crate::classify::RpcError;
use crate::frame::{self, Fields};
use crate::translate::{self, SplitCharacters};

/// How many messages, terminals and tool calls of a turn are followed.
const MOST_FOLLOWED: usize = 1024;
/// The output of a command that still runs is recorded again when it has doubled, and by at least so much.
const LEAST_GROWTH: usize = 4 * 1024;

/// Whether a greeting or its answer is in the shape of version 2.
pub(crate) fn is_shape(fields: &Fields<'_>) -> bool {
    fields.get("capabilities").is_some() || fields.get("info").is_some()
}

/// Whether an agent that was greeted in version 2 really speaks it.
pub(crate) fn is_spoken(answer: &Fields<'_>) -> bool {
    answer.number("protocolVersion") == Some(2) && is_shape(answer)
}

/// The same, of the answer as it came.
pub(crate) fn is_answer(answer: &str) -> bool {
    Fields::parse(answer).is_some_and(|answer| is_spoken(&answer))
}

/// How an agent is greeted in version 2.
pub(crate) fn greeting() -> Value {
    json!({
        "protocolVersion": 2,
        "info": { "name": "rethread", "version": env!("CARGO_PKG_VERSION") },
        "capabilities": {},
    })
}

/// What an agent works on, as far as a prompt is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Running,
    Idle,
    Other,
}

/// The state that an update tells, if it is about that.
pub(crate) fn state(update: &str) -> Option<State> {
    // Most updates are pieces of text, which need not be read twice.
    if !update.contains("state_update") {
        return None;
    }
    let update = Fields::parse(update)?;
    if update.text("sessionUpdate").as_deref() != Some("state_update") {
        return None;
    }
    Some(match update.text("state").as_deref() {
        Some("running") => State::Running,
        Some("idle") => State::Idle,
        _ => State::Other,
    })
}

/// Why the work has ended, by the state that says so; or the error that it ended with.
pub(crate) fn stop(state: &str) -> Result<String, RpcError> {
    let fields = Fields::parse(state).unwrap_or_default();
    let stop = fields.text("stopReason").unwrap_or_else(|| "end_turn".to_owned());
    if stop != "error" {
        return Ok(stop);
    }
    Err(match fields.get("error").filter(|error| error.starts_with('{')) {
        Some(error) => RpcError::parse(error),
        None => RpcError::new(-32603, "the agent gave no reason"),
    })
}

/// Follows the updates of a turn: what comes both whole and in pieces is recorded once.
#[derive(Debug, Default)]
pub(crate) struct Translator {
    messages: HashMap<String, Said>,
    terminals: HashMap<String, Terminal>,
    /// What tool calls have put out in pieces.
    pieces: HashMap<String, Output>,
    split: SplitCharacters,
}

/// How much of a message was said: its length and its hash.
#[derive(Debug, Clone, Default)]
struct Said {
    bytes: usize,
    hash: DefaultHasher,
}

impl Said {
    fn add(&mut self, text: &str) {
        self.bytes += text.len();
        self.hash.write(text.as_bytes());
    }

    /// What follows in this text, if it begins with what was said.
    fn rest<'a>(&self, text: &'a str) -> Option<&'a str> {
        let (known, rest) = text.split_at_checked(self.bytes)?;
        let mut hash = DefaultHasher::new();
        hash.write(known.as_bytes());
        (hash.finish() == self.hash.finish()).then_some(rest)
    }
}

/// An output that grows.
#[derive(Debug, Default)]
struct Output {
    bytes: Vec<u8>,
    /// How much of it was passed on.
    told: usize,
}

impl Output {
    fn add(&mut self, more: &[u8]) {
        let room = MOST_OUTPUT_BYTES.saturating_sub(self.bytes.len());
        self.bytes.extend_from_slice(&more[..more.len().min(room)]);
    }

    /// All of it, if so much has come that it is worth it.
    fn due(&mut self) -> Option<String> {
        let is_due = self.bytes.len() >= (self.told * 2).max(self.told + LEAST_GROWTH);
        is_due.then(|| self.all())
    }

    fn all(&mut self) -> String {
        self.told = self.bytes.len();
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

#[derive(Debug, Default)]
struct Terminal {
    output: Output,
    /// The tool call that shows it.
    tool: Option<String>,
}

impl Terminal {
    fn told(&self, output: Option<String>) -> Option<Update> {
        let tool = Tool { id: self.tool.clone()?, output: Some(output?), ..Tool::default() };
        Some(Update::Tool(tool))
    }
}

impl Translator {
    /// What an update of a running turn says; `None` if it does not belong to the conversation.
    pub(crate) fn translate(&mut self, raw: &str) -> Option<Update> {
        let update = Fields::parse(raw)?;
        match update.text("sessionUpdate")?.as_str() {
            "user_message" | "state_update" => None,
            "agent_message_chunk" | "agent_thought_chunk" => {
                let said = translate::translate(raw, &|_| None, &mut self.split);
                let id = update.text("messageId").unwrap_or_default();
                if let (Some(Update::Text { text } | Update::Thought { text }), Some(known)) =
                    (&said, followed(&mut self.messages, id))
                {
                    known.add(text);
                }
                said
            }
            "agent_message" => self.whole(&update).map(|text| Update::Text { text }),
            "agent_thought" => self.whole(&update).map(|text| Update::Thought { text }),
            "terminal_update" => self.terminal(&update),
            "terminal_output_chunk" => {
                let terminal = followed(&mut self.terminals, update.text("terminalId")?)?;
                terminal.output.add(&base64(&update.text("data")?));
                let due = terminal.output.due();
                terminal.told(due)
            }
            "tool_call_content_chunk" => {
                let id = translate::name(&update, "toolCallId")?;
                let part = format!("[{}]", update.get("content")?);
                let text = translate::outputs(&part, &|_| None);
                let output = followed(&mut self.pieces, id.clone())?;
                if !output.bytes.is_empty() {
                    output.add(b"\n");
                }
                output.add(text.as_bytes());
                let output = Some(output.due()?);
                Some(Update::Tool(Tool { id, output, ..Tool::default() }))
            }
            "tool_call_update" => self.tool(raw, &update),
            "plan_update" => {
                let plan = update.get("plan").and_then(Fields::parse).unwrap_or_default();
                let entries = plan.get("entries").map(frame::tree).filter(Value::is_array);
                entries
                    .map(|entries| Update::Plan { entries })
                    .or_else(|| Some(translate::other(raw)))
            }
            _ => translate::translate(raw, &|_| None, &mut self.split),
        }
    }

    /// What a whole message adds to what was said of it. One that says something else is said anew: nothing is taken back.
    fn whole(&mut self, update: &Fields<'_>) -> Option<String> {
        let text = translate::content(update.get("content")?)?;
        let Some(known) = followed(&mut self.messages, update.text("messageId")?) else {
            return Some(text);
        };
        let rest = match known.rest(&text) {
            Some(rest) => rest.to_owned(),
            // It is being written anew: what follows shows what it is now.
            None if text.is_empty() => return None,
            None => format!("\n\n{text}"),
        };
        *known = Said::default();
        known.add(&text);
        Some(rest).filter(|rest| !rest.is_empty())
    }

    fn terminal(&mut self, update: &Fields<'_>) -> Option<Update> {
        let terminal = followed(&mut self.terminals, update.text("terminalId")?)?;
        if let Some(output) = update.get("output") {
            let data = Fields::parse(output).and_then(|output| output.text("data"));
            terminal.output.bytes.clear();
            terminal.output.told = 0;
            terminal.output.add(&base64(&data.unwrap_or_default()));
        }
        let has_ended = update.get("exitStatus").is_some_and(|status| status.starts_with('{'));
        let is_empty = terminal.output.bytes.is_empty();
        let output = if has_ended { Some(terminal.output.all()) } else { terminal.output.due() };
        terminal.told(output.filter(|_| !is_empty))
    }

    fn tool(&mut self, raw: &str, update: &Fields<'_>) -> Option<Update> {
        let id = translate::name(update, "toolCallId")?;
        if let Some((name, tool)) = translate::terminal(raw)
            && let Some(terminal) = followed(&mut self.terminals, name)
        {
            terminal.tool = Some(tool);
        }
        let terminals = |name: &str| {
            let bytes = &self.terminals.get(name)?.output.bytes;
            Some(String::from_utf8_lossy(bytes).into_owned()).filter(|text| !text.is_empty())
        };
        let mut told = translate::translate(raw, &terminals, &mut self.split)?;
        if update.get("content").is_some() {
            self.pieces.remove(&id);
        } else if let (Update::Tool(tool), Some(output)) = (&mut told, self.pieces.get_mut(&id))
            && matches!(tool.status.as_deref(), Some("completed" | "failed"))
        {
            tool.output = Some(output.all());
        }
        Some(told)
    }
}

fn followed<T: Default>(all: &mut HashMap<String, T>, id: String) -> Option<&mut T> {
    if all.len() >= MOST_FOLLOWED && !all.contains_key(&id) {
        return None;
    }
    Some(all.entry(id).or_default())
}

/// What base64 stands for; nothing from the first character on that does not belong there.
fn base64(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut held, mut bits) = (0_u32, 0);
    for character in text.bytes() {
        let value = match character {
            b'A'..=b'Z' => character - b'A',
            b'a'..=b'z' => character - b'a' + 26,
            b'0'..=b'9' => character - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => break,
        };
        held = held << 6 | u32::from(value);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits & 0xFF).to_le_bytes()[0]);
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(updates: &[Value]) -> String {
        let mut translator = Translator::default();
        let said = updates.iter().filter_map(|raw| translator.translate(&raw.to_string()));
        said.filter_map(|update| match update {
            Update::Text { text } => Some(text),
            _ => None,
        })
        .collect()
    }

    fn chunk(id: &str, text: &str) -> Value {
        json!({ "sessionUpdate": "agent_message_chunk", "messageId": id,
            "content": { "type": "text", "text": text } })
    }

    fn whole(id: &str, text: &str) -> Value {
        let content =
            if text.is_empty() { json!([]) } else { json!([{ "type": "text", "text": text }]) };
        json!({ "sessionUpdate": "agent_message", "messageId": id, "content": content })
    }

    #[test]
    fn what_comes_whole_and_in_pieces_is_said_once() {
        // As claude replays it.
        assert_eq!(texts(&[whole("a", ""), chunk("a", "one "), chunk("a", "two")]), "one two");
        assert_eq!(texts(&[chunk("a", "one "), whole("a", "one two")]), "one two");
        assert_eq!(texts(&[whole("a", "one"), whole("a", "one"), chunk("a", " two")]), "one two");
        // Of two messages side by side.
        let mixed = [chunk("a", "x"), chunk("b", "y"), whole("a", "x"), whole("b", "yz")];
        assert_eq!(texts(&mixed), "xyz");
        // Nothing that was shown is taken back.
        assert_eq!(texts(&[chunk("a", "no"), whole("a", "yes"), chunk("a", "!")]), "no\n\nyes!");
        let user = json!({ "sessionUpdate": "user_message", "messageId": "u", "content": [] });
        assert_eq!(texts(&[user, chunk("", "x")]), "x");
    }

    #[test]
    fn terminals_of_the_agent_are_the_output_of_their_tools() {
        let mut translator = Translator::default();
        let mut take = |raw: Value| translator.translate(&raw.to_string());
        let output = |update: Option<Update>| match update {
            Some(Update::Tool(tool)) => tool.output,
            other => panic!("{other:?}"),
        };
        assert_eq!(take(json!({ "sessionUpdate": "terminal_update", "terminalId": "t" })), None);
        let tool = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "ls",
            "content": [{ "type": "terminal", "terminalId": "t" }] });
        assert_eq!(output(take(tool)), None);
        let chunk = |data: &str| json!({ "sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": data });
        // "ä" is cut in two.
        assert_eq!(take(chunk("YcM=")), None);
        assert_eq!(take(chunk("pA==")), None);
        let long = "QUFB".repeat(LEAST_GROWTH);
        assert_eq!(output(take(chunk(&long))).map(|text| text.len()), Some(3 + 3 * LEAST_GROWTH));
        assert_eq!(take(chunk("Qg==")), None);
        let ended = json!({ "sessionUpdate": "terminal_update", "terminalId": "t",
            "exitStatus": { "exitCode": 0 } });
        let all = output(take(ended)).unwrap();
        assert!(all.starts_with("aäA") && all.ends_with("AB"));
        let anew = json!({ "sessionUpdate": "terminal_update", "terminalId": "t",
            "output": { "data": "bmV3" }, "exitStatus": { "exitCode": 0 } });
        assert_eq!(output(take(anew)).as_deref(), Some("new"));
    }

    #[test]
    fn pieces_of_a_tool_s_output_are_joined_when_it_ends() {
        let mut translator = Translator::default();
        let mut take = |raw: Value| translator.translate(&raw.to_string());
        for text in ["one", "two"] {
            let content = json!({ "type": "content", "content": { "type": "text", "text": text } });
            let piece = json!({ "sessionUpdate": "tool_call_content_chunk", "toolCallId": "c", "content": content });
            assert_eq!(take(piece), None);
        }
        let ended = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed" });
        let Some(Update::Tool(tool)) = take(ended) else { panic!() };
        assert_eq!(tool.output.as_deref(), Some("one\ntwo"));
        let patch = json!({ "format": "unified", "text": "-old\n+new" });
        let changes = json!([{ "operation": "modify", "path": "/a/b" }]);
        let diff = json!([{ "type": "diff", "changes": changes, "patch": patch }]);
        let update =
            json!({ "sessionUpdate": "tool_call_update", "toolCallId": "d", "content": diff });
        let Some(Update::Tool(tool)) = take(update) else { panic!() };
        assert_eq!(tool.output.as_deref(), Some("modify /a/b\n-old\n+new"));
    }

    #[test]
    fn plans_and_ends_are_read() {
        let mut translator = Translator::default();
        let plan = json!({ "type": "items", "planId": "p", "entries": [{ "content": "x" }] });
        let update = json!({ "sessionUpdate": "plan_update", "plan": plan });
        let entries = json!([{ "content": "x" }]);
        assert_eq!(translator.translate(&update.to_string()), Some(Update::Plan { entries }));
        let unknown = json!({ "sessionUpdate": "plan_update", "plan": { "type": "file" } });
        assert!(matches!(translator.translate(&unknown.to_string()), Some(Update::Other { .. })));
        let idle =
            |more: &str| format!(r#"{{"sessionUpdate":"state_update","state":"idle"{more}}}"#);
        assert_eq!(state(&idle("")), Some(State::Idle));
        assert_eq!(
            state(r#"{"sessionUpdate":"state_update","state":"running"}"#),
            Some(State::Running)
        );
        assert_eq!(state(r#"{"sessionUpdate":"state_update","state":"_x"}"#), Some(State::Other));
        assert_eq!(state(r#"{"sessionUpdate":"x","y":"state_update"}"#), None);
        assert_eq!(stop(&idle("")).unwrap(), "end_turn");
        assert_eq!(stop(&idle(r#","stopReason":"cancelled""#)).unwrap(), "cancelled");
        let error = stop(&idle(r#","stopReason":"error","error":{"code":-7,"message":"m"}"#));
        assert_eq!(error.unwrap_err().code, -7);
        assert!(stop(&idle(r#","stopReason":"error""#)).is_err());
    }

    #[test]
    fn only_a_shape_of_version_2_is_version_2() {
        let spoken = |answer: &str| is_spoken(&Fields::parse(answer).unwrap());
        assert!(spoken(r#"{"protocolVersion":2,"info":{},"capabilities":{}}"#));
        assert!(!spoken(r#"{"protocolVersion":2,"agentCapabilities":{}}"#));
        assert!(!spoken(r#"{"protocolVersion":1,"info":{}}"#));
    }
}
