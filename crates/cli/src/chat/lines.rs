//! What a person types: in the window of a conversation, or as plain lines from anything else.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Sender, channel};

use tokio::sync::mpsc;

use super::stops::{Wish, left};
use crate::config;
use crate::output;
use crate::terminal::plain;
use crate::terminal::window::{Completer, Event, Keyboard, Window};

pub(super) enum Lines {
    Window {
        keyboard: Box<Keyboard>,
        /// Typed while something else was done.
        queued: VecDeque<String>,
    },
    Plain(Plain),
}

/// Lines from standard input, read one at a time by a thread of their own.
pub(super) struct Plain {
    wanted: Sender<()>,
    typed: mpsc::UnboundedReceiver<io::Result<Option<String>>>,
    is_wanted: bool,
}

impl Lines {
    /// A window where somebody sits at a terminal that can do more than print.
    pub(super) fn open(json: bool) -> anyhow::Result<Self> {
        let is_watched = output::is_terminal() && output::is_error_terminal();
        let is_typed = io::IsTerminal::is_terminal(&io::stdin());
        if json || !is_typed || !is_watched || output::is_dumb() {
            return Ok(Self::Plain(Plain::open()));
        }
        let history = config::data_folder()?.join("history");
        let keyboard = Box::new(Keyboard::open(&history)?);
        Ok(Self::Window { keyboard, queued: VecDeque::new() })
    }

    pub(super) fn window(&self) -> Option<&Window> {
        match self {
            Self::Window { keyboard, .. } => Some(&keyboard.window),
            Self::Plain(_) => None,
        }
    }

    pub(super) fn set_completer(&self, completer: Completer) {
        if let Self::Window { keyboard, .. } = self {
            keyboard.set_completer(completer);
        }
    }

    /// Whether there is something on the line that was not sent yet.
    pub(super) fn has_text(&self) -> bool {
        matches!(self, Self::Window { keyboard, .. } if keyboard.has_text())
    }

    /// What comes next, once nothing else is done. Nothing is lost when this is dropped before.
    pub(super) async fn next(&mut self) -> io::Result<Event> {
        match self {
            Self::Plain(plain) => plain.next().await,
            Self::Window { keyboard, queued } => {
                let Some(line) = queued.pop_front() else { return Ok(keyboard.next().await) };
                keyboard.window.set_queued(queued.iter().cloned().collect());
                Ok(Event::Line(line))
            }
        }
    }

    /// Waits for something that concerns the turn that runs. Lines that are typed meanwhile wait until it is over.
    pub(super) async fn wish(&mut self) -> Wish {
        let pressed = async {
            match self {
                Self::Window { keyboard, queued } => pressed(keyboard, queued).await,
                Self::Plain(_) => {
                    left().await;
                    Wish::Leave
                }
            }
        };
        tokio::select! {
            _ = tokio::signal::ctrl_c() => Wish::Cancel,
            wish = pressed => wish,
        }
    }
}

async fn pressed(keyboard: &mut Keyboard, queued: &mut VecDeque<String>) -> Wish {
    loop {
        match keyboard.next().await {
            Event::Interrupted | Event::Stop => return Wish::Cancel,
            Event::End => return Wish::Leave,
            Event::Open => return Wish::Open,
            Event::NextMode => queued.push_back("/mode next".to_owned()),
            Event::Line(line) if line.trim().is_empty() => (),
            Event::Line(line) => queued.push_back(line),
        }
        keyboard.window.set_queued(queued.iter().cloned().collect());
    }
}

impl Plain {
    fn open() -> Self {
        let (wanted, asked) = channel::<()>();
        let (send, typed) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            while asked.recv().is_ok() {
                let line = plain::read_line(&mut io::stdin().lock(), plain::LINE_BYTES);
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Self { wanted, typed, is_wanted: false }
    }

    async fn next(&mut self) -> io::Result<Event> {
        if !std::mem::replace(&mut self.is_wanted, true) {
            // The thread is there as long as this is.
            self.wanted.send(()).unwrap_or_default(); // Nobody reads any more.
        }
        let line = self.typed.recv().await;
        self.is_wanted = false;
        Ok(line.transpose()?.flatten().map_or(Event::End, Event::Line))
    }
}
