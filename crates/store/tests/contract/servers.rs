//! Several programs on one database of PostgreSQL, and a server that goes away in between.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use futures::executor::block_on;
use rethread_domain::message::NewMessage;
use rethread_domain::{SessionId, feed::FeedEvent};
use rethread_store::{Append, Error, Store, open};
use rethread_testkit::{TestStore, at, postgres::Database, user};

/// Runs a test on a store of PostgreSQL.
fn on_postgres(test: impl AsyncFn(&TestStore, &Database)) {
    block_on(async {
        let store = TestStore::postgres().await;
        let database = store.database().unwrap();
        test(&store, database).await;
    });
}

fn named(id: &str) -> NewMessage {
    NewMessage { id: Some(id.to_owned()), ..user(id) }
}

/// Everything that is told after a line, as far as it is there.
fn follow(store: &Arc<dyn Store>, after: u64) -> Vec<FeedEvent> {
    block_on(store.feed(after, None, 1_000)).unwrap().events
}

#[test]
fn programs_that_write_at_once_make_one_feed_without_gaps() {
    const WRITERS: usize = 4;
    const EACH: usize = 40;
    on_postgres(async |store, _| {
        let session = store.begin().await;
        let is_over = Arc::new(AtomicBool::new(false));
        let reader = store.open_again().await;
        let until = Arc::clone(&is_over);
        // Whoever follows remembers the last number only: what becomes visible later with a lower one would be lost.
        let followed = thread::spawn(move || {
            let mut seen: Vec<u64> = Vec::new();
            loop {
                let is_last = until.load(Ordering::SeqCst);
                let new = follow(&reader, seen.last().copied().unwrap_or(0));
                seen.extend(new.iter().map(|event| event.no));
                if is_last && new.is_empty() {
                    return seen;
                }
            }
        });
        let mut writers = Vec::new();
        for writer in 0..WRITERS {
            let other = store.open_again().await;
            writers.push(thread::spawn(move || {
                for n in 0..EACH {
                    let text = format!("{writer} {n}");
                    block_on(other.append(Append::new(session, vec![user(&text)]))).unwrap();
                    let refused = vec![named("taken"), user("and another"), named("taken")];
                    let refused =
                        [refused, vec![NewMessage { content: text, ..named("taken") }]].concat();
                    assert!(block_on(other.append(Append::new(session, refused))).is_err());
                }
            }));
        }
        for writer in writers {
            writer.join().unwrap();
        }
        is_over.store(true, Ordering::SeqCst);
        let seen = followed.join().unwrap();
        let head = store.feed_head().await.unwrap();
        assert_eq!(head, 1 + (WRITERS * EACH) as u64);
        assert_eq!(seen, (1..=head).collect::<Vec<_>>());
        let texts = store.texts(session).await;
        assert_eq!(texts.len(), WRITERS * EACH);
        for writer in 0..WRITERS {
            let own = texts.iter().filter(|text| text.starts_with(&format!("{writer} ")));
            let expected = (0..EACH).map(|n| format!("{writer} {n}"));
            assert!(own.eq(expected.collect::<Vec<_>>().iter()), "in the order of its writer");
        }
        store.expect_sound().await;
    });
}

/// Ends every connection to a database but our own.
const CUT: &str = "select count(pg_terminate_backend(pid)) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()";

#[test]
fn what_is_acknowledged_while_connections_are_cut_is_there_once() {
    on_postgres(async |store, database| {
        let session = store.begin().await;
        let other = store.open_again().await;
        let is_over = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&is_over);
        let writer = thread::spawn(move || {
            let mut acknowledged = Vec::new();
            for n in 0.. {
                if until.load(Ordering::SeqCst) && n >= 50 {
                    break;
                }
                let id = format!("m{n}");
                // Without an id nothing keeps it from being there twice.
                let (named, plain) = (vec![named(&id)], vec![user(&format!("plain {n}"))]);
                if block_on(other.append(Append::new(session, named))).is_ok() {
                    acknowledged.push(id);
                }
                if block_on(other.append(Append::new(session, plain))).is_ok() {
                    acknowledged.push(format!("plain {n}"));
                }
            }
            acknowledged
        });
        for _ in 0..20 {
            database.ask(CUT);
        }
        is_over.store(true, Ordering::SeqCst);
        let acknowledged = writer.join().unwrap();
        let again = store.open_again().await;
        let kept: Vec<String> = texts(&again, session).await;
        let mut once = kept.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), kept.len(), "nothing is there twice");
        let lost: Vec<&String> = acknowledged.iter().filter(|text| !kept.contains(text)).collect();
        assert!(lost.is_empty(), "acknowledged and not there: {lost:?}");
        assert!(acknowledged.len() >= 50, "only {} were written", acknowledged.len());
    });
}

async fn texts(store: &Arc<dyn Store>, session: SessionId) -> Vec<String> {
    let span = rethread_store::Span::after(1, u32::MAX);
    let all = store.messages(session, span).await.unwrap();
    all.into_iter().map(|message| message.body.whole().unwrap().to_owned()).collect()
}

#[test]
fn a_program_that_is_silent_loses_what_it_holds_and_writes_nothing_with_it() {
    on_postgres(async |store, database| {
        let id = store.begin().await;
        let silent = store.claim(id).await.unwrap().unwrap();
        let elsewhere = store.open_again().await;
        assert!(elsewhere.claim(id).await.unwrap().is_none());
        // It may just say that it lives.
        let taken = loop {
            database
                .ask("update rethread.node set until = clock_timestamp() - interval '1 second'");
            if let Some(taken) = elsewhere.claim(id).await.unwrap() {
                break taken;
            }
        };
        assert!(taken.epoch > silent.epoch);
        let late = Append { epoch: Some(silent.epoch), ..Append::new(id, vec![user("late")]) };
        assert!(matches!(store.append(late).await, Err(Error::LostClaim(_))));
        // What it lets go is not its own any more.
        drop(silent);
        assert!(store.is_claimed(id).await.unwrap());
        drop(taken);
        assert!(!store.is_claimed(id).await.unwrap());
    });
}

#[test]
fn a_store_that_several_open_first_is_made_once() {
    block_on(async {
        let database = Database::empty();
        let openers: Vec<_> = (0..4)
            .map(|_| {
                let url = database.url();
                thread::spawn(move || block_on(open(&url)).unwrap())
            })
            .collect();
        let stores: Vec<Arc<dyn Store>> =
            openers.into_iter().map(|one| one.join().unwrap()).collect();
        for store in &stores {
            let beginning = rethread_testkit::beginning();
            store.start(SessionId::generate(), beginning, at(0)).await.unwrap();
        }
        assert_eq!(stores[0].feed_head().await.unwrap(), 4);
    });
}

#[test]
fn a_newer_store_is_refused_untouched() {
    on_postgres(async |store, database| {
        database.ask("insert into rethread.migration (no, sum) values (1000, '')");
        let refused = open(store.url()).await.map(drop);
        assert!(matches!(refused, Err(Error::Newer { found: 1000, .. })), "{refused:?}");
    });
}
