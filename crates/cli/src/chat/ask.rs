//! Asking the person at the terminal whether an agent may use a tool.

use std::io::{IsTerminal, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use rethread_domain::quote::one_line;
use rethread_engine::agents::{Asker, Question};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::output;

/// How often is looked whether the question is still asked.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Whoever sits at the terminal.
#[derive(Debug)]
pub(crate) struct Person {
    is_there: bool,
    /// Whether a line is being typed: what is typed then is no answer.
    is_typing: AtomicBool,
}

impl Person {
    pub(crate) fn new(json: bool) -> Self {
        Self {
            is_there: !json && std::io::stdin().is_terminal() && std::io::stderr().is_terminal(),
            is_typing: AtomicBool::new(false),
        }
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
        let (kind, title) = (one_line(&question.kind, 20), one_line(&question.title, 200));
        output::note(format_args!("\nMay it {kind}: {title}?"));
        for (number, option) in (1..).zip(&question.options) {
            output::note(format_args!("  {number}. {}", one_line(&option.name, 80)));
        }
        loop {
            drop(write!(std::io::stderr(), "Number (Ctrl-C cancels the turn): "));
            let stopped = Arc::new(AtomicBool::new(false));
            let stop = Stop(Arc::clone(&stopped));
            let answer = tokio::task::spawn_blocking(move || read_line(&stopped)).await.ok()?;
            drop(stop);
            let number: Option<usize> = answer?.trim().parse().ok();
            let chosen = number.and_then(|number| question.options.get(number.checked_sub(1)?));
            if let Some(option) = chosen {
                return Some(option.id.clone());
            }
        }
    }

    fn told(&self, _: &Question, _: &str) {}
}

/// A line from the terminal; `None` at its end, or when it is no longer wanted.
fn read_line(stopped: &AtomicBool) -> Option<String> {
    let mut terminal = std::fs::File::open("/dev/tty").ok()?;
    let mut line = Vec::new();
    while !stopped.load(Ordering::SeqCst) {
        let mut waiting = [PollFd::new(&terminal, PollFlags::IN)];
        if !matches!(poll(&mut waiting, Some(&LOOK)), Ok(ready) if ready > 0) {
            continue;
        }
        let mut bytes = [0; 256];
        let read = terminal.read(&mut bytes).ok().filter(|read| *read > 0)?;
        line.extend_from_slice(&bytes[..read]);
        if line.ends_with(b"\n") {
            return String::from_utf8(line).ok();
        }
    }
    None
}
