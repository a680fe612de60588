//! Nothing that we start outlives us, whoever ends whom.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use rethread_engine::agents::OpenRequest;

use crate::world::{World, actor, eventually, marked, reference, say};

/// The promise: everything is gone in this time.
const SOON: Duration = Duration::from_secs(5);

fn mark(name: &str) -> (String, String) {
    let value = format!("{name}-{}", std::process::id());
    (value.clone(), format!("ACP_TEST_MARK={value}"))
}

fn all_gone(mark: &str) {
    eventually("all processes are gone", SOON, || marked(mark).is_empty());
}

/// Kills one who drives an agent, in the middle of a turn.
fn killed(name: &str, prompt: &str, flags: &[&str], at_least: usize) {
    let (value, mark) = mark(name);
    let folder = tempfile::TempDir::new().unwrap();
    let mut driver = Command::new(actor())
        .arg("drive")
        .arg(folder.path())
        .arg(prompt)
        .arg(reference())
        .args(flags)
        .env("ACP_TEST_MARK", value)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(driver.stdout.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "ready");
    eventually("all have started", SOON, || marked(&mark).len() >= at_least);
    driver.kill().unwrap();
    driver.wait().unwrap();
    all_gone(&mark);
}

#[test]
fn nothing_is_left_when_we_are_killed() {
    killed("killed", "hang", &[], 3);
}

#[test]
fn nothing_is_left_of_an_agent_that_will_not_go_and_its_daemon() {
    killed("deaf", "hang", &["--ignore-stdin-close", "--daemon"], 4);
}

#[test]
fn nothing_is_left_of_what_the_agent_had_us_run() {
    killed("terminal", "run: sleep 300", &[], 5);
}

async fn ended(name: &str, flags: &[&str], guarded: bool) {
    let (value, mark) = mark(name);
    let mut world = World::new(flags);
    world.launcher.environment.push(("ACP_TEST_MARK".into(), value.into()));
    world.launcher.limits.close = Duration::from_millis(100);
    if !guarded {
        world.launcher.guard = None;
    }
    let agent = world.open().await;
    assert!(!marked(&mark).is_empty());
    agent.end().await;
    assert_eq!(marked(&mark), [0; 0], "after the end");
}

#[tokio::test]
async fn the_end_of_an_agent_is_the_end_of_all_that_it_started() {
    ended("ended", &[], true).await;
    ended("ended-daemon", &["--daemon"], true).await;
    ended("ended-deaf", &["--ignore-stdin-close", "--daemon"], true).await;
}

#[tokio::test]
async fn without_a_guard_at_least_the_group_is_ended() {
    ended("unguarded", &[], false).await;
    ended("unguarded-deaf", &["--ignore-stdin-close"], false).await;
}

#[tokio::test]
async fn an_agent_that_is_dropped_is_ended() {
    let (value, mark) = mark("dropped");
    let mut world = World::new(&["--daemon"]);
    world.launcher.environment.push(("ACP_TEST_MARK".into(), value.into()));
    drop(world.open().await);
    all_gone(&mark);
}

#[tokio::test]
async fn a_start_that_fails_leaves_nothing() {
    let (value, mark) = mark("failed");
    let mut world = World::new(&["--hang-on", "initialize", "--daemon", "--ignore-stdin-close"]);
    world.launcher.environment.push(("ACP_TEST_MARK".into(), value.into()));
    world.launcher.limits.initialize = Duration::from_millis(300);
    assert!(world.try_start().await.is_err());
    all_gone(&mark);
}

#[tokio::test]
async fn a_daemon_does_not_keep_a_dead_agent_alive() {
    let (value, mark) = mark("daemon");
    let mut world = World::new(&["--daemon"]);
    world.launcher.environment.push(("ACP_TEST_MARK".into(), value.into()));
    let mut agent = world.open().await;
    assert_eq!(say(&mut *agent, "die").await.0.unwrap_err().name(), "agent_ended");
    all_gone(&mark);
}

#[tokio::test]
async fn an_agent_that_signals_its_own_group_does_not_end_the_guard() {
    let (value, mark) = mark("signals");
    let script = "setsid --fork sleep 300 </dev/null >/dev/null 2>&1; kill -TERM 0; sleep 300";
    let mut world = World::with(vec!["/bin/sh".to_owned(), "-c".to_owned(), script.to_owned()]);
    world.launcher.environment.push(("ACP_TEST_MARK".into(), value.into()));
    let trouble = world.try_start().await.map(|_| ()).unwrap_err();
    assert_eq!(trouble.to_string(), "the agent ended (signal 15)");
    all_gone(&mark);
}

#[tokio::test]
async fn a_turn_that_is_dropped_is_cancelled() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let world = World::new(&["--log", log.path().to_str().unwrap()]);
    let mut agent = world.open().await;
    let dropped = tokio::time::timeout(Duration::from_millis(50), say(&mut *agent, "hang")).await;
    assert!(dropped.is_err());
    agent.open(OpenRequest::New).await.unwrap();
    let (ended, _) = say(&mut *agent, "say: x").await;
    assert_eq!(ended.unwrap().stop, "end_turn");
    assert!(std::fs::read_to_string(log.path()).unwrap().contains("session/cancel"));
}
