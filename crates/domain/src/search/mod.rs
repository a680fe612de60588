//! Searching: what is asked, what is found, and how a find is shown.

use std::ops::Range;

use jiff::Timestamp;

use crate::id::{Seq, SessionId};
use crate::message::Role;
use crate::session::Status;
use crate::terms;

/// More than this is not a question but a file.
const LONGEST_QUERY: usize = 8 * 1024;
/// No word has a stem with fewer letters, unless it has no more itself.
const SHORTEST_STEM: usize = 2;

/// What a person typed, understood. Anything can be typed; the worst is that nothing is found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// Each must be found; words that say little only count when there are no others.
    pub clauses: Vec<Clause>,
    /// Texts in quotation marks, in lower case: to be found as they stand.
    pub phrases: Vec<String>,
}

/// Terms that must all be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clause {
    pub terms: Vec<String>,
    /// The last term is a beginning (`migrat*`), of the words as they stand and not of their stems.
    pub prefix: bool,
}

impl Query {
    pub fn parse(text: &str) -> Self {
        let text = &text[..text.floor_char_boundary(LONGEST_QUERY)];
        let marks = text.matches('"').count();
        let mut query = Self::default();
        for (index, part) in text.split('"').enumerate() {
            let is_closed_phrase = index % 2 == 1 && marks > index;
            if is_closed_phrase && !part.trim().is_empty() {
                query
                    .phrases
                    .push(part.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase());
            }
            part.split_whitespace().for_each(|word| query.clauses.extend(clause(word)));
        }
        if query.clauses.iter().any(|clause| !clause.says_little()) {
            query.clauses.retain(|clause| !clause.says_little());
        }
        query.clauses.dedup();
        query
    }

    pub fn is_empty(&self) -> bool {
        self.clauses.is_empty()
    }

    /// Whether a text matches, for what is not in the index.
    pub fn matches(&self, text: &str) -> bool {
        let mut missing: Vec<(&str, bool)> = self
            .clauses
            .iter()
            .flat_map(|clause| {
                let last = clause.terms.len() - 1;
                clause
                    .terms
                    .iter()
                    .enumerate()
                    .map(move |(at, term)| (term.as_str(), clause.prefix && at == last))
            })
            .collect();
        terms::each(text, |term, place| {
            missing.retain(|(wanted, prefix)| {
                if *prefix { !begins(&text[place.clone()], wanted) } else { term != *wanted }
            });
        });
        missing.is_empty() && self.has_phrases(text)
    }

    /// Whether the index alone cannot tell: texts in quotation marks and beginnings have to be read.
    pub fn has_to_be_read(&self) -> bool {
        !self.phrases.is_empty() || self.beginnings().next().is_some()
    }

    /// Whether a text that the index found has what only reading it tells.
    pub fn is_met_by(&self, text: &str) -> bool {
        let mut missing: Vec<&str> = self.beginnings().collect();
        if !missing.is_empty() {
            terms::each(text, |_, place| {
                missing.retain(|wanted| !begins(&text[place.clone()], wanted));
            });
        }
        missing.is_empty() && self.has_phrases(text)
    }

    fn beginnings(&self) -> impl Iterator<Item = &str> {
        let of_prefix = self.clauses.iter().filter(|clause| clause.prefix);
        of_prefix.filter_map(|clause| clause.terms.last()).map(String::as_str)
    }

    /// Whether the texts in quotation marks stand in it.
    pub fn has_phrases(&self, text: &str) -> bool {
        if self.phrases.is_empty() {
            return true;
        }
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
        self.phrases.iter().all(|phrase| flat.contains(phrase))
    }

    /// Whether a term is asked for that was made of `word`.
    fn wants(&self, term: &str, word: &str) -> bool {
        self.clauses.iter().any(|clause| {
            let (last, others) =
                clause.terms.split_last().map_or(("", &[][..]), |(l, o)| (l.as_str(), o));
            others.iter().any(|wanted| wanted == term)
                || if clause.prefix { begins(word, last) } else { term == last }
        })
    }
}

/// Whether a word, as it stands in a text, begins so.
fn begins(word: &str, wanted: &str) -> bool {
    terms::folded(word).starts_with(wanted)
}

impl Clause {
    /// Terms that a word with this beginning may have where its stem is shorter than the beginning.
    pub fn short_stems(&self) -> Vec<String> {
        let Some(beginning) = self.terms.last().filter(|_| self.prefix) else { return Vec::new() };
        let mut stems = terms::all(beginning);
        stems.extend(
            (SHORTEST_STEM..beginning.len())
                .filter(|end| beginning.is_char_boundary(*end))
                .map(|end| beginning[..end].to_owned()),
        );
        stems
    }

    fn says_little(&self) -> bool {
        !self.prefix && self.terms.iter().all(|term| terms::is_stop(term))
    }
}

/// The terms of one typed word. A name like `C++` counts whole, since its part says nothing; one like
/// `better-sqlite3` by its parts, which are there whenever the whole is.
fn clause(word: &str) -> Option<Clause> {
    let prefix = word.len() > 1 && word.ends_with('*');
    if prefix {
        let stem = terms::folded(word.trim_end_matches('*'));
        let stem = stem[..stem.floor_char_boundary(terms::LONGEST)].to_owned();
        if stem.chars().all(char::is_alphanumeric) && !stem.chars().any(terms::is_cjk) {
            return Some(Clause { terms: vec![stem], prefix });
        }
    }
    let mut parts = Vec::new();
    let mut whole = None;
    let mut lone_cjk = false;
    terms::each(word, |term, place| {
        let text = &word[place];
        if text.chars().count() > 1 && text.contains(|c: char| "-./:@+#&\\=".contains(c)) {
            whole = Some(term.to_owned());
        } else if text.chars().any(terms::is_cjk) && text.chars().count() == 1 && !parts.is_empty()
        {
            // The last character by itself is told by the pair before it.
        } else {
            lone_cjk |= text.chars().count() == 1 && text.chars().any(terms::is_cjk);
            parts.push(term.to_owned());
        }
    });
    let trivial = parts.iter().any(|part| part.len() < 2);
    let terms = match whole {
        Some(whole) if trivial => vec![whole],
        _ => parts,
    };
    (!terms.is_empty()).then_some(Clause { terms, prefix: lone_cjk })
}

/// Which sessions and messages are looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    pub session: Option<SessionId>,
    pub user: Option<String>,
    pub project: Option<String>,
    pub agent: Option<String>,
    pub kind: Option<String>,
    pub status: Option<Status>,
    pub role: Option<Role>,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
}

impl Filter {
    /// Whether it asks for something that only a message has.
    pub fn is_about_messages(&self) -> bool {
        self.role.is_some() || self.since.is_some() || self.until.is_some()
    }

    pub fn has_time(&self, at: Timestamp) -> bool {
        self.since.is_none_or(|since| at >= since) && self.until.is_none_or(|until| at <= until)
    }
}

/// Where something was found.
#[derive(Debug, Clone, PartialEq)]
pub enum Place {
    Message { seq: Seq, role: Role, at: Timestamp },
    Title,
    Summary,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    pub session: SessionId,
    pub title: Option<String>,
    pub place: Place,
    /// The text around the find, what was found between `**`.
    pub excerpt: String,
    /// Higher is better; comparable within one answer only.
    pub score: f64,
}

/// How well a text answers a query: how often and how densely its words are there, phrases above all.
pub fn score(query: &Query, text: &str) -> f64 {
    let mut found = 0.0_f64;
    let mut length = 0.0_f64;
    let mut adjacent = 0.0_f64;
    let mut last_end = usize::MAX;
    terms::each(text, |term, place| {
        length += 1.0;
        if query.wants(term, &text[place.clone()]) {
            found += 1.0;
            if last_end != usize::MAX && place.start <= last_end + 2 {
                adjacent += 1.0;
            }
            last_end = place.end;
        }
    });
    let phrases = if query.phrases.is_empty() || !query.has_phrases(text) { 0.0 } else { 1.0 };
    let wanted = query.clauses.iter().map(|clause| clause.terms.len()).sum::<usize>().max(1);
    #[expect(clippy::cast_precision_loss, reason = "a handful of words")]
    let wanted = wanted as f64;
    let saturated = found / (found + 1.2 * (0.25 + 0.75 * length / 100.0));
    saturated + 0.3 * (adjacent / wanted).min(1.0) + phrases
}

/// About `width` characters around the densest finds, on one line, each find between `**`.
pub fn excerpt(query: &Query, text: &str, width: usize) -> String {
    let mut finds: Vec<Range<usize>> = Vec::new();
    terms::each(text, |term, place| {
        if query.wants(term, &text[place.clone()]) {
            // A name comes after its parts, and takes all of them in.
            let mut find = place;
            while let Some(last) =
                finds.pop_if(|last| find.start <= last.end || is_joint(&text[last.end..find.start]))
            {
                find = last.start.min(find.start)..last.end.max(find.end);
            }
            finds.push(find);
        }
    });
    finds.truncate(2000);
    let best = densest(&finds, width);
    let start = finds.get(best).map_or(0, |find| find.start.saturating_sub(width / 4));
    let start = text.floor_char_boundary(start);
    let start = if start == 0 {
        0
    } else {
        start + text[start..].find(' ').map_or(0, |at| at + 1).min(width / 8)
    };
    let start =
        text.floor_char_boundary(start.min(finds.get(best).map_or(start, |find| find.start)));
    let mut end = text.ceil_char_boundary((start + width).min(text.len()));
    if let Some(find) = finds.get(best) {
        end = end.max(find.end.min(find.start + 4 * width).max(find.start));
        end = text.ceil_char_boundary(end);
    }
    let mut out = String::new();
    let mut at = start;
    for find in finds.iter().filter(|find| find.start >= start && find.end <= end) {
        push_flat(&mut out, &text[at..find.start]);
        out.push_str("**");
        push_flat(&mut out, &text[find.clone()]);
        out.push_str("**");
        at = find.end;
    }
    push_flat(&mut out, &text[at..end]);
    let before = if start > 0 { "…" } else { "" };
    let after = if end < text.len() { "…" } else { "" };
    format!("{before}{}{after}", out.trim())
}

/// Whether only signs inside a name stand between two finds.
fn is_joint(gap: &str) -> bool {
    gap.len() <= 2 && !gap.contains(char::is_whitespace)
}

fn densest(finds: &[Range<usize>], width: usize) -> usize {
    let near = |at: usize| {
        finds[at..].iter().take_while(|find| find.start < finds[at].start + width).count()
    };
    (0..finds.len()).max_by_key(|at| (near(*at), std::cmp::Reverse(*at))).unwrap_or(0)
}

/// White space becomes single spaces.
fn push_flat(out: &mut String, text: &str) {
    for c in text.chars() {
        if c.is_whitespace() {
            if !out.ends_with(' ') {
                out.push(' ');
            }
        } else {
            out.push(c);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(query: &str, text: &str, expected: bool) {
        assert_eq!(Query::parse(query).matches(text), expected, "{query:?} in {text:?}");
    }

    #[test]
    fn what_people_type_is_found() {
        check("what's", "so what's the plan", true);
        check("C++", "written in C++, not C", true);
        check("C++", "written in C", false);
        check("better-sqlite3", "we use better-sqlite3 here", true);
        check("better-sqlite3", "this is better", false);
        check("\"unbalanced", "an unbalanced quote", true);
        check("数据库", "连接数据库失败", true);
        check("库", "数据库", true);
        check("数据库", "数据", false);
        check("getUser", "call getUserName()", false);
        check("getUser*", "call getUserName()", true);
        check("migratio*", "two migrations", true);
        check("migratio*", "we migrate", false);
        check("Zür*", "in Zurich", true);
        check("username", "call getUserName()", false);
        check("\"the plan\"", "so what's the plan", true);
        check("\"plan the\"", "so what's the plan", false);
        check("how to fix the login", "login fixed", true);
    }

    #[test]
    fn a_query_without_words_finds_nothing_and_does_not_fail() {
        for text in ["", "\"", "???", "* OR NEAR(", "^", "\0", "-"] {
            let query = Query::parse(text);
            assert!(query.clauses.iter().all(|clause| !clause.terms.is_empty()), "{text:?}");
        }
        assert!(Query::parse("\"\"").is_empty());
    }

    #[test]
    fn an_excerpt_shows_the_find() {
        let text = format!(
            "{} we moved to better-sqlite3 because\n\n it is faster {}",
            "x ".repeat(300),
            "y ".repeat(300)
        );
        let excerpt = excerpt(&Query::parse("better-sqlite3"), &text, 80);
        assert!(excerpt.contains("moved to **better-sqlite3** because it is"), "{excerpt}");
        assert!(excerpt.len() < 140, "{excerpt}");
    }

    #[test]
    fn a_name_whose_parts_are_found_is_marked_once() {
        let text = "see test/fixtures/test_data.json please";
        assert_eq!(
            excerpt(&Query::parse("test*"), text, 80),
            "see **test/fixtures/test_data.json** please"
        );
        assert_eq!(
            excerpt(&Query::parse("foo foo-b-c-foo"), "a foo-b-c-foo", 80),
            "a **foo-b-c-foo**"
        );
    }

    proptest! {
        #[test]
        fn no_name_makes_it_panic(query in "[ab]{1,2}\\*?( [ab]{1,2}([-/.][ab]{1,2}){0,3})?", text in "([ab]{1,2}[-/. ]){0,12}") {
            prop_assert!(excerpt(&Query::parse(&query), &text, 20).len() <= 200);
        }

        #[test]
        fn nothing_typed_makes_it_panic(query in "\\PC{0,40}", text in "\\PC{0,200}") {
            let query = Query::parse(&query);
            let _ = query.matches(&text);
            let _ = score(&query, &text);
            prop_assert!(excerpt(&query, &text, 40).chars().count() <= 800);
        }
    }
}
