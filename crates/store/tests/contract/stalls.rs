//! Processes that run a workflow and die, or stand still, in the middle.

use std::io::{BufRead, BufReader, Lines, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use futures::executor::block_on;
use rethread_store::{Error, StoreUrl, open};
use rethread_testkit::{TestStore, at};
use rethread_workflow::WorkflowId;
use rustix::process::{Pid, Signal, kill_process};

use crate::workflows::{create, told};

/// Tells a process that works for a test: what it does, a lease in milliseconds, the workflow, the store.
const RUN: &str = "RETHREAD_TEST_RUN_WORKFLOW";
const LONG_MS: u64 = 3_600_000;
const APPENDS: usize = 3;

fn say(line: &str) {
    let mut output = std::io::stdout();
    output.write_all(format!("\n{line}\n").as_bytes()).unwrap();
    output.flush().unwrap();
}

/// Claims; then appends when it is told to, or for ever, and says what came of it.
async fn work(what: &str, lease: Duration, id: WorkflowId, url: &StoreUrl) {
    let store = open(url).await.unwrap();
    let claim = store.claim_workflow(id, lease).await.unwrap().unwrap();
    say("held");
    let is_asked = what == "when-asked";
    for n in 0.. {
        if is_asked && std::io::stdin().read_line(&mut String::new()).unwrap() == 0
            || what == "some" && n == APPENDS
        {
            return;
        }
        let seen = store.workflow(id).await.unwrap().events;
        let two = vec![told(2 * n), told(2 * n + 1)];
        match store.append_events(id, seen, Some(claim.epoch), two, at(1)).await {
            Ok(()) => say(&format!("written {}", seen + 2)),
            Err(Error::LeaseLost(_)) => say("lost"),
            Err(error) => panic!("{error}"),
        }
    }
}

/// By itself a test of one; with the variable set, the work of a process that does not end well.
#[test]
fn one_process_can_run_a_workflow() {
    if let Some(told) = std::env::var_os(RUN) {
        let told = told.into_string().unwrap();
        let mut words = told.splitn(4, ' ');
        let mut word = || words.next().unwrap();
        let (what, lease, id) = (word(), word().parse().unwrap(), word().parse().unwrap());
        let url = StoreUrl::Sqlite(word().into());
        return block_on(work(what, Duration::from_millis(lease), id, &url));
    }
    block_on(async {
        let store = TestStore::sqlite().await;
        let id = create(&*store).await;
        work("some", Duration::from_secs(9), id, store.url()).await;
        assert_eq!(store.workflow(id).await.unwrap().events as usize, 1 + 2 * APPENDS);
    });
}

fn worker(what: &str, lease_ms: u64, id: WorkflowId, store: &TestStore) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["stalls::one_process_can_run_a_workflow", "--exact", "--quiet", "--nocapture"])
        .env(RUN, format!("{what} {lease_ms} {id} {}", store.file().display()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

/// Starts one that has claimed the workflow when this returns.
fn start(command: &mut Command) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.by_ref().map(Result::unwrap).any(|line| line == "held"));
    (child, lines)
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn who_is_killed_is_followed_at_once() {
    let store = block_on(TestStore::sqlite());
    let id = block_on(create(&*store));
    let claim = || block_on(store.claim_workflow(id, Duration::from_secs(9))).unwrap();
    let (child, _lines) = start(&mut worker("when-asked", LONG_MS, id, &store));
    assert!(claim().is_none());
    kill(child);
    assert!(!block_on(store.is_workflow_claimed(id)).unwrap());
    assert_eq!(claim().unwrap().epoch, 2);
}

#[test]
fn who_stands_still_is_followed_when_the_lease_has_run_out_and_writes_no_more() {
    let store = block_on(TestStore::sqlite());
    let id = block_on(create(&*store));
    let (mut child, mut lines) = start(&mut worker("when-asked", 50, id, &store));
    let mut ask = child.stdin.take().unwrap();
    ask.write_all(b"\n").unwrap();
    assert!(lines.by_ref().map(Result::unwrap).any(|line| line == "written 3"));
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::STOP).unwrap();
    let claim = loop {
        if let Some(claim) = block_on(store.claim_workflow(id, Duration::from_hours(1))).unwrap() {
            break claim;
        }
    };
    assert_eq!(claim.epoch, 2);
    block_on(store.append_events(id, 3, Some(claim.epoch), vec![told(1)], at(1))).unwrap();
    kill_process(pid, Signal::CONT).unwrap();
    for _ in 0..3 {
        ask.write_all(b"\n").unwrap();
        assert!(lines.by_ref().map(Result::unwrap).any(|line| line == "lost"));
    }
    assert_eq!(block_on(store.workflow(id)).unwrap().events, 4);
    kill(child);
    assert_eq!(block_on(store.owner_of(id)).unwrap().unwrap().epoch, 2);
    block_on(store.expect_sound());
}

#[test]
fn what_was_acknowledged_before_a_kill_is_there() {
    let store = block_on(TestStore::sqlite());
    let id = block_on(create(&*store));
    for round in 0..15 {
        let before = block_on(store.workflow(id)).unwrap().events;
        let (mut child, lines) = start(&mut worker("for-ever", LONG_MS, id, &store));
        let mut lines = lines.map(Result::unwrap);
        let mut acknowledged = before;
        let mut heard = |line: String| {
            let number = line.strip_prefix("written ").and_then(|number| number.parse().ok());
            acknowledged = number.unwrap_or(acknowledged);
            number.is_some()
        };
        for _ in 0..=round {
            while !heard(lines.next().unwrap()) {}
        }
        child.kill().unwrap();
        lines.for_each(|line| {
            heard(line);
        });
        child.wait().unwrap();
        let events = block_on(store.workflow_events(id, 0)).unwrap();
        assert!((1..).zip(&events).all(|(n, record)| record.no == n));
        let count = u32::try_from(events.len()).unwrap();
        assert!(acknowledged > before && [0, 2].contains(&(count - acknowledged)), "{count}");
        block_on(store.expect_sound());
    }
}

#[test]
fn a_crash_leaves_all_events_of_an_append_or_none() {
    for point in
        ["batch.begun", "workflow.inserted", "workflow.counted", "batch.applied", "batch.committed"]
    {
        // Where batches are counted, the first is the claim.
        for time in 1..=APPENDS {
            let store = block_on(TestStore::sqlite());
            let id = block_on(create(&*store));
            let mut command = worker("some", LONG_MS, id, &store);
            let output =
                command.env("CRASH_AT", format!("{point}:{time}")).stderr(Stdio::null()).output();
            assert!(output.unwrap().status.signal().is_some(), "{point}:{time}");
            let events = block_on(store.workflow_events(id, 0)).unwrap();
            let is_batch = point.starts_with("batch");
            let before = if is_batch { time.saturating_sub(2) } else { time - 1 };
            let is_kept = point == "batch.committed" && time > 1;
            let appends = before + usize::from(is_kept);
            assert_eq!(events.len(), 1 + 2 * appends, "{point}:{time}");
            block_on(store.expect_sound());
            let claim = block_on(store.claim_workflow(id, Duration::from_secs(9))).unwrap();
            assert!(claim.is_some(), "{point}:{time}");
        }
    }
}
