//! What the agents of a workflow are given: Rethread's own MCP server (SPEC FLOW-8), and what they cannot do with it.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::env::{PROGRAM, TestEnv};
use crate::mcp_client::{Mcp, text};
use crate::reference::until;
use crate::workflow_mcp::{World, start, until_status, until_task};
use crate::workspace_sessions::{card, only_folder};

/// The servers that came with each new session of the agent.
fn servers(env: &TestEnv) -> Vec<Value> {
    let frames = env.received("ref");
    let new = frames.iter().filter(|frame| frame["method"] == "session/new");
    new.map(|frame| frame["params"]["mcpServers"].clone()).collect()
}

/// The server as an agent starts it that hands on nothing of its own environment.
fn as_given(env: &TestEnv, entry: &Value) -> Mcp {
    let mut command = Command::new(text(&entry["command"]));
    command.env_clear().env("HOME", env.path("home")).current_dir(env.root());
    command.args(entry["args"].as_array().unwrap().iter().map(text));
    for variable in entry["env"].as_array().unwrap() {
        command.env(text(&variable["name"]), text(&variable["value"]));
    }
    Mcp::spawn(command)
}

#[test]
fn an_agent_finds_its_own_workflow() {
    let world = World::new();
    let mut mcp = Mcp::start(&world);
    let id = start(&mut mcp);
    let status = until_task(&mut mcp, "two", "in_progress");
    let session = text(&status["tasks"][1]["session_ids"][0]).to_owned();
    let entry = until("its agent is given the server", || {
        let given = servers(&world).into_iter().map(|mut servers| servers[0].take());
        given.into_iter().find(|entry| entry.to_string().contains(&session))
    });
    assert_eq!(entry["name"], "rethread", "{entry:#}");
    // One of the folder that the server is about is not meant.
    let place = world.path("other").display().to_string();
    fs::create_dir(&place).unwrap();
    fs::write(world.path("other/plan.md"), "## Task a: A\n\ndo: say: x\n").unwrap();
    let there = json!({"plan": "plan.md", "agent": "ref", "worktree": place});
    let other = text(&mcp.tool("start_workflow", there)["id"]).to_owned();
    assert_ne!(other, id);
    let project = world.path("project").display().to_string();
    let elsewhere = entry.to_string().replace(&format!("{project:?}"), &format!("{place:?}"));
    assert_ne!(elsewhere, entry.to_string());
    let elsewhere: Value = serde_json::from_str(&elsewhere).unwrap();
    let found = as_given(&world, &elsewhere).tool("workflow_status", json!({}));
    assert_eq!(found["id"], json!(id), "{found:#}");
    let mut inside = as_given(&world, &entry);
    let own = inside.tool("workflow_status", json!({}));
    assert_eq!((&own["id"], &own["your_task"]), (&json!(id), &json!("two")), "{own:#}");
    let decided = inside.tool("get_decisions", json!({}));
    assert_eq!((&decided["workflow_id"], &decided["total"]), (&json!(id), &json!(1)));
    // It may ask for a pause, which comes when its turn ends; it cannot resume itself.
    let resume = inside.refused("resume_workflow", json!({"workflow_id": id}));
    assert!(resume.contains("You work on a task"), "{resume}");
    let pausing = inside.tool("pause_workflow", json!({"reason": "a question"}));
    assert_eq!((&pausing["id"], &pausing["is_pausing"]), (&json!(id), &json!(true)));
    world.write("go", "");
    let paused = until("it is paused", || {
        let status = mcp.tool("workflow_status", json!({"workflow_id": id}));
        (status["status"] == "paused").then_some(status)
    });
    assert_eq!(paused["pause_reason"], "a question");
}

#[test]
fn the_users_own_server_of_that_name_comes_first() {
    let world = World::new();
    world.write("plan.md", "## Task a: A\n\ndo: say: x\n");
    world.set("tools.rethread", "command = [\"mine\"]");
    world.data(["init"]);
    world.data(["workflow", "start", "plan.md", "--agent", "ref"]);
    let given = servers(&world);
    assert_eq!(given.len(), 1);
    assert_eq!(given[0].as_array().map(Vec::len), Some(1), "{given:#?}");
    assert_eq!(given[0][0]["command"], "mine");
    assert_eq!(card(&only_folder(&world))["tools"], json!(["rethread"]));
}

#[test]
fn it_can_be_turned_off() {
    let world = World::new();
    world.write("plan.md", "## Task a: A\n\ndo: say: x\n");
    world.set("workflow", "mcp = false");
    world.data(["init"]);
    world.data(["workflow", "start", "plan.md", "--agent", "ref"]);
    assert_eq!(servers(&world), [json!([])]);
    assert_eq!(card(&only_folder(&world))["tools"], json!([]));
}

#[test]
fn a_session_tells_of_the_server() {
    let world = World::new();
    world.write("plan.md", "## Task a: A\n\ndo: say: x\n");
    world.set("tools.files", "command = [\"mine\"]");
    world.data(["init"]);
    world.data(["workflow", "start", "plan.md", "--agent", "ref"]);
    assert_eq!(card(&only_folder(&world))["tools"], json!(["files", "rethread"]));
    assert_eq!(servers(&world)[0].as_array().map(Vec::len), Some(2));
}

/// A program that has the server of the agent that starts it start a workflow in another folder.
fn starts_in(world: &World, from: &str, worktree: &str) {
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "n", "version": "1"}}});
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let worktree = world.path(worktree).display().to_string();
    let arguments = json!({"plan": "plan.md", "agent": "ref", "worktree": worktree});
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
        "name": "start_workflow", "arguments": arguments}});
    let store = world.store().display();
    let script = format!(
        "{PROGRAM} --store sqlite:{store} mcp > answers <<'END'\n{hello}\n{ready}\n{call}\nEND\n"
    );
    let folder = world.path(from);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("ask.sh"), script).unwrap();
    let plan = "## Task a: A\n\ndo: exec: sh ask.sh\ndo: wait for: go\n";
    fs::write(folder.join("plan.md"), plan).unwrap();
}

#[test]
fn workflows_do_not_start_each_other_for_ever() {
    let world = World::new();
    world.set("mcp", "max_depth = 2");
    fs::create_dir(world.path("third")).unwrap();
    starts_in(&world, "project", "second");
    starts_in(&world, "second", "third");
    let mut mcp = Mcp::start(&world);
    mcp.tool("start_workflow", json!({"plan": "plan.md", "agent": "ref"}));
    until("the third is refused", || {
        let answers = fs::read_to_string(world.path("second/answers")).unwrap_or_default();
        answers.contains("have invoked each other 2 times").then_some(())
    });
    assert_eq!(world.json(["workflow", "list"]).as_array().map(Vec::len), Some(2));
    // The second ends with the agent that started it, and can be resumed.
    world.write("go", "");
    until_status(&mut mcp, "completed");
    let rows = world.json(["workflow", "list"]);
    let row = rows.as_array().unwrap().iter().find(|row| row["status"] != "completed").unwrap();
    let second = json!({"workflow_id": row["id"]});
    until("nobody runs it", || {
        (mcp.tool("workflow_status", second.clone())["is_running"] == false).then_some(())
    });
    fs::write(world.path("second/go"), "").unwrap();
    let resumed = mcp.tool("resume_workflow", second.clone());
    assert_eq!(resumed["from"]["trigger"], "crash", "{resumed:#}");
    until("it is done", || {
        (mcp.tool("workflow_status", second.clone())["status"] == "completed").then_some(())
    });
}
