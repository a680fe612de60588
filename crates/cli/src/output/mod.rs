//! What is printed: data to standard output, talk to standard error. Nothing else prints.

pub(crate) mod table;
pub(crate) mod time;

use std::fmt;
use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use anstyle::Style;
use rethread_domain::quote;

use crate::terminal::styled::Line;

/// Who takes what is printed, instead of the standard streams.
type Taker = Box<dyn Fn(&str) + Send>;

/// The window of a conversation, while one is open: what was written beside it would tear it.
static DIVERTED: Mutex<Option<Taker>> = Mutex::new(None);

/// From here on, whoever is given takes what is printed, safe to be shown; or nobody does.
pub(crate) fn divert(taker: Option<Taker>) {
    *DIVERTED.lock().unwrap_or_else(PoisonError::into_inner) = taker;
}

fn is_taken(text: &str) -> bool {
    let diverted = DIVERTED.lock().unwrap_or_else(PoisonError::into_inner);
    diverted.as_ref().map(|take| take(&spelled_out(text))).is_some()
}

/// Writes data. Whoever reads it may stop reading: that is no error.
pub(crate) fn data(text: &str) {
    if !is_taken(text) {
        write(text.as_bytes());
    }
}

pub(crate) fn json(value: &impl serde::Serialize) {
    match serde_json::to_string_pretty(value) {
        Ok(text) => data(&(text + "\n")),
        Err(error) => note(format_args!("error: {error}")),
    }
}

/// One value a line, for whoever reads along.
pub(crate) fn json_line(value: &impl serde::Serialize) {
    match serde_json::to_string(value) {
        Ok(text) => data(&(text + "\n")),
        Err(error) => note(format_args!("error: {error}")),
    }
}

pub(crate) fn write(bytes: &[u8]) {
    if let Err(error) = try_write(bytes) {
        stopped(&error);
    }
}

/// Writes data for a command that goes on when nobody reads it.
pub(crate) fn try_write(bytes: &[u8]) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Ends the program when nobody reads what it writes.
fn stopped(error: &std::io::Error) {
    if error.kind() == std::io::ErrorKind::BrokenPipe {
        crate::diagnostics::flush();
        std::process::exit(0);
    }
    note(format_args!("error: standard output: {error}"));
    crate::diagnostics::flush();
    std::process::exit(1);
}

/// Talks to the user. Names of files and folders go through here as they are: nothing in them reaches the terminal.
pub(crate) fn note(text: fmt::Arguments<'_>) {
    let text = text.to_string();
    if !is_taken(&text) {
        // If nobody listens there, there is nobody to tell.
        drop(writeln!(std::io::stderr(), "{}", spelled_out(&text)));
    }
}

/// Talks to the user in lines with styles of our own, which are safe as they are.
pub(crate) fn note_lines(lines: &[Line]) {
    let is_coloured = is_error_terminal() && is_coloured();
    for line in lines {
        // As with every note.
        drop(writeln!(std::io::stderr(), "{}", line.rendered(is_coloured)));
    }
}

/// Whether whoever uses the terminal wants colours, and it can show them: see no-color.org.
pub(crate) fn is_coloured() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) && !is_dumb()
}

/// Whether the terminal can do no more than print.
pub(crate) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb")
}

/// The text with everything unsafe spelled out, but for our own styles. What was spelled out before stays as it is.
fn spelled_out(text: &str) -> String {
    let styles = [Style::new().dimmed(), Style::new().bold()];
    let own = styles.map(|style| [style.render().to_string(), style.render_reset().to_string()]);
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(quote::is_unsafe) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let style = own.iter().flatten().find(|style| from.starts_with(style.as_str()));
        let unsafe_char = from.chars().next().map_or(from.len(), char::len_utf8);
        let (part, after) = from.split_at(style.map_or(unsafe_char, String::len));
        match style {
            Some(_) => out.push_str(part),
            None => out.push_str(&quote::safe(part)),
        }
        rest = after;
    }
    out + rest
}

pub(crate) fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// How wide the terminal is that the data goes to; `None` where it goes elsewhere.
pub(crate) fn columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Whether what is said beside the data is read by a person.
pub(crate) fn is_error_terminal() -> bool {
    std::io::stderr().is_terminal()
}

/// Stored text for the eyes of a person: as it is with `--raw`, with control characters spelled out otherwise.
pub(crate) fn shown(text: &str, raw: bool) -> String {
    if raw { text.to_owned() } else { quote::safe(text) }
}

/// Dim, on a terminal.
pub(crate) fn dim(text: &str) -> String {
    styled(text, Style::new().dimmed(), is_error_terminal())
}

/// Bold, on a terminal.
pub(crate) fn bold(text: &str) -> String {
    styled(text, Style::new().bold(), is_terminal())
}

fn styled(text: &str, style: Style, is_terminal: bool) -> String {
    if is_terminal && is_coloured() { format!("{style}{text}{style:#}") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_carries_our_own_styles_and_no_other_sequence() {
        let style = Style::new().dimmed();
        let styled = format!("{style}a{style:#}");
        assert_eq!(spelled_out(&styled), styled);
        let path = "/tmp/\u{1b}[2J\u{202e}b\u{9b}31m\nc";
        assert_eq!(spelled_out(path), "/tmp/␛1b;[2J␛202e;b␛9b;31m\nc");
        // Once is enough.
        assert_eq!(spelled_out("␛1b;[2J"), "␛1b;[2J");
    }
}
