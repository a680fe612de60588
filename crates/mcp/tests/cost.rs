//! What saving one more message costs, however many there are: what is read and written is counted.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)] // Tests may panic; figures are printed.

use std::time::{Duration, Instant};

use rethread_domain::SessionId;
use rethread_mcp::{Streams, Synced};
use rethread_testkit::{TestStore, user};

/// How often one more is saved.
const TIMES: u32 = 20;

async fn fill(store: &TestStore, session: SessionId, count: u32) {
    let numbers: Vec<u32> = (1..=count).collect();
    for batch in numbers.chunks(5_000) {
        let messages = batch.iter().map(|_| user("The heron has an egg."));
        store.add(session, messages.collect()).await.unwrap();
    }
}

/// The work of one more message in a session of `count`, and the median of the time that it took.
async fn one_more(count: u32) -> (Synced, Duration) {
    let store = TestStore::sqlite().await;
    let engine = store.engine();
    let session = store.begin().await;
    fill(&store, session, count).await;
    let streams = Streams::new(store.beside("streams"));
    let first = streams.sync(&engine, session).await.unwrap();
    assert_eq!(first.messages, count);
    let mut work = Synced::default();
    let mut times = Vec::new();
    for _ in 0..TIMES {
        let begun = Instant::now();
        store.add(session, vec![user("The heron has an egg.")]).await.unwrap();
        let synced = streams.sync(&engine, session).await.unwrap();
        times.push(begun.elapsed());
        assert_eq!(synced.messages, 1);
        work.messages += 1;
        work.bytes_read += synced.bytes_read;
        work.bytes_written += synced.bytes_written;
    }
    let whole = std::fs::read(streams.folder(session).join("conversation.json")).unwrap();
    let whole: serde_json::Value = serde_json::from_slice(&whole).unwrap();
    assert_eq!(whole["messages"].as_array().map(Vec::len), Some((count + TIMES) as usize));
    times.sort_unstable();
    (work, times[times.len() / 2])
}

#[tokio::test]
async fn one_more_message_costs_the_same_at_100_and_at_50_000() {
    let (few, short) = one_more(100).await;
    let (many, long) = one_more(50_000).await;
    let bytes =
        |work: Synced| f64::from(u32::try_from(work.bytes_read + work.bytes_written).unwrap());
    let ratio = bytes(many) / bytes(few);
    println!("bytes at 100: {}, at 50,000: {}, ratio {ratio:.3}", bytes(few), bytes(many));
    println!(
        "time at 100: {short:?}, at 50,000: {long:?}, ratio {:.2}",
        long.as_secs_f64() / short.as_secs_f64()
    );
    // Numbers and times have a few digits more.
    assert!(ratio <= 1.2, "{ratio}");
}
