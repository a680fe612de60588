//! Whether the server can serve: the store can be read, and there is room to write.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use crate::state::App;

/// What has to fit onto the disk: a few pages of the store's journal.
const PROBE: usize = 256 * 1024;
/// How long what was found is true: whoever asks often does not write often.
const FRESH: Duration = Duration::from_secs(1);

/// When was looked, and why nothing can be written, if so.
#[derive(Debug, Default)]
pub(crate) struct Readiness(Mutex<Option<(Instant, Option<String>)>>);

/// Why the server is not ready; nothing where it is.
pub(crate) async fn trouble(app: &App) -> Option<String> {
    if app.stop.is_cancelled() {
        return Some("the server is stopping".to_owned());
    }
    if app.engine.feed_head().await.is_err() {
        return Some("the store cannot be read".to_owned());
    }
    let mut known = app.ready.0.lock().await;
    if let Some((at, found)) = &*known
        && at.elapsed() < FRESH
    {
        return found.clone();
    }
    let store = app.settings.store.clone();
    let probed = tokio::task::spawn_blocking(move || probe(&store)).await;
    let found = match probed {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(format!("the store cannot be written: {}", error.kind())),
        Err(_) => Some("the disk could not be looked at".to_owned()),
    };
    *known = Some((Instant::now(), found.clone()));
    found
}

/// Writes beside the store what a change of it takes, and removes it again.
fn probe(store: &Path) -> std::io::Result<()> {
    // A file that may not be written, or lies on a disk that may only be read.
    drop(OpenOptions::new().append(true).open(store)?);
    let folder = store.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut file = unnamed(folder.unwrap_or(Path::new(".")))?;
    file.write_all(&vec![0; PROBE])
}

/// A file without a name: nothing is left of it, however we end.
fn unnamed(folder: &Path) -> std::io::Result<File> {
    tempfile::tempfile_in(folder)
}
