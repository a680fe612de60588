//! Values that we were told: found in the clear and in every encoding of [`encode::forms`].

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use super::span::{Layer, Span};
use super::{Known, encode, judge, mask, name};

/// Shorter values are too likely to be a part of something else.
const SHORTEST: usize = 8;

/// Longer ones are files, not secrets, and every form of them would be kept in memory.
const LONGEST: usize = 16 * 1024;

/// So many bytes of forms go into the fastest automaton, which takes some 256 bytes for each.
const MOST_IN_TABLE: usize = 16 * 1024;

/// All values with all ways to write them.
#[derive(Default)]
pub(super) struct KnownValues {
    /// What is looked for, in order, so that a beginning can be found by halving.
    forms: Vec<String>,
    /// What each form is.
    what: Vec<String>,
    sayings: HashSet<String>,
    longest: usize,
    /// Missing when there are no forms, or more of them than an automaton can hold.
    automaton: Option<AhoCorasick>,
}

impl KnownValues {
    pub(super) fn new(known: impl IntoIterator<Item = Known>) -> Self {
        let mut all: BTreeMap<String, String> = BTreeMap::new();
        for Known { name, value } in known {
            let what = format!("value of {}", mask::words(&name));
            let inside = judge::password_in_address(&value).map(|at| value[at].to_owned());
            let whole = is_taken(&name, &value).then(|| value.clone());
            let inside = inside.filter(|value| is_taken("password", value));
            for form in whole.iter().chain(&inside).flat_map(|value| encode::forms(value)) {
                all.entry(form).or_insert_with(|| what.clone());
            }
        }
        if all.is_empty() {
            return Self::default();
        }
        let (forms, what): (Vec<String>, Vec<String>) = all.into_iter().unzip();
        let longest = forms.iter().map(String::len).max().unwrap_or_default();
        let size: usize = forms.iter().map(String::len).sum();
        // Forms begin with any letter, so that looking for first letters would stop everywhere.
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .prefilter(false)
            .kind((size <= MOST_IN_TABLE).then_some(AhoCorasickKind::DFA))
            .build(&forms);
        let sayings = what.iter().cloned().collect();
        Self { forms, what, sayings, longest, automaton: automaton.ok() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.forms.is_empty()
    }

    /// Whether a mask that says this is one of ours.
    pub(super) fn made(&self, what: &str) -> bool {
        self.sayings.contains(what)
    }

    pub(super) fn spans(&self, text: &str) -> Vec<Span> {
        if let Some(automaton) = &self.automaton {
            let found = automaton.find_iter(text);
            return found.map(|hit| self.span(hit.pattern().as_usize(), hit.start())).collect();
        }
        let each = self.forms.iter().enumerate();
        each.flat_map(|(form, value)| {
            text.match_indices(value.as_str()).map(move |(start, _)| self.span(form, start))
        })
        .collect()
    }

    fn span(&self, form: usize, start: usize) -> Span {
        let at = start..start + self.forms[form].len();
        Span { at, what: Cow::Owned(self.what[form].clone()), from: Layer::Known }
    }

    /// See [`Redactor::held_back`](super::Redactor::held_back).
    pub(super) fn held_back(&self, text: &str) -> usize {
        if self.is_empty() {
            return 0;
        }
        let first = text.len().saturating_sub(self.longest - 1);
        let mut places = (first..text.len()).filter(|at| text.is_char_boundary(*at));
        let cut = places.find(|at| self.begins_with(&text[*at..])).unwrap_or(text.len());
        // A value that is complete must not be cut in two because its end looks like a beginning.
        let whole = self.spans(text).into_iter().find(|span| span.at.end > cut);
        text.len() - whole.map_or(cut, |span| span.at.start.min(cut))
    }

    /// Whether a form goes on after `text`.
    fn begins_with(&self, text: &str) -> bool {
        let at = self.forms.partition_point(|form| form.as_str() <= text);
        self.forms.get(at).is_some_and(|form| form.starts_with(text))
    }
}

fn is_taken(name: &str, value: &str) -> bool {
    if !(SHORTEST..=LONGEST).contains(&value.len()) || value.contains(mask::BEGINS) {
        return false;
    }
    let said = name::classify(name).is_some();
    // Base64 can begin with a slash.
    let path = judge::is_path(value) && !(said && judge::is_random(value));
    let plain = judge::is_number(value) || path || judge::is_stand_in(value);
    let address = value.contains("://") && judge::password_in_address(value).is_none();
    !plain && !address && (said || !judge::is_words(value))
}
