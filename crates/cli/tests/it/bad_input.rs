//! Requests that cannot be carried out: each is told clearly, and nothing is lost or half-written.

use serde_json::json;

use crate::env::{TestEnv, jsonl, user};

#[test]
fn an_unknown_id_is_not_found() {
    let env = TestEnv::new();
    let id = env.basket();
    assert_output!(env.run(["show", "ffffffff"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: no session ffffffff
    hint: `rethread list` lists the sessions
    ");
    let unknown = "ffffffff-ffff-7fff-8fff-ffffffffffff";
    for args in [
        &["show", unknown][..],
        &["context", unknown],
        &["pause", unknown],
        &["complete", unknown],
        &["activate", unknown],
        &["archive", unknown],
        &["unarchive", unknown],
        &["rename", unknown, "x"],
        &["fork", unknown],
        &["prune", unknown],
        &["export", unknown],
        &["delete", unknown],
        &["undelete", unknown],
        &["purge", unknown, "1"],
        &["record", "--session", unknown],
        &["search", "x", "--session", unknown],
    ] {
        let refused = env.feed([args, &["--json"]].concat(), jsonl(&[user("x")]));
        refused.assert_error(1, "session_not_found");
    }
    assert_eq!(env.messages(&id).len(), 5);
    assert_eq!(env.json(["list", "--all"]).as_array().unwrap().len(), 1);
}

#[test]
fn an_ambiguous_prefix_names_the_candidates() {
    let env = TestEnv::new();
    let ids = [env.basket(), env.basket()];
    let common: String =
        ids[0].chars().zip(ids[1].chars()).take_while(|(a, b)| a == b).map(|(a, _)| a).collect();
    assert_output!(env.run(["show", &common[..4]]), @"
    exit: 1
    --- stdout
    --- stderr
    error: 01a1 could mean several sessions: [SHORT1] (The basket is lost when somebody logs…), [SHORT2] (The basket is lost when somebody logs…)
    hint: give more of the id
    ");
    for command in ["show", "context", "pause", "delete", "export"] {
        env.run([command, &common[..4], "--json"]).assert_error(1, "ambiguous_id");
    }
    assert_eq!(env.json(["show", &ids[1].to_uppercase()])["session_id"], json!(ids[1]));
}

#[test]
fn any_unambiguous_part_of_an_id_will_do() {
    let env = TestEnv::new();
    let id = env.basket();
    for part in [&id[..4], &id[..13], &id, &id[24..32], &id[24..28]] {
        assert_eq!(env.json(["show", part])["session_id"], json!(id), "{part}");
    }
}

#[test]
fn limits_begin_at_one() {
    let env = TestEnv::new();
    let id = env.basket();
    assert_output!(env.run(["context", &id, "--tokens", "0"]), @"
    exit: 2
    --- stdout
    --- stderr
    error: the limit of tokens must be at least 1
    ");
    assert_output!(env.run(["list", "--limit", "-5"]), @"
    exit: 2
    --- stdout
    --- stderr
    error: the limit of sessions must be at least 1
    ");
    for given in ["0", "-5"] {
        for args in [
            &["context", &id, "--tokens", given][..],
            &["context", &id, "--messages", given],
            &["context", &id, "--conversations", given],
            &["list", "--limit", given],
            &["list", "-n", given],
            &["search", "x", "--limit", given],
        ] {
            env.run([args, &["--json"]].concat()).assert_error(2, "limit_not_positive");
        }
    }
    for args in [&["context", &id, "--tokens", "many"][..], &["list", "-n", "99999999999999999999"]]
    {
        env.run([args, &["--json"]].concat()).assert_error(2, "usage");
    }
    assert_eq!(env.json(["list"]).as_array().unwrap().len(), 1);
}

#[test]
fn an_empty_standard_input_starts_nothing() {
    let env = TestEnv::new();
    assert_output!(env.feed(["record"], ""), @"
    exit: 2
    --- stdout
    --- stderr
    error: there was nothing to record: standard input is empty
    hint: `rethread record --help` shows what a line looks like
    ");
    assert_output!(env.feed(["record"], "\n \n"), @"
    exit: 2
    --- stdout
    --- stderr
    error: there was nothing to record: standard input is empty
    hint: `rethread record --help` shows what a line looks like
    ");
    assert_eq!(env.json(["list", "--all"]), json!([]));
    let id = env.basket();
    assert_eq!(env.feed(["record", "--session", &id], "").code, Some(2));
    assert_eq!(env.messages(&id).len(), 5);
    env.assert_sound();
}

#[test]
fn a_binary_standard_input_is_refused() {
    let env = TestEnv::new();
    let program = [&b"\x7fELF\x02\x01\x01\x00"[..], &[0xc3; 10_000]].concat();
    let told = env.feed(["record", "--ack"], program);
    assert_output!(told, @"
    exit: 2
    --- stdout
    [ID1]
    --- stderr
    error: line 1: not valid UTF-8
    hint: `rethread record --help` shows what a line looks like
    ");
    let zeros = env.feed(["record", "--ack"], [0; 4096]);
    assert_output!(zeros, @"
    exit: 2
    --- stdout
    [ID2]
    --- stderr
    error: line 1: not valid JSON: expected value at line 1 column 1
    hint: `rethread record --help` shows what a line looks like
    ");
    assert_eq!(env.json(["list", "--all"]), json!([]));
}

#[test]
fn a_line_that_is_not_valid_is_told_with_its_number_and_all_before_it_is_kept() {
    for (bad, why) in [
        (&b"\xff\xfe"[..], "not valid UTF-8"),
        (b"{\"role\":\"user\",\"content\":\"caf\xe9\"}", "not valid UTF-8"),
        (b"{\"role\":\"user\"", "not valid JSON"),
        (b"{\"role\":\"user\",\"content\":\"x\"} trailing", "not valid JSON"),
        (b"{\"role\":\"user\",\"content\":\"\\ud800\"}", "not valid JSON"),
        (b"[]", "not a JSON object"),
        (b"null", "not a JSON object"),
        (b"{}", "\"role\" is missing"),
        (b"{\"role\":\"boss\",\"content\":\"x\"}", "not a role"),
        (b"{\"role\":\"user\",\"content\":5}", "\"content\" must be a text"),
        (b"{\"role\":\"user\",\"content\":\"x\",\"timestamp\":\"soon\"}", "not a time"),
        (b"{\"role\":\"user\",\"content\":\"x\",\"usage\":{\"cost_usd\":-1}}", "not negative"),
    ] {
        let env = TestEnv::new();
        let mut input = jsonl(&[user("one"), user("two")]).into_bytes();
        input.extend(bad);
        input.extend(format!("\n{}\n", user("four")).into_bytes());
        let told = env.feed(["record", "--ack"], &input);
        assert_eq!(told.code, Some(2), "{told}");
        assert!(told.stderr.starts_with("error: line 3: ") && told.stderr.contains(why), "{told}");
        assert!(told.stderr.contains("hint: "), "{told}");
        let id = told.text().lines().next().unwrap();
        assert_eq!(told.text().lines().count(), 3, "{told}");
        let contents: Vec<_> = env.messages(id).iter().map(|one| one["content"].clone()).collect();
        assert_eq!(contents, ["one", "two"]);
    }
}

#[test]
fn a_message_over_the_limit_is_refused_and_what_came_before_is_kept() {
    let env = TestEnv::new();
    env.data(["config", "set", "record.max_message_bytes", "100"]);
    let fits = user(&"ü".repeat(50));
    let told =
        env.feed(["record", "--ack"], jsonl(&[fits.clone(), user(&"x".repeat(101)), fits.clone()]));
    assert_output!(told, @r#"
    exit: 2
    --- stdout
    [ID1]
    {"seq":1}
    --- stderr
    error: line 2: the message has 101 bytes; at most 100 are allowed
    hint: the setting record.max_message_bytes allows longer ones
    "#);
    let id = told.text().lines().next().unwrap().to_owned();
    // So long that it is not even read.
    let told =
        env.feed(["record", "--ack", "--session", &id], jsonl(&[fits, user(&"x".repeat(3 << 20))]));
    assert_output!(told, @r#"
    exit: 2
    --- stdout
    [ID1]
    {"seq":2}
    --- stderr
    error: line 2: the message has more than 100 bytes
    hint: the setting record.max_message_bytes allows longer ones
    "#);
    assert_eq!(env.messages(&id).len(), 2);
    env.assert_sound();
}

#[test]
fn a_project_that_is_no_folder_is_refused() {
    let env = TestEnv::new();
    assert_output!(env.feed(["record", "--project", "nowhere"], jsonl(&[user("x")])), @"
    exit: 2
    --- stdout
    --- stderr
    error: the folder nowhere cannot be used: No such file or directory (os error 2)
    hint: give the path of a folder that exists
    ");
    std::fs::write(env.path("project/file"), "").unwrap();
    assert_output!(env.feed(["record", "--project", "file"], jsonl(&[user("x")])), @"
    exit: 2
    --- stdout
    --- stderr
    error: the folder file is not a folder
    hint: give the path of a folder that exists
    ");
    assert_eq!(env.json(["list", "--all"]), json!([]));
}

#[test]
fn what_cannot_be_understood_is_told() {
    let env = TestEnv::new();
    assert_output!(env.run(["resumee"]), @"
    exit: 2
    --- stdout
    --- stderr
    error: unrecognized subcommand 'resumee'

      tip: some similar subcommands exist: 'serve', 'restore', 'rename', 'rehome', 'resume'

    Usage: rethread [OPTIONS] <COMMAND>

    For more information, try '--help'.
    ");
    assert_output!(env.run(["list", "--status", "asleep"]), @r#"
    exit: 2
    --- stdout
    --- stderr
    error: invalid value 'asleep' for '--status <STATUS>': not a status: "asleep" (expected active, paused, completed or archived)

    For more information, try '--help'.
    "#);
    assert_output!(env.run(["search"]), @"
    exit: 2
    --- stdout
    --- stderr
    error: the following required arguments were not provided:
      <WORDS>...

    Usage: rethread search --store <URL> <WORDS>...

    For more information, try '--help'.
    ");
    // Nothing is asked for: all that can be is shown.
    let told = env.run(["workflow"]);
    assert_eq!(told.code, Some(2));
    assert!(told.stderr.contains("pause") && told.stderr.contains("Print help"), "{}", told.stderr);
    assert!(!told.stderr.contains("error:"), "{}", told.stderr);
    env.run(["--json"]).assert_error(2, "usage");
}
