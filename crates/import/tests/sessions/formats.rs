//! Each format, by small sessions made for it: what was said, in which conversation, with what.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{fixture, main_of, other, read, read_all, read_file, texts};
use rethread_domain::conversation::TitleFrom;
use rethread_import::{Roots, find, find_native, look_at, open};
use rusqlite::Connection;

#[test]
fn claude_goes_on_from_its_last_leaf() {
    let session = read_file("claude", &fixture("claude.jsonl"));
    assert_eq!(
        main_of(&session),
        [
            "user: Why is the till slow?",
            "assistant: I will look.",
            "tool: Bash: ls / till.py",
            "tool: Read: till.py (failed) / print(1)",
            "assistant: It prints.",
            "user: See this picture. / [image/png, 9 bytes]",
            "assistant: I see it.",
            "system: This session is being continued: the till prints.",
            "user: /compact",
            "system: Compacted",
            "user: Go on.",
            "assistant: Going on.",
            "tool: Bash: make (unanswered)",
        ]
    );
    let aside: Vec<String> =
        texts(&session).into_iter().filter(|text| !text.starts_with("main ")).collect();
    assert_eq!(aside.len(), 4, "{aside:?}");
    assert!(aside[0].starts_with("branch-") && aside[0].ends_with("user: No, that is wrong."));
    assert!(aside[2].starts_with("subagent-") && aside[2].ends_with("user: Look for prices."));
    let head = &session.head;
    assert_eq!(head.folder.as_deref(), Some("/home/ann/shop"));
    assert_eq!(head.branch.as_deref(), Some("till"));
    assert_eq!(head.title, Some(("The slow till".to_owned(), TitleFrom::Agent)));
    assert_eq!(other(&session, "I will look", "thoughts").unwrap(), "Look first.");
    assert_eq!(other(&session, "being continued", "compacted").unwrap(), true);
    assert_eq!(other(&session, "being continued", "kept").unwrap(), &serde_json::json!(["a5"]));
    assert!(
        session.messages.iter().any(|one| one.extras.other.contains_key("updates")),
        "a record of an unknown kind is kept"
    );
    assert_eq!(other(&session, "See this", "attachments").unwrap()[0]["data"], "iVBORw0KGgo=");
    let usage = |text: &str| {
        let found = session.messages.iter().find(|one| one.content.contains(text)).unwrap();
        found.extras.usage
    };
    assert_eq!(usage("I will look"), None, "only the last record of a message counts");
    assert_eq!(usage("Bash: ls").unwrap().output_tokens, 9);
    assert_eq!(usage("It prints").unwrap().input_tokens, 15);
    assert_eq!(usage("It prints").unwrap().cost_usd, Some(0.25));
}

#[test]
fn claude_is_read_on_from_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("11111111-1111-4111-8111-111111111111.jsonl");
    let whole = fs::read_to_string(fixture("claude.jsonl")).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let part = |count: usize| lines[..count].join("\n") + "\n";
    // Up to the answer before anything was taken back; then some more that follows from it.
    fs::write(&path, part(10)).unwrap();
    let first = read_file("claude", &path);
    let cursor = first.cursor.clone().unwrap();
    let more = format!("{}{}\n", part(10), lines[12]);
    fs::write(&path, &more).unwrap();
    let second = crate::common::read_on("claude", &path, &cursor);
    assert!(second.is_continued);
    assert_eq!(main_of(&second), ["user: See this picture. / [image/png, 9 bytes]"]);
    // What hangs on an earlier record is not told by the end alone.
    let back = format!("{}{}\n{}\n{}\n", part(10), lines[10], lines[11], lines[12]);
    fs::write(&path, &back).unwrap();
    let third = crate::common::read_on("claude", &path, &cursor);
    assert!(!third.is_continued);
    // Nor is a file that was written anew.
    fs::write(&path, more.replace("It prints.", "It paints.")).unwrap();
    assert!(!crate::common::read_on("claude", &path, &cursor).is_continued);
}

#[test]
fn codex_takes_turns_back_and_is_compacted() {
    let session = read_file("codex", &fixture("codex.jsonl"));
    assert_eq!(
        texts(&session),
        [
            "main user: Why is the till slow?",
            "main tool: exec_command: ls / till.py",
            "main assistant: It prints.",
            "branch-1 user: A turn that is taken back.",
            "branch-1 assistant: An answer that is taken back.",
            "main user: Another question.",
            "main assistant: Another answer.",
            "main system: Summary: the till prints.",
            "main user: Go on.",
            "main tool: web_search: tills",
            "main assistant: Going on.",
        ]
    );
    let head = &session.head;
    assert_eq!(head.native, "01a00000-0000-7000-8000-000000000001");
    assert_eq!((head.branch.as_deref(), head.commit.as_deref()), (Some("till"), Some("abc123")));
    assert_eq!(head.model.as_deref(), Some("gpt-5.5"));
    assert_eq!(other(&session, "exec_command", "thoughts").unwrap(), "Look first.");
    assert_eq!(other(&session, "Summary", "kept").unwrap(), &serde_json::json!(["i5"]));
    assert_eq!(other(&session, "Going on.", "interrupted").unwrap(), true);
    assert!(other(&session, "Going on.", "updates").is_some());
    let used = session.messages.iter().filter_map(|one| one.extras.usage);
    let used: Vec<(u64, u64)> = used.map(|one| (one.input_tokens, one.output_tokens)).collect();
    assert_eq!(used, [(20, 3), (30, 4)]);
}

#[test]
fn codex_forks_begin_with_what_they_share_and_may_be_compressed() {
    let folder = tempfile::tempdir().unwrap();
    let day = folder.path().join("sessions/2026/03/01");
    fs::create_dir_all(&day).unwrap();
    let whole = fs::read_to_string(fixture("codex.jsonl")).unwrap();
    let shared: usize = whole.lines().take(12).map(|line| line.len() + 1).sum();
    let base = day.join("rollout-2026-03-01T10-00-00-01a00000-0000-7000-8000-000000000001.jsonl");
    fs::write(&base, &whole).unwrap();
    let fork = "01a00000-0000-7000-8000-000000000002";
    let own = format!(
        r#"{{"timestamp":"2026-03-01T11:00:00Z","type":"session_meta","payload":{{"id":"{fork}","cwd":"/home/ann/shop","history_base":{{"thread_id":"01a00000-0000-7000-8000-000000000001","end_byte_offset":{shared}}}}}}}
{{"timestamp":"2026-03-01T11:00:01Z","type":"response_item","payload":{{"type":"message","id":"j1","role":"user","content":[{{"type":"input_text","text":"In a fork."}}]}}}}
"#
    );
    let path = day.join(format!("rollout-2026-03-01T11-00-00-{fork}.jsonl.zst"));
    fs::write(&path, zstd::encode_all(own.as_bytes(), 0).unwrap()).unwrap();
    let session = read_file("codex", &path);
    let said = main_of(&session);
    assert_eq!(said.first().unwrap(), "user: Why is the till slow?");
    assert_eq!(said.last().unwrap(), "user: In a fork.");
    assert_eq!(said.len(), 4);
    assert_eq!(session.head.native, fork);
    let roots = Roots {
        home: folder.path().to_owned(),
        variables: [("CODEX_HOME".to_owned(), folder.path().display().to_string())].into(),
        ..Roots::default()
    };
    assert_eq!(find("codex", &roots).0.len(), 2);
}

/// As Codex 0.166 does it: each way back begins a file, whose base is the file of the way before, by its own bytes.
#[test]
fn codex_goes_back_into_files_that_begin_with_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let day = folder.path().join("sessions/2026/03/01");
    fs::create_dir_all(&day).unwrap();
    let thread = "01a00000-0000-7000-8000-000000000001";
    let whole = fs::read_to_string(fixture("codex.jsonl")).unwrap();
    let kept: usize = whole.lines().take(12).map(|line| line.len() + 1).sum();
    fs::write(day.join(format!("rollout-2026-03-01T10-00-00-{thread}.jsonl")), &whole).unwrap();
    let meta = |base: &str, end: usize| {
        format!(
            r#"{{"timestamp":"2026-03-01T11:00:00Z","type":"session_meta","payload":{{"id":"{thread}","cwd":"/home/ann/shop","history_base":{{"thread_id":"{base}","end_byte_offset":{end}}}}}}}"#
        )
    };
    let says = |id: &str| {
        format!(
            r#"{{"timestamp":"2026-03-01T11:00:01Z","type":"response_item","payload":{{"type":"message","id":"{id}","role":"user","content":[{{"type":"input_text","text":"{id}"}}]}}}}"#
        )
    };
    let (second, third) =
        ("01a00000-0000-7000-8000-00000000000b", "01a00000-0000-7000-8000-00000000000c");
    let first_way = format!("{}\n{}\n", meta(thread, kept), says("one way"));
    let end = first_way.len();
    let name = |way: &str| day.join(format!("rollout-2026-03-01T11-00-00-{thread}_{way}.jsonl"));
    fs::write(name(second), format!("{first_way}{}\n", says("left behind"))).unwrap();
    let path = name(third);
    fs::write(&path, format!("{}\n{}\n", meta(second, end), says("another way"))).unwrap();
    let session = read_file("codex", &path);
    let said = main_of(&session);
    assert_eq!(said.first().unwrap(), "user: Why is the till slow?");
    assert_eq!(said[said.len() - 2..], ["user: one way", "user: another way"]);
    assert_eq!((said.len(), session.head.native.as_str()), (5, thread));
    // One that is its own beginning is read all the same.
    fs::write(&path, format!("{}\n{}\n", meta(third, end), says("another way"))).unwrap();
    assert_eq!(main_of(&read_file("codex", &path)), ["user: another way"]);
    fs::write(name(second), format!("{}\n{}\n", meta(third, 9999), says("one way"))).unwrap();
    fs::write(&path, format!("{}\n{}\n", meta(second, 9999), says("another way"))).unwrap();
    assert!(main_of(&read_file("codex", &path)).contains(&"user: another way".to_owned()));
}

#[test]
fn gemini_is_a_log_of_changes() {
    let session = read_file("gemini", &fixture("gemini.jsonl"));
    assert_eq!(
        texts(&session),
        [
            "branch-1 user: Taken back.",
            "branch-1 assistant: An answer that is taken back.",
            "main user: Why is the till slow?",
            "main tool: run_shell_command: ls / till.py",
            "main assistant: It prints.",
            "main user: Go on.",
            "main assistant: Going on.",
        ]
    );
    assert_eq!(session.head.title, Some(("The slow till".to_owned(), TitleFrom::Agent)));
    assert_eq!(other(&session, "run_shell", "thoughts").unwrap(), "Plan: Look first.");
    let wiped = read_file("gemini", &fixture("gemini-wiped.jsonl"));
    assert_eq!(main_of(&wiped), ["user: Why is the till slow?", "assistant: It prints."]);
    let compressed = read_file("gemini", &fixture("gemini-compressed.jsonl"));
    assert_eq!(
        main_of(&compressed),
        [
            "user: Why is the till slow?",
            "assistant: It prints.",
            "system: <state_snapshot>The till prints.</state_snapshot>",
            "assistant: Got it.",
            "user: Go on.",
            "assistant: Going on.",
        ]
    );
    assert_eq!(other(&compressed, "<state_snapshot>", "compacted").unwrap(), true);
    // What it tells the model first comes before the summary, which need not look like one.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session-2026-03-01T10-00-22222222.jsonl");
    let context =
        r#"{"id":"c0","type":"user","content":[{"text":"<session_context>x</session_context>"}]}"#;
    let written = fs::read_to_string(fixture("gemini-compressed.jsonl")).unwrap();
    let written = written.replace(r#""messages":["#, &format!(r#""messages":[{context},"#));
    fs::write(&path, written.replace("state_snapshot", "note")).unwrap();
    let compressed = read_file("gemini", &path);
    assert_eq!(main_of(&compressed)[2], "system: <note>The till prints.</note>");
    assert_eq!(other(&compressed, "<note>", "compacted").unwrap(), true);
}

#[test]
fn copilot_qwen_and_pi_say_the_same() {
    for (agent, summary) in [("copilot", true), ("qwen", false), ("pi", true)] {
        let session = read_file(agent, &fixture(&format!("{agent}.jsonl")));
        let tool = if agent == "qwen" { "run_shell_command" } else { "bash" };
        let mut expected = vec![
            "user: Why is the till slow?".to_owned(),
            format!("tool: {tool}: ls / till.py"),
            "assistant: It prints.".to_owned(),
            "user: Go on.".to_owned(),
            "assistant: Going on.".to_owned(),
        ];
        if summary {
            let at = if agent == "pi" { 4 } else { 3 };
            expected.insert(at, "system: Summary: the till prints.".to_owned());
        }
        assert_eq!(main_of(&session), expected, "{agent}");
        assert_eq!(other(&session, "till.py", "thoughts").unwrap(), "Look first.", "{agent}");
        assert_eq!(session.head.folder.as_deref(), Some("/home/ann/shop"), "{agent}");
        let used = session.messages.iter().find_map(|one| one.extras.usage).unwrap();
        assert!(used.input_tokens > 0 && used.output_tokens > 0, "{agent}: {used:?}");
        let titled = session.head.title.as_ref().map(|(title, _)| title.as_str());
        assert_eq!(titled, (agent != "qwen").then_some("The slow till"), "{agent}");
        assert_eq!(
            texts(&session).len(),
            expected.len() + 1,
            "{agent}: one is not in the conversation"
        );
    }
    let pi = read_file("pi", &fixture("pi.jsonl"));
    assert_eq!(other(&pi, "Summary", "kept").unwrap(), &serde_json::json!(["p5"]));
}

fn opencode(path: &Path) -> Connection {
    let database = Connection::open(path).unwrap();
    database.pragma_update(None, "journal_mode", "wal").unwrap();
    database.execute_batch(include_str!("../fixtures/opencode.sql")).unwrap();
    database
}

fn goose(path: &Path) -> Connection {
    let database = Connection::open(path).unwrap();
    database.pragma_update(None, "journal_mode", "wal").unwrap();
    database.execute_batch(include_str!("../fixtures/goose.sql")).unwrap();
    database
}

fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| !path.to_string_lossy().ends_with("-shm"))
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    all.sort();
    all
}

#[test]
fn databases_are_read_while_they_are_in_use_and_stay_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("opencode.db");
    let used = opencode(&path);
    let before = files(folder.path());
    let sessions = read_all(look_at(&path).0);
    assert_eq!(files(folder.path()), before);
    assert_eq!(sessions.len(), 2);
    assert_eq!(
        texts(&sessions[0]),
        [
            "main user: Why is the till slow?",
            "main tool: bash: ls / till.py",
            "main assistant: It prints.",
            "main system: Summary: the till prints.",
            "main user: [image/png till.png, 9 bytes]",
            "main assistant: Going on.",
            "main tool: bash: make (unanswered)",
        ]
        .map(str::to_owned)
    );
    assert_eq!(sessions[1].head.parent.as_deref(), Some("ses_a"));
    assert_eq!(other(&sessions[0], "Going on.", "thoughts").unwrap(), "Look again.");
    let usage = sessions[0].messages[1].extras.usage.unwrap();
    assert_eq!((usage.input_tokens, usage.cost_usd), (13, Some(0.5)));
    // Somebody else writes meanwhile, and nothing is in the way.
    used.execute("update session set title = 'Other' where id = 'ses_a'", []).unwrap();
    drop(used);
    // Without a log no file is made beside the database.
    let alone = files(folder.path());
    assert_eq!(alone.len(), 1);
    assert_eq!(read_all(look_at(&path).0)[0].head.title.as_ref().unwrap().0, "Other");
    assert_eq!(files(folder.path()), alone);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn what_opencode_has_reverted_is_a_branch() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("opencode.db");
    let database = opencode(&path);
    let revert = r#"{"messageID":"msg_5"}"#;
    database.execute("update session set revert = ?1 where id = 'ses_a'", [revert]).unwrap();
    let sessions = read_all(look_at(&path).0);
    let main = main_of(&sessions[0]);
    assert_eq!(main.last().unwrap(), "system: Summary: the till prints.");
    assert_eq!(texts(&sessions[0]).len() - main.len(), 3);
}

#[test]
fn goose_hides_from_the_model_what_it_has_summed_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    let _used = goose(&path);
    let sessions = read_all(look_at(&path).0);
    assert_eq!(
        texts(&sessions[0]),
        [
            "main user: Why is the till slow?",
            "main tool: shell: ls / till.py",
            "main assistant: It prints.",
            "main system: Summary: the till prints.",
            "main user: Go on.",
            "main assistant: Going on.",
        ]
    );
    let head = &sessions[0].head;
    assert_eq!(head.title, Some(("The slow till".to_owned(), TitleFrom::Person)));
    assert_eq!(head.instance, "2026-03-01 10:00:00");
}

#[test]
fn files_are_known_by_what_is_in_them() {
    for agent in ["claude", "codex", "gemini", "copilot", "qwen", "pi"] {
        let found = look_at(&fixture(&format!("{agent}.jsonl"))).0;
        assert_eq!(found.len(), 1, "{agent}");
        assert_eq!(found[0].agent, agent);
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.jsonl"), "{\"role\":\"user\"}\n").unwrap();
    fs::write(folder.path().join("b.db"), "SQLite format 3\0 and nothing more").unwrap();
    let export = r#"{"type":"session","version":1,"id":"x","view":{}}"#;
    fs::write(folder.path().join("export.jsonl"), export).unwrap();
    assert!(look_at(folder.path()).0.is_empty());
}

#[test]
fn what_is_torn_is_read_up_to_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("11111111-1111-4111-8111-111111111111.jsonl");
    let whole = fs::read(fixture("claude.jsonl")).unwrap();
    let mut torn = whole[..whole.len() - 300].to_vec();
    fs::write(&path, &torn).unwrap();
    let session = read_file("claude", &path);
    assert!(main_of(&session).contains(&"user: Go on.".to_owned()));
    assert!(session.unread.is_empty(), "the last line may still be being written");
    torn.extend_from_slice(b"\n");
    torn.extend_from_slice(&[0; 9000]);
    torn.extend_from_slice(b"\n\xff\xfe{}\n");
    fs::write(&path, &torn).unwrap();
    assert_eq!(read_file("claude", &path).unread.len(), 2);
    let zeros = vec![0; 100_000];
    for nothing in [&b""[..], b"\n\n", &zeros, b"{}\n", b"[[[[[[\n", b"null\n"] {
        fs::write(&path, nothing).unwrap();
        let found = &look_at(&path).0;
        assert!(found.is_empty());
        let found = crate::common::found("claude", &path);
        assert!(open(&found, None).unwrap().is_none());
    }
}

#[test]
fn a_session_is_found_by_its_id_and_by_nothing_else() {
    let home = tempfile::tempdir().unwrap();
    let roots = Roots { home: home.path().to_owned(), ..Roots::default() };
    let id = "22222222-2222-4222-8222-222222222222";
    let files = [
        ("claude", format!(".claude/projects/shop/{id}.jsonl")),
        ("codex", format!(".codex/sessions/2026/03/01/rollout-2026-03-01T10-00-00-{id}.jsonl")),
        ("copilot", format!(".copilot/session-state/{id}/events.jsonl")),
        ("gemini", ".gemini/tmp/shop/chats/session-2026-03-01T10-00-22222222.jsonl".to_owned()),
        ("pi", format!(".pi/agent/sessions/--shop--/2026-03-01_{id}.jsonl")),
        ("qwen", format!(".qwen/projects/shop/chats/{id}.jsonl")),
    ];
    for (agent, file) in files {
        let path = home.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "{}\n").unwrap();
        fs::write(path.with_file_name("33333333-3333.jsonl"), "{}\n").unwrap();
        let found = find_native(agent, &roots, id).unwrap();
        assert_eq!((found.agent, found.path), (agent, path), "{agent}");
        let hostile = ["", ".", "..", "../../../../../etc/passwd", "a/b", "*", "2222\0", "…………"];
        for id in ["44444444-4444"].iter().chain(&hostile) {
            assert_eq!(find_native(agent, &roots, id), None, "{agent} {id:?}");
        }
    }
    assert_eq!(find_native("nobody", &roots, id), None);
}

/// A view is no table: one that never ends would be read for ever.
#[test]
fn a_view_in_the_place_of_a_table_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("opencode.db");
    let database = opencode(&path);
    database
        .execute_batch(
            "alter table session rename to kept;
             create view session as with recursive r(i) as (select 1 union all select i + 1 from r)
                select kept.* from kept, r",
        )
        .unwrap();
    let (found, troubles) = look_at(&path);
    assert!(found.is_empty() && troubles.len() == 1, "{troubles:?}");
}

#[test]
fn a_row_that_is_too_long_is_told() {
    let folder = tempfile::tempdir().unwrap();
    for (agent, fixture, table, column) in [
        ("opencode", include_str!("../fixtures/opencode.sql"), "part", "data"),
        ("opencode", include_str!("../fixtures/opencode.sql"), "message", "data"),
        ("goose", include_str!("../fixtures/goose.sql"), "messages", "content_json"),
    ] {
        let path = folder.path().join(format!("{agent}-{table}.db"));
        let database = Connection::open(&path).unwrap();
        database.execute_batch(fixture).unwrap();
        let count = |path: &Path| {
            let session = read_all(look_at(path).0).swap_remove(0);
            (session.messages.len(), session.unread)
        };
        let (before, unread) = count(&path);
        assert!(unread.is_empty(), "{agent} {table}: {unread:?}");
        // One character more than is read.
        let sql = format!(
            "update {table} set {column} = replace(hex(zeroblob(33554432)), '0', ' ') || '\"' where rowid = (select min(rowid) from {table})"
        );
        database.execute_batch(&sql).unwrap();
        drop(database);
        let (after, unread) = count(&path);
        assert!(after <= before, "{agent} {table}");
        assert_eq!(unread.len(), 1, "{agent} {table}: {unread:?}");
        assert!(unread[0].why.ends_with(" is too long"), "{agent} {table}: {unread:?}");
    }
}

/// What nobody can have written is not read into memory, and the other sessions are.
#[test]
fn a_value_that_is_gigantic_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("opencode.db");
    let database = opencode(&path);
    let huge = "update session set title = cast(zeroblob(150000000) as text) where id = 'ses_b'";
    database.execute_batch(huge).unwrap();
    drop(database);
    let (found, troubles) = look_at(&path);
    assert_eq!((found.len(), troubles.len()), (2, 0), "{troubles:?}");
    assert!(!read(&found[0], None).unwrap().messages.is_empty());
    let refused = open(&found[1], None).err().unwrap().to_string();
    assert!(refused.contains("too big"), "{refused}");
}
