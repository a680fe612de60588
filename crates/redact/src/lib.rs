//! Redaction: takes secrets out of text, before it reaches a disk, a log or another eye.
//!
//! Three layers look at a text: values that are [known](Known), in the clear and encoded; formats of
//! [vendors](rules()); and names such as `DB_PASSWORD` with what is assigned to them. What they find is
//! replaced by `[redacted: WHAT]`. Redacting twice changes nothing.
//!
//! All work is linear in the length of the text, whatever the text is: runs are looked at from their
//! beginning only, and everything else has a bound.

mod alphabet;
mod assigned;
mod begun;
mod command;
mod encode;
mod json;
mod judge;
mod known;
mod mask;
mod name;
mod place;
mod rule;
mod rules;
mod scan;
mod span;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;

use known::KnownValues;
use span::Span;

/// Replacing a secret can bring out another one beside it; after so many rounds it is left at that.
const MOST_ROUNDS: usize = 4;

/// Counts up whenever the rules recognise something that they did not before. What was searched by an older version is
/// searched again before it leaves.
pub const VERSION: u32 = 2;

/// Knows secrets and finds more by rules. Cheap to clone.
#[derive(Clone)]
pub struct Redactor {
    known: Arc<KnownValues>,
}

/// A secret that we know because it was given to us.
#[derive(Clone, PartialEq, Eq)]
pub struct Known {
    /// Where it comes from, such as an environment variable.
    pub name: String,
    pub value: String,
}

/// A secret that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Such as "github token", "value of `OPENAI_API_KEY`" or "password".
    pub what: String,
    /// Its bytes in the original text.
    pub at: Range<usize>,
}

/// A text without the secrets that were found in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redacted<'a> {
    /// Borrowed when nothing was found.
    pub text: Cow<'a, str>,
    /// In the order of the text; they do not overlap.
    pub found: Vec<Found>,
}

impl Redactor {
    /// Takes the values that can be secrets.
    ///
    /// Not taken are values
    /// - shorter than 8 bytes, longer than 16 KiB, or with a mask of ours in them;
    /// - that are numbers, dates, paths, lists of paths, or addresses without a password;
    /// - that stand for a value: `true`, `<your-key>`, `$VAR`, `xxxxxxxx`;
    /// - made of words only (`xterm-256color`, `my-machine`), unless their name says that they are secret.
    ///
    /// So the whole environment can be given. The password inside an address is taken by itself too.
    pub fn new(known: impl IntoIterator<Item = Known>) -> Self {
        Self { known: Arc::new(KnownValues::new(known)) }
    }

    /// Replaces known values, and what rules and names give away.
    pub fn redact<'a>(&self, text: &'a str) -> Redacted<'a> {
        self.settle(text, |text| {
            let mut spans = self.known.spans(text);
            spans.extend(scan::spans(text));
            spans
        })
    }

    /// Replaces only values that are known.
    pub fn redact_known<'a>(&self, text: &'a str) -> Redacted<'a> {
        self.settle(text, |text| self.known.spans(text))
    }

    /// Redacts every string inside, driven by the names of fields too. Gives what was replaced.
    pub fn redact_json(&self, value: &mut Value) -> Vec<String> {
        json::redact(value, json::by_field, &|text| self.redact(text))
    }

    /// Replaces known values in every string inside. Gives what was replaced.
    pub fn redact_known_json(&self, value: &mut Value) -> Vec<String> {
        json::redact(value, |_, _| None, &|text| self.redact_known(text))
    }

    /// Whether there is any value to look for.
    pub fn has_known(&self) -> bool {
        !self.known.is_empty()
    }

    /// How many bytes at the end of `text` could be the beginning of a known value that goes on in the next piece.
    ///
    /// What comes before them can be redacted and passed on; they are kept and put before the next piece.
    pub fn held_back(&self, text: &str) -> usize {
        self.known.held_back(text)
    }

    /// Redacts the beginning of a text that is still being written, as far as nothing that follows can change it. Gives
    /// that, and how many bytes of the text it stands for; the rest is kept and put before the next piece.
    ///
    /// All that is given, and the rest once nothing follows, is what the whole text redacted is.
    pub fn redact_begun(&self, text: &str) -> (String, usize) {
        let redacted = self.redact(text);
        let end = begun::decided(text, &redacted, self.held_back(text));
        let (mut out, mut at) = (String::new(), 0);
        for secret in redacted.found.iter().take_while(|secret| secret.at.end <= end) {
            out.push_str(&text[at..secret.at.start]);
            out.push_str(&mask::of(&secret.what));
            at = secret.at.end;
        }
        out.push_str(&text[at..end]);
        (out, end)
    }

    fn settle<'a>(&self, text: &'a str, look: impl Fn(&str) -> Vec<Span>) -> Redacted<'a> {
        let round = |text: &str| {
            let spans = look(text);
            if spans.is_empty() { spans } else { span::merged(self.unmasked(text, spans)) }
        };
        let mut spans = round(text);
        if spans.is_empty() {
            return Redacted { text: Cow::Borrowed(text), found: Vec::new() };
        }
        let mut masked = mask::apply(text, &spans);
        for _ in 1..MOST_ROUNDS {
            let more = round(&masked);
            if more.is_empty() {
                break;
            }
            span::add_later(&mut spans, more);
            masked = mask::apply(text, &spans);
        }
        let found = spans.into_iter().map(|span| Found { what: span.what.into(), at: span.at });
        Redacted { text: Cow::Owned(masked), found: found.collect() }
    }

    /// Drops what touches a mask of ours: it has been redacted already.
    fn unmasked(&self, text: &str, spans: Vec<Span>) -> Vec<Span> {
        let masks = mask::places(text, |what| self.known.made(what) || rules::made(what));
        spans
            .into_iter()
            .filter(|span| {
                let after = masks.partition_point(|mask| mask.end <= span.at.start);
                masks.get(after).is_none_or(|mask| span.at.end <= mask.start)
            })
            .collect()
    }
}

/// What the rules for vendors recognise, each with the text it is recognised by.
pub fn rules() -> impl Iterator<Item = (&'static str, &'static str)> {
    let anchored = rules::anchored().map(|rule| (rule.what, rule.anchor));
    anchored.chain(rules::NAMED.iter().map(|named| (named.what, named.vendor)))
}

impl fmt::Debug for Redactor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Redactor").finish_non_exhaustive()
    }
}

impl fmt::Debug for Known {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Known").field("name", &self.name).finish_non_exhaustive()
    }
}
