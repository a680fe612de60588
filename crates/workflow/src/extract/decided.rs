//! Extracts decisions by rules: sentences that say what is done, of what kind, why, and instead of what.
//!
//! Strict rather than complete: a missed decision can be read in the history; a false one misleads.

use super::super::record::{Decision, DecisionKind};
use super::{CHARS, Origin, ends, is_spoken};
use rethread_domain::message::Message;
use rethread_domain::quote;
use rethread_domain::summary::{self, Point};

/// Phrases that indicate a decision.
const DECIDED: &[&str] = &[
    "decided:",
    "decision:",
    "decided to ",
    "decided on ",
    "decided against ",
    "decided that ",
    "decided not to ",
    "the decision is ",
    "the decision was ",
    "we agreed to ",
    "we agreed on ",
    "we agreed that ",
    "i chose ",
    "we chose ",
    "have chosen ",
    "settled on ",
    "settled for ",
    "opted for ",
    "opted to ",
    "opting for ",
    "go with ",
    "going with ",
    "went with ",
    "we will use ",
    "we'll use ",
    "i will use ",
    "i'll use ",
    "let's use ",
    "i'm using ",
    "i switched to ",
    "we switched to ",
];
const WORKED_AROUND: &[&str] = &[
    "as a workaround",
    "workaround:",
    "worked around ",
    "working around ",
    "i'll work around ",
    "to work around ",
];
const SKIPPED: &[&str] = &[
    "i'm skipping ",
    "i'll skip ",
    "i skipped ",
    "we skip ",
    "we'll skip ",
    "skipping the ",
    "i deferred ",
    "i'm deferring ",
    "we defer ",
    "i'll leave ",
    "i left out ",
    "is out of scope",
    "are out of scope",
];
const CLARIFIED: &[&str] = &[
    "i interpret ",
    "i interpreted ",
    "i take this to mean",
    "i take that to mean",
    "i took this to mean",
    "i read this as ",
    "i assume that ",
    "i assumed that ",
    "i'm assuming ",
    "is ambiguous, so ",
    "was ambiguous, so ",
];

/// Phrases that withdraw or postpone it.
const UNDECIDED: &[&str] = &[
    "not decided",
    "undecided",
    "never decided",
    "not yet",
    "to be decided",
    "yet to ",
    "need to decide",
    "have to decide",
    "must decide",
    "should decide",
    "can decide",
    "if we ",
    "if i ",
    "if you ",
    "should i ",
    "should we ",
    "shall i ",
    "shall we ",
    "do you want",
    "would you ",
    "could go with ",
    "could have ",
    "might go with ",
    "may go with ",
    "can go with ",
    "either go with ",
    "whether ",
    "not sure",
    "nobody ",
    "who decided",
    "when we decided",
    "i'll use the tool",
    "i'll leave it to you",
    "i'll leave that to you",
];

/// The decisions, oldest first, each once.
pub(super) fn find(messages: &[Message], origin: &Origin<'_>) -> Vec<Decision> {
    let mut points: Vec<Point> = messages
        .iter()
        .filter(|message| is_spoken(message.role))
        .flat_map(|message| {
            let sentences = ends(message).into_iter().flat_map(summary::sentences_of);
            sentences.filter(|sentence| kind(sentence).is_some()).map(|sentence| Point {
                seq: message.seq,
                at: message.at,
                role: message.role,
                text: sentence.to_owned(),
                weight: 0.0,
            })
        })
        .collect();
    let all = points.clone();
    // If it is repeated, the later one counts.
    points.reverse();
    let mut points = summary::unlike_each_other(points);
    points.reverse();
    points.iter().filter_map(|point| decision(point, &all, origin)).collect()
}

fn decision(point: &Point, all: &[Point], origin: &Origin<'_>) -> Option<Decision> {
    let kind = kind(&point.text)?;
    let own: Vec<&Point> = all.iter().filter(|other| other.seq == point.seq).collect();
    let no = own.iter().position(|other| other.text == point.text).unwrap_or(0) + 1;
    let (what, why) = what_and_why(without_label(&point.text));
    let alternatives = alternatives(&point.text);
    Some(Decision {
        id: origin.id(point.seq, 'd', no),
        at: point.at,
        task: origin.task.map(str::to_owned),
        kind,
        what: quote::cut_line(what, CHARS),
        why: quote::cut_line(why, CHARS),
        alternatives: alternatives.iter().map(|other| quote::cut_line(other, 120)).collect(),
        source: origin.source(vec![point.seq]),
    })
}

/// `Decided: x` is x.
fn without_label(text: &str) -> &str {
    let labels = ["decided:", "decision:", "workaround:"];
    let lower = text.to_ascii_lowercase();
    let label = labels.iter().find(|label| lower.trim_start_matches('*').starts_with(*label));
    match label.and_then(|label| lower.find(label).map(|at| at + label.len())) {
        Some(after) => text[after..].trim_start_matches(['*', ' ']),
        None => text,
    }
}

/// The kind of decision in a sentence; `None` if it is none.
pub(super) fn kind(sentence: &str) -> Option<DecisionKind> {
    let lower = format!(" {}", sentence.to_ascii_lowercase().replace('\u{2019}', "'"));
    let lower = lower.replace("n't ", " not ");
    let has = |phrases: &[&str]| phrases.iter().any(|phrase| has_phrase(&lower, phrase));
    if lower.trim_end().ends_with('?') || has(UNDECIDED) {
        return None;
    }
    if has(WORKED_AROUND) {
        return Some(DecisionKind::Workaround);
    }
    if has(SKIPPED) {
        return Some(DecisionKind::Skip);
    }
    if has(CLARIFIED) {
        return Some(DecisionKind::Clarification);
    }
    has(DECIDED).then(|| by_words(sentence, &lower))
}

/// Whether a phrase occurs, not as the end of a longer word.
fn has_phrase(lower: &str, phrase: &str) -> bool {
    let is_start = |at: usize| !lower[..at].ends_with(|c: char| c.is_alphanumeric() || c == '\'');
    lower.match_indices(phrase).any(|(at, _)| is_start(at))
}

/// The kind of what is certainly a decision.
fn by_words(sentence: &str, lower: &str) -> DecisionKind {
    let has = |words: &[&str]| words.iter().any(|word| has_phrase(lower, word));
    if has(&["workaround", "work around", "for now", "temporar"]) {
        DecisionKind::Workaround
    } else if has(&[
        "skip",
        "defer",
        "postpone",
        "out of scope",
        "leave out",
        "decided not to ",
        "decided against ",
    ]) {
        DecisionKind::Skip
    } else if has(&["interpret", "ambiguous", "to mean ", "means that", "the requirement"]) {
        DecisionKind::Clarification
    } else if has(&["library", "libraries", "crate", "package", "dependency", "framework", "sdk"])
        || names_a_tool(sentence)
    {
        DecisionKind::Library
    } else if has(&[
        "architecture",
        "module",
        "layer",
        "schema",
        "table",
        "structure",
        "separate ",
        "split ",
        "interface",
        "trait ",
        "service",
        "database",
        "component",
        "api ",
    ]) {
        DecisionKind::Architecture
    } else {
        DecisionKind::Approach
    }
}

/// Whether something with a proper name is used: `use SQLite`.
fn names_a_tool(sentence: &str) -> bool {
    let words: Vec<&str> = sentence.split_whitespace().collect();
    words.windows(2).any(|pair| {
        let verb = pair[0].to_ascii_lowercase();
        let is_verb =
            ["use", "using", "with", "on", "to", "chose", "for", "adopt"].contains(&verb.as_str());
        let name = pair[1].trim_matches(|c: char| !c.is_alphanumeric());
        let is_name = name.chars().next().is_some_and(char::is_uppercase) && name.len() > 1;
        is_verb && is_name && !pair[1].contains("::") && !pair[1].contains('(')
    })
}

/// Words that introduce a reason, and whether they are a part of it.
const REASONS: &[(&str, bool)] = &[
    (" because ", false),
    (" since ", false),
    (" so that ", true),
    (" to avoid ", true),
    (" in order to ", true),
    (" due to ", false),
];

/// Splits a sentence: what was decided, and why.
pub(super) fn what_and_why(sentence: &str) -> (&str, &str) {
    let lower = sentence.to_ascii_lowercase();
    // "Because of this, we decided that."
    if (lower.starts_with("because ") || lower.starts_with("since "))
        && let Some((why, what)) = sentence.split_once(", ")
    {
        let why = why.split_once(' ').map_or(why, |(_, why)| why);
        return (what.trim(), why.trim());
    }
    let reasons = REASONS.iter().filter_map(|(lead, is_part)| {
        let at = lower.find(lead)?;
        let start = if *is_part { at + 1 } else { at + lead.len() };
        (at >= 10 && !is_time(lead, &lower[at + lead.len()..])).then_some((at, start))
    });
    match reasons.min() {
        Some((at, start)) => {
            let what = sentence[..at].trim_end_matches([',', ' ', ';', ':', '-', '(']);
            (what, sentence[start..].trim().trim_end_matches(['.', '!', ')']))
        }
        None => (sentence.trim_end_matches(['.', '!']), ""),
    }
}

/// "Since yesterday" is no reason.
fn is_time(lead: &str, after: &str) -> bool {
    let times = ["yesterday", "last ", "then", "today", "monday", "version "];
    lead == " since "
        && (times.iter().any(|time| after.starts_with(time))
            || after.starts_with(|c: char| c.is_ascii_digit()))
}

/// The alternatives.
pub(super) fn alternatives(sentence: &str) -> Vec<String> {
    let lower = sentence.to_ascii_lowercase();
    let is_choice =
        ["chose ", "chosen ", "prefer", "picked ", "decided on ", "opted for ", "settled on "]
            .iter()
            .any(|verb| lower.contains(verb));
    let mut leads = vec![" instead of ", " rather than "];
    if is_choice {
        leads.push(" over ");
    }
    let Some((at, lead)) =
        leads.iter().filter_map(|lead| lower.find(lead).map(|at| (at, lead))).min()
    else {
        return Vec::new();
    };
    let rest = &sentence[at + lead.len()..];
    let lower = rest.to_ascii_lowercase();
    let stops = [
        ", ",
        ". ",
        "; ",
        ": ",
        " (",
        " because ",
        " since ",
        " so that ",
        " to avoid ",
        " in order to ",
        " due to ",
        " for ",
        " as ",
    ];
    let end = stops.iter().filter_map(|stop| lower.find(stop)).min().unwrap_or(rest.len());
    let others = rest[..end].trim_end_matches(['.', '!', ',']).split(" or ");
    others.map(|other| other.trim().to_owned()).filter(|other| !other.is_empty()).take(5).collect()
}
