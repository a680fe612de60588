//! Waiting for what happens elsewhere.

use std::time::{Duration, Instant};

/// How long something may take that happens in another process.
const PATIENCE: Duration = Duration::from_mins(1);

/// Looks again and again until it is so.
#[track_caller]
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
