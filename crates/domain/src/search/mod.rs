//! Searching: what is asked, what is found, and how a find is shown.

mod cursor;
mod excerpt;
mod look;
mod phrase;
mod query;

use std::ops::Range;

use jiff::Timestamp;

use crate::id::{Seq, SessionId};
use crate::message::Role;
use crate::session::Status;
use crate::terms;
pub use cursor::{BadCursor, Cursor, Rank, Stretch};
pub use excerpt::excerpt;
pub use look::Look;
pub use query::{Clause, Query};

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

/// What a search gave.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
    /// The best first.
    pub hits: Vec<Hit>,
    /// Where the next ones begin. There may be none.
    pub next: Option<Cursor>,
    /// The work that one search may do was not enough: what was not looked at may have more. `next`, where there is one,
    /// goes on with it.
    pub is_partial: bool,
    /// Messages that were to be looked at and are damaged: what is looked for may be in them.
    pub damaged: u32,
    /// How much work it was, in the steps that are bounded.
    pub work: u64,
}

/// How a find answers what was typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answer {
    /// It has all words.
    Words,
    /// It has all, but of the last one only as the beginning of another.
    Beginning,
    /// It has some of them.
    Some,
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
    pub answer: Answer,
    /// The text around the find without secrets, what was found between `**`.
    pub excerpt: String,
    /// Higher is better; comparable within one answer only.
    pub score: f64,
}

/// How well a text answers a query: how often and how densely its words are there, phrases above all.
pub fn score(query: &Query, text: &str) -> f64 {
    let mut seen = Occurrences::default();
    terms::each(text, |term, place| {
        seen.length += 1;
        if query.wants(term, &text[place.clone()]) {
            seen.note(place);
        }
    });
    seen.score(query, text)
}

/// What a text has of what is wanted.
#[derive(Debug, Clone, Copy, Default)]
struct Occurrences {
    found: u32,
    /// How many terms there are.
    length: u32,
    /// How many of those that were found come right after another.
    adjacent: u32,
    last_end: Option<usize>,
}

impl Occurrences {
    /// A term that is wanted was found.
    fn note(&mut self, place: Range<usize>) {
        self.found += 1;
        self.adjacent += u32::from(self.last_end.is_some_and(|end| place.start <= end + 2));
        self.last_end = Some(place.end);
    }

    fn score(self, query: &Query, text: &str) -> f64 {
        self.score_with(query, !query.phrases.is_empty() && query.has_phrases(text))
    }

    /// The same where it is known whether the phrases are there.
    fn score_with(self, query: &Query, has_phrases: bool) -> f64 {
        let [found, length, adjacent] = [self.found, self.length, self.adjacent].map(f64::from);
        let phrases = if has_phrases { 1.0 } else { 0.0 };
        let wanted = query.clauses.iter().map(|clause| clause.terms.len()).sum::<usize>().max(1);
        #[expect(clippy::cast_precision_loss, reason = "a handful of words")]
        let wanted = wanted as f64;
        let saturated = found / (found + 1.2 * (0.25 + 0.75 * length / 100.0));
        saturated + 0.3 * (adjacent / wanted).min(1.0) + phrases
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
        check("better-sqli*", "we use better-sqlite3 here", true);
        check("better-sqli*", "better, with sql", false);
        check("snake_ca*", "a snake_case_name", true);
        check("src/mai*", "see src/main.rs", true);
        check("migratio*", "two migrations", true);
        check("migratio*", "we migrate", false);
        check("Zür*", "in Zurich", true);
        check("username", "call getUserName()", false);
        check("\"the plan\"", "so what's the plan", true);
        check("\"plan the\"", "so what's the plan", false);
        check("how to fix the login", "login fixed", true);
    }

    #[test]
    fn the_last_word_may_be_a_beginning() {
        let unfinished = |text: &str, said: &str| {
            Query::parse(text).unfinished().is_some_and(|query| query.matches(said))
        };
        for typed in ["stag", "stagi", "stagin", "staging", "the stagin", "our st"] {
            assert!(unfinished(typed, "our staging server"), "{typed}");
        }
        for typed in ["s", "\"stag\"", "stag*", "stag \"our\"", "stag?", "数", "stag walrus", ""] {
            assert!(!unfinished(typed, "our staging server 数据"), "{typed}");
        }
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
    fn words_of_a_mask_are_not_marked() {
        let text = "my key is [redacted: aws access key] and DB_PASSWORD=[redacted: password]";
        let shown = |words: &str| excerpt(&Query::parse(words), text, 200);
        assert_eq!(shown("key"), text.replacen("key", "**key**", 1));
        assert_eq!(shown("redacted"), text);
        assert_eq!(shown("aws"), text);
        let begun = "an open [redacted: bracket";
        assert_eq!(excerpt(&Query::parse("bracket"), begun, 80), "an open [redacted: **bracket**");
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
            prop_assert!(score(&query, &text).is_finite() || !query.matches(&text));
            prop_assert!(excerpt(&query, &text, 40).chars().count() <= 800);
        }
    }
}
