//! Text from outside, made fit for one line of bounded length.

/// Returns at most so many characters, the last of them … where something is missing.
pub(crate) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some(_) => text.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// Returns one printable line of at most so many characters.
pub(crate) fn line(text: &str, most: usize) -> String {
    let printable: String = text
        .chars()
        .filter(|c| c.is_whitespace() || !(c.is_control() || is_invisible(*c)))
        .collect();
    cut(&printable.split_whitespace().collect::<Vec<_>>().join(" "), most)
}

/// Returns one printable line in which each character is written as `escape` says, all of it at most so long. It is
/// cut between characters, never within what stands for one.
pub(crate) fn escaped<E>(text: &str, most: usize, escape: impl Fn(char) -> E) -> String
where
    E: Iterator<Item = char>,
{
    let text = line(text, usize::MAX);
    let mut written = String::new();
    let mut length = 0;
    let mut pieces = text.chars().map(|c| escape(c).collect::<String>()).peekable();
    while let Some(piece) = pieces.next() {
        let room = most - length - usize::from(pieces.peek().is_some());
        // Receivers count in UTF-16 at worst.
        let size = piece.encode_utf16().count();
        if size > room {
            written.push('…');
            break;
        }
        length += size;
        written.push_str(&piece);
    }
    written
}

/// Whether a character only changes how others are shown: of no width, or turning the direction of writing.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doubled(c: char) -> impl Iterator<Item = char> {
        [c, c].into_iter().take(if c == 'x' { 2 } else { 1 })
    }

    #[test]
    fn one_printable_line_is_left() {
        assert_eq!(line(" a\r\n\tb\u{1b}[31m\u{7}c\u{202e}d\u{0}", 100), "a b[31mcd");
        assert_eq!(cut("äöü", 3), "äöü");
        assert_eq!(cut("äöüß", 3), "äö…");
        assert_eq!(cut("a", 0), "…");
    }

    #[test]
    fn what_stands_for_one_character_is_not_cut() {
        assert_eq!(escaped("axx", 5, doubled), "axxxx");
        assert_eq!(escaped("axx", 4, doubled), "axx…");
        assert_eq!(escaped("axxb", 5, doubled), "axx…");
        assert_eq!(escaped("axx", 3, doubled), "a…");
        assert_eq!(escaped("😀😀", 4, doubled), "😀😀");
        assert_eq!(escaped("😀😀", 3, doubled), "😀…");
        assert_eq!(escaped("", 3, doubled), "");
    }
}
