//! Agents that the one of a session started, and pictures, as the real programs write them down.

use std::fs;
use std::path::Path;

use crate::common::{read_all, read_file, texts};
use rethread_import::{Roots, find, look_at};
use rusqlite::Connection;
use serde_json::{Value, json};

fn write(path: &Path, records: &[Value]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let lines: Vec<String> = records.iter().map(Value::to_string).collect();
    fs::write(path, lines.join("\n") + "\n").unwrap();
}

fn copilot(events: &[(&str, Option<&str>, Value)]) -> Vec<Value> {
    let event = |(no, (kind, agent, data)): (usize, &(&str, Option<&str>, Value))| json!({"type": kind, "agentId": agent, "data": data, "id": format!("e{no}"), "timestamp": "2026-03-01T10:00:00Z"});
    events.iter().enumerate().map(event).collect()
}

#[test]
fn a_call_stays_in_its_conversation_while_the_agent_that_it_started_speaks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s/events.jsonl");
    let call = json!([{"toolCallId": "k1", "name": "task", "arguments": {"description": "look"}}]);
    write(
        &path,
        &copilot(&[
            ("session.start", None, json!({"sessionId": "s"})),
            ("user.message", None, json!({"content": "Have somebody look."})),
            ("assistant.message", None, json!({"content": "", "toolRequests": call})),
            ("user.message", Some("a"), json!({"content": "Look."})),
            ("model.messages_snapshot", None, json!({"messages": []})),
            ("assistant.message", Some("a"), json!({"content": "It is there."})),
            (
                "tool.execution_complete",
                None,
                json!({"toolCallId": "k1", "success": true, "result": {"content": "It is there."}}),
            ),
            ("assistant.message", None, json!({"content": "They found it."})),
        ]),
    );
    let session = read_file("copilot", &path);
    let aside = session.messages.iter().find(|one| one.content == "Look.").unwrap();
    assert!(aside.conversation.starts_with("subagent-"));
    assert_eq!(
        texts(&session),
        [
            "main user: Have somebody look.".to_owned(),
            format!("{} user: Look.", aside.conversation),
            format!("{} assistant: It is there.", aside.conversation),
            "main tool: task: look / It is there.".to_owned(),
            "main assistant: They found it.".to_owned(),
        ]
    );
    assert!(session.messages.iter().all(|one| !one.extras.other.contains_key("updates")));
}

#[test]
fn copilot_keeps_pictures_beside_the_messages_that_show_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s/events.jsonl");
    let shown = json!([{"type": "file", "displayName": "till.png", "assetId": "sha256:1", "mimeType": "image/png"}]);
    write(
        &path,
        &copilot(&[
            ("session.start", None, json!({"sessionId": "s"})),
            (
                "session.binary_asset",
                None,
                json!({"assetId": "sha256:1", "mimeType": "image/png", "data": "aGVsbG8="}),
            ),
            ("user.message", None, json!({"content": "See.", "attachments": shown})),
        ]),
    );
    let session = read_file("copilot", &path);
    assert_eq!(texts(&session), ["main user: See. / [image/png till.png, 6 bytes]"]);
    assert_eq!(session.messages[0].extras.other["attachments"][0]["data"], "aGVsbG8=");
}

#[test]
fn qwen_keeps_them_beside_the_session() {
    let home = tempfile::tempdir().unwrap();
    let project = home.path().join(".qwen/projects/shop");
    let record = |uuid: &str, kind: &str, text: &str| {
        let role = if kind == "user" { "user" } else { "model" };
        json!({
            "uuid": uuid, "parentUuid": null, "sessionId": "4444-main", "timestamp": "2026-03-01T10:00:00Z", "type": kind,
            "cwd": "/home/ann/shop", "message": {"role": role, "parts": [{"text": text}]},
        })
    };
    write(&project.join("chats/4444-main.jsonl"), &[record("q1", "user", "Have somebody look.")]);
    let child = project.join("subagents/4444-main/agent-general-purpose-k1.jsonl");
    write(&child, &[record("c1", "user", "Look.")]);
    fs::write(child.with_extension("meta.json"), "{}").unwrap();
    let roots = Roots { home: home.path().to_owned(), ..Roots::default() };
    let sessions = read_all(find("qwen", &roots).0);
    assert_eq!(sessions.len(), 2);
    assert_eq!((sessions[0].head.native.as_str(), &sessions[0].head.parent), ("4444-main", &None));
    let child = &sessions[1];
    assert_eq!(child.head.native, "agent-general-purpose-k1");
    assert_eq!(child.head.parent.as_deref(), Some("4444-main"));
    assert_eq!(texts(child), ["main user: Look."]);
}

#[test]
fn goose_names_the_session_that_had_the_id_then_and_its_own_notes_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    let database = Connection::open(&path).unwrap();
    database.execute_batch(include_str!("../fixtures/goose.sql")).unwrap();
    database
        .execute_batch(
            r#"insert into sessions values ('20260301_2', 'Look', '', 0, 'sub_agent', '/home/ann/shop', '2026-03-01 10:00:30',
                    '2026-03-01 10:00:40', '{}', '20260301_1');
                insert into messages (message_id, session_id, role, content_json, created_timestamp, metadata_json) values
                    ('a1', '20260301_2', 'user', '[{"type":"text","text":"Look."}]', 1772359230, '{}'),
                    ('g9', '20260301_1', 'user', '[{"type":"text","text":"/compact"}]', 1772359240, '{"agentVisible":false}'),
                    ('g10', '20260301_1', 'assistant', '[{"type":"text","text":"Compaction complete"}]', 1772359241, '{"agentVisible":false}')"#,
        )
        .unwrap();
    drop(database);
    let sessions = read_all(look_at(&path).0);
    let (parent, child) = (&sessions[0], &sessions[1]);
    assert_eq!(child.head.parent.as_ref(), Some(&parent.head.native));
    assert_eq!(child.head.parent_instance, parent.head.instance);
    assert_eq!(parent.messages.last().unwrap().content, "Going on.");
}

#[test]
fn codex_frames_pictures_and_the_frame_is_not_what_was_asked() {
    let folder = tempfile::tempdir().unwrap();
    let id = "01a00000-0000-7000-8000-00000000000b";
    let path = folder.path().join(format!("rollout-2026-03-01T10-00-00-{id}.jsonl"));
    let text = |text: &str| json!({"type": "input_text", "text": text});
    let picture = json!({"type": "input_image", "image_url": "data:image/png;base64,aGVsbG8h"});
    let content = json!([
        text("<image name=[Image #1] path=\"/a.png\">"),
        picture,
        text("</image>"),
        text("See.")
    ]);
    let message = json!({"type": "message", "id": "i1", "role": "user", "content": content});
    let line = |kind: &str, payload: Value| json!({"timestamp": "2026-03-01T10:00:00Z", "type": kind, "payload": payload});
    write(
        &path,
        &[
            line("session_meta", json!({"id": id, "cwd": "/home/ann/shop"})),
            line("response_item", message),
        ],
    );
    assert_eq!(texts(&read_file("codex", &path)), ["main user: See. / [image/png, 6 bytes]"]);
}

#[test]
fn codex_is_told_what_one_agent_hands_to_another() {
    let folder = tempfile::tempdir().unwrap();
    let id = "01a00000-0000-7000-8000-00000000000a";
    let path = folder.path().join(format!("rollout-2026-03-01T10-00-00-{id}.jsonl"));
    let line = |kind: &str, payload: Value| json!({"timestamp": "2026-03-01T10:00:00Z", "type": kind, "payload": payload});
    let task = json!([{"type": "input_text", "text": "Task name: /root/look"}, {"type": "encrypted_content", "encrypted_content": "x"}]);
    write(
        &path,
        &[
            line("session_meta", json!({"id": id, "cwd": "/home/ann/shop"})),
            line(
                "response_item",
                json!({"type": "agent_message", "id": "a1", "author": "/root", "content": task}),
            ),
            line(
                "response_item",
                json!({"type": "message", "id": "i1", "role": "assistant", "content": [{"type": "output_text", "text": "Seen."}]}),
            ),
        ],
    );
    assert_eq!(
        texts(&read_file("codex", &path)),
        ["main user: Task name: /root/look", "main assistant: Seen."]
    );
}
