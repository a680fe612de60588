//! Points at which a test makes the program die, to show that a crash there loses nothing.
//!
//! In debug builds `CRASH_AT=name:n` aborts the process the n-th time it comes to the point of that name.
//! Release builds have no such points.

/// Every point there is, so that a test can go through all of them.
pub(crate) const POINTS: &[&str] = &[
    "migrate.step",
    "batch.begun",
    "append.inserted",
    "append.counted",
    "workflow.inserted",
    "workflow.counted",
    "batch.applied",
    "batch.committed",
    "index.written",
    "purge.done",
    "purge.folded",
    "take_in.half",
    "copy.half",
    "restore.read",
    "restore.reserved",
    "restore.copied",
    "restore.replaced",
    "restore.moved",
];

#[cfg(debug_assertions)]
pub(crate) fn point(name: &str) {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[expect(clippy::disallowed_methods, reason = "a switch for tests, not a setting")]
    static WANTED: LazyLock<Option<(String, u32)>> = LazyLock::new(|| {
        let (name, count) = std::env::var("CRASH_AT")
            .ok()?
            .rsplit_once(':')
            .map(|(n, c)| (n.to_owned(), c.parse()))?;
        Some((name, count.ok()?))
    });
    static SEEN: AtomicU32 = AtomicU32::new(0);

    debug_assert!(POINTS.contains(&name), "{name} is not listed");
    if let Some((wanted, count)) = &*WANTED
        && wanted == name
        && SEEN.fetch_add(1, Ordering::SeqCst) + 1 == *count
    {
        std::process::abort();
    }
}

#[cfg(not(debug_assertions))]
pub(crate) fn point(_: &str) {
    drop(POINTS);
}
