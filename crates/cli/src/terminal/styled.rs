//! Text with styles, in lines that fit a terminal. Whatever goes into a span is made safe first: the sequences that reach a
//! terminal are ours alone.

use anstyle::{AnsiColor, Style};
use rethread_domain::quote::{is_unsafe, safe};

use super::text::{graphemes, width};

/// A tab, as wide as most people have it.
const TAB: &str = "    ";

/// A piece of a line in one style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    text: String,
    pub(crate) style: Style,
}

impl Span {
    /// Any text, on one line: control characters are spelled out.
    pub(crate) fn new(text: &str, style: Style) -> Self {
        let text = safe(text).replace('\t', TAB).replace('\n', " ");
        Self { text, style }
    }

    /// A text that was made safe before: what is spelled out in it stays as it is.
    pub(crate) fn safe(text: &str, style: Style) -> Self {
        let is_safe = |c: &char| !is_unsafe(*c) && *c != '\n';
        let text: String = text.chars().filter(is_safe).collect();
        Self { text: text.replace('\t', TAB), style }
    }
}

/// One line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Line(pub(crate) Vec<Span>);

pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const BOLD: Style = Style::new().bold();

pub(crate) const fn colour(colour: AnsiColor) -> Style {
    Style::new().fg_color(Some(anstyle::Color::Ansi(colour)))
}

impl Line {
    pub(crate) fn new(text: &str, style: Style) -> Self {
        Self(vec![Span::new(text, style)])
    }

    pub(crate) fn plain(text: &str) -> Self {
        Self::new(text, Style::new())
    }

    /// Of a text that was made safe before.
    pub(crate) fn safe(text: &str, style: Style) -> Self {
        Self(vec![Span::safe(text, style)])
    }

    pub(crate) fn push(&mut self, text: &str, style: Style) {
        self.0.push(Span::new(text, style));
    }

    /// With this at its end.
    #[must_use]
    pub(crate) fn and(mut self, text: &str, style: Style) -> Self {
        self.push(text, style);
        self
    }

    pub(crate) fn width(&self) -> usize {
        self.0.iter().map(|span| width(&span.text)).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|span| span.text.is_empty())
    }

    /// The text without its styles.
    pub(crate) fn bare(&self) -> String {
        self.0.iter().map(|span| span.text.as_str()).collect()
    }

    /// As it is written to a terminal.
    pub(crate) fn rendered(&self, is_coloured: bool) -> String {
        if !is_coloured {
            return self.bare();
        }
        let mut out = String::new();
        for Span { text, style } in self.0.iter().filter(|span| !span.text.is_empty()) {
            out.push_str(&format!("{style}{text}{style:#}"));
        }
        out
    }

    /// As much of it as fits.
    pub(crate) fn cut(&self, columns: usize) -> Self {
        if self.width() <= columns {
            return self.clone();
        }
        let mut room = columns.saturating_sub(1);
        let mut kept = Vec::new();
        for span in &self.0 {
            let mut text = String::new();
            for grapheme in graphemes(&span.text) {
                let wide = width(&grapheme);
                if wide > room {
                    kept.push(Span { text, style: span.style });
                    kept.push(Span { text: "…".to_owned(), style: DIM });
                    return Self(kept);
                }
                room -= wide;
                text.push_str(&grapheme);
            }
            kept.push(Span { text, style: span.style });
        }
        Self(kept)
    }

    /// Broken between words, so that no part is wider than `columns`. Parts after the first begin with `indent`.
    pub(crate) fn wrapped(&self, columns: usize, indent: &Self) -> Vec<Self> {
        if self.width() <= columns {
            return vec![self.clone()];
        }
        // Where next to nothing fits beside it, nothing is indented.
        let bare = Self::default();
        let indent = if indent.width() + 8 > columns { &bare } else { indent };
        let mut wrapping = Wrapping {
            columns: columns.max(1),
            indent,
            lines: Vec::new(),
            now: Self::default(),
            used: 0,
        };
        let mut word: Vec<(String, usize, Style)> = Vec::new();
        let mut wide = 0;
        for span in &self.0 {
            for grapheme in graphemes(&span.text) {
                let own = width(&grapheme);
                if grapheme == " " {
                    wrapping.word(&mut word, std::mem::take(&mut wide));
                    wrapping.space(span.style);
                } else {
                    wide += own;
                    word.push((grapheme, own, span.style));
                }
            }
        }
        wrapping.word(&mut word, wide);
        wrapping.lines.push(wrapping.now);
        wrapping.lines
    }
}

/// A line that is being broken.
struct Wrapping<'a> {
    columns: usize,
    indent: &'a Line,
    lines: Vec<Line>,
    now: Line,
    used: usize,
}

impl Wrapping<'_> {
    fn put(&mut self, text: &str, wide: usize, style: Style) {
        match self.now.0.last_mut() {
            Some(last) if last.style == style => last.text.push_str(text),
            _ => self.now.0.push(Span { text: text.to_owned(), style }),
        }
        self.used += wide;
    }

    fn next_line(&mut self) {
        while let Some(last) = self.now.0.last_mut() {
            last.text.truncate(last.text.trim_end().len());
            if !last.text.is_empty() {
                break;
            }
            self.now.0.pop();
        }
        self.lines.push(std::mem::replace(&mut self.now, self.indent.clone()));
        self.used = self.indent.width();
    }

    fn is_at_start(&self) -> bool {
        let start = if self.lines.is_empty() { 0 } else { self.indent.width() };
        self.used <= start
    }

    fn word(&mut self, word: &mut Vec<(String, usize, Style)>, wide: usize) {
        if self.used + wide > self.columns && !self.is_at_start() {
            self.next_line();
        }
        for (text, own, style) in word.drain(..) {
            if self.used + own > self.columns && !self.is_at_start() {
                self.next_line();
            }
            if own <= self.columns {
                self.put(&text, own, style);
            }
        }
    }

    fn space(&mut self, style: Style) {
        let is_after_break = !self.lines.is_empty() && self.is_at_start();
        if self.used < self.columns && !is_after_break {
            self.put(" ", 1, style);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(text: &str, columns: usize, indent: &str) -> Vec<String> {
        let lines = Line::plain(text).wrapped(columns, &Line::plain(indent));
        lines.iter().map(Line::bare).collect()
    }

    #[test]
    fn lines_are_broken_between_words_and_indented() {
        assert_eq!(wrapped("the quick brown fox", 10, ""), ["the quick", "brown fox"]);
        assert_eq!(wrapped("- the quick brown fox", 12, "  "), ["- the quick", "  brown fox"]);
        assert_eq!(wrapped("incomprehensible", 6, ""), ["incomp", "rehens", "ible"]);
        assert_eq!(wrapped("日本語", 4, ""), ["日本", "語"]);
        assert_eq!(wrapped("  indented", 20, ""), ["  indented"]);
        for columns in 1..40 {
            for line in wrapped("a few words, 日本語 and incomprehensible ones", columns, "    ")
            {
                assert!(width(&line) <= columns, "{columns}: {line:?}");
            }
        }
    }

    #[test]
    fn styles_go_on_in_the_next_line() {
        let line = Line::plain("a ").and("bold words here", BOLD);
        let lines = line.wrapped(8, &Line::default());
        assert_eq!(lines.iter().map(Line::bare).collect::<Vec<_>>(), ["a bold", "words", "here"]);
        assert!(lines[1].0.iter().all(|span| span.style == BOLD));
    }

    #[test]
    fn nothing_but_our_own_styles_reaches_the_terminal() {
        let line = Line::new("a\u{1b}[2J\u{9b}b\tc\nd", BOLD);
        assert_eq!(line.rendered(false), "a␛1b;[2J␛9b;b    c d");
        assert_eq!(line.rendered(true), "\u{1b}[1ma␛1b;[2J␛9b;b    c d\u{1b}[0m");
    }

    #[test]
    fn a_line_is_cut_with_a_mark() {
        assert_eq!(Line::plain("hello!").cut(5).bare(), "hell…");
        assert_eq!(Line::plain("日本").and("語", BOLD).cut(5).bare(), "日本…");
        assert_eq!(Line::plain("hello").cut(5).bare(), "hello");
    }
}
