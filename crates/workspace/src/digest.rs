//! Digests, by which folders know their messages.

/// The digest of a text, in hexadecimal digits.
pub fn digest(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}
