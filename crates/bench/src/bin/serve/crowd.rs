//! A client that keeps to its pace, beside one that asks ten times as often as it may.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rethread_bench::{millis, say};
use rethread_domain::SessionId;
use serde_json::{Value, json};

use crate::percentile;
use crate::wire::{Door, Line};

/// How often one token may ask, a second.
pub(crate) const LIMIT: u32 = 50;
const PACE: u32 = 20;
const SECONDS: u32 = 20;
/// Connections of the one that does not keep to it.
const LINES: u32 = 10;

/// Asks `count` times, `rate` times a second; gives how long each took from when it was due, and what was answered.
async fn paced(door: Door, path: String, rate: u32, count: u32) -> Result<Vec<(Duration, u16)>> {
    let mut line = Line::open(&door).await?;
    let (begun, mut answers) = (Instant::now(), Vec::new());
    for number in 0..count {
        let due = begun + Duration::from_secs(1) * number / rate;
        tokio::time::sleep_until(due.into()).await;
        let (status, _) = line.ask("GET", &path, "").await?;
        answers.push((due.elapsed(), status));
    }
    Ok(answers)
}

async fn polite(door: &Door, path: &str) -> Result<Duration> {
    let answers = paced(door.clone(), path.to_owned(), PACE, PACE * SECONDS).await?;
    ensure!(answers.iter().all(|(_, status)| *status == 200), "a polite client was refused");
    Ok(percentile(answers.into_iter().map(|(took, _)| took).collect(), 99))
}

pub(crate) async fn measure(door: &Door, session: SessionId) -> Result<()> {
    let path = format!("/api/v1/sessions/{session}/messages?limit=50");
    let body = json!({"name": "rude", "role": "admin"}).to_string();
    let (_, made) = Line::open(door).await?.ask("POST", "/api/v1/tokens", &body).await?;
    let made: Value = serde_json::from_slice(&made)?;
    let token = made["secret"].as_str().context("no token")?.to_owned();
    let rude = Door { token, ..door.clone() };
    let alone = polite(door, &path).await?;
    let rate = 10 * LIMIT / LINES;
    let lines: Vec<_> = (0..LINES)
        .map(|_| tokio::spawn(paced(rude.clone(), path.clone(), rate, rate * SECONDS)))
        .collect();
    let beside = polite(door, &path).await?;
    let (mut served, mut refused) = (0, 0);
    for line in lines {
        for (_, status) in line.await?? {
            ensure!(matches!(status, 200 | 429), "{status}");
            *(if status == 200 { &mut served } else { &mut refused }) += 1;
        }
    }
    say(&format!(
        "a polite client, {PACE} requests a second: p99 {:.2} ms alone, {:.2} ms beside one that asks {} times a second where \
         {LIMIT} are allowed ({:.1} times; reach: 2); of that one {served} were answered, {refused} told to come again",
        millis(alone),
        millis(beside),
        10 * LIMIT,
        beside.as_secs_f64() / alone.as_secs_f64(),
    ));
    Ok(())
}
