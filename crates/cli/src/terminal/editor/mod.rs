//! Typing lines: with editing, history and completion on a terminal, plain lines from anything else.
//!
//! Enter ends a line. Alt-Enter, or Enter after a backslash, begins another one within the same input.

mod handle;
mod history;
mod keys;
mod plain;

#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use rethread_engine::Logged as _;
use rustix::termios::{self, OptionalActions};
use rustyline::config::{BellStyle, Config};
use rustyline::error::ReadlineError;
use rustyline::history::{History as _, MemHistory};
use rustyline::{ColorMode, CompletionType};

pub(crate) use self::handle::Handle;
use self::history::History;
use self::keys::Helper;
use super::restore::Restore;
use super::text;

/// The longest line that is read from something other than a terminal.
const LINE_BYTES: usize = 16 * 1024 * 1024;

/// What the user gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input {
    Line(String),
    /// Ctrl-C: what was typed is thrown away.
    Interrupted,
    /// Ctrl-D on an empty line, or the end of the input.
    End,
}

/// Reads what the user types. Blocks while it does.
pub(crate) struct Editor {
    terminal: Option<Terminal>,
    handle: Handle,
}

struct Terminal {
    editor: rustyline::Editor<Helper, MemHistory>,
    history: History,
}

impl Editor {
    /// `history` is the file that keeps what was typed, `commands` what Tab completes at the start of a line.
    pub(crate) fn open(history: &Path, commands: &[&str]) -> io::Result<Self> {
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return Ok(Self::plain());
        }
        let config = Config::builder()
            .completion_type(CompletionType::List)
            .completion_show_all_if_ambiguous(true)
            // Not for colours: what makes a line safe to show is asked for only where there may be some.
            .color_mode(ColorMode::Forced)
            .bell_style(BellStyle::None)
            .max_history_size(history::MOST)
            .and_then(|builder| builder.history_ignore_dups(false))
            .map_err(into_io)?
            .build();
        let memory = MemHistory::with_config(&config);
        let mut editor = rustyline::Editor::with_history(config, memory).map_err(into_io)?;
        // There is none where the terminal can do too little.
        let handle = Handle::new(editor.create_external_printer().ok());
        editor.set_helper(Some(Helper::new(commands, handle.clone())));
        keys::bind(&mut editor);
        let mut terminal = Terminal { editor, history: History::open(history)? };
        terminal.remember()?;
        Ok(Self { terminal: Some(terminal), handle })
    }

    /// Plain lines, whatever they come from.
    pub(crate) fn plain() -> Self {
        Self { terminal: None, handle: Handle::default() }
    }

    /// For other threads, while this one reads.
    pub(crate) fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Reads one input. The prompt is shown on a terminal only.
    pub(crate) fn read(&mut self, prompt: &str) -> io::Result<Input> {
        match &mut self.terminal {
            Some(terminal) => terminal.read(prompt, &self.handle),
            None => {
                let line = plain::read_line(&mut io::stdin().lock(), LINE_BYTES)?;
                Ok(line.map_or(Input::End, Input::Line))
            }
        }
    }
}

impl Terminal {
    fn read(&mut self, prompt: &str, handle: &Handle) -> io::Result<Input> {
        let restore = restore_modes()?;
        handle.reads(Some(restore.early()));
        let read = self.editor.readline(&text::safe(prompt));
        handle.reads(None);
        match read {
            Ok(line) => {
                self.keep(&line)?;
                Ok(Input::Line(line))
            }
            Err(ReadlineError::Interrupted) => Ok(Input::Interrupted),
            Err(ReadlineError::Eof) => Ok(Input::End),
            Err(error) => Err(into_io(error)),
        }
    }

    /// Keeps a line in the history. If the file cannot be written the line still counts, and is known until
    /// the program ends.
    fn keep(&mut self, line: &str) -> io::Result<()> {
        if self.history.add(line) {
            self.history.save().or_log("the history of what was typed could not be written");
            self.remember()?;
        }
        Ok(())
    }

    /// Gives the history to the editor.
    fn remember(&mut self) -> io::Result<()> {
        let memory = self.editor.history_mut();
        memory.clear().map_err(into_io)?;
        for entry in self.history.entries() {
            memory.add(entry).map_err(into_io)?;
        }
        Ok(())
    }
}

/// Brings back the modes that the terminal has now. The editor does so itself, but not when the program ends while
/// it reads.
fn restore_modes() -> io::Result<Restore> {
    let modes = termios::tcgetattr(io::stdin())?;
    Ok(Restore::on_drop(move |is_early| {
        // The terminal may be gone.
        let _gone = termios::tcsetattr(io::stdin(), OptionalActions::Now, &modes);
        if is_early {
            let mut out = io::stdout();
            // No brackets round pasted text any more, and a line of its own for what is said next.
            drop(out.write_all(b"\x1b[?2004l\n").and_then(|()| out.flush()));
        }
    }))
}

fn into_io(error: ReadlineError) -> io::Error {
    match error {
        ReadlineError::Io(error) => error,
        ReadlineError::Errno(error) => error.into(),
        other => io::Error::other(other),
    }
}
