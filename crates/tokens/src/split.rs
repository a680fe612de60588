//! How a text is cut into pieces before it is encoded.
//!
//! The encoding says this by a regular expression, of which the first alternative that matches counts:
//!
//! ```text
//! [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//! [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//! \p{N}{1,3}
//! ?[^\s\p{L}\p{N}]+[\r\n/]*       (may begin with a space)
//! \s*[\r\n]+
//! \s+(?!\S)
//! \s+
//! ```
//!
//! It is written out here: a machine for it would have to be built at the start, and takes longer.

static BLOCKS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/blocks"));
static CLASSES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/classes"));

/// What a character is to the expression. The build script has the same numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// `\p{Lu}`, `\p{Lt}`
    Upper,
    /// `\p{Ll}`
    Lower,
    /// `\p{Lm}`, `\p{Lo}`: letters that are neither
    Letter,
    /// `\p{M}`: goes with letters, but is none
    Mark,
    /// `\p{N}`
    Digit,
    /// `\s` without line ends
    Space,
    LineEnd,
    Other,
}

impl Class {
    fn of(char: char) -> Self {
        let at = char as usize;
        let block = u16::from_le_bytes([BLOCKS[at / 128 * 2], BLOCKS[at / 128 * 2 + 1]]);
        match CLASSES[usize::from(block) * 128 + at % 128] {
            0 => Self::Upper,
            1 => Self::Lower,
            2 => Self::Letter,
            3 => Self::Mark,
            4 => Self::Digit,
            5 => Self::Space,
            6 => Self::LineEnd,
            _ => Self::Other,
        }
    }

    /// May stand before letters: neither a line end, a letter nor a digit.
    const fn is_prefix(self) -> bool {
        matches!(self, Self::Mark | Self::Space | Self::Other)
    }

    const fn is_upper_or_both(self) -> bool {
        matches!(self, Self::Upper | Self::Letter | Self::Mark)
    }

    const fn is_lower_or_both(self) -> bool {
        matches!(self, Self::Lower | Self::Letter | Self::Mark)
    }

    const fn is_space(self) -> bool {
        matches!(self, Self::Space | Self::LineEnd)
    }

    /// Neither white space, a letter nor a digit.
    const fn is_symbol(self) -> bool {
        matches!(self, Self::Mark | Self::Other)
    }
}

/// The pieces of a text, which together are the text.
pub(crate) fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let length = first(rest)?;
        let (piece, after) = rest.split_at(length);
        rest = after;
        Some(piece)
    })
}

/// The length of the first piece; none where there is no text.
fn first(text: &str) -> Option<usize> {
    plain(text.as_bytes()).or_else(|| any(text))
}

/// The length of the first piece, where that is what most pieces are: small letters, with or without a space before them, or
/// digits. None where what follows could belong to it, and where it is something else.
fn plain(text: &[u8]) -> Option<usize> {
    let digits = text.iter().take(3).take_while(|byte| byte.is_ascii_digit()).count();
    if digits > 0 {
        return (digits == 3 || text.get(digits).is_none_or(u8::is_ascii)).then_some(digits);
    }
    let space = usize::from(text.first() == Some(&b' '));
    let letters = text[space..].iter().take_while(|byte| byte.is_ascii_lowercase()).count();
    let end = space + letters;
    let goes_on = |byte: &u8| !byte.is_ascii() || *byte == b'\'';
    (letters > 0 && !text.get(end).is_some_and(goes_on)).then_some(end)
}

/// The length of the first piece, whatever it is.
fn any(text: &str) -> Option<usize> {
    let (char, class, length) = next(text)?;
    let found = if class == Class::Mark {
        // A mark can stand before a word, and else is one: the second alternative never gets as far as a mark.
        let end = mixed(&text[length..]).unwrap_or(0);
        Some(length + end)
    } else if class.is_prefix() {
        word(&text[length..]).map(|end| length + end)
    } else {
        word(text)
    };
    let found = found.map(|end| end + contraction(&text[end..]));
    Some(found.unwrap_or_else(|| match class {
        Class::Digit => run(text, 3, |class| class == Class::Digit),
        _ if char == ' ' && !starts_with_symbol(&text[1..]) => space(text),
        _ if char == ' ' => 1 + symbols(&text[1..]),
        _ if class.is_symbol() => symbols(text),
        _ => space(text),
    }))
}

#[inline]
fn next(text: &str) -> Option<(char, Class, usize)> {
    let char = text.chars().next()?;
    Some((char, Class::of(char), char.len_utf8()))
}

/// The length of the first characters, at most so many, that are all of a kind.
fn run(text: &str, most: usize, is: impl Fn(Class) -> bool) -> usize {
    let other = text.char_indices().take(most).find(|(_, char)| !is(Class::of(*char)));
    let all = || text.char_indices().nth(most).map_or(text.len(), |(at, _)| at);
    other.map_or_else(all, |(at, _)| at)
}

/// The first two alternatives, without what stands before and after the word.
fn word(text: &str) -> Option<usize> {
    mixed(text).or_else(|| {
        let upper = run(text, usize::MAX, Class::is_upper_or_both);
        (upper > 0).then_some(upper)
    })
}

/// Upper case, then lower case: the first alternative.
fn mixed(text: &str) -> Option<usize> {
    let (mut upper, mut last_both) = (0, None);
    for (at, char) in text.char_indices() {
        let class = Class::of(char);
        if class == Class::Lower {
            return Some(upper + run(&text[upper..], usize::MAX, Class::is_lower_or_both));
        }
        if !class.is_upper_or_both() {
            break;
        }
        upper = at + char.len_utf8();
        if class.is_lower_or_both() {
            last_both = Some(upper);
        }
    }
    // It wants a character at its end that can be lower case, and goes back to the last one.
    last_both
}

/// The length of `'s`, `'t`, `'re`, `'ve`, `'m`, `'ll` or `'d`, in either case.
fn contraction(text: &str) -> usize {
    let Some(after) = text.strip_prefix('\'') else { return 0 };
    let mut chars = after.chars();
    let (Some(first), second) = (chars.next(), chars.next()) else { return 0 };
    match (first.to_ascii_lowercase(), second.map(|char| char.to_ascii_lowercase())) {
        ('s' | 't' | 'm' | 'd', _) => 2,
        // The old long s is an s in another case, and has two bytes.
        ('r' | 'v', Some('e')) | ('l', Some('l')) | ('\u{17f}', _) => 3,
        _ => 0,
    }
}

fn starts_with_symbol(text: &str) -> bool {
    next(text).is_some_and(|(_, class, _)| class.is_symbol())
}

fn symbols(text: &str) -> usize {
    let end = run(text, usize::MAX, Class::is_symbol);
    let ends = text[end..].bytes().take_while(|byte| matches!(byte, b'\r' | b'\n' | b'/'));
    end + ends.count()
}

/// White space up to its last line end; else all of it but what stands before the next word; else one of it.
fn space(text: &str) -> usize {
    let (mut end, mut last, mut line_end) = (0, 0, None);
    for (at, char) in text.char_indices() {
        let class = Class::of(char);
        if !class.is_space() {
            break;
        }
        (last, end) = (at, at + char.len_utf8());
        if class == Class::LineEnd {
            line_end = Some(end);
        }
    }
    match line_end {
        Some(line_end) => line_end,
        None if end == text.len() || last == 0 => end,
        None => last,
    }
}
