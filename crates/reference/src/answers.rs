//! What can be said to the agent, and what it knows to answer.
//!
//! | last text block of the prompt | answer |
//! |---|---|
//! | … `what was the passkey` … | `The passkey is X`: the last `PASSKEY-…` it was told in any block, else `I don't know the passkey` |
//! | `say: TEXT` | TEXT |
//! | `stream: N` | `word1 word2 …`, N chunks |
//! | `think: TEXT` | a thought |
//! | `tool: TITLE` | a tool call |
//! | `ask: TITLE` | asks for permission; `allowed`, `rejected` or `cancelled` |
//! | `ask as: JSON` | asks with a tool call of these fields, such as `title`, `kind`, `rawInput`, `locations` and `content` |
//! | `ask after: JSON` | the same, but the fields come in an update before, and the question has the id only |
//! | `ask both: A, B` | asks for two permissions at once; what was chosen for each |
//! | `plan: A, B` | a plan |
//! | `title: T` | a title for the session |
//! | `read: PATH`, `write: PATH=TEXT` | asks the client for the file; its content, `written`, or `error CODE MESSAGE` |
//! | `run: CMD ARGS` | runs it in a terminal of the client; its output, or `(no output)` |
//! | `shell: LINE` | the same, with the whole line as the command and no arguments |
//! | `ask shell: LINE` | asks for permission to run the line, then runs it |
//! | `twice run: CMD ARGS`, `asked run: CMD ARGS` | runs it twice, or asks for permission first; `done twice`, `done once` |
//! | `mode?` | `mode M model X` |
//! | `env: NAME` | that variable, or `unset` |
//! | `cwd?`, `process cwd?` | the folder of the session, of the process |
//! | `told?` | everything it was told in this session, this included, as JSON |
//! | `unknown update` | an update of a kind that nobody knows, and one with fields that nobody knows |
//! | `deep: WHERE N`, … ` hang` | something nested N deep: in an `update` of no known kind, in the arguments of a `tool`, or `hidden` in a text that some parsers expand; with `hang` it says `sent` and then nothing |
//! | `large: N BYTES` | N chunks of so many bytes each |
//! | `hang` | nothing, until it is cancelled |
//! | `die` | half of an answer, then it exits with 3 |
//! | `exit` | exits before it answers |
//! | lines `do: STEP` | the steps, one after the other: see `script` |
//! | anything else, and after a thought, tool call, plan, title | `ACK: I was told N messages` |

use serde_json::Value;

use crate::session::{Session, told};

/// What a prompt asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ask {
    Passkey,
    Say(String),
    Stream(u64),
    Think(String),
    Tool(String),
    Permission(String),
    PermissionAs { call: String, is_told_before: bool },
    Permissions(Vec<String>),
    Plan(String),
    Title(String),
    Read(String),
    Write { path: String, text: String },
    Run { command: String, args: Vec<String> },
    Shell(String),
    ShellAsked(String),
    RunTwice { command: String, args: Vec<String> },
    RunAsked { command: String, args: Vec<String> },
    Mode,
    Environment(String),
    Cwd,
    ProcessCwd,
    Told,
    UnknownUpdate,
    Deep { place: String, levels: usize, hangs: bool },
    Large { chunks: u64, bytes: usize },
    Hang,
    Die,
    Exit,
    Other,
}

/// Reads what the last text block of a prompt asks for.
pub(crate) fn ask(blocks: &[Value]) -> Ask {
    let mut texts = blocks.iter().filter_map(told).filter(|told| told.kind == "text");
    let text = texts.next_back().map(|told| told.text).unwrap_or_default();
    let text = text.trim();
    let command = text.split_once(':').and_then(|(name, rest)| command(name, rest.trim()));
    command.unwrap_or_else(|| match text {
        "mode?" => Ask::Mode,
        "cwd?" => Ask::Cwd,
        "process cwd?" => Ask::ProcessCwd,
        "told?" => Ask::Told,
        "unknown update" => Ask::UnknownUpdate,
        "hang" => Ask::Hang,
        "die" => Ask::Die,
        "exit" => Ask::Exit,
        _ if text.to_lowercase().contains("what was the passkey") => Ask::Passkey,
        _ => Ask::Other,
    })
}

/// The last passkey that the session was told.
pub(crate) fn passkey(session: &Session) -> String {
    let told = session.prompts().flatten().filter_map(told);
    let found = told.filter_map(|told| last_passkey(told.text)).last();
    found.map_or_else(
        || "I don't know the passkey".to_owned(),
        |key| format!("The passkey is {key}"),
    )
}

/// Everything the session was told, as JSON.
pub(crate) fn told_as_json(session: &Session) -> String {
    let told: Vec<_> = session.prompts().flatten().filter_map(told).collect();
    serde_json::to_string(&told).unwrap_or_default()
}

/// The answer to what asks for nothing.
pub(crate) fn acknowledgement(session: &Session) -> String {
    match session.prompts().count() {
        1 => "ACK: I was told 1 message".to_owned(),
        count => format!("ACK: I was told {count} messages"),
    }
}

fn command(name: &str, rest: &str) -> Option<Ask> {
    let text = rest.to_owned();
    Some(match name {
        "say" => Ask::Say(text),
        "stream" => Ask::Stream(rest.parse().ok()?),
        "think" => Ask::Think(text),
        "tool" => Ask::Tool(text),
        "ask" => Ask::Permission(text),
        "ask as" => Ask::PermissionAs { call: text, is_told_before: false },
        "ask after" => Ask::PermissionAs { call: text, is_told_before: true },
        "shell" => Ask::Shell(text),
        "ask shell" => Ask::ShellAsked(text),
        "ask both" => {
            Ask::Permissions(rest.split(',').map(|title| title.trim().to_owned()).collect())
        }
        "plan" => Ask::Plan(text),
        "title" => Ask::Title(text),
        "read" => Ask::Read(text),
        "write" => {
            let (path, text) = rest.split_once('=')?;
            Ask::Write { path: path.to_owned(), text: text.to_owned() }
        }
        "run" => {
            let (command, args) = words(rest)?;
            Ask::Run { command, args }
        }
        "twice run" => {
            let (command, args) = words(rest)?;
            Ask::RunTwice { command, args }
        }
        "asked run" => {
            let (command, args) = words(rest)?;
            Ask::RunAsked { command, args }
        }
        "env" => Ask::Environment(text),
        "deep" => {
            let mut words = rest.split_whitespace();
            Ask::Deep {
                place: words.next()?.to_owned(),
                levels: words.next()?.parse().ok()?,
                hangs: words.next() == Some("hang"),
            }
        }
        "large" => {
            let (chunks, bytes) = rest.split_once(' ')?;
            Ask::Large { chunks: chunks.parse().ok()?, bytes: bytes.parse().ok()? }
        }
        _ => return None,
    })
}

fn words(command: &str) -> Option<(String, Vec<String>)> {
    let mut words = command.split_whitespace().map(str::to_owned);
    Some((words.next()?, words.collect()))
}

fn last_passkey(text: &str) -> Option<&str> {
    const START: &str = "PASSKEY-";
    let belongs = |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
    let keys = text.match_indices(START).filter_map(|(at, _)| {
        let key = &text[at..];
        let end = key.find(|character| !belongs(character)).unwrap_or(key.len());
        (end > START.len()).then(|| &key[..end])
    });
    keys.last()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ask_text(text: &str) -> Ask {
        ask(&[json!({ "type": "text", "text": text })])
    }

    #[test]
    fn the_last_passkey_counts() {
        assert_eq!(last_passkey("PASSKEY-a then PASSKEY-b_2-C."), Some("PASSKEY-b_2-C"));
        assert_eq!(last_passkey("PASSKEY-a, not PASSKEY-"), Some("PASSKEY-a"));
        assert_eq!(last_passkey("PASSKEY- PASS"), None);
    }

    #[test]
    fn the_last_text_block_decides() {
        let text = |text: &str| json!({ "type": "text", "text": text });
        let link = json!({ "type": "resource_link", "uri": "file:///a", "name": "a" });
        assert_eq!(
            ask(&[text("die"), text("say: hello: you"), link]),
            Ask::Say("hello: you".into())
        );
        assert_eq!(ask(&[]), Ask::Other);
    }

    #[test]
    fn what_is_no_command_is_other() {
        assert_eq!(ask_text("So, What was the PASSKEY?"), Ask::Passkey);
        assert_eq!(ask_text("stream: many"), Ask::Other);
        assert_eq!(ask_text("note: say: x"), Ask::Other);
        assert_eq!(
            ask_text("run: ls -l /"),
            Ask::Run { command: "ls".into(), args: vec!["-l".into(), "/".into()] }
        );
        assert_eq!(ask_text("write: /a=b=c"), Ask::Write { path: "/a".into(), text: "b=c".into() });
    }
}
