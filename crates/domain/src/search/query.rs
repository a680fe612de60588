//! What a person typed, understood.

use super::phrase;
use crate::terms::{self, Firsts};

/// More than this is not a question but a file.
const LONGEST_QUERY: usize = 8 * 1024;
/// More words than these are not looked for.
const MOST_CLAUSES: usize = 32;
/// No word has a stem with fewer letters, unless it has no more itself.
const SHORTEST_STEM: usize = 2;
/// No ending is longer that a stem lacks.
const LONGEST_ENDING: usize = 16;
/// A shorter last word is not taken for the beginning of another.
const SHORTEST_BEGINNING: usize = 2;

/// What a person typed, understood. Anything can be typed; the worst is that nothing is found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// Each must be found; words that say little only count when there are no others.
    pub clauses: Vec<Clause>,
    /// Texts in quotation marks, in lower case: to be found as they stand.
    pub phrases: Vec<String>,
    /// The last clause as the beginning of a word: whoever typed it may not have finished.
    pub begun: Option<Clause>,
}

/// Terms that must all be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clause {
    pub terms: Vec<String>,
    /// Those that the index is asked for. A word comes with its parts (`handler_12` with `handler`): asking for those too
    /// would find nothing less, but be much more work where a part is common. The last is the beginning, if there is one.
    pub asked: Vec<String>,
    /// The last term is a beginning (`migrat*`), of the words as they stand and not of their stems.
    pub prefix: bool,
}

/// One term that a text must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Need<'a> {
    pub(super) term: &'a str,
    /// The beginning of a word is enough.
    pub(super) prefix: bool,
}

impl Query {
    pub fn parse(text: &str) -> Self {
        let text = &text[..text.floor_char_boundary(LONGEST_QUERY)];
        let marks = text.matches('"').count();
        let mut query = Self::default();
        let mut last = None;
        for (index, part) in text.split('"').enumerate() {
            let is_closed_phrase = index % 2 == 1 && marks > index;
            if is_closed_phrase && !part.trim().is_empty() {
                query
                    .phrases
                    .push(part.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase());
            }
            part.split_whitespace().for_each(|word| query.clauses.extend(clause(word)));
            last = part.split_whitespace().last().filter(|_| !is_closed_phrase);
        }
        if query.clauses.iter().any(|clause| !clause.says_little()) {
            query.clauses.retain(|clause| !clause.says_little());
        }
        query.clauses.dedup();
        query.begun = last.and_then(|word| begun(word, query.clauses.last()?));
        if query.clauses.len() > MOST_CLAUSES {
            query.clauses.truncate(MOST_CLAUSES);
            query.begun = None;
        }
        query
    }

    pub fn is_empty(&self) -> bool {
        self.clauses.is_empty()
    }

    /// The same with the last word as the beginning of one.
    pub fn unfinished(&self) -> Option<Self> {
        let begun = self.begun.clone()?;
        let mut query = Self { begun: None, ..self.clone() };
        *query.clauses.last_mut()? = begun;
        Some(query)
    }

    /// A query for one clause alone.
    pub fn only(clause: &Clause) -> Self {
        Self { clauses: vec![clause.clone()], ..Self::default() }
    }

    /// Whether a text matches.
    pub fn matches(&self, text: &str) -> bool {
        is_met(self.needs().collect(), text) && self.has_phrases(text)
    }

    /// All that a text must have.
    pub(super) fn needs(&self) -> impl Iterator<Item = Need<'_>> {
        self.clauses.iter().flat_map(|clause| {
            let last = clause.terms.len() - 1;
            let prefix = move |at| clause.prefix && at == last;
            clause.terms.iter().enumerate().map(move |(at, term)| Need { term, prefix: prefix(at) })
        })
    }

    /// Whether the index alone cannot tell: texts in quotation marks, beginnings and parts of words have to be read.
    pub fn has_to_be_read(&self) -> bool {
        let is_asked = |clause: &Clause| clause.asked.len() == clause.terms.len();
        !self.phrases.is_empty() || self.has_beginnings() || !self.clauses.iter().all(is_asked)
    }

    pub fn has_beginnings(&self) -> bool {
        self.clauses.iter().any(|clause| clause.prefix)
    }

    /// Whether the texts in quotation marks stand in it.
    pub fn has_phrases(&self, text: &str) -> bool {
        self.phrases.is_empty() || phrase::are_in(&self.phrases, text)
    }

    /// Bytes that words with a needed term begin with.
    pub(super) fn firsts(&self) -> Firsts {
        let mut firsts = [false; 256];
        self.needs().for_each(|need| need.add_firsts(&mut firsts));
        firsts
    }

    /// Whether a term is asked for that was made of `word`.
    pub(super) fn wants(&self, term: &str, word: &str) -> bool {
        self.needs().any(|need| need.is_met_by(term, word))
    }
}

impl Need<'_> {
    /// Adds the bytes that words with this term begin with: all where the beginning of a word is enough, which its term may not
    /// show.
    pub(super) fn add_firsts(&self, firsts: &mut Firsts) {
        match self.term.bytes().next() {
            Some(first) if !self.prefix => terms::add_firsts(firsts, first),
            _ => *firsts = [true; 256],
        }
    }

    /// Whether this is a term, made of `word`, that is needed.
    #[inline]
    pub(super) fn is_met_by(&self, term: &str, word: &str) -> bool {
        if !self.prefix {
            return term == self.term;
        }
        match word.as_bytes().get(..self.term.len()) {
            Some(start) if word.is_ascii() => start.eq_ignore_ascii_case(self.term.as_bytes()),
            None if word.is_ascii() => false,
            _ => terms::folded(word).starts_with(self.term),
        }
    }
}

/// Whether a text has all that is needed.
fn is_met(mut missing: Vec<Need<'_>>, text: &str) -> bool {
    terms::each(text, |term, place| {
        missing.retain(|need| !need.is_met_by(term, &text[place.clone()]));
    });
    missing.is_empty()
}

impl Clause {
    /// Terms that a word with this beginning may have where its stem is shorter than the beginning.
    pub fn short_stems(&self) -> Vec<String> {
        // Only words of plain letters are stemmed.
        let is_plain =
            |beginning: &&String| beginning.bytes().all(|byte| byte.is_ascii_lowercase());
        let beginning = self.terms.last().filter(|_| self.prefix).filter(is_plain);
        let Some(beginning) = beginning else { return Vec::new() };
        let shortest = SHORTEST_STEM.max(beginning.len().saturating_sub(LONGEST_ENDING));
        (shortest..beginning.len()).map(|end| beginning[..end].to_owned()).collect()
    }

    fn says_little(&self) -> bool {
        !self.prefix && self.terms.iter().all(|term| terms::is_stop(term))
    }
}

/// The last word as a beginning, where it is the last clause.
fn begun(word: &str, last: &Clause) -> Option<Clause> {
    let is_last = !last.prefix && clause(word).as_ref() == Some(last);
    let goes_on = word.ends_with(|c: char| c.is_alphanumeric() || c == '_');
    if !is_last || !goes_on || word.chars().count() < SHORTEST_BEGINNING {
        return None;
    }
    clause(&format!("{word}*")).filter(|clause| clause.prefix)
}

/// The terms of one typed word. A name like `C++` counts whole, since its part says nothing; one like
/// `better-sqlite3` by its parts, which are there whenever the whole is.
fn clause(word: &str) -> Option<Clause> {
    let is_beginning = word.len() > 1 && word.ends_with('*');
    if let Some(clause) = is_beginning.then(|| beginning(word.trim_end_matches('*'))).flatten() {
        return Some(clause);
    }
    let (mut parts, mut asked) = (Vec::new(), Vec::new());
    let mut whole = None;
    let mut lone_cjk = false;
    let mut end = 0;
    terms::each(word, |term, place| {
        let text = &word[place.clone()];
        if text.chars().count() > 1 && text.contains(|c: char| "-./:@+#&\\=".contains(c)) {
            whole = Some(term.to_owned());
        } else if text.chars().any(terms::is_cjk) && text.chars().count() == 1 && !parts.is_empty()
        {
            // The last character by itself is told by the pair before it.
        } else {
            let is_cjk = text.chars().any(terms::is_cjk);
            lone_cjk |= text.chars().count() == 1 && is_cjk;
            parts.push(term.to_owned());
            // A part of a word comes after the word. Pairs of characters overlap, and each is asked for.
            if is_cjk || place.start >= end {
                asked.push(term.to_owned());
                end = place.end;
            }
        }
    });
    let trivial = parts.iter().any(|part| part.len() < 2);
    let (terms, asked) = match whole {
        Some(whole) if trivial => (vec![whole.clone()], vec![whole]),
        _ => (parts, asked),
    };
    (!terms.is_empty()).then_some(Clause { terms, asked, prefix: lone_cjk })
}

/// A beginning: of a word, or of a name (`better-sqli`), whose last part is one and whose others are whole.
fn beginning(word: &str) -> Option<Clause> {
    let is_plain = |c: char| (c.is_alphanumeric() || c == '_') && !terms::is_cjk(c);
    let start = word
        .rfind(|c| !is_plain(c))
        .map_or(0, |at| at + word[at..].chars().next().map_or(0, char::len_utf8));
    let (others, last) = word.split_at(start);
    let last = terms::folded(last);
    let last = last[..last.floor_char_boundary(terms::LONGEST)].to_owned();
    if last.trim_matches('_').is_empty() || others.contains(terms::is_cjk) {
        return None;
    }
    let (mut terms, mut asked) =
        clause(others).map_or_else(Default::default, |clause| (clause.terms, clause.asked));
    terms.push(last.clone());
    asked.push(last);
    Some(Clause { terms, asked, prefix: true })
}
