//! Frames: one line of JSON-RPC, read leniently and without building more than is needed.
//!
//! Whatever is no frame (no object, too deeply nested, neither call nor answer) gives `None`.

use std::borrow::Cow;
use std::fmt;

use rethread_domain::message::nests_deeper;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::classify::RpcError;

const DEEPEST: usize = 128;
/// How many members of an object are looked at.
const MOST_FIELDS: usize = 256;
/// The longest text that is turned into a tree, which takes many times as much memory.
const LARGEST_TREE: usize = 2 * 1024 * 1024;
/// The deepest tree. Whoever keeps it wraps it, and a reader of JSON gives up at 128 levels, some earlier.
const DEEPEST_TREE: usize = 64;
/// What is kept of what does not become a tree.
const CUT: usize = 1024;

#[derive(Debug)]
pub(crate) enum Frame<'a> {
    Request { id: &'a str, method: Cow<'a, str>, params: &'a str },
    Notification { method: Cow<'a, str>, params: &'a str },
    Answer { id: u64, outcome: Result<&'a str, RpcError> },
}

impl<'a> Frame<'a> {
    pub(crate) fn parse(line: &'a [u8]) -> Option<Self> {
        let line = std::str::from_utf8(line).ok()?;
        let fields = Fields::parse(line)?;
        if !is_shallow(line) {
            return None;
        }
        let id = fields.get("id").filter(|id| *id != "null");
        let params = fields.get("params").unwrap_or("null");
        let Some(method) = fields.get("method") else {
            let id = own_id(id?)?;
            let outcome = match fields.get("error").filter(|error| *error != "null") {
                Some(error) => Err(RpcError::parse(error)),
                None => Ok(fields.get("result").unwrap_or("null")),
            };
            return Some(Self::Answer { id, outcome });
        };
        let method = serde_json::from_str::<Text<'_>>(method).ok()?.0;
        match id {
            Some(id) if id.starts_with(['{', '[', 't', 'f']) => None,
            Some(id) => Some(Self::Request { id, method, params }),
            None => Some(Self::Notification { method, params }),
        }
    }
}

/// An id of ours: a number, which some send back as a string.
fn own_id(id: &str) -> Option<u64> {
    id.trim_matches('"').parse().ok()
}

fn is_shallow(text: &str) -> bool {
    if text.len() <= DEEPEST * 2 {
        return true;
    }
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                if depth > DEEPEST {
                    return false;
                }
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => (),
        }
    }
    true
}

/// The members of an object, each as it was written. The last of several with one name counts.
#[derive(Debug, Default)]
pub(crate) struct Fields<'a>(Vec<(Cow<'a, str>, &'a str)>);

impl<'a> Fields<'a> {
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        // An array would do for a struct.
        let text = text.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']);
        if text.starts_with('{') { serde_json::from_str(text).ok() } else { None }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().rev().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    /// A text that is not empty.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        text(self.get(name)?).filter(|text| !text.is_empty())
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        serde_json::from_str(self.get(name)?).ok()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), *value))
    }
}

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::with_capacity(4);
        while let Some(Text(name)) = map.next_key()? {
            if fields.len() < MOST_FIELDS {
                fields.push((name, map.next_value::<&RawValue>()?.get()));
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(Fields(fields))
    }
}

/// A text, borrowed where nothing in it is escaped.
#[derive(serde::Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// What a JSON string says. A lone surrogate, which a careless cut leaves behind, is replaced.
pub(crate) fn text(raw: &str) -> Option<String> {
    if !raw.starts_with('"') {
        return None;
    }
    let lossy = || Some(String::from_utf8_lossy(&wtf8(raw)?).into_owned());
    serde_json::from_str(raw).ok().or_else(lossy)
}

/// The bytes of a JSON string; lone surrogates are encoded like other characters (WTF-8).
fn wtf8(raw: &str) -> Option<Vec<u8>> {
    struct Bytes;
    impl Visitor<'_> for Bytes {
        type Value = Vec<u8>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }

        fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
            Ok(bytes.to_vec())
        }
    }
    serde_json::Deserializer::from_str(raw).deserialize_bytes(Bytes).ok()
}

/// Joins a character (an emoji) that an agent cut in two: a chunk of its stream ends with the first surrogate of the
/// pair, and the next chunk begins with the second.
#[derive(Debug, Default)]
pub(crate) struct SplitCharacter(Option<u32>);

impl SplitCharacter {
    /// The text of the next chunk, with the character that the chunk before had begun.
    pub(crate) fn join(&mut self, raw: &str) -> Option<String> {
        let whole = text(raw)?;
        let is_plain = self.0.is_none() && !whole.ends_with(char::REPLACEMENT_CHARACTER);
        if is_plain || whole.is_empty() {
            return Some(whole);
        }
        let bytes = wtf8(raw)?;
        let mut rest = bytes.as_slice();
        let mut joined = String::new();
        if let Some(first) = self.0.take() {
            let second = match rest {
                [0xED, middle @ 0xB0..=0xBF, last, ..] => Some((middle & 0x0F, last & 0x3F)),
                _ => None,
            };
            let character = second.and_then(|(middle, last)| {
                let second = u32::from(middle) << 6 | u32::from(last);
                char::from_u32(0x1_0000 + (first << 10 | second))
            });
            rest = if character.is_some() { &rest[3..] } else { rest };
            joined.push(character.unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        if let [before @ .., 0xED, middle @ 0xA0..=0xAF, last] = rest {
            self.0 = Some(u32::from(middle & 0x0F) << 6 | u32::from(last & 0x3F));
            rest = before;
        }
        joined.push_str(&String::from_utf8_lossy(rest));
        Some(joined)
    }
}

/// The elements of an array, each as it was written; none where it is no array.
pub(crate) fn elements(raw: &str) -> Vec<&str> {
    let elements: Vec<&RawValue> = serde_json::from_str(raw).unwrap_or_default();
    elements.into_iter().map(RawValue::get).collect()
}

/// A tree; what is too large or too deep for one stays a text, cut.
pub(crate) fn tree(raw: &str) -> Value {
    tree_within(raw, LARGEST_TREE)
}

/// A tree of a text of at most so many bytes.
pub(crate) fn tree_within(raw: &str, most: usize) -> Value {
    whole_tree(raw, most).unwrap_or_else(|| cut(raw))
}

/// All of it as a tree; `None` where it is too large or too deep, or no text can hold what is in it.
fn whole_tree(raw: &str, most: usize) -> Option<Value> {
    let value = Some(raw).filter(|raw| raw.len() <= most);
    let value: Value = serde_json::from_str(value?).ok()?;
    // The finished tree is measured: a text in it may have been taken for a part that was not parsed yet.
    (!nests_deeper(&value, DEEPEST_TREE)).then_some(value)
}

/// The arguments of a tool, and whether that is all of them. What is cut is never taken for a command.
pub(crate) fn arguments(raw: &str) -> (Value, bool) {
    match whole_tree(raw, LARGEST_TREE) {
        Some(value) => (value, true),
        None => (Value::Array(vec![cut(raw)]), false),
    }
}

fn cut(raw: &str) -> Value {
    let beginning = &raw[..raw.floor_char_boundary(CUT)];
    Value::String(format!("[{} bytes, cut] {beginning}", raw.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_told_apart() {
        let parse = |line: &'static str| Frame::parse(line.as_bytes());
        assert!(matches!(
            parse(r#"{"jsonrpc":"2.0","id":"a","method":"m","params":{"x":1}}"#),
            Some(Frame::Request { id: "\"a\"", params: "{\"x\":1}", .. })
        ));
        assert!(matches!(parse(r#"{"method":"m"}"#), Some(Frame::Notification { .. })));
        assert!(matches!(parse(r#"{"method":"m","id":null}"#), Some(Frame::Notification { .. })));
        assert!(matches!(
            parse(r#"{"id":3,"result":null}"#),
            Some(Frame::Answer { id: 3, outcome: Ok("null") })
        ));
        assert!(matches!(parse(r#"{"id":"3"}"#), Some(Frame::Answer { id: 3, outcome: Ok(_) })));
        assert!(matches!(
            parse("\u{feff}{\"id\":3,\"error\":{\"code\":-1}}\r"),
            Some(Frame::Answer { outcome: Err(_), .. })
        ));
        for noise in [
            "",
            " ",
            "[]",
            "[1]",
            "1",
            "\"x\"",
            "null",
            "{",
            "{}",
            "{]",
            "hello {}",
            "{\"id\":{}}",
            r#"{"method":1}"#,
            r#"{"id":[1],"method":"m"}"#,
            r#"{"id":null,"error":{}}"#,
            "{}{}",
            r#"{"id":1.5,"result":1}"#,
            r#"{"id":-1,"result":1}"#,
            r#"{"id":true,"method":"m"}"#,
        ] {
            assert!(parse(noise).is_none(), "{noise}");
        }
    }

    #[test]
    fn nesting_is_bounded_wherever_it_is() {
        let nested = |depth: usize| {
            format!("{{\"method\":\"m\",\"params\":{}{}}}", "[".repeat(depth), "]".repeat(depth))
        };
        assert!(Frame::parse(nested(DEEPEST - 1).as_bytes()).is_some());
        assert!(Frame::parse(nested(DEEPEST).as_bytes()).is_none());
        assert!(Frame::parse(nested(100_000).as_bytes()).is_none());
        let quoted = format!("{{\"method\":\"m\",\"params\":\"{}\"}}", "\\\"[".repeat(10_000));
        assert!(Frame::parse(quoted.as_bytes()).is_some());
    }

    #[test]
    fn trees_leave_room_for_what_they_are_wrapped_in() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(tree(&nested(DEEPEST_TREE)).is_array());
        assert!(tree(&nested(DEEPEST_TREE + 1)).is_string());
        assert!(tree(&nested(10_000)).is_string());
        for name in ["$serde_json::private::RawValue", "\\u0024serde_json::private::RawValue"] {
            let hidden = format!("[{{\"{name}\":\"{}\"}}]", nested(DEEPEST_TREE));
            assert!(tree(&hidden).is_string(), "{hidden}");
        }
        assert!(tree_within("[1,2]", 4).is_string());
        assert_eq!(arguments(r#"{"command":"ls"}"#), (serde_json::json!({"command": "ls"}), true));
        for unread in [r#"{"command":"ls \ud83d"}"#, &nested(DEEPEST_TREE + 1)] {
            let (shown, is_whole) = arguments(unread);
            assert!(shown.is_array() && !is_whole, "{unread}");
        }
    }

    #[test]
    fn half_a_pair_is_replaced() {
        assert_eq!(text(r#""a\ud83d""#).as_deref(), Some("a\u{fffd}\u{fffd}\u{fffd}"));
        assert_eq!(text(r#""\ud83d\ude00""#).as_deref(), Some("😀"));
        assert_eq!(text("1"), None);
    }

    #[test]
    fn a_character_that_is_cut_in_two_is_joined() {
        for (chunks, expected) in [
            (vec![r#""a\ud83d""#, r#""\ude00b""#], "a😀b"),
            (vec![r#""\ud83d""#, r#""\ude00\ud83d""#, r#""\ude01""#], "😀😁"),
            (vec![r#""\udbff""#, r#""\udfff""#], "\u{10ffff}"),
            (vec![r#""a\ud83d""#, r#""b""#, r#""c""#], "a\u{fffd}bc"),
            (vec![r#""a\ud83d""#, "\"\"", r#""\ude00""#], "a😀"),
            (vec![r#""a\ufffd""#, r#""b""#], "a\u{fffd}b"),
            (vec![r#""\ude00""#, r#""b""#], "\u{fffd}\u{fffd}\u{fffd}b"),
        ] {
            let mut split = SplitCharacter::default();
            let joined: String = chunks.iter().map(|raw| split.join(raw).unwrap()).collect();
            assert_eq!(joined, expected, "{chunks:?}");
        }
        assert_eq!(SplitCharacter::default().join("1"), None);
    }
}
