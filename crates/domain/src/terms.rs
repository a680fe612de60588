//! The words of a text as the index knows them: lower case, without accents, stemmed.
//!
//! Identifiers and names such as `better-sqlite3`, `getUserName` or `C++` are found whole and by their parts;
//! scripts without spaces by pairs of characters. One place for index, queries, marks and ranking, so that
//! they cannot disagree.

mod distinct;
mod stems;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::ops::Range;

use self::distinct::Distinct;
use self::stems::Stems;
use crate::language::Language;
use crate::word_cache::{self, SHORT};
use crate::words;
pub use crate::words::is_stop;

/// Grows when the terms of a text change: an index made by another version is built anew.
pub const VERSION: u32 = 6;

/// No term has more bytes, joined names aside.
pub(crate) const LONGEST: usize = 64;

thread_local! {
    static STEMS: Cell<Stems> = Cell::default();
}

/// Visits every term with the place it comes from.
pub fn each(text: &str, visit: impl FnMut(&str, Range<usize>)) {
    each_among(text, &ALL, visit);
}

/// Words that begin with any byte.
const ALL: Firsts = [true; 256];

/// Which bytes words begin with.
pub(crate) type Firsts = [bool; 256];

/// Adds the bytes that a word may begin with whose term begins with this one.
pub(crate) fn add_firsts(firsts: &mut Firsts, first: u8) {
    firsts[usize::from(first)] = true;
    words::firsts_of(first, |first| firsts[usize::from(first)] = true);
}

/// Visits every term with the place it comes from, words of small letters only where they begin with one of these bytes; gives
/// how many it passed over. For who looks for a few words: the stems of the others are not needed.
pub(crate) fn each_among(
    text: &str,
    firsts: &Firsts,
    mut visit: impl FnMut(&str, Range<usize>),
) -> u32 {
    let (stems, scratch, visit) = (STEMS.take(), String::new(), &mut visit);
    let mut scan = Scan { text, firsts, passed: 0, stems, scratch, visit };
    let mut at = 0;
    while let Some(byte) = text.as_bytes().get(at) {
        let kind = kind(*byte);
        if kind & ALNUM != 0 {
            at = scan.run(at);
        } else if kind & WIDE == 0 {
            at += 1;
        } else {
            let c = text[at..].chars().next().unwrap_or_default();
            at = if c.is_alphanumeric() { scan.run(at) } else { at + c.len_utf8() };
        }
    }
    let passed = scan.passed;
    STEMS.set(scan.stems);
    passed
}

/// The terms of a text, each once, joined by spaces: what the index is given.
///
/// A word whose stem is no beginning of it (`staging`, of which the stem is `stage`) is there as it stands too: otherwise its
/// beginnings (`stagi`) would not lead to it.
pub fn joined(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 4);
    let mut distinct = Distinct::new(&mut out, text.len());
    each_indexed(text, |term, _| distinct.add(term));
    out
}

/// Visits the same terms, as often as they come, with where they begin; those that are there for their beginnings without.
///
/// Words of a text in a language other than English are there by their stems in that language too.
pub fn each_indexed(text: &str, mut visit: impl FnMut(&str, Option<usize>)) {
    let language = Language::of(text);
    each(text, |term, place| {
        visit(term, Some(place.start));
        let word = &text[place.clone()];
        let stem = language.and_then(|language| language.stem(word));
        if let Some(stem) = stem.filter(|stem| stem != term && !stem.is_empty()) {
            visit(&stem, Some(place.start));
        }
        let start = word.as_bytes().get(..term.len());
        let is_start = |start: &[u8]| start.eq_ignore_ascii_case(term.as_bytes());
        if !word.starts_with(term) && !start.is_some_and(is_start) {
            let word = folded(word);
            let word = word.split(['\'', '\u{2019}']).next().unwrap_or_default();
            if !word.starts_with(term) && word.len() <= LONGEST {
                visit(word, None);
            }
        }
    });
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

/// What an ASCII character is to words, as bits; the bits are chosen so that what a word grew together of can be seen by
/// shifting them.
const LOWER: u8 = 1;
const UPPER: u8 = 1 << 1;
const DIGIT: u8 = 1 << 2;
const UNDERSCORE: u8 = 1 << 3;
const JOINS: u8 = 1 << 4;
const APOSTROPHE: u8 = 1 << 5;
/// Not ASCII: the character has to be looked at.
const WIDE: u8 = 1 << 6;
const ALNUM: u8 = LOWER | UPPER | DIGIT;
const WORD: u8 = ALNUM | UNDERSCORE;

static KINDS: [u8; 256] = {
    let mut kinds = [WIDE; 256];
    let mut byte = 0;
    while byte < 128 {
        kinds[byte as usize] = match byte {
            b'a'..=b'z' => LOWER,
            b'A'..=b'Z' => UPPER,
            b'0'..=b'9' => DIGIT,
            b'_' => UNDERSCORE,
            b'\'' => APOSTROPHE,
            _ if joins(byte) => JOINS,
            _ => 0,
        };
        byte += 1;
    }
    kinds
};

#[inline]
fn kind(byte: u8) -> u8 {
    KINDS[usize::from(byte)]
}

struct Scan<'a, V> {
    text: &'a str,
    firsts: &'a Firsts,
    /// How many terms were passed over.
    passed: u32,
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
        while let Some(byte) = self.text.as_bytes().get(at) {
            let kind = kind(*byte);
            if kind & ALNUM != 0 {
                at = self.plain_word(at).unwrap_or_else(|| self.word(at));
            } else if kind & WIDE != 0 {
                let c = self.text[at..].chars().next().unwrap_or_default();
                if is_cjk(c) {
                    at = self.pairs(at);
                } else if c.is_alphanumeric() {
                    at = self.word(at);
                } else {
                    break;
                }
            } else if kind & JOINS != 0 && self.is_word_at(at + 1) {
                at += 1;
                continue;
            } else {
                break;
            }
            end = at;
            words += 1;
        }
        let bytes = self.text.as_bytes()[end..].iter();
        let signs = bytes.take(2).take_while(|byte| matches!(byte, b'+' | b'#')).count();
        let whole = end + if signs > 0 && !self.is_word_at(end + signs) { signs } else { 0 };
        if (words > 1 || whole > end) && whole - start <= LONGEST {
            self.fold(start..whole);
            (self.visit)(&self.scratch, start..whole);
        }
        whole
    }

    #[inline]
    fn is_word_at(&self, at: usize) -> bool {
        match self.text.as_bytes().get(at) {
            Some(byte) if byte.is_ascii() => kind(*byte) & WORD != 0,
            Some(_) => self.text[at..].starts_with(is_word),
            None => false,
        }
    }

    /// A word of ASCII, with nothing after it that could belong to it: the common case, and a fast one. `None` where the
    /// word has to be looked at more closely.
    #[inline]
    fn plain_word(&mut self, start: usize) -> Option<usize> {
        let (mut end, mut seen, mut after) = (start, 0, 0);
        for byte in &self.text.as_bytes()[start..] {
            after = kind(*byte);
            if after & WORD == 0 {
                break;
            }
            seen |= after;
            end += 1;
        }
        if after & (WIDE | APOSTROPHE) != 0 || end - start > LONGEST {
            return None;
        }
        let word = start..end;
        if seen == LOWER && end - start <= SHORT {
            self.short_word(word);
            return Some(end);
        }
        if seen & UPPER == 0 && seen != LOWER {
            (self.visit)(&self.text[word.clone()], word.clone());
        } else {
            self.fold(word.clone());
            let is_stemmed = seen & !(LOWER | UPPER) == 0;
            let term = if is_stemmed { self.stems.of(&self.scratch) } else { &self.scratch };
            (self.visit)(term, word.clone());
        }
        if seen != UPPER && seen != DIGIT {
            self.plain_parts(word);
        }
        Some(end)
    }

    /// A short word of small letters.
    #[inline]
    fn short_word(&mut self, word: Range<usize>) {
        let bytes = self.text.as_bytes();
        if self.firsts[usize::from(bytes[word.start])] {
            let number = word_cache::number_at(bytes, word.clone());
            (self.visit)(self.stems.of_short(number, &self.text[word.clone()]), word);
        } else {
            self.passed += 1;
        }
    }

    /// The parts of a word of ASCII.
    fn plain_parts(&mut self, word: Range<usize>) {
        let (mut from, mut before) = (word.start, 0);
        for at in word.clone() {
            let kind = kind(self.text.as_bytes()[at]);
            let grown = kind & UPPER != 0 && before & LOWER != 0
                || (kind | before) & UNDERSCORE != 0
                || kind & (LOWER | UPPER) != 0 && before & DIGIT != 0 && at - from > 3;
            if grown && at > from {
                self.plain_part(from..at);
                from = at;
            }
            before = kind;
        }
        if from > word.start {
            self.plain_part(from..word.end);
        }
    }

    fn plain_part(&mut self, part: Range<usize>) {
        let bytes = &self.text.as_bytes()[part.clone()];
        if bytes.len() < 2 || bytes[0] == b'_' {
            return;
        }
        let seen = bytes.iter().fold(0, |seen, byte| seen | kind(*byte));
        if seen == LOWER && bytes.len() <= SHORT {
            self.short_word(part);
        } else if seen == DIGIT {
            (self.visit)(&self.text[part.clone()], part);
        } else {
            self.term(part.clone(), part);
        }
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
        self.parts(start..spoken);
        end
    }

    /// The parts of a word that is several grown together.
    fn parts(&mut self, word: Range<usize>) {
        let mut from = word.start;
        let mut previous = ' ';
        for (offset, c) in self.text[word.clone()].char_indices() {
            let at = word.start + offset;
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
        if from > word.start {
            self.part(from..word.end);
        }
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
        if self.scratch.bytes().all(|byte| byte.is_ascii_lowercase()) || is_cyrillic(&self.scratch)
        {
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
    if text.is_ascii() {
        let from = out.len();
        out.push_str(text);
        out[from..].make_ascii_lowercase();
        return;
    }
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

/// Whether a word is written in the letters of Russian: it is stemmed as such, whatever else the text has.
fn is_cyrillic(word: &str) -> bool {
    word.starts_with(|c: char| !c.is_ascii()) && word.chars().all(|c| matches!(c, 'а'..='я' | 'ё'))
}

/// Signs that join words to one name.
const fn joins(sign: u8) -> bool {
    matches!(sign, b'-' | b'.' | b'/' | b':' | b'@' | b'+' | b'#' | b'&' | b'\\' | b'=')
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
