//! Memory stays small, whatever an agent sends. Alone in its process, so that only this is measured.

#![allow(clippy::unwrap_used, clippy::expect_used)] // Tests may panic.

#[path = "all/world.rs"]
#[allow(dead_code)] // The other tests use the rest.
mod world;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::channel::mpsc;
use rethread_acp::Shell;
use rethread_domain::turn::Update;
use rethread_engine::agents::{AgentError, Block, OpenRequest};
use rethread_engine::workflows::ExitReason;
use tokio_util::sync::CancellationToken;
use world::{WATCHDOG, World};

const ALLOWED: u64 = 64 * 1024;

/// One test after the other.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn status(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// The most memory that was in use since `begun`, in KiB.
struct Peak(u64);

impl Peak {
    fn begin() -> Self {
        std::fs::write("/proc/self/clear_refs", "5").unwrap();
        Self(status("VmRSS"))
    }

    fn growth(&self) -> u64 {
        status("VmHWM").saturating_sub(self.0)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::await_holding_lock)] // It is what the lock is for.
async fn a_line_without_end_is_cut_off() {
    let _alone = alone();
    let world = World::new(&["--endless-line", "1073741824"]);
    let peak = Peak::begin();
    let outcome = async {
        let mut agent = world.start().await;
        agent.open(OpenRequest::New).await
    };
    let outcome = tokio::time::timeout(WATCHDOG, outcome).await.unwrap();
    assert_eq!(outcome, Err(AgentError::LineTooLong(16 * 1024 * 1024)));
    assert!(peak.growth() < ALLOWED, "{} KiB", peak.growth());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::await_holding_lock)] // It is what the lock is for.
async fn a_flood_waits_for_a_slow_reader() {
    let _alone = alone();
    let world = World::new(&["--flood", "2000000"]);
    let mut agent = world.open().await;
    let cancel = CancellationToken::new();
    let peak = Peak::begin();
    let (sender, mut updates) = mpsc::channel(16);
    let prompt = agent.prompt(vec![Block::Text("say: x".to_owned())], sender, cancel.clone());
    let read = async {
        let mut count = 0;
        while count < 2000 {
            assert!(matches!(updates.next().await, Some(Update::Text { .. })));
            count += 1;
            if count % 100 == 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        let growth = peak.growth();
        cancel.cancel();
        while updates.next().await.is_some() {}
        growth
    };
    let both = async { tokio::join!(prompt, read) };
    let (ended, growth) = tokio::time::timeout(WATCHDOG, both).await.unwrap();
    assert!(ended.is_ok(), "{ended:?}");
    assert!(growth < ALLOWED / 8, "{growth} KiB");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::await_holding_lock)] // It is what the lock is for.
async fn a_million_members_and_ten_thousand_levels_cost_little() {
    let _alone = alone();
    let members: Vec<String> = (0..1_000_000).map(|n| format!("\"k{n}\":0")).collect();
    let members = members.join(",");
    let update = format!("{{\"sessionUpdate\":\"odd\",{members}}}");
    let params = format!("{{\"sessionId\":\"s\",\"update\":{update}}}");
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let said = format!(
        "{{\"method\":\"session/update\",\"params\":{params}}}\n{{{members}}}\n{deep}\n\
         {{\"id\":$ID,\"result\":{{\"stopReason\":\"end_turn\"}}}}\n"
    );
    let world = World::scripted(&[("session/prompt", said.as_bytes())]);
    drop((said, params, update, members));
    let mut agent = world.open().await;
    let peak = Peak::begin();
    let (ended, updates) = world::say(&mut *agent, "go").await;
    assert_eq!(ended.unwrap().stop, "end_turn");
    assert_eq!(updates.len(), 1);
    assert!(peak.growth() < ALLOWED, "{} KiB", peak.growth());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::await_holding_lock)] // It is what the lock is for.
async fn a_command_that_never_stops_talking_costs_little() {
    let _alone = alone();
    let world = World::with(Vec::new());
    let shell = Shell {
        guard: world.launcher.guard.clone(),
        environment: world.launcher.environment.clone(),
        withheld: Vec::new(),
    };
    let peak = Peak::begin();
    let limit = Duration::from_secs(1);
    let run = shell.run("yes", world.folder.path(), limit, std::future::pending());
    let ran = tokio::time::timeout(WATCHDOG, run).await.unwrap();
    assert_eq!((ran.code, ran.over), (None, ExitReason::TimedOut));
    assert!((500 * 1024..600 * 1024).contains(&ran.output.len()), "{}", ran.output.len());
    assert!(peak.growth() < ALLOWED / 8, "{} KiB", peak.growth());
}
