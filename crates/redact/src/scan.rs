//! One pass over a text for everything that a secret can be recognised by.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, OnceLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use super::alphabet::{ALNUM, Alphabet, PADDED64};
use super::assigned::Names;
use super::command::Program;
use super::name::{self, Strength, TRIGGERS};
use super::rule::Rule;
use super::span::Span;
use super::{command, encode, judge, place, rules};

const AFTER_BEARER: Alphabet = Alphabet::new("A-Za-z0-9._~+/=-");
const LONGEST_HEADER: usize = 8192;
const SHORTEST_BASIC: usize = 8;
/// Between a scheme and what follows it, beside the first.
const MOST_BLANKS: usize = 8;
pub(super) const PEM_BEGINS: &str = "-----BEGIN ";
/// What stands between the dashes is not longer.
pub(super) const LONGEST_LABEL: usize = 64;

/// A line of a key is at least so long; only the last one is shorter.
const LINE_OF_KEY: usize = 32;

/// What a text in the automaton stands for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Trigger {
    Vendor(&'static Rule),
    Name,
    Pem,
    Address,
    Bearer,
    Basic,
    Command(Program),
}

/// An automaton takes half a millisecond to build, and pays once this many bytes were looked through.
const WORTH_AN_AUTOMATON: usize = 1 << 13;
/// A table of all its transitions takes milliseconds.
const WORTH_A_TABLE: usize = 1 << 16;

struct Automaton {
    patterns: Vec<String>,
    triggers: Vec<Trigger>,
    /// The patterns in the order of their first bytes, and where those of each byte begin: for programs that look at a few
    /// lines and end.
    sorted: Vec<usize>,
    begins: [usize; 257],
    /// Quick to build, for programs that look at little.
    small: OnceLock<Option<AhoCorasick>>,
    /// Quick to run.
    table: OnceLock<Option<AhoCorasick>>,
    /// Bytes that were looked through so far.
    seen: AtomicUsize,
}

impl Automaton {
    fn new(patterns: Vec<String>, triggers: Vec<Trigger>) -> Self {
        let first = |at: &usize| patterns[*at].as_bytes().first().copied().map_or(0, usize::from);
        let mut sorted: Vec<usize> = (0..patterns.len()).collect();
        sorted.sort_by_key(first);
        let begins = std::array::from_fn(|byte| sorted.partition_point(|at| first(at) < byte));
        Self {
            sorted,
            begins,
            patterns,
            triggers,
            small: OnceLock::new(),
            table: OnceLock::new(),
            seen: AtomicUsize::new(0),
        }
    }

    fn build(&self, kind: AhoCorasickKind) -> Option<AhoCorasick> {
        let builder = &mut AhoCorasick::builder();
        builder.match_kind(MatchKind::Standard).kind(Some(kind)).build(&self.patterns).ok()
    }

    /// What to look through a text with; nothing where little was looked through so far.
    fn for_text(&self, text: &str) -> Option<&AhoCorasick> {
        let before = self.seen.fetch_add(text.len(), Ordering::Relaxed);
        // The sum may wrap around: what is built stays.
        match before.saturating_add(text.len()) {
            ..WORTH_AN_AUTOMATON => None,
            WORTH_AN_AUTOMATON..WORTH_A_TABLE => {
                self.small.get_or_init(|| self.build(AhoCorasickKind::NoncontiguousNFA)).as_ref()
            }
            _ => self.table.get_or_init(|| self.build(AhoCorasickKind::DFA)).as_ref(),
        }
    }

    /// The patterns that stand in a text, in the order of their ends, the longest first: as an automaton gives them.
    fn compare(&self, text: &[u8]) -> Vec<(usize, Range<usize>)> {
        let mut found = Vec::new();
        for (start, byte) in text.iter().enumerate() {
            let byte = usize::from(*byte);
            for pattern in &self.sorted[self.begins[byte]..self.begins[byte + 1]] {
                let bytes = self.patterns[*pattern].as_bytes();
                if text[start..].starts_with(bytes) {
                    found.push((*pattern, start..start + bytes.len()));
                }
            }
        }
        found.sort_by_key(|(pattern, at)| (at.end, at.start, *pattern));
        found
    }
}

static AUTOMATON: LazyLock<Automaton> = LazyLock::new(|| {
    let mut patterns: Vec<(String, Trigger)> = vec![
        (PEM_BEGINS.into(), Trigger::Pem),
        ("://".into(), Trigger::Address),
        ("earer ".into(), Trigger::Bearer),
        ("asic ".into(), Trigger::Basic),
        ("ASIC ".into(), Trigger::Basic),
    ];
    patterns.extend(
        command::NAMES.iter().map(|(name, program)| ((*name).into(), Trigger::Command(*program))),
    );
    patterns.extend(rules::anchored().map(|rule| (rule.anchor.into(), Trigger::Vendor(rule))));
    for word in TRIGGERS {
        let (first, rest) = word.split_at(1);
        patterns.push(((*word).into(), Trigger::Name));
        patterns.push((word.to_ascii_uppercase(), Trigger::Name));
        if first != "_" {
            patterns.push((first.to_ascii_uppercase() + rest, Trigger::Name));
        }
    }
    let (patterns, triggers) = patterns.into_iter().unzip();
    Automaton::new(patterns, triggers)
});

/// Everything that a secret can be recognised by, in the order of its ends.
pub(super) fn hits(text: &str, mut look: impl FnMut(Trigger, Range<usize>)) {
    match AUTOMATON.for_text(text) {
        Some(automaton) => automaton
            .find_overlapping_iter(text)
            .for_each(|hit| look(AUTOMATON.triggers[hit.pattern().as_usize()], hit.range())),
        None => {
            for (pattern, at) in AUTOMATON.compare(text.as_bytes()) {
                look(AUTOMATON.triggers[pattern], at);
            }
        }
    }
}

/// What vendor rules and names find.
pub(super) fn spans(text: &str) -> Vec<Span> {
    let mut names = Names::new(text);
    let bytes = text.as_bytes();
    let mut spans = Vec::new();
    hits(text, |trigger, at| {
        let found = match trigger {
            Trigger::Vendor(rule) => rule.find(bytes, at).map(|at| Span::vendor(rule.what, at)),
            Trigger::Name => names.look(at),
            Trigger::Pem => pem(text, at.start).map(|at| Span::vendor(rules::PRIVATE_KEY, at)),
            Trigger::Address => judge::secret_in_authority(text, at.end)
                .map(|at| Span::vendor(rules::PASSWORD_IN_ADDRESS, at)),
            Trigger::Bearer => bearer(text, at).map(|at| Span::vendor(rules::BEARER, at)),
            Trigger::Basic => basic(text, at).map(|at| Span::vendor(rules::BASIC, at)),
            Trigger::Command(program) => {
                let passwords = command::passwords(text, program, at);
                spans.extend(passwords.into_iter().map(|at| Span::name(name::PASSWORD, at)));
                None
            }
        };
        spans.extend(found);
    });
    spans
}

/// A private key: the whole block, or as much of it as there is.
fn pem(text: &str, start: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let label = start + PEM_BEGINS.len();
    let window = &bytes[label..bytes.len().min(label + LONGEST_LABEL)];
    let length = window.windows(5).position(|five| five == b"-----")?;
    let label = text.get(label..label + length)?;
    if !label.contains("PRIVATE KEY") {
        return None;
    }
    let body = start + PEM_BEGINS.len() + length + 5;
    // What comes next ends this block or begins another, so no stretch is read twice.
    let next = text[body..].find("-----").map(|at| body + at);
    if let Some(next) = next.filter(|next| text[*next..].starts_with("-----END ")) {
        let rest = &bytes[next + 9..bytes.len().min(next + 9 + LONGEST_LABEL)];
        let closing = rest.windows(5).position(|five| five == b"-----").map_or(0, |at| at + 5);
        return Some(start..next + 9 + closing);
    }
    let end = cut_off_key(bytes, body);
    (end > body).then_some(start..end)
}

/// Where the lines of a key end whose last line is missing.
fn cut_off_key(bytes: &[u8], body: usize) -> usize {
    let mut end = body;
    let mut at = body;
    loop {
        at += match &bytes[at..] {
            [b'\\', b'n' | b'r', ..] => 2,
            [b'\n' | b'\r' | b' ' | b'\t', ..] => 1,
            rest => {
                let length = rest.iter().take_while(|byte| PADDED64.has(**byte)).count();
                if length < LINE_OF_KEY {
                    return end;
                }
                end = at + length;
                length
            }
        };
    }
}

/// The token in a header.
fn bearer(text: &str, hit: Range<usize>) -> Option<Range<usize>> {
    let token = after_scheme(text.as_bytes(), hit)?;
    judge::is_secret(&text[token.clone()], Strength::Secret, true).then_some(token)
}

/// Name and password in a header.
fn basic(text: &str, hit: Range<usize>) -> Option<Range<usize>> {
    let mut token = after_scheme(text.as_bytes(), hit)?;
    // The end of a sentence is no part of it.
    token.end = token.start + text[token.clone()].trim_end_matches('.').len();
    let decoded = encode::from_base64(&text[token.clone()])?;
    let pair = decoded.contains(&b':') && decoded.iter().all(|byte| *byte >= b' ' && *byte != 127);
    (pair && token.len() >= SHORTEST_BASIC).then_some(token)
}

/// The run after `Bearer` or `basic`; `hit` is all of the word but its first letter.
fn after_scheme(text: &[u8], hit: Range<usize>) -> Option<Range<usize>> {
    let word = hit.start.checked_sub(1)?;
    if !text[word].eq_ignore_ascii_case(&b'b') || !place::opens(text, word, ALNUM) {
        return None;
    }
    let blanks = text[hit.end..].iter().take(MOST_BLANKS).take_while(|byte| **byte == b' ').count();
    let start = hit.end + blanks;
    let rest = text[start..].iter().take(LONGEST_HEADER);
    let length = rest.take_while(|byte| AFTER_BEARER.has(**byte)).count();
    Some(start..start + length)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever a text is looked through with, the same is found in the same order.
        #[test]
        fn little_is_looked_through_as_much_is(
            parts in prop::collection::vec((any::<prop::sample::Index>(), "[a-zA-Z_ =:./-]{0,6}"), 0..30)
        ) {
            let text: String = parts
                .iter()
                .map(|(index, between)| index.get(&AUTOMATON.patterns).clone() + between)
                .collect();
            for kind in [AhoCorasickKind::NoncontiguousNFA, AhoCorasickKind::DFA] {
                let automaton = AUTOMATON.build(kind).unwrap();
                let found: Vec<_> = automaton
                    .find_overlapping_iter(&text)
                    .map(|hit| (hit.pattern().as_usize(), hit.range()))
                    .collect();
                prop_assert_eq!(&AUTOMATON.compare(text.as_bytes()), &found);
            }
        }
    }
}
