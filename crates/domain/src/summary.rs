//! Summaries by rules: the sentences that carry a conversation, with their dates, in order.
//!
//! Extractive and deterministic: nothing is said that was not said. Folding goes on from the summary so far,
//! so it costs by what is new. A model's summary has the same shape with another author.

mod matter;

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::Seq;
use crate::message::{Message, Role};
use crate::{number, quote, terms};

/// The most points that a summary holds.
const POINTS: usize = 16;
const POINT_CHARS: usize = 180;
/// The longest line of a model's summary.
const LINE_CHARS: usize = 300;
/// A message gives at most so many points.
const POINTS_EACH: usize = 2;
/// What was said long ago weighs less at each folding.
const FADING: f64 = 0.85;
/// How much of a message is looked at.
const HEAD_BYTES: usize = 4 * 1024;
const TITLE_CHARS: usize = 72;
/// A title is looked for at the beginning of a text, in what is kept of it beside the message.
const TITLE_BYTES: usize = 8 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Author {
    Rules,
    Model,
}

/// What a stretch of messages comes down to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub by: Author,
    /// The last message that it covers.
    pub upto: Seq,
    /// How many messages went into it.
    #[serde(default)]
    pub folded: u32,
    pub text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<Point>,
}

/// One sentence that was said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    pub seq: Seq,
    pub at: Timestamp,
    pub role: Role,
    pub text: String,
    pub weight: f64,
}

impl Summary {
    fn new(upto: Seq, folded: u32, mut points: Vec<Point>) -> Self {
        points.sort_by(|a, b| b.weight.total_cmp(&a.weight).then(a.seq.cmp(&b.seq)));
        let mut points = some_of_each_first(points);
        newest_decision_first(&mut points);
        let mut points = unlike_each_other(points);
        points.sort_by_key(|point| point.seq);
        let lines: Vec<String> = points.iter().map(Point::line).collect();
        Self { by: Author::Rules, upto, folded, text: lines.join("\n"), points }
    }

    /// The same without what a purged message said. A model's text cannot be taken apart: it is dropped.
    #[must_use]
    pub fn without(&self, seq: Seq) -> Self {
        let points = self.points.iter().filter(|point| point.seq != seq).cloned().collect();
        Self::new(self.upto, self.folded, points)
    }

    /// The same as a model tells it. The points stay: the next folding goes on from them.
    #[must_use]
    pub fn told_by_model(self, text: &str) -> Self {
        let lines: Vec<String> = text
            .lines()
            .map(|line| {
                quote::one_line(line.trim().trim_start_matches(['-', '*', ' ']), LINE_CHARS)
            })
            .filter(|line| !line.is_empty())
            .take(POINTS)
            .collect();
        if lines.is_empty() {
            return self;
        }
        Self { by: Author::Model, text: lines.join("\n"), ..self }
    }

    pub fn speaks_of(&self, seq: Seq) -> bool {
        self.by == Author::Model && seq <= self.upto
            || self.points.iter().any(|point| point.seq == seq)
    }
}

impl Point {
    fn line(&self) -> String {
        format!("{} {}: {}", number::day(self.at), self.role, self.text)
    }
}

/// Puts the best points of each kind before the rest; both stay in their order.
fn some_of_each_first(points: Vec<Point>) -> Vec<Point> {
    let mut kept = matter::KEPT;
    let is_kept = |point: &Point| {
        let own = matter::of(point);
        let left = kept.iter_mut().find(|(matter, left)| *matter == own && *left > 0);
        left.map(|(_, left)| *left -= 1).is_some()
    };
    let (mut first, rest): (Vec<Point>, Vec<Point>) = points.into_iter().partition(is_kept);
    first.extend(rest);
    first
}

/// What holds now must not be left out because something heavier was said in similar words before.
fn newest_decision_first(points: &mut Vec<Point>) {
    let decisions = points.iter().enumerate().filter(|(_, point)| is_decision(point));
    if let Some((newest, _)) = decisions.max_by_key(|(_, point)| point.seq) {
        let newest = points.remove(newest);
        points.insert(0, newest);
    }
}

/// The first points that say something else than those before them.
///
/// A question says much the same as its answer: a decision stands only for another decision, and for nothing else.
pub fn unlike_each_other(points: Vec<Point>) -> Vec<Point> {
    let mut chosen: Vec<(Point, bool, HashSet<String>)> = Vec::new();
    for point in points {
        if chosen.len() == POINTS {
            break;
        }
        let is_decided = is_decision(&point);
        let says_something = |term: &String| {
            !(terms::is_stop(term) || is_decided && DECIDED.contains(&term.as_str()))
        };
        let words: HashSet<String> =
            terms::all(&point.text).into_iter().filter(says_something).collect();
        let is_like = |(_, other_is_decided, other): &(Point, bool, HashSet<String>)| {
            is_decided == *other_is_decided
                && 3 * words.intersection(other).count() > 2 * words.len().min(other.len())
        };
        if !chosen.iter().any(is_like) {
            chosen.push((point, is_decided, words));
        }
    }
    chosen.into_iter().map(|(point, _, _)| point).collect()
}

/// Folds messages, oldest first, into the summary of those before them.
pub fn fold(before: Option<&Summary>, messages: &[Message]) -> Summary {
    gather(before, messages, before.is_none())
}

/// The same, told whether the messages are the first of what is summed up.
fn gather(before: Option<&Summary>, messages: &[Message], is_beginning: bool) -> Summary {
    let mut points: Vec<Point> = before.map_or_else(Vec::new, |summary| summary.points.clone());
    for point in &mut points {
        point.weight *= FADING;
    }
    let frequent = frequencies(messages);
    for (index, message) in messages.iter().enumerate() {
        let mut own = sentences(message, &frequent);
        if is_beginning && index == 0 {
            // What was asked first is what it is about.
            own.iter_mut().take(1).for_each(|point| point.weight += 6.0);
        }
        own.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        own.truncate(POINTS_EACH);
        points.extend(own);
    }
    let upto = messages.last().map(|message| message.seq).or(before.map(|summary| summary.upto));
    let count = u32::try_from(messages.len()).unwrap_or(u32::MAX);
    let folded = before.map_or(0, |summary| summary.folded).saturating_add(count);
    Summary::new(upto.unwrap_or(0), folded, without_repeats(points))
}

/// The summary of a session, from those of its conversations and what was said last.
pub fn session(conversations: &[&Summary], latest: &[Message]) -> Summary {
    let mut points: Vec<Point> =
        conversations.iter().flat_map(|summary| summary.points.iter().cloned()).collect();
    let is_beginning = latest.first().is_some_and(|first| first.seq == 1);
    let latest = gather(None, latest, is_beginning);
    let upto = points.iter().map(|point| point.seq).max().unwrap_or(0).max(latest.upto);
    points.extend(latest.points);
    Summary::new(upto, 0, without_repeats(points))
}

fn without_repeats(points: Vec<Point>) -> Vec<Point> {
    let mut seen = HashSet::new();
    points.into_iter().filter(|point| seen.insert(point.text.to_lowercase())).collect()
}

fn head(message: &Message) -> &str {
    let text = message.body.head();
    &text[..text.floor_char_boundary(HEAD_BYTES)]
}

/// In how many of the messages each term stands.
fn frequencies(messages: &[Message]) -> HashMap<String, u32> {
    let mut counts = HashMap::new();
    for message in messages {
        let distinct: HashSet<String> = terms::all(head(message)).into_iter().collect();
        for term in distinct {
            *counts.entry(term).or_insert(0) += 1;
        }
    }
    counts
}

fn sentences(message: &Message, frequent: &HashMap<String, u32>) -> Vec<Point> {
    let point = |sentence: &str| Point {
        seq: message.seq,
        at: message.at,
        role: message.role,
        text: quote::cut_line(sentence, POINT_CHARS),
        weight: weight(message.role, sentence, frequent),
    };
    // Whether a command worked is known of the message, not of its line.
    let is_command = |text: &&str| message.role == Role::Tool && text.starts_with(matter::PROMPT);
    let said = sentences_of(head(message)).into_iter().filter(|text| !is_command(text));
    let mut points: Vec<Point> = said.map(point).collect();
    if let Some(command) = matter::command(message) {
        points.insert(0, Point { weight: COMMAND, ..point(&command) });
    }
    points
}

/// The sentences of a text, without what is code or a table, and without the marks before them.
pub fn sentences_of(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        let line = line.trim();
        if line.starts_with("```") {
            in_code = !in_code;
        }
        if in_code || line.starts_with("```") || line.starts_with('|') {
            continue;
        }
        for sentence in split_sentences(line) {
            let sentence = sentence.trim_start_matches(['#', '-', '*', '>', ' ']).trim();
            if (20..=600).contains(&sentence.chars().count()) {
                found.push(sentence);
            }
        }
    }
    found
}

fn split_sentences(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest
            .match_indices(['.', '?', '!', '。', '？', '！'])
            .map(|(at, mark)| at + mark.len())
            .find(|end| {
                rest[*end..].starts_with(' ')
                    || !rest.is_char_boundary(*end)
                    || rest[..*end].ends_with(['。', '？', '！'])
            })
            .unwrap_or(rest.len());
        let (sentence, after) = rest.split_at(end);
        rest = after.trim_start();
        Some(sentence)
    })
}

/// Terms that tell of decisions, failures, results and what is left to do, with what they add.
const CUES: &[(&str, f64)] = &[
    ("decid", 3.0),
    ("decis", 3.0),
    ("agre", 2.0),
    ("chose", 2.5),
    ("choos", 1.5),
    ("instead", 1.5),
    ("becaus", 1.5),
    ("therefor", 1.0),
    ("root", 1.0),
    ("caus", 1.5),
    ("error", 1.5),
    ("fail", 1.5),
    ("bug", 1.5),
    ("fix", 1.5),
    ("broken", 1.5),
    ("resolv", 1.5),
    ("workaround", 2.0),
    ("done", 1.0),
    ("implement", 1.0),
    ("finish", 1.0),
    ("deploy", 1.0),
    ("releas", 1.0),
    ("must", 1.0),
    ("need", 0.7),
    ("todo", 1.5),
    ("next", 0.7),
    ("remain", 1.0),
    ("deadlin", 1.5),
    ("rememb", 1.5),
    ("import", 1.0),
    ("password", 1.0),
    ("passkey", 2.0),
    ("name", 0.5),
    ("plan", 1.0),
    ("prefer", 1.5),
    ("never", 1.0),
    ("alway", 1.0),
];

fn weight(role: Role, sentence: &str, frequent: &HashMap<String, u32>) -> f64 {
    let words = terms::all(sentence);
    let distinct: HashSet<&str> = words.iter().map(String::as_str).collect();
    let cues: f64 =
        CUES.iter().filter(|(cue, _)| distinct.contains(cue)).map(|(_, adds)| adds).sum();
    let central: f64 = distinct
        .iter()
        .filter(|term| !terms::is_stop(term))
        .map(|term| f64::from(frequent.get(*term).copied().unwrap_or(0).min(8)).sqrt())
        .sum();
    #[expect(clippy::cast_precision_loss, reason = "the words of a sentence")]
    let length = (distinct.len() as f64).sqrt().max(2.0);
    let by_role = match role {
        Role::User => 1.2,
        Role::Assistant => 1.0,
        Role::System => 0.6,
        Role::Tool => 0.1,
    };
    by_role * matter::telling(sentence) * (cues + matter::specifics(sentence) + central / length)
}

/// What a command weighs that was run and did not fail.
const COMMAND: f64 = 1.5;

/// Terms that tell of a decision, and turns of phrase that do.
const DECIDED: &[&str] = &["decid", "decis", "agre", "chose", "chosen", "settl"];
const PHRASES: &[&str] = &["go with ", "going with ", "we will use ", "we'll use ", "let's use "];

/// What was decided, as far as rules can tell, oldest first: with dates, in the words in which it was said.
pub fn decisions(messages: &[Message]) -> Vec<String> {
    let none = HashMap::new();
    let spoken =
        messages.iter().filter(|message| matches!(message.role, Role::User | Role::Assistant));
    let mut points: Vec<Point> =
        spoken.flat_map(|message| sentences(message, &none)).filter(is_decision).collect();
    points.reverse();
    let mut points = unlike_each_other(points);
    points.reverse();
    points.iter().map(Point::line).collect()
}

fn is_decision(point: &Point) -> bool {
    let lower = point.text.to_lowercase();
    let words = terms::all(&point.text);
    !lower.ends_with('?')
        && (PHRASES.iter().any(|phrase| lower.contains(phrase))
            || words.iter().any(|word| DECIDED.contains(&word.as_str())))
}

/// A title cut from a request: its first sentence, short enough for a list.
pub fn title(request: &str) -> Option<String> {
    let request = &request[..request.floor_char_boundary(TITLE_BYTES)];
    let line =
        request.lines().map(str::trim).find(|line| line.chars().any(char::is_alphanumeric))?;
    let line = line.trim_start_matches(['#', '>', '-', '*', ' ']);
    let sentence = split_sentences(line).next()?;
    let sentence = if sentence.chars().count() < 8 { line } else { sentence };
    let title = quote::cut_line(sentence, TITLE_CHARS);
    (!title.is_empty()).then_some(title)
}

#[cfg(test)]
mod tests;
