//! What can be typed in a conversation beside messages, as the screen shows it at 80 and at 120 columns.

use crate::env::TestEnv;
use crate::screen::{Screen, Seen};

fn world() -> TestEnv {
    let env = TestEnv::new();
    env.agent("ref", &["--resume", "--command", "compact", "--command", "init"]);
    env.agent("other", &["--resume"]);
    env
}

#[track_caller]
fn started(env: &TestEnv, columns: usize) -> Seen {
    let mut seen = Seen::start(env, &["run", "ref"], columns);
    seen.until_seen("/help shows what can be typed beside messages");
    seen.until("it is ready", Screen::is_at_rest);
    seen
}

/// Types, waits until this is seen, and takes back what was typed.
#[track_caller]
fn tab(seen: &mut Seen, typed: &str, shown: &str) {
    seen.press(&format!("{typed}\t"));
    seen.until_seen(shown);
}

#[track_caller]
fn forget(seen: &mut Seen) {
    seen.press("\u{3}");
    seen.until("nothing is typed", |screen| screen.text().lines().any(|line| line == ">"));
}

#[test]
fn commands_of_ours_and_of_the_agent_are_completed() {
    for columns in [80, 120] {
        let env = world();
        let mut seen = started(&env, columns);
        // The agent tells of its own when it likes.
        seen.say("hello", "ACK");
        tab(&mut seen, "/co", "/compact  /complete  /copy");
        seen.until("all is drawn", Screen::is_at_rest);
        insta::assert_snapshot!(format!("completed_{columns}"), seen.screen.steady_text());
        tab(&mut seen, "mpa", "> /compact");
        seen.press("\r");
        seen.until_seen("told 2 messages");
        tab(&mut seen, "/mode p", "> /mode plan");
        forget(&mut seen);
        tab(&mut seen, "/switch o", "> /switch o");
        forget(&mut seen);
        seen.leave();
    }
}

#[test]
fn files_are_completed_and_sent_along() {
    for columns in [80, 120] {
        let env = world();
        std::fs::create_dir(env.path("project/src")).unwrap();
        std::fs::write(env.path("project/src/login.rs"), "fn login() {}\n").unwrap();
        std::fs::write(env.path("project/src/logout.rs"), "fn logout() {}\n").unwrap();
        let mut seen = started(&env, columns);
        tab(&mut seen, "what is in @s", "> what is in @src/");
        tab(&mut seen, "log", "@src/login.rs  @src/logout.rs");
        tab(&mut seen, "i", "> what is in @src/login.rs");
        seen.say("?", "ACK");
        let prompts = env.prompts("ref");
        let (_, told) = prompts[0].last().unwrap();
        assert_eq!(told, "what is in @src/login.rs?\n\nsrc/login.rs:\n```\nfn login() {}\n```");
        // It is recorded as it was told.
        assert_eq!(env.messages(&env.only())[0]["content"], told.as_str());
        seen.leave();
    }
}

#[test]
fn a_command_is_run_and_told_with_the_next_message() {
    for columns in [80, 120] {
        let env = world();
        let mut seen = started(&env, columns);
        seen.say("!echo ab; pwd; exit 3", "exit status: 3");
        insta::assert_snapshot!(format!("ran_{columns}"), env.settle(&seen.screen.steady_text()));
        seen.press("!sleep 1000\r");
        seen.until_seen("running sleep 1000");
        seen.press("\u{1b}");
        seen.until_seen("    stopped");
        seen.say("and now?", "ACK");
        let prompts = env.prompts("ref");
        let (_, told) = prompts[0].last().unwrap();
        assert!(told.starts_with("I ran `echo"), "{told}");
        assert!(told.contains("exit status: 3") && told.ends_with("\n\nand now?"), "{told}");
        assert_eq!(prompts.len(), 1);
        seen.leave();
    }
}

#[test]
fn models_and_modes_are_listed() {
    for columns in [80, 120] {
        let env = world();
        let mut seen = started(&env, columns);
        seen.press("/model\r");
        seen.until_seen("* small\n  large");
        seen.press("/model large\r");
        seen.until_seen("[model is large]");
        seen.until_seen("ref · large · code");
        seen.press("/mode\r");
        seen.until_seen("* code\n  plan");
        seen.until("all is drawn", Screen::is_at_rest);
        insta::assert_snapshot!(format!("listed_{columns}"), seen.screen.steady_text());
        seen.leave();
    }
}

#[test]
fn another_agent_goes_on_and_a_fork_does() {
    for columns in [80, 120] {
        let env = world();
        let mut seen = started(&env, columns);
        seen.say("Remember PASSKEY-a", "ACK");
        seen.press("/switch nobody\r");
        seen.until_seen("there is no agent");
        seen.press("/switch other\r");
        seen.until_seen("other · small · code");
        seen.until_seen("told the story so far");
        seen.say("what was the passkey", "The passkey is PASSKEY-a");
        let first = env.only();
        seen.press("/fork\r");
        seen.until_seen("a fork of");
        seen.until("it is open", |screen| {
            screen.text().contains("in order") || screen.is_at_rest()
        });
        seen.say("say: in the fork", "\nin the fork\n");
        seen.press("/search passkey\r");
        seen.until_seen("#1 user");
        let screen = seen.leave();
        assert!(screen.text().contains("Paused "), "{}", screen.text());
        let sessions = env.json(["list"]);
        let fork = sessions
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["session_id"] != first.as_str())
            .unwrap();
        let fork = fork["session_id"].as_str().unwrap();
        assert!(
            screen.text().contains(&format!("rethread resume {}", &fork[24..32])),
            "{}",
            screen.text()
        );
        assert_eq!(env.messages(&first).len(), 4);
        assert_eq!(env.messages(fork).len(), 6);
        env.assert_nothing_runs();
        env.assert_sound();
    }
}

#[test]
fn the_last_answer_is_copied_and_the_session_exported() {
    for columns in [80, 120] {
        let env = world();
        let mut seen = started(&env, columns);
        seen.press("/copy\r");
        seen.until_seen("there is no answer to copy yet");
        seen.say("say: take this", "\ntake this\n");
        seen.press("/copy\r");
        seen.until_seen("asked the terminal to copy the last answer (9 characters)");
        assert_eq!(seen.screen.copied, ["dGFrZSB0aGlz"]);
        seen.press("/export said.md\r");
        seen.until_seen("[wrote ");
        let text = std::fs::read_to_string(env.path("project/said.md")).unwrap();
        assert!(text.contains("take this"), "{text}");
        seen.press("/export said.md\r");
        seen.until_seen("already exists");
        seen.leave();
    }
}

#[test]
fn the_history_is_searched() {
    for columns in [80, 120] {
        let env = world();
        let mut seen = started(&env, columns);
        seen.say("say: first words", "\nfirst words\n");
        seen.say("say: other ones", "\nother ones\n");
        seen.press("\u{12}firs");
        seen.until_seen("search firs: say: first words");
        seen.press("\r");
        seen.until("it is said again", |screen| {
            screen.text().matches("\nfirst words\n").count() == 2
        });
        seen.leave();
    }
}
