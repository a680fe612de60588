//! `/rethread-switch AGENT`: another agent goes on in a session, while the editor stays where it is.

use crate::editor::Editor;
use crate::env::TestEnv;

const ASK: &str = "what was the passkey";
const RECALLED: &str = "The passkey is PASSKEY-heron-42";

fn two(flags: &[&str]) -> (TestEnv, Editor, String) {
    let env = TestEnv::new();
    env.agent("ref", flags);
    env.agent("other", flags);
    env.set("editors", "show_opening = false");
    let mut editor = Editor::start(&env, "ref");
    let id = editor.begin();
    editor.say(&id, "Remember PASSKEY-heron-42");
    (env, editor, id)
}

#[test]
fn another_agent_goes_on_and_the_first_one_comes_back() {
    let (env, mut editor, id) = two(&["--load"]);
    let said = editor.say(&id, "/rethread-switch other");
    assert!(said.contains("other goes on here"), "{said}");
    assert_eq!(editor.say(&id, ASK), RECALLED);
    assert_eq!(env.prompts("other").len(), 1);
    assert!(editor.say(&id, "/rethread-switch ref").contains("ref goes on here"));
    assert_eq!(editor.say(&id, "say: back"), "back");
    // Each was told what it had missed, once.
    env.assert_held("ref", &id, "main");
    editor.end();
    env.assert_nothing_runs();
    let agents: Vec<_> = env.messages(&id).iter().map(|one| one["agent"].clone()).collect();
    assert_eq!(agents.iter().filter(|agent| **agent == "other").count(), 1, "{agents:?}");
    env.assert_sound();
}

#[test]
fn who_cannot_go_on_leaves_everything_as_it_was() {
    let (env, mut editor, id) = two(&[]);
    env.agent_with("broken", &["--exit-at-once"], "quirks = { keeps_request = true }");
    for name in ["nobody", "broken"] {
        let said = editor.say(&id, &format!("/rethread-switch {name}"));
        assert!(said.starts_with("That did not work"), "{said}");
        assert_eq!(editor.say(&id, ASK), RECALLED, "{name}");
    }
    assert!(editor.say(&id, "/rethread-switch ref").contains("answers here already"));
    let said = editor.say(&id, "/rethread-switch");
    assert!(said.contains("`other`"), "{said}");
    editor.end();
    env.assert_nothing_runs();
    env.assert_sound();
}
