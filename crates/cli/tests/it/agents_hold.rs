//! Rules for permissions that an agent must keep: held by its mode, its environment or its arguments, or refused.

use crate::env::TestEnv;

/// Has the agent act by itself, as those do that never ask.
fn act(env: &TestEnv) -> String {
    format!("do: exec: touch {}", env.path("project/made").display())
}

fn is_made(env: &TestEnv) -> bool {
    let made = env.path("project/made");
    let is_made = made.exists();
    drop(std::fs::remove_file(made));
    is_made
}

#[test]
fn a_rule_that_cannot_be_kept_is_refused() {
    let env = TestEnv::new();
    let prompt = act(&env);
    for (entry, rule, is_run) in [
        // Nothing is known of it.
        ("# hold", "deny", false),
        ("# hold", "ask", true),
        ("# hold", "agent", true),
        ("# hold", "allow", true),
        // It is known not to ask.
        ("hold = {}", "deny", false),
        ("hold = {}", "ask", false),
        ("hold = {}", "agent", true),
    ] {
        env.agent_with("ref", &[], entry);
        let output = env.run(["run", "ref", &prompt, "--permissions", rule, "--json"]);
        if is_run {
            output.succeeded();
        } else {
            output.assert_error(1, "permissions_not_kept");
            assert!(format!("{output}").contains("--permissions agent"), "{output}");
        }
        assert_eq!(is_made(&env), is_run, "{entry} {rule}");
    }
    // The agent's own entry is as good as the flag.
    env.agent_with("ref", &[], "permissions = \"deny\" # hold");
    env.run(["run", "ref", &prompt, "--json"]).assert_error(1, "permissions_not_kept");
}

#[test]
fn a_rule_is_kept_by_what_the_agent_has_for_it() {
    let env = TestEnv::new();
    let hold = "hold = { deny = { mode = [\"plan\", \"code\"], env = { HELD = \"yes\" }, args = [\"--echo\"] } }";
    env.agent_with("ref", &[], hold);
    let deny = |prompt: &str| env.ask(&["run", "ref", prompt, "--permissions", "deny"]).0;
    assert_eq!(deny("mode?"), "mode plan model small");
    assert_eq!(deny("env: HELD"), "yes");
    // Nothing of that where nothing has to be kept.
    let allow = |prompt: &str| env.ask(&["run", "ref", prompt, "--permissions", "allow"]).0;
    assert_eq!(allow("mode?"), "mode code model small");
    assert_eq!(allow("env: HELD"), "unset");
    // A mode of the user's own stays, where the rule is kept in it.
    env.agent_with("ref", &[], &format!("mode = \"code\"\n{hold}"));
    assert_eq!(deny("mode?"), "mode code model small");
    let narrow = "hold = { deny = { mode = [\"plan\"] } }";
    env.agent_with("ref", &[], &format!("mode = \"code\"\n{narrow}"));
    let output = env.run(["run", "ref", "mode?", "--permissions", "deny", "--json"]);
    output.assert_error(1, "permissions_not_kept");
    // The same for one that is chosen on the command line: neither ignored nor taken.
    env.agent_with("ref", &[], narrow);
    let output = env.run(["run", "ref", "mode?", "--permissions", "deny", "--mode", "code"]);
    assert!(
        output.stderr.contains("no mode code in which permissions are kept (plan)"),
        "{output}"
    );
    let planned = env.ask(&["run", "ref", "mode?", "--permissions", "allow", "--mode", "plan"]).0;
    assert_eq!(planned, "mode plan model small");
    // A mode that it does not have holds nothing.
    env.agent_with("ref", &[], "hold = { deny = { mode = [\"locked\"] } }");
    let output = env.run(["run", "ref", "mode?", "--permissions", "deny", "--json"]);
    output.assert_error(1, "unsupported");
    assert!(format!("{output}").contains("(it has: "), "{output}");
}

#[test]
fn whoever_said_nothing_is_told_once() {
    let env = TestEnv::new();
    env.agent_with("ref", &[], "# hold");
    let notes = |env: &TestEnv| {
        let shown = env.run(["run", "ref", "say: hello"]).succeeded();
        shown.stderr.matches("Rethread does not know whether ref asks").count()
    };
    assert_eq!(notes(&env), 1);
    assert_eq!(notes(&env), 0);
}

#[test]
fn what_can_be_kept_is_listed() {
    let env = TestEnv::new();
    env.agent_with("ref", &[], "# hold");
    let listed = env.json(["agents", "--quick"]);
    let of = |name: &str| {
        let all = listed.as_array().unwrap();
        all.iter().find(|one| one["name"] == name).unwrap()["permissions"].clone()
    };
    assert_eq!(of("ref"), serde_json::json!({"ask": "unknown", "allow": "yes", "deny": "unknown"}));
    assert_eq!(of("codex"), serde_json::json!({"ask": "yes", "allow": "yes", "deny": "yes"}));
    assert_eq!(of("pi"), serde_json::json!({"ask": "no", "allow": "yes", "deny": "no"}));
    let shown = env.run(["agents", "ref", "--quick"]).succeeded();
    assert!(shown.text().contains("ask?, allow, deny?"), "{shown}");
}

#[test]
fn what_the_agent_does_not_have_is_told_with_what_it_has_wherever_it_is_set() {
    let env = TestEnv::new();
    env.agent("ref", &[]);
    let refused = |more: &[&str], expected: &str| {
        let output = env.run([&["run", "ref", "say: x", "--json"], more].concat());
        output.assert_error(1, "unsupported");
        assert!(format!("{output}").contains(expected), "{output}");
    };
    refused(&["--model", "huge"], "no model \\\"huge\\\" (it has: small, large");
    for (entry, expected) in [
        ("model = \"huge\"", "no model \\\"huge\\\" (it has: "),
        ("mode = \"fly\"", "no mode \\\"fly\\\" (it has: "),
        ("options = { colour = \"red\" }", "no option \\\"colour\\\""),
    ] {
        env.agent_with("ref", &[], entry);
        refused(&[], expected);
    }
}
