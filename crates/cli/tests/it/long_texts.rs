//! Texts that make tokenizers slow are recorded and retold all the same (PROMISES I5).

use crate::env::{TestEnv, user};

fn check(text: &str) {
    let env = TestEnv::new();
    let id = env.record::<&str>([], &[user("before"), user(text), user("after")]);
    let context = env.json(["context", &id, "--tokens", "2000", "--prompt", "what was before?"]);
    assert!(context["token_count"].as_u64().unwrap() <= 2000);
    assert_eq!(context["metadata"]["included"]["messages"], 3, "{context:#}");
    assert!(context["context"].as_str().unwrap().contains("> after"));
    let messages = env.messages(&id);
    assert!(messages[1]["content"].as_str() == Some(text), "the text differs");
    assert!(env.data(["export", &id]).len() > text.len());
    env.assert_sound();
}

const LENGTH: usize = 10 << 20;

#[test]
fn ten_mebibytes_of_one_letter() {
    check(&"a".repeat(LENGTH));
}

#[test]
fn ten_mebibytes_of_carets() {
    check(&"^".repeat(LENGTH));
}

#[test]
fn ten_mebibytes_of_spaces() {
    check(&" ".repeat(LENGTH));
}

#[test]
fn ten_mebibytes_of_line_ends_and_of_letters_beyond_ascii() {
    check(&"\n".repeat(LENGTH));
    check(&"字".repeat(LENGTH / 3));
}
