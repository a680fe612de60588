//! Nothing is lost or mixed up with agents: interrupted turns, sessions of others, what was said in the agent's own
//! program, titles, and turns that come to nothing.

use std::io::{Read, Write};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::env::TestEnv;

/// The agent under the flags; `unknown`: nothing is known of what it keeps.
fn world(flags: &[&str]) -> (TestEnv, String) {
    let env = TestEnv::new();
    let flags = [&["--chunk-delay-ms", "20"], flags].concat();
    env.agent_with("ref", &flags, "");
    env.ask(&["run", "ref", "Remember PASSKEY-a"]);
    let id = env.only();
    (env, id)
}

/// Kills us, and with us the agent, in the middle of an answer.
fn kill_in_mid_answer(env: &TestEnv, id: &str) {
    let mut command = env.command(["send", id, "stream: 5000"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut heard = [0; 12];
    child.stdout.take().unwrap().read_exact(&mut heard).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    env.assert_nothing_runs();
}

/// All that the agent's own session was told, when it is asked for it: kind and text.
fn told(env: &TestEnv, id: &str) -> (String, Vec<String>) {
    let (answer, how, _) = env.ask(&["send", id, "told?"]);
    let told: Vec<Value> = serde_json::from_str(&answer).unwrap();
    (how, told.iter().map(|one| one["text"].as_str().unwrap().to_owned()).collect())
}

fn times(told: &[String], what: &str) -> usize {
    told.iter().map(|text| text.matches(what).count()).sum()
}

#[test]
fn what_an_agent_keeps_of_an_interrupted_turn_is_seen_in_its_replay() {
    for (flags, tells_request, tells_answer) in [
        (&["--load", "--resume"][..], false, true),
        (&["--load", "--persist-nothing-until-end"], true, true),
        (&["--load", "--persist-halves"], false, false),
    ] {
        let (env, id) = world(flags);
        kill_in_mid_answer(&env, &id);
        let (how, told) = told(&env, &id);
        assert_eq!(how, "loaded", "{flags:?}");
        assert_eq!(times(&told, "stream: 5000"), 1, "{flags:?} {told:#?}");
        let missed = told.iter().find(|text| text.contains("This was said in our conversation"));
        let has = |what: &str| missed.is_some_and(|missed| missed.contains(what));
        assert_eq!(has("stream: 5000"), tells_request, "{flags:?} {told:#?}");
        assert_eq!(has("word1 word2"), tells_answer, "{flags:?} {told:#?}");
        assert!(!told.iter().any(|text| text.contains("may be a repetition")), "{told:#?}");
        env.assert_sound();
    }
}

#[test]
fn where_nobody_can_know_it_is_sent_again_and_marked() {
    let (env, id) = world(&["--resume"]);
    kill_in_mid_answer(&env, &id);
    let (how, told) = told(&env, &id);
    assert_eq!(how, "resumed");
    assert_eq!(times(&told, "stream: 5000"), 2, "{told:#?}");
    assert_eq!(times(&told, "may be a repetition"), 1, "{told:#?}");
    // Once is enough.
    env.ask(&["send", &id, "say: on"]);
    assert_eq!(times(&self::told(&env, &id).1, "may be a repetition"), 1);
}

#[test]
fn a_session_of_another_conversation_is_not_taken_for_this_one() {
    let env = TestEnv::new();
    env.agent("ref", &["--load", "--ids", "day"]);
    env.ask(&["run", "ref", "say: hello"]);
    let first = env.only();
    env.ask(&["send", &first, "Remember PASSKEY-first"]);
    // The agent's sessions are deleted, and its ids begin anew.
    std::fs::remove_dir_all(env.path("ref.memory")).unwrap();
    let second = env.json(["run", "ref", "say: hello"])["session_id"].as_str().unwrap().to_owned();
    env.ask(&["send", &second, "Remember PASSKEY-second"]);
    let (answer, how, why) = env.ask(&["send", &first, "what was the passkey"]);
    assert_eq!((how.as_str(), why.as_str()), ("retold", "mixed_up"), "{answer}");
    assert_eq!(answer, "The passkey is PASSKEY-first");
}

#[test]
fn what_was_said_in_the_agent_s_own_program_is_taken_in_once() {
    for (flags, later) in [
        (&["--load"][..], "loaded"),
        (&["--load", "--resume"], "loaded"),
        (&["--load", "--resume", "--list"], "resumed"),
    ] {
        said_natively(flags, later);
    }
}

/// `later`: how the agent is opened while nobody else talks to it.
fn said_natively(flags: &[&str], later: &str) {
    let env = TestEnv::new();
    env.agent("ref", flags);
    env.ask(&["run", "ref", "Remember PASSKEY-a"]);
    let id = env.only();
    let folder = std::fs::read_dir(env.path("ref.memory")).unwrap();
    let file = folder.map(|file| file.unwrap().path()).next().unwrap();
    env.ask(&["send", &id, "say: hello"]);
    let (_, how, _) = env.ask(&["send", &id, "say: hello"]);
    assert_eq!(how, later, "{flags:?}");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let now = u64::try_from(now.as_millis()).unwrap() + 1;
    let natively = [
        json!({"at": now, "kind": "told", "blocks": [{"type": "text", "text": "Remember PASSKEY-native"}]}),
        json!({"at": now, "kind": "said", "parts": [{"part": "text", "text": "I will."}]}),
    ];
    let mut own = std::fs::OpenOptions::new().append(true).open(file).unwrap();
    for line in natively {
        writeln!(own, "{line}").unwrap();
    }
    for expected in ["loaded", later] {
        let (answer, how, _) = env.ask(&["send", &id, "what was the passkey"]);
        let found = (answer.as_str(), how.as_str());
        assert_eq!(found, ("The passkey is PASSKEY-native", expected), "{flags:?}");
    }
    let messages = env.messages(&id);
    let taken: Vec<&Value> =
        messages.iter().filter(|one| one["extra"]["taken_in"].is_string()).collect();
    let said: Vec<&str> = taken.iter().map(|one| one["content"].as_str().unwrap()).collect();
    assert_eq!(said, ["Remember PASSKEY-native", "I will."], "{messages:#?}");
    // Another agent is told it, too; and this one is not told what it has.
    env.agent("other", &[]);
    let (answer, ..) = env.ask(&["send", &id, "what was the passkey", "--with", "other"]);
    assert_eq!(answer, "The passkey is PASSKEY-native");
    let told: Vec<String> = told(&env, &id).1;
    assert_eq!(times(&told, "Remember PASSKEY-native"), 1, "{told:#?}");
}

#[test]
fn the_title_of_a_person_stays_and_none_is_made_of_the_system_prompt() {
    let env = TestEnv::new();
    env.agent("ref", &["--resume"]);
    for option in ["--title", "--topic"] {
        let own = format!("Walrus {option}");
        let answer = env.json(["run", "ref", "title: The agent's own", option, &own]);
        let id = answer["session_id"].as_str().unwrap();
        assert_eq!(env.json(["show", id])["title"], own.as_str());
        let found = env.json(["search", "walrus"]);
        assert!(found.to_string().contains(id), "{found}");
    }
    let file = env.path("system.md");
    std::fs::write(&file, "You are a careful reviewer.\nBe short.").unwrap();
    for derived in
        ["You are a careful reviewer…", "You are a careful reviewer. Be short. Fix the basket"]
    {
        let prompt = format!("title: {derived}");
        let own = ["run", "ref", &prompt, "--system-prompt", file.to_str().unwrap()];
        let answer = env.json(own);
        let title = env.json(["show", answer["session_id"].as_str().unwrap()])["title"].clone();
        assert!(title.as_str().unwrap().starts_with("title: "), "the request, not {title}");
    }
}

#[test]
fn a_turn_without_an_answer_says_so() {
    let env = TestEnv::new();
    env.agent("ref", &["--resume"]);
    let limit = "say: API Error: 429 rate limit reached, try again in 30 minutes";
    for (prompt, outcome) in [
        ("do: no usage", "no_answer"),
        ("say: API Error: 500 internal server error", "model_error"),
        ("do: refuse: Internal error: API Error: 400 the request is not valid", "model_error"),
        (limit, "usage_limit"),
    ] {
        let output = env.run(["run", "ref", prompt, "--json"]);
        let (exit, error) = output.error();
        assert_eq!((exit, error["code"].as_str()), (1, Some(outcome)), "{output}");
        let answer: Value = serde_json::from_str(output.text()).unwrap();
        assert_eq!(answer["outcome"], outcome);
        assert!(answer["error"].is_string(), "{answer}");
        assert_eq!(answer["resets_at"].is_string(), outcome == "usage_limit", "{answer}");
        let shown = env.run(["run", "ref", prompt]);
        assert!(shown.to_string().contains("error: ref: the "), "{shown}");
    }
    assert_eq!(env.json(["run", "ref", "say: fine"])["outcome"], "answered");
    an_error_of_the_agent_tells_of_a_limit(&env);
    let mut mcp = crate::mcp_client::Mcp::start(&env);
    let invoked = mcp.invoke(json!({"agentName": "ref", "prompt": limit}));
    assert_eq!(
        (&invoked["status"], &invoked["outcome"]),
        (&json!("failed"), &json!("usage_limit"))
    );
    assert!(invoked["resetsAt"].is_string(), "{invoked}");
}

/// Some agents pass a limit on as an error of the protocol, with the time it is lifted in its words or in its data.
fn an_error_of_the_agent_tells_of_a_limit(env: &TestEnv) {
    let data = r#"do: refuse: {"code":429,"message":"Slow down","data":{"retry_after":90}}"#;
    for prompt in ["do: refuse: Usage limit reached, resets in 2h", data] {
        let output = env.run(["run", "ref", prompt, "--json"]);
        let (exit, error) = output.error();
        assert_eq!((exit, error["code"].as_str()), (1, Some("usage_limit")), "{output}");
        assert!(error["hint"].as_str().unwrap().contains("the limit is lifted at"), "{output}");
        let answer: Value = serde_json::from_str(output.text()).unwrap();
        assert_eq!(answer["outcome"], "usage_limit");
        let messages = env.messages(answer["session_id"].as_str().unwrap());
        let kept = &messages.last().unwrap()["extra"];
        assert_eq!(
            (&kept["outcome"], &kept["resets_at"]),
            (&json!("usage_limit"), &answer["resets_at"])
        );
        assert!(answer["resets_at"].is_string(), "{answer}");
    }
    let mut mcp = crate::mcp_client::Mcp::start(env);
    let invoked = mcp.invoke(json!({"agentName": "ref", "prompt": data}));
    assert_eq!(invoked["outcome"], "usage_limit", "{invoked}");
    assert!(invoked["resetsAt"].is_string(), "{invoked}");
}
