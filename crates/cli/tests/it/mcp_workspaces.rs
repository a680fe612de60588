//! `rethread mcp` in a workspace: its sessions have folders, its kinds are prompts, and what comes by git is there.

use std::fs;

use serde_json::{Value, json};

use crate::mcp_client::{Mcp, text};
use crate::workspace_sessions::{card, folders, lines, only_folder, workspace};

#[test]
fn sessions_get_folders_as_others_do() {
    let env = workspace();
    let mut mcp = Mcp::start(&env);
    let told = mcp.invoke(json!({"agentName": "ref", "prompt": "say: the heron lands"}));
    let folder = only_folder(&env);
    assert_eq!(card(&folder)["id"], told["sessionId"]);
    assert_eq!(lines(&folder).len(), 2);
    let id = &told["sessionId"];
    mcp.invoke(json!({"agentName": "ref", "prompt": "say: again", "continueSessionId": id}));
    assert_eq!(lines(&folder).len(), 4);
    mcp.tool("save_session", json!({"session_id": id}));
    assert_eq!(card(&folder)["status"], "paused");
    let message = json!({"role": "user", "content": "The heron has eggs."});
    let asked = json!({"messages": [message], "kind": "debug", "title": "Eggs of herons"});
    let recorded = mcp.tool("record_messages", asked);
    let found = folders(&env);
    assert_eq!(found.len(), 2, "{found:?}");
    let debug = found.iter().find(|folder| folder.to_string_lossy().contains("debug")).unwrap();
    assert!(debug.to_string_lossy().contains("eggs-of-herons"), "{}", debug.display());
    assert_eq!(card(debug)["id"], recorded["session_id"]);
    mcp.tool("fork_session", json!({"session_id": id}));
    assert!(mcp.end().success());
    env.assert_sound();
}

#[test]
fn the_project_says_which_workspace_it_is() {
    let env = workspace();
    let elsewhere = env.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let project = env.path("project").display().to_string();
    let mut command = env.command(["mcp", "--project", &project]);
    command.current_dir(&elsewhere);
    let mut mcp = Mcp::spawn(command);
    mcp.invoke(json!({"agentName": "ref", "prompt": "say: the heron lands"}));
    only_folder(&env);
}

#[test]
fn there_is_a_prompt_for_each_kind() {
    let env = workspace();
    let kind = "# Feed the heron\n\nAsk how many fish it had.\n";
    fs::write(env.path("project/.rethread/kinds/feed.md"), kind).unwrap();
    let mut mcp = Mcp::start(&env);
    let listed = mcp.call("prompts/list", json!({}));
    let prompts = listed["result"]["prompts"].as_array().unwrap();
    let names: Vec<&str> = prompts.iter().map(|prompt| text(&prompt["name"])).collect();
    let kinds = ["brainstorm", "chat", "debug", "feed", "learn", "meeting", "plan", "review"];
    assert_eq!(names, [&["rethread-resume", "stop-conversation"], &kinds[..]].concat());
    let own = prompts.iter().find(|prompt| prompt["name"] == "feed").unwrap();
    assert_eq!(own["description"], "Feed the heron");
    let arguments = json!({"topic": "the grey one"});
    let got = mcp.call("prompts/get", json!({"name": "feed", "arguments": arguments}));
    let told = text(&got["result"]["messages"][0]["content"]["text"]).to_owned();
    assert!(told.starts_with(kind) && told.contains("Topic: the grey one"), "{told}");
    assert!(told.contains("\"feed\""), "what is recorded is of the kind: {told}");
    let nobody = mcp.call("prompts/get", json!({"name": "fed"}));
    assert!(text(&nobody["error"]["message"]).contains("There is no prompt"), "{nobody}");
}

#[test]
fn what_comes_by_git_is_there_while_the_server_runs() {
    let (here, there) = (workspace(), workspace());
    let mut mcp = Mcp::start(&here);
    assert_eq!(mcp.tool("list_sessions", json!({}))["sessions"], json!([]));
    there.run(["run", "ref", "say: the heron lands on REST"]).succeeded();
    let folder = only_folder(&there);
    let to = here.path("project").join(folder.strip_prefix(there.path("project")).unwrap());
    fs::create_dir_all(to.join(".session")).unwrap();
    for name in ["session.json", "messages.jsonl"] {
        fs::copy(folder.join(".session").join(name), to.join(".session").join(name)).unwrap();
    }
    let listed: Value = mcp.tool("list_sessions", json!({}));
    let id = listed["sessions"][0]["session_id"].clone();
    assert_eq!(id, card(&folder)["id"]);
    let context = mcp.tool("resume_session", json!({"session_id": id}));
    assert!(text(&context["context"]).contains("lands on REST"), "{context:#}");
}
