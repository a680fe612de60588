//! What agents tell their hooks, and how a hook answers: one table for all of them. Pure.

use std::path::PathBuf;

use rethread_domain::retell::without_earlier;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::blocks;
use crate::json::Text;

/// What a hook is called for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// A session begins or is taken up again.
    Start,
    /// The user has asked something; the model has not been called yet.
    Prompt,
    /// A tool was used, or an agent that was started has finished.
    Step,
    /// The agent is about to sum up what was said.
    Compact,
    /// A turn is over.
    Stop,
    /// The session is closed.
    End,
}

/// The events of an agent that are asked for, by its own names.
pub type Events = &'static [(&'static str, Moment)];

const CLAUDE: Events = &[
    ("SessionStart", Moment::Start),
    ("UserPromptSubmit", Moment::Prompt),
    ("PostToolUse", Moment::Step),
    ("SubagentStop", Moment::Step),
    ("PreCompact", Moment::Compact),
    ("Stop", Moment::Stop),
    ("SessionEnd", Moment::End),
];
const CODEX: Events = &[
    ("SessionStart", Moment::Start),
    ("UserPromptSubmit", Moment::Prompt),
    ("PostToolUse", Moment::Step),
    ("PreCompact", Moment::Compact),
    ("Stop", Moment::Stop),
    ("SessionEnd", Moment::End),
];
const GEMINI: Events = &[
    ("SessionStart", Moment::Start),
    ("BeforeAgent", Moment::Prompt),
    ("AfterTool", Moment::Step),
    ("PreCompress", Moment::Compact),
    ("AfterAgent", Moment::Stop),
    ("SessionEnd", Moment::End),
];
const COPILOT: Events = &[
    ("sessionStart", Moment::Start),
    ("userPromptSubmitted", Moment::Prompt),
    ("postToolUse", Moment::Step),
    ("agentStop", Moment::Stop),
    ("sessionEnd", Moment::End),
];
const KIMI: Events = &[
    ("SessionStart", Moment::Start),
    ("UserPromptSubmit", Moment::Prompt),
    ("PostToolUse", Moment::Step),
    ("Stop", Moment::Stop),
    ("SessionEnd", Moment::End),
];

/// What our own plugin tells, in agents that load one.
const PLUGIN: Events = &[
    ("prompt", Moment::Prompt),
    ("compact", Moment::Compact),
    ("stop", Moment::Stop),
    ("end", Moment::End),
];

/// The agents whose hooks are known, by the names that Rethread knows them by.
pub const AGENTS_WITH_HOOKS: &[&str] =
    &["claude", "codex", "gemini", "qwen", "copilot", "kimi", "goose", "opencode", "kilo", "pi"];

/// The events of an agent; none where it has no hooks that are known.
pub fn events(agent: &str) -> Events {
    match agent {
        "claude" | "qwen" => CLAUDE,
        "codex" => CODEX,
        "gemini" => GEMINI,
        "copilot" => COPILOT,
        "kimi" | "goose" => KIMI,
        "opencode" | "kilo" | "pi" => PLUGIN,
        _ => &[],
    }
}

/// Whether the agent writes the last of a turn down only after this call.
pub fn comes_early(call: &Call) -> bool {
    matches!(call.agent, "copilot" | "kimi") && matches!(call.moment, Moment::Stop | Moment::End)
}

/// What a hook was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub agent: &'static str,
    pub event: &'static str,
    pub moment: Moment,
    /// The id that the agent knows its session by.
    pub native: String,
    /// Where the agent keeps it, where it says so. The file need not be there yet.
    pub transcript: Option<PathBuf>,
    /// The same of an agent that this one started.
    pub child: Option<PathBuf>,
    pub folder: Option<String>,
    /// What the user asked, without what was injected.
    pub prompt: Option<String>,
    /// Tells prompts apart that say the same.
    pub prompt_id: Option<String>,
    /// The last answer.
    pub answer: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Input {
    #[serde(alias = "sessionId")]
    session_id: Text,
    #[serde(alias = "transcriptPath")]
    transcript_path: Text,
    agent_transcript_path: Text,
    #[serde(alias = "working_dir")]
    cwd: Text,
    #[serde(alias = "message")]
    prompt: Value,
    #[serde(alias = "turn_id")]
    prompt_id: Text,
    last_assistant_message: Text,
}

/// The longest id of a session that is believed.
const LONGEST_ID: usize = 200;

/// Reads what an agent passes to its hook.
pub fn read(agent: &str, event: &str, input: &[u8]) -> Result<Call, String> {
    let agent = AGENTS_WITH_HOOKS.iter().find(|known| **known == agent);
    let agent = agent.ok_or_else(|| "the hooks of this agent are not known".to_owned())?;
    let known = events(agent).iter().find(|(name, _)| *name == event);
    let (event, moment) = known.ok_or_else(|| format!("{agent} has no event of this name"))?;
    let input = input.strip_prefix(b"\xef\xbb\xbf").unwrap_or(input);
    let input: Input =
        serde_json::from_slice(input).map_err(|error| format!("what {agent} passed: {error}"))?;
    let is_usable = |id: &&str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
        id.len() <= LONGEST_ID && id.chars().all(is_plain) && !id.contains("..")
    };
    let native = input.session_id.as_str().filter(is_usable);
    let native = native.ok_or_else(|| format!("{agent} passed no usable id of a session"))?;
    let path = |text: &Text| text.as_str().map(PathBuf::from).filter(|path| path.is_absolute());
    let (prompt, _) = blocks::read(&input.prompt);
    let prompt = without_earlier(&prompt).trim().to_owned();
    // Gemini repeats itself in what it says of its answer: the transcript has it.
    Ok(Call {
        agent,
        event,
        moment: *moment,
        native: native.to_owned(),
        transcript: path(&input.transcript_path),
        child: path(&input.agent_transcript_path),
        folder: input.cwd.owned().filter(|folder| folder.starts_with('/')),
        prompt: Some(prompt).filter(|prompt| !prompt.is_empty()),
        prompt_id: input.prompt_id.owned(),
        answer: input.last_assistant_message.owned(),
    })
}

/// A piece of an answer, from our own plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    pub native: String,
    pub text: String,
    /// Whether it was only thought.
    pub is_thought: bool,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct SaidInput {
    event: Text,
    session_id: Text,
    text: Text,
    thought: Text,
}

/// A line of our own plugin: a piece of an answer, or a call.
pub fn read_line(agent: &str, line: &[u8]) -> Result<Result<Said, Call>, String> {
    let input: SaidInput =
        serde_json::from_slice(line).map_err(|error| format!("what {agent} passed: {error}"))?;
    let event = input.event.as_str().unwrap_or_default();
    if event != "said" {
        return read(agent, event, line).map(Err);
    }
    let native = input.session_id.owned().unwrap_or_default();
    let is_thought = input.text.as_str().is_none();
    let text = input.text.owned().or(input.thought.owned()).unwrap_or_default();
    Ok(Ok(Said { native, text, is_thought }))
}

/// What a hook prints so that its agent tells the model a context, and the user that it did; nothing where the agent
/// takes none.
pub fn injection(call: &Call, context: &str, note: &str) -> Option<String> {
    let answer = match call.agent {
        "claude" | "codex" | "qwen" | "gemini" => json!({
            "hookSpecificOutput": {"hookEventName": call.event, "additionalContext": context},
            "systemMessage": note,
        }),
        "copilot" => json!({"additionalContext": context}),
        "kimi" => return Some(context.to_owned()),
        _ => return None,
    };
    Some(answer.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_agents_own_words_are_understood() {
        let call = |agent: &str, event: &str, input: Value| {
            read(agent, event, input.to_string().as_bytes()).unwrap()
        };
        let claude = call(
            "claude",
            "UserPromptSubmit",
            json!({"session_id": "a-1", "transcript_path": "/t/a.jsonl", "cwd": "/w", "prompt": " Why? ", "prompt_id": "p"}),
        );
        assert_eq!((claude.native.as_str(), claude.moment), ("a-1", Moment::Prompt));
        assert_eq!(claude.transcript, Some(PathBuf::from("/t/a.jsonl")));
        assert_eq!(
            (claude.prompt.as_deref(), claude.prompt_id.as_deref()),
            (Some("Why?"), Some("p"))
        );
        let copilot = call(
            "copilot",
            "userPromptSubmitted",
            json!({"sessionId": "b", "cwd": "/w", "prompt": "Why?"}),
        );
        assert_eq!((copilot.native.as_str(), copilot.prompt.as_deref()), ("b", Some("Why?")));
        let kimi = call(
            "kimi",
            "UserPromptSubmit",
            json!({"session_id": "c", "cwd": "/w", "prompt": [{"type": "text", "text": "Why?"}]}),
        );
        assert_eq!(kimi.prompt.as_deref(), Some("Why?"));
        let goose = call(
            "goose",
            "Stop",
            json!({"session_id": "20261117_1", "last_assistant_message": "So.", "working_dir": "/w"}),
        );
        assert_eq!((goose.answer.as_deref(), goose.folder.as_deref()), (Some("So."), Some("/w")));
        let codex = call("codex", "Stop", json!({"session_id": "d", "turn_id": "t"}));
        assert_eq!(codex.prompt_id.as_deref(), Some("t"));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for input in [
            "",
            "{",
            "[]",
            "{}",
            "{\"session_id\": 7}",
            "{\"session_id\": \"\"}",
            "{\"session_id\": \"../../etc\"}",
            "{\"session_id\": \"a/b\"}",
            "{\"session_id\": \"a\\u0000b\"}",
            "\u{0}\u{0}",
        ] {
            assert!(read("claude", "Stop", input.as_bytes()).is_err(), "{input:?}");
        }
        let deep = format!("{{\"session_id\":\"a\",\"tool_response\":{}", "[".repeat(100_000));
        assert!(read("claude", "Stop", deep.as_bytes()).is_err());
        let long = format!("{{\"session_id\":{:?}}}", "a".repeat(LONGEST_ID + 1));
        assert!(read("claude", "Stop", long.as_bytes()).is_err());
        assert!(read("claude", "Sunrise", b"{\"session_id\":\"a\"}").is_err());
        assert!(read("emacs", "Stop", b"{\"session_id\":\"a\"}").is_err());
        let odd =
            br#"{"session_id":"a","transcript_path":["x"],"cwd":"relative","prompt":{"x":1}}"#;
        let odd = read("claude", "UserPromptSubmit", odd).unwrap();
        assert_eq!((odd.transcript, odd.folder), (None, None));
    }
}
