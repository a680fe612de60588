//! What is sent from the browser is recorded once, also where the agent's own sessions are imported

use rethread_testkit::until;
use serde_json::json;

use crate::env::TestEnv;
use crate::site::Site;

const NATIVE: &str = "22222222-2222-4222-8222-222222222222";

/// Writes what Claude Code keeps of a native session: requests and answers in turn.
fn transcript(env: &TestEnv, native: &str, texts: &[&str]) {
    let project = env.path("project").canonicalize().unwrap();
    let letters = project.to_str().unwrap().chars();
    let slug: String =
        letters.map(|char| if char.is_ascii_alphanumeric() { char } else { '-' }).collect();
    let lines = texts.iter().enumerate().map(|(n, text)| {
        let role = if n % 2 == 0 { "user" } else { "assistant" };
        let parent = n.checked_sub(1).map(|before| format!("{native}-{before}"));
        let record = json!({
            "parentUuid": parent, "isSidechain": false, "type": role, "uuid": format!("{native}-{n}"),
            "message": {"role": role, "content": text, "model": "claude-x"},
            "timestamp": format!("2026-11-17T10:00:0{n}.000Z"), "cwd": project, "sessionId": native, "version": "2.1.325",
        });
        format!("{record}\n")
    });
    let folder = env.path("home/.claude/projects").join(slug);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(format!("{native}.jsonl")), lines.collect::<String>()).unwrap();
}

#[test]
fn a_prompt_from_the_browser_is_not_imported_as_if_it_were_said_elsewhere() {
    let env = TestEnv::new();
    let own = format!("{NATIVE}-1");
    let modes = r#"hold = { ask = { mode = ["code"], options = {} }, deny = { mode = ["code"], options = {} } }"#;
    env.agent_with("claude", &["--ids", NATIVE, "--resume"], modes);
    env.set("agents.claude.native", "command = [\"/bin/true\"]");
    let id = env.json(["run", "claude", "say: first"])["session_id"].as_str().unwrap().to_owned();
    let mut said = vec!["say: first", "first"];
    transcript(&env, &own, &said);
    let printed = env.json(["resume", &id, "--native", "--print"]);
    assert!(printed["command"].to_string().contains(&own), "{printed}");

    let site = Site::within(env, &[]);
    let body = json!({"prompt": "say: from the browser", "agent": "claude"});
    let turn = site.post(&format!("/api/v1/sessions/{id}/prompts"), &body).is(202).json();
    site.over(turn["turn_id"].as_str().unwrap());
    said.extend(["say: from the browser", "from the browser"]);
    transcript(&site.env, &own, &said);
    let imported = site.env.json(["import"]);
    assert_eq!(imported["agents"]["claude"]["messages"], 0, "{imported}");
    assert_eq!(site.env.messages(&id).len(), 4);
    // What is said in Claude Code itself comes in, once.
    said.extend(["said natively", "Heard."]);
    transcript(&site.env, &own, &said);
    let imported = site.env.json(["import"]);
    assert_eq!(imported["agents"]["claude"]["messages"], 2, "{imported}");
    assert_eq!(site.env.messages(&id).last().unwrap()["content"], "Heard.");
}

#[test]
fn the_server_imports_what_agents_write_where_it_is_to_watch() {
    let env = TestEnv::new();
    env.set("serve", "watch = true");
    let site = Site::within(env, &[]);
    transcript(&site.env, NATIVE, &["Why is the till slow?", "A lock."]);
    let session = until("the session", || {
        let all = site.env.json(["list"]);
        all.as_array().unwrap().first().cloned().filter(|one| one["message_count"] == 2)
    });
    let id = session["session_id"].as_str().unwrap();
    assert_eq!(session["imported_from"], "claude");
    let page = site.get(&format!("/sessions/{id}")).is(200).text();
    assert!(page.contains("<dt>Imported from</dt><dd>claude</dd>"), "{page}");
}
