//! How much of what the next prompt needs a context carries.
//!
//! `cargo run --release -p rethread-bench --bin recall -- FOLDER…`. A folder has either pairs of `NAME.messages.jsonl` (as
//! `rethread record` reads them) and `NAME.questions.jsonl` (`prompt`, and `needs`: the ids of the messages that answer it),
//! where a question's score is the share of needed messages whose text stands in the context; or `sessions/NAME.json`, with
//! `messages` and `questions` in one (`question`, `category`, `overlap`: the share of its words that the answer has, `groups`
//! of ids of which any one suffices, `spans`: the words that are needed of each), where it is the share of groups of which the
//! words of one stand in the context, letters and digits compared.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use futures::executor::block_on;
use rethread_bench::say;
use rethread_domain::SessionId;
use rethread_domain::context::Limits;
use rethread_domain::session::Move;
use rethread_domain::tokens;
use rethread_engine::{ContextOptions, Engine, Pruning, Recorder, entry};
use serde::Deserialize;
use serde_json::Value;

const TOKENS: [u32; 4] = [1_000, 2_000, 4_000, 10_000];
const MESSAGES: u32 = 6;
/// So much of the session's summary is measured by itself.
const OF_SUMMARY: u32 = 500;
/// The budgets, and the summary.
const COLUMNS: usize = TOKENS.len() + 1;

/// A session with the prompts that follow it.
struct Set {
    name: String,
    messages: Vec<String>,
    questions: Vec<Question>,
}

struct Question {
    prompt: String,
    category: Option<String>,
    /// None of its words is in the text that answers it.
    shares_no_word: bool,
    /// Of each group one has to be there.
    groups: Vec<Vec<Need>>,
}

impl Question {
    /// The share of the groups of which something stands in a text.
    fn share_in(&self, text: &str) -> f64 {
        let words = words(text);
        let is_met = |group: &&Vec<Need>| group.iter().any(|need| need.is_met(text, &words));
        let met = self.groups.iter().filter(is_met).count();
        #[expect(clippy::cast_precision_loss, reason = "a few groups")]
        let share = met as f64 / self.groups.len().max(1) as f64;
        share
    }
}

/// What has to stand in the context.
enum Need {
    Text(String),
    /// Only letters and digits, in lower case.
    Words(String),
}

impl Need {
    fn is_met(&self, text: &str, words: &str) -> bool {
        match self {
            Self::Text(need) => text.contains(need),
            Self::Words(need) => words.contains(need),
        }
    }
}

#[derive(Deserialize)]
struct Plain {
    prompt: String,
    needs: Vec<String>,
}

#[derive(Deserialize)]
struct Coding {
    name: String,
    messages: Vec<Value>,
    questions: Vec<CodingQuestion>,
}

#[derive(Deserialize)]
struct CodingQuestion {
    question: String,
    category: String,
    /// The share of its words that are in the text that answers it.
    overlap: f64,
    groups: Vec<Vec<String>>,
    spans: BTreeMap<String, String>,
}

/// The scores of some questions, by the budgets.
#[derive(Default)]
struct Scores {
    count: f64,
    sums: [f64; COLUMNS],
}

impl Scores {
    fn add(&mut self, scores: &[f64; COLUMNS]) {
        self.count += 1.0;
        self.sums.iter_mut().zip(scores).for_each(|(sum, score)| *sum += score);
    }

    fn say(&self, name: &str) {
        let means = self.sums.map(|sum| format!("{:.1} %", 100.0 * sum / self.count.max(1.0)));
        say(&format!("| {name} | {} | {} |", self.count, means.join(" | ")));
    }
}

fn main() -> Result<()> {
    let folders: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    ensure!(!folders.is_empty(), "usage: recall FOLDER...");
    for folder in folders {
        let sets = read(&folder)?;
        ensure!(!sets.is_empty(), "no sessions with questions in {}", folder.display());
        let budgets = TOKENS.map(|tokens| format!("{tokens} tokens")).join(" | ");
        say(&format!(
            "| {} | questions | {budgets} | {OF_SUMMARY} of the summary alone |",
            folder.display()
        ));
        say("|---|---|---|---|---|---|---|");
        let mut all = Scores::default();
        let mut by_category: BTreeMap<String, Scores> = BTreeMap::new();
        let mut without_a_word = Scores::default();
        for set in sets {
            let mut own = Scores::default();
            measure(&set, |question, scores| {
                own.add(scores);
                all.add(scores);
                if let Some(category) = &question.category {
                    by_category.entry(category.clone()).or_default().add(scores);
                }
                if question.shares_no_word {
                    without_a_word.add(scores);
                }
            })?;
            own.say(&set.name);
        }
        for (category, scores) in &by_category {
            scores.say(&format!("category {category}"));
        }
        if without_a_word.count > 0.0 {
            without_a_word.say("no word in common");
        }
        all.say("**all**");
        say("");
    }
    Ok(())
}

fn read(folder: &Path) -> Result<Vec<Set>> {
    let sessions = folder.join("sessions");
    if sessions.is_dir() {
        return names(&sessions, ".json")?
            .iter()
            .map(|name| read_coding(&sessions, name))
            .collect();
    }
    names(folder, ".messages.jsonl")?.iter().map(|name| read_plain(folder, name)).collect()
}

/// The names of the files that end so, without that end.
fn names(folder: &Path, ending: &str) -> Result<Vec<String>> {
    let entries = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    let name = |entry: &fs::DirEntry| entry.file_name().into_string().ok();
    let names = entries.iter().filter_map(name);
    let mut names: Vec<String> =
        names.filter_map(|name| name.strip_suffix(ending).map(str::to_owned)).collect();
    names.sort();
    Ok(names)
}

fn read_plain(folder: &Path, name: &str) -> Result<Set> {
    let lines = |what: &str| -> Result<Vec<String>> {
        let text = fs::read_to_string(folder.join(format!("{name}.{what}.jsonl")))?;
        Ok(text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect())
    };
    let messages = lines("messages")?;
    let mut contents: BTreeMap<String, String> = BTreeMap::new();
    for line in &messages {
        let message: Value = serde_json::from_str(line)?;
        let field = |name: &str| message[name].as_str().unwrap_or_default().to_owned();
        contents.insert(field("id"), field("content"));
    }
    let question = |line: String| -> Result<Question> {
        let Plain { prompt, needs } = serde_json::from_str(&line)?;
        let need = |id: &String| contents.get(id).cloned().map(Need::Text).into_iter().collect();
        let groups = needs.iter().map(need).collect();
        Ok(Question { prompt, category: None, shares_no_word: false, groups })
    };
    let questions = lines("questions")?.into_iter().map(question).collect::<Result<_>>()?;
    Ok(Set { name: name.to_owned(), messages, questions })
}

fn read_coding(folder: &Path, name: &str) -> Result<Set> {
    let text = fs::read_to_string(folder.join(format!("{name}.json")))?;
    let coding: Coding = serde_json::from_str(&text)?;
    let question = |one: CodingQuestion| {
        let need = |id: &String| one.spans.get(id).map(|span| Need::Words(words(span)));
        let groups = one.groups.iter().map(|group| group.iter().filter_map(need).collect());
        Question {
            prompt: one.question,
            category: Some(one.category),
            shares_no_word: one.overlap <= 0.0,
            groups: groups.collect(),
        }
    };
    Ok(Set {
        name: coding.name,
        messages: coding.messages.iter().map(Value::to_string).collect(),
        questions: coding.questions.into_iter().map(question).collect(),
    })
}

/// Letters and digits in lower case, all else as single spaces.
fn words(text: &str) -> String {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let words: Vec<&str> = text.split(|c| !is_word(c)).filter(|word| !word.is_empty()).collect();
    words.join(" ").to_lowercase()
}

fn measure(set: &Set, mut heard: impl FnMut(&Question, &[f64; COLUMNS])) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (_, engine) = rethread_bench::open(dir.path())?;
    let session = record(&engine, dir.path(), &set.messages)?;
    let mut all: Vec<[f64; COLUMNS]> = Vec::new();
    for question in &set.questions {
        let mut scores = [0.0; COLUMNS];
        for (score, tokens) in scores.iter_mut().zip(TOKENS) {
            *score = self::score(&engine, session, question, tokens)?;
        }
        all.push(scores);
    }
    let summary = summary(&engine, session)?;
    for (question, scores) in set.questions.iter().zip(&mut all) {
        scores[TOKENS.len()] = question.share_in(&summary);
        heard(question, scores);
    }
    Ok(())
}

/// The latest lines of the summary of a session that is paused, as many as there is room for.
fn summary(engine: &Engine, session: SessionId) -> Result<String> {
    let paused = block_on(engine.settle_as(session, Move::Pause))?;
    let mut left = OF_SUMMARY;
    let mut lines: Vec<&str> = Vec::new();
    for line in paused.summary.as_deref().unwrap_or_default().lines().rev() {
        let Some(rest) = left.checked_sub(tokens::count(line) + 1) else { break };
        left = rest;
        lines.push(line);
    }
    Ok(lines.join("\n"))
}

fn record(engine: &Engine, project: &Path, messages: &[String]) -> Result<SessionId> {
    let session = rethread_bench::start(engine, project)?.id;
    let mut recorder = block_on(Recorder::open(engine, session, Pruning::default()))?;
    let now = engine.clock().now();
    let parsed = messages.iter().map(|line| entry::parse(line.as_bytes(), now, u64::MAX));
    let batch = parsed.collect::<Result<Vec<_>, _>>().context("a message")?;
    block_on(recorder.record(batch))?;
    block_on(recorder.finish())?;
    Ok(session)
}

fn score(engine: &Engine, session: SessionId, question: &Question, tokens: u32) -> Result<f64> {
    let limits = Limits { tokens, messages: MESSAGES, ..Limits::default() };
    let options = ContextOptions {
        limits,
        prompt: Some(question.prompt.clone()),
        margin: 0.0,
        explain: false,
    };
    let context = block_on(engine.context(session, &options))?.context;
    let real = tokens::count(&context);
    ensure!(real <= tokens, "a context of {real} tokens for a limit of {tokens}");
    Ok(question.share_in(&context))
}
