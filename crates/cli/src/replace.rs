//! Another program in the place of this one, once everything of ours is closed.

use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

static NEXT: Mutex<Option<Command>> = Mutex::new(None);

/// The command takes the place of this process when it would end.
pub(crate) fn later(command: Command) {
    *NEXT.lock().unwrap_or_else(PoisonError::into_inner) = Some(command);
}

/// Becomes the command, if there is one; returns only if that fails.
pub(crate) fn now() -> Option<anyhow::Error> {
    let mut command = NEXT.lock().unwrap_or_else(PoisonError::into_inner).take()?;
    let error = command.exec();
    let program = command.get_program().to_string_lossy().into_owned();
    Some(anyhow::Error::new(error).context(format!("{program} cannot be started")))
}
