//! How much of what the next prompt needs a context carries.
//!
//! `cargo run --release -p rethread-bench --bin recall -- FOLDER`, where FOLDER has pairs of `NAME.messages.jsonl` (as
//! `rethread record` reads them) and `NAME.questions.jsonl` (`prompt`, and `needs`: the ids of the messages that answer
//! it). The score of a question is the share of needed messages whose text stands in the context.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use futures::executor::block_on;
use rethread_domain::SessionId;
use rethread_domain::context::Limits;
use rethread_domain::tokens;
use rethread_engine::{ContextOptions, Engine, Pruning, Recorder, entry};
use serde::Deserialize;

const TOKENS: [u32; 3] = [1_000, 2_000, 4_000];
const MESSAGES: u32 = 6;
const REACH: f64 = 85.0;

#[derive(Deserialize)]
struct Question {
    prompt: String,
    needs: Vec<String>,
}

#[expect(clippy::print_stdout, reason = "a benchmark prints")]
fn main() -> Result<()> {
    let folder: PathBuf = std::env::args_os().nth(1).context("usage: recall FOLDER")?.into();
    let mut names: Vec<String> = fs::read_dir(&folder)?
        .filter_map(|entry| {
            entry
                .ok()?
                .file_name()
                .into_string()
                .ok()?
                .strip_suffix(".messages.jsonl")
                .map(str::to_owned)
        })
        .collect();
    names.sort();
    ensure!(!names.is_empty(), "no *.messages.jsonl in {}", folder.display());
    println!(
        "| set | messages | questions | {} |",
        TOKENS.map(|tokens| format!("{tokens} tokens")).join(" | ")
    );
    println!("|---|---|---|---|---|---|");
    let mut sums = [0.0; TOKENS.len()];
    let mut count = 0.0;
    for name in &names {
        let (messages, questions, scores) = measure(&folder, name)?;
        println!("| {name} | {messages} | {questions} | {} |", row(&scores));
        sums.iter_mut().zip(scores).for_each(|(sum, score)| *sum += score);
        count += 1.0;
    }
    let means = sums.map(|sum| sum / count);
    println!("| mean | | | {} |", row(&means));
    println!("\nreach: {REACH:.0} % at 2000 tokens; reached: {:.1} %", means[1]);
    Ok(())
}

fn row(scores: &[f64]) -> String {
    scores.iter().map(|score| format!("{score:.1} %")).collect::<Vec<_>>().join(" | ")
}

fn measure(folder: &Path, name: &str) -> Result<(usize, usize, [f64; TOKENS.len()])> {
    let dir = tempfile::tempdir()?;
    let (_, engine) = rethread_bench::open(dir.path())?;
    let (session, contents) =
        record(&engine, dir.path(), &folder.join(format!("{name}.messages.jsonl")))?;
    let text = fs::read_to_string(folder.join(format!("{name}.questions.jsonl")))?;
    let questions: Vec<Question> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?;
    let mut sums = [0.0; TOKENS.len()];
    for question in &questions {
        for (sum, tokens) in sums.iter_mut().zip(TOKENS) {
            *sum += score(&engine, session, question, tokens, &contents)?;
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "a few hundred questions")]
    let count = questions.len() as f64;
    Ok((contents.len(), questions.len(), sums.map(|sum| 100.0 * sum / count)))
}

fn record(
    engine: &Engine,
    project: &Path,
    file: &Path,
) -> Result<(SessionId, HashMap<String, String>)> {
    let session = rethread_bench::start(engine, project)?.id;
    let mut recorder = block_on(Recorder::open(engine, session, Pruning::default()))?;
    let mut contents = HashMap::new();
    let mut batch = Vec::new();
    for line in fs::read_to_string(file)?.lines().filter(|line| !line.trim().is_empty()) {
        let message = entry::parse(line.as_bytes(), engine.clock().now(), u64::MAX)?;
        contents.insert(
            message.id.clone().context("a message without an id")?,
            message.content.clone(),
        );
        batch.push(message);
    }
    block_on(recorder.record(batch))?;
    block_on(recorder.finish())?;
    Ok((session, contents))
}

fn score(
    engine: &Engine,
    session: SessionId,
    question: &Question,
    tokens: u32,
    contents: &HashMap<String, String>,
) -> Result<f64> {
    let limits = Limits { tokens, messages: MESSAGES, ..Limits::default() };
    let options = ContextOptions { limits, prompt: Some(question.prompt.clone()), margin: 0.0 };
    let context = block_on(engine.context(session, &options))?;
    let real = tokens::count(&context.context);
    ensure!(real <= tokens, "a context of {real} tokens for a limit of {tokens}");
    let found = question
        .needs
        .iter()
        .filter(|id| contents.get(*id).is_some_and(|text| context.context.contains(text.as_str())));
    #[expect(clippy::cast_precision_loss, reason = "a few messages")]
    let share = found.count() as f64 / question.needs.len().max(1) as f64;
    Ok(share)
}
