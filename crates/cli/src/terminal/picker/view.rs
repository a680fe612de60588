//! How the picker looks. Styles are bold, dim and reversed: it makes sense without colour.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders};

use super::super::text::{cut, padded, tail, width, wrap};
use super::Row;
use super::state::State;

/// From this width on, the preview stands at the right of the list.
const SIDE_BY_SIDE: u16 = 100;
/// With less room than this there is only the list.
const PREVIEW_BELOW: u16 = 6;
/// The widest a column at the right of the list can be.
const COLUMN: usize = 14;
/// A title has at least this much room before columns are shown.
const TITLE: usize = 24;
const KEYS: [&str; 5] = ["Enter choose", "Esc leave", "↑↓ move", "PgUp/PgDn page", "Ctrl-U clear"];

pub(super) fn render(frame: &mut Frame<'_>, state: &mut State) {
    let [header, prompt, body, footer] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let (list, preview) = split(body);
    state.fit(list.height.into());
    render_header(frame, header, state);
    render_prompt(frame, prompt, state);
    render_list(frame, list, state);
    render_preview(frame, preview, state);
    render_footer(frame, footer);
}

/// The places of the list and of the preview.
fn split(body: Rect) -> (Rect, Rect) {
    if body.width >= SIDE_BY_SIDE {
        let halves = [Constraint::Percentage(55), Constraint::Percentage(45)];
        let [mut list, preview] = Layout::horizontal(halves).areas(body);
        list.width -= 1;
        (list, preview)
    } else if body.height >= PREVIEW_BELOW {
        let list = body.height.div_ceil(2);
        let [list, preview] =
            Layout::vertical([Constraint::Length(list), Constraint::Min(0)]).areas(body);
        (list, preview)
    } else {
        (body, Rect::default())
    }
}

fn render_header(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let (all, fitting, by_text) = state.counts();
    let noun = if all == 1 { "session" } else { "sessions" };
    let mut text =
        if fitting == all { format!("{all} {noun}") } else { format!("{fitting} of {all} {noun}") };
    if by_text > 0 {
        text.push_str(&format!(" · {by_text} by text"));
    }
    if state.unsought().is_some() {
        text.push_str(" · searching…");
    }
    frame.render_widget(Line::from(cut(&text, area.width.into())).bold(), area);
}

fn render_prompt(frame: &mut Frame<'_>, area: Rect, state: &State) {
    // Two columns for the mark, one for the cursor.
    let query = tail(&state.query(), usize::from(area.width).saturating_sub(3));
    let end = u16::try_from(width(&query)).unwrap_or(0) + 2;
    frame.render_widget(Line::from(vec!["> ".bold(), Span::raw(query)]), area);
    if !area.is_empty() && end < area.width {
        frame.set_cursor_position((area.x + end, area.y));
    }
}

fn render_footer(frame: &mut Frame<'_>, area: Rect) {
    let mut text = String::new();
    for key in KEYS {
        let gap = if text.is_empty() { "" } else { "  " };
        if width(&text) + gap.len() + width(key) > area.width.into() {
            break;
        }
        text.push_str(gap);
        text.push_str(key);
    }
    frame.render_widget(Line::from(text).dim(), area);
}

fn render_list(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let (all, fitting, _) = state.counts();
    if fitting == 0 {
        let text = match state.unsought() {
            _ if all == 0 => "There are no sessions yet.",
            Some(_) => "Searching…",
            None => "No session fits these words.",
        };
        frame.render_widget(Line::from(format!("  {}", cut(text, room(area)))).dim(), area);
        return;
    }
    let columns = Columns::fit(room(area), state);
    for ((row, selected), line) in state.visible().zip(area.rows()) {
        let style = if selected { Modifier::REVERSED.into() } else { Style::default() };
        frame.render_widget(columns.line(row, selected).style(style), line);
    }
}

/// What a line of the list has for text: all but the mark before it.
fn room(area: Rect) -> usize {
    usize::from(area.width).saturating_sub(2)
}

/// How wide each part of a line is; a column without width is left out.
struct Columns {
    text: usize,
    status: usize,
    when: usize,
    messages: usize,
}

impl Columns {
    /// Adds columns while the title has enough room: when first, then the status, then the messages.
    fn fit(room: usize, state: &State) -> Self {
        let mut columns = Self { text: room, status: 0, when: 0, messages: 0 };
        let widest = |part: fn(&Row) -> String| {
            let widths = state.visible().map(|(row, _)| width(&part(row)));
            widths.max().unwrap_or(0).min(COLUMN)
        };
        let wishes = [
            (&mut columns.when, widest(|row| row.when.clone())),
            (&mut columns.status, widest(|row| row.status.clone())),
            (&mut columns.messages, widest(|row| row.messages.to_string())),
        ];
        for (column, wish) in wishes {
            if wish == 0 || columns.text < TITLE + wish + 2 {
                break;
            }
            *column = wish;
            columns.text -= wish + 2;
        }
        columns
    }

    fn line(&self, row: &Row, selected: bool) -> Line<'static> {
        let title = cut(title(row), self.text);
        let left = self.text.saturating_sub(width(&title));
        let summary = match left.checked_sub(2) {
            Some(room) if room >= 8 && !row.summary.is_empty() => {
                format!("  {}", padded(&row.summary, room))
            }
            _ => " ".repeat(left),
        };
        let mut spans = vec![
            Span::raw(if selected { "› " } else { "  " }),
            Span::raw(title).bold(),
            Span::raw(summary).dim(),
        ];
        if self.messages > 0 {
            spans.push(Span::raw(format!("  {:>1$}", row.messages, self.messages)));
        }
        for (text, columns) in [(&row.status, self.status), (&row.when, self.when)] {
            if columns > 0 {
                spans.push(Span::raw(format!("  {}", padded(text, columns))));
            }
        }
        Line::from(spans)
    }
}

fn title(row: &Row) -> &str {
    if row.title.is_empty() { "(no title)" } else { &row.title }
}

fn render_preview(frame: &mut Frame<'_>, area: Rect, state: &State) {
    if area.is_empty() {
        return;
    }
    let beside = area.x > 0;
    let border = Block::new().borders(if beside { Borders::LEFT } else { Borders::TOP });
    let mut inner = border.inner(area);
    frame.render_widget(border.border_style(Modifier::DIM), area);
    if beside && inner.width > 1 {
        inner.x += 1;
        inner.width -= 1;
    }
    let Some(row) = state.selected_row() else { return };
    let mut lines = facts(row, inner);
    let left = usize::from(inner.height).saturating_sub(lines.len());
    lines.extend(messages(state.preview(), inner.width.into(), left));
    for (line, place) in lines.into_iter().zip(inner.rows()) {
        frame.render_widget(line, place);
    }
}

/// What is known of a session, in at most half of the room.
fn facts(row: &Row, area: Rect) -> Vec<Line<'static>> {
    let columns = usize::from(area.width);
    let count = |number: u64, one: &str| {
        let plural = if number == 1 { "" } else { "s" };
        format!("{} {one}{plural}", grouped(number))
    };
    let state = joined(&[&row.status, &row.kind, &row.when]);
    let (messages, tokens) = (count(row.messages.into(), "message"), count(row.tokens, "token"));
    let size = joined(&[&messages, &tokens, &row.cost]);
    let origin = joined(&[&row.agents, &row.project]);
    let most = usize::from(area.height.div_ceil(2));
    if most < 5 {
        let one = joined(&[&row.status, &row.when, &messages, &tokens, &row.cost, &row.agents]);
        return vec![Line::from(cut(&one, columns)).bold()];
    }
    let mut lines: Vec<Line<'static>> =
        wrap(title(row), columns).into_iter().take(2).map(|line| Line::from(line).bold()).collect();
    let facts = [state, size, origin].into_iter().filter(|fact| !fact.is_empty());
    lines.extend(facts.map(|fact| Line::from(cut(&fact, columns))));
    if !row.summary.is_empty() && most > lines.len() + 1 {
        let room = most - lines.len() - 1;
        lines.extend(
            wrap(&row.summary, columns).into_iter().take(room).map(|l| Line::from(l).dim()),
        );
    }
    lines.push(Line::default());
    lines
}

fn joined(parts: &[&str]) -> String {
    let parts: Vec<&str> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
    parts.join(" · ")
}

/// The number with a comma between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The end of the last messages: that is where the session stopped.
fn messages(preview: Option<&[String]>, columns: usize, height: usize) -> Vec<Line<'static>> {
    let Some(preview) = preview else { return vec![Line::from("…").dim()] };
    let mut lines = Vec::new();
    // From the end, so that no more is broken into lines than is shown.
    for line in preview.iter().rev() {
        if lines.len() > height {
            break;
        }
        lines.extend(wrap(line, columns).into_iter().rev());
    }
    let more = lines.len() > height;
    lines.truncate(height);
    lines.reverse();
    let mut lines: Vec<Line<'static>> = lines.into_iter().map(Line::from).collect();
    if let Some(first) = lines.first_mut().filter(|_| more && height > 2) {
        *first = Line::from("…").dim();
    }
    lines
}
