//! Conversations that another process has open: what it is asked, and what it is not (SPEC AGT-5, AGT-8).

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use crate::chat::{Chat, Terminal};
use crate::env::TestEnv;
use crate::reference::{has_prompts, until};

fn world() -> TestEnv {
    let env = TestEnv::new();
    env.agent("ref", &["--resume"]);
    env
}

/// Sends a prompt to a conversation that another process has open; gives the sender once it waits.
fn send(env: &TestEnv, id: &str, prompt: &str) -> (Child, BufReader<std::process::ChildStderr>) {
    let mut command = env.command(["send", id, prompt]);
    let mut sender = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(sender.stderr.take().unwrap());
    let mut line = String::new();
    told.read_line(&mut line).unwrap();
    assert_eq!(line, "[another process has it open and sends it]\n");
    (sender, told)
}

/// Ctrl-C; gives what it told.
fn interrupt(
    (mut sender, mut told): (Child, BufReader<std::process::ChildStderr>),
    code: i32,
) -> String {
    let done = Command::new("kill").args(["-INT", &sender.id().to_string()]).status().unwrap();
    assert!(done.success());
    let mut rest = String::new();
    told.read_to_string(&mut rest).unwrap();
    assert_eq!(sender.wait().unwrap().code(), Some(code), "{rest}");
    rest
}

#[test]
fn a_message_that_waits_is_taken_back_with_ctrl_c() {
    let env = world();
    let mut terminal = Terminal::start(&env, &["run", "ref"]);
    terminal.type_line("say: hello");
    terminal.wait_for("\nhello");
    let id = env.only();
    terminal.type_line("hang");
    has_prompts(&env, 2);
    let told = interrupt(send(&env, &id, "say: never"), 130);
    assert!(told.contains("error: ref: cancelled"), "{told}");
    assert!(told.contains("nothing of this was recorded"), "{told}");
    terminal.press(Terminal::CTRL_C);
    terminal.wait_for("[cancelled]");
    // What waited before this one would be said before it.
    assert_eq!(env.json(["send", &id, "say: later"])["answer"], "later");
    assert!(env.records(&id, "main").iter().all(|(_, text)| !text.contains("never")));
    // One that was begun with cannot be taken back, and that is said.
    let sender = send(&env, &id, "hang");
    has_prompts(&env, 4);
    let told = interrupt(sender, 1);
    assert!(told.contains("had begun with it, and goes on"), "{told}");
    terminal.press(Terminal::CTRL_C);
    terminal.wait_for("[cancelled]");
    terminal.press(Terminal::CTRL_D);
    assert_eq!(terminal.end().1, 0);
    env.assert_nothing_runs();
}

#[test]
fn what_another_process_cannot_do_is_not_asked_of_it() {
    let env = world();
    env.agent("other", &["--resume"]);
    let file = env.path("system.md");
    std::fs::write(&file, "Be long.").unwrap();
    let mut chat = Chat::start(&env, &["run", "ref"]);
    chat.say("say: hello");
    let id = env.only();
    for option in [
        ["--with", "other"],
        ["--model", "large"],
        ["--policy", "required"],
        ["--permissions", "deny"],
        ["--system-prompt", file.to_str().unwrap()],
    ] {
        let ask = [&["send", &id, "say: x"][..], &option].concat();
        env.fails(&ask, "conversation_busy");
    }
    assert_eq!(env.records(&id, "main").len(), 2, "nothing was said");
    assert_eq!(env.json(["send", &id, "say: yes", "--conversation", "main"])["answer"], "yes");
    assert!(chat.end().0.success());
    env.ask(&["send", &id, "say: x", "--with", "other"]);
}

#[test]
fn everybody_who_has_a_session_open_leaves_when_it_is_stopped() {
    let env = world();
    let mut first = Chat::start(&env, &["run", "ref"]);
    first.say("say: hello");
    let id = env.only();
    let mut second = Chat::start(&env, &["resume", &id, "--conversation", "new"]);
    second.say("say: hello");
    assert_eq!(env.json(["stop", &id])["status"], "paused");
    for mut chat in [first, second] {
        until("it leaves", || chat.is_over().then_some(()));
        let (status, _, told) = chat.wait();
        assert!(status.success() && told.contains("Paused "), "{told}");
    }
    assert_eq!(env.json(["show", &id])["status"], "paused");
    env.assert_nothing_runs();
    env.assert_sound();
}

#[test]
fn a_session_that_is_lost_in_the_middle_of_one_turn_is_told_of() {
    let env = world();
    env.ask(&["run", "ref", "Remember PASSKEY-a"]);
    env.agent("ref", &["--resume", "--lose-on-prompt"]);
    let output = env.run(["continue", "what was the passkey"]).succeeded();
    assert_eq!(output.text(), "The passkey is PASSKEY-a\n");
    let told: Vec<&str> = output.stderr.lines().collect();
    let lost = "[ref: told the story so far in a new session, because it does not know its session any more]";
    assert_eq!(told, ["[ref: resumed in its own session]", lost]);
}

#[test]
fn a_session_that_was_rejected_stays_so_if_the_program_is_killed_while_it_is_told_anew() {
    let env = world();
    env.ask(&["run", "ref", "Remember PASSKEY-a"]);
    let id = env.only();
    env.agent("ref", &["--resume", "--lose-on-prompt", "--chunk-delay-ms", "20"]);
    let mut chat = Chat::start(&env, &["resume", &id, "stream: 400"]);
    chat.hear_word("word1 word2");
    chat.kill();
    env.agent("ref", &["--resume"]);
    let (answer, how, why) = env.ask(&["resume", &id, "what was the passkey"]);
    assert_eq!(answer, "The passkey is PASSKEY-a");
    assert_eq!((how.as_str(), why.as_str()), ("retold", "first_turn"));
    env.assert_held("ref", &id, "main");
}
