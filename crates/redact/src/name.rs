//! What a name says about the value that is assigned to it.

/// How sure a name makes us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strength {
    /// Chosen by people: may be a word with a digit.
    Password,
    /// Made by machines: looks random.
    Secret,
    /// Could be the key of a table as well: the value has to look very random.
    Weak,
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sensitive {
    pub(super) what: &'static str,
    pub(super) strength: Strength,
}

pub(super) const PASSWORD: &str = "password";

/// All that [`classify`] can say.
pub(super) const SAID: &[&str] = &[PASSWORD, "secret", "token", "key", "credential"];

/// What a text is searched for to find names. Lower case; written with a capital and in capitals too.
pub(super) const TRIGGERS: &[&str] = &[
    "key",
    "token",
    "secret",
    "passw",
    "passphrase",
    "passcode",
    "pwd",
    "_pass",
    "credential",
    "creds",
    "auth",
    "jwt",
    "_pat",
];

/// Says which of several values it is, and nothing about their kind.
const QUALIFIERS: &[&str] = &[
    "value",
    "raw",
    "plain",
    "b64",
    "base64",
    "prod",
    "production",
    "dev",
    "development",
    "staging",
    "test",
    "live",
    "sandbox",
    "old",
    "new",
    "current",
    "primary",
    "secondary",
    "backup",
];

/// Before `key`: it is a secret one.
const OF_SECRET_KEYS: &[&str] = &[
    "api",
    "secret",
    "private",
    "access",
    "auth",
    "encryption",
    "encrypt",
    "signing",
    "master",
    "account",
    "storage",
    "shared",
    "admin",
    "service",
    "hmac",
    "jwt",
    "app",
    "application",
    "consumer",
    "subscription",
    "webhook",
    "license",
    "deploy",
    "client",
    "integration",
    "ingest",
    "security",
    "session",
];

/// Before `key`: it is the key of something.
const OF_OTHER_KEYS: &[&str] = &[
    "public",
    "primary",
    "foreign",
    "cache",
    "partition",
    "sort",
    "hash",
    "idempotency",
    "dedup",
    "index",
    "map",
    "object",
    "group",
    "range",
    "row",
    "storage_class",
    "translation",
    "i18n",
    "config",
    "composite",
    "unique",
    "shard",
    "routing",
    "hot",
    "shortcut",
    "publishable",
    "anon",
    "pub",
    "verify",
    "verifying",
];

/// Before `token`: it is a piece of text, or a place in a list.
const OF_OTHER_TOKENS: &[&str] = &[
    "next",
    "page",
    "continuation",
    "sync",
    "cancellation",
    "cancel",
    "eos",
    "bos",
    "pad",
    "unk",
    "max",
    "min",
    "special",
    "start",
    "stop",
    "end",
    "mask",
    "sep",
    "cls",
    "first",
    "last",
    "prev",
    "previous",
    "per",
    "output",
    "input",
    "cursor",
    "resume",
    "progress",
    "lock",
    "design",
    "punctuation",
    "string",
];

/// Before `pass`: it is a password.
const OF_PASSWORDS: &[&str] = &[
    "db", "database", "user", "admin", "root", "smtp", "mail", "email", "ftp", "sftp", "mysql",
    "postgres", "pg", "redis", "http", "https", "proxy", "auth", "login", "ssh", "sudo",
    "rabbitmq", "mongo", "mongodb", "ldap", "basic", "wifi", "keystore", "vault", "neo4j", "mqtt",
    "amqp",
];

const PASSWORDS: &[&str] = &["password", "passwd", "passphrase", "passcode", "pwd"];
const SECRET_KEYS: &[&str] = &[
    "apikey",
    "secretkey",
    "accesskey",
    "privatekey",
    "authkey",
    "signingkey",
    "encryptionkey",
    "masterkey",
    "accountkey",
];

/// What the name says, if it speaks of a secret. The last word counts: `token_count` is a number.
pub(super) fn classify(name: &str) -> Option<Sensitive> {
    // The folder one is in.
    if matches!(name, "PWD" | "OLDPWD") {
        return None;
    }
    let mut end = name.len();
    let mut last = word_before(name, &mut end)?;
    while is_any(last, QUALIFIERS) || last.bytes().all(|byte| byte.is_ascii_digit()) {
        last = word_before(name, &mut end)?;
    }
    let last = last.trim_end_matches(|c: char| c.is_ascii_digit());
    let before = word_before(name, &mut end);
    let follows = |list: &[&str]| before.is_some_and(|word| is_any(word, list));
    let is = |list: &[&str]| is_any(last, list);
    let ends = |list: &[&str]| list.iter().any(|word| ends_with(last, word));
    let (what, strength) = if ends(PASSWORDS) || (is(&["pass"]) && follows(OF_PASSWORDS)) {
        (PASSWORD, Strength::Password)
    } else if is(&["credential", "credentials", "creds", "authorization"]) {
        ("credential", Strength::Secret)
    } else if is(&["auth"]) {
        ("credential", Strength::Weak)
    } else if ends(&["token", "jwt"]) && !follows(OF_OTHER_TOKENS) {
        ("token", Strength::Secret)
    } else if is(&["pat"]) && before.is_some() {
        ("token", Strength::Weak)
    } else if ends(&["secret"]) {
        ("secret", Strength::Secret)
    } else if ends(SECRET_KEYS) || (is(&["key"]) && follows(OF_SECRET_KEYS)) {
        ("key", Strength::Secret)
    } else if is(&["key"]) && before.is_some() && !follows(OF_OTHER_KEYS) {
        ("key", Strength::Weak)
    } else {
        return None;
    };
    Some(Sensitive { what, strength })
}

fn is_any(word: &str, list: &[&str]) -> bool {
    list.iter().any(|one| one.eq_ignore_ascii_case(word))
}

fn ends_with(word: &str, end: &str) -> bool {
    let start = word.len().checked_sub(end.len());
    start.and_then(|start| word.get(start..)).is_some_and(|tail| tail.eq_ignore_ascii_case(end))
}

/// The last word before `end`, which moves to its beginning: `dbPassword`, `DB_PASSWORD` and `db-password` have two.
fn word_before<'a>(name: &'a str, end: &mut usize) -> Option<&'a str> {
    let bytes = name.as_bytes();
    let last = bytes[..*end].iter().rposition(u8::is_ascii_alphanumeric)?;
    let mut start = last;
    while start > 0 && bytes[start - 1].is_ascii_alphanumeric() {
        let (one, two) = (bytes[start - 1], bytes[start]);
        let three = bytes.get(start + 1).filter(|_| start < last);
        let rises = one.is_ascii_uppercase() && three.is_some_and(u8::is_ascii_lowercase);
        if two.is_ascii_uppercase() && (one.is_ascii_lowercase() || rises) {
            break;
        }
        start -= 1;
    }
    *end = start;
    name.get(start..=last)
}

/// A name in lower case, without what separates its words.
pub(super) fn squashed(name: &str) -> String {
    let plain = name.bytes().filter(u8::is_ascii_alphanumeric);
    plain.map(|byte| char::from(byte.to_ascii_lowercase())).collect()
}
