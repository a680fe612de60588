//! The keyboard in a conversation: nothing that is typed is lost, and the terminal is given back as it was.

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::chat::Terminal;
use crate::env::TestEnv;
use crate::reference::until;

fn world(flags: &[&str]) -> TestEnv {
    let env = TestEnv::new();
    env.agent("ref", &[&["--resume"], flags].concat());
    env
}

#[track_caller]
fn assert_given_back(rest: &str) {
    for mode in ["icanon", "isig", "echo", "icrnl", "opost"] {
        assert!(rest.split_whitespace().any(|word| word == mode), "{mode} is off: {rest}");
    }
    assert!(rest.contains("\u{1b}[?2004l"), "pasted text is still in brackets: {rest:?}");
    assert!(rest.contains("Paused ") || rest.contains("Nothing was said"), "{rest:?}");
}

/// The prompts that reached the agent, each as its last block.
fn said(env: &TestEnv) -> Vec<String> {
    let prompts = env.prompts("ref");
    prompts.into_iter().filter_map(|mut prompt| prompt.pop()).map(|(_, text)| text).collect()
}

#[test]
fn a_stop_from_elsewhere_gives_the_terminal_back() {
    let env = world(&[]);
    let mut terminal = Terminal::start_and_tell_modes(&env, &["run", "ref"]);
    terminal.type_line("say: hello");
    terminal.wait_for("\nhello");
    terminal.wait_for("> ");
    env.run(["stop", &env.only()]).succeeded();
    let (rest, code) = terminal.end();
    assert_eq!(code, 0, "{rest}");
    assert_given_back(&rest);
}

#[test]
fn an_idle_conversation_is_paused_in_place_and_the_next_line_takes_it_up_again() {
    let env = world(&[]);
    env.set("talk", "idle_seconds = 1");
    let mut terminal = Terminal::start_and_tell_modes(&env, &["run", "ref"]);
    terminal.type_line("say: hello");
    terminal.wait_for("\nhello");
    for (line, answer) in [("say: again", "\nagain"), ("say: once more", "\nonce more")] {
        terminal.wait_for("saved and paused; the next line takes it up again");
        assert_eq!(env.json(["show", &env.only()])["status"], "paused");
        env.assert_nothing_runs();
        terminal.press(&format!("{line}\r"));
        terminal.wait_for("ref: resumed in its own session");
        terminal.wait_for(answer);
    }
    assert_eq!(said(&env), ["say: hello", "say: again", "say: once more"]);
    terminal.wait_for("saved and paused");
    terminal.press("\r");
    terminal.press("/complete\r");
    let (rest, code) = terminal.end();
    assert_eq!(code, 0, "{rest}");
    assert!(rest.contains("Completed "), "{rest}");
    assert_eq!(env.json(["show", &env.only()])["status"], "completed");
}

#[test]
fn a_conversation_that_was_paused_in_place_gives_the_terminal_back() {
    let env = world(&[]);
    env.set("talk", "idle_seconds = 1");
    let mut terminal = Terminal::start_and_tell_modes(&env, &["run", "ref"]);
    terminal.type_line("say: hello");
    terminal.wait_for("saved and paused");
    terminal.press(Terminal::CTRL_D);
    let (rest, code) = terminal.end();
    assert_eq!(code, 0, "{rest}");
    assert_given_back(&rest);
}

#[test]
fn who_says_nothing_at_all_finds_the_agent_again_and_leaves_no_session() {
    let env = world(&[]);
    env.set("talk", "idle_seconds = 1");
    let mut terminal = Terminal::start(&env, &["run", "ref"]);
    terminal.wait_for("ref was ended; the next line starts it again");
    terminal.press("say: hello\r");
    terminal.wait_for("\nhello");
    terminal.wait_for("saved and paused");
    terminal.press(Terminal::CTRL_D);
    assert_eq!(terminal.end().1, 0);
    let mut terminal = Terminal::start(&env, &["run", "ref"]);
    terminal.wait_for("ref was ended; the next line starts it again");
    terminal.press("/quit\r");
    assert_eq!(terminal.end().1, 0);
    assert_eq!(env.json(["list"]).as_array().unwrap().len(), 1);
}

#[test]
fn who_types_is_not_idle() {
    let env = world(&[]);
    env.set("talk", "idle_seconds = 1");
    let mut terminal = Terminal::start(&env, &["run", "ref"]);
    terminal.wait_for("> ");
    terminal.press("say: ha");
    terminal.wait_for("say: ha");
    let begun = Instant::now();
    until("more than the time passes", || (begun.elapsed() > Duration::from_secs(2)).then_some(()));
    terminal.press("lf\r");
    terminal.wait_for("\nhalf");
    terminal.wait_for("nothing was said for 1 second");
    terminal.press(Terminal::CTRL_D);
    let (rest, code) = terminal.end();
    assert_eq!(code, 0, "{rest}");
}

#[test]
fn what_is_typed_ahead_is_said_afterwards() {
    let env = world(&[]);
    let mut terminal = Terminal::start(&env, &["run", "ref"]);
    terminal.wait_for("> ");
    terminal.press("say: one\rsay: two\rsay: three\r");
    terminal.wait_for("\none");
    terminal.wait_for("\ntwo");
    terminal.wait_for("\nthree");
    terminal.wait_for("> ");
    terminal.press("say: l1\nl2\nl3\r");
    terminal.wait_for("\nl1");
    terminal.wait_for("told 5 messages");
    terminal.wait_for("told 6 messages");
    terminal.wait_for("> ");
    terminal.press(Terminal::CTRL_D);
    assert_eq!(terminal.end().1, 0);
    assert_eq!(said(&env), ["say: one", "say: two", "say: three", "say: l1", "l2", "l3"]);
}

#[test]
fn the_end_key_leaves_in_the_middle_of_an_answer() {
    for prompt in ["stream: 1000", "hang", "ask: rm things"] {
        let env = world(&["--chunk-delay-ms", "20"]);
        let mut terminal = Terminal::start(&env, &["run", "ref"]);
        terminal.type_line(prompt);
        until("the turn runs", || (env.prompts("ref").len() == 1).then_some(()));
        match prompt {
            "stream: 1000" => drop(terminal.wait_for("word2")),
            "hang" => (),
            _ => drop(terminal.wait_for("Number")),
        }
        terminal.press(Terminal::CTRL_D);
        let (rest, code) = terminal.end();
        assert_eq!(code, 0, "{prompt}: {rest}");
        assert!(rest.contains("[cancelled]"), "{prompt}: {rest}");
        assert!(rest.contains("Paused "), "{prompt}: {rest}");
        let id = env.only();
        assert_eq!(env.json(["show", &id])["status"], "paused");
        if prompt != "hang" {
            // Told apart from what was interrupted.
            let shown = env.data(["show", &id]);
            assert!(shown.contains(" [cancelled]\n"), "{shown}");
        }
        env.assert_nothing_runs();
    }
}

#[test]
fn what_others_say_stands_above_what_is_typed() {
    let env = world(&[]);
    let mut terminal = Terminal::start(&env, &["run", "ref"]);
    terminal.type_line("say: hello");
    terminal.wait_for("\nhello");
    terminal.wait_for("> ");
    let id = env.only();
    terminal.press("say: ha");
    terminal.wait_for("say: ha");
    let answer = env.json(["send", &id, "say: two\nlines"]);
    assert_eq!(answer["answer"], "two\nlines");
    let before = terminal.wait_for("[another process asks: say: two");
    // The line that is typed is gone before, and drawn again after.
    assert!(before.contains("\r\u{1b}[K") || before.contains("\u{1b}[J"), "{before:?}");
    terminal.wait_for("two\r\r\nlines\r\r\n");
    terminal.wait_for("> say: ha");
    terminal.press("lf\r");
    terminal.wait_for("\nhalf");
    terminal.wait_for("> ");
    terminal.press(Terminal::CTRL_D);
    assert_eq!(terminal.end().1, 0);
}

#[test]
fn a_question_stands_after_what_it_is_about() {
    let env = world(&[]);
    let mut terminal = Terminal::start(&env, &["run", "ref", "ask: rm things"]);
    let before = terminal.wait_for("Allow ref to run: rm things?");
    assert!(before.contains("run\u{1b}[1m rm things"), "{before}");
    terminal.wait_for("Number (Ctrl-C cancels the turn): ");
    terminal.press("1\r");
    let (rest, code) = terminal.end();
    assert_eq!(code, 0, "{rest}");
    // Whatever key ends it, it was not answered.
    for key in [Terminal::CTRL_C, Terminal::CTRL_D] {
        let mut terminal = Terminal::start(&env, &["run", "ref", "ask: rm things"]);
        terminal.wait_for("Number");
        terminal.press(key);
        let (rest, code) = terminal.end();
        assert_eq!(code, 130, "{rest}");
        assert!(rest.contains("\nerror: ref: cancelled"), "{rest}");
    }
}

#[test]
fn what_was_typed_before_a_question_does_not_answer_it() {
    let env = world(&[]);
    let mut terminal = Terminal::start(&env, &["run", "ref", "ask: rm things"]);
    terminal.press("1\r");
    terminal.wait_for("Number (Ctrl-C cancels the turn): ");
    terminal.press("3\r");
    let (rest, code) = terminal.end();
    assert_eq!(code, 0, "{rest}");
    assert!(rest.contains("rejected"), "{rest}");
}

#[test]
fn a_question_cannot_be_forged_by_what_it_is_about() {
    let env = world(&[]);
    let call = serde_json::json!({
        "title": format!("x{}Allow ref to run: ls -l?", "\n".repeat(300)),
        "kind": "execute",
        "rawInput": { "command": format!("rm -rf things{}ls\u{200b} -l", "\n".repeat(300)) },
    });
    let mut terminal = Terminal::start(&env, &["run", "ref", &format!("ask as: {call}")]);
    let before = terminal.wait_for("Number (Ctrl-C cancels the turn): ");
    let last: Vec<&str> = before.lines().rev().take(20).collect();
    assert!(last.iter().any(|line| line.trim() == "rm -rf things"), "{before}");
    assert!(last.iter().any(|line| line.contains("[299 empty lines]")), "{before}");
    assert!(before.contains("That is 3 lines, from `rm -rf things` on?"), "{before}");
    assert!(!before.contains('\u{200b}'), "{before}");
    terminal.press("3\r");
    terminal.end();
}

#[test]
fn waiting_shows_a_sign_of_life() {
    let env = world(&["--hang-on", "initialize"]);
    env.set("talk", "cancel_seconds = 1");
    for args in [&["run", "ref"][..], &["run", "ref", "say: hello"]] {
        let mut terminal = Terminal::start(&env, args);
        terminal.wait_for("[starting ref …]");
        terminal.press(Terminal::CTRL_C);
        terminal.wait_for("error: ref: cancelled");
        terminal.wait_for("nothing of this was recorded");
        assert_eq!(terminal.end().1, 130);
    }
    assert_eq!(env.json(["list"]), serde_json::json!([]));
    env.agent("ref", &["--hang-on", "session/prompt"]);
    let mut terminal = Terminal::start(&env, &["run", "ref"]);
    terminal.type_line("say: hello");
    until("the turn runs", || (env.prompts("ref").len() == 1).then_some(()));
    terminal.press(Terminal::CTRL_C);
    terminal.wait_for("[cancelling …]");
    terminal.wait_for("did not answer the cancel");
    terminal.wait_for("> ");
    terminal.press(Terminal::CTRL_D);
    assert_eq!(terminal.end().1, 0);
}

#[test]
fn how_it_was_opened_again_is_said_before_the_answer() {
    let env = world(&[]);
    let mut terminal = Terminal::start(&env, &["run", "ref"]);
    terminal.type_line("say: hello");
    terminal.wait_for("\nhello");
    terminal.type_line("exit");
    terminal.wait_for("[error: ref: the agent ended");
    terminal.type_line("say: again");
    let before = terminal.wait_for("\nagain");
    assert!(before.contains("[ref: resumed in its own session]"), "{before}");
    terminal.wait_for("> ");
    terminal.press(Terminal::CTRL_D);
    let (rest, code) = terminal.end();
    assert_eq!(code, 0);
    assert!(!rest.contains("resumed"), "{rest}");
}

#[test]
fn a_slip_is_not_sent_and_a_space_sends_it() {
    let env = world(&[]);
    let mut terminal = Terminal::start(&env, &["run", "ref"]);
    terminal.type_line("/stpo");
    terminal.wait_for("[/stpo was not sent. Did you mean /stop?");
    terminal.type_line(" /stpo");
    terminal.wait_for("told 1 message");
    terminal.type_line("/compact");
    terminal.wait_for("told 2 messages");
    terminal.type_line("/help");
    let help = terminal.wait_for("goes to the agent as it is");
    assert!(help.contains("/quit") && help.contains("Alt-Enter"), "{help}");
    terminal.type_line("/quit");
    assert_eq!(terminal.end().1, 0);
    assert_eq!(said(&env), ["/stpo", "/compact"]);
}

#[test]
fn a_conversation_that_is_open_elsewhere_is_refused_before_anything_is_shown() {
    let env = world(&[]);
    let mut terminal = Terminal::start(&env, &["run", "ref"]);
    terminal.type_line("say: hello");
    terminal.wait_for("\nhello");
    let short = env.only()[24..32].to_owned();
    let other = Terminal::start(&env, &["continue"]);
    let (rest, code) = other.end();
    assert_eq!(code, 1, "{rest}");
    assert!(!rest.contains("hello"), "{rest}");
    assert!(rest.contains(&format!("`rethread send {short} PROMPT`")), "{rest}");
    terminal.press(Terminal::CTRL_D);
    assert_eq!(terminal.end().1, 0);
}

#[test]
fn the_tour_shows_each_command_before_what_it_prints_and_clears_away() {
    let env = TestEnv::new();
    let terminal = Terminal::start(&env, &["tour"]);
    let (told, code) = terminal.end();
    assert_eq!(code, 0, "{told}");
    let lines: Vec<&str> = told.lines().map(str::trim_end).collect();
    let at = lines.iter().position(|line| line.contains("$ rethread send")).unwrap();
    assert!(!lines[at - 1].contains("resumed"), "{told}");
    assert!(!lines.iter().any(|line| line.starts_with("[resumer")), "{told}");
    let before = env.tree();
    let mut command = env.command(["tour"]);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    // Whoever reads it goes away.
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
    assert_eq!(env.tree(), before);
}
