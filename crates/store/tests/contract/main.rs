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
mod encrypted;
mod feed;
mod flips;
mod forks;
mod index;
mod lost_log;
mod owners;
mod passages;
mod places;
mod processes;
mod prompts;
mod purge;
mod random;
mod recall;
mod search;
mod search_bounds;
mod search_hidden;
mod search_random;
mod servers;
mod sessions;
mod stalls;
mod talks;
mod upkeep;
mod usage;
mod within;
mod workflows;

use futures::executor::block_on;
use rethread_testkit::TestStore;

/// The triggers that once kept checksums right.
const CHECKSUMS: &str = include_str!("../../migrations/sqlite/0008_checksums.sql");

/// The file of a store, to be changed behind its back. Rows keep right checksums.
fn raw(store: &TestStore) -> rusqlite::Connection {
    let raw = rusqlite::Connection::open(store.file()).unwrap();
    rethread_store::register_checksums(&raw).unwrap();
    for trigger in CHECKSUMS.split("\ncreate trigger ").skip(1) {
        let (trigger, _) = trigger.split_once("\nend;").unwrap();
        raw.execute_batch(&format!("create temp trigger {trigger}\nend;")).unwrap();
    }
    raw
}

/// Changes rows of a store behind its back, with right checksums where it has them.
fn alter(store: &TestStore, statement: &str) {
    match store.database() {
        Some(database) => drop(database.ask(&format!("set search_path = rethread; {statement}"))),
        None => drop(raw(store).execute(statement, []).unwrap()),
    }
}

/// Runs a test of what is in SQLite's files: those of PostgreSQL are the server's own.
fn on_sqlite(test: impl AsyncFn(&TestStore)) {
    block_on(async { test(&TestStore::sqlite().await).await });
}

/// Runs a test on a new store of every kind.
fn on_each(test: impl AsyncFn(&TestStore)) {
    block_on(async {
        for store in TestStore::each().await {
            test(&store).await;
        }
    });
}
