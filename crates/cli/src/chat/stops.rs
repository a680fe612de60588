//! What ends a turn before its time.

use std::time::Duration;

use super::ask;
use super::lines::Lines;
use crate::terminal::leave;

/// How often is looked for Ctrl-D.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What a person wants of the turn that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stop {
    /// Ctrl-C: no more of this answer.
    Cancel,
    /// Ctrl-D: no more at all.
    Leave,
}

/// Where it is heard.
pub(super) enum Stops<'a> {
    /// From the terminal itself, while nobody reads from it.
    Terminal,
    /// From the editor, while a line is typed.
    Editor(&'a mut Lines),
}

impl Stops<'_> {
    pub(super) async fn next(&mut self) -> Stop {
        let pressed = async {
            match self {
                Self::Editor(lines) => {
                    lines.interrupted().await;
                    Stop::Cancel
                }
                Self::Terminal => {
                    left().await;
                    Stop::Leave
                }
            }
        };
        tokio::select! {
            _ = tokio::signal::ctrl_c() => Stop::Cancel,
            stop = pressed => stop,
        }
    }
}

/// Waits for Ctrl-D, also as the answer to a question.
async fn left() {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        // Whoever reads the answer to a question sees it first.
        if ask::is_left() || !ask::is_asking() && leave::is_wanted() {
            return;
        }
    }
}
