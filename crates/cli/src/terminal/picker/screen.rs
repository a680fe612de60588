//! The terminal while the picker is shown.

use std::io::{self, BufWriter, IsTerminal, Write};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

use super::super::restore::Restore;
use super::state::State;
use super::view;

/// The whole screen, until it is dropped.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<BufWriter<Box<dyn Write>>>>,
    // Dropped after the terminal, which shows the cursor again on its own.
    _restore: Restore,
}

impl Screen {
    pub(super) fn open() -> io::Result<Self> {
        if output().is_none() || !io::stdin().is_terminal() {
            let why = "choosing from a list needs a terminal";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        let restore = Restore::on_drop(|_| leave());
        enable_raw_mode()?;
        let mut out = BufWriter::new(output().unwrap_or_else(|| Box::new(io::sink())));
        execute!(out, EnterAlternateScreen, Clear(ClearType::All), EnableBracketedPaste)?;
        let terminal = Terminal::new(CrosstermBackend::new(out))?;
        Ok(Self { terminal, _restore: restore })
    }

    pub(super) fn draw(&mut self, state: &mut State) -> io::Result<()> {
        self.terminal.draw(|frame| view::render(frame, state)).map(drop)
    }
}

/// Where to draw: standard output, or standard error when data goes elsewhere.
fn output() -> Option<Box<dyn Write>> {
    if io::stdout().is_terminal() {
        Some(Box::new(io::stdout()))
    } else if io::stderr().is_terminal() {
        Some(Box::new(io::stderr()))
    } else {
        None
    }
}

/// Leaves the terminal as it was.
fn leave() {
    // What fails here cannot be helped.
    drop(disable_raw_mode());
    if let Some(mut out) = output() {
        // Nor can this.
        drop(execute!(out, DisableBracketedPaste, LeaveAlternateScreen, Show));
    }
}
