//! Undoing what was done to the terminal, also when the program panics.

use std::panic::{self, PanicHookInfo};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

type Hook = Box<dyn Fn(&PanicHookInfo<'_>) + Send + Sync + 'static>;

/// Undoes something once: when it is dropped, or before a panic of any thread is reported, whichever comes first. Before a panic, because the hook that reports may end the program, and because its
/// message has to be seen.
pub(super) struct Restore {
    undo: Arc<Undo>,
    before: Option<Arc<Hook>>,
}

struct Undo {
    pending: AtomicBool,
    action: Box<dyn Fn(bool) + Send + Sync>,
}

impl Undo {
    fn run_once(&self, is_early: bool) {
        if self.pending.swap(false, Ordering::SeqCst) {
            (self.action)(is_early);
        }
    }
}

impl Restore {
    /// The action is told whether it comes before its time: then whoever used the terminal has not ended its work.
    pub(super) fn on_drop(action: impl Fn(bool) + Send + Sync + 'static) -> Self {
        let undo = Arc::new(Undo { pending: AtomicBool::new(true), action: Box::new(action) });
        let before = Arc::new(panic::take_hook());
        let (in_hook, report) = (Arc::clone(&undo), Arc::clone(&before));
        panic::set_hook(Box::new(move |info| {
            in_hook.run_once(true);
            report(info);
        }));
        Self { undo, before: Some(before) }
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        self.undo.run_once(std::thread::panicking());
        // Hooks cannot be changed in the middle of a panic; ours does nothing any more.
        if std::thread::panicking() {
            return;
        }
        // It is ours.
        drop(panic::take_hook());
        if let Some(before) = self.before.take().and_then(Arc::into_inner) {
            panic::set_hook(before);
        }
    }
}
