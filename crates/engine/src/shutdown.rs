//! The signals that ask this process to end.

use tokio::signal::unix::{SignalKind, signal};

/// Waits for SIGTERM or Ctrl-C. Signals are caught from this call on, whether or not anybody waits yet.
pub fn shutdown_signal() -> std::io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => (),
            _ = interrupt.recv() => (),
        }
    })
}
