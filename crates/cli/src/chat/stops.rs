//! What ends a turn before its time.

use std::time::Duration;

use super::ask;
use crate::terminal::leave;

/// How often is looked for Ctrl-D.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What a person wants while a turn runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wish {
    /// To see all of what was folded.
    Open,
    /// Escape or Ctrl-C: no more of this answer.
    Cancel,
    /// Ctrl-D: no more at all.
    Leave,
}

/// Waits for Ctrl-D where nobody reads what is typed, also as the answer to a question.
pub(super) async fn left() {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        // Whoever reads the answer to a question sees it first.
        if ask::is_left() || !ask::is_asking() && leave::is_wanted() {
            return;
        }
    }
}
