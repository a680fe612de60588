//! Stores of every version that was released are opened by today's program with nothing lost or hidden.

#![allow(clippy::unwrap_used, clippy::expect_used)] // Tests may panic.

mod described;

use std::fs;
use std::path::{Path, PathBuf};

use futures::executor::block_on;
use rethread_domain::SessionId;
use rethread_domain::search::{Filter, Hit, Place};
use rethread_domain::turn::Update;
use rethread_store::{Append, Search, StoreUrl, open};
use rethread_testkit::{assistant, context, user};
use serde_json::Value;

use crate::described::described;

/// A session in which an agent was talking.
const TALKING: &str = "01990000-0000-7000-8000-000000000008";

/// The folders of old stores, each with what was in it when it was made.
fn fixtures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/stores");
    let mut found: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    assert!(!found.is_empty());
    found
}

#[test]
fn every_version_is_opened_with_all_that_is_in_it() {
    for fixture in fixtures() {
        let expected: Value =
            serde_json::from_slice(&fs::read(fixture.join("expected.json")).unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        fs::copy(fixture.join("store.db"), &path).unwrap();
        block_on(async {
            let store = open(&StoreUrl::Sqlite(path)).await.unwrap();
            assert_eq!(described(&*store).await, expected, "{}", fixture.display());
            assert_eq!(store.check().await.unwrap().damage, Vec::<String>::new());
            store.rebuild().await.unwrap();
            assert_eq!(described(&*store).await, expected, "{}: rebuilt", fixture.display());
            let health = store.check().await.unwrap();
            assert_eq!((health.damage, health.drift), (vec![], vec![]));
        });
    }
}

#[test]
fn every_version_is_searched_resumed_and_written_to() {
    for fixture in fixtures() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        fs::copy(fixture.join("store.db"), &path).unwrap();
        block_on(async {
            let store = open(&StoreUrl::Sqlite(path)).await.unwrap();
            let hits = store
                .search(&Search::new("better-sqlite3", Filter::default(), 9))
                .await
                .unwrap()
                .hits;
            // Also before anybody has brought the messages into the index as it is made now.
            let is_message = |hit: &Hit| matches!(hit.place, Place::Message { .. });
            assert!(hits.iter().any(is_message), "{hits:?}");
            let gone = store
                .search(&Search::new("hunter2xyzzy", Filter::default(), 9))
                .await
                .unwrap()
                .hits;
            assert_eq!(gone, []);
            let fork: SessionId = "01990000-0000-7000-8000-000000000002".parse().unwrap();
            let told = context(&store, fork, Some("which library for the database?")).await;
            assert!(told.contains("better-sqlite3") && told.contains("go on here"), "{told}");
            let append = Append::new(fork, vec![user("and on")]);
            let before = store.session(fork).await.unwrap().last_seq;
            assert_eq!(store.append(append).await.unwrap()[0].seq, before + 1);
        });
    }
}

#[test]
fn every_version_is_talked_on_in() {
    for fixture in fixtures() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        fs::copy(fixture.join("store.db"), &path).unwrap();
        block_on(async {
            let store = open(&StoreUrl::Sqlite(path)).await.unwrap();
            let id: SessionId = TALKING.parse().unwrap();
            assert_eq!(store.underway().await.unwrap(), [(id, "main".to_owned())]);
            let begun = store.begun(id, "main").await.unwrap().unwrap();
            let held = store.watermark(id, "main", "codex").await.unwrap().unwrap();
            assert_eq!((held.upto, begun.what.request), (2, 3));
            let now = Update::Text { text: " On it.".to_owned() };
            store.stream(id, "main", vec![(begun.at, now)]).await.unwrap();
            let more = store.begun(id, "main").await.unwrap().unwrap();
            assert_eq!(more.updates.len(), begun.updates.len() + 1);
            let ends = Append {
                ends: Some("main".to_owned()),
                holds: begun.what.watermark,
                ..Append::new(id, vec![assistant("I look. On it.")])
            };
            assert_eq!(store.append(ends).await.unwrap()[0].seq, 4);
            let held = store.watermark(id, "main", "codex").await.unwrap().unwrap();
            assert_eq!((held.upto, held.messages), (4, 4));
            let health = store.check().await.unwrap();
            assert_eq!((health.damage, health.drift), (vec![], vec![]));
        });
    }
}
