//! Text for a terminal: without tricks, and cut or broken to a number of columns.

use ratatui::style::Style;
use ratatui::text::Span;
pub(super) use rethread_domain::quote::{is_unsafe, safe};

const TAB: &str = "    ";

/// The first `chars` characters of the text, safe and on one line.
pub(super) fn safe_line(text: &str, chars: usize) -> String {
    let text: String = text.chars().take(chars).collect();
    safe(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The lines of the text, safe, with tabs as spaces; of each at most `chars` characters.
pub(super) fn safe_lines(text: &str, chars: usize) -> impl Iterator<Item = String> {
    text.lines().map(move |line| {
        let line: String = line.chars().take(chars).collect();
        safe(&line).replace('\t', TAB)
    })
}

/// The characters as a reader sees them.
pub(super) fn graphemes(text: &str) -> impl Iterator<Item = String> {
    // What ratatui leaves out takes no room, and is none of ours.
    let span = Span::raw(text.to_owned());
    let all: Vec<String> =
        span.styled_graphemes(Style::default()).map(|one| one.symbol.to_owned()).collect();
    all.into_iter()
}

/// How many columns the text takes.
pub(crate) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// The text in at most `columns`; an ellipsis stands for what does not fit.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    for grapheme in Span::raw(text).styled_graphemes(Style::default()) {
        let wide = width(grapheme.symbol);
        if used + wide + 1 > columns {
            break;
        }
        out.push_str(grapheme.symbol);
        used += wide;
    }
    if columns > 0 {
        out.push('…');
    }
    out
}

/// The end of the text, in at most `columns`.
pub(super) fn tail(text: &str, columns: usize) -> String {
    let span = Span::raw(text);
    let graphemes: Vec<&str> =
        span.styled_graphemes(Style::default()).map(|grapheme| grapheme.symbol).collect();
    let mut used = 0;
    let fitting = graphemes.iter().rev().take_while(|grapheme| {
        used += width(grapheme);
        used <= columns
    });
    let from = graphemes.len() - fitting.count();
    graphemes[from..].concat()
}

/// The text in exactly `columns`, filled up with spaces.
pub(super) fn padded(text: &str, columns: usize) -> String {
    let mut out = cut(text, columns);
    out.extend(std::iter::repeat_n(' ', columns.saturating_sub(width(&out))));
    out
}

/// Breaks a line so that no part is wider than `columns`: between words where it can be done.
pub(super) fn wrap(line: &str, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut current, mut used) = (String::new(), 0);
    for word in line.split_inclusive(' ') {
        let bare = width(word.trim_end_matches(' '));
        if used > 0 && used + bare > columns {
            lines.push(std::mem::take(&mut current));
            used = 0;
        }
        for grapheme in Span::raw(word).styled_graphemes(Style::default()) {
            let wide = width(grapheme.symbol);
            if wide > columns {
                continue;
            }
            if used + wide > columns {
                if grapheme.symbol == " " {
                    continue;
                }
                lines.push(std::mem::take(&mut current));
                used = 0;
            }
            current.push_str(grapheme.symbol);
            used += wide;
        }
    }
    lines.push(current);
    for line in &mut lines {
        line.truncate(line.trim_end().len());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_controls_a_terminal_is_left() {
        assert_eq!(safe("a\u{1b}[2Jb\u{9b}c\u{202e}d\u{7f}"), "a␛1b;[2Jb␛9b;c␛202e;d␛7f;");
        assert_eq!(safe("␛ Grüße 日本 👩‍👩‍👧"), "␛␛ Grüße 日本 👩‍👩‍👧");
        let every: String = (0..=0x000f_ffff).filter_map(char::from_u32).collect();
        assert!(!safe(&every).chars().any(is_unsafe));
    }

    #[test]
    fn one_line_is_one_line() {
        assert_eq!(safe_line(" a\n\tb \r\n c\u{7} ", 80), "a b c␛7;");
        assert_eq!(safe_line("abcdef", 3), "abc");
        let lines: Vec<String> = safe_lines("fn x()\r\n\tlet\u{1b};\n", 80).collect();
        assert_eq!(lines, ["fn x()", "    let␛1b;;"]);
    }

    #[test]
    fn text_is_cut_by_columns() {
        assert_eq!(cut("hello", 5), "hello");
        assert_eq!(cut("hello!", 5), "hell…");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(cut("ab", 1), "…");
        assert_eq!(cut("ab", 0), "");
        assert_eq!(tail("hello", 3), "llo");
        assert_eq!(tail("日本語", 3), "語");
        assert_eq!(padded("日", 4), "日  ");
    }

    #[test]
    fn lines_are_broken_between_words() {
        assert_eq!(wrap("the quick brown fox", 10), ["the quick", "brown fox"]);
        assert_eq!(wrap("incomprehensible", 6), ["incomp", "rehens", "ible"]);
        assert_eq!(wrap("  indented", 20), ["  indented"]);
        assert_eq!(wrap("", 5), [""]);
        assert_eq!(wrap("日本語", 1), [""]);
        assert_eq!(wrap("日本語", 4), ["日本", "語"]);
        assert_eq!(wrap("a", 0), [""]);
    }
}
