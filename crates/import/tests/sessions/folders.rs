//! Formats whose sessions are folders, or lie in projects: what was said, in which conversation, with what.

use std::path::Path;

use crate::common::{fixture, found, main_of, other, read_all, read_file, read_on, texts};
use rethread_domain::conversation::TitleFrom;
use rethread_import::{COMPACTED, KEPT, Roots, find, look_at};
use rusqlite::Connection;
use serde_json::json;

const SLOW: (&str, TitleFrom) = ("The slow till", TitleFrom::Person);

fn titled(session: &crate::common::Session) -> Option<(&str, TitleFrom)> {
    session.head.title.as_ref().map(|(title, from)| (title.as_str(), *from))
}

#[test]
fn kimi_takes_turns_back_and_is_compacted() {
    let folder = fixture("kimi/session_1/agents");
    let session = read_file("kimi", &folder.join("main/wire.jsonl"));
    assert_eq!(
        texts(&session),
        [
            "main user: Why is the till slow?",
            "main tool: Bash: ls / till.py / ",
            "main assistant: It prints.",
            "branch-1 user: A turn that is taken back.",
            "branch-1 assistant: An answer that is taken back.",
            "main user: Another question.",
            "main assistant: Another answer.",
            "main system: The till prints.",
            "main user: Go on.",
            "main tool: Bash: make (unanswered)",
        ]
    );
    assert_eq!((session.head.native.as_str(), titled(&session)), ("session_1", Some(SLOW)));
    assert_eq!(session.head.folder.as_deref(), Some("/home/ann/shop"));
    assert_eq!(session.head.model.as_deref(), Some("kimi-k3"));
    assert_eq!(other(&session, "The till prints", KEPT).unwrap(), &json!(["msg_7"]));
    assert_eq!(other(&session, "Bash: ls", "thoughts").unwrap(), "Look first.");
    let answer = session.messages.iter().find(|one| one.content == "It prints.").unwrap();
    assert_eq!(answer.extras.usage.unwrap().input_tokens, 15);
    let child = read_file("kimi", &folder.join("agent-1/wire.jsonl"));
    assert_eq!(child.head.parent.as_deref(), Some("session_1"));
    assert_eq!(texts(&child), ["main user: Look for prices.", "main assistant: None found."]);
}

#[test]
fn kimi_is_read_on_from_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wire.jsonl");
    let whole = std::fs::read_to_string(fixture("kimi/session_1/agents/main/wire.jsonl")).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let until = lines.iter().position(|line| line.contains("is taken back")).unwrap();
    std::fs::write(&path, lines[..until].join("\n") + "\n").unwrap();
    let cursor = read_file("kimi", &path).cursor.unwrap();
    let more = lines[..=until].join("\n") + "\n";
    std::fs::write(&path, more).unwrap();
    let second = read_on("kimi", &path, &cursor);
    assert!(second.is_continued);
    assert_eq!(texts(&second), ["main user: A turn that is taken back."]);
}

#[test]
fn cline_unwraps_prompts_and_tells_its_last_summary() {
    let session = read_file("cline", &fixture("cline/1_a/1_a.messages.json"));
    assert_eq!(
        main_of(&session),
        [
            "user: Why is the till slow?",
            "tool: run_commands: ls / till.py / ",
            "assistant: It prints.",
            "system: The till prints.",
            "user: Go on. / [image/png, 9 bytes]",
            "assistant: Going on.",
        ]
    );
    assert_eq!(titled(&session), Some(("The slow till", TitleFrom::Agent)));
    assert_eq!(session.head.branch.as_deref(), Some("till"));
    assert_eq!(session.head.version.as_deref(), Some("3.0.65"));
    assert_eq!(other(&session, "The till prints", COMPACTED).unwrap(), true);
    assert_eq!(other(&session, "The till prints", KEPT).unwrap(), &json!(["m4"]));
    let answer = session.messages.iter().find(|one| one.content == "It prints.").unwrap();
    assert_eq!(answer.extras.usage.unwrap().cost_usd, Some(0.25));
}

#[test]
fn fast_agent_is_found_in_projects() {
    let project = tempfile::tempdir().unwrap();
    let kept = project.path().join(".fast-agent/sessions/2603011000-abcdef");
    std::fs::create_dir_all(&kept).unwrap();
    for name in ["session.json", "history_agent.json"] {
        let from = fixture("fast-agent/2603011000-abcdef").join(name);
        std::fs::copy(from, kept.join(name)).unwrap();
    }
    let roots = Roots { projects: vec![project.path().to_owned()], ..Roots::default() };
    let (all, closed) = find("fast-agent", &roots);
    assert!(closed.is_empty());
    let sessions = read_all(all);
    assert_eq!(sessions.len(), 1);
    let session = &sessions[0];
    assert_eq!(
        main_of(session),
        [
            "user: Why is the till slow?",
            "tool: bash: ls / till.py",
            "assistant: It prints.",
            "user: See this. / [image/png, 9 bytes]",
        ]
    );
    assert_eq!(session.head.native, "2603011000-abcdef");
    assert_eq!(titled(session), Some(SLOW));
    assert_eq!(other(session, "bash: ls", "thoughts").unwrap(), "Look first.");
    let usage = session.messages[2].extras.usage.unwrap();
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.cost_usd), (12, 3, Some(0.25)));
}

#[test]
fn fast_agent_reads_no_file_from_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.json");
    let whole = fixture("fast-agent/2603011000-abcdef/session.json");
    let hostile = std::fs::read_to_string(whole).unwrap();
    for name in ["../history_agent.json", "/etc/passwd", "..", ""] {
        std::fs::write(&path, hostile.replace("history_agent.json", name)).unwrap();
        assert!(rethread_import::open(&found("fast-agent", &path), None).unwrap().is_none());
    }
}

#[test]
fn aider_is_one_session_of_all_its_chats() {
    let session = read_file("aider", &fixture("aider/.aider.chat.history.md"));
    assert_eq!(
        main_of(&session),
        [
            "user: Why is the till /  / slow?",
            "assistant: # It prints /  / > a quotation of the model /  / #### four, of the model",
            "tool: edit: till.py",
            "user: Go on.",
            "assistant: Going on.",
        ]
    );
    let usage = session.messages[2].extras.usage.unwrap();
    assert_eq!((usage.input_tokens, usage.cost_usd), (2_400, Some(0.25)));
    assert_eq!(session.messages[1].extras.model.as_deref(), Some("openai/ai-1"));
    assert!(session.messages[0].at < session.messages[3].at);
    let folder = fixture("aider").display().to_string();
    assert_eq!(session.head.folder.as_deref(), Some(folder.as_str()));
}

#[test]
fn vibe_is_its_snapshot_with_what_came_since() {
    let session = read_file("vibe", &fixture("vibe/s1/CURRENT"));
    assert_eq!(
        main_of(&session),
        [
            "user: Why is the till slow?",
            "tool: file_system.bash: ls / till.py / ",
            "assistant: It prints.",
            "system: The till prints.",
            "user: Go on.",
            "assistant: Going on.",
        ]
    );
    assert_eq!(titled(&session), Some(SLOW));
    assert_eq!(session.head.branch.as_deref(), Some("till"));
    assert_eq!(other(&session, "The till prints", KEPT).unwrap(), &json!(["user-1"]));
    assert_eq!(other(&session, "file_system", "thoughts").unwrap(), "Look first.");
}

#[test]
fn cursor_is_read_in_the_order_of_its_blobs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let sql = include_str!("../fixtures/cursor.sql");
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    let (all, _) = look_at(&path);
    assert_eq!(all.iter().map(|one| one.agent).collect::<Vec<_>>(), ["cursor"]);
    let session = &read_all(all)[0];
    assert_eq!(
        main_of(session),
        ["user: Why is the till slow?", "tool: Shell: ls / till.py", "assistant: It prints."]
    );
    assert_eq!(session.head.native, "cu-1");
    assert_eq!(session.head.folder.as_deref(), Some("/home/ann/shop"));
    assert_eq!(session.messages[0].at.to_string(), "2026-03-01T10:00:00Z");
}

#[test]
fn files_are_known_by_what_they_are() {
    for (path, agent) in [
        ("kimi", "kimi"),
        ("cline", "cline"),
        ("fast-agent", "fast-agent"),
        ("aider", "aider"),
        ("vibe", "vibe"),
    ] {
        let (all, closed) = look_at(&fixture(path));
        assert!(closed.is_empty() && !all.is_empty(), "{path}");
        assert!(all.iter().all(|one| one.agent == agent), "{path}: {all:?}");
    }
    assert!(look_at(Path::new("/nowhere")).0.is_empty());
}
