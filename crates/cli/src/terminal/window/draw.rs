//! Drawing the window.

use std::time::Instant;

use anstyle::{AnsiColor, Style};

use super::super::line_editor::LineEditor;
use super::super::markdown::Piece;
use super::super::styled::{BOLD, DIM, Line, Span, colour};
use super::super::text::cut;
use super::{KEPT, Kind, State, size, write};

/// The most rows that what is typed takes.
const MOST_TYPED: usize = 10;
/// The most rows of what Tab found, and of lines that wait.
const MOST_OFFERED: usize = 6;
/// Frames of the mark that turns while something goes on.
const FRAMES: &[&str] = &["⠋", "⠙", "⠸", "⠴", "⠦", "⠇"];

/// How things stand, for the last line.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Status {
    pub(crate) agent: String,
    pub(crate) model: Option<String>,
    pub(crate) mode: Option<String>,
    /// Tokens in the agent's context, and how many fit.
    pub(crate) context: Option<(u64, u64)>,
    /// Tokens of the last turn: read, and written.
    pub(crate) tokens: Option<(u64, u64)>,
    pub(crate) cost_usd: Option<f64>,
    pub(crate) branch: Option<String>,
    /// What is to be known beside, such as that the session is paused.
    pub(crate) note: Option<String>,
}

impl Status {
    pub(super) fn line(&self) -> Line {
        let mut parts = vec![self.agent.clone()];
        parts.extend(self.model.clone());
        parts.extend(self.mode.clone());
        parts.extend(self.context.filter(|(_, size)| *size > 0).map(|(used, size)| {
            format!("{}% of {}", used.saturating_mul(100) / size, thousands(size))
        }));
        parts.extend(
            self.tokens.map(|(read, written)| {
                format!("{} in, {} out", thousands(read), thousands(written))
            }),
        );
        parts.extend(self.cost_usd.filter(|cost| *cost > 0.0).map(money));
        parts.extend(self.branch.clone());
        parts.extend(self.note.clone());
        parts.retain(|part| !part.is_empty());
        Line::new(&parts.join(" · "), DIM)
    }
}

/// `950`, `12.3k`, `1.2M`.
fn thousands(count: u64) -> String {
    let tenths = |unit: u64| match (count / unit, count % unit * 10 / unit) {
        (whole, 0) => whole.to_string(),
        (whole, tenth) if whole < 100 => format!("{whole}.{tenth}"),
        (whole, _) => whole.to_string(),
    };
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{}k", tenths(1_000)),
        _ => format!("{}M", tenths(1_000_000)),
    }
}

fn money(cost: f64) -> String {
    if cost < 0.01 { format!("${cost:.4}") } else { format!("${cost:.2}") }
}

/// A line that is safe but for our own styles, which it has again.
pub(super) fn own_styles(line: &str) -> Line {
    let styles = [DIM, BOLD].map(|style| (style.render().to_string(), style));
    let (mut out, mut now, mut rest) = (Line::default(), Style::new(), line);
    while let Some(at) = rest.find('\u{1b}') {
        let (before, from) = rest.split_at(at);
        out.0.push(Span::safe(before, now));
        let begun =
            styles.iter().find_map(|(begin, style)| Some((from.strip_prefix(begin)?, *style)));
        let ended = || from.strip_prefix("\u{1b}[0m").map(|after| (after, Style::new()));
        (rest, now) = begun.or_else(ended).unwrap_or((&from[1..], now));
    }
    out.0.push(Span::safe(rest, now));
    out
}

/// What was typed, as it stays.
pub(super) fn echo(line: &str) -> Vec<Piece> {
    let typed = line.split('\n').enumerate();
    typed
        .map(|(at, line)| {
            let mark = if at == 0 { "> " } else { "  " };
            Piece::Line(Line::new(mark, BOLD).and(line, BOLD), 2)
        })
        .collect()
}

impl State {
    /// Columns that are written to. The last one stays empty: what terminals do behind it differs.
    fn columns(&self) -> usize {
        self.size.0.saturating_sub(1).max(1)
    }

    /// The empty line before something of another kind; of the same kind only answers begin with one.
    pub(super) fn set_off(&mut self, kind: Kind) -> Vec<Piece> {
        let mut pieces = if kind == Kind::Text { Vec::new() } else { self.stream.end() };
        let before = std::mem::replace(&mut self.last, kind);
        if before != kind && before != Kind::Nothing || kind == Kind::Typed && before == kind {
            pieces.push(Piece::Empty);
        }
        pieces
    }

    /// Shows it for good.
    pub(super) fn say(&mut self, pieces: Vec<Piece>) {
        self.said.extend(pieces.iter().cloned());
        while self.said.len() > KEPT {
            self.said.pop_front();
        }
        self.draw(&pieces);
    }

    pub(super) fn end_text(&mut self) {
        let pieces = self.stream.end();
        self.say(pieces);
    }

    pub(super) fn hide(&mut self) {
        if !self.is_closed {
            write(&self.live.clear());
        }
    }

    /// The terminal has another size: what it made of the lines that stand there cannot be known, so all that is seen is drawn
    /// again.
    pub(super) fn resize(&mut self) {
        let before = std::mem::replace(&mut self.size, size());
        if before == self.size {
            self.live = super::Live::default();
            self.draw(&[]);
        } else {
            self.repaint();
        }
    }

    pub(super) fn repaint(&mut self) {
        let (columns, rows) = (self.columns(), self.size.1);
        let mut used = 0;
        let mut first = self.said.len();
        while first > 0 && used < rows {
            first -= 1;
            used += self.said[first].lines(columns, self.is_coloured).len();
        }
        let seen: Vec<Piece> = self.said.iter().skip(first).cloned().collect();
        write("\x1b[H\x1b[2J");
        self.live = super::Live::default();
        self.draw(&seen);
    }

    /// Draws what has changed, with these above.
    pub(super) fn draw(&mut self, above: &[Piece]) {
        if self.is_closed {
            return;
        }
        let columns = self.columns();
        let rendered = |pieces: &[Piece]| -> Vec<String> {
            let lines = pieces.iter().flat_map(|piece| piece.lines(columns, self.is_coloured));
            lines.map(|line| line.rendered(self.is_coloured)).collect()
        };
        let above = rendered(above);
        let (bottom, (row, column)) = self.bottom(columns);
        let mut lines = rendered(&self.stream.rest());
        let room = self.size.1.saturating_sub(bottom.len() + 1);
        // Of what is still being written, the end.
        lines.drain(..lines.len().saturating_sub(room));
        let cursor = (lines.len() + row, column);
        lines.extend(bottom.iter().map(|line| line.rendered(self.is_coloured)));
        write(&self.live.above(&above, lines, cursor));
    }

    /// What stands below the answer, and where the cursor is in it.
    fn bottom(&self, columns: usize) -> (Vec<Line>, (usize, usize)) {
        let mut lines = Vec::new();
        if self.last != Kind::Nothing {
            lines.push(Line::default());
        }
        lines.extend(self.running.iter().map(|(_, line)| line.cut(columns)));
        if let Some((doing, since)) = &self.busy {
            lines.push(busy(doing, *since).cut(columns));
        }
        let queued = self.queued.iter().take(MOST_OFFERED);
        lines.extend(queued.map(|line| Line::new(&format!("  next: {line}"), DIM).cut(columns)));
        let most = MOST_TYPED.min(self.size.1.saturating_sub(4)).max(1);
        let (prompt, editor) = match &self.question {
            Some(question) => {
                let options = question.options.iter().map(|option| Line::plain(option));
                lines.extend(options.flat_map(|line| line.wrapped(columns, &Line::plain("     "))));
                (question.prompt.clone(), &question.editor)
            }
            None => (self.prompt(), &self.editor),
        };
        // At least a few characters of what is typed are seen.
        let prompt = cut(&prompt, columns.saturating_sub(8));
        let (typed, (row, column)) = editor.rows(&prompt, columns, most);
        let row = lines.len() + row;
        lines.extend(typed.iter().map(|row| Line::plain(row)));
        lines.extend(offered(editor, columns));
        lines.push(self.status.line().cut(columns));
        // On a terminal of few rows, what is typed matters most.
        let most = self.size.1.saturating_sub(1).max(1);
        let hidden = lines.len().saturating_sub(most).min(row);
        lines.drain(..hidden);
        lines.truncate(most);
        (lines, (row - hidden, column))
    }

    fn prompt(&self) -> String {
        match self.editor.searched() {
            Some((words, true)) => format!("search {words}: "),
            Some((words, false)) => format!("search {words} (nothing found): "),
            None => "> ".to_owned(),
        }
    }
}

fn busy(doing: &str, since: Instant) -> Line {
    let elapsed = since.elapsed();
    let frame = usize::try_from(elapsed.as_millis() / 250).unwrap_or(0) % FRAMES.len();
    let seconds = elapsed.as_secs();
    let time = if seconds < 60 {
        format!("{seconds} s")
    } else {
        format!("{} min {} s", seconds / 60, seconds % 60)
    };
    Line::new(FRAMES[frame], colour(AnsiColor::Cyan))
        .and(&format!(" {doing}"), Style::new())
        .and(&format!(" ({time}, Esc stops it)"), DIM)
}

/// What Tab found, side by side as far as it fits.
fn offered(editor: &LineEditor, columns: usize) -> Vec<Line> {
    let all = editor.offered();
    let mut lines = Line::new(&all.join("  "), DIM).wrapped(columns, &Line::default());
    if all.is_empty() {
        return Vec::new();
    }
    if lines.len() > MOST_OFFERED {
        lines.truncate(MOST_OFFERED - 1);
        lines.push(Line::new(&format!("… of {}", all.len()), DIM));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_one_line() {
        let status = Status {
            agent: "claude".into(),
            model: Some("big\u{1b}[2J".into()),
            mode: Some("plan".into()),
            context: Some((24_000, 200_000)),
            tokens: Some((12_345, 999)),
            cost_usd: Some(1.239),
            branch: Some("main".into()),
            note: None,
        };
        let expected =
            "claude · big␛1b;[2J · plan · 12% of 200k · 12.3k in, 999 out · $1.24 · main";
        assert_eq!(status.line().bare(), expected);
        assert_eq!(Status { agent: "a".into(), ..Status::default() }.line().bare(), "a");
        assert_eq!(thousands(1_250_000), "1.2M");
        assert_eq!(money(0.001_23), "$0.0012");
    }

    #[test]
    fn notes_keep_our_styles_alone() {
        assert_eq!(own_styles("\u{1b}[2m[a]\u{1b}[0m").rendered(true), "\u{1b}[2m[a]\u{1b}[0m");
        assert_eq!(own_styles("a \u{1b}[1mb\u{1b}[0m c").rendered(true), "a \u{1b}[1mb\u{1b}[0m c");
        assert_eq!(own_styles("x\u{1b}[2Jy ␛1b;").rendered(true), "x[2Jy ␛1b;");
    }
}
