//! What has happened in a turn so far, for those who follow it, however late they come.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::sync::watch;

use super::lock;

/// How much of what an agent says is kept for those who follow; the log has all of it.
const MOST_BYTES: usize = 1 << 20;

/// Each step is a text to be sent.
#[derive(Debug)]
pub(super) struct Steps {
    told: Mutex<Progress>,
    /// How many there are, and whether it is over.
    progress: watch::Sender<(usize, bool)>,
}

#[derive(Debug, Default)]
struct Progress {
    texts: Vec<Arc<str>>,
    bytes: usize,
}

impl Steps {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { told: Mutex::default(), progress: watch::Sender::new((0, false)) })
    }

    /// Adds one, unless there is too much already.
    pub(super) fn push(&self, what: &Value) {
        let mut told = lock(&self.told);
        if told.bytes > MOST_BYTES {
            return;
        }
        let mut text = what.to_string();
        told.bytes += text.len();
        if told.bytes > MOST_BYTES {
            text = json!({"is": "more"}).to_string();
        }
        self.add(&mut told, text);
    }

    /// Adds one that everybody has to see, however much there is.
    pub(super) fn push_always(&self, what: &Value) {
        self.add(&mut lock(&self.told), what.to_string());
    }

    fn add(&self, told: &mut Progress, text: String) {
        told.texts.push(text.into());
        let count = told.texts.len();
        self.progress.send_modify(|progress| progress.0 = count);
    }

    pub(super) fn end(&self) {
        self.progress.send_modify(|progress| progress.1 = true);
    }

    pub(super) fn is_over(&self) -> bool {
        self.progress.borrow().1
    }

    /// Those from `from` on, once there is one more, and whether that is all.
    pub(super) async fn after(&self, from: usize) -> (Vec<Arc<str>>, bool) {
        let mut progress = self.progress.subscribe();
        // The sender is ours: it does not close.
        let seen = progress.wait_for(|(count, is_over)| *count > from || *is_over).await;
        let is_over = seen.is_ok_and(|seen| seen.1);
        let texts = lock(&self.told).texts.iter().skip(from).cloned().collect();
        (texts, is_over)
    }
}
