//! Whether a value looks like a secret, or like a word, a path, a number or a piece of code.

use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use super::alphabet::{ANY_HEX, UUID, WORD};
use super::name::Strength;

/// Longer values are not passwords.
const LONGEST_PASSWORD: usize = 256;
const SHORTEST_PASSWORD: usize = 6;
const SHORTEST_SECRET: usize = 10;
const SHORTEST_WEAK: usize = 20;

/// Shorter words that are handed to a program are not taken for passwords.
const SHORTEST_GIVEN: usize = 4;

/// What follows the name of a flag where somebody writes about it.
const OF_SENTENCES: &[&str] = &[
    "also",
    "argument",
    "arguments",
    "because",
    "before",
    "command",
    "does",
    "either",
    "field",
    "file",
    "flag",
    "flags",
    "from",
    "have",
    "here",
    "input",
    "instead",
    "into",
    "must",
    "name",
    "needs",
    "only",
    "option",
    "options",
    "over",
    "parameter",
    "passed",
    "prompt",
    "prompts",
    "says",
    "should",
    "since",
    "source",
    "takes",
    "that",
    "then",
    "this",
    "today",
    "twice",
    "value",
    "variable",
    "what",
    "when",
    "where",
    "which",
    "while",
    "will",
    "with",
    "without",
    "works",
    "would",
];

/// What stands where a secret should be, with anything around it.
const HINTS: &[&str] = &[
    "your",
    "example",
    "placeholder",
    "changeme",
    "change_me",
    "change-me",
    "redacted",
    "xxxx",
    "dummy",
    "process.env",
    "environ",
    "getenv",
    "...",
    "…",
    "${",
    "$(",
    "{{",
    "#{",
    "<%",
    "%s",
    "replace",
    "insert",
];

/// What stands where a secret should be, by itself.
const STAND_INS: &[&str] = &[
    "true",
    "false",
    "none",
    "null",
    "nil",
    "undefined",
    "string",
    "number",
    "boolean",
    "required",
    "optional",
    "password",
    "passwd",
    "secret",
    "token",
    "apikey",
    "api_key",
    "api-key",
    "test",
    "testing",
    "default",
    "unset",
    "disabled",
    "enabled",
    "hidden",
    "sha256",
    "sha512",
    "hs256",
    "hs512",
    "rs256",
    "es256",
    "bcrypt",
    "argon2",
    "argon2id",
    "ed25519",
    "oauth2",
    "base64",
    "uint64",
    "int64",
    "float64",
    "uint32",
    "int32",
    "pass1234",
];

/// Whether it is surely a place for a secret rather than one.
pub(super) fn is_stand_in(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let bytes = value.as_bytes();
    STAND_INS.contains(&lower.as_str())
        || matches!(bytes, [b'$', next, ..] if next.is_ascii_alphabetic() || b"_{(".contains(next))
        || matches!(bytes, [b'%', .., b'%'] | [b'<', .., b'>'])
        || ["your", "changeme", "placeholder"].iter().any(|start| lower.starts_with(start))
        || distinct(bytes) < 4
}

/// Whether it looks like a place for a secret rather than one.
fn stands_for_another(value: &str) -> bool {
    matches!(value.as_bytes().first(), Some(b'<' | b'[' | b'{' | b'('))
        || HINTING.as_ref().is_some_and(|hints| hints.is_match(value))
        || is_stand_in(value)
}

static HINTING: LazyLock<Option<AhoCorasick>> =
    LazyLock::new(|| AhoCorasick::builder().ascii_case_insensitive(true).build(HINTS).ok());

/// Whether a value is a secret, given what its name says.
///
/// `loose`: the value stands by itself (in quotes, or as the value of a variable), not in a line of code.
pub(super) fn is_secret(value: &str, strength: Strength, loose: bool) -> bool {
    let looks = match strength {
        Strength::Password if loose => is_password(value),
        Strength::Password => value.len() >= SHORTEST_SECRET && is_random(value),
        Strength::Secret => {
            let least = if loose { SHORTEST_SECRET } else { SHORTEST_WEAK };
            value.len() >= least && !is_uuid(value) && (is_random(value) || is_messy(value))
        }
        Strength::Weak => {
            let hash = value.bytes().all(|byte| UUID.has(byte));
            loose && value.len() >= SHORTEST_WEAK && !hash && is_random(value)
        }
    };
    // The dearer questions come last: most values are code, and have been told apart by now.
    looks
        && (loose || !is_code(value))
        && value.bytes().all(|byte| byte > b' ' && byte != 127)
        && !stands_for_another(value)
        && !is_hash_or_image(value)
        && !value.contains("://")
}

/// Whether what was handed to a program as a password is one: a plain word is, a word of a sentence is not.
pub(super) fn is_given(value: &str, strength: Strength) -> bool {
    strength == Strength::Password
        && (SHORTEST_GIVEN..=LONGEST_PASSWORD).contains(&value.len())
        && value.bytes().all(|byte| byte > b' ' && byte != 127)
        && value.bytes().any(|byte| byte.is_ascii_lowercase() || byte > 127)
        && !value.starts_with('-')
        && !OF_SENTENCES.contains(&value.trim_end_matches(|c: char| c.is_ascii_punctuation()))
        && is_chosen(value)
        && !is_code(value)
}

/// Whether a password was chosen by somebody, rather than standing for another or coming with an example.
pub(super) fn is_chosen(value: &str) -> bool {
    !stands_for_another(value) && !is_stock(value)
}

fn is_password(value: &str) -> bool {
    let long_enough = (SHORTEST_PASSWORD..=LONGEST_PASSWORD).contains(&value.len());
    let odd = |byte: u8| byte.is_ascii_digit() || b"!@#$%^&*+=?~|:;".contains(&byte) || byte > 127;
    let mail =
        value.contains('@') && value.rsplit('@').next().is_some_and(|host| host.contains('.'));
    long_enough && value.bytes().any(odd) && !mail && !is_code(value) && !is_path(value)
}

/// Whether it is a call, or a field of something.
fn is_code(value: &str) -> bool {
    const OWNERS: &[&str] = &[
        "self", "this", "config", "settings", "options", "args", "params", "env", "request", "req",
        "user", "state", "ctx", "context", "props", "data",
    ];
    let name = |text: &str| text.bytes().all(|byte| WORD.has(byte) || byte == b'.');
    let call = value.split_once('(').is_some_and(|(before, _)| before.len() > 1 && name(before));
    let owner = value.split_once('.').filter(|_| name(value)).map(|(owner, _)| owner);
    call || owner.is_some_and(|owner| OWNERS.contains(&owner)) || value.contains("::")
}

/// Whether a run of letters and digits in it looks as if a machine had made it.
pub(super) fn is_random(value: &str) -> bool {
    let parts = value.as_bytes().split(|byte| !byte.is_ascii_alphanumeric());
    let (mut length, mut turns, mut digits) = (0, 0, false);
    for part in parts {
        let digit = part.iter().any(u8::is_ascii_digit);
        let changes = changes(part);
        let dense =
            part.len() >= SHORTEST_SECRET && digit && changes >= 3 && changes * 5 >= part.len();
        let mixed = part.len() >= 16 && changes * 10 >= part.len() * 3;
        if dense || mixed {
            return true;
        }
        (length, turns, digits) = (length + part.len(), turns + changes, digits || digit);
    }
    length >= 16 && digits && turns * 4 >= length && !is_words(value)
}

/// Letters, digits and several signs among them.
fn is_messy(value: &str) -> bool {
    let signs = value.bytes().filter(|byte| b"!@#$%^&*+=?~|(){}[]".contains(byte)).count();
    let digit = value.bytes().any(|byte| byte.is_ascii_digit());
    value.len() >= 16 && digit && signs >= 3 && !value.contains("()") && !value.ends_with(')')
}

/// How often letters and digits, or small letters and capitals, take turns. A capitalised word does not count.
pub(super) fn changes(bytes: &[u8]) -> usize {
    let class = |byte: u8| match byte {
        b'a'..=b'z' => 1,
        b'A'..=b'Z' => 2,
        b'0'..=b'9' => 3,
        _ => 0,
    };
    let pairs = bytes.windows(2).map(|pair| (class(pair[0]), class(pair[1])));
    pairs.filter(|(a, b)| a != b && *a != 0 && *b != 0 && (*a, *b) != (2, 1)).count()
}

/// Whether the body of a token is more than a word or a line of x.
pub(super) fn is_varied(body: &[u8]) -> bool {
    let example = |window: &[u8]| window.eq_ignore_ascii_case(b"example");
    let capitals = !body.iter().any(u8::is_ascii_lowercase);
    (capitals || changes(body) >= 2) && distinct(body) >= 6 && !body.windows(7).any(example)
}

/// Whether all parts are words, abbreviations, versions or numbers.
pub(super) fn is_words(value: &str) -> bool {
    let parts = value.split(|c: char| !c.is_alphanumeric());
    let word = |part: &str| {
        let letters = part.trim_end_matches(|c: char| c.is_ascii_digit());
        let number = part.len() - letters.len();
        let number_first = part.trim_start_matches(|c: char| c.is_ascii_digit());
        part.len() <= 6
            || letters.is_empty()
            || ((number <= 4 && letters.chars().all(char::is_alphabetic) && !is_scrambled(letters))
                || (part.len() - number_first.len() <= 4
                    && number_first.chars().all(char::is_alphabetic)))
    };
    parts.into_iter().all(word)
}

fn is_scrambled(letters: &str) -> bool {
    letters.len() >= 8 && changes(letters.as_bytes()) * 10 >= letters.len() * 3
}

pub(super) fn is_number(value: &str) -> bool {
    value.bytes().all(|byte| byte.is_ascii_digit() || b".,:-+_ TZ/".contains(&byte))
}

/// Whether it is a path, or several with colons between.
pub(super) fn is_path(value: &str) -> bool {
    let one = |path: &str| {
        let rooted = path.starts_with('/') && (path.matches('/').count() > 1 || is_words(path));
        let windows = path.as_bytes().get(1..3) == Some(b":\\");
        let from_here = ["./", "../", "~/", "\\\\"].iter().any(|start| path.starts_with(start));
        rooted || windows || from_here
    };
    one(value) || (value.contains(':') && value.split(':').all(|path| path.is_empty() || one(path)))
}

fn is_uuid(value: &str) -> bool {
    let dashes = [8, 13, 18, 23];
    value.len() == 36
        && value
            .bytes()
            .enumerate()
            .all(|(at, byte)| if dashes.contains(&at) { byte == b'-' } else { ANY_HEX.has(byte) })
}

fn is_hash_or_image(value: &str) -> bool {
    let lower = value.get(..8).unwrap_or(value).to_ascii_lowercase();
    let hash = ["sha1", "sha224", "sha256", "sha384", "sha512", "md5"].iter().any(|name| {
        let after = lower.strip_prefix(name).and_then(|rest| rest.chars().next());
        after.is_some_and(|c| "-:=/$".contains(c))
    });
    hash || lower.starts_with("data:")
}

fn distinct(bytes: &[u8]) -> u32 {
    let set = bytes.iter().fold(0_u128, |set, byte| set | 1 << (byte & 127));
    set.count_ones()
}

/// The password in `scheme://user:password@host`, or a token in its place.
pub(super) fn password_in_address(value: &str) -> Option<Range<usize>> {
    let start = value.find("://")? + 3;
    secret_in_authority(value, start)
}

/// See [`password_in_address`]; `start` is where the part with the host begins.
pub(super) fn secret_in_authority(text: &str, start: usize) -> Option<Range<usize>> {
    const LONGEST: usize = 2048;
    let rest = &text.as_bytes()[start..];
    let stops = |byte: &u8| *byte <= b' ' || b"/?#\"'<>\\`|{}()".contains(byte);
    let length = rest.iter().take(LONGEST).position(stops).unwrap_or(rest.len().min(LONGEST));
    let at = rest[..length].iter().rposition(|byte| *byte == b'@')?;
    let user = rest[..at].iter().position(|byte| *byte == b':');
    let from = user.map_or(0, |colon| colon + 1);
    let secret = std::str::from_utf8(&rest[from..at]).ok()?;
    let is_one = match user {
        Some(_) => secret.len() >= 3 && !stands_for_another(secret) && !is_stock(secret),
        None => is_secret(secret, Strength::Weak, true),
    };
    is_one.then_some(start + from..start + at)
}

/// Passwords of examples and of databases on one's own machine.
fn is_stock(password: &str) -> bool {
    ["pass", "postgres", "root", "admin", "user", "guest", "mysql", "pw", "pwd"].contains(&password)
}
