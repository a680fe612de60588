//! The window of a conversation, at 80 and at 120 columns: what a person sees, as the screen shows it.

use serde_json::json;

use crate::env::TestEnv;
use crate::reference::{has_prompts, until};
use crate::screen::{Screen, Seen};

fn world() -> TestEnv {
    let env = TestEnv::new();
    env.agent("ref", &["--resume"]);
    env
}

/// A prompt that has the agent answer with a file of these lines.
fn answer(env: &TestEnv, text: &str) {
    std::fs::write(env.path("script"), text).unwrap();
    let script = env.path("script").display().to_string();
    env.agent("ref", &["--resume", "--script", &script]);
}

#[track_caller]
fn started(env: &TestEnv, columns: usize) -> Seen {
    let mut seen = Seen::start(env, &["run", "ref"], columns);
    seen.until_seen("/help shows what can be typed beside messages");
    seen.until("it is ready", Screen::is_at_rest);
    seen
}

fn snapshot(name: &str, screen: &Screen) {
    insta::assert_snapshot!(format!("{name}_{}", screen.columns()), screen.steady_text());
}

const MARKDOWN: &str = "# What I found\n\nThe **basket** is lost in `login.rs`, because the cookie is *rotated* \
before the basket has been moved over to the new session.\n\n- The first thing is that nobody waits for the transaction to end.\n\
- The second one\n  1. in order\n  2. of what comes next, with words enough to need a second line on most terminals there are\n\n\
| File | Line | What is wrong with it |\n|---|---|---|\n| `src/login.rs` | 41 | the cookie is rotated too early, so that the basket is lost |\n\
| `src/basket.rs` | 7 | nothing |\n\n```rust\nfn rotate(cookies: &Cookies) {\n    let name = \"basket\"; // moves first\n}\n```\n\n> Do not rename the cookie.\n";

#[test]
fn markdown_is_rendered_and_wrapped_at_any_width() {
    for columns in [80, 120] {
        let env = world();
        answer(&env, MARKDOWN);
        let mut seen = started(&env, columns);
        seen.say("why?", "Do not rename");
        snapshot("markdown", &seen.screen);
        assert!(seen.screen.style_of("What I found").contains('1'));
        assert!(seen.screen.style_of("fn rotate").contains("35"));
        seen.leave();
    }
}

#[test]
fn a_change_of_width_draws_what_is_seen_again() {
    let env = world();
    answer(&env, MARKDOWN);
    let mut seen = started(&env, 120);
    seen.say("why?", "Do not rename");
    seen.press("a draft");
    seen.until_seen("> a draft");
    seen.resize(60);
    seen.until("it is drawn anew", |screen| {
        let text = screen.text();
        text.contains("to the new\nsession.") && text.ends_with("$0.0001")
    });
    snapshot("resized", &seen.screen);
    seen.press("\u{3}");
    seen.until_gone("a draft");
    seen.leave();
}

#[test]
fn what_is_typed_while_an_answer_comes_stays_whole_and_is_sent_after_it() {
    for columns in [80, 120] {
        let env = world();
        let mut seen = started(&env, columns);
        let steps = "do: part: It begins,\u{1b}\rdo: wait for: go\u{1b}\rdo: part: and it ends.";
        seen.press(&format!("{steps}\r"));
        seen.until_seen("It begins,");
        seen.press("say: later\rsay: a dra");
        seen.until_seen("> say: a dra");
        seen.until_seen("  next: say: later");
        std::fs::write(env.path("project/go"), "").unwrap();
        seen.until("both are answered", |screen| {
            let text = screen.text();
            text.contains("It begins,and it ends.")
                && text.contains("\nlater\n")
                && text.contains("> say: a dra")
                && screen.is_at_rest()
        });
        snapshot("typed", &seen.screen);
        seen.press("ft\r");
        seen.until_seen("\na draft\n");
        seen.leave();
    }
}

#[test]
fn an_edit_is_seen_as_a_diff_before_it_is_allowed_and_after() {
    for columns in [80, 120] {
        let env = world();
        let mut seen = started(&env, columns);
        let file = env.path("project/src/login.rs").display().to_string();
        let diff = json!({ "type": "diff", "path": file,
            "oldText": "fn login() {\n    cookies.rotate();\n    basket.move_over();\n}\n",
            "newText": "fn login() {\n    basket.move_over();\n    cookies.rotate();\n}\n" });
        let call = json!({ "title": "Tidy up", "kind": "edit", "rawInput": { "file_path": file }, "content": [diff] });
        seen.press(&format!("ask as: {call}\r"));
        seen.until_seen("Number (Esc cancels the turn):");
        assert!(seen.screen.style_of("-    cookies.rotate();").contains("31"));
        assert!(seen.screen.style_of("+    cookies.rotate();").contains("32"));
        // What is typed as an answer is no part of the next message.
        seen.press("9\r");
        seen.until_seen("Type a number from 1 to");
        seen.press("1\r");
        seen.until("it is over", |screen| {
            screen.text().contains("\nallowed\n") && screen.is_at_rest()
        });
        let text = env.settle(&seen.screen.text());
        let (_, shown) = text.rsplit_once("  change:").unwrap();
        insta::assert_snapshot!(format!("edit_{columns}"), shown);
        seen.leave();
    }
}

#[test]
fn tools_are_seen_with_what_they_did_and_the_rest_can_be_opened() {
    for columns in [80, 120] {
        let env = world();
        let mut seen = started(&env, columns);
        // It does this by itself, and asks nobody.
        seen.say("do: exec: seq 1 40", "● run seq 1 40");
        snapshot("tool", &seen.screen);
        assert!(!seen.screen.text().contains("\n    17\n"));
        seen.press("\u{f}");
        seen.until("all of it is there", |screen| {
            screen.all().contains("\n    17\n") && screen.text().contains("\n    40\n")
        });
        seen.say("do: exec: echo gone; exit 3", "failed");
        assert!(
            seen.screen.text().contains("● run echo gone; exit 3  failed\n    gone\n"),
            "{}",
            seen.screen.text()
        );
        seen.leave();
    }
}

#[test]
fn a_tool_that_runs_is_seen_and_escape_ends_the_turn() {
    for columns in [80, 120] {
        let env = world();
        let mut seen = started(&env, columns);
        seen.press("do: exec: while [ ! -e go ]; do sleep 0.01; done; echo went\u{1b}\rdo: part: x\u{1b}\rdo: wait for: never\r");
        seen.until_seen("○ run while [ ! -e go ]");
        seen.until_seen("using a tool (");
        std::fs::write(env.path("project/go"), "").unwrap();
        seen.until_seen("    went");
        seen.press("a draft\u{1b}");
        seen.until("it is over", |screen| {
            screen.text().contains("[cancelled]") && screen.is_at_rest()
        });
        // What is typed stays.
        seen.until_seen("> a draft");
        seen.press("\u{3}");
        seen.until_gone("a draft");
        seen.leave();
        env.assert_nothing_runs();
    }
}

#[test]
fn the_last_line_says_how_things_stand() {
    for columns in [80, 120] {
        let env = world();
        for command in ["git init -q -b feature", "git commit -q --allow-empty -m first"] {
            let who = "-c user.name=a -c user.email=a@b";
            let script = format!("git {who} {}", command.trim_start_matches("git "));
            let done = std::process::Command::new("sh")
                .args(["-c", &script])
                .current_dir(env.path("project"))
                .status();
            assert!(done.unwrap().success());
        }
        let mut seen = started(&env, columns);
        seen.until_seen("ref · small · code · feature");
        seen.press("\u{1b}[Z");
        seen.until_seen("[mode is plan]");
        seen.until_seen("ref · small · plan · feature");
        seen.say("do: context: 24000 200000 1.25", "ref · small · plan · 12% of 200k");
        seen.until_seen("without an answer]");
        seen.until("all is drawn", Screen::is_at_rest);
        snapshot("status", &seen.screen);
        seen.leave();
    }
}

#[test]
fn little_is_written_while_something_goes_on() {
    let env = world();
    let mut seen = started(&env, 120);
    seen.press("a first line to look at\r");
    seen.until("it is over", |screen| screen.text().contains("ACK") && screen.is_at_rest());
    seen.press("hang\r");
    has_prompts(&env, 2);
    seen.until_seen("(1 s, Esc stops it)");
    seen.pieces.clear();
    seen.until_seen("(4 s, Esc stops it)");
    let pieces: Vec<String> =
        seen.pieces.iter().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect();
    assert!(pieces.len() >= 6, "{pieces:?}");
    for piece in &pieces {
        // Only the line that turns is written.
        assert!(piece.len() <= 400, "{} bytes: {piece:?}", piece.len());
        assert!(!piece.contains("ref ·") && !piece.contains("look at"), "{piece:?}");
    }
    // The status line, when it changes.
    seen.press("\u{1b}");
    seen.until("it is over", |screen| screen.text().contains("[cancelled]") && screen.is_at_rest());
    seen.pieces.clear();
    seen.press("\u{1b}[Z");
    seen.until_seen("· plan ·");
    let bytes: usize = seen.pieces.iter().map(Vec::len).sum();
    assert!(bytes <= 2048, "{bytes} bytes for a change of the mode");
    seen.leave();
}

#[test]
fn a_pause_in_place_keeps_the_window() {
    for columns in [80, 120] {
        let env = world();
        env.set("talk", "idle_seconds = 1");
        let mut seen = started(&env, columns);
        seen.say("say: hello", "\nhello\n");
        seen.until_seen("· paused");
        snapshot("paused", &seen.screen);
        assert_eq!(env.json(["show", &env.only()])["status"], "paused");
        env.assert_nothing_runs();
        seen.press("say: again\r");
        seen.until_seen("\nagain\n");
        seen.until_seen("· paused");
        let screen = seen.leave();
        assert!(screen.text().contains("Paused "), "{}", screen.text());
    }
}

#[test]
fn what_is_stored_or_said_is_no_sequence() {
    let env = world();
    // The screen fails the test at any sequence that is not one of ours.
    let trick = "\u{1b}[2J\u{1b}]0;evil\u{7}\u{9b}2J\u{202e}drow\u{8}end &#27;[2J `\u{1b}c`";
    answer(&env, &format!("# {trick}\n\n| {trick} | b |\n|---|---|\n\n```\n{trick}\n```\n\n---\n"));
    let mut seen = started(&env, 80);
    seen.say("go", "drow");
    env.agent("ref", &["--resume"]);
    let mut seen2 = started(&env, 80);
    for (n, what) in ["say", "title", "tool", "think", "plan", "do: exec"].iter().enumerate() {
        seen2.press(&format!("\u{1b}[200~{what}: printf '{n}{trick}'\u{1b}[201~\r"));
        let count = n + 1;
        until("it is over", || (env.prompts("ref").len() > count).then_some(()));
        seen2.until("it is over", |screen| screen.all().contains("drow") && screen.is_at_rest());
    }
    seen.leave();
    seen2.leave();
}

#[test]
fn without_colours_or_without_a_terminal_it_stays_plain() {
    let env = world();
    answer(&env, "# One\n\n**two**\n---\n# One\n\n**two**\n---\n# One\n\n**two**\n");
    // A terminal that can only print: no sequence at all.
    let mut seen = Seen::start_with(&env, &["run", "ref"], 80, &[("TERM", "dumb")]);
    seen.until_seen("/help shows");
    seen.press("go\r");
    seen.until_seen("**two**");
    seen.press("\u{4}");
    seen.until_seen("Paused ");
    let written = String::from_utf8_lossy(&seen.pieces.concat()).into_owned();
    assert!(!written.contains('\u{1b}'), "{written:?}");
    // No colours, as asked for.
    let variables = [("TERM", "xterm-256color"), ("NO_COLOR", "1")];
    let mut seen = Seen::start_with(&env, &["run", "ref"], 80, &variables);
    seen.until_seen("/help shows");
    seen.say("go", "\n# One\n");
    let written = String::from_utf8_lossy(&seen.pieces.concat()).into_owned();
    assert!(!written.contains("\u{1b}[1m") && !written.contains("\u{1b}[2m"), "{written:?}");
    seen.leave();
    // Through a pipe, the answer as it is.
    let output = env.run(["run", "ref", "go"]).succeeded();
    assert_eq!(output.text(), "# One\n\n**two**\n");
    assert!(!output.stderr.contains('\u{1b}'), "{}", output.stderr);
}
