//! How fast secrets are looked for, against a bare scan of the same bytes, and that hostile text costs no more.
//!
//! `cargo run --release -p rethread-bench --bin redact [-- MEGABYTES]`

use std::fs;
use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rethread_bench::{Dice, ratio, say};
use rethread_redact::{Known, Redactor};

const MEGABYTE: usize = 1 << 20;

/// A whole may take so many times as long as its pieces before we call it more than linear.
const MOST_GROWTH: f64 = 3.0;

/// The clock of a thread moves in such steps.
const TICK: Duration = Duration::from_millis(4);

fn main() -> Result<()> {
    let argument = std::env::args().nth(1);
    let megabytes: usize =
        argument.map_or(Ok(32), |text| text.parse()).context("MEGABYTES is a number")?;
    let redactor = Redactor::new(known());
    let start = Instant::now();
    redactor.redact("ready");
    say(&format!("first call, with the automaton of all rules: {:.1?}\n", start.elapsed()));
    say("| text | redact MB/s | bare scan MB/s | ratio |");
    say("|---|---|---|---|");
    for (what, text) in [
        ("prose", filled(prose, megabytes)),
        ("code", filled(code, megabytes)),
        ("log lines", filled(log, megabytes)),
        ("base64", filled(base64, megabytes)),
        ("an env dump, each line a secret", filled(environment, megabytes)),
    ] {
        ordinary(&redactor, what, &text);
    }
    say("\n| hostile text | 10 x 1 MiB | 10 MiB | growth |");
    say("|---|---|---|---|");
    for pattern in HOSTILE {
        hostile(&redactor, pattern)?;
    }
    Ok(())
}

/// An environment as programs have it.
fn known() -> Vec<Known> {
    let mut dice = Dice::new(1);
    let known = |number: u64| Known {
        name: format!("SERVICE_{number}_TOKEN"),
        value: (0..5).map(|_| dice.roll(u64::MAX).to_string()).collect::<Vec<_>>().concat(),
    };
    (0..20).map(known).collect()
}

fn filled(line: fn(&mut Dice) -> String, megabytes: usize) -> String {
    let mut dice = Dice::new(7);
    let mut text = String::new();
    while text.len() < megabytes * MEGABYTE {
        text.push_str(&line(&mut dice));
        text.push('\n');
    }
    text
}

fn words(dice: &mut Dice, count: usize) -> String {
    const WORDS: [&str; 16] = [
        "the", "session", "token", "writes", "password", "when", "a", "store", "is", "opened",
        "key", "and", "its", "turn", "ended", "before",
    ];
    let word = |dice: &mut Dice| WORDS[usize::try_from(dice.roll(16)).unwrap_or_default()];
    (0..count).map(|_| word(dice)).collect::<Vec<_>>().join(" ")
}

fn prose(dice: &mut Dice) -> String {
    words(dice, 14) + "."
}

fn code(dice: &mut Dice) -> String {
    let (one, two) = (words(dice, 2).replace(' ', "_"), words(dice, 1));
    format!("    let {one} = self.{two}(token, {})?; // {}", dice.roll(999), words(dice, 5))
}

fn log(dice: &mut Dice) -> String {
    let (id, count) = (dice.roll(u64::MAX), dice.roll(9999));
    format!("2026-11-16T10:00:00Z INFO auth: request={id:016x} max_tokens={count} path=/v1/{count}")
}

fn base64(dice: &mut Dice) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let letter = |_| char::from(LETTERS[usize::try_from(dice.roll(64)).unwrap_or_default()]);
    (0..4000).map(letter).collect()
}

fn environment(dice: &mut Dice) -> String {
    format!("SERVICE_PASSWORD={:x}{:x}", dice.roll(u64::MAX), dice.roll(u64::MAX))
}

/// How long this thread has worked: other programs run on the machine too. Where Linux does not tell, the time.
fn clock(since: Instant) -> Duration {
    let told = fs::read_to_string("/proc/thread-self/schedstat").ok();
    let worked = told.and_then(|told| told.split(' ').next()?.parse().ok());
    worked.map_or_else(|| since.elapsed(), Duration::from_nanos)
}

fn worked(work: &dyn Fn()) -> Duration {
    let since = Instant::now();
    let before = clock(since);
    work();
    clock(since).saturating_sub(before)
}

fn speed(text: &str, took: Duration) -> f64 {
    let megabytes = u32::try_from(text.len() / MEGABYTE).unwrap_or(u32::MAX);
    f64::from(megabytes) / took.as_secs_f64()
}

/// The best of three.
fn ordinary(redactor: &Redactor, what: &str, text: &str) {
    let best = |work: &dyn Fn()| (0..3).map(|_| worked(work)).min().unwrap_or_default();
    let redacting = best(&|| {
        black_box(redactor.redact(black_box(text)));
    });
    let bare = best(&|| {
        let count = black_box(text).bytes().filter(|byte| *byte == b'=').count();
        black_box(count);
    });
    let reached = speed(text, redacting);
    let share = ratio(redacting, bare);
    say(&format!("| {what} | {reached:.0} | {:.0} | {share:.1} |", speed(text, bare)));
}

/// Repeated to any length. The passwords are written so that none stands in this source.
const HOSTILE: &[&str] = &[
    "a",
    " ",
    "=",
    "token",
    "token=",
    "key=key=",
    "password: ",
    "password='",
    "\\\"token\\\":\\\"",
    "eyJ",
    "eyJ.eyJ",
    "-eyJ",
    "=eyJ",
    "=sntrys_",
    "=fm2_",
    "\nsk-ant-",
    "sk-",
    "://",
    "://a:a@",
    "Bearer ",
    "Basic a",
    "[redacted: ",
    "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN ",
    "\u{1b}[0m",
    "%3D",
    "0123456789:AA",
    "MT.MT.",
    "é",
    "\n",
    "--token ",
    "<password>",
    "password=\u{68}unter2x;",
    "9f3a",
    "SERVICE_PASSWORD=\u{61}1b2c3d4e5\n",
];

/// Ten pieces of a megabyte against one of ten.
fn hostile(redactor: &Redactor, pattern: &str) -> Result<()> {
    let text = |megabytes: usize| pattern.repeat(megabytes * MEGABYTE / pattern.len());
    let (small, large) = (text(1), text(10));
    let time = |times: usize, text: &str| {
        let work = || {
            (0..times).for_each(|_| drop(black_box(redactor.redact(text))));
        };
        (0..2).map(|_| worked(&work)).min().unwrap_or_default().max(TICK)
    };
    let (pieces, whole) = (time(10, &small), time(1, &large));
    let growth = ratio(whole, pieces);
    say(&format!("| {pattern:?} | {pieces:.1?} | {whole:.1?} | {growth:.1} |"));
    ensure!(growth <= MOST_GROWTH, "{pattern:?} takes more than linear time");
    Ok(())
}
