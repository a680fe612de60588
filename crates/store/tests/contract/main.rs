//! What every store promises, written once and run against each of them.

#![allow(clippy::unwrap_used, clippy::expect_used)] // Tests may panic.

mod access;
mod agents;
mod append;
mod bytes;
mod claims;
mod crashes;
mod damaged;
mod damaged_log;
mod feed;
mod flips;
mod forks;
mod index;
mod lost_log;
mod owners;
mod places;
mod processes;
mod prompts;
mod purge;
mod random;
mod recall;
mod search;
mod search_bounds;
mod search_hidden;
mod sessions;
mod stalls;
mod talks;
mod upkeep;
mod usage;
mod within;
mod workflows;

use futures::executor::block_on;
use rethread_testkit::TestStore;

/// The file of a store, to be changed behind its back.
fn raw(store: &TestStore) -> rusqlite::Connection {
    let rethread_store::StoreUrl::Sqlite(path) = store.url();
    let raw = rusqlite::Connection::open(path).unwrap();
    rethread_store::register_checksums(&raw).unwrap();
    raw
}

/// Runs a test on a new store of every kind.
fn on_each(test: impl AsyncFn(&TestStore)) {
    block_on(async {
        for store in TestStore::each().await {
            test(&store).await;
        }
    });
}
