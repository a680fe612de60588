//! Text from outside, made fit for an error message.

use crate::model::Key;

const LONGEST: usize = 300;

/// Returns one bounded, printable line without the key.
pub(crate) fn presentable(text: &str, key: Option<&Key>) -> String {
    let printable: String = text
        .chars()
        .filter(|c| c.is_whitespace() || !(c.is_control() || is_invisible(*c)))
        .collect();
    let line = printable.split_whitespace().collect::<Vec<_>>().join(" ");
    // Before it is cut: half a key must not stay.
    let line = match key {
        Some(key) => line.replace(key.reveal(), "[key]"),
        None => line,
    };
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Whether a character only changes how others are shown: of no width, or turning the direction of writing.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_printable_line_is_left() {
        let text = " a\r\n\tb\u{1b}[31m\u{7}c\u{202e}d\u{0}";
        assert_eq!(presentable(text, None), "a b[31mcd");
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        let shown = presentable(&"é".repeat(LONGEST + 1), None);
        assert_eq!(shown, format!("{}…", "é".repeat(LONGEST)));
        assert_eq!(presentable(&"é".repeat(LONGEST), None), "é".repeat(LONGEST));
    }

    #[test]
    fn no_part_of_the_key_stays() {
        let key = Key::from("sk-secret".to_owned());
        assert_eq!(presentable("bad key sk-se\u{0}cret!", Some(&key)), "bad key [key]!");
        let at_the_cut = format!("{}sk-secret", "x".repeat(LONGEST - 4));
        assert!(!presentable(&at_the_cut, Some(&key)).contains("sk-"));
    }
}
