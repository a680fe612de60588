//! The steps of a turn so far, for clients that follow it, however late they come.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::sync::watch;

use super::lock;

/// How much of what an agent says is kept for followers; the session has all of it.
const MOST_BYTES: usize = 1 << 20;

/// The steps, serialized.
#[derive(Debug)]
pub(super) struct Steps {
    steps: Mutex<Progress>,
    /// How many steps there are, and whether the turn is over.
    progress: watch::Sender<(usize, bool)>,
}

#[derive(Debug, Default)]
struct Progress {
    texts: Vec<Arc<str>>,
    bytes: usize,
}

impl Steps {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { steps: Mutex::default(), progress: watch::Sender::new((0, false)) })
    }

    /// Adds a step, unless the limit is reached.
    pub(super) fn push(&self, what: &Value) {
        let mut steps = lock(&self.steps);
        if steps.bytes > MOST_BYTES {
            return;
        }
        let mut text = what.to_string();
        steps.bytes += text.len();
        if steps.bytes > MOST_BYTES {
            text = json!({"is": "more"}).to_string();
        }
        self.add(&mut steps, text);
    }

    /// Adds a step that every client must see, regardless of the limit.
    pub(super) fn push_always(&self, what: &Value) {
        self.add(&mut lock(&self.steps), what.to_string());
    }

    fn add(&self, steps: &mut Progress, text: String) {
        steps.texts.push(text.into());
        let count = steps.texts.len();
        self.progress.send_modify(|progress| progress.0 = count);
    }

    pub(super) fn end(&self) {
        self.progress.send_modify(|progress| progress.1 = true);
    }

    pub(super) fn is_over(&self) -> bool {
        self.progress.borrow().1
    }

    /// The steps from `from` on, once there is a new one, and whether the turn is over.
    pub(super) async fn after(&self, from: usize) -> (Vec<Arc<str>>, bool) {
        let mut progress = self.progress.subscribe();
        // We own the sender, so the channel does not close.
        let seen = progress.wait_for(|(count, is_over)| *count > from || *is_over).await;
        let is_over = seen.is_ok_and(|seen| seen.1);
        let texts = lock(&self.steps).texts.iter().skip(from).cloned().collect();
        (texts, is_over)
    }
}
