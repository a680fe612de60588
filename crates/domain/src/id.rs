//! Ids and names, and what is allowed in them.
//!
//! Whatever comes from outside passes through here before it becomes a key, a path or an argument.

mod workflow;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub use workflow::{SnapshotId, WorkflowId};

/// The number of a message in its session: 1, 2, 3, without gaps.
pub type Seq = u32;

/// The one durable id of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionId(Uuid);

/// Why a text is not an id or a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    #[error(
        "not a session id: {0} (expected a UUID, its beginning of at least 4 digits, or the short form that `list` shows)"
    )]
    Session(String),
    #[error("not a usable {what}: {given} (allowed: {allowed})")]
    Name { what: &'static str, given: String, allowed: &'static str },
}

impl SessionId {
    pub fn generate() -> Self {
        Self(Uuid::now_v7())
    }

    /// The id that follows from a digest in hexadecimal digits: the same wherever it is made.
    pub fn derived(digest: &str) -> Self {
        let mut bytes = [0; 16];
        for (byte, digits) in bytes.iter_mut().zip(digest.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).unwrap_or_default();
            *byte = u8::from_str_radix(digits, 16).unwrap_or(0);
        }
        Self(uuid::Builder::from_custom_bytes(bytes).into_uuid())
    }

    pub const fn from_uuid(uuid: Uuid) -> Self {
        Self(uuid)
    }

    /// The short form people see: eight digits of the random part, since the leading digits are the time.
    pub fn short(&self) -> String {
        self.handle()[..8].to_owned()
    }

    /// The random last group of the id, by which it can be found as well.
    pub fn handle(&self) -> String {
        self.to_string()[24..].to_owned()
    }

    /// The id that a message has when its writer gave it none.
    pub fn message(&self, seq: Seq) -> String {
        format!("{self}:{seq}")
    }

    /// The number in an id made by [`SessionId::message`] for this session.
    pub fn seq_of(&self, message: &str) -> Option<Seq> {
        let digits = message.strip_prefix(&self.to_string())?.strip_prefix(':')?;
        let seq = digits.parse().ok()?;
        (self.message(seq) == message).then_some(seq)
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_hyphenated().fmt(f)
    }
}

impl FromStr for SessionId {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let is_canonical = text.len() == 36;
        match Uuid::try_parse(text) {
            Ok(uuid) if is_canonical => Ok(Self(uuid)),
            Ok(_) | Err(_) => Err(Invalid::Session(shown(text))),
        }
    }
}

/// A session as people name it: the whole id, its beginning, or the beginning of its short form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRef(String);

impl SessionRef {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Fewer digits could be the number of a session in a list as well.
const SHORTEST: usize = 4;

impl FromStr for SessionRef {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let lower = text.to_ascii_lowercase();
        let digits = lower.bytes().filter(u8::is_ascii_hexdigit).count();
        let only_digits = lower.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        let placed = lower
            .bytes()
            .enumerate()
            .all(|(at, byte)| byte != b'-' || matches!(at, 8 | 13 | 18 | 23));
        if digits >= SHORTEST && only_digits && placed && lower.len() <= 36 {
            Ok(Self(lower))
        } else {
            Err(Invalid::Session(shown(text)))
        }
    }
}

impl From<SessionId> for SessionRef {
    fn from(id: SessionId) -> Self {
        Self(id.to_string())
    }
}

/// Checks the id that a writer gave a message.
pub fn check_message_id(text: &str) -> Result<(), Invalid> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._:@+=/#-".contains(c);
    let good = !text.is_empty()
        && text.len() <= 256
        && text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && text.chars().all(|c| allowed(c) || c == '_')
        && !text.contains("..");
    require(
        good,
        "message id",
        text,
        "1 to 256 letters, digits and . _ : @ + = / # -, starting with a letter, digit or _, without ..",
    )
}

/// Checks the name of a conversation.
pub fn check_conversation(text: &str) -> Result<(), Invalid> {
    let good = !text.trim().is_empty()
        && text.len() <= 200
        && !text.starts_with(['-', '.', ' '])
        && !text.contains(['/', '\\'])
        && !text.contains("..")
        && !text.chars().any(|c| c.is_control() || crate::quote::is_unsafe(c));
    require(
        good,
        "conversation name",
        text,
        "1 to 200 bytes of text on one line, not starting with - or ., without slashes and ..",
    )
}

/// Checks the name of an agent or a model.
pub fn check_agent(what: &'static str, text: &str) -> Result<(), Invalid> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._:@+/ ()[]-".contains(c);
    let good = !text.is_empty()
        && text.len() <= 128
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(allowed)
        && !text.contains("..");
    require(
        good,
        what,
        text,
        "1 to 128 letters, digits, spaces and . _ : @ + / ( ) [ ] -, starting with a letter or digit, without ..",
    )
}

/// Checks the kind of a session.
pub fn check_kind(text: &str) -> Result<(), Invalid> {
    let good = text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.len() <= 32
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    require(good, "kind", text, "1 to 32 lower-case letters, digits and -, starting with a letter")
}

/// Checks the name of a user.
pub fn check_user(text: &str) -> Result<(), Invalid> {
    let good = !text.trim().is_empty()
        && text.len() <= 128
        && !text.starts_with(['-', '.'])
        && !text.contains(['/', '\\'])
        && !text.chars().any(|c| c.is_control() || crate::quote::is_unsafe(c));
    require(
        good,
        "user",
        text,
        "1 to 128 bytes on one line, not starting with - or ., without slashes",
    )
}

/// Whether nobody would see anything of a text: it is white space and control characters.
pub fn is_blank(text: &str) -> bool {
    text.chars().all(|char| char.is_whitespace() || char.is_control())
}

/// Checks the text of a title.
pub fn check_title(text: &str) -> Result<(), Invalid> {
    let good = !is_blank(text) && text.len() <= 500 && !text.contains('\0');
    require(good, "title", text, "1 to 500 bytes of text, with a visible character")
}

fn require(
    good: bool,
    what: &'static str,
    given: &str,
    allowed: &'static str,
) -> Result<(), Invalid> {
    if good { Ok(()) } else { Err(Invalid::Name { what, given: shown(given), allowed }) }
}

/// A hostile text, cut and made safe to be put into an error message.
fn shown(text: &str) -> String {
    let head: String = text.chars().take(40).collect();
    let dots = if head.len() < text.len() { "…" } else { "" };
    format!("{head:?}{dots}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_that_nobody_would_see_is_none() {
        for blank in ["", " ", "\n\t", "\u{4}", " \u{85}\u{7f}", "\u{3000}"] {
            assert!(check_title(blank).is_err(), "{blank:?}");
        }
        for good in ["x", " x ", "\u{4}x", "漢字"] {
            assert_eq!(check_title(good), Ok(()), "{good:?}");
        }
    }

    const HOSTILE: &[&str] = &[
        "",
        "..",
        "../x",
        "-rf",
        "a\0b",
        "/etc/passwd",
        "con\n",
        "a/../b",
        "\u{202e}x",
        "%2e%2e/..",
    ];

    #[test]
    fn hostile_texts_are_no_ids_and_no_names() {
        let long = "x".repeat(4096);
        for text in HOSTILE.iter().copied().chain([long.as_str()]) {
            assert!(text.parse::<SessionId>().is_err(), "{text:?}");
            assert!(text.parse::<SessionRef>().is_err(), "{text:?}");
            assert!(check_message_id(text).is_err(), "{text:?}");
            assert!(check_conversation(text).is_err(), "{text:?}");
            assert!(check_agent("agent", text).is_err(), "{text:?}");
            assert!(check_kind(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn an_error_names_what_is_allowed_and_cuts_what_was_given() {
        let error = check_message_id(&"\u{1b}".repeat(5000)).unwrap_err().to_string();
        assert!(error.contains("allowed: 1 to 256 letters"), "{error}");
        assert!(error.len() < 600 && !error.contains('\u{1b}'), "{error}");
    }

    #[test]
    fn a_session_is_named_by_its_beginning_or_its_short_form() {
        let id = SessionId::generate();
        for text in [&id.to_string(), &id.to_string()[..13], &id.short(), &id.short()[..4]] {
            assert!(text.parse::<SessionRef>().is_ok(), "{text}");
        }
        for text in ["zzzz", "0199a-bc", "-", "0x1", "1", "12", "abc"] {
            assert!(text.parse::<SessionRef>().is_err(), "{text}");
        }
    }

    #[test]
    fn an_id_given_by_the_store_is_known_again() {
        let id = SessionId::generate();
        assert_eq!(id.seq_of(&id.message(17)), Some(17));
        assert_eq!(id.seq_of(&SessionId::generate().message(17)), None);
        assert_eq!(id.seq_of(&format!("{id}:017")), None);
    }
}
