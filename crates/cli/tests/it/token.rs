//! `rethread token`

use serde_json::json;

use crate::env::TestEnv;

#[test]
fn the_secret_is_printed_alone_and_once() {
    let env = TestEnv::new();
    let made = env.run(["token", "create", "--name", "ci", "--user", "anna", "--days", "30"]);
    let secret = String::from_utf8(made.stdout.clone()).unwrap().trim_end().to_owned();
    assert_eq!(made.code, Some(0), "{made}");
    let digits = secret.strip_prefix("rtk_").unwrap();
    assert!(digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()), "{secret}");
    assert!(made.stderr.contains("(ci): read for anna, until "), "{made}");
    let tokens = env.json(["token", "list"]);
    assert_eq!(tokens[0]["name"], "ci");
    assert_eq!((&tokens[0]["role"], &tokens[0]["kind"]), (&json!("read"), &json!("token")));
    assert!(!tokens.to_string().contains(digits));
    assert!(!env.data(["token", "list"]).contains(digits));
}

#[test]
fn programs_get_token_and_secret_together() {
    let env = TestEnv::new();
    let made = env.json(["token", "create", "--name", "bot", "--role", "admin", "--user", "anna"]);
    assert_eq!((&made["role"], &made["expires_at"]), (&json!("admin"), &json!(null)));
    assert!(made["secret"].as_str().unwrap().starts_with("rtk_"));
}

#[test]
fn ones_own_token_is_made_once_and_shown_again() {
    let env = TestEnv::new();
    let first = env.json(["token", "show"]);
    let secret = first["secret"].as_str().unwrap();
    assert_eq!(env.data(["token", "show"]), format!("{secret}\n"));
    assert_eq!(env.json(["token", "list"]).as_array().unwrap().len(), 1);
    let file = first["file"].as_str().unwrap();
    assert_eq!(std::fs::read_to_string(file).unwrap().trim(), secret);
    // One that was revoked is of no use to anybody.
    let id = env.json(["token", "list"])[0]["id"].as_str().unwrap().to_owned();
    env.run(["token", "revoke", &id]).succeeded();
    assert_ne!(env.json(["token", "show"])["secret"], secret);
}

#[test]
fn a_token_is_revoked_and_stays_so() {
    let env = TestEnv::new();
    let made = env.json(["token", "create", "--name", "ci", "--user", "anna"]);
    let id = made["id"].as_str().unwrap();
    let first = env.json(["token", "revoke", id]);
    assert!(first["revoked_at"].is_string(), "{first}");
    assert_eq!(env.json(["token", "revoke", id]), first);
    let told = env.run(["token", "revoke", id]);
    assert_eq!(told.stderr, format!("Revoked {id} (ci).\n"));
    let list = env.data(["token", "list"]);
    assert!(list.contains("revoked") && list.contains(id), "{list}");
}

#[test]
fn what_cannot_be_is_told() {
    let env = TestEnv::new();
    assert_output!(env.run(["token", "list"]), @"
    exit: 0
    --- stdout
    --- stderr
    No tokens. `rethread token create --name NAME` makes one.
    ");
    assert_output!(env.run(["token", "revoke", "00000000000000ff"]), @"
    exit: 1
    --- stdout
    --- stderr
    error: no token 00000000000000ff
    hint: `rethread token list` lists the tokens
    ");
    assert_output!(env.run(["token", "revoke", "../x"]), @r#"
    exit: 2
    --- stdout
    --- stderr
    error: not a usable token id: "../x" (allowed: 16 hexadecimal digits, as `token list` shows them)
    "#);
    assert_output!(env.run(["token", "create", "--name", "x", "--days", "0"]), @"
    exit: 2
    --- stdout
    --- stderr
    error: --days cannot be 0
    hint: give 1 to 36500; without --days it never expires
    ");
    assert_output!(env.run(["token", "create", "--name", "x", "--role", "root"]), @r#"
    exit: 2
    --- stdout
    --- stderr
    error: not a usable role: "root" (allowed: read, write or admin)
    "#);
    assert_output!(env.run(["token", "create", "--name=-x"]), @r#"
    exit: 2
    --- stdout
    --- stderr
    error: not a usable token name: "-x" (allowed: 1 to 128 bytes of text on one line, not starting with - or .)
    "#);
    assert_eq!(env.json(["token", "list"]), json!([]));
}
