//! Diagnostics: what the program notes while it works, for whoever looks into a failure later.
//!
//! Libraries only know `tracing`; the one subscriber is here. Every event becomes a [line](mod@line), in which secrets are
//! redacted and control characters are spelled out, and is written by a thread of its own from a bounded queue: a full
//! disk, or a reader that is gone, neither stops nor slows the program.

mod file;
mod layer;
mod line;
mod queue;

use std::sync::OnceLock;

use rethread_redact::Redactor;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;

pub(crate) use file::{Reader, folder};
pub(crate) use line::text;
pub(crate) use queue::Output;

use crate::config;
use crate::error::BadInput;
use queue::Queue;

/// Our own lines from `info` on, and what the libraries below us warn of.
const USUAL: &str = "warn,rethread=info";

static QUEUE: OnceLock<Queue> = OnceLock::new();
/// Whether the log is on standard error.
static IS_SHOWN: OnceLock<bool> = OnceLock::new();

/// From here on events are written to `output`, as far as `RETHREAD_LOG` lets them through.
pub(crate) fn start(output: Output, redactor: Redactor) -> Result<(), BadInput> {
    let wanted = config::log_filter();
    let filter = filter(wanted.as_deref().unwrap_or(USUAL))?;
    IS_SHOWN.get_or_init(|| output != Output::File);
    let queue = QUEUE.get_or_init(|| Queue::new(output.writer(), redactor));
    let lines = layer::Lines::new(queue);
    // Only tests that run in one process could have another one already.
    drop(tracing::subscriber::set_global_default(
        tracing_subscriber::registry().with(filter).with(lines),
    ));
    Ok(())
}

/// A level for all, or `MODULE=LEVEL`, separated by commas. A module without a level, which would mean everything of it,
/// is more likely a misspelt level.
fn filter(wanted: &str) -> Result<Targets, BadInput> {
    let is_known = |part: &str| part.contains('=') || part.trim().parse::<LevelFilter>().is_ok();
    let parsed = wanted.parse::<Targets>().map_err(|error| error.to_string());
    let misspelt = wanted.split(',').find(|part| !is_known(part));
    let parsed = misspelt.map_or(parsed, |part| Err(format!("{part:?} is not a level")));
    parsed.map_err(|error| {
        BadInput::new(
            format!("RETHREAD_LOG is not a filter: {error}"),
            "give error, warn, info, debug, trace or off, or levels of modules: warn,rethread_engine=debug",
        )
    })
}

/// Whether what is noted is seen on standard error, where errors are told as well.
pub(crate) fn is_shown() -> bool {
    IS_SHOWN.get().copied().unwrap_or(false)
}

/// Waits, for a bounded time, until everything is written that was noted.
pub(crate) fn flush() {
    // Who does not read it is not waited for any longer.
    if let Some(queue) = QUEUE.get() {
        queue.flush();
    }
}
