//! One view of each thing: `--json`, REST and MCP give the same names with the same values.

use serde_json::{Value, json};

use crate::browser::world;
use crate::mcp_client::Mcp;
use crate::site::Site;

/// Fields that MCP leaves out, because they may be long and a result has to fit into an agent's context: of messages, and
/// of the tasks of a workflow or a snapshot.
const LEFT_OUT_OF_MESSAGES: &[&str] = &["tool_calls", "usage", "extra"];
const LEFT_OUT_OF_TASKS: &[&str] = &["body", "tests"];

/// The same without some fields, and without those that have no value: MCP leaves `null` out.
fn without(value: &Value, left_out: &[&str]) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields
                .iter()
                .filter(|(name, one)| !one.is_null() && !left_out.contains(&name.as_str()));
            kept.map(|(name, one)| (name.clone(), without(one, &[])))
                .collect::<serde_json::Map<_, _>>()
                .into()
        }
        Value::Array(all) => all.iter().map(|one| without(one, &[])).collect(),
        other => other.clone(),
    }
}

fn without_long_tasks(value: &Value) -> Value {
    let mut value = without(value, &[]);
    for task in value["tasks"].as_array_mut().unwrap() {
        *task = without(task, LEFT_OUT_OF_TASKS);
    }
    value
}

/// Those fields of an answer that a view has: doors give more beside it.
fn those_of(view: &Value, answer: &Value) -> Value {
    let fields = view.as_object().unwrap().keys();
    let found = fields.map(|name| (name.clone(), answer[name].clone()));
    Value::Object(found.collect())
}

#[track_caller]
fn has(view: &Value, names: &[&str]) {
    for name in names {
        assert!(view.get(name).is_some(), "{name} is missing in {view:#}");
    }
}

#[test]
fn a_session_a_message_and_a_find_are_the_same_at_every_door() {
    let env = world::repository();
    let id = world::sessions(&env);
    let site = Site::within(env, &[]);
    let env = &site.env;
    let mut mcp = Mcp::start(env);

    let rest = site.get("/api/v1/sessions").is(200).json()["items"][0].clone();
    let listed = env.json(["list"])[0].clone();
    assert_eq!(listed, rest);
    has(&rest, &["session_id", "user_id", "project_id", "kind", "title", "agent", "status"]);
    has(&rest, &["created_at", "last_active_at", "session_summary", "conversation_count"]);
    has(&rest, &["message_count", "total_tokens"]);
    let tools = mcp.tool("list_sessions", json!({}))["sessions"][0].clone();
    assert_eq!(tools, without(&rest, &[]));

    let shown = env.json(["show", &id]);
    let read = site.get(&format!("/api/v1/sessions/{id}")).is(200).json();
    let got = mcp.tool("get_session", json!({"session_id": id, "full": true}));
    assert_eq!(those_of(&rest, &shown), rest);
    assert_eq!(those_of(&rest, &read), rest);
    assert_eq!(got["session"], without(&rest, &[]));
    assert_eq!(shown["conversations"], read["conversations"]);
    assert_eq!(got["conversations"], without(&read["conversations"], &[]));
    assert_eq!(shown["child_session_ids"], got["child_session_ids"]);

    let page = site.get(&format!("/api/v1/sessions/{id}/messages?after=0")).is(200).json();
    assert_eq!(shown["messages"], page["items"]);
    let messages = page["items"].as_array().unwrap();
    has(&messages[2], &["seq", "id", "role", "content", "timestamp", "agent", "model", "usage"]);
    let bounded: Vec<Value> =
        messages.iter().map(|one| without(one, LEFT_OUT_OF_MESSAGES)).collect();
    assert_eq!(got["messages"], Value::from(bounded));

    let found = site.get("/api/v1/search?q=transaction").is(200).json();
    assert!(found["items"].as_array().is_some_and(|items| items.len() > 1), "{found:#}");
    assert_eq!(env.json(["search", "transaction", "--cursor"]), found);
    let tools = mcp.tool("search_sessions", json!({"query": "transaction"}));
    assert_eq!(tools, without(&found, &[]));

    let context = env.json(["context", &id]);
    let asked = site.get(&format!("/api/v1/sessions/{id}/context")).is(200).json();
    let resumed = mcp.tool("resume_session", json!({"session_id": id}));
    for name in ["session_id", "context", "token_count", "success"] {
        assert_eq!((&asked[name], &resumed[name]), (&context[name], &context[name]), "{name}");
    }
    assert_eq!(asked["metadata"]["included"], resumed["metadata"]["included"]);
    assert!(mcp.end().success());
}

#[test]
fn an_opening_is_the_same_at_every_door() {
    let site = Site::within(world::repository(), &[]);
    let env = &site.env;
    let said = env.json(["run", "ref", "say: hello"]);
    let id = said["session_id"].as_str().unwrap();
    let turn = site.prompt(id, "say: again");
    let over = site.over(&turn);
    let mut mcp = Mcp::start(env);
    let invoked =
        mcp.invoke(json!({"agentName": "ref", "prompt": "say: x", "continueSessionId": id}));
    let names = |opening: &Value| -> Vec<String> {
        opening
            .as_object()
            .unwrap()
            .iter()
            .filter(|(_, one)| !one.is_null())
            .map(|(name, _)| name.clone())
            .collect()
    };
    assert_eq!(names(&over["opened"]), names(&invoked["opened"]));
    for (how, opened) in
        [("fresh", &said["opened"]), ("loaded", &over["opened"]), ("loaded", &invoked["opened"])]
    {
        has(opened, &["agent", "conversation", "ms", "text"]);
        assert_eq!(opened["how"], how, "{opened:#}");
    }
    let openings = site.get(&format!("/api/v1/sessions/{id}")).is(200).json()["openings"].clone();
    assert_eq!(those_of(&said["opened"], &openings[0]), said["opened"]);
    assert!(mcp.end().success());
}

#[test]
fn a_workflow_and_a_snapshot_are_the_same_at_every_door() {
    let env = world::repository();
    let id = world::paused_twice(&env, world::PLAN, &["lunch", "the train leaves"]);
    let site = Site::within(env, &[]);
    let env = &site.env;
    let mut mcp = Mcp::start(env);

    let rows = site.get("/api/v1/workflows").is(200).json()["items"].clone();
    assert_eq!(env.json(["workflow", "list"]), rows);
    let read = site.get(&format!("/api/v1/workflows/{id}")).is(200).json();
    let status = env.json(["workflow", "status", &id]);
    let detail = mcp.tool("workflow_status", json!({"workflow_id": id, "detail": true}));
    assert_eq!(those_of(&read, &status), read);
    let bounded = without_long_tasks(&read);
    assert_eq!(those_of(&bounded, &detail), bounded);
    let compact = mcp.tool("workflow_status", json!({"workflow_id": id}));
    for (name, value) in compact.as_object().unwrap() {
        if let Some(same) = read.get(name).filter(|_| name != "tasks") {
            assert_eq!(value, same, "{name}");
        }
    }
    for (row, task) in
        compact["tasks"].as_array().unwrap().iter().zip(read["tasks"].as_array().unwrap())
    {
        assert_eq!(&those_of(row, task), row);
    }

    let path = format!("/api/v1/workflows/{id}/snapshots");
    let rows = site.get(&path).is(200).json()["items"].clone();
    assert_eq!(rows.as_array().map(Vec::len), Some(2));
    has(&rows[0], &["id", "session_number", "trigger", "created_at"]);
    has(&rows[0], &["tasks_completed", "tasks_remaining"]);
    assert_eq!(env.json(["workflow", "snapshots", &id]), rows);
    assert_eq!(status["snapshots"], rows);
    assert_eq!(detail["snapshots"], rows);

    let whole = site.get(&format!("{path}/latest")).is(200).json();
    assert_eq!(env.json(["workflow", "show", &id]), whole);
    let snapshot = json!({"workflow_id": id, "snapshot_id": whole["id"]});
    assert_eq!(mcp.tool("get_snapshot", snapshot.clone()), without_long_tasks(&whole));
    assert_eq!(whole["decisions"].as_array().map(Vec::len), Some(2), "{whole:#}");
    for (tool, part, path) in [
        ("get_decisions", "decisions", "decisions"),
        ("get_errors", "errors", "errors"),
        ("get_reviewer_feedback", "feedback", "reviewer-feedback"),
        ("get_git_changes", "git", "git-changes"),
    ] {
        let there =
            site.get(&format!("/api/v1/workflows/{id}/snapshots/latest/{path}")).is(200).json();
        let there = there.get("items").unwrap_or(&there);
        assert_eq!(there, &whole[part]);
        assert_eq!(mcp.tool(tool, snapshot.clone())[part], without(there, &[]), "{tool}");
        assert_eq!(&env.json(["workflow", "show", &id, "--part", part]), there);
    }

    let both = format!("from={}&to=latest", rows[0]["id"].as_str().unwrap());
    let compared = site.get(&format!("/api/v1/workflows/{id}/compare?{both}")).is(200).json();
    let (from, to) = (rows[0]["id"].as_str().unwrap(), rows[1]["id"].as_str().unwrap());
    assert_eq!(env.json(["workflow", "diff", from, to]), compared);
    assert!(mcp.end().success());
}
