//! What an update costs on its way through, compared with only reading the lines.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)] // Tests may panic and talk.

#[path = "all/world.rs"]
#[allow(dead_code)] // The other tests use the rest.
mod world;

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::channel::mpsc;
use rethread_engine::agents::Block;
use serde_json::json;
use world::World;

const UPDATES: u32 = 100_000;
const MOST: Duration = Duration::from_micros(50);

/// An agent that has all of its updates ready.
fn world() -> World {
    let text = "x".repeat(100);
    let update = json!({
        "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text },
    });
    let params = json!({ "sessionId": "s", "update": update });
    let line = json!({ "jsonrpc": "2.0", "method": "session/update", "params": params });
    let mut said = format!("{line}\n").repeat(UPDATES as usize);
    said.push_str("{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{\"stopReason\":\"end_turn\"}}\n");
    World::scripted(&[("session/prompt", said.as_bytes())])
}

/// The lines, read and thrown away.
fn bare(world: &World) -> Duration {
    let command = &world.launcher.entry.command;
    let mut agent = Command::new(&command[0])
        .args(&command[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut to = agent.stdin.take().unwrap();
    let from = BufReader::new(agent.stdout.take().unwrap());
    let begun = Instant::now();
    writeln!(to, "{}", json!({ "id": 3, "method": "session/prompt" })).unwrap();
    drop(to);
    assert_eq!(from.split(b'\n').map_while(Result::ok).count(), UPDATES as usize + 1);
    let took = begun.elapsed();
    agent.wait().unwrap();
    took / UPDATES
}

async fn ours(world: &World) -> Duration {
    let mut agent = world.open().await;
    let (sender, updates) = mpsc::channel(256);
    let begun = Instant::now();
    let prompt = agent.prompt(vec![Block::Text("go".to_owned())], sender);
    let (ended, count) = tokio::join!(prompt, updates.count());
    ended.unwrap();
    assert_eq!(count, UPDATES as usize);
    begun.elapsed() / UPDATES
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement: cargo test --release --test speed -- --ignored --nocapture"]
async fn an_update_costs_little() {
    let world = world();
    for _ in 0..3 {
        let (bare, ours) = (bare(&world), ours(&world).await);
        eprintln!("per update: {ours:?}, of which reading alone {bare:?}");
        assert!(ours < MOST);
    }
}
