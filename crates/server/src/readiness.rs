//! The readiness check: the store can be read, and there is room to write.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use crate::state::App;

/// How much must fit on the disk: a few pages of the store's journal.
const PROBE: usize = 256 * 1024;
/// How long a result is reused, so that frequent checks do not write often.
const FRESH: Duration = Duration::from_secs(1);

/// When it was last checked, and why nothing could be written, if so.
#[derive(Debug, Default)]
pub(crate) struct Readiness(Mutex<Option<(Instant, Option<String>)>>);

/// Why the server is not ready; `None` if it is.
pub(crate) async fn why_not_ready(app: &App) -> Option<String> {
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
    // How much room a database server has is not to be seen from here.
    let store = app.settings.store.clone()?;
    let probed = tokio::task::spawn_blocking(move || probe(&store)).await;
    let found = match probed {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(format!("the store cannot be written: {}", error.kind())),
        Err(_) => Some("the disk could not be looked at".to_owned()),
    };
    *known = Some((Instant::now(), found.clone()));
    found
}

/// Writes a probe of the size of a small change beside the store, and removes it.
fn probe(store: &Path) -> std::io::Result<()> {
    // Fails if the file may not be written, or is on a read-only disk.
    drop(OpenOptions::new().append(true).open(store)?);
    let folder = store.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut file = unnamed(folder.unwrap_or(Path::new(".")))?;
    file.write_all(&vec![0; PROBE])
}

/// A file without a name: nothing is left behind, even after a crash.
fn unnamed(folder: &Path) -> std::io::Result<File> {
    tempfile::tempfile_in(folder)
}
