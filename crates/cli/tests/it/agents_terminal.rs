//! Conversations as people have them: at a terminal.

use serde_json::json;

use crate::chat::{Chat, Terminal};
use crate::env::TestEnv;
use crate::reference::{has_prompts, until};

fn world() -> TestEnv {
    let env = TestEnv::new();
    env.agent("ref", &["--resume"]);
    env
}

#[test]
fn a_conversation_streams_can_be_cancelled_and_is_saved_when_it_is_left() {
    let env = world();
    let mut terminal = Terminal::start(&env, &["run", "ref"]);
    terminal.wait_for("ref: a new conversation");
    terminal.type_line("stream: 3");
    terminal.wait_for("word1 word2 word3");
    terminal.type_line("/help");
    terminal.wait_for("cancel the running turn");
    terminal.type_line("hang");
    has_prompts(&env, 2);
    terminal.press(Terminal::CTRL_C);
    terminal.wait_for("[cancelled]");
    terminal.type_line("say: still here");
    terminal.wait_for("\nstill here");
    terminal.wait_for("> ");
    terminal.press(Terminal::CTRL_D);
    let (rest, code) = terminal.end();
    let id = env.only();
    assert_eq!(code, 0);
    let short = &id[24..32];
    assert!(
        rest.contains("Paused ") && rest.contains(&format!("rethread resume {short}")),
        "{rest}"
    );
    assert!(rest.contains("It stopped at message"), "{rest}");
    assert_eq!(env.json(["show", &id])["status"], "paused");
    env.assert_nothing_runs();
    env.assert_sound();
}

#[test]
fn a_conversation_that_was_deleted_meanwhile_says_so() {
    let env = world();
    let mut terminal = Terminal::start(&env, &["run", "ref"]);
    terminal.wait_for("ref: a new conversation");
    terminal.type_line("say: something");
    terminal.wait_for("\nsomething");
    env.run(["delete", &env.only()]).succeeded();
    terminal.press(Terminal::CTRL_D);
    let (rest, _) = terminal.end();
    assert!(rest.contains("was deleted meanwhile"), "{rest}");
    assert!(!rest.contains("rethread resume"), "{rest}");
}

#[test]
fn a_conversation_in_which_nothing_is_said_leaves_nothing() {
    let env = world();
    let mut terminal = Terminal::start(&env, &["run", "ref"]);
    terminal.wait_for("> ");
    terminal.press(Terminal::CTRL_D);
    assert_eq!(terminal.end().1, 0);
    assert_eq!(env.json(["list"]), serde_json::json!([]));
    env.assert_nothing_runs();
}

#[test]
fn an_agent_that_does_not_obey_is_ended() {
    let env = TestEnv::new();
    env.set("talk", "cancel_seconds = 1");
    env.agent("ref", &["--resume", "--ignore-cancel"]);
    let mut terminal = Terminal::start(&env, &["run", "ref"]);
    terminal.type_line("Remember PASSKEY-a");
    terminal.wait_for("ACK");
    terminal.type_line("hang");
    has_prompts(&env, 2);
    terminal.press(Terminal::CTRL_C);
    terminal.wait_for("did not answer the cancel within 1 second");
    terminal.type_line("what was the passkey");
    terminal.wait_for("The passkey is PASSKEY-a");
    terminal.wait_for("> ");
    terminal.press(Terminal::CTRL_D);
    assert_eq!(terminal.end().1, 0);
    env.assert_nothing_runs();
}

#[test]
fn one_turn_and_an_opening_can_be_cancelled_too() {
    let env = world();
    env.ask(&["run", "ref", "Remember PASSKEY-a"]);
    let id = env.only();
    let mut terminal = Terminal::start(&env, &["resume", &id, "hang"]);
    terminal.wait_for("resumed in its own session");
    has_prompts(&env, 2);
    terminal.press(Terminal::CTRL_C);
    terminal.wait_for("error: ref: cancelled");
    assert_eq!(terminal.end().1, 130);
    env.assert_nothing_runs();
    assert_eq!(env.ask(&["resume", &id, "what was the passkey"]).0, "The passkey is PASSKEY-a");
    env.agent("ref", &["--resume", "--hang-on", "session/resume"]);
    let mut terminal = Terminal::start(&env, &["resume", &id]);
    let waits = || env.methods("ref").iter().filter(|one| *one == "session/resume").count() == 3;
    until("the agent hangs", || waits().then_some(()));
    terminal.press(Terminal::CTRL_C);
    terminal.wait_for("error: ref: cancelled");
    assert_eq!(terminal.end().1, 130);
    env.assert_nothing_runs();
    env.agent("ref", &["--resume"]);
    assert_eq!(env.ask(&["resume", &id, "what was the passkey"]).1, "resumed");
}

#[test]
fn a_cancelled_question_cancels_the_turn() {
    let env = world();
    let mut terminal = Terminal::start(&env, &["run", "ref"]);
    terminal.type_line("ask: rm things");
    terminal.wait_for("Number");
    terminal.press(Terminal::CTRL_C);
    terminal.wait_for("[cancelled]");
    terminal.type_line("say: go on");
    terminal.wait_for("\ngo on");
    terminal.wait_for("> ");
    terminal.press(Terminal::CTRL_D);
    assert_eq!(terminal.end().1, 0);
}

#[test]
fn what_others_send_does_not_take_the_keyboard_away() {
    let env = world();
    let mut terminal = Terminal::start(&env, &["run", "ref"]);
    terminal.type_line("say: hello");
    terminal.wait_for("\nhello");
    terminal.wait_for("> ");
    let id = env.only();
    // Who types a line cannot be asked.
    assert_eq!(env.json(["send", &id, "ask: rm things"])["answer"], "rejected");
    terminal.wait_for("refused");
    // Who types a line can cancel all the same.
    let mut command = env.command(["send", &id, "hang", "--json"]);
    command.stdout(std::process::Stdio::piped());
    let sent = command.spawn().unwrap();
    has_prompts(&env, 3);
    terminal.press(Terminal::CTRL_C);
    let output = sent.wait_with_output().unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["stop_reason"], "cancelled");
    terminal.wait_for("[cancelled]");
    // What is typed meanwhile is said afterwards.
    let mut command = env.command(["send", &id, "hang", "--json"]);
    command.stdout(std::process::Stdio::null());
    let mut sent = command.spawn().unwrap();
    has_prompts(&env, 4);
    terminal.press("say: in between\r");
    terminal.wait_for("in between");
    terminal.press(Terminal::CTRL_C);
    terminal.wait_for("[cancelled]");
    terminal.wait_for("\nin between");
    assert!(sent.wait().unwrap().success());
    terminal.wait_for("> ");
    terminal.press(Terminal::CTRL_D);
    assert_eq!(terminal.end().1, 0);
    env.assert_nothing_runs();
}

#[test]
fn the_picker_marks_an_answer_that_was_interrupted() {
    let env = world();
    let half = json!({"role": "assistant", "content": "half an", "interrupted": true});
    env.record(["--title", "Half"], &[json!({"role": "user", "content": "go"}), half]);
    let mut terminal = Terminal::start(&env, &["resume"]);
    terminal.wait_for("[interrupted]");
    terminal.press(Terminal::CTRL_C);
    terminal.end();
}

#[test]
fn resume_shows_what_there_is_and_enter_takes_it_up() {
    let env = world();
    env.ask(&["run", "ref", "Remember PASSKEY-a", "--title", "The lost basket"]);
    env.ask(&["run", "ref", "Remember PASSKEY-b", "--title", "The red fence"]);
    let mut terminal = Terminal::start(&env, &["resume"]);
    terminal.wait_for("The lost basket");
    terminal.press("basket");
    terminal.press(Terminal::ENTER);
    terminal.wait_for("ref: resumed in its own session");
    terminal.type_line("what was the passkey");
    terminal.wait_for("The passkey is PASSKEY-a");
    // And from there to another one.
    terminal.type_line("/resume");
    terminal.wait_for("The red fence");
    terminal.press("fence");
    terminal.press(Terminal::ENTER);
    terminal.wait_for("ref: resumed in its own session");
    terminal.type_line("what was the passkey");
    terminal.wait_for("The passkey is PASSKEY-b");
    terminal.type_line("/complete");
    let (rest, code) = terminal.end();
    assert_eq!(code, 0);
    assert!(rest.contains("Completed ") && rest.contains("The red fence"), "{rest}");
    env.assert_nothing_runs();
    let mut terminal = Terminal::start(&env, &["resume", "fence"]);
    terminal.wait_for("Take it up again? [y/N]");
    terminal.press("n\r");
    terminal.wait_for("error:");
    assert_eq!(terminal.end().1, 1);
    let mut terminal = Terminal::start(&env, &["resume", "fence"]);
    terminal.wait_for("Take it up again? [y/N]");
    terminal.press("y\r");
    terminal.wait_for("ref: resumed in its own session");
    terminal.wait_for("> ");
    terminal.press(Terminal::CTRL_D);
    assert_eq!(terminal.end().1, 0);
}

#[test]
fn nothing_said_for_long_pauses_and_says_so() {
    let env = world();
    env.set("talk", "idle_seconds = 1");
    let mut chat = Chat::start(&env, &["run", "ref"]);
    assert_eq!(chat.say("say: hello"), "hello");
    let (status, _, told) = chat.wait();
    assert!(status.success(), "{told}");
    assert!(told.contains("Nothing was said for 1 second."), "{told}");
    assert!(told.contains("Paused "), "{told}");
    assert_eq!(env.json(["show", &env.only()])["status"], "paused");
    env.assert_nothing_runs();
}

#[test]
fn what_an_agent_says_plays_no_tricks_on_the_terminal() {
    let env = world();
    let trick = "\u{1b}[2J\u{1b}]0;evil\u{7}\u{9b}2J\u{202e}drow\u{8}end";
    for prompt in ["say", "title", "tool", "ask", "think", "plan"] {
        let prompt = format!("{prompt}: {trick}");
        let mut terminal =
            Terminal::start(&env, &["run", "ref", &prompt, "--permissions", "allow"]);
        terminal.wait_for("a new conversation");
        let (rest, code) = terminal.end();
        assert_eq!(code, 0, "{rest}");
        // What is read is given byte by byte.
        let rest: Vec<u8> = rest.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect();
        let rest = String::from_utf8(rest).unwrap();
        let ours = [
            "\u{1b}[0m",
            "\u{1b}[1m",
            "\u{1b}[2m",
            "\u{1b}[31m",
            "\u{1b}[32m",
            "\u{1b}[33m",
            "\u{1b}[36m",
        ];
        let plain =
            ours.iter().fold(rest.replace("\r\n", "\n"), |text, style| text.replace(style, ""));
        let tricks = plain.chars().filter(|c| c.is_control() && *c != '\n' || *c == '\u{202e}');
        assert_eq!(tricks.collect::<Vec<_>>(), [], "{prompt:?}: {rest:?}");
    }
    // Neither do questions; and a tool that fails is called by its name.
    let mut terminal = Terminal::start(&env, &["run", "ref", &format!("ask: {trick}")]);
    terminal.wait_for("Allow ref to run: ");
    let question = terminal.wait_for("Number");
    let question =
        question.replace("\u{1b}[1m", "").replace("\u{1b}[2m", "").replace("\u{1b}[0m", "");
    assert!(!question.contains('\u{1b}') && !question.contains('\u{7}'), "{question:?}");
    terminal.press("3\r");
    // The characters are read byte by byte.
    let shown: String = "\u{241b}1b;[2J".bytes().map(char::from).collect();
    let (rest, code) = terminal.end();
    assert_eq!(code, 0);
    assert!(rest.contains(&shown) && rest.contains("failed"), "{rest:?}");
    let titled = env.run(["list"]).succeeded();
    assert!(!titled.text().contains('\u{1b}'), "{titled}");
}
