//! What is assigned to a name: in shells, settings, JSON, YAML, headers, addresses, markup and code.

use std::ops::Range;

use super::begun::OPEN;
use super::name::{self, Sensitive};
use super::rules::NAMED;
use super::span::Span;
use super::{judge, mask};

/// No name is longer, to either side of the word it was found by.
const LONGEST_NAME: usize = 64;

/// Nothing that is longer is the value of a name; keys in several lines have rules of their own.
const LONGEST_VALUE: usize = 4096;

/// Variables in which programs take a password.
const GIVEN: &[&str] = &["PGPASSWORD", "MYSQL_PWD"];

/// Between a name, what assigns, and a value.
const MOST_BLANKS: usize = 16;

/// Looks at names one after the other; remembers, so that no stretch is read again and again.
#[derive(Debug)]
pub(super) struct Names<'a> {
    text: &'a str,
    bytes: &'a [u8],
    /// Where the last name ended.
    seen: usize,
    /// The last stretches without an end of a value, for each kind of end.
    stretches: [Range<usize>; 4],
}

/// How a value is assigned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    Equals,
    Colon,
    Comma,
    Tag,
    Blank,
}

/// A value with the way it is written.
#[derive(Debug)]
struct Assigned {
    at: Range<usize>,
    /// It stands by itself, not in a line of code.
    loose: bool,
    /// It was handed to a program, so it is a password even where it is a plain word.
    given: bool,
}

impl<'a> Names<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, bytes: text.as_bytes(), seen: 0, stretches: [0..0, 0..0, 0..0, 0..0] }
    }

    /// The value of the name around `hit`, if it is a secret.
    pub(super) fn look(&mut self, hit: Range<usize>) -> Option<Span> {
        if hit.end <= self.seen {
            return None;
        }
        let Range { start, end } = self.name(hit);
        self.seen = end;
        let (sign, after) = self.sign(start, end)?;
        let name = &self.text[start..end];
        let sensitive = name::classify(name)?;
        let mut assigned = self.value(start..end, sign, after)?;
        assigned.given = self.is_given(start..end, sign, &assigned.at);
        if !self.is_secret(name, sensitive, &assigned) {
            // `password: str = "…"`: what came first was a type.
            let at = self.blanks(assigned.at.end);
            let again = sign == Sign::Colon && self.bytes.get(at) == Some(&b'=');
            assigned = again.then(|| self.quoted(self.blanks(at + 1)))??;
            if !self.is_secret(name, sensitive, &assigned) {
                return None;
            }
        }
        Some(self.span(name, sensitive, assigned.at))
    }

    /// The whole name around `hit`.
    fn name(&self, hit: Range<usize>) -> Range<usize> {
        let part = |byte: &&u8| byte.is_ascii_alphanumeric() || b"_-.".contains(byte);
        let rest = self.bytes[hit.end..].iter().take(LONGEST_NAME);
        let end = hit.end + rest.take_while(part).count();
        let before = self.bytes[..hit.start].iter().rev().take(LONGEST_NAME);
        hit.start - before.take_while(part).count()..end
    }

    /// From the name around `hit` to where it is sure what is assigned to it, or [`OPEN`] where what follows the text
    /// decides that. Nothing where nothing is assigned.
    pub(super) fn extent(&self, hit: Range<usize>) -> Option<Range<usize>> {
        /// What assigns is not longer: `%3D`.
        const LONGEST_SIGN: usize = 3;
        let Range { start, end } = self.name(hit);
        let rest = self.bytes[end..].iter();
        let between = rest.take_while(|byte| b"\\\"'`])? \t".contains(byte)).count();
        if self.bytes.len() - end - between < LONGEST_SIGN {
            return Some(start..OPEN);
        }
        let (_, after) = self.sign(start, end)?;
        name::classify(&self.text[start..end])?;
        Some(start..self.value_ends(after).unwrap_or(OPEN))
    }

    /// Where a value from `at` on has ended, whatever follows. All of it is in one line. It is in quotes; or it is a word,
    /// after one for its scheme, and then `=` may show that it was a type: three words without any of that end it.
    fn value_ends(&self, at: usize) -> Option<usize> {
        const MOST_WORDS: usize = 3;
        let at = self.blanks(at);
        let rest = &self.bytes[at..];
        if let Some(length) = rest.iter().position(|byte| *byte == b'\n') {
            return Some(at + length);
        }
        if let Some(quote) = rest.first().filter(|byte| b"\"'`".contains(byte)) {
            let stops = |byte: &u8| byte == quote || *byte == b'\\';
            let length = 1 + rest.iter().skip(1).position(stops)?;
            return (rest[length] == *quote).then_some(at + length + 1);
        }
        let mut end = at;
        let mut words = 0;
        for word in rest.split_inclusive(|byte| *byte <= b' ') {
            let is_blank = word[0] <= b' ';
            // The last one may go on.
            let has_ended = word.last().is_some_and(|byte| *byte <= b' ');
            if !has_ended || word.iter().any(|byte| b"=\"'`\\".contains(byte)) {
                return None;
            }
            end += word.len();
            words += usize::from(!is_blank);
            if words == MOST_WORDS {
                return Some(end - 1);
            }
        }
        None
    }

    fn span(&self, name: &str, sensitive: Sensitive, at: Range<usize>) -> Span {
        let vendor = vendor(name, &self.text[at.clone()]);
        vendor.map_or_else(
            || Span::name(sensitive.what, at.clone()),
            |what| Span::vendor(what, at.clone()),
        )
    }

    fn is_secret(&self, name: &str, sensitive: Sensitive, assigned: &Assigned) -> bool {
        let value = &self.text[assigned.at.clone()];
        vendor(name, value).is_some()
            || judge::is_secret(value, sensitive.strength, assigned.loose)
            || assigned.given && judge::is_given(value, sensitive.strength)
    }

    /// Whether the name at `start` is that of a flag, which nothing but a blank, a quote or a bracket stands before.
    fn is_flag(&self, start: usize) -> bool {
        let before = self.bytes[..start].last();
        self.bytes[start..].starts_with(b"--")
            && before.is_none_or(|byte| *byte <= b' ' || b"\"'`([{,".contains(byte))
    }

    /// Whether a value was handed to a program: as `--password VALUE`, or in a variable that only a program reads.
    fn is_given(&self, name: Range<usize>, sign: Sign, value: &Range<usize>) -> bool {
        let is_flag = self.is_flag(name.start);
        match sign {
            // A name in backticks or quotes is spoken about; so is one that ends a sentence.
            Sign::Blank => {
                let is_closed = self.bytes.get(name.end).is_some_and(|byte| b"\"'`".contains(byte));
                is_flag && !is_closed
            }
            Sign::Equals => {
                let is_tight =
                    value.start <= name.end + 2 && self.blanks(name.end + 1) == name.end + 1;
                is_tight && (is_flag || GIVEN.contains(&&self.text[name]))
            }
            Sign::Comma => is_flag,
            Sign::Colon | Sign::Tag => false,
        }
    }

    /// What assigns, and where it ends.
    fn sign(&self, start: usize, end: usize) -> Option<(Sign, usize)> {
        let mut at = end;
        while self.bytes.get(at) == Some(&b'\\') && at < end + MOST_BLANKS {
            at += 1;
        }
        let quoted = matches!(self.bytes.get(at), Some(b'"' | b'\'' | b'`'));
        at = if quoted { at + 1 } else { end };
        // Not without quotes: a mask ends with a bracket too.
        let brackets: &[u8] = if quoted { b"])?" } else { b"?" };
        let closers = self.bytes[at..].iter().take_while(|byte| brackets.contains(byte));
        at += closers.take(2).count();
        let tight = at;
        at = self.blanks(at);
        match (self.bytes.get(at)?, self.bytes.get(at + 1)) {
            (b'=', Some(b'=')) | (b':', Some(b':' | b'/')) => None,
            (b'=', Some(b'>')) | (b':', Some(b'=')) => Some((Sign::Equals, at + 2)),
            (b'=', _) => Some((Sign::Equals, at + 1)),
            (b':', _) => Some((Sign::Colon, at + 1)),
            (b'%', Some(b'3')) if matches!(self.bytes.get(at + 2), Some(b'D' | b'd')) => {
                Some((Sign::Equals, at + 3))
            }
            (b',', _) if quoted => Some((Sign::Comma, at + 1)),
            (b'>', _) if at == end && self.bytes[..start].ends_with(b"<") => {
                Some((Sign::Tag, at + 1))
            }
            _ if at > tight && self.is_flag(start) => Some((Sign::Blank, at)),
            _ => None,
        }
    }

    fn value(&mut self, name: Range<usize>, sign: Sign, after: usize) -> Option<Assigned> {
        let at = self.blanks(after);
        if let Some(quoted) = self.quoted(at) {
            return Some(Assigned { loose: sign != Sign::Comma, ..quoted });
        }
        if sign == Sign::Comma {
            return None;
        }
        let start = self.after_scheme(at);
        let end = self.stretch(3, start, |byte| byte <= b' ' || b"\"'`\\<>".contains(&byte))?;
        let variable = self.text[name.clone()].bytes().all(|byte| !byte.is_ascii_lowercase());
        let tight = at == after && at == name.end + 1;
        let in_query = self.bytes[..name.start].last().is_some_and(|byte| b"?&".contains(byte));
        let loose = sign == Sign::Equals && variable && tight && !in_query;
        let value = &self.bytes[start..end];
        let stops = |byte: &u8| b",;&)]}|".contains(byte);
        // A reference in code begins with `&`; there is no value that ends at once.
        let cut = value.iter().skip(1).position(stops).filter(|_| !loose);
        let length = cut.map_or(value.len(), |cut| cut + 1);
        let end = start + length;
        let loose = loose || in_query || self.ends_alone(sign, start != at, end, tight);
        (end > start).then_some(Assigned { at: start..end, loose, given: false })
    }

    /// Whether nothing of a line of code follows, nor stands before.
    fn ends_alone(&self, sign: Sign, scheme: bool, end: usize, tight: bool) -> bool {
        let line_ends = matches!(
            self.bytes.get(end),
            None | Some(b'\n' | b'\r' | b'\\' | b'#' | b'"' | b'\'' | b'<')
        ) || matches!(self.bytes.get(end..end + 2), Some(b" #" | b" \n" | b" \r"));
        match sign {
            Sign::Colon => scheme || line_ends,
            Sign::Equals => {
                tight && (line_ends || matches!(self.bytes.get(end), Some(b';' | b' ')))
            }
            Sign::Tag | Sign::Blank => true,
            Sign::Comma => false,
        }
    }

    /// A value in quotes, which may be escaped themselves.
    fn quoted(&mut self, at: usize) -> Option<Assigned> {
        let prefix = matches!(self.bytes.get(at..at + 2), Some([b'b' | b'r' | b'f', b'"' | b'\'']));
        let first = at + usize::from(prefix);
        let rest = self.bytes.get(first..)?.iter();
        let escapes = rest.take_while(|byte| **byte == b'\\').take(MOST_BLANKS).count();
        let quote = *self.bytes.get(first + escapes)?;
        let kind = b"\"'`".iter().position(|byte| *byte == quote)?;
        let start = first + escapes + 1;
        let mut end = self.stretch(kind, start, |byte| byte == quote || byte == b'\n')?;
        // An escaped quote inside; a few are enough, passwords are short.
        for _ in 0..4 {
            if escapes > 0
                || self.bytes.get(end) != Some(&quote)
                || !self.bytes[..end].ends_with(b"\\")
            {
                break;
            }
            end = self.stretch(kind, end + 1, |byte| byte == quote || byte == b'\n')?;
        }
        let closed = self.bytes.get(end) == Some(&quote);
        let inside = self.text.get(start..end).filter(|_| closed)?;
        let inside = if escapes > 0 { inside.trim_end_matches('\\') } else { inside };
        let end = start + inside.len();
        let start = self.after_scheme(start);
        (start < end).then_some(Assigned { at: start..end, loose: true, given: false })
    }

    /// Behind `Bearer` and its like.
    fn after_scheme(&self, at: usize) -> usize {
        let rest = &self.bytes[at..];
        let schemes: [&[u8]; 4] = [b"bearer ", b"basic ", b"token ", b"apikey "];
        let scheme = schemes.iter().find(|scheme| {
            rest.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        });
        scheme.map_or(at, |scheme| at + scheme.len())
    }

    fn blanks(&self, at: usize) -> usize {
        let rest = self.bytes.get(at..).unwrap_or_default().iter();
        at + rest.take(MOST_BLANKS).take_while(|byte| b" \t".contains(byte)).count()
    }

    /// Where the stretch from `start` ends, if it is short enough to be a value.
    fn stretch(&mut self, kind: usize, start: usize, ends: impl Fn(u8) -> bool) -> Option<usize> {
        let known = &mut self.stretches[kind];
        if start < known.start || start > known.end || known.start == known.end {
            let rest = self.bytes.get(start..)?;
            let length = rest.iter().position(|byte| ends(*byte)).unwrap_or(rest.len());
            *known = start..start + length;
        }
        (known.end - start <= LONGEST_VALUE).then_some(known.end)
    }
}

/// What the value of a field is, by the name of the field.
pub(super) fn of_field(name: &str, value: &str) -> Option<&'static str> {
    let too_long = name.len() > 2 * LONGEST_NAME || value.len() > LONGEST_VALUE;
    if too_long || name.contains(mask::BEGINS) {
        return None;
    }
    let sensitive = name::classify(name)?;
    let whole = judge::is_secret(value, sensitive.strength, true);
    vendor(name, value).or_else(|| whole.then_some(sensitive.what))
}

/// The vendor that the name tells of, if the value has the shape of its secrets.
fn vendor(name: &str, value: &str) -> Option<&'static str> {
    /// A shorter vendor has to be a word of its own.
    const SHORT: usize = 3;
    // Few have the shape, so names are seldom compared.
    let mut shaped = NAMED.iter().filter(|named| named.body.is(value)).peekable();
    shaped.peek().filter(|_| judge::is_varied(value.as_bytes()))?;
    let squashed = name::squashed(name);
    let named = shaped.find(|named| {
        let word = |part: &str| part.eq_ignore_ascii_case(named.vendor);
        if named.vendor.len() <= SHORT {
            name.split(['_', '-', '.']).any(word)
        } else {
            squashed.contains(named.vendor)
        }
    });
    named.map(|named| named.what)
}
