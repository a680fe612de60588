//! `rethread watch`, and what a newcomer is asked once

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::chat::Terminal;
use crate::env::TestEnv;
use crate::reference::until;

const CLAUDE: &str = include_str!("../../../import/tests/fixtures/claude.jsonl");

fn write_session(env: &TestEnv, lines: usize) {
    let folder = env.path("home/.claude/projects/-home-ann-shop");
    fs::create_dir_all(&folder).unwrap();
    let text: String = CLAUDE.split_inclusive('\n').take(lines).collect();
    fs::write(folder.join("11111111-1111-4111-8111-111111111111.jsonl"), text).unwrap();
}

/// A watcher that has looked for the first time.
struct Watcher(Child, BufReader<ChildStdout>);

impl Watcher {
    fn start(env: &TestEnv) -> Self {
        let mut command = env.command(["watch", "--json"]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        lines.read_line(&mut first).unwrap();
        assert!(first.contains("agents"), "{first}");
        Self(child, lines)
    }

    fn stop(mut self) {
        let pid = Pid::from_raw(i32::try_from(self.0.id()).unwrap()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        drop(self.1);
        assert!(self.0.wait().unwrap().success());
    }
}

fn messages(env: &TestEnv) -> Vec<usize> {
    let all = env.json(["list"]);
    let all = all.as_array().unwrap().iter();
    let ids = all.filter_map(|session| session["session_id"].as_str().map(str::to_owned));
    ids.map(|id| env.messages(&id).len()).collect()
}

#[test]
fn two_watchers_import_what_comes_once() {
    let env = TestEnv::new();
    write_session(&env, 0);
    let (one, other) = (Watcher::start(&env), Watcher::start(&env));
    write_session(&env, 10);
    until("what was written is imported", || (!messages(&env).is_empty()).then_some(()));
    let before = messages(&env);
    write_session(&env, usize::MAX);
    let grown = || messages(&env).iter().sum::<usize>() > before[0];
    until("what was added is imported", || grown().then_some(()));
    one.stop();
    other.stop();
    let again = env.json(["import"]);
    assert_eq!(again["agents"]["claude"]["messages"], 0, "{again}");
    let main = |message: &&Value| message["conversation"] == "main";
    let newest = env.json(["list"]);
    let id = newest[0]["session_id"].as_str().unwrap().to_owned();
    let all = env.messages(&id);
    let texts: Vec<&str> =
        all.iter().filter(main).map(|message| message["content"].as_str().unwrap()).collect();
    let asked = texts.iter().filter(|text| **text == "Why is the till slow?").count();
    assert_eq!(asked, 1, "{texts:?}");
    env.assert_sound();
}

#[test]
fn a_newcomer_is_asked_once_and_only_at_a_terminal() {
    let env = TestEnv::new();
    write_session(&env, usize::MAX);
    assert!(env.json(["list"]).as_array().unwrap().is_empty(), "programs are not asked");
    let mut terminal = Terminal::start(&env, &["list"]);
    terminal.wait_for("Found 1 session of Claude Code. Import them? [Y/n]");
    terminal.press("n\r");
    terminal.wait_for("`rethread import` imports them later");
    assert_eq!(terminal.end().1, 0);
    let (rest, _) = Terminal::start(&env, &["list"]).end();
    assert!(rest.contains("No sessions") && !rest.contains("Found"), "{rest}");
}

#[test]
fn a_newcomer_who_says_yes_has_the_sessions() {
    let env = TestEnv::new();
    write_session(&env, usize::MAX);
    let mut terminal = Terminal::start(&env, &["list"]);
    terminal.wait_for("Import them? [Y/n]");
    terminal.press(Terminal::ENTER);
    terminal.wait_for("Imported 17 messages");
    terminal.wait_for("The slow till");
    assert_eq!(terminal.end().1, 0);
    assert_eq!(messages(&env), [17]);
}
