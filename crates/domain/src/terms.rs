//! The words of a text as the index knows them: lower case, without accents, stemmed.
//!
//! Identifiers and names such as `better-sqlite3`, `getUserName` or `C++` are found whole and by their parts;
//! scripts without spaces by pairs of characters. One place for index, queries, marks and ranking, so that
//! they cannot disagree.

use std::cell::Cell;
use std::collections::HashMap;
use std::ops::Range;

use rust_stemmers::{Algorithm, Stemmer};

use crate::words;
pub use crate::words::is_stop;

/// Grows when the terms of a text change: an index made by another version is built anew.
pub const VERSION: u32 = 2;

/// No term has more bytes, joined names aside.
pub(crate) const LONGEST: usize = 64;

/// Stems are remembered up to so many: stemming is most of the work, and few words make most of a text.
const MOST_STEMS: usize = 8192;

thread_local! {
    static STEMS: Cell<Stems> = Cell::default();
}

/// Words with their stems, as far as they were met.
#[derive(Default)]
struct Stems(HashMap<String, String>);

impl Stems {
    fn of(&mut self, word: &str) -> &str {
        if !self.0.contains_key(word) {
            if self.0.len() >= MOST_STEMS {
                self.0.clear();
            }
            let stem = Stemmer::create(Algorithm::English).stem(words::base(word)).into_owned();
            self.0.insert(word.to_owned(), stem);
        }
        self.0.get(word).map_or("", String::as_str)
    }
}

/// Visits every term with the place it comes from.
pub fn each(text: &str, mut visit: impl FnMut(&str, Range<usize>)) {
    let stems = STEMS.take();
    let mut scan = Scan { text, stems, scratch: String::new(), visit: &mut visit };
    let mut at = 0;
    while let Some(found) = text[at..].find(|c: char| c.is_alphanumeric()) {
        at = scan.run(at + found);
    }
    STEMS.set(scan.stems);
}

/// The terms of a text, joined by spaces: what the index is given.
///
/// A word whose stem is no beginning of it (`staging`, of which the stem is `stage`) is there as it stands too: otherwise its
/// beginnings (`stagi`) would not lead to it.
pub fn joined(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 4);
    each(text, |term, place| {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(term);
        let word = &text[place];
        let start = word.as_bytes().get(..term.len());
        if !start.is_some_and(|start| start.eq_ignore_ascii_case(term.as_bytes())) {
            let word = folded(word);
            let word = word.split(['\'', '\u{2019}']).next().unwrap_or_default();
            if !word.starts_with(term) && word.len() <= LONGEST {
                out.push(' ');
                out.push_str(word);
            }
        }
    });
    out
}

/// A text as terms are written, unstemmed: lower case, without accents.
pub fn folded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    fold(&mut out, text);
    out
}

/// All terms, in order, repeated ones too.
pub fn all(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    each(text, |term, _| out.push(term.to_owned()));
    out
}

struct Scan<'a, V> {
    text: &'a str,
    stems: Stems,
    scratch: String,
    visit: &'a mut V,
}

impl<V: FnMut(&str, Range<usize>)> Scan<'_, V> {
    /// Takes one run of words joined by signs, from `start`; gives where it ends.
    fn run(&mut self, start: usize) -> usize {
        let mut words = 0;
        let mut at = start;
        let mut end = start;
        while let Some(first) = self.text[at..].chars().next() {
            if is_cjk(first) {
                at = self.pairs(at);
                end = at;
                words += 1;
            } else if first.is_alphanumeric() {
                at = self.word(at);
                end = at;
                words += 1;
            } else if joins(first) && self.text[at + first.len_utf8()..].starts_with(is_word) {
                at += first.len_utf8();
            } else {
                break;
            }
        }
        let signs: usize = self.text[end..]
            .chars()
            .take(2)
            .take_while(|c| matches!(c, '+' | '#'))
            .map(char::len_utf8)
            .sum();
        let ends_word = !self.text[end + signs..].starts_with(is_word);
        let whole = end + if ends_word { signs } else { 0 };
        if (words > 1 || whole > end) && whole - start <= LONGEST {
            self.fold(start..whole);
            (self.visit)(&self.scratch, start..whole);
        }
        whole.max(end)
    }

    /// A word: whole, and by its parts where it is several grown together.
    fn word(&mut self, start: usize) -> usize {
        let length = self.text[start..]
            .find(|c: char| !is_word(c) || is_cjk(c))
            .unwrap_or(self.text.len() - start);
        let mut end = start + length;
        let spoken = end;
        let rest = &self.text[end..];
        if let Some(after) = rest.strip_prefix(['\'', '\u{2019}']) {
            let suffix: String = after
                .chars()
                .take_while(|c| is_word(*c))
                .take(3)
                .flat_map(char::to_lowercase)
                .collect();
            if matches!(suffix.as_str(), "s" | "t" | "re" | "ve" | "m" | "ll" | "d") {
                end += rest.len() - after.len() + suffix.len();
            }
        }
        self.term(start..spoken, start..end);
        let mut from = start;
        let mut previous = ' ';
        for (offset, c) in self.text[start..spoken].char_indices() {
            let at = start + offset;
            let grown = c.is_uppercase() && previous.is_lowercase()
                || c == '_'
                || previous == '_'
                || c.is_alphabetic() && previous.is_numeric() && at - from > 3;
            if grown && at > from {
                self.part(from..at);
                from = at;
            }
            previous = c;
        }
        if from > start {
            self.part(from..spoken);
        }
        end
    }

    fn part(&mut self, range: Range<usize>) {
        if range.len() > 1 && !self.text[range.clone()].starts_with('_') {
            self.term(range.clone(), range);
        }
    }

    /// Pairs of characters, and the last one by itself, so that each begins a term.
    fn pairs(&mut self, start: usize) -> usize {
        let mut chars = self.text[start..].char_indices().peekable();
        while let Some((offset, c)) = chars.next() {
            if !is_cjk(c) {
                return start + offset;
            }
            let from = start + offset;
            let mut to = from + c.len_utf8();
            if let Some((_, next)) = chars.peek().filter(|(_, next)| is_cjk(*next)) {
                to += next.len_utf8();
            }
            self.fold(from..to);
            (self.visit)(&self.scratch, from..to);
        }
        self.text.len()
    }

    fn term(&mut self, word: Range<usize>, shown: Range<usize>) {
        let cut = word.start..self.text.floor_char_boundary(word.end.min(word.start + LONGEST));
        self.fold(cut);
        if self.scratch.bytes().all(|byte| byte.is_ascii_lowercase()) {
            (self.visit)(self.stems.of(&self.scratch), shown);
        } else {
            (self.visit)(&self.scratch, shown);
        }
    }

    fn fold(&mut self, range: Range<usize>) {
        self.scratch.clear();
        fold(&mut self.scratch, &self.text[range]);
    }
}

fn fold(out: &mut String, text: &str) {
    for c in text.chars() {
        if c.is_ascii() {
            out.push(c.to_ascii_lowercase());
        } else {
            c.to_lowercase().for_each(|c| without_accent(out, c));
        }
    }
}

/// What may stand inside a word; marks that belong to the letter before them do too.
fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || matches!(c, '\u{300}'..='\u{36f}' | '\u{900}'..='\u{e7f}')
}

/// Signs that join words to one name.
fn joins(c: char) -> bool {
    matches!(c, '-' | '.' | '/' | ':' | '@' | '+' | '#' | '&' | '\\' | '=')
}

/// Scripts that are written without spaces.
pub fn is_cjk(c: char) -> bool {
    matches!(
        c,
        '\u{1100}'..='\u{11ff}'
            | '\u{3005}'..='\u{3007}'
            | '\u{3040}'..='\u{30ff}'
            | '\u{3130}'..='\u{318f}'
            | '\u{3400}'..='\u{4dbf}'
            | '\u{4e00}'..='\u{9fff}'
            | '\u{ac00}'..='\u{d7af}'
            | '\u{f900}'..='\u{faff}'
            | '\u{ff66}'..='\u{ff9f}'
            | '\u{20000}'..='\u{3134f}'
    )
}

fn without_accent(out: &mut String, c: char) {
    let plain = match c {
        'à'..='å' | 'ā' | 'ă' | 'ą' => "a",
        'ç' | 'ć' | 'č' => "c",
        'è'..='ë' | 'ē' | 'ė' | 'ę' | 'ě' => "e",
        'ì'..='ï' | 'ī' | 'į' | 'ı' => "i",
        'ñ' | 'ń' | 'ň' => "n",
        'ò'..='ö' | 'ø' | 'ō' | 'ő' => "o",
        'ù'..='ü' | 'ū' | 'ů' | 'ű' => "u",
        'ý' | 'ÿ' => "y",
        'š' | 'ś' | 'ş' => "s",
        'ž' | 'ź' | 'ż' => "z",
        'ł' => "l",
        'đ' | 'ď' => "d",
        'ř' => "r",
        'ť' => "t",
        'ğ' => "g",
        'ß' => "ss",
        'æ' => "ae",
        'œ' => "oe",
        '\u{300}'..='\u{36f}' => "",
        _ => return out.push(c),
    };
    out.push_str(plain);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(all(text).join(" "), expected, "{text:?}");
    }

    #[test]
    fn words_are_folded_and_stemmed() {
        check("Running tests, twice!", "run test twice");
        check("Café Zürich naïve", "cafe zurich naiv");
        check("", "");
        check("… — !?", "");
    }

    #[test]
    fn the_index_has_words_whose_stem_is_no_beginning() {
        assert_eq!(joined("Staging's tests ran"), "stage staging test run ran");
        assert_eq!(
            joined("Zürich C++ getUserName 数据"),
            "zurich c c++ getusernam get user name 数据 据"
        );
    }

    #[test]
    fn contractions_lose_their_tail() {
        check("what's Anna\u{2019}s don't", "what anna don");
        check("rock'n'roll", "rock n roll");
    }

    #[test]
    fn names_are_found_whole_and_by_their_parts() {
        check("better-sqlite3", "better sqlite3 better-sqlite3");
        check("C++ and C# now.", "c c++ and c c# now");
        check("getUserName", "getusernam get user name");
        check("snake_case_id", "snake_case_id snake case id");
        check("src/main.rs:12", "src main rs 12 src/main.rs:12");
        check("end of sentence.Next", "end of sentenc next sentence.next");
    }

    #[test]
    fn scripts_without_spaces_are_found_by_pairs() {
        check("数据库连接", "数据 据库 库连 连接 接");
        check("SQLite数据", "sqlite 数据 据 sqlite数据");
    }

    #[test]
    fn every_place_is_inside_the_text() {
        for text in
            ["a\u{301}b c++", "C++x", "x'", "x's", "x'ſ", "_a_", "数a数", "İstanbul's", "a-_-b"]
        {
            each(text, |term, place| {
                assert!(
                    !term.is_empty() && !term.contains(char::is_whitespace),
                    "{text:?} {term:?}"
                );
                assert!(text.get(place).is_some(), "{text:?} {term:?}");
            });
        }
    }
}
