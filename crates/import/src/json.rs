//! JSON that was damaged, or is of another shape than expected: as much as can be read of it.

use std::borrow::Cow;
use std::fmt;

use jiff::Timestamp;
use serde::de::{
    Deserialize, DeserializeOwned, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::{Map, Value};

/// So many places are tried as the beginning of a whole record after a torn one.
const MOST_TRIED: usize = 32;

/// What is nested more deeply is kept as a text, where the parser does not read a record as it is.
const DEEPEST: usize = 64;

/// What a record may take in memory beyond its own bytes: a list of empty objects takes two hundred times what it is written in.
const MOST_BESIDE: usize = 64 * 1024 * 1024;
/// So many times its bytes a long record may take on top: what agents write stays well below.
const MOST_TIMES: usize = 4;
/// About what a value takes, and what takes an object or a list.
const VALUE: usize = 100;
const NEST: usize = 500;
/// Shorter records are not looked through: whatever they are, they take little.
const SHORT: usize = 128 * 1024;

/// What could be read of a line.
pub(crate) struct Parsed<T> {
    pub(crate) value: T,
    /// Whether something of the line is lost.
    pub(crate) is_damaged: bool,
}

/// Reads a line: as it is, with what is wrong in it mended, or from where a whole record begins.
pub(crate) fn parse<T: DeserializeOwned>(line: &[u8]) -> Option<Parsed<T>> {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    if is_too_rich(line) {
        return None;
    }
    if let Ok(value) = serde_json::from_slice(line) {
        return Some(Parsed { value, is_damaged: false });
    }
    let mended = mend(line);
    if let Ok(value) = serde_json::from_str(&mended) {
        return Some(Parsed { value, is_damaged: matches!(mended, Cow::Owned(_)) });
    }
    if let Some(shallow) = shallow(&mended)
        && let Ok(value) = serde_json::from_str(&shallow)
    {
        return Some(Parsed { value, is_damaged: mended.as_bytes() != line });
    }
    // A record that was torn, with a whole one behind it on the same line.
    let begins = mended.match_indices("{\"").map(|(at, _)| at).skip(1);
    for at in begins.take(MOST_TRIED) {
        if serde_json::from_str::<IgnoredAny>(&mended[at..]).is_ok() {
            let value = serde_json::from_str(&mended[at..]).ok()?;
            return Some(Parsed { value, is_damaged: true });
        }
    }
    None
}

/// A value that has to be whole; nothing where it is not, or where it would take far more memory than its length lets expect.
pub(crate) fn value(text: &[u8]) -> Option<Value> {
    if is_too_rich(text) { None } else { serde_json::from_slice(text).ok() }
}

/// Why a record could not be read.
pub(crate) fn why_not(record: &[u8]) -> &'static str {
    if is_too_rich(record) { "it has too many values for its length" } else { "not valid JSON" }
}

/// Whether a record would take far more memory than its length lets expect.
fn is_too_rich(record: &[u8]) -> bool {
    if record.len() <= SHORT {
        return false;
    }
    let most = MOST_BESIDE.saturating_add(record.len().saturating_mul(MOST_TIMES));
    let (mut sum, mut is_inside, mut is_escaped) = (0_usize, false, false);
    for byte in record {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_inside => is_escaped = true,
            b'"' => is_inside = !is_inside,
            b',' if !is_inside => sum += VALUE,
            b'[' | b'{' if !is_inside => sum += NEST,
            _ => (),
        }
        if sum > most {
            return true;
        }
    }
    false
}

/// The same text with whatever is nested more deeply than the parser goes as a text in its place; nothing where it is not nested
/// so deeply.
fn shallow(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let (mut depth, mut is_inside, mut is_escaped) = (0_usize, false, false);
    // Where the part begins that becomes a text, and what of the text is in `out`.
    let (mut deep, mut done) = (None, 0);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_inside => is_escaped = true,
            b'"' => is_inside = !is_inside,
            b'[' | b'{' if !is_inside => {
                depth += 1;
                if depth == DEEPEST + 1 {
                    deep = Some(at);
                }
            }
            b']' | b'}' if !is_inside => {
                if depth == DEEPEST + 1
                    && let Some(from) = deep.take()
                {
                    out.push_str(&text[done..from]);
                    out.push_str(&Value::from(&text[from..=at]).to_string());
                    done = at + 1;
                }
                depth = depth.saturating_sub(1);
            }
            _ => (),
        }
    }
    out.push_str(&text[done..]);
    (done > 0).then_some(out)
}

/// The same text with what no parser takes made readable: bytes that are no text, half characters, raw control characters.
fn mend(line: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(line);
    let has_controls = text.chars().any(|char| char < ' ' && !char.is_ascii_whitespace());
    if !has_controls && !text.contains("\\u") && !text.contains(['\t', '\r']) {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_ref();
    let mut is_inside = false;
    while let Some(char) = rest.chars().next() {
        let taken = match char {
            '"' => {
                is_inside = !is_inside;
                out.push('"');
                1
            }
            '\\' => mend_escape(rest, &mut out),
            control if control < ' ' && is_inside => {
                out.push_str(&format!("\\u{:04x}", u32::from(control)));
                1
            }
            other => {
                out.push(other);
                other.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    Cow::Owned(out)
}

/// Copies an escape sequence; half of a character becomes the sign for what cannot be read.
fn mend_escape(rest: &str, out: &mut String) -> usize {
    let unit = |text: &str| {
        let digits = text.strip_prefix("\\u")?.get(..4)?;
        u32::from_str_radix(digits, 16).ok()
    };
    match unit(rest) {
        Some(0xd800..=0xdbff) => match rest.get(6..).and_then(unit) {
            Some(0xdc00..=0xdfff) => {
                out.push_str(&rest[..12]);
                12
            }
            _ => {
                out.push('\u{fffd}');
                6
            }
        },
        Some(0xdc00..=0xdfff) => {
            out.push('\u{fffd}');
            6
        }
        Some(_) => {
            out.push_str(&rest[..6]);
            6
        }
        None => {
            let next = rest[1..].chars().next().map_or(0, char::len_utf8);
            out.push_str(&rest[..=next]);
            1 + next
        }
    }
}

/// A text where there is one; anything else is nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Text(pub(crate) Option<String>);

impl Text {
    pub(crate) fn as_str(&self) -> Option<&str> {
        self.0.as_deref().filter(|text| !text.is_empty())
    }

    pub(crate) fn is(&self, other: &str) -> bool {
        self.0.as_deref() == Some(other)
    }

    pub(crate) fn owned(&self) -> Option<String> {
        self.as_str().map(str::to_owned)
    }
}

/// Whether there is a `true`; anything else is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Flag(pub(crate) bool);

struct Anything;

/// What a value is, as far as it is simple.
enum Simple {
    Text(String),
    Flag(bool),
    Other,
}

impl<'de> Visitor<'de> for Anything {
    type Value = Simple;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Simple, E> {
        Ok(Simple::Flag(flag))
    }

    fn visit_str<E>(self, text: &str) -> Result<Simple, E> {
        Ok(Simple::Text(text.to_owned()))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Simple, E> {
        Ok(Simple::Other)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Simple, E> {
        Ok(Simple::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Simple, E> {
        Ok(Simple::Other)
    }

    fn visit_unit<E>(self) -> Result<Simple, E> {
        Ok(Simple::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Simple, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Simple::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Simple, A::Error> {
        while fields.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Simple::Other)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(match from.deserialize_any(Anything)? {
            Simple::Text(text) => Self(Some(text)),
            _ => Self(None),
        })
    }
}

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(Self(matches!(from.deserialize_any(Anything)?, Simple::Flag(true))))
    }
}

/// What an object has in fields that we know; anything else is nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Loose<T>(pub(crate) Option<T>);

struct Inside<T>(std::marker::PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Inside<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Option<T>, A::Error> {
        T::deserialize(serde::de::value::MapAccessDeserializer::new(fields)).map(Some)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Option<T>, A::Error> {
        Anything.visit_seq(items).map(|_| None)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_str<E>(self, _: &str) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Option<T>, E> {
        Ok(None)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Loose<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Inside(std::marker::PhantomData)).map(Self)
    }
}

/// A list of objects, with what they have in fields that we know; anything else is nothing.
#[derive(Debug, Clone)]
pub(crate) struct Items<T>(pub(crate) Vec<T>);

impl<T> Default for Items<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

struct Each<T>(std::marker::PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Each<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<T>, A::Error> {
        let mut all = Vec::new();
        while let Some(Loose(item)) = items.next_element::<Loose<T>>()? {
            all.extend(item);
        }
        Ok(all)
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Vec<T>, A::Error> {
        Anything.visit_map(fields).map(|_| Vec::new())
    }

    fn visit_bool<E>(self, _: bool) -> Result<Vec<T>, E> {
        Ok(Vec::new())
    }

    fn visit_str<E>(self, _: &str) -> Result<Vec<T>, E> {
        Ok(Vec::new())
    }

    fn visit_i64<E>(self, _: i64) -> Result<Vec<T>, E> {
        Ok(Vec::new())
    }

    fn visit_u64<E>(self, _: u64) -> Result<Vec<T>, E> {
        Ok(Vec::new())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Vec<T>, E> {
        Ok(Vec::new())
    }

    fn visit_unit<E>(self) -> Result<Vec<T>, E> {
        Ok(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Items<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Each(std::marker::PhantomData)).map(Self)
    }
}

/// The text of a field, unless it is empty.
pub(crate) fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
}

pub(crate) fn number(value: &Value, name: &str) -> u64 {
    value.get(name).and_then(Value::as_u64).unwrap_or(0)
}

/// The items of a field that is a list.
pub(crate) fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(crate) fn object(fields: &[(&str, Value)]) -> Map<String, Value> {
    fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

/// A time as RFC 3339, or in milliseconds or seconds since 1970.
pub(crate) fn time(value: &Value) -> Option<Timestamp> {
    match value {
        Value::String(text) => instant(text),
        Value::Number(number) => number.as_f64().and_then(since_1970),
        _ => None,
    }
}

/// A time that a context can show, to the microsecond.
pub(crate) fn instant(text: &str) -> Option<Timestamp> {
    let at: Timestamp = text.parse().ok()?;
    within(Timestamp::from_microsecond(at.as_microsecond()).ok()?)
}

#[expect(clippy::cast_possible_truncation, reason = "bounded by the check before it")]
fn since_1970(number: f64) -> Option<Timestamp> {
    // Seconds have ten digits until the year 2286, milliseconds thirteen.
    let seconds = if number.abs() >= 1e11 { number / 1e3 } else { number };
    if !seconds.is_finite() || seconds.abs() > 2e11 {
        return None;
    }
    within(Timestamp::from_millisecond((seconds * 1e3).round() as i64).ok()?)
}

fn within(at: Timestamp) -> Option<Timestamp> {
    let (first, last) = (-62_135_596_800, 253_402_300_799);
    (first..=last).contains(&at.as_second()).then_some(at)
}

#[cfg(test)]
mod tests;
