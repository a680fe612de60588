//! What is printed: data to standard output, talk to standard error. Nothing else prints.

pub(crate) mod table;
pub(crate) mod time;

use std::fmt;
use std::io::{IsTerminal, Write};

use anstyle::Style;
use rethread_domain::quote;

/// Writes data. Whoever reads it may stop reading: that is no error.
pub(crate) fn data(text: &str) {
    write(text.as_bytes());
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

/// Talks to the user.
pub(crate) fn note(text: fmt::Arguments<'_>) {
    // If nobody listens there, there is nobody to tell.
    drop(writeln!(std::io::stderr(), "{text}"));
}

pub(crate) fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
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
    if is_terminal { format!("{style}{text}{style:#}") } else { text.to_owned() }
}
