//! Sessions written for agents: what was written is read back the same, whatever was said.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use jiff::Timestamp;
use proptest::prelude::*;
use rethread_domain::message::{Body, Extras, Message, Role};
use rethread_domain::price::Price;
use rethread_import::write::{
    Draft, Entry, ToolUse, WRITABLE, Way, What, belongs_to, compare, compose, native_id, place,
    read_back,
};
use rethread_import::{Cursor, Found, Roots, find, locate, open};
use rusqlite::Connection;
use serde_json::{Value, json};

const ID: &str = "01a1eb96-8369-7292-8a63-ea3a19acc43f";

fn now() -> Timestamp {
    "2026-11-17T22:17:52.325Z".parse().unwrap()
}

fn message(seq: u32, role: Role, text: &str) -> Message {
    Message {
        seq,
        given_id: None,
        role,
        at: now() - jiff::SignedDuration::from_secs(1000 - i64::from(seq)),
        conversation: "main".to_owned(),
        body: Body::Whole(text.to_owned()),
        extras: Extras::default(),
        price: Price::default(),
        purged_at: None,
    }
}

fn tool(seq: u32, text: &str, call: Value) -> Message {
    let mut message = message(seq, Role::Tool, text);
    message.extras.tool_calls = Some(json!([call]));
    message
}

fn talk() -> Vec<Message> {
    vec![
        message(1, Role::User, "Why is the till slow?"),
        message(2, Role::Assistant, "I will look.\n\n```sh\nls\n```"),
        tool(
            3,
            "Bash: ls\ntill.py\nprices.py",
            json!({"id": "c1", "name": "Bash", "title": "Bash: ls", "status": "completed", "rawInput": {"command": "ls"}}),
        ),
        tool(
            4,
            "Bash: make (failed)\nno rule",
            json!({"id": "c2", "name": "Bash", "title": "Bash: make", "status": "failed", "rawInput": {"command": "make"}}),
        ),
        message(5, Role::Assistant, "It prints."),
        message(6, Role::User, "Go on. ümlaut 🙂 \u{2028} \u{7} \0 end"),
    ]
}

fn draft(agent: &str, entries: Vec<Entry>) -> Draft {
    Draft {
        id: native_id(agent, ID, now()),
        folder: "/home/ann/shop.v2/till".to_owned(),
        branch: Some("till".to_owned()),
        title: Some("The slow till".to_owned()),
        model: None,
        now: now(),
        entries,
    }
}

fn roots(home: &Path) -> Roots {
    Roots { home: home.to_owned(), variables: BTreeMap::new(), ..Roots::default() }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn list(value: &Value, name: &str) -> Vec<Value> {
    value[name].as_array().unwrap().clone()
}

/// Does what the import of an agent does, as far as the tables go.
fn imported(agent: &'static str, file: &Path, home: &Path) -> Found {
    let document: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    match agent {
        "goose" => imported_by_goose(&document, home),
        _ => imported_by_opencode(agent, &document, home),
    }
    find(agent, &roots(home)).0.remove(0)
}

fn imported_by_goose(document: &Value, home: &Path) {
    let folder = home.join(".local/share/goose/sessions");
    fs::create_dir_all(&folder).unwrap();
    let database = Connection::open(folder.join("sessions.db")).unwrap();
    database
        .execute_batch(
            "create table sessions (id text, name text, description text, user_set_name int, working_dir text,
                created_at text, updated_at text, model_config_json text);
            create table messages (id integer primary key, message_id text, session_id text, role text,
                content_json text, created_timestamp int, metadata_json text);",
        )
        .unwrap();
    database
        .execute(
            "insert into sessions values ('20261117_1', ?1, '', 1, ?2, ?3, ?3, null)",
            (
                text(&document["name"]),
                text(&document["working_dir"]),
                text(&document["created_at"]),
            ),
        )
        .unwrap();
    for one in list(document, "conversation") {
        database
            .execute(
                "insert into messages (message_id, session_id, role, content_json, created_timestamp, metadata_json)
                    values (?1, '20261117_1', ?2, ?3, ?4, ?5)",
                (
                    text(&one["id"]),
                    text(&one["role"]),
                    one["content"].to_string(),
                    one["created"].as_i64(),
                    one["metadata"].to_string(),
                ),
            )
            .unwrap();
    }
}

fn imported_by_opencode(agent: &str, document: &Value, home: &Path) {
    let folder = home.join(".local/share").join(agent);
    fs::create_dir_all(&folder).unwrap();
    let database = Connection::open(folder.join(format!("{agent}.db"))).unwrap();
    database
        .execute_batch(
            "create table session (id text, directory text, title text, version text, parent_id text, time_created int,
                time_updated int);
            create table message (id text primary key, session_id text, time_created int, time_updated int, data text);
            create table part (id text primary key, message_id text, session_id text, data text);",
        )
        .unwrap();
    let info = &document["info"];
    database
        .execute(
            "insert into session values (?1, ?2, ?3, '1', null, ?4, ?4)",
            (
                text(&info["id"]),
                text(&info["directory"]),
                text(&info["title"]),
                info["time"]["updated"].as_i64(),
            ),
        )
        .unwrap();
    for one in list(document, "messages") {
        let data = &one["info"];
        let id = text(&data["id"]);
        assert!(id.starts_with("msg_") && id.len() == 30, "{id}");
        database
            .execute(
                "insert into message values (?1, ?2, ?3, ?3, ?4)",
                (&id, text(&data["sessionID"]), data["time"]["created"].as_i64(), data.to_string()),
            )
            .unwrap();
        for part in list(&one, "parts") {
            database
                .execute(
                    "insert into part values (?1, ?2, ?3, ?4)",
                    (text(&part["id"]), &id, text(&part["sessionID"]), part.to_string()),
                )
                .unwrap();
        }
    }
}

/// Writes entries for an agent into an empty home, and reads them back.
fn written(agent: &'static str, entries: &[Entry], home: &Path) -> (Draft, Found) {
    let draft = draft(agent, entries.to_vec());
    let placed = place(agent, &draft, &roots(home), &home.join("aside")).unwrap();
    let mode = fs::metadata(&placed.path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "{agent}: only its owner may read it");
    let found = placed.found.unwrap_or_else(|| imported(agent, &placed.path, home));
    (draft, found)
}

#[test]
fn every_format_gives_back_what_was_written() {
    let entries = compose(&talk()).entries;
    assert_eq!(entries.len(), 6);
    for (agent, way) in WRITABLE {
        let home = tempfile::tempdir().unwrap();
        let (draft, found) = written(agent, &entries, home.path());
        let check = read_back(&found, &entries).unwrap();
        assert_eq!(check.difference, None, "{agent}");
        let transcript = open(&found, None).unwrap().unwrap();
        let head = transcript.head();
        assert_eq!(head.folder.as_deref().unwrap_or(&draft.folder), draft.folder, "{agent}");
        if *way == Way::File {
            assert_eq!(head.native, draft.id, "{agent}");
            assert!(belongs_to(&found, &draft.folder, &roots(home.path())), "{agent}");
            let located = locate(agent, &draft.id, &roots(home.path())).unwrap();
            assert_eq!(located.path, found.path, "{agent}");
        }
        assert_eq!(locate(agent, "no-such-session", &roots(home.path())), None, "{agent}");
    }
}

#[test]
fn sessions_that_are_found_by_folder_belong_to_one() {
    let entries = compose(&talk()).entries;
    for agent in ["claude", "qwen", "gemini"] {
        let home = tempfile::tempdir().unwrap();
        let (_, found) = written(agent, &entries, home.path());
        assert!(!belongs_to(&found, "/home/ann/elsewhere", &roots(home.path())), "{agent}");
    }
}

#[test]
fn a_file_that_is_there_is_not_written_over() {
    let entries = compose(&talk()).entries;
    for (agent, _) in WRITABLE {
        let home = tempfile::tempdir().unwrap();
        let draft = draft(agent, entries.clone());
        let aside = home.path().join("aside");
        let first = place(agent, &draft, &roots(home.path()), &aside).unwrap().path;
        fs::write(&first, "theirs").unwrap();
        assert!(place(agent, &draft, &roots(home.path()), &aside).is_err(), "{agent}");
        assert_eq!(fs::read_to_string(&first).unwrap(), "theirs", "{agent}");
        let beside = fs::read_dir(first.parent().unwrap()).unwrap().count();
        assert_eq!(beside, 1, "{agent}: nothing is left beside it");
    }
}

#[test]
fn what_is_said_after_a_copy_is_all_that_is_new() {
    let entries = compose(&talk()).entries;
    for agent in ["claude", "codex", "pi", "qwen", "gemini", "opencode", "goose"] {
        let home = tempfile::tempdir().unwrap();
        let (_, found) = written(agent, &entries, home.path());
        let check = read_back(&found, &entries).unwrap();
        let cursor = check.cursor.unwrap_or_else(|| Cursor::after_copy(check.messages));
        let mut rest = open(&found, Some(&cursor)).unwrap().unwrap();
        assert!(rest.is_continued(), "{agent}");
        assert_eq!(rest.next().unwrap().map(|it| it.content), None, "{agent}");
        assert!(rest.cursor().is_some(), "{agent}");
    }
}

#[test]
fn a_copy_that_lost_messages_is_read_as_a_whole() {
    let entries = compose(&talk()).entries;
    let home = tempfile::tempdir().unwrap();
    let (_, found) = written("gemini", &entries, home.path());
    let mut all = open(&found, Some(&Cursor::after_copy(99))).unwrap().unwrap();
    assert!(!all.is_continued());
    assert_eq!(all.next().unwrap().unwrap().content, "Why is the till slow?");
}

#[test]
fn composing_says_what_is_left_out() {
    let mut all = talk();
    all[1].extras.other.insert("thoughts".to_owned(), "secret plan".into());
    all[5].extras.other.insert("attachments".to_owned(), json!([{"mime": "image/png"}]));
    all.push(message(7, Role::Assistant, "   "));
    all.push(tool(
        8,
        "Bash: make (unanswered)",
        json!({"id": "c3", "name": "Bash", "title": "Bash: make", "status": "unanswered"}),
    ));
    let mut purged = message(9, Role::User, "[purged]");
    purged.purged_at = Some(now());
    all.push(purged);
    let composed = compose(&all);
    let left = &composed.left_out;
    assert_eq!((left.thoughts, left.files, left.empty, left.unanswered), (1, 1, 2, 1));
    let What::Tool(last) = &composed.entries.last().unwrap().what else { panic!() };
    assert!(last.has_failed && last.output.contains("interrupted"), "{last:?}");
    assert_eq!(left.describe().len(), 4);
    assert!(!format!("{:?}", composed.entries).contains("secret plan"));
}

#[test]
fn a_conversation_begins_with_a_request_and_time_does_not_go_back() {
    let mut all = talk();
    all.remove(0);
    all[2].at = now() - jiff::SignedDuration::from_hours(9);
    let composed = compose(&all);
    assert!(matches!(&composed.entries[0].what, What::User(text) if text.contains("beginning")));
    assert!(composed.entries.windows(2).all(|pair| pair[0].at <= pair[1].at));
    assert_eq!(compose(&[]).entries, []);
}

#[test]
fn a_summary_stands_for_what_it_sums_up_only_where_that_is_missing() {
    let mut summary = message(1, Role::System, "Summary: the till prints.");
    summary.extras.other.insert("compacted".to_owned(), true.into());
    let composed = compose(&[summary.clone(), message(2, Role::User, "Go on.")]);
    assert_eq!(composed.entries[0].what, What::User("Summary: the till prints.".to_owned()));
    let composed =
        compose(&[message(1, Role::User, "One."), summary, message(3, Role::System, "Note")]);
    assert_eq!(composed.left_out.summaries, 1);
    assert_eq!(composed.entries[1].what, What::User("System: Note".to_owned()));
}

#[test]
fn what_was_revised_or_answered_later_is_written_once() {
    let with_id = |mut message: Message, id: &str| {
        message.given_id = Some(id.to_owned());
        message
    };
    let mut revised = with_id(message(3, Role::Assistant, "two and more"), "b+revised-1");
    revised.extras.other.insert("replaces".to_owned(), "b".into());
    let asked = json!({"id": "c", "name": "Bash", "title": "Bash", "status": "unanswered"});
    let answered = json!({"id": "c", "name": "Bash", "title": "Bash", "status": "completed"});
    let composed = compose(&[
        with_id(message(1, Role::User, "one"), "a"),
        with_id(message(2, Role::Assistant, "two"), "b"),
        revised,
        with_id(tool(4, "Bash (unanswered)", asked), "c+asked"),
        with_id(tool(5, "Bash\ndone", answered), "c"),
    ]);
    assert_eq!(composed.entries.len(), 3, "{:?}", composed.entries);
    assert_eq!(composed.entries[1].what, What::Assistant("two and more".to_owned()));
    let What::Tool(tool) = &composed.entries[2].what else { panic!() };
    assert_eq!((tool.output.as_str(), tool.has_failed), ("done", false));
}

#[test]
fn huge_texts_are_cut_in_the_middle_and_still_read_back() {
    let huge = format!("begin {} end", "ü\u{1}".repeat(400_000));
    let composed = compose(&[message(1, Role::User, &huge), message(2, Role::Assistant, "ok")]);
    assert_eq!(composed.left_out.cut, 1);
    let What::User(text) = &composed.entries[0].what else { panic!() };
    assert!(text.len() < 300_000 && text.starts_with("begin") && text.ends_with("end"));
    for (agent, _) in WRITABLE {
        let home = tempfile::tempdir().unwrap();
        let (_, found) = written(agent, &composed.entries, home.path());
        assert_eq!(read_back(&found, &composed.entries).unwrap().difference, None, "{agent}");
    }
}

#[test]
fn a_difference_is_noticed() {
    let entries = compose(&talk()).entries;
    let home = tempfile::tempdir().unwrap();
    let (_, found) = written("codex", &entries, home.path());
    let mut fewer = entries.clone();
    fewer.pop();
    assert!(read_back(&found, &fewer).unwrap().difference.unwrap().contains("message 6"));
    let mut other = entries;
    other[0].what = What::User("Something else".to_owned());
    assert!(read_back(&found, &other).unwrap().difference.unwrap().contains("message 1"));
    assert!(compare("codex", &[], &other).is_some());
}

fn anything() -> impl Strategy<Value = Entry> {
    let special = prop::sample::select(vec![
        "<command-name>/x</command-name>",
        "<environment_context>",
        "<session_context>",
        "<turn-context>",
        "[Request interrupted",
        "<state_snapshot>",
        "# AGENTS.md instructions",
        "\"quoted\"",
        "{\"type\":\"session_meta\"}",
        "-p",
        "\u{feff}",
        "\r\n",
    ]);
    let text = prop_oneof![
        any::<String>(),
        special.clone().prop_map(str::to_owned),
        (special, any::<String>()).prop_map(|(a, b)| format!("{a}{b}"))
    ];
    (0..3_u8, text, any::<String>(), any::<bool>(), 0..1_000_i64).prop_map(
        |(kind, text, input, has_failed, seconds)| {
            let text = text.replace('\0', "");
            let what = match kind {
                0 => What::User(format!("{text}.")),
                1 => What::Assistant(format!("{text}.")),
                _ => What::Tool(ToolUse {
                    name: "shell".to_owned(),
                    input: json!({ "some": input }).as_object().unwrap().clone(),
                    output: text,
                    has_failed,
                }),
            };
            Entry { at: now() - jiff::SignedDuration::from_secs(1_000 - seconds), what }
        },
    )
}

#[test]
fn a_tool_that_failed_without_a_word_reads_back() {
    let at: Timestamp = "2026-11-17T22:01:12.325Z".parse().unwrap();
    let tool = ToolUse {
        name: "shell".to_owned(),
        input: serde_json::Map::new(),
        output: String::new(),
        has_failed: true,
    };
    let said = What::User("First.".to_owned());
    let entries = [Entry { at, what: said }, Entry { at, what: What::Tool(tool) }];
    for (agent, _) in WRITABLE {
        let home = tempfile::tempdir().unwrap();
        let (_, found) = written(agent, &entries, home.path());
        assert_eq!(read_back(&found, &entries).unwrap().difference, None, "{agent}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn whatever_was_said_reads_back(mut entries in prop::collection::vec(anything(), 1..12)) {
        entries.sort_by_key(|entry| entry.at);
        entries.insert(0, Entry { at: entries[0].at, what: What::User("First.".to_owned()) });
        for (agent, _) in WRITABLE {
            let home = tempfile::tempdir().unwrap();
            let (_, found) = written(agent, &entries, home.path());
            prop_assert_eq!(read_back(&found, &entries).unwrap().difference, None, "{}", agent);
        }
    }
}
