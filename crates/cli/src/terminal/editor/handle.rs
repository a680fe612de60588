//! What other threads see of an editor that reads, and what they may do to it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use rustyline::ExternalPrinter;

use super::super::restore::Early;

#[derive(Clone, Default)]
pub(crate) struct Handle {
    has_text: Arc<AtomicBool>,
    /// The terminal's modes, while the editor reads.
    modes: Arc<Mutex<Option<Early>>>,
    above: Option<Sender<String>>,
}

impl Handle {
    /// Prints on a thread of its own: the editor takes what is printed only when it waits for a key, and nobody
    /// else should wait for that.
    pub(super) fn new(printer: Option<impl ExternalPrinter + Send + 'static>) -> Self {
        let above = printer.map(|mut printer| {
            let (above, texts) = channel::<String>();
            std::thread::spawn(move || {
                for text in texts {
                    // Nobody is left to see it.
                    drop(printer.print(text));
                }
            });
            above
        });
        Self { above, ..Self::default() }
    }

    pub(super) fn has(&self, line: &str) {
        self.has_text.store(!line.is_empty(), Ordering::SeqCst);
    }

    pub(super) fn reads(&self, modes: Option<Early>) {
        self.has("");
        *self.modes.lock().unwrap_or_else(PoisonError::into_inner) = modes;
    }

    /// Whether there is something on the line that was not sent yet.
    pub(crate) fn has_text(&self) -> bool {
        self.has_text.load(Ordering::SeqCst)
    }

    /// Whether there is a line that other text must not be written into.
    pub(crate) fn is_drawn(&self) -> bool {
        self.above.is_some()
    }

    /// Prints whole lines above the one that is being typed, which is drawn again.
    pub(crate) fn print_above(&self, text: String) {
        if let Some(above) = &self.above {
            // The thread is there as long as this is.
            drop(above.send(text));
        }
    }

    /// Gives the terminal back although the editor reads: it will not read to the end.
    pub(crate) fn give_back(&self) {
        if let Some(modes) = &*self.modes.lock().unwrap_or_else(PoisonError::into_inner) {
            modes.undo();
        }
    }
}
