//! Sets of ASCII bytes that secrets are made of.

/// A set of ASCII bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Alphabet(u128);

impl Alphabet {
    /// Written as in a character class: `a-z0-9_-`. A hyphen that stands for itself comes last.
    pub(super) const fn new(class: &str) -> Self {
        let bytes = class.as_bytes();
        let mut set = 0;
        let mut at = 0;
        while at < bytes.len() {
            let first = bytes[at];
            let last = if at + 2 < bytes.len() && bytes[at + 1] == b'-' {
                at += 2;
                bytes[at]
            } else {
                first
            };
            let mut byte = first;
            while byte <= last {
                set |= 1 << byte;
                byte += 1;
            }
            at += 1;
        }
        Self(set)
    }

    pub(super) const fn has(self, byte: u8) -> bool {
        byte < 128 && self.0 >> byte & 1 == 1
    }
}

pub(super) const DIGITS: Alphabet = Alphabet::new("0-9");
pub(super) const HEX: Alphabet = Alphabet::new("0-9a-f");
pub(super) const ANY_HEX: Alphabet = Alphabet::new("0-9a-fA-F");
pub(super) const UUID: Alphabet = Alphabet::new("0-9a-fA-F-");
pub(super) const UPPER: Alphabet = Alphabet::new("A-Z0-9");
pub(super) const LOWER: Alphabet = Alphabet::new("a-z0-9");
pub(super) const ALNUM: Alphabet = Alphabet::new("A-Za-z0-9");
/// Letters, digits and underscores.
pub(super) const WORD: Alphabet = Alphabet::new("A-Za-z0-9_");
/// Base64 as it is written in addresses.
pub(super) const URL64: Alphabet = Alphabet::new("A-Za-z0-9_-");
pub(super) const DOTTED: Alphabet = Alphabet::new("A-Za-z0-9_.-");
pub(super) const BASE64: Alphabet = Alphabet::new("A-Za-z0-9+/");
pub(super) const PADDED64: Alphabet = Alphabet::new("A-Za-z0-9+/=");
