//! `rethread export`, `import`

use serde_json::{Value, json};

use crate::env::{TestEnv, jsonl, user};

/// A store with everything that a session can have.
fn rich() -> (TestEnv, Vec<String>) {
    let env = TestEnv::new();
    let id = env.record(
        ["--agent", "claude", "--kind", "plan", "--title", "Big plan"],
        &[
            user("The basket gets lost. We decided to keep the cookie."),
            json!({"role": "assistant", "content": "Line one\nline \u{1b}[31mtwo\u{202e}\u{0}", "id": "m-1",
                "model": "opus", "conversation": "side talk", "timestamp": "2023-05-01T10:00:00.123456Z",
                "tool_calls": [{"name": "ls", "arguments": {"z": 1, "a": [null, 1.5e300]}}],
                "usage": {"input_tokens": 12, "output_tokens": 3, "cost_usd": 0.1},
                "z_unknown": {"b": [1, {"c": null}], "a": "ü"}, "extra": {"nested": true}, "seq": 77}),
            json!({"role": "tool", "content": "x".repeat(200_000), "agent": "codex"}),
            json!({"role": "system", "content": ""}),
            user("The passkey is heron-42."),
        ],
    );
    let fork = env.data(["fork", &id, "--at", "3"]).trim().to_owned();
    env.record(
        ["--session", &fork],
        &[user("another way"), json!({"role": "user", "content": "y", "id": "m-2"})],
    );
    let nested = env.data(["fork", &fork]).trim().to_owned();
    env.record(["--session", &nested], &[user("a third way")]);
    env.data(["rename", &fork, "Another way"]);
    env.data(["prune", &id, "--keep", "1"]);
    env.data(["purge", &id, "1"]);
    env.data(["purge", &nested, "4"]);
    env.data(["pause", &id]);
    env.data(["complete", &fork]);
    let plain = env.basket();
    env.data(["archive", &plain]);
    (env, vec![id, fork, nested, plain])
}

#[test]
fn what_is_exported_and_imported_is_exported_the_same() {
    let (env, ids) = rich();
    for format in ["jsonl", "json"] {
        let whole = env.data(["export", "--all", "--format", format]);
        let other = TestEnv::new();
        other.feed(["import", "-"], &whole).succeeded();
        for id in &ids {
            let args = ["export", id.as_str(), "--format", format];
            assert_eq!(other.data(args), env.data(args), "{format}");
        }
        other.assert_sound();
        let third = TestEnv::new();
        third
            .feed(["import", "-"], other.data(["export", "--all", "--format", format]))
            .succeeded();
        for id in &ids {
            assert_eq!(third.data(["export", id]), env.data(["export", id]), "{format}");
        }
        third.assert_sound();
    }
}

#[test]
fn what_is_imported_reads_searches_and_resumes_the_same() {
    let (env, ids) = rich();
    let other = TestEnv::new();
    other.feed(["import", "-"], env.data(["export", "--all"])).succeeded();
    for env in [&env, &other] {
        env.data(["unarchive", &ids[3]]);
    }
    for id in &ids {
        assert_eq!(other.messages(id), env.messages(id));
        assert_eq!(
            other.json(["context", id]).get("context"),
            env.json(["context", id]).get("context")
        );
    }
    let finds = |env: &TestEnv, words: &str| {
        let rows = env.json(["search", words, "-n", "100"]);
        let mut rows: Vec<(String, Value)> = rows
            .as_array()
            .unwrap()
            .iter()
            .filter(|row| row["kind"] == "message")
            .map(|row| (row["session_id"].as_str().unwrap().to_owned(), row["seq"].clone()))
            .collect();
        rows.sort_by_key(|(id, seq)| (id.clone(), seq.as_u64()));
        rows
    };
    // A fork brings its own copy of what it shared.
    for row in finds(&env, "heron") {
        assert!(finds(&other, "heron").contains(&row), "{row:?}");
    }
    assert_eq!(other.json(["search", "decided"]), json!([]));
}

#[test]
fn an_export_is_one_json_object_a_line() {
    let env = TestEnv::new();
    let id = env.record(
        ["--agent", "claude"],
        &[json!({"role": "user", "content": "Hello", "timestamp": "2023-05-01T10:00:00Z", "mood": "good"})],
    );
    assert_output!(env.run(["export", &id]), @r#"
    exit: 0
    --- stdout
    {"type":"session","version":1,"id":"[ID1]","view":{"session_id":"[ID1]","user_id":"anna","project_id":"[ROOT]/project","kind":"chat","title":"Hello","agent":"claude","model":null,"status":"active","created_at":"2023-05-01T10:00:00Z","last_active_at":"2023-05-01T10:00:00Z","session_summary":null,"conversation_count":1,"message_count":1,"total_tokens":1,"input_tokens":0,"output_tokens":0,"cost_usd":0.0,"forked_from":null,"parent_session_id":null,"imported_from":null,"deleted_at":null,"resume_command":"rethread resume [SHORT1]"}}
    {"type":"fact","after":0,"at":"[TIME]","what":"started","user":"anna","project":"[ROOT]/project","kind":"chat","agent":"claude"}
    {"type":"fact","after":0,"at":"2023-05-01T10:00:00Z","what":"opened","n":1,"name":"main"}
    {"type":"message","seq":1,"id":"[ID1]:1","role":"user","content":"Hello","timestamp":"2023-05-01T10:00:00Z","conversation":"main","tokens":1,"extra":{"mood":"good"}}
    --- stderr
    "#);
    assert_output!(env.run(["export", &id, "--format", "json"]), @r#"
    exit: 0
    --- stdout
    {"version":1,"id":"[ID1]","view":{"session_id":"[ID1]","user_id":"anna","project_id":"[ROOT]/project","kind":"chat","title":"Hello","agent":"claude","model":null,"status":"active","created_at":"2023-05-01T10:00:00Z","last_active_at":"2023-05-01T10:00:00Z","session_summary":null,"conversation_count":1,"message_count":1,"total_tokens":1,"input_tokens":0,"output_tokens":0,"cost_usd":0.0,"forked_from":null,"parent_session_id":null,"imported_from":null,"deleted_at":null,"resume_command":"rethread resume [SHORT1]"},"facts":[{"after":0,"at":"[TIME]","what":"started","user":"anna","project":"[ROOT]/project","kind":"chat","agent":"claude"},{"after":0,"at":"2023-05-01T10:00:00Z","what":"opened","n":1,"name":"main"}],"messages":[
    {"seq":1,"id":"[ID1]:1","role":"user","content":"Hello","timestamp":"2023-05-01T10:00:00Z","conversation":"main","tokens":1,"extra":{"mood":"good"}}]}
    --- stderr
    "#);
}

#[test]
fn markdown_is_for_people_and_has_no_secrets() {
    let env = TestEnv::new();
    let id = env.record(
        ["--agent", "claude"],
        &[
            json!({"role": "user", "content": "Set PASSWORD=correcthorse42battery\n# and go on", "timestamp": "2023-05-01T10:00:00Z"}),
            json!({"role": "tool", "content": "```\nok", "timestamp": "2023-05-01T10:01:00Z"}),
        ],
    );
    assert_output!(env.run(["export", &id, "--format", "markdown"]), @"
    exit: 0
    --- stdout
    # Set PASSWORD=[redacted: password]

    - Session: [ID1]
    - Project: [ROOT]/project
    - Agent: claude
    - Status: active
    - Time: 2023-05-01 10:00 UTC to 2023-05-01 10:01 UTC
    - Length: 2 messages, 15 tokens
    - To go on: rethread resume [SHORT1]

    ## 1. User · 2023-05-01 10:00 UTC

    > Set PASSWORD=[redacted: password]
    > # and go on

    ## 2. Tool · 2023-05-01 10:01 UTC

    ````text
    ```
    ok
    ````

    --- stderr
    note: masked: 1 × password; --no-redact writes them unmasked
    ");
    let file = env.path("out.md");
    let file = file.to_str().unwrap();
    env.run(["export", &id, "--format", "markdown", "-o", file]).succeeded();
    assert_output!(TestEnv::new().run(["import", file]), @"
    exit: 2
    --- stdout
    --- stderr
    error: line 1: not valid JSON: expected value at line 1 column 1
    hint: `rethread import` reads what `rethread export` writes as jsonl or json; nothing of the session was imported
    ");
}

#[test]
fn an_export_goes_into_a_new_file_and_never_over_another() {
    let env = TestEnv::new();
    let id = env.basket();
    let file = env.path("out.jsonl");
    let file = file.to_str().unwrap();
    assert_output!(env.run(["export", &id, "-o", file]), @"
    exit: 0
    --- stdout
    --- stderr
    Wrote 1 session to [ROOT]/out.jsonl.
    ");
    assert_output!(env.run(["export", &id, "-o", file]), @"
    exit: 2
    --- stdout
    --- stderr
    error: [ROOT]/out.jsonl already exists
    hint: give a new file
    ");
    let other = TestEnv::new();
    other.settle(&id);
    assert_output!(other.run(["import", file]), @"
    exit: 0
    --- stdout
    --- stderr
    Imported [SHORT1] (The basket is lost when somebody logs in.) with 5 messages.
    ");
    assert_output!(other.run(["import", file]), @"
    exit: 0
    --- stdout
    --- stderr
    [SHORT1] (The basket is lost when somebody logs in.) already exists, with 5 messages (5 in the file): left as it is.
    ");
    assert_output!(other.run(["import", "missing.jsonl"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: missing.jsonl: No such file or directory (os error 2)
    hint: check that it exists and that you have access to it
    ");
}

#[test]
fn what_is_no_export_is_refused_with_its_line_and_nothing_of_the_session_is_taken_in() {
    let env = TestEnv::new();
    let id = env.basket();
    let good = env.data(["export", &id]);
    let lines: Vec<&str> = good.lines().collect();
    let other = TestEnv::new();
    assert_output!(other.feed(["import", "-"], ""), @"
    exit: 2
    --- stdout
    --- stderr
    error: there is nothing to import
    hint: give a file that `rethread export` wrote
    ");
    assert_output!(other.feed(["import", "-"], jsonl(&[user("a line of record")])), @"
    exit: 2
    --- stdout
    --- stderr
    error: line 1: not an export of a session: it has no version
    hint: `rethread import` reads what `rethread export` writes as jsonl or json; nothing of the session was imported
    ");
    assert_output!(other.feed(["import", "-"], format!("{}\n{}\nnot json\n", lines[0], lines[1])), @"
    exit: 2
    --- stdout
    --- stderr
    error: line 3: not valid JSON: expected ident at line 1 column 2
    hint: `rethread import` reads what `rethread export` writes as jsonl or json; nothing of the session was imported
    ");
    assert_output!(other.feed(["import", "-"], format!("{}\n{{\"type\":\"boat\"}}\n", lines[0])), @r#"
    exit: 2
    --- stdout
    --- stderr
    error: line 2: unknown type "boat"
    hint: `rethread import` reads what `rethread export` writes as jsonl or json; nothing of the session was imported
    "#);
    assert_output!(other.feed(["import", "-"], lines[..6].join("\n")), @"
    exit: 2
    --- stdout
    --- stderr
    error: line 6: the session is incomplete: it ends after 3 messages
    hint: `rethread import` reads what `rethread export` writes as jsonl or json; nothing of the session was imported
    ");
    assert_output!(other.feed(["import", "-"], lines[0]), @"
    exit: 2
    --- stdout
    --- stderr
    error: line 1: the session does not begin with its start
    hint: `rethread import` reads what `rethread export` writes as jsonl or json; nothing of the session was imported
    ");
    assert_eq!(other.json(["list", "--all"]), json!([]));
    other.assert_sound();
}

#[test]
fn what_is_newer_or_torn_or_no_text_is_refused() {
    let env = TestEnv::new();
    let id = env.basket();
    let good = env.data(["export", &id]);
    let other = TestEnv::new();
    assert_output!(other.feed(["import", "-"], good.replace("\"version\":1", "\"version\":2")), @"
    exit: 2
    --- stdout
    --- stderr
    error: line 1: version 2 is newer than this program
    hint: `rethread import` reads what `rethread export` writes as jsonl or json; nothing of the session was imported
    ");
    assert_output!(other.feed(["import", "-"], b"\xff\xfe\x00\n"), @"
    exit: 2
    --- stdout
    --- stderr
    error: line 1: stream did not contain valid UTF-8
    hint: `rethread import` reads what `rethread export` writes as jsonl or json; nothing of the session was imported
    ");
    assert_output!(other.feed(["import", "-"], &good.as_bytes()[..good.len() - 20]), @"
    exit: 2
    --- stdout
    --- stderr
    error: line 8: not valid JSON: EOF while parsing a value at line 1 column 207
    hint: `rethread import` reads what `rethread export` writes as jsonl or json; nothing of the session was imported
    ");
    assert_eq!(other.json(["list", "--all"]), json!([]));
    other.assert_sound();
}

#[test]
fn messages_out_of_their_order_or_twice_are_refused() {
    let env = TestEnv::new();
    let id = env.basket();
    let good = env.data(["export", &id]);
    let lines: Vec<&str> = good.lines().collect();
    let messages: Vec<usize> =
        (0..lines.len()).filter(|&at| lines[at].starts_with("{\"type\":\"message\"")).collect();
    let other = TestEnv::new();
    let mut swapped = lines.clone();
    swapped.swap(messages[1], messages[2]);
    let refused = other.feed(["import", "-"], swapped.join("\n"));
    assert!(refused.stderr.contains("message 3 stands where message 2 belongs"), "{refused}");
    let twice = good.replace(&format!("\"id\":\"{id}:2\""), &format!("\"id\":\"{id}:1\""));
    assert_ne!(twice, good);
    let refused = other.feed(["import", "-"], twice);
    assert!(refused.stderr.contains("two messages have the id"), "{refused}");
    // The same in one JSON document.
    let whole = env.data(["export", &id, "--format", "json"]);
    let wrong = whole.replace("\"seq\":2", "\"seq\":3").replace("\"seq\": 2", "\"seq\": 3");
    assert_ne!(wrong, whole);
    other.feed(["import", "-", "--json"], wrong).assert_error(2, "bad_input");
    assert_eq!(other.json(["list", "--all"]), json!([]));
}

#[test]
fn facts_that_do_not_fit_are_refused() {
    let env = TestEnv::new();
    let id = env.basket();
    let good = env.data(["export", &id]);
    let other = TestEnv::new();
    for (from, to) in [
        ("\"n\":1", "\"n\":4294967295"),
        ("\"n\":1", "\"n\":0"),
        ("\"after\":0", "\"after\":6"),
        ("\"after\":0", "\"after\":99999999999"),
        ("\"name\":\"main\"", "\"name\":\"side\""),
    ] {
        let bad = good.replace(from, to);
        assert_ne!(bad, good);
        other.feed(["import", "-", "--json"], bad).assert_error(2, "bad_input");
    }
    assert_eq!(other.json(["list", "--all"]), json!([]));
}

#[test]
fn sessions_that_are_there_already_stay_and_the_others_come_in() {
    let env = TestEnv::new();
    let ids = [env.basket(), env.basket(), env.basket()];
    let exported = ids.each_ref().map(|id| env.data(["export", id]));
    let other = TestEnv::new();
    other.settle(&ids.join(" "));
    other.feed(["import", "-"], &exported[1]).succeeded();
    other.record(["--session", &ids[1]], &[user("said only here")]);
    assert_output!(other.feed(["import", "-"], exported.concat()), @"
    exit: 0
    --- stdout
    --- stderr
    [SHORT2] (The basket is lost when somebody logs in.) already exists, with 6 messages (5 in the file): left as it is.
    Imported [SHORT1] (The basket is lost when somebody logs in.) with 5 messages.
    Imported [SHORT3] (The basket is lost when somebody logs in.) with 5 messages.
    ");
    assert_output!(other.feed(["import", "-"], exported[1..].concat()), @"
    exit: 0
    --- stdout
    --- stderr
    [SHORT2] (The basket is lost when somebody logs in.) already exists, with 6 messages (5 in the file): left as it is.
    [SHORT3] (The basket is lost when somebody logs in.) already exists, with 5 messages (5 in the file): left as it is.
    ");
    assert_eq!(other.feed(["import", "-", "--json"], &exported[1]).succeeded().text().trim(), "[]");
    assert_eq!(other.messages(&ids[1]).len(), 6);
    assert_eq!(other.json(["list"]).as_array().unwrap().len(), 3);
    other.assert_sound();
}

#[test]
fn sessions_before_a_bad_one_stay_and_the_bad_one_is_not_there_at_all() {
    let env = TestEnv::new();
    let first = env.data(["export", &env.basket()]);
    let second = env.data(["export", &env.basket()]);
    let broken: Vec<&str> = second.lines().take(4).collect();
    let other = TestEnv::new();
    let told = other.feed(["import", "-"], format!("{first}{}\n{{\"type\":\n", broken.join("\n")));
    assert_eq!(told.code, Some(2), "{told}");
    assert_eq!(other.json(["list", "--all"]).as_array().unwrap().len(), 1);
    other.assert_sound();
}
