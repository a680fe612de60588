//! `rethread list`

use crate::env::{TestEnv, user};

#[test]
fn an_empty_store_says_how_to_begin() {
    let env = TestEnv::new();
    assert_output!(env.run(["list"]), @"
    exit: 0
    --- stdout
    --- stderr
    No sessions yet. `rethread run AGENT` starts one; `rethread import` brings in those you have.
    ");
    assert_eq!(env.json(["list"]), serde_json::json!([]));
}

#[test]
fn sessions_are_listed_most_recent_first() {
    let env = TestEnv::new();
    env.basket();
    env.record(["--title", "Later"], &[user("hello")]);
    assert_output!(env.run(["list"]), @"
    exit: 0
    --- stdout
    ID        TITLE                                      STATUS  KIND   AGENT   MESSAGES  TOKENS  LAST ACTIVE
    [SHORT2]  Later                                      active  chat   -       1         1       just now
    [SHORT1]  The basket is lost when somebody logs in.  active  debug  claude  5         61      2023-05-01
    --- stderr
    ");
}

#[test]
fn the_rows_of_programs_have_every_field() {
    let env = TestEnv::new();
    env.basket();
    insta::assert_snapshot!(env.settle(&format!("{:#}", env.json(["list"]))), @r#"
    [
      {
        "session_id": "[ID1]",
        "user_id": "anna",
        "project_id": "[ROOT]/project",
        "kind": "debug",
        "title": "The basket is lost when somebody logs in.",
        "agent": "claude",
        "model": null,
        "status": "active",
        "created_at": "2023-05-01T10:00:00Z",
        "last_active_at": "2023-05-01T10:04:00Z",
        "session_summary": null,
        "conversation_count": 1,
        "message_count": 5,
        "total_tokens": 61,
        "input_tokens": 0,
        "output_tokens": 0,
        "cost_usd": 0.0,
        "forked_from": null,
        "parent_session_id": null,
        "imported_from": null,
        "deleted_at": null,
        "resume_command": "rethread resume [SHORT1]"
      }
    ]
    "#);
}

#[test]
fn filters_and_the_limit_choose() {
    let env = TestEnv::new();
    env.basket();
    env.record(["--user", "berta", "--kind", "plan"], &[user("hello")]);
    let archived = env.record(["--kind", "plan"], &[user("put away")]);
    env.data(["archive", &archived]);
    let count = |args: &[&str]| {
        let rows = env.json([&["list"], args].concat());
        rows.as_array().unwrap().len()
    };
    assert_eq!(count(&[]), 2);
    assert_eq!(count(&["--all"]), 3);
    assert_eq!(count(&["-n", "1"]), 1);
    assert_eq!(count(&["--user", "berta"]), 1);
    assert_eq!(count(&["--kind", "plan"]), 1);
    assert_eq!(count(&["--agent", "claude"]), 1);
    assert_eq!(count(&["--status", "archived"]), 1);
    assert_eq!(count(&["--status", "paused"]), 0);
    assert_eq!(count(&["--project", "."]), 2);
    assert_eq!(count(&["--project", "/nowhere"]), 0);
    assert_eq!(count(&["--deleted"]), 0);
}

#[test]
fn a_list_can_be_continued_where_it_ended() {
    let env = TestEnv::new();
    for n in 0..5 {
        env.record(["--title", &format!("Number {n}")], &[user("hello")]);
    }
    let mut page = env.json(["list", "-n", "2", "--cursor"]);
    let mut titles = Vec::new();
    let mut pages = 1;
    loop {
        let items = page["items"].as_array().unwrap();
        titles.extend(items.iter().map(|row| row["title"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        let cursor = format!("--cursor={next}");
        page = env.json(["list", "-n", "2", &cursor]);
        pages += 1;
    }
    let expected: Vec<String> = (0..5).rev().map(|n| format!("Number {n}")).collect();
    assert_eq!((titles, pages), (expected, 3));
    let shown = env.run(["list", "-n", "2"]);
    assert!(shown.stderr.starts_with("There are more: --cursor="), "{shown}");
    assert!(env.run(["list", "-n", "5"]).stderr.is_empty());
    env.run(["list", "--cursor=elsewhere", "--json"]).assert_error(2, "bad_cursor");
    assert_output!(env.run(["list", "--cursor=elsewhere"]), @r#"
    exit: 2
    --- stdout
    --- stderr
    error: not a cursor: "elsewhere"
    hint: give the token with which the previous list ended, as it is
    "#);
}
