//! Which session is meant: by id, by words, by folder; and which ones are refused.

use serde_json::json;

use crate::env::TestEnv;

fn world() -> TestEnv {
    let env = TestEnv::new();
    env.agent("ref", &["--resume"]);
    env
}

fn run(env: &TestEnv, title: &str, prompt: &str) -> String {
    let answer = env.json(["run", "ref", prompt, "--title", title]);
    answer["session_id"].as_str().unwrap().to_owned()
}

#[test]
fn words_that_mean_one_session_resume_it() {
    let env = world();
    let basket = run(&env, "The lost basket", "Remember PASSKEY-basket");
    run(&env, "The red fence", "Remember PASSKEY-fence, not the basket");
    let answer = env.json(["resume", "lost basket", "what was the passkey"]);
    assert_eq!(answer["session_id"], json!(basket));
    assert_eq!(answer["answer"], "The passkey is PASSKEY-basket");
    // A title comes before the text, where both have it.
    assert_eq!(env.json(["resume", "basket", "hello"])["session_id"], json!(basket));
    // By the text, where no title has it.
    let by_text = env.json(["resume", "PASSKEY-fence", "what was the passkey"]);
    assert_eq!(by_text["answer"], "The passkey is PASSKEY-fence");
    // By the beginning of an id.
    let short = &basket[24..32];
    assert_eq!(env.json(["resume", short, "hello"])["session_id"], json!(basket));
}

#[test]
fn words_that_mean_several_or_none_are_refused_and_say_what_there_is() {
    let env = world();
    let ids = [run(&env, "A basket", "hello"), run(&env, "Another basket", "hello")];
    let output = env.run(["resume", "basket", "hello", "--json"]);
    output.assert_error(1, "ambiguous");
    for id in &ids {
        assert!(output.stderr.contains(&id[24..32]), "{output}");
    }
    env.fails(&["resume", "elephants", "hello"], "session_not_found");
    env.fails(&["resume", "00000000-0000-7000-8000-000000000000", "hello"], "session_not_found");
    env.run(["resume", "--json"]).assert_error(1, "ambiguous");
    assert_eq!(env.json(["list"]).as_array().unwrap().len(), 2);
}

#[test]
fn a_list_shows_what_can_be_resumed() {
    let env = world();
    assert_eq!(env.json(["resume", "--list"]), json!([]));
    env.fails(&["resume"], "session_not_found");
    let first = run(&env, "A basket", "hello");
    let second = run(&env, "A fence", "hello");
    let archived = run(&env, "A basket in the cellar", "hello");
    env.data(["archive", &archived]);
    let ids = |list: serde_json::Value| -> Vec<String> {
        let sessions = list.as_array().unwrap().iter();
        sessions.map(|session| session["session_id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(env.json(["resume", "--list"])), [second.clone(), first.clone()]);
    assert_eq!(ids(env.json(["resume", "--list", "basket"])), [first]);
    let shown = env.data(["resume", "--list"]);
    assert!(shown.contains("A fence") && shown.contains(&second[24..32]), "{shown}");
}

#[test]
fn continue_and_stop_work_below_the_folder_of_the_session() {
    let env = world();
    let project = env.path("project");
    let below = project.join("src/deep");
    std::fs::create_dir_all(&below).unwrap();
    let script = ["sh", "-c", "cd src/deep && exec \"$@\"", "sh"];
    let there = |args: &[&str]| env.finish(env.command_by(&script, args), b"");
    run(&env, "first", "Remember PASSKEY-a");
    // Without a repository, nothing says that the folder above belongs to it.
    let output = there(&["continue", "what was the passkey"]);
    assert!(output.to_string().contains("there is no session"), "{output}");
    std::fs::create_dir(project.join(".git")).unwrap();
    let output = there(&["continue", "what was the passkey"]).succeeded();
    assert!(output.to_string().contains("The passkey is PASSKEY-a"), "{output}");
    assert!(output.to_string().contains("Going on with "), "{output}");
    let output = there(&["stop"]).succeeded();
    assert!(output.to_string().contains("Paused "), "{output}");
}

#[test]
fn to_stop_twice_does_not_stop_another_session() {
    let env = world();
    let older = run(&env, "older", "Remember PASSKEY-a");
    let newer = run(&env, "newer", "Remember PASSKEY-b");
    for id in [&older, &newer] {
        // It may be active already.
        env.run(["activate", id]);
        assert_eq!(env.json(["show", id])["status"], "active");
    }
    env.run(["stop"]).succeeded();
    env.fails(&["stop"], "ambiguous");
    assert_eq!(env.json(["show", &newer])["status"], "paused");
    assert_eq!(env.json(["show", &older])["status"], "active");
    env.run(["stop", &older]).succeeded();
    env.fails(&["stop"], "session_not_found");
}

#[test]
fn continue_takes_the_most_recent_session_of_the_folder() {
    let env = world();
    env.fails(&["continue", "hello"], "session_not_found");
    let first = run(&env, "first", "Remember PASSKEY-a");
    run(&env, "second", "Remember PASSKEY-b");
    assert_eq!(env.ask(&["continue", "what was the passkey"]).0, "The passkey is PASSKEY-b");
    env.ask(&["resume", &first, "hello"]);
    assert_eq!(env.ask(&["continue", "what was the passkey"]).0, "The passkey is PASSKEY-a");
    let elsewhere = env.path("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let folder = elsewhere.to_str().unwrap();
    env.fails(&["continue", "hello", "--project", folder], "session_not_found");
    env.ask(&["run", "ref", "Remember PASSKEY-c", "--project", folder]);
    assert_eq!(env.ask(&["continue", "what was the passkey"]).0, "The passkey is PASSKEY-a");
    let there = env.ask(&["continue", "what was the passkey", "--project", folder]);
    assert_eq!(there.0, "The passkey is PASSKEY-c");
    assert_eq!(env.ask(&["continue", "cwd?", "--project", folder]).0, folder);
}

#[test]
fn a_completed_session_is_taken_up_again_only_when_that_is_meant() {
    let env = world();
    let id = run(&env, "done", "Remember PASSKEY-a");
    env.data(["stop", &id, "--complete"]);
    for args in [&["resume", &id, "x"][..], &["continue", "x"], &["send", &id, "x"]] {
        env.fails(args, "session_completed");
    }
    let answer = env.ask(&["resume", &id, "what was the passkey", "--yes"]).0;
    assert_eq!(answer, "The passkey is PASSKEY-a");
    assert_eq!(env.json(["show", &id])["status"], "active");
    env.data(["complete", &id]);
    assert_eq!(env.ask(&["continue", "what was the passkey", "--yes"]).1, "resumed");
}

#[test]
fn archived_and_deleted_sessions_are_refused() {
    let env = world();
    let id = run(&env, "away", "hello");
    env.data(["archive", &id]);
    for args in [&["resume", &id, "x"][..], &["resume", &id, "x", "--yes"], &["send", &id, "x"]] {
        env.fails(args, "session_archived");
    }
    env.fails(&["continue", "x"], "session_not_found");
    env.data(["unarchive", &id]);
    env.data(["delete", &id]);
    let error = env.run(["resume", &id, "x", "--json"]).error().1;
    assert!(["session_deleted", "session_not_found"].contains(&error["code"].as_str().unwrap()));
    assert_eq!(env.prompts("ref").len(), 1);
}

#[test]
fn a_session_of_another_user_is_refused() {
    let env = world();
    let id = run(&env, "mine", "Remember PASSKEY-a");
    let as_bob = |args: &[&str]| {
        let mut command = env.command(args);
        command.env("RETHREAD_USER", "bob").arg("--json");
        env.finish(command, b"")
    };
    for args in [
        &["resume", &id, "x"][..],
        &["send", &id, "x"],
        &["continue", "x"],
        &["resume", "mine", "x"],
    ] {
        as_bob(args).assert_error(1, "session_not_found");
    }
    assert_eq!(as_bob(&["resume", "--list"]).succeeded().text().trim(), "[]");
    // What bob is told agrees with the list, which names whose each is.
    let told = as_bob(&["continue", "x"]).error().1;
    assert!(told["message"].as_str().unwrap().contains("no session of bob in "), "{told}");
    assert!(told["hint"].as_str().unwrap().contains("`rethread list --user bob`"), "{told}");
    let mut command = env.command(["list"]);
    command.env("RETHREAD_USER", "bob");
    let listed = env.finish(command, b"").succeeded();
    assert!(listed.text().contains("USER") && listed.text().contains("anna"), "{}", listed.text());
    assert!(!env.data(["list"]).contains("USER"));
    assert_eq!(env.prompts("ref").len(), 1);
    assert_eq!(env.records(&id, "main").len(), 2);
}

#[test]
fn a_session_without_an_agent_has_to_be_told_which() {
    let env = world();
    let id = env.record([""; 0], &crate::env::basket());
    let output = env.run(["resume", &id, "hello", "--json"]);
    output.assert_error(2, "bad_input");
    assert_eq!(env.ask(&["resume", &id, "hello", "--with", "ref"]).1, "retold");
    // From then on it has one.
    assert_eq!(env.ask(&["resume", &id, "hello"]).1, "resumed");
}

#[test]
fn a_folder_that_is_not_recorded_is_not_talked_in() {
    let env = world();
    let id = run(&env, "here", "hello");
    env.set("record", format!("exclude = [{:?}]", env.path("project").display().to_string()));
    env.fails(&["run", "ref", "x"], "not_recorded");
    env.fails(&["resume", &id, "x"], "not_recorded");
    assert_eq!(env.prompts("ref").len(), 1);
}
