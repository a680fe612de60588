//! What an agent is told, and when (SPEC AGT-1, AGT-3, AGT-4): each record once, in order, of its own conversation.

use serde_json::{Value, json};

use crate::chat::Chat;
use crate::env::TestEnv;
use crate::reference::{Record, history};

fn record(role: &str, text: &str) -> Record {
    (role.to_owned(), text.to_owned())
}

fn world(flags: &[&str]) -> TestEnv {
    let env = TestEnv::new();
    env.agent("ref", flags);
    env
}

/// What the last prompt told of the past.
fn last_history(env: &TestEnv, agent: &str) -> Vec<Record> {
    let prompt = env.prompts(agent).pop().expect("a prompt");
    prompt.iter().flat_map(|(_, text)| history(text)).collect()
}

#[test]
fn after_an_interrupted_answer_only_what_was_cut_off_is_told() {
    let env = world(&["--resume"]);
    env.ask(&["run", "ref", "Remember PASSKEY-a"]);
    let id = env.only();
    env.fails(&["resume", &id, "die"], "agent_ended");
    env.assert_nothing_runs();
    let (answer, how, why) = env.ask(&["resume", &id, "what was the passkey"]);
    assert_eq!(
        (answer.as_str(), how.as_str(), why.as_str()),
        ("The passkey is PASSKEY-a", "resumed", "")
    );
    assert_eq!(last_history(&env, "ref"), [record("assistant", "half of an answer …")]);
    let told = &env.prompts("ref").pop().unwrap()[0].1;
    assert!(told.contains("[This answer was interrupted.]"), "{told}");
    env.assert_held("ref", &id, "main");
    env.ask(&["resume", &id, "and now?"]);
    assert_eq!(last_history(&env, "ref"), [], "told once");
}

#[test]
fn what_nobody_knows_is_kept_as_it_came() {
    let env = world(&["--resume"]);
    let (answer, ..) = env.ask(&["run", "ref", "unknown update"]);
    assert_eq!(answer, "This came with unknown fields. ACK: I was told 1 message");
    let id = env.only();
    let kept = env.messages(&id).pop().unwrap().to_string();
    assert!(kept.contains("weather_update") && kept.contains("\"clouds\":3"), "{kept}");
    assert_eq!(env.ask(&["resume", &id, "hello"]).1, "resumed");
    env.assert_held("ref", &id, "main");
}

#[test]
fn an_agent_that_keeps_nothing_until_the_end_is_told_the_request_too() {
    let env = TestEnv::new();
    let flags = ["--resume", "--persist-nothing-until-end"];
    env.agent_with("ref", &flags, "[agents.ref.quirks]\nkeeps_request = false");
    env.ask(&["run", "ref", "Remember PASSKEY-a"]);
    let id = env.only();
    env.fails(&["resume", &id, "die"], "agent_ended");
    let recalled = env.ask(&["resume", &id, "what was the passkey"]);
    assert_eq!((recalled.0.as_str(), recalled.1.as_str()), ("The passkey is PASSKEY-a", "resumed"));
    let missed = [record("user", "die"), record("assistant", "half of an answer …")];
    assert_eq!(last_history(&env, "ref"), missed);
    env.assert_held("ref", &id, "main");
}

#[test]
fn an_agent_that_dies_in_its_first_turn_is_told_all_of_it_in_a_new_session() {
    for word in ["die", "exit"] {
        let env = world(&["--resume"]);
        env.fails(&["run", "ref", word], "agent_ended");
        let id = env.only();
        let (answer, how, why) = env.ask(&["resume", &id, "told what?"]);
        assert_eq!((how.as_str(), why.as_str()), ("retold", "first_turn"), "{answer}");
        assert_eq!(last_history(&env, "ref")[0], record("user", word));
        env.assert_held("ref", &id, "main");
    }
}

#[test]
fn a_conversation_goes_on_when_its_agent_dies_in_the_middle() {
    let env = world(&["--resume"]);
    let mut chat = Chat::start(&env, &["run", "ref"]);
    chat.say("Remember PASSKEY-a");
    assert_eq!(chat.say("die"), "half of an answer …");
    assert_eq!(chat.say("what was the passkey"), "The passkey is PASSKEY-a");
    let id = env.only();
    let (status, _, told) = chat.end();
    assert!(status.success(), "{told}");
    assert!(told.contains("error: ref: the agent ended (exit code 3)"), "{told}");
    assert!(told.contains("[ref: resumed in its own session]"), "{told}");
    env.assert_held("ref", &id, "main");
    env.assert_nothing_runs();
}

#[test]
fn who_comes_back_is_told_what_another_agent_did_meanwhile() {
    let env = world(&["--resume"]);
    env.agent("other", &["--load"]);
    env.ask(&["run", "ref", "Remember PASSKEY-a"]);
    let id = env.only();
    let (_, how, why) = env.ask(&["resume", &id, "Remember PASSKEY-b", "--with", "other"]);
    assert_eq!((how.as_str(), why.as_str()), ("retold", "other_agent"));
    env.assert_held("other", &id, "main");
    let back = env.ask(&["resume", &id, "what was the passkey", "--with", "ref"]);
    assert_eq!((back.0.as_str(), back.1.as_str()), ("The passkey is PASSKEY-b", "resumed"));
    let missed =
        [record("user", "Remember PASSKEY-b"), record("assistant", "ACK: I was told 1 message")];
    assert_eq!(last_history(&env, "ref"), missed);
    env.assert_held("ref", &id, "main");
    // And the other one in turn, who was gone for one exchange.
    let (answer, how, _) = env.ask(&["resume", &id, "what was the passkey", "--with", "other"]);
    assert_eq!((answer.as_str(), how.as_str()), ("The passkey is PASSKEY-b", "loaded"));
    assert_eq!(last_history(&env, "other").len(), 2);
    env.assert_held("other", &id, "main");
}

#[test]
fn the_conversations_of_a_session_do_not_mix() {
    for flags in [&["--resume"][..], &["--load"], &[]] {
        let env = world(flags);
        env.ask(&["run", "ref", "first things"]);
        let id = env.only();
        env.ask(&["resume", &id, "second things", "--conversation", "new"]);
        let talks = [("main", "PASSKEY-one"), ("conversation-2", "PASSKEY-two")];
        for (conversation, key) in talks {
            let prompt = format!("Remember {key}");
            env.ask(&["resume", &id, &prompt, "--conversation", conversation]);
        }
        for (conversation, key) in talks {
            let ask = ["resume", &id, "what was the passkey", "--conversation", conversation];
            assert_eq!(env.ask(&ask).0, format!("The passkey is {key}"), "{flags:?}");
        }
        for prompt in env.prompts("ref") {
            let all: String = prompt.into_iter().map(|(_, text)| text).collect();
            assert!(!(all.contains("PASSKEY-one") && all.contains("PASSKEY-two")), "{all}");
        }
        if flags.is_empty() {
            env.assert_held("ref", &id, "conversation-2");
        }
    }
}

#[test]
fn everything_is_told_that_was_recorded_without_an_agent() {
    let env = world(&["--resume"]);
    let id = env.basket();
    let (answer, how, why) = env.ask(&["resume", &id, "hello", "--with", "ref"]);
    assert_eq!((how.as_str(), why.as_str()), ("retold", "other_agent"), "{answer}");
    env.assert_held("ref", &id, "main");
}

#[test]
fn the_system_prompt_is_told_once_in_each_new_session_before_all_else() {
    let env = TestEnv::new();
    let entry = "system_prompt = \"Be brief.\"";
    env.agent_with("ref", &["--resume"], entry);
    env.ask(&["run", "ref", "first"]);
    let id = env.only();
    env.ask(&["resume", &id, "second"]);
    env.agent_with("ref", &["--resume", "--lose"], entry);
    env.ask(&["resume", &id, "third"]);
    let file = env.path("system.md");
    std::fs::write(&file, "Be long.").unwrap();
    env.ask(&["resume", &id, "fourth", "--system-prompt", file.to_str().unwrap()]);
    let texts: Vec<Vec<String>> = env
        .prompts("ref")
        .into_iter()
        .map(|prompt| prompt.into_iter().map(|(_, text)| text).collect())
        .collect();
    assert_eq!(texts[0], ["Be brief.", "first"]);
    assert_eq!(texts[1], ["second"]);
    for (n, system, message) in [(2, "Be brief.", "third"), (3, "Be long.", "fourth")] {
        assert_eq!((texts[n].len(), texts[n][0].as_str()), (3, system));
        assert_eq!(history(&texts[n][1]).len(), 2 * n, "{texts:?}");
        assert_eq!(texts[n][2], message);
    }
    // It is not part of the conversation.
    assert_eq!(env.records(&id, "main").len(), 8);
}

#[test]
fn an_empty_or_missing_system_prompt() {
    let env = TestEnv::new();
    env.agent_with("ref", &[], "system_prompt = \"  \"");
    env.ask(&["run", "ref", "first"]);
    assert_eq!(env.prompts("ref")[0].len(), 1);
    let output = env.run(["run", "ref", "x", "--system-prompt", "/no/such/file", "--json"]);
    output.assert_error(2, "bad_input");
}

#[test]
fn what_was_set_is_set_again_in_every_session_to_come() {
    for flags in [&["--resume"][..], &["--load"], &[]] {
        let env = world(flags);
        assert_eq!(env.ask(&["run", "ref", "mode?"]).0, "mode code model small");
        let id = env.only();
        let answer = env.ask(&["resume", &id, "mode?", "--model", "large"]).0;
        assert_eq!(answer, "mode code model large");
        assert_eq!(env.ask(&["resume", &id, "mode?"]).0, "mode code model large", "{flags:?}");
        let mut chat = Chat::start(&env, &["resume", &id]);
        chat.type_line("/mode plan");
        assert_eq!(chat.say("mode?"), "mode plan model large");
        // The last thing before leaving counts as well.
        chat.type_line("/model small");
        assert!(chat.end().0.success());
        assert_eq!(env.ask(&["resume", &id, "mode?"]).0, "mode plan model small", "{flags:?}");
    }
}

#[test]
fn the_model_that_is_shown_is_that_of_the_agent_that_is_shown() {
    let env = world(&["--resume"]);
    env.agent("other", &["--resume"]);
    let shown = |id: &str| {
        let session = env.json(["show", id]);
        (session["agent"].clone(), session["model"].clone())
    };
    env.ask(&["run", "ref", "say: x", "--model", "large"]);
    let id = env.only();
    assert_eq!(shown(&id), (json!("ref"), json!("large")));
    env.ask(&["resume", &id, "say: y", "--with", "other"]);
    assert_eq!(shown(&id), (json!("other"), Value::Null));
    env.ask(&["resume", &id, "say: z", "--model", "small"]);
    assert_eq!(shown(&id), (json!("other"), json!("small")));
    assert_eq!(env.json(["list"])[0]["model"], "small");
    env.ask(&["resume", &id, "say: z", "--with", "ref"]);
    assert_eq!(shown(&id).1, "large");
}

#[test]
fn a_model_that_is_set_after_the_agent_died_is_used_by_the_next() {
    let env = world(&["--resume"]);
    let mut chat = Chat::start(&env, &["run", "ref"]);
    assert_eq!(chat.say("mode?"), "mode code model small");
    chat.say("die");
    chat.type_line("/model large");
    assert_eq!(chat.say("mode?"), "mode code model large");
    assert!(chat.end().0.success());
}

#[test]
fn a_model_that_there_is_not_is_an_error_and_leaves_no_session() {
    let env = world(&["--resume"]);
    env.fails(&["run", "ref", "hello", "--model", "huge"], "unsupported");
    // The same where the settings of an entry name it.
    env.agent_with("ref", &["--resume"], "model = \"huge\"");
    let refused = env.fails(&["run", "ref", "hello"], "unsupported");
    assert!(refused["message"].as_str().unwrap().contains("it has: small, large"), "{refused}");
    assert_eq!(env.json(["list"]), serde_json::json!([]));
    env.agent_with("ref", &["--resume"], "model = \"large\"\nmode = \"plan\"");
    assert_eq!(env.ask(&["run", "ref", "mode?"]).0, "mode plan model large");
    env.assert_nothing_runs();
}

#[test]
fn required_fails_rather_than_retell() {
    let env = world(&["--resume"]);
    // Nothing has to be retold where nothing was said.
    env.ask(&["run", "ref", "Remember PASSKEY-a", "--policy", "required"]);
    let id = env.only();
    let ask = ["resume", &id, "what was the passkey", "--policy", "required"];
    assert_eq!(env.ask(&ask).1, "resumed");
    for (flags, why) in
        [(&["--resume", "--lose"][..], "does not know its session"), (&[], "neither")]
    {
        env.agent("ref", flags);
        let error = env.fails(&ask, "not_resumable");
        assert!(error["message"].as_str().unwrap().contains(why), "{error}");
        env.assert_nothing_runs();
    }
    env.agent("other", &["--resume"]);
    env.fails(&["resume", &id, "x", "--policy", "required", "--with", "other"], "not_resumable");
    // Its own session is not given up.
    env.agent("ref", &["--resume"]);
    assert_eq!(env.ask(&ask).1, "resumed");
    env.assert_held("ref", &id, "main");
}

#[test]
fn off_tells_nothing() {
    let env = world(&["--resume"]);
    env.ask(&["run", "ref", "Remember PASSKEY-a"]);
    let id = env.only();
    let (answer, how, why) = env.ask(&["resume", &id, "what was the passkey", "--policy", "off"]);
    assert_eq!(answer, "I don't know the passkey");
    assert_eq!((how.as_str(), why.as_str()), ("untold", "policy"));
    assert_eq!(env.prompts("ref").pop().unwrap().len(), 1);
    // Who comes back without it comes back to the session that knows the conversation, and is told what it missed.
    let back = env.ask(&["resume", &id, "what was the passkey"]);
    assert_eq!((back.0.as_str(), back.1.as_str()), ("The passkey is PASSKEY-a", "resumed"));
    let missed =
        [record("user", "what was the passkey"), record("assistant", "I don't know the passkey")];
    assert_eq!(last_history(&env, "ref"), missed);
}

#[test]
fn from_a_message_on_it_is_a_fork() {
    let env = world(&["--resume"]);
    env.ask(&["run", "ref", "Remember PASSKEY-a"]);
    let id = env.only();
    env.ask(&["resume", &id, "Remember PASSKEY-b"]);
    let fork = env.json(["resume", &id, "what was the passkey", "--from", "2"]);
    assert_eq!(fork["answer"], "The passkey is PASSKEY-a");
    assert_eq!(fork["opened"]["how"], "retold");
    let fork = fork["session_id"].as_str().unwrap();
    assert_ne!(fork, id);
    env.assert_held("ref", fork, "main");
    assert_eq!(env.records(&id, "main").len(), 4, "the original is as it was");
    // Its own session goes on where it was.
    let (answer, how, _) = env.ask(&["resume", &id, "what was the passkey"]);
    assert_eq!((answer.as_str(), how.as_str()), ("The passkey is PASSKEY-b", "resumed"));
    env.fails(&["resume", &id, "x", "--from", "99"], "message_not_found");
}

#[test]
fn a_fork_that_cannot_be_gone_on_with_is_not_made() {
    let env = world(&[]);
    env.ask(&["run", "ref", "hello"]);
    let id = env.only();
    env.fails(&["resume", &id, "x", "--from", "2", "--with", "nobody"], "unknown_agent");
    env.agent("ref", &["--exit-at-once"]);
    env.fails(&["resume", &id, "x", "--from", "2"], "agent_ended");
    let mut command = env.command(["resume", &id, "x", "--from", "2", "--json"]);
    command.env("RETHREAD_USER", "bob");
    env.finish(command, b"").assert_error(1, "session_not_found");
    assert_eq!(env.only(), id);
}
