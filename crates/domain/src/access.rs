//! Who may come in over the network, and how far.
//!
//! A token stands for a user and a role. Its secret is shown once and kept nowhere; what is kept is what it was made
//! for. A link is a token that is good for one thing only: to be changed for that of a browser.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::id::Invalid;

/// How far somebody may go; each may what those before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Read,
    Write,
    Admin,
}

crate::named!(Role { Read = "read", Write = "write", Admin = "admin" });

impl FromStr for Role {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let known = Self::ALL.into_iter().find(|role| role.as_str() == text);
        known.ok_or_else(|| invalid("role", text, "read, write or admin"))
    }
}

/// What a token is used as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pass {
    /// Sent with every request of a program.
    Token,
    /// Good once, to be changed for that of a browser.
    Link,
    /// Kept by a browser.
    Browser,
}

crate::named!(Pass { Token = "token", Link = "link", Browser = "browser" });

impl FromStr for Pass {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let known = Self::ALL.into_iter().find(|pass| pass.as_str() == text);
        known.ok_or_else(|| invalid("kind of token", text, "token, link or browser"))
    }
}

/// The id of a token: it may be shown, and lets nobody in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TokenId(String);

impl TokenId {
    const DIGITS: usize = 16;

    pub fn generate() -> Self {
        // The last of these digits are the random ones.
        let digits = Uuid::now_v7().simple().to_string();
        Self(digits[digits.len() - Self::DIGITS..].to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for TokenId {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() == Self::DIGITS && text.bytes().all(is_digit) {
            Ok(Self(text.to_owned()))
        } else {
            Err(invalid("token id", text, "16 hexadecimal digits, as `token list` shows them"))
        }
    }
}

impl TryFrom<String> for TokenId {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl From<TokenId> for String {
    fn from(id: TokenId) -> Self {
        id.0
    }
}

/// What is known of a token, all but its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    pub id: TokenId,
    pub name: String,
    pub role: Role,
    pub user: String,
    pub pass: Pass,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
    /// When somebody last came in with it.
    pub used_at: Option<Timestamp>,
    /// The token that it was made with: it ends with that one.
    pub parent: Option<TokenId>,
}

impl Token {
    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|expires| now < expires)
    }
}

/// Checks the name of a token.
pub fn check_name(text: &str) -> Result<(), Invalid> {
    let is_good = !text.trim().is_empty()
        && text.len() <= 128
        && !text.starts_with(['-', '.', ' '])
        && !text.chars().any(|c| c.is_control() || crate::quote::is_unsafe(c));
    let allowed = "1 to 128 bytes of text on one line, not starting with - or .";
    if is_good { Ok(()) } else { Err(invalid("token name", text, allowed)) }
}

fn invalid(what: &'static str, given: &str, allowed: &'static str) -> Invalid {
    let head: String = given.chars().take(40).collect();
    let dots = if head.len() < given.len() { "…" } else { "" };
    Invalid::Name { what, given: format!("{head:?}{dots}"), allowed }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn token() -> Token {
        Token {
            id: TokenId::generate(),
            name: "ci".into(),
            role: Role::Read,
            user: "anna".into(),
            pass: Pass::Token,
            created_at: at(0),
            expires_at: None,
            revoked_at: None,
            used_at: None,
            parent: None,
        }
    }

    #[test]
    fn a_token_is_good_until_it_expires_or_is_revoked() {
        let expiring = Token { expires_at: Some(at(10)), ..token() };
        assert!(token().is_valid(at(1_000)));
        assert!(expiring.is_valid(at(9)) && !expiring.is_valid(at(10)));
        assert!(!Token { revoked_at: Some(at(5)), ..token() }.is_valid(at(1)));
    }

    #[test]
    fn a_higher_role_is_greater() {
        assert!(Role::Read < Role::Write && Role::Write < Role::Admin);
        for role in Role::ALL {
            assert_eq!(role.as_str().parse(), Ok(role));
            assert_eq!(serde_json::to_value(role).unwrap(), role.as_str());
        }
        assert!("Admin".parse::<Role>().is_err());
    }

    #[test]
    fn ids_are_sixteen_digits_and_nothing_else() {
        let (one, other) = (TokenId::generate(), TokenId::generate());
        assert_ne!(one, other);
        assert_eq!(one.to_string().parse(), Ok(one));
        for text in
            ["", "0123456789abcde", "0123456789abcdefa", "0123456789ABCDEF", "../456789abcdef"]
        {
            assert!(text.parse::<TokenId>().is_err(), "{text}");
            assert!(serde_json::from_value::<TokenId>(text.into()).is_err(), "{text}");
        }
    }

    #[test]
    fn hostile_texts_are_no_names() {
        for text in ["", " ", "-rf", "a\nb", "a\0", "\u{202e}x", &"x".repeat(129)] {
            assert!(check_name(text).is_err(), "{text:?}");
        }
        assert_eq!(check_name("Anna's phone"), Ok(()));
    }
}
