//! What a commit of ours says.

/// Longer titles are cut: the first line of a commit is read in lists.
const LONGEST_TITLE: usize = 100;

/// The message of a commit; `update` where only the session's own state changed.
pub(super) fn message(title: &str, update: bool) -> String {
    let what = if update { "update" } else { "saved" };
    format!("session {what}: {}", one_line(title))
}

/// A title that stays on one line and looks like what it is.
fn one_line(title: &str) -> String {
    let shown: String = title
        .chars()
        .filter(|letter| !turns_text_round(*letter))
        .map(|letter| if letter.is_control() || is_line_end(letter) { ' ' } else { letter })
        .collect();
    let words: Vec<&str> = shown.split_whitespace().collect();
    let line = words.join(" ");
    if line.is_empty() {
        return "untitled".to_owned();
    }
    if line.chars().count() <= LONGEST_TITLE {
        return line;
    }
    let kept: String = line.chars().take(LONGEST_TITLE - 1).collect();
    format!("{}…", kept.trim_end())
}

/// Unseen characters that change the order in which the rest of a line is shown.
fn turns_text_round(letter: char) -> bool {
    matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn is_line_end(letter: char) -> bool {
    matches!(letter, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_becomes_one_safe_line() {
        for (title, line) in [
            ("API design", "session saved: API design"),
            ("  two\nlines\r\n\tand a tab ", "session saved: two lines and a tab"),
            ("-m --amend", "session saved: -m --amend"),
            ("# not a comment", "session saved: # not a comment"),
            ("\u{1b}[31mred\u{7}", "session saved: [31mred"),
            ("a\u{202e}b\u{2028}c", "session saved: ab c"),
            ("nul\0", "session saved: nul"),
            (" \n ", "session saved: untitled"),
        ] {
            assert_eq!(message(title, false), line);
        }
        assert_eq!(message("API design", true), "session update: API design");
    }

    #[test]
    fn a_long_title_is_cut_between_characters() {
        let line = message(&"🦀".repeat(300), false);
        assert_eq!(line, format!("session saved: {}…", "🦀".repeat(99)));
    }
}
