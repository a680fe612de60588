//! With `--json` every error is an object on standard error, and standard output stays empty.

use crate::env::{TestEnv, jsonl, user};

#[test]
fn an_error_has_a_code_a_message_and_a_hint() {
    let env = TestEnv::new();
    let id = env.basket();
    assert_output!(env.run(["--json", "show", "ffffffff"]), @r#"
    exit: 1
    --- stdout
    --- stderr
    {"error":{"code":"session_not_found","message":"no session ffffffff","hint":"`rethread list` lists the sessions"}}
    "#);
    assert_output!(env.run(["show", "../x", "--json"]), @r#"
    exit: 2
    --- stdout
    --- stderr
    {"error":{"code":"bad_id","message":"not a session id: \"../x\" (expected a UUID, its beginning of at least 4 digits, or the short form that `list` shows)","hint":"`rethread list` shows the ids of sessions"}}
    "#);
    assert_output!(env.run(["--json", "boat"]), @r#"
    exit: 2
    --- stdout
    --- stderr
    {"error":{"code":"usage","message":"unrecognized subcommand 'boat'","hint":"`rethread help` lists commands and options"}}
    "#);
    assert_output!(env.run(["unarchive", &id, "--json"]), @r#"
    exit: 1
    --- stdout
    --- stderr
    {"error":{"code":"refused","message":"session [ID1] is not archived","hint":"`rethread list --status archived` shows those that are"}}
    "#);
    assert_output!(env.feed(["record", "--json"], "boat\n"), @r#"
    exit: 2
    --- stdout
    --- stderr
    {"error":{"code":"bad_input","message":"line 1: not valid JSON: expected value at line 1 column 1","hint":"`rethread record --help` shows what a line looks like"}}
    "#);
}

#[test]
fn every_kind_of_error_has_its_code_and_exit_code() {
    let env = TestEnv::new();
    let id = env.basket();
    let archived = env.basket();
    env.data(["archive", &archived]);
    let completed = env.basket();
    env.data(["complete", &completed]);
    let deleted = env.basket();
    env.data(["delete", &deleted]);
    let taken = jsonl(&[
        serde_json::json!({"role": "user", "content": "a", "id": "m"}),
        serde_json::json!({"role": "user", "content": "b", "id": "m"}),
    ]);
    let one = jsonl(&[user("x")]);
    for (args, input, exit, code) in [
        (&["context", &archived][..], "", 1, "session_archived"),
        (&["activate", &completed], "", 1, "session_completed"),
        (&["context", &deleted], "", 1, "session_deleted"),
        (&["unarchive", &id], "", 1, "refused"),
        (&["undelete", &id], "", 1, "refused"),
        (&["show", "zz"], "", 2, "bad_id"),
        (&["purge", &id, "99"], "", 1, "message_not_found"),
        (&["purge", &id, "-x"], "", 2, "usage"),
        (&["purge", &id, "a b"], "", 2, "bad_name"),
        (&["record", "--kind", "A B"], &one, 2, "bad_name"),
        (&["record", "--user", "../x"], &one, 2, "bad_name"),
        (&["record"], "", 2, "bad_input"),
        (&["record"], "{}", 2, "bad_input"),
        (&["record"], &taken, 2, "id_taken"),
        (&["import", "-"], "{}", 2, "bad_input"),
        (&["import", "missing"], "", 1, "io"),
        (&["list", "--store", "mysql://x"], "", 2, "bad_store_url"),
        (&["list", "--store", "sqlite:"], "", 2, "bad_store_url"),
        (&["list", "--store", "sqlite:/proc/nowhere/x.db"], "", 1, "store_not_open"),
        (&["config", "set", "x", "1"], "", 2, "bad_input"),
    ] {
        let refused = env.feed([args, &["--json"]].concat(), input);
        refused.assert_error(exit, code);
        let (_, error) = refused.error();
        let hint = error["hint"].as_str().unwrap_or_default();
        // What is wrong with a name says what is allowed.
        assert_eq!(hint.is_empty(), code == "bad_name", "{args:?} {refused}");
        assert_eq!(refused.stderr.lines().count(), 1, "{args:?} {refused}");
        if args[0] != "record" {
            assert_eq!(refused.text(), "", "{args:?} {refused}");
        }
    }
}
