//! Translates `session/update` to [`Update`]; unknown updates are kept as they are.

use std::collections::BTreeMap;

use rethread_domain::turn::{MOST_OUTPUT_BYTES, MOST_RAW_BYTES, Tool, Update};
use rethread_engine::agents::Named;
use serde_json::{Map, Value};

use crate::diff::{self, Most};
use crate::frame::{self, Fields, SplitCharacter};

/// How much of titles, ids and the like is kept.
const MOST_NAME: usize = 4096;
/// How many options of an agent are looked at.
const MOST_OPTIONS: usize = 200;
/// More tokens than any turn has: larger numbers are nonsense, and could overflow.
const MOST_TOKENS: u64 = 1 << 50;

/// Returns the output of a terminal so far.
pub(crate) type Terminals<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Characters that are cut in two by the chunks of the two streams of a turn.
#[derive(Debug, Default)]
pub(crate) struct SplitCharacters {
    text: SplitCharacter,
    thought: SplitCharacter,
}

/// What an update of a running turn says; `None` if it does not belong to the conversation.
pub(crate) fn translate(
    raw: &str,
    terminals: Terminals<'_>,
    split: &mut SplitCharacters,
) -> Option<Update> {
    let update = Fields::parse(raw)?;
    let kind = update.text("sessionUpdate")?;
    let known = match kind.as_str() {
        "agent_message_chunk" => said(&update, &mut split.text).map(|text| Update::Text { text }),
        "agent_thought_chunk" => {
            said(&update, &mut split.thought).map(|text| Update::Thought { text })
        }
        "tool_call" | "tool_call_update" => tool(&update, terminals).map(Update::Tool),
        "plan" => {
            let entries = update.get("entries").map(kept);
            entries.filter(Value::is_array).map(|entries| Update::Plan { entries })
        }
        "usage_update" => context(&update),
        "session_info_update" => return title(&update),
        "current_mode_update" => name(&update, "currentModeId").map(|mode| Update::Mode { mode }),
        "config_option_update" => return current_mode(&update),
        // Live turns do not repeat the request, and if they do, we have it already.
        "user_message_chunk" | "available_commands_update" | "notice" => return None,
        _ => None,
    };
    match known {
        Some(Update::Text { text } | Update::Thought { text }) if text.is_empty() => None,
        known => Some(known.unwrap_or_else(|| other(raw))),
    }
}

/// What nobody knows, as it came.
pub(crate) fn other(raw: &str) -> Update {
    Update::Other { raw: kept(raw) }
}

/// As a tree of limited size.
fn kept(raw: &str) -> Value {
    frame::tree_within(raw, MOST_RAW_BYTES)
}

/// A short text.
pub(crate) fn name(fields: &Fields<'_>, name: &str) -> Option<String> {
    fields.text(name).map(shortened)
}

/// Cuts a text to the length of a name, and marks that.
pub(crate) fn shortened(mut text: String) -> String {
    if text.len() > MOST_NAME {
        text.truncate(text.floor_char_boundary(MOST_NAME));
        text.push('…');
    }
    text.shrink_to_fit();
    text
}

/// Whether a text may have been cut.
pub(crate) fn is_shortened(text: &str) -> bool {
    text.len() > MOST_NAME - '…'.len_utf8() && text.ends_with('…')
}

/// A part of a message in a replay.
pub(crate) struct Chunk {
    pub(crate) is_user: bool,
    pub(crate) text: String,
    /// The id of the message, if the agent gives one.
    pub(crate) message: Option<String>,
    /// Whether it is all of the message, as version 2 has it.
    pub(crate) is_whole: bool,
}

/// What was said, in a replay.
pub(crate) fn chunk(raw: &str, split: &mut SplitCharacter) -> Option<Chunk> {
    let update = Fields::parse(raw)?;
    let (is_user, is_whole) = match update.text("sessionUpdate")?.as_str() {
        "user_message_chunk" => (true, false),
        "agent_message_chunk" => (false, false),
        "user_message" => (true, true),
        "agent_message" => (false, true),
        _ => return None,
    };
    let message = name(&update, "messageId");
    Some(Chunk { is_user, text: said(&update, split)?, message, is_whole })
}

/// Title and mode, which also count outside of turns.
pub(crate) fn standing(raw: &str) -> Option<Update> {
    let update = Fields::parse(raw)?;
    match update.text("sessionUpdate")?.as_str() {
        "session_info_update" => title(&update),
        "current_mode_update" => name(&update, "currentModeId").map(|mode| Update::Mode { mode }),
        "config_option_update" => current_mode(&update),
        _ => None,
    }
}

fn title(update: &Fields<'_>) -> Option<Update> {
    name(update, "title").map(|title| Update::Title { title })
}

/// The values of the agent's options, if an update reports them.
pub(crate) fn options(raw: &str) -> BTreeMap<String, String> {
    const KIND: &str = "config_option_update";
    // Most updates are pieces of text, which need not be read twice.
    let update = if raw.contains(KIND) { Fields::parse(raw) } else { None };
    let update = update.filter(|update| update.text("sessionUpdate").as_deref() == Some(KIND));
    let options = update.as_ref().and_then(|update| update.get("configOptions"));
    let options = options.map(frame::elements).unwrap_or_default().into_iter().take(MOST_OPTIONS);
    let value = |option: Fields<'_>| {
        let raw = option.get("currentValue")?;
        let id = name(&option, "id").or_else(|| name(&option, "configId"))?;
        Some((id, frame::text(raw).unwrap_or_else(|| raw.to_owned())))
    };
    let values = options.filter_map(Fields::parse).filter_map(value);
    values.map(|(name, value)| (name, shortened(value))).collect()
}

/// The agent's own commands, if an update tells of them.
pub(crate) fn commands(raw: &str) -> Option<Vec<Named>> {
    const KIND: &str = "available_commands_update";
    let update = if raw.contains(KIND) { Fields::parse(raw) } else { None }?;
    if update.text("sessionUpdate").as_deref() != Some(KIND) {
        return None;
    }
    let commands = update.get("availableCommands").map(frame::elements).unwrap_or_default();
    let commands = commands.into_iter().take(MOST_OPTIONS).filter_map(Fields::parse);
    let named = |command: Fields<'_>| {
        let id = name(&command, "name")?.trim_start_matches('/').to_owned();
        Some(Named { id, name: name(&command, "description").unwrap_or_default() })
    };
    Some(commands.filter_map(named).collect())
}

fn current_mode(update: &Fields<'_>) -> Option<Update> {
    let options = frame::elements(update.get("configOptions")?);
    let mode = options.into_iter().filter_map(Fields::parse).find(|option| {
        option.text("category").or_else(|| option.text("id")).as_deref() == Some("mode")
    })?;
    name(&mode, "currentValue").map(|mode| Update::Mode { mode })
}

fn context(update: &Fields<'_>) -> Option<Update> {
    let (used, size) = (update.number("used")?, update.number("size")?);
    let cost = update.get("cost").and_then(Fields::parse).unwrap_or_default();
    let is_usd = cost.text("currency").is_none_or(|currency| currency.eq_ignore_ascii_case("usd"));
    let amount = cost.get("amount").and_then(|raw| serde_json::from_str::<f64>(raw).ok());
    let spent_usd = amount.filter(|amount| is_usd && amount.is_finite() && *amount >= 0.0);
    Some(Update::Context { used, size, spent_usd })
}

/// The tokens that the response to a prompt reports.
pub(crate) fn usage(answer: &str) -> Option<Update> {
    let usage = Fields::parse(answer)?;
    let usage = Fields::parse(usage.get("usage")?)?;
    let number = |name: &str| usage.number(name).map(|tokens| tokens.min(MOST_TOKENS));
    number("inputTokens").or(number("outputTokens"))?;
    let input = ["inputTokens", "cachedReadTokens", "cachedWriteTokens"];
    let input: u64 = input.iter().filter_map(|name| number(name)).sum();
    Some(Update::Usage {
        input_tokens: input.min(MOST_TOKENS),
        output_tokens: number("outputTokens").unwrap_or(0),
    })
}

/// The text of a chunk; empty if there is nothing to show.
fn said(update: &Fields<'_>, split: &mut SplitCharacter) -> Option<String> {
    let raw = update.get("content")?;
    let block = Fields::parse(raw).unwrap_or_default();
    let is_text = block.text("type").as_deref() == Some("text");
    match block.get("text").filter(|_| is_text) {
        Some(text) => split.join(text),
        None if raw.starts_with('"') => split.join(raw),
        None => content(raw),
    }
}

/// The text of a block of content, or of several; other kinds are only named.
pub(crate) fn content(raw: &str) -> Option<String> {
    if raw.starts_with('"') {
        return frame::text(raw);
    }
    if raw.starts_with('[') {
        return Some(frame::elements(raw).into_iter().filter_map(content).collect());
    }
    let block = Fields::parse(raw)?;
    match block.text("type").as_deref() {
        Some("text") => block.get("text").and_then(frame::text),
        Some("resource_link") => {
            block.text("uri").or_else(|| block.text("name")).map(|uri| format!("[{uri}]"))
        }
        Some("resource") => {
            let resource = Fields::parse(block.get("resource")?)?;
            resource.text("text").or_else(|| resource.text("uri").map(|uri| format!("[{uri}]")))
        }
        Some(kind @ ("image" | "audio")) => {
            let format = block.text("mimeType").unwrap_or_else(|| kind.to_owned());
            Some(format!("[{kind} {format}]"))
        }
        _ => None,
    }
}

fn tool(update: &Fields<'_>, terminals: Terminals<'_>) -> Option<Tool> {
    let id = name(update, "toolCallId")?;
    let output = update.get("content").map(|content| outputs(content, terminals));
    let output = output.filter(|output| !output.is_empty());
    let mut output = output.or_else(|| raw_output(update.get("rawOutput")?));
    if let Some(output) = output.as_mut().filter(|output| output.len() > MOST_OUTPUT_BYTES) {
        output.truncate(output.floor_char_boundary(MOST_OUTPUT_BYTES));
        output.shrink_to_fit();
    }
    let is_own = |name: &str| {
        matches!(name, "sessionUpdate" | "toolCallId" | "title" | "kind" | "status" | "content")
    };
    let rest = update.iter().filter(|(name, raw)| !is_own(name) && *raw != "null");
    let mut room = MOST_RAW_BYTES;
    let raw = rest.map(|(name, raw)| {
        let value = frame::tree_within(raw, room);
        room = room.saturating_sub(raw.len());
        (name.to_owned(), value)
    });
    let raw: Map<String, Value> = raw.collect();
    let (title, kind, status) =
        (name(update, "title"), name(update, "kind"), name(update, "status"));
    Some(Tool { id, title, kind, status, output, raw })
}

/// The terminal that is all of a tool's output.
pub(crate) fn terminal(raw: &str) -> Option<(String, String)> {
    let update = Fields::parse(raw)?;
    let content = frame::elements(update.get("content")?);
    let [only] = content.as_slice() else { return None };
    let only = Fields::parse(only)?;
    let is_terminal = only.text("type").as_deref() == Some("terminal");
    if is_terminal { Some((only.text("terminalId")?, name(&update, "toolCallId")?)) } else { None }
}

/// What the content of a tool call says.
pub(crate) fn outputs(raw: &str, terminals: Terminals<'_>) -> String {
    let parts = frame::elements(raw).into_iter().filter_map(|part| {
        let fields = Fields::parse(part)?;
        match fields.text("type").as_deref() {
            Some("content") => content(fields.get("content")?),
            Some("diff") => Some(edited(&fields, diff::KEPT)),
            Some("terminal") => terminals(&fields.text("terminalId")?),
            _ => content(part),
        }
    });
    parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Some agents put a tool's output only here.
fn raw_output(raw: &str) -> Option<String> {
    if raw.starts_with('"') {
        return frame::text(raw);
    }
    let fields = Fields::parse(raw)?;
    ["output", "formatted_output", "stdout", "text"].iter().find_map(|name| fields.text(name))
}

/// What a change to a file took away and put in, without the lines around it.
pub(crate) fn edited(change: &Fields<'_>, most: Most) -> String {
    if let Some(changes) = change.get("changes") {
        return patched(changes, change.get("patch").and_then(Fields::parse), most);
    }
    let path = change.text("path").unwrap_or_default();
    let (old, new) = (change.text("oldText"), change.text("newText").unwrap_or_default());
    diff::changed(&path, old.as_deref(), &new, most)
}

/// Changes as version 2 has them: of each file what is done to it, and a patch of all.
fn patched(changes: &str, whole: Option<Fields<'_>>, most: Most) -> String {
    let files = frame::elements(changes).into_iter().filter_map(Fields::parse).map(|change| {
        let path = change.text("path").unwrap_or_default();
        format!("{} {path}", change.text("operation").unwrap_or_default())
    });
    let mut text = files.take(most.lines).collect::<Vec<_>>().join(
        "
",
    );
    if let Some(whole) = whole.and_then(|whole| whole.text("text")) {
        let shown = &whole[..whole.floor_char_boundary(most.bytes)];
        let cut = if shown.len() < whole.len() {
            "
…"
        } else {
            ""
        };
        text.push_str(&format!(
            "
{}{cut}",
            shown.trim_end()
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn translated(raw: Value) -> Option<Update> {
        let terminals = |id: &str| (id == "t").then(|| "output of t".to_owned());
        translate(&raw.to_string(), &terminals, &mut SplitCharacters::default())
    }

    fn output(content: Value) -> Option<String> {
        let raw = json!({ "sessionUpdate": "tool_call", "toolCallId": "1", "content": content });
        match translated(raw) {
            Some(Update::Tool(tool)) => tool.output,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn texts_come_in_many_shapes() {
        for (content, expected) in [
            (json!({ "type": "text", "text": "a" }), "a"),
            (json!("a"), "a"),
            (json!([{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }]), "ab"),
            (json!({ "type": "resource_link", "uri": "file:///a", "name": "a" }), "[file:///a]"),
            (json!({ "type": "resource", "resource": { "uri": "x:a", "text": "A" } }), "A"),
            (json!({ "type": "image", "mimeType": "image/png", "data": "" }), "[image image/png]"),
        ] {
            let chunk = |kind: &str| json!({ "sessionUpdate": kind, "content": content });
            let text = expected.to_owned();
            assert_eq!(translated(chunk("agent_message_chunk")), Some(Update::Text { text }));
            let text = expected.to_owned();
            assert_eq!(translated(chunk("agent_thought_chunk")), Some(Update::Thought { text }));
            assert_eq!(translated(chunk("user_message_chunk")), None);
            let replayed = chunk("user_message_chunk").to_string();
            let replayed = super::chunk(&replayed, &mut SplitCharacter::default()).unwrap();
            assert_eq!((replayed.is_user, replayed.text.as_str()), (true, expected));
        }
    }

    #[test]
    fn what_says_nothing_is_left_out_and_what_is_unknown_is_kept() {
        let empty = json!({ "type": "text", "text": "" });
        for raw in [
            json!({ "sessionUpdate": "agent_message_chunk", "content": empty }),
            json!({ "sessionUpdate": "available_commands_update", "availableCommands": [] }),
            json!({ "sessionUpdate": "notice" }),
            json!({ "sessionUpdate": "session_info_update", "updatedAt": "x" }),
            json!({ "sessionUpdate": 1 }),
            json!({}),
            json!([]),
        ] {
            assert_eq!(translated(raw.clone()), None, "{raw}");
        }
        for raw in [
            json!({ "sessionUpdate": "dance", "steps": 3 }),
            json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "smell" } }),
            json!({ "sessionUpdate": "agent_message_chunk" }),
            json!({ "sessionUpdate": "tool_call", "title": "without an id" }),
            json!({ "sessionUpdate": "plan", "entries": 1 }),
            json!({ "sessionUpdate": "usage_update", "used": -1 }),
        ] {
            assert_eq!(translated(raw.clone()), Some(Update::Other { raw }));
        }
    }

    #[test]
    fn a_tool_call_keeps_all_that_was_sent_of_it() {
        let raw = json!({
            "sessionUpdate": "tool_call_update", "toolCallId": "1", "title": "ls", "kind": "execute",
            "status": "completed", "content": [], "rawInput": { "a": 1 }, "new": true, "none": null,
        });
        let Some(Update::Tool(tool)) = translated(raw) else { panic!() };
        assert_eq!(
            (tool.title.as_deref(), tool.status.as_deref()),
            (Some("ls"), Some("completed"))
        );
        assert_eq!(tool.output, None);
        assert_eq!(Value::Object(tool.raw), json!({ "rawInput": { "a": 1 }, "new": true }));
    }

    #[test]
    fn a_tool_s_output_is_text_whatever_it_was() {
        let text = json!({ "type": "content", "content": { "type": "text", "text": "found" } });
        let terminal = json!({ "type": "terminal", "terminalId": "t" });
        assert_eq!(output(json!([text, terminal])).as_deref(), Some("found\noutput of t"));
        assert_eq!(output(json!([{ "type": "terminal", "terminalId": "gone" }])), None);
        let diff = json!({ "type": "diff", "path": "/a", "oldText": "1\n2\n3\n", "newText": "1\nII\n3\n" });
        assert_eq!(output(json!([diff])).as_deref(), Some("edited /a\n-2\n+II"));
        let new = json!({ "type": "diff", "path": "/a", "oldText": null, "newText": "1\n2" });
        assert_eq!(output(json!([new])).as_deref(), Some("wrote /a\n+1\n+2"));
        let long = json!({ "type": "diff", "path": "/a", "newText": "x\n".repeat(1000) });
        assert!(output(json!([long])).unwrap().len() < 1000);
        let raw = json!({ "sessionUpdate": "tool_call", "toolCallId": "1", "rawOutput": { "output": "o" } });
        assert!(
            matches!(translated(raw), Some(Update::Tool(Tool { output: Some(o), .. })) if o == "o")
        );
    }

    #[test]
    fn counts_titles_and_modes_are_read() {
        let cost = json!({ "amount": 0.5, "currency": "USD" });
        let raw = json!({ "sessionUpdate": "usage_update", "used": 5, "size": 9, "cost": cost });
        let context = Update::Context { used: 5, size: 9, spent_usd: Some(0.5) };
        assert_eq!(translated(raw), Some(context));
        let raw = json!({ "sessionUpdate": "session_info_update", "title": "T" });
        assert_eq!(translated(raw), Some(Update::Title { title: "T".to_owned() }));
        let mode = Some(Update::Mode { mode: "code".to_owned() });
        let raw = json!({ "sessionUpdate": "current_mode_update", "currentModeId": "code" });
        assert_eq!(translated(raw), mode);
        let option = json!({ "id": "m", "category": "mode", "currentValue": "code" });
        let raw = json!({ "sessionUpdate": "config_option_update", "configOptions": [option] });
        assert_eq!(translated(raw.clone()), mode);
        assert_eq!(standing(&raw.to_string()), mode);
        let answer = r#"{"stopReason":"end_turn","usage":{"inputTokens":3,"outputTokens":4,"cachedReadTokens":5}}"#;
        assert_eq!(usage(answer), Some(Update::Usage { input_tokens: 8, output_tokens: 4 }));
        assert_eq!(usage(r#"{"stopReason":"end_turn"}"#), None);
        let most = u64::MAX;
        let answer = format!(
            r#"{{"usage":{{"inputTokens":{most},"cachedReadTokens":{most},"cachedWriteTokens":{most}}}}}"#
        );
        let most = Update::Usage { input_tokens: MOST_TOKENS, output_tokens: 0 };
        assert_eq!(usage(&answer), Some(most));
    }

    #[test]
    fn an_agent_tells_of_its_commands() {
        let all = json!([{ "name": "compact", "description": "Sum up" }, { "name": "/init" }, { "x": 1 }]);
        let raw = json!({ "sessionUpdate": "available_commands_update", "availableCommands": all });
        let named = |id: &str, name: &str| Named { id: id.into(), name: name.into() };
        let expected = vec![named("compact", "Sum up"), named("init", "")];
        assert_eq!(commands(&raw.to_string()), Some(expected));
        let said = json!({ "sessionUpdate": "agent_message_chunk", "content": "available_commands_update" });
        assert_eq!(commands(&said.to_string()), None);
    }

    #[test]
    fn a_million_members_do_not_hurt() {
        let members: Vec<String> = (0..1_000_000).map(|n| format!("\"k{n}\":0")).collect();
        let raw = format!("{{\"sessionUpdate\":\"dance\",{}}}", members.join(","));
        let update = translate(&raw, &|_| None, &mut SplitCharacters::default());
        let Some(Update::Other { raw }) = update else { panic!() };
        assert!(raw.is_string());
    }
}
