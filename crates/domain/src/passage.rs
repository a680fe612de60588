//! Passages: a text in pieces that can be ranked, priced and shown by themselves.
//!
//! A passage is a paragraph or a few, some items of a list, a part of a code block, a hunk of a diff: about a hundred tokens,
//! cut where the text allows it best. What is kept of the passages of a message, its [`Outline`], is made when the message is
//! indexed: where they are, what they cost as quotations, what they are about, and which words they have, each as a small
//! fingerprint. So a prompt can choose among the passages of many messages without reading their texts.

mod cut;
mod lead;
mod record;

use std::ops::Range;

use jiff::Timestamp;

pub use self::cut::cut;
use crate::meaning::Meaning;
use crate::message::Role;
use crate::outcome::{self, Outcome};
use crate::{number, quote, terms, tokens};

/// The words of a passage are kept as numbers of this size: small, and seldom the same for two words.
pub type Fingerprint = u16;

/// The fingerprint of a term.
pub fn fingerprint(term: &str) -> Fingerprint {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in term.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let halves = (hash ^ hash >> 32).to_le_bytes();
    u16::from_le_bytes([halves[0] ^ halves[2], halves[1] ^ halves[3]])
}

/// Where a passage is in the text of its message, what it costs as a quotation, and its words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passage {
    pub from: u32,
    pub to: u32,
    pub price: u32,
    /// The line above it that says what it belongs to.
    pub lead: Option<Lead>,
    /// What it is about; nothing where it has no words.
    pub meaning: Option<Meaning>,
    /// Where its fingerprints are among those of the outline.
    words: Range<usize>,
}

/// A line of the same message that stands above a passage: a heading, or what a tool was asked to do. Perhaps only its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lead {
    pub from: u32,
    pub to: u32,
    /// What it costs as a quotation.
    pub price: u32,
}

impl Lead {
    /// The line that a passage of a text needs above it.
    pub fn of(role: Role, text: &str, passage: &Range<usize>) -> Option<Self> {
        let line = lead::of(role, text, passage)?;
        let price = tokens::count(&quote::quoted(&text[line.clone()]));
        Some(Self { from: place(line.start), to: place(line.end), price })
    }
}

fn place(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// What is kept of a message for choosing among its passages.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each says something else of the message")]
pub struct Outline {
    pub role: Role,
    pub day: i64,
    /// It ends with a question.
    pub asks: bool,
    /// A tool's title and nothing else.
    pub is_bare: bool,
    /// An agent says what it is about to do, and nothing else.
    pub announces: bool,
    /// A list of things to do, which is repeated with every change.
    pub is_plan: bool,
    /// The passages are those of a text without secrets, which is not the text as it is kept.
    pub is_masked: bool,
    /// How a tool ended, where its text tells.
    pub outcome: Option<Outcome>,
    /// The name that the text begins with, as in `Anna: yes`.
    pub speaker: Option<Fingerprint>,
    pub passages: Vec<Passage>,
    /// Those of the first passage, then those of the second; sorted within each.
    words: Vec<Fingerprint>,
}

/// A tool's result in one line shorter than this is only its title.
const LONGEST_TITLE: usize = 200;

impl Outline {
    /// The outline of a text that is free of secrets. `price` is what it costs whole.
    pub fn of(role: Role, at: Timestamp, text: &str, price: Option<u32>) -> Self {
        Self::with_terms(role, at, text, price, |_| ())
    }

    /// The same, which visits all terms as the index takes them: the text is cut into words once.
    pub fn with_terms(
        role: Role,
        at: Timestamp,
        text: &str,
        price: Option<u32>,
        mut visit: impl FnMut(&str),
    ) -> Self {
        let ranges = cut(text);
        let mut words: Vec<Vec<Fingerprint>> = vec![Vec::new(); ranges.len()];
        let mut current = 0;
        terms::each_indexed(text, |term, start| {
            visit(term);
            let Some(start) = start else { return };
            while ranges.get(current).is_some_and(|range| range.end <= start) {
                current += 1;
            }
            let is_inside = ranges.get(current).is_some_and(|range| range.start <= start);
            if is_inside && !terms::is_stop(term) {
                words[current].push(fingerprint(term));
            }
        });
        let mut all = Vec::new();
        let mut passages = Vec::with_capacity(ranges.len());
        for (range, mut own) in ranges.into_iter().zip(words) {
            own.sort_unstable();
            own.dedup();
            let is_whole = range.len() == text.len();
            let count = || tokens::count(&quote::quoted(&text[range.clone()]));
            let price = price.filter(|_| is_whole).unwrap_or_else(count);
            let start = all.len();
            all.extend(own);
            passages.push(Passage {
                from: place(range.start),
                to: place(range.end),
                price,
                lead: Lead::of(role, text, &range),
                meaning: Meaning::of(&text[range]),
                words: start..all.len(),
            });
        }
        Self {
            role,
            day: number::days(at),
            asks: asks(text),
            is_bare: role == Role::Tool
                && text.len() < LONGEST_TITLE
                && !text.trim().contains('\n'),
            announces: role == Role::Assistant && announces(text),
            is_plan: role == Role::Tool && is_plan(text),
            is_masked: false,
            outcome: if role == Role::Tool { outcome::of_text(text, text) } else { None },
            speaker: speaker(text),
            passages,
            words: all,
        }
    }

    /// The words of one of its passages, sorted.
    pub fn words(&self, passage: &Passage) -> &[Fingerprint] {
        self.words.get(passage.words.clone()).unwrap_or_default()
    }

    /// The words of all passages: one that is in several comes as often.
    pub fn all_words(&self) -> &[Fingerprint] {
        &self.words
    }

    /// Whether any passage has the word.
    pub fn has(&self, word: Fingerprint) -> bool {
        self.passages.iter().any(|passage| self.words(passage).binary_search(&word).is_ok())
    }
}

/// Whether a text ends with a question. What stands after it in brackets is not looked at.
fn asks(text: &str) -> bool {
    let text = text.trim_end();
    let told = match text.strip_suffix(']').and_then(|inner| inner.rfind('[')) {
        Some(at) => text[..at].trim_end(),
        None => text,
    };
    told.ends_with(['?', '？'])
}

/// A longer text says more than what comes next.
const LONGEST_ANNOUNCEMENT: usize = 280;
/// How agents begin to say what they are about to do: English, Russian, Italian, Portuguese, Spanish, Czech, German, French,
/// Chinese.
const ANNOUNCEMENTS: &[&str] = &[
    "let me ",
    "let's ",
    "now let",
    "now i",
    "i'll ",
    "i will ",
    "now, let",
    "next, ",
    "сейчас ",
    "теперь ",
    "давайте ",
    "ora ",
    "adesso ",
    "procedo ",
    "vou ",
    "agora ",
    "voy a ",
    "ahora ",
    "nyní ",
    "teď ",
    "jetzt ",
    "ich werde ",
    "je vais ",
    "maintenant ",
    "现在",
    "让我",
    "接下来",
];

/// Whether an agent only says what it is about to do.
pub(crate) fn announces(text: &str) -> bool {
    let text = text.trim();
    if text.len() > LONGEST_ANNOUNCEMENT || text.contains("\n\n") {
        return false;
    }
    let lower = text[..text.floor_char_boundary(40)].to_lowercase();
    text.ends_with([':', '：', '…']) || ANNOUNCEMENTS.iter().any(|start| lower.starts_with(start))
}

fn is_plan(text: &str) -> bool {
    let head = &text[..text.floor_char_boundary(60)];
    head.to_ascii_lowercase().contains("todo")
}

/// The name that a text opens with, before a colon.
fn speaker(text: &str) -> Option<Fingerprint> {
    let (name, _) = text[..text.floor_char_boundary(48)].split_once(':')?;
    let name = name.trim();
    if name.is_empty() || name.len() > 40 || !name.chars().all(char::is_alphanumeric) {
        return None;
    }
    terms::all(name).first().map(|term| fingerprint(term))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outline(role: Role, text: &str) -> Outline {
        Outline::of(role, Timestamp::UNIX_EPOCH, text, None)
    }

    #[test]
    fn the_words_of_a_passage_are_its_own() {
        let text =
            format!("{}\n\n{}", "The parser fails. ".repeat(25), "The login works. ".repeat(25));
        let outline = outline(Role::Assistant, &text);
        assert_eq!(outline.passages.len(), 2, "{outline:?}");
        let has = |at: usize, term: &str| {
            outline.words(&outline.passages[at]).contains(&fingerprint(term))
        };
        assert!(has(0, "parser") && !has(0, "login"));
        assert!(has(1, "login") && !has(1, "parser"));
        assert!(!has(0, "the"));
        assert!(outline.has(fingerprint("login")) && !outline.has(fingerprint("databas")));
    }

    #[test]
    fn a_passage_costs_what_it_says() {
        let text = "A line of words, and then\nanother \u{1b} one with ünïcödé.\n\n".repeat(60);
        for passage in outline(Role::Tool, &text).passages {
            let part = &text[passage.from as usize..passage.to as usize];
            assert_eq!(passage.price, tokens::count(&quote::quoted(part)));
        }
    }

    #[test]
    fn what_a_message_is_like_is_known() {
        assert!(outline(Role::User, "Does it work? [later]").asks);
        assert!(!outline(Role::User, "It works.").asks);
        assert!(outline(Role::Tool, "Read src/main.rs").is_bare);
        assert!(!outline(Role::User, "Read src/main.rs").is_bare);
        assert!(outline(Role::Tool, "TodoWrite\n[ ] paint it").is_plan);
        assert_eq!(outline(Role::User, "Anna: yes").speaker, Some(fingerprint("anna")));
        assert_eq!(outline(Role::User, "I said: yes").speaker, None);
        assert!(outline(Role::User, " \n\t").passages.is_empty());
        for text in ["Now let me run the tests.", "The tests again:", "Теперь исправлю это."]
        {
            assert!(outline(Role::Assistant, text).announces, "{text}");
            assert!(!outline(Role::User, text).announces, "{text}");
        }
        assert!(!outline(Role::Assistant, "The cause is the cache. Let me see.").announces);
    }
}
