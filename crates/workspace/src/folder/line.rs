//! One record of a log as a line: `{"sum":"…","id":"…","after":"…","v":1,"kind":"message",…}`.
//!
//! `sum` comes first and covers every byte that follows it, so that an edit or a flipped bit anywhere is noticed.

use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::{Map, Value};

use crate::error::Error;

/// The longest line that is read or written, in bytes.
pub const LONGEST_LINE: usize = 128 << 20;

/// The version of the lines that we write.
pub(super) const VERSION: u64 = 1;

/// What comes before a sum; after it follow 16 digits, then [`AFTER_SUM`].
pub(super) const BEFORE_SUM: &[u8] = br#"{"sum":""#;
const AFTER_SUM: &[u8] = br#"","#;
const SUM_DIGITS: usize = 16;
/// Where the bytes begin that the sum covers.
pub(super) const COVERED_FROM: usize = BEFORE_SUM.len() + SUM_DIGITS + AFTER_SUM.len();

const LONGEST_ID: usize = 200;
/// Fewer than the reader allows, because the line itself is one level.
const DEEPEST: usize = 100;
const KNOWN: [&str; 10] =
    ["sum", "id", "after", "v", "kind", "role", "content", "timestamp", "conversation", "agent"];

/// A record of a log.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Line {
    pub id: String,
    /// The id of the record before it, as its writer saw it; of the session for the first. After a merge two records
    /// can follow the same one: these are two branches.
    pub after: String,
    pub kind: String,
    pub role: String,
    pub content: String,
    pub timestamp: String,
    pub conversation: String,
    pub agent: Option<String>,
    /// All other fields, in their order.
    pub other: Map<String, Value>,
}

/// A record that somebody wrote or changed by hand: only what it says and who says it is sure to be there.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Loose {
    pub id: Option<String>,
    pub after: Option<String>,
    pub kind: Option<String>,
    pub role: String,
    pub content: String,
    pub timestamp: Option<String>,
    pub conversation: Option<String>,
    pub agent: Option<String>,
    pub other: Map<String, Value>,
}

impl Line {
    /// Adds the line with its newline to `bytes`.
    pub(super) fn render(&self, bytes: &mut Vec<u8>) -> Result<(), Error> {
        let refuse = |why| Error::BadLine { id: self.id.chars().take(LONGEST_ID).collect(), why };
        if !is_id(&self.id) || !is_id(&self.after) {
            return Err(refuse("its id or the one before is empty, too long or not plain text"));
        }
        if self.other.keys().any(|key| is_known(key)) {
            return Err(refuse("one of its other fields has the name of a known one"));
        }
        if self.other.values().any(|value| !is_shallow(value)) {
            return Err(refuse("one of its other fields is nested too deeply"));
        }
        let start = bytes.len();
        bytes.extend_from_slice(BEFORE_SUM);
        bytes.extend_from_slice(&[b'0'; SUM_DIGITS]);
        bytes.extend_from_slice(AFTER_SUM);
        let covered = bytes.len();
        // The fields come as an object, whose brace gives way to the sum.
        let brace = bytes.len() - 1;
        bytes.truncate(brace);
        if serde_json::to_writer(&mut *bytes, &Fields(self)).is_err() {
            bytes.truncate(start);
            return Err(refuse("it cannot be written as JSON"));
        }
        bytes[brace] = b',';
        if bytes.len() - start > LONGEST_LINE {
            bytes.truncate(start);
            return Err(refuse("it is too long"));
        }
        let sum = sum(&bytes[covered..]);
        bytes[start + BEFORE_SUM.len()..][..SUM_DIGITS].copy_from_slice(sum.as_bytes());
        bytes.push(b'\n');
        Ok(())
    }
}

/// The fields of a line in their order, without the sum.
struct Fields<'line>(&'line Line);

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let line = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &line.id)?;
        map.serialize_entry("after", &line.after)?;
        map.serialize_entry("v", &VERSION)?;
        map.serialize_entry("kind", &line.kind)?;
        map.serialize_entry("role", &line.role)?;
        map.serialize_entry("content", &line.content)?;
        map.serialize_entry("timestamp", &line.timestamp)?;
        map.serialize_entry("conversation", &line.conversation)?;
        if let Some(agent) = &line.agent {
            map.serialize_entry("agent", agent)?;
        }
        for (key, value) in &line.other {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

fn sum(covered: &[u8]) -> String {
    let mut hex = blake3::hash(covered).to_hex().to_string();
    hex.truncate(SUM_DIGITS);
    hex
}

/// Whether these bytes begin like a line that we wrote.
pub(super) fn begins_with_sum(bytes: &[u8]) -> bool {
    bytes.len() > COVERED_FROM
        && bytes.starts_with(BEFORE_SUM)
        && bytes[BEFORE_SUM.len()..][..SUM_DIGITS].iter().all(|byte| is_sum_digit(*byte))
        && bytes[..COVERED_FROM].ends_with(AFTER_SUM)
}

fn is_sum_digit(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

/// Whether this is a text that could have been a sum, under whatever name.
pub(super) fn is_sum(text: &str) -> bool {
    text.len() == SUM_DIGITS && text.as_bytes().iter().all(u8::is_ascii_hexdigit)
}

/// Whether these bytes are a line whose sum is right, to the last of them.
pub(super) fn has_right_sum(bytes: &[u8]) -> bool {
    begins_with_sum(bytes)
        && sum(&bytes[COVERED_FROM..]).as_bytes() == &bytes[BEFORE_SUM.len()..][..SUM_DIGITS]
}

/// Ids come from anywhere and are only data; this is what we take on.
pub(crate) fn is_id(text: &str) -> bool {
    (1..=LONGEST_ID).contains(&text.len()) && !text.contains(char::is_control)
}

/// Without recursion, which too deep a value would exhaust.
fn is_shallow(value: &Value) -> bool {
    let mut level = vec![value];
    for _ in 0..DEEPEST {
        let mut below: Vec<&Value> = Vec::new();
        for value in level {
            match value {
                Value::Array(values) => below.extend(values),
                Value::Object(fields) => below.extend(fields.values()),
                _ => (),
            }
        }
        level = below;
        if level.is_empty() {
            return true;
        }
    }
    false
}

/// Whether a line has a field of this name.
pub(super) fn is_known(key: &str) -> bool {
    KNOWN.contains(&key)
}

/// Why a record that is JSON is none of ours.
pub(super) const NOT_A_MESSAGE: &str = "it has no role and content as text";
pub(super) const BAD_FIELD: &str = "one of its fields is not what it should be";

impl Loose {
    /// Sorts the fields of an object; `sum` and `v` are left out.
    pub(super) fn from_fields(fields: Map<String, Value>) -> Result<Self, &'static str> {
        let mut loose = Self::default();
        let (mut role, mut content) = (None, None);
        for (key, value) in fields {
            let place = match key.as_str() {
                "sum" | "v" => continue,
                "id" => &mut loose.id,
                "after" => &mut loose.after,
                "kind" => &mut loose.kind,
                "role" => &mut role,
                "content" => &mut content,
                "timestamp" => &mut loose.timestamp,
                "conversation" => &mut loose.conversation,
                "agent" => &mut loose.agent,
                _ => {
                    loose.other.insert(key, value);
                    continue;
                }
            };
            *place = match value {
                Value::String(text) => Some(text),
                Value::Null => None,
                _ if matches!(key.as_str(), "role" | "content") => return Err(NOT_A_MESSAGE),
                _ => return Err(BAD_FIELD),
            };
        }
        if [&loose.id, &loose.after].into_iter().flatten().any(|id| !is_id(id)) {
            return Err("its id or the one before is empty, too long or not plain text");
        }
        (loose.role, loose.content) = role.zip(content).ok_or(NOT_A_MESSAGE)?;
        Ok(loose)
    }

    /// As a record that has everything.
    pub(super) fn complete(self) -> Option<Line> {
        Some(Line {
            id: self.id?,
            after: self.after?,
            kind: self.kind?,
            role: self.role,
            content: self.content,
            timestamp: self.timestamp?,
            conversation: self.conversation?,
            agent: self.agent,
            other: self.other,
        })
    }
}
