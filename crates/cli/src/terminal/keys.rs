//! Keys, read from the bytes that a terminal sends.

/// What was pressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Key {
    Char(char),
    /// Several lines at once, however they came to be there.
    Paste(String),
    Enter,
    AltEnter,
    Tab,
    BackTab,
    Escape,
    Backspace,
    Delete,
    Left,
    Right,
    Up,
    Down,
    Home,
    End,
    WordLeft,
    WordRight,
    /// The word before the cursor.
    DeleteWord,
    /// The word after it.
    DeleteWordAfter,
    Ctrl(char),
    /// The terminal is gone.
    Gone,
}

/// The longest sequence that means something; what is longer is dropped.
const LONGEST: usize = 64;
/// The largest paste that is taken.
const MOST_PASTED: usize = 4 << 20;
const PASTE_ENDS: &[u8] = b"\x1b[201~";

/// Bytes in, keys out. A sequence may come in several pieces.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    bytes: Vec<u8>,
    paste: Option<Vec<u8>>,
}

/// What the bytes at the beginning are.
enum Read {
    Key(Key, usize),
    Nothing(usize),
    /// More has to come.
    Unfinished,
}

impl Parser {
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.bytes.extend_from_slice(bytes);
        let mut keys = Vec::new();
        loop {
            if self.paste.is_some() {
                match self.pasted() {
                    Some(key) => keys.push(key),
                    None => break,
                }
            }
            if self.bytes.starts_with(b"\x1b[200~") {
                self.bytes.drain(..6);
                self.paste = Some(Vec::new());
                continue;
            }
            match read(&self.bytes) {
                Read::Key(key, length) => {
                    self.bytes.drain(..length);
                    keys.push(key);
                }
                Read::Nothing(length) => drop(self.bytes.drain(..length)), // Not a key of ours.
                Read::Unfinished => break,
            }
        }
        keys
    }

    /// Whether what came may be the Escape key, or the beginning of another one.
    pub(crate) fn is_undecided(&self) -> bool {
        self.paste.is_none() && self.bytes.first() == Some(&0x1b)
    }

    /// Nothing followed: it was the key.
    pub(crate) fn decide(&mut self) -> Option<Key> {
        if !self.is_undecided() {
            return None;
        }
        self.bytes.clear();
        Some(Key::Escape)
    }

    /// The whole of what was pasted, when it has ended.
    fn pasted(&mut self) -> Option<Key> {
        let end = self.bytes.windows(PASTE_ENDS.len()).position(|bytes| bytes == PASTE_ENDS);
        let paste = self.paste.as_mut()?;
        let Some(end) = end else {
            // Its end may have come in part.
            let whole = self.bytes.len().saturating_sub(PASTE_ENDS.len());
            let more = self.bytes.drain(..whole);
            if paste.len() < MOST_PASTED {
                paste.extend(more);
            }
            return None;
        };
        paste.extend(self.bytes.drain(..end));
        self.bytes.drain(..PASTE_ENDS.len());
        let paste = self.paste.take()?;
        let text = String::from_utf8_lossy(&paste).replace("\r\n", "\n").replace('\r', "\n");
        Some(Key::Paste(text))
    }
}

fn read(bytes: &[u8]) -> Read {
    let Some(first) = bytes.first() else { return Read::Unfinished };
    let key = match first {
        // What was typed before the terminal was ours has line ends.
        b'\r' | b'\n' => Key::Enter,
        b'\t' => Key::Tab,
        0x7f | 0x08 => Key::Backspace,
        0x17 => Key::DeleteWord,
        0x1b => return escaped(bytes),
        control @ 1..=26 => Key::Ctrl(char::from(control + b'a' - 1)),
        0 | 27..=31 => return Read::Nothing(1),
        _ => return character(bytes),
    };
    Read::Key(key, 1)
}

fn character(bytes: &[u8]) -> Read {
    let length = match bytes[0] {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        0x80.. => return Read::Nothing(1),
        _ => 1,
    };
    let Some(bytes) = bytes.get(..length) else { return Read::Unfinished };
    match std::str::from_utf8(bytes).ok().and_then(|text| text.chars().next()) {
        Some(c) => Read::Key(Key::Char(c), length),
        None => Read::Nothing(1),
    }
}

fn escaped(bytes: &[u8]) -> Read {
    match bytes.get(1) {
        None => Read::Unfinished,
        Some(b'[') => sequence(bytes),
        Some(b'O') => match bytes.get(2) {
            None => Read::Unfinished,
            Some(last) => named(*last, &[]).map_or(Read::Nothing(3), |key| Read::Key(key, 3)),
        },
        Some(b'\r' | b'\n') => Read::Key(Key::AltEnter, 2),
        Some(b'b') => Read::Key(Key::WordLeft, 2),
        Some(b'f') => Read::Key(Key::WordRight, 2),
        Some(b'd') => Read::Key(Key::DeleteWordAfter, 2),
        Some(0x7f | 0x08) => Read::Key(Key::DeleteWord, 2),
        // Twice is once.
        Some(0x1b) => Read::Key(Key::Escape, 1),
        Some(_) => Read::Nothing(2),
    }
}

/// A sequence that ends with a letter or a tilde.
fn sequence(bytes: &[u8]) -> Read {
    let body = &bytes[2..];
    let Some(end) = body.iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
        return if body.len() > LONGEST { Read::Nothing(bytes.len()) } else { Read::Unfinished };
    };
    let text = String::from_utf8_lossy(&body[..end]);
    let numbers: Vec<u16> = text.split(';').map(|part| part.parse().unwrap_or(0)).collect();
    let length = end + 3;
    named(body[end], &numbers).map_or(Read::Nothing(length), |key| Read::Key(key, length))
}

fn named(last: u8, numbers: &[u16]) -> Option<Key> {
    // Shift is 1, Alt 2, Ctrl 4, and one more.
    let with = numbers.get(1).map_or(0, |with| with.saturating_sub(1));
    let is_word = with & 6 != 0;
    let key = match (last, numbers.first().copied().unwrap_or(0)) {
        (b'A', _) => Key::Up,
        (b'B', _) => Key::Down,
        (b'C', _) if is_word => Key::WordRight,
        (b'D', _) if is_word => Key::WordLeft,
        (b'C', _) => Key::Right,
        (b'D', _) => Key::Left,
        (b'H', _) | (b'~', 1 | 7) => Key::Home,
        (b'F', _) | (b'~', 4 | 8) => Key::End,
        (b'Z', _) => Key::BackTab,
        (b'~', 3) if is_word => Key::DeleteWordAfter,
        (b'~', 3) => Key::Delete,
        // As some terminals tell of Enter with Shift or Alt.
        (b'u', 13) if with != 0 => Key::AltEnter,
        (b'~', 27) if numbers.get(2) == Some(&13) => Key::AltEnter,
        (b'u', 27) => Key::Escape,
        _ => return None,
    };
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: &[u8]) -> Vec<Key> {
        Parser::default().feed(bytes)
    }

    #[test]
    fn keys_are_told_apart() {
        let expected = [
            Key::Char('a'),
            Key::Char('ü'),
            Key::Char('語'),
            Key::Enter,
            Key::Backspace,
            Key::Ctrl('c'),
            Key::Left,
            Key::WordLeft,
            Key::Home,
            Key::Delete,
            Key::BackTab,
            Key::AltEnter,
            Key::Up,
        ];
        let bytes = "aü語\r\u{7f}\u{3}\u{1b}[D\u{1b}[1;5D\u{1b}[H\u{1b}[3~\u{1b}[Z\u{1b}\r\u{1b}OA";
        assert_eq!(keys(bytes.as_bytes()), expected);
        // However the bytes arrive.
        let mut parser = Parser::default();
        let slowly: Vec<Key> = bytes.bytes().flat_map(|byte| parser.feed(&[byte])).collect();
        assert_eq!(slowly, expected);
    }

    #[test]
    fn escape_alone_is_decided_by_what_does_not_follow() {
        let mut parser = Parser::default();
        assert_eq!(parser.feed(b"\x1b"), []);
        assert!(parser.is_undecided());
        assert_eq!(parser.decide(), Some(Key::Escape));
        assert_eq!(parser.feed(b"x"), [Key::Char('x')]);
        assert_eq!(parser.decide(), None);
        assert_eq!(keys(b"\x1b\x1b[A"), [Key::Escape, Key::Up]);
    }

    #[test]
    fn what_is_pasted_is_one_key() {
        let mut parser = Parser::default();
        let bytes = b"\x1b[200~one\rtwo\x1b[Athree\x1b[201~!";
        let slowly: Vec<Key> = bytes.iter().flat_map(|byte| parser.feed(&[*byte])).collect();
        assert_eq!(slowly, [Key::Paste("one\ntwo\x1b[Athree".to_owned()), Key::Char('!')]);
        assert_eq!(keys(bytes), slowly);
    }

    #[test]
    fn what_is_no_key_is_passed_over() {
        let noise =
            [b"\x1b[?62;c\x1b[<0;1;2M\xff\xc3x".as_slice(), b"\x1b[", &[b'1'; 100], b"~y"].concat();
        let found = keys(&noise);
        assert_eq!(found.last(), Some(&Key::Char('y')), "{found:?}");
        assert!(found.iter().all(|key| matches!(key, Key::Char(_))), "{found:?}");
    }
}
