//! Asking the person at the terminal whether an agent may use a tool.

use std::io::{IsTerminal, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex as Lock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use rethread_engine::agents::{Asker, Question};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{QueueSelector, tcflush};
use tokio::sync::Mutex;

use super::question::{chosen, options, shown};
use crate::output;
use crate::terminal::markdown::Piece;
use crate::terminal::styled::{DIM, Line};
use crate::terminal::window::{Kind, Window};

/// What an agent said before it asks is written down first, and shown so much later at most.
const BEFORE: Duration = Duration::from_millis(100);
/// How often is looked whether the question is still asked.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Whether a question stands on the terminal. The terminal is one for the whole program, and so is this.
static IS_ASKING: AtomicBool = AtomicBool::new(false);
/// Whether the cursor stands behind a question, on the same line.
static IS_BEHIND: AtomicBool = AtomicBool::new(false);
/// Whether a question was answered with Ctrl-D.
static IS_LEFT: AtomicBool = AtomicBool::new(false);

pub(super) fn is_asking() -> bool {
    IS_ASKING.load(Ordering::SeqCst)
}

/// Whether Ctrl-D was the answer to a question; says so once.
pub(super) fn is_left() -> bool {
    IS_LEFT.swap(false, Ordering::SeqCst)
}

/// Begins a line where the cursor stands behind a question that will not be answered.
pub(super) fn end_line() {
    if IS_BEHIND.swap(false, Ordering::SeqCst) {
        output::note(format_args!(""));
    }
}

/// A question that stands on the terminal until this is dropped, however that comes about.
struct Standing;

impl Standing {
    fn new() -> Self {
        IS_ASKING.store(true, Ordering::SeqCst);
        Self
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        end_line();
        IS_ASKING.store(false, Ordering::SeqCst);
    }
}

/// Whoever sits at the terminal.
#[derive(Debug)]
pub(crate) struct Person {
    is_there: bool,
    /// Whether a line is being typed: what is typed then is no answer.
    is_typing: AtomicBool,
    /// One question after the other: what is typed answers the one that is shown.
    asking: Mutex<()>,
    /// Where there is a window, that is asked in.
    window: Lock<Option<Window>>,
}

impl Person {
    pub(crate) fn new(json: bool) -> Self {
        Self {
            is_there: !json && std::io::stdin().is_terminal() && std::io::stderr().is_terminal(),
            is_typing: AtomicBool::new(false),
            asking: Mutex::new(()),
            window: Lock::new(None),
        }
    }

    pub(crate) fn set_window(&self, window: Option<Window>) {
        *self.window.lock().unwrap_or_else(PoisonError::into_inner) = window;
    }

    fn window(&self) -> Option<Window> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_typing(&self, is_typing: bool) {
        self.is_typing.store(is_typing, Ordering::SeqCst);
    }
}

/// Stops the thread that waits for an answer, when nobody wants one any more.
struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[async_trait]
impl Asker for Person {
    fn is_there(&self) -> bool {
        self.is_there && !self.is_typing.load(Ordering::SeqCst)
    }

    async fn ask(&self, question: &Question) -> Option<String> {
        let _turn = self.asking.lock().await;
        tokio::time::sleep(BEFORE).await;
        match self.window() {
            Some(window) => in_window(&window, question).await,
            None => on_terminal(question).await,
        }
    }

    fn answered(&self, _: &Question, _: &str) {}
}

async fn in_window(window: &Window, question: &Question) -> Option<String> {
    window.end_text();
    let lines = shown(question).into_iter().map(|line| Piece::Line(line, 4));
    window.show(Kind::Tool, lines.collect());
    let mut prompt = "Number (Esc cancels the turn): ".to_owned();
    loop {
        let answer = window.ask(options(question), &prompt).await?;
        if let Some(id) = chosen(question, &answer) {
            let option = question.options.iter().find(|option| option.id == id);
            let name = option.map(|option| format!("    {}", option.name)).unwrap_or_default();
            window.show(Kind::Tool, vec![Piece::Line(Line::new(&name, DIM), 4)]);
            return Some(id);
        }
        prompt = format!("Type a number from 1 to {}. Number: ", question.options.len());
    }
}

async fn on_terminal(question: &Question) -> Option<String> {
    let _standing = Standing::new();
    output::note(format_args!(""));
    output::note_lines(&shown(question));
    for option in options(question) {
        output::note(format_args!("{option}"));
    }
    forget_typed();
    loop {
        // Nobody may be there to see it.
        drop(write!(std::io::stderr(), "Number (Ctrl-C cancels the turn): "));
        IS_BEHIND.store(true, Ordering::SeqCst);
        let stopped = Arc::new(AtomicBool::new(false));
        let stop = Stop(Arc::clone(&stopped));
        let answer = tokio::task::spawn_blocking(move || read_line(&stopped)).await.ok()?;
        drop(stop);
        let answer = answer?;
        IS_BEHIND.store(false, Ordering::SeqCst);
        if let Some(id) = chosen(question, &answer) {
            return Some(id);
        }
        output::note(format_args!("Type a number from 1 to {}.", question.options.len()));
    }
}

/// Drops what was typed before the question could be read: it was meant for something else.
fn forget_typed() {
    let terminal = std::fs::File::open("/dev/tty");
    if let Err(error) = terminal.and_then(|terminal| Ok(tcflush(&terminal, QueueSelector::IFlush)?))
    {
        tracing::debug!(%error, "what was typed before a question could not be dropped");
    }
}

/// A line from the terminal; `None` at its end, or when it is no longer wanted.
fn read_line(stopped: &AtomicBool) -> Option<String> {
    let mut terminal = std::fs::File::open("/dev/tty").ok()?;
    let mut line = Vec::new();
    while !stopped.load(Ordering::SeqCst) {
        let mut waiting = [PollFd::new(&terminal, PollFlags::IN)];
        let is_ready = matches!(poll(&mut waiting, Some(&LOOK)), Ok(ready) if ready > 0);
        // What is typed after the end of a question is for the next one.
        if !is_ready || stopped.load(Ordering::SeqCst) {
            continue;
        }
        let mut bytes = [0; 256];
        let read = terminal.read(&mut bytes).ok()?;
        if read == 0 {
            IS_LEFT.store(true, Ordering::SeqCst);
            return None;
        }
        line.extend_from_slice(&bytes[..read]);
        if line.ends_with(b"\n") {
            return String::from_utf8(line).ok();
        }
    }
    None
}
