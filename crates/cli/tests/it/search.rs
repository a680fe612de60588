//! `rethread search`

use serde_json::{Value, json};

use crate::env::{TestEnv, user};

#[test]
fn finds_are_shown_with_their_place() {
    let env = TestEnv::new();
    env.basket();
    assert_output!(env.run(["search", "passkey"]), @"
    exit: 0
    --- stdout
    [SHORT1]  The basket is lost when somebody logs in.  #4 user, 2023-05-01 10:03
        Do not rename the cookie. The staging **passkey** is heron-42.
    --- stderr
    ");
}

#[test]
fn nothing_found_is_said_and_no_failure() {
    let env = TestEnv::new();
    env.basket();
    assert_output!(env.run(["search", "giraffe"]), @"
    exit: 0
    --- stdout
    --- stderr
    Nothing found.
    ");
    assert_eq!(env.json(["search", "giraffe"]), json!([]));
}

#[test]
fn the_rows_of_programs_say_where_it_was_found() {
    let env = TestEnv::new();
    let id = env.basket();
    env.data(["pause", &id]);
    let Value::Array(mut rows) = env.json(["search", "basket"]) else { panic!("no rows") };
    for row in &mut rows {
        assert!(row["score"].as_f64().is_some(), "{row}");
        row["score"] = json!("[SCORE]");
    }
    insta::assert_snapshot!(env.settle(&format!("{:#}", Value::Array(rows))), @r#"
    [
      {
        "session_id": "[ID1]",
        "title": "The basket is lost when somebody logs in.",
        "kind": "summary",
        "excerpt": "2023-05-01 user: The **basket** is lost when somebody logs in. 2023-05-01 assistant: login.rs rotates the cookie before the **basket** has moved over. 2023-05-01 tool:…",
        "score": "[SCORE]"
      },
      {
        "session_id": "[ID1]",
        "title": "The basket is lost when somebody logs in.",
        "kind": "title",
        "excerpt": "The **basket** is lost when somebody logs in.",
        "score": "[SCORE]"
      },
      {
        "session_id": "[ID1]",
        "title": "The basket is lost when somebody logs in.",
        "kind": "message",
        "excerpt": "Understood: the **basket** moves in the same transaction.",
        "score": "[SCORE]",
        "seq": 5,
        "role": "assistant",
        "timestamp": "2023-05-01T10:04:00Z"
      },
      {
        "session_id": "[ID1]",
        "title": "The basket is lost when somebody logs in.",
        "kind": "message",
        "excerpt": "The **basket** is lost when somebody logs in. Find out why.",
        "score": "[SCORE]",
        "seq": 1,
        "role": "user",
        "timestamp": "2023-05-01T10:00:00Z"
      },
      {
        "session_id": "[ID1]",
        "title": "The basket is lost when somebody logs in.",
        "kind": "message",
        "excerpt": "login.rs rotates the cookie before the **basket** has moved over.",
        "score": "[SCORE]",
        "seq": 2,
        "role": "assistant",
        "timestamp": "2023-05-01T10:01:00Z"
      }
    ]
    "#);
}

#[test]
fn what_people_type_never_fails() {
    let env = TestEnv::new();
    env.record::<&str>(
        [],
        &[
            user("what's new in C++ and better-sqlite3 for getUserName?"),
            user("数据库迁移失败了"),
            user("an \"unbalanced quote and src/login.rs:41 too"),
        ],
    );
    let finds = |words: &[&str]| {
        let rows = {
            let mut command = env.command(["search", "--json", "--"]);
            command.args(words);
            let found = env.finish(command, b"").succeeded();
            serde_json::from_slice::<Value>(&found.stdout).unwrap()
        };
        rows.as_array().unwrap().len()
    };
    for words in [
        "what's",
        "C++",
        "better-sqlite3",
        "sqlite3",
        "getUserName",
        "user",
        "数据库",
        "迁移",
        "\"unbalanced quote",
        "src/login.rs:41",
        "login.rs",
    ] {
        assert!(finds(&[words]) > 0, "{words}");
    }
    for words in [
        "\"",
        "*",
        "(",
        ")",
        "a OR",
        "NEAR(",
        "col:x",
        "^",
        "-",
        "--",
        "'",
        ";drop table message",
        "%",
        "\\",
        "AND AND",
        "🦀",
    ] {
        finds(&[words]);
    }
}

#[test]
fn filters_never_make_a_search_miss_what_matches() {
    let env = TestEnv::new();
    let many: Vec<_> = (0..400).map(|n| user(&format!("heron number {n}"))).collect();
    env.record(["--user", "berta"], &many);
    let id = env.basket();
    for filter in [
        ["--user", "anna"],
        ["--kind", "debug"],
        ["--agent", "claude"],
        ["--session", &id],
        ["--until", "2023-05-02"],
    ] {
        let rows = env.json([&["search", "heron", "-n", "5"], &filter[..]].concat());
        assert_eq!(rows[0]["session_id"], json!(id), "{filter:?}: {rows:#}");
        assert_eq!(rows[0]["seq"], 4, "{filter:?}: {rows:#}");
    }
    assert_eq!(env.json(["search", "cookie", "--role", "assistant"])[0]["seq"], 2);
    assert_eq!(env.json(["search", "heron", "--since", "2023-05-02", "--user", "anna"]), json!([]));
}

#[test]
fn a_time_that_is_none_is_refused() {
    let env = TestEnv::new();
    assert_output!(env.run(["search", "x", "--since", "yesterday"]), @r#"
    exit: 2
    --- stdout
    --- stderr
    error: not a time: "yesterday"
    hint: for instance [TIME] or [TIME]
    "#);
}

#[test]
fn a_search_can_be_gone_on_with() {
    let env = TestEnv::new();
    let many: Vec<_> = (0..30).map(|n| user(&format!("heron number {n}"))).collect();
    env.record::<&str>([], &many);
    let mut page = env.json(["search", "heron", "--role", "user", "-n", "20", "--cursor"]);
    assert_eq!(page["items"].as_array().unwrap().len(), 20);
    assert_eq!(page["partial"], json!(false));
    let mut seen: Vec<Value> = page["items"].as_array().unwrap().clone();
    let mut pages = 1;
    while let Some(next) = page["next"].as_str() {
        let cursor = format!("--cursor={next}");
        page = env.json(["search", "heron", "--role", "user", "-n", "20", &cursor]);
        seen.extend(page["items"].as_array().unwrap().iter().cloned());
        pages += 1;
    }
    let mut seqs: Vec<u64> = seen.iter().map(|hit| hit["seq"].as_u64().unwrap()).collect();
    seqs.sort_unstable();
    assert_eq!(seqs, (1..=30).collect::<Vec<_>>());
    assert!(pages < 5, "{pages}");
    env.run(["search", "heron", "--cursor=elsewhere", "--json"]).assert_error(2, "bad_cursor");
    assert_output!(env.run(["search", "heron", "--cursor=elsewhere"]), @r#"
    exit: 2
    --- stdout
    --- stderr
    error: not a cursor: "elsewhere"
    hint: give the token that the search before ended with, as it is
    "#);
}

#[test]
fn a_word_is_found_while_it_is_typed() {
    let env = TestEnv::new();
    env.basket();
    for typed in ["stag", "stagi", "stagin", "staging", "stagi*"] {
        let rows = env.json(["search", typed, "--role", "user"]);
        assert_eq!(rows[0]["seq"], 4, "{typed}: {rows:#}");
    }
}

#[test]
fn nothing_to_look_for_is_refused() {
    let env = TestEnv::new();
    env.basket();
    for words in ["", " \n"] {
        env.run(["search", words, "--json"]).assert_error(2, "bad_input");
    }
}
