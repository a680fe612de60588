//! Erasing, copies, taking in, checks and rebuilding.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::executor::block_on;
use rethread_domain::message::{Extras, NewMessage, Usage};
use rethread_domain::session::FactRecord;
use rethread_domain::{Conversation, Fact, Message, Session, SessionId, Status};
use rethread_store::{Append, Dump, Error, ListFilter, Span, StoreUrl, open, restore};
use rethread_testkit::{TestStore, Texts, assistant, at, beginning, tool, until, user};

use crate::{on_each, on_sqlite};

/// Everything that can be read of a session.
#[derive(Debug, PartialEq)]
pub(crate) struct Whole {
    session: Session,
    conversations: Vec<Conversation>,
    facts: Vec<FactRecord>,
    messages: Vec<Message>,
    agents: Vec<rethread_domain::context::AgentUse>,
}

impl Whole {
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    pub(crate) fn messages(&self) -> &[Message] {
        &self.messages
    }
}

pub(crate) async fn whole(store: &TestStore, id: SessionId) -> Whole {
    Whole {
        session: store.session(id).await.unwrap(),
        conversations: store.conversations(id).await.unwrap(),
        facts: store.facts(id).await.unwrap(),
        messages: store.all(id).await,
        agents: store.agents(id).await.unwrap(),
    }
}

/// The log of a session, as it would come from elsewhere.
pub(crate) async fn dump(store: &TestStore, id: SessionId) -> Dump {
    let messages = store.all(id).await.into_iter().map(|message| {
        let new = NewMessage {
            id: message.given_id.or(Some(id.message(message.seq))),
            role: message.role,
            content: message.body.whole().unwrap().to_owned(),
            at: message.at,
            conversation: message.conversation,
            extras: message.extras,
            price: message.price,
        };
        (new, message.purged_at)
    });
    Dump { id, facts: store.facts(id).await.unwrap(), messages: messages.collect() }
}

/// A session with everything in it.
async fn rich(store: &TestStore) -> SessionId {
    let usage = Usage { input_tokens: 5, output_tokens: 7, cost_usd: Some(0.5) };
    let extras = Extras { agent: Some("codex".into()), usage: Some(usage), ..Extras::default() };
    let id = store.begin().await;
    let review = NewMessage { conversation: "review".into(), ..user("Look at this") };
    let messages = vec![
        NewMessage { id: Some("first".into()), ..user("Fix the cart") },
        NewMessage { extras, at: at(9), ..assistant("Done: the cart is fixed now, it was cents.") },
        review,
        tool(&Texts::new(6).text(50_000)),
        user("A secret"),
    ];
    store.add(id, messages).await.unwrap();
    store.purge(id, 5, at(20)).await.unwrap();
    store.engine().prune(id, 1).await.unwrap();
    store.note(id, Fact::Moved { to: Status::Paused }).await;
    id
}

#[test]
fn a_session_that_is_taken_in_is_the_same_as_it_was() {
    on_each(async |store| {
        let id = rich(store).await;
        let fork = store.fork(id, 4, SessionId::generate(), at(600)).await.unwrap().id;
        store.add(fork, vec![user("Go on")]).await.unwrap();
        for target in TestStore::each().await {
            for one in [id, fork] {
                let taken = target.take_in(dump(store, one).await).await.unwrap();
                assert_eq!(taken, store.session(one).await.unwrap());
                target.expect_sound().await;
                target.index_all().await;
                target.expect_sound().await;
                assert_eq!(whole(&target, one).await, whole(store, one).await);
            }
            let again = target.take_in(dump(store, id).await).await;
            assert!(matches!(again, Err(Error::Exists(found)) if found == id));
            target.rebuild().await.unwrap();
            target.expect_sound().await;
        }
    });
}

#[test]
fn a_log_that_does_not_hold_together_is_refused_and_nobody_else_is_hurt() {
    on_each(async |store| {
        let id = rich(store).await;
        let log = dump(store, id).await;
        let new = SessionId::generate();
        let headless = Dump { id: new, facts: log.facts[1..].to_vec(), messages: vec![] };
        let nowhere =
            Dump { id: new, facts: log.facts[..1].to_vec(), messages: log.messages.clone() };
        let mut twice = Dump { id: new, ..log };
        twice.messages.push(twice.messages[0].clone());
        for bad in [headless, nowhere, twice] {
            let good = store.begin().await;
            // In one batch, as likely as not.
            let writes = (0..20).map(|_| store.add(good, vec![user("good")]));
            let (refused, others) =
                futures::future::join(store.take_in(bad), futures::future::join_all(writes)).await;
            assert!(refused.is_err());
            for other in others {
                other.unwrap();
            }
            assert!(matches!(store.session(new).await, Err(Error::NotFound(_))));
        }
        store.expect_sound().await;
    });
}

#[test]
fn an_erased_session_leaves_nothing_behind() {
    on_each(async |store| {
        let id = rich(store).await;
        let other = store.begin().await;
        store.add(other, vec![user("stays")]).await.unwrap();
        store.index_all().await;
        store.erase(id).await.unwrap();
        assert!(matches!(store.session(id).await, Err(Error::NotFound(_))));
        let usage = store.usage().await.unwrap();
        assert_eq!((usage.sessions, usage.messages, usage.blob_bytes), (1, 1, 0));
        assert_eq!(store.texts(other).await, ["stays"]);
        store.expect_sound().await;
    });
}

#[test]
fn nothing_of_an_erased_session_is_in_a_compacted_file() {
    on_each(async |store| {
        let word = "hunter2xyzzy";
        let id = store.begin().await;
        store.add(id, vec![user(&format!("The word is {word}."))]).await.unwrap();
        store.begin().await;
        store.index_all().await;
        assert!(store.holds(word));
        store.erase(id).await.unwrap();
        store.compact().await.unwrap();
        assert!(!store.holds(word));
        store.expect_sound().await;
    });
}

#[test]
fn only_what_was_deleted_long_enough_ago_is_erased() {
    on_each(async |store| {
        let mut ids = Vec::new();
        for minute in [10, 20] {
            let id = store.begin().await;
            let before = store.session(id).await.unwrap();
            store.change(&before, Fact::Deleted, at(minute)).await.unwrap();
            ids.push(id);
        }
        ids.push(store.begin().await);
        assert_eq!(store.erase_deleted(at(10)).await.unwrap(), 0);
        assert_eq!(store.erase_deleted(at(15)).await.unwrap(), 1);
        assert!(matches!(store.session(ids[0]).await, Err(Error::NotFound(_))));
        assert!(store.session(ids[1]).await.is_ok() && store.session(ids[2]).await.is_ok());
        assert_eq!(store.usage().await.unwrap().deleted_sessions, 1);
        store.expect_sound().await;
    });
}

#[test]
fn rebuilding_gives_what_was_there() {
    on_each(async |store| {
        let id = rich(store).await;
        let fork = store.fork(id, 2, SessionId::generate(), at(600)).await.unwrap().id;
        store.add(fork, vec![user("Go on")]).await.unwrap();
        let before = [whole(store, id).await, whole(store, fork).await];
        store.rebuild().await.unwrap();
        assert_eq!([whole(store, id).await, whole(store, fork).await], before);
        assert_eq!(store.check().await.unwrap().unindexed, 0);
        store.expect_sound().await;
        store.compact().await.unwrap();
        assert_eq!([whole(store, id).await, whole(store, fork).await], before);
        store.expect_sound().await;
    });
}

#[test]
fn a_copy_has_everything_and_can_be_put_back() {
    on_sqlite(async |store| {
        let id = rich(store).await;
        let before = whole(store, id).await;
        let copy = store.beside("copy.db");
        store.backup(&copy).await.unwrap();
        store.add(id, vec![user("Later")]).await.unwrap();
        let opened = open(&StoreUrl::Sqlite(copy.clone())).await.unwrap();
        assert_eq!(opened.session(id).await.unwrap(), before.session);
        drop(opened);
        let elsewhere = store.beside("elsewhere.db");
        assert_eq!(restore(&copy, &elsewhere, at(1)).unwrap().kept, None);
        let elsewhere = StoreUrl::Sqlite(elsewhere);
        assert_eq!(open(&elsewhere).await.unwrap().session(id).await.unwrap(), before.session);
        let kept = restore(&copy, store.file(), at(1)).unwrap().kept.unwrap();
        assert_eq!(whole(store, id).await, before);
        store.expect_sound().await;
        // Each time what was there is kept, at the same moment too.
        let again = restore(&copy, store.file(), at(1)).unwrap().kept.unwrap();
        assert_ne!(again, kept);
        for (kept, count) in [(kept, 6), (again, 5)] {
            let kept = open(&StoreUrl::Sqlite(kept)).await.unwrap();
            assert_eq!(kept.session(id).await.unwrap().last_seq, count);
        }
    });
}

#[test]
fn what_is_acknowledged_while_a_copy_is_put_back_is_kept() {
    on_sqlite(async |store| {
        let id = store.begin().await;
        store.add(id, vec![user("before")]).await.unwrap();
        let copy = store.beside("copy.db");
        store.backup(&copy).await.unwrap();
        for round in 0..8 {
            let (acknowledged, is_over) = (Mutex::new(Vec::new()), AtomicBool::new(false));
            let kept = std::thread::scope(|scope| {
                scope.spawn(|| {
                    let writer = block_on(store.open_again());
                    for n in 0.. {
                        let text = format!("{round}: {n}");
                        let added = block_on(writer.append(Append::new(id, vec![user(&text)])));
                        if added.is_err() || is_over.load(Ordering::SeqCst) {
                            break;
                        }
                        acknowledged.lock().unwrap().push(text);
                    }
                });
                until("the writer is at work", || {
                    (acknowledged.lock().unwrap().len() > 20).then_some(())
                });
                let kept = restore(&copy, store.file(), at(round)).unwrap().kept.unwrap();
                is_over.store(true, Ordering::SeqCst);
                kept
            });
            let kept = open(&StoreUrl::Sqlite(kept)).await.unwrap();
            let mut said: HashSet<String> = store.texts(id).await.into_iter().collect();
            let before = kept.messages(id, Span::after(1, u32::MAX)).await.unwrap();
            said.extend(before.into_iter().map(|one| one.body.whole().unwrap().to_owned()));
            for text in acknowledged.into_inner().unwrap() {
                assert!(said.contains(&text), "{text} was acknowledged and is gone");
            }
        }
    });
}

#[test]
fn usage_tells_what_there_is() {
    on_each(async |store| {
        let empty = store.usage().await.unwrap();
        assert_eq!((empty.sessions, empty.messages, empty.deleted_sessions), (0, 0, 0));
        let id = store.begin().await;
        store.add(id, vec![user("one"), user("two")]).await.unwrap();
        let deleted = store.begin().await;
        store.note(deleted, Fact::Deleted).await;
        let usage = store.usage().await.unwrap();
        assert_eq!((usage.sessions, usage.messages, usage.deleted_sessions), (1, 2, 1));
        assert!(usage.file_bytes + usage.wal_bytes > 0 && usage.schema > 0);
        let all = store.list(&ListFilter { limit: 9, ..ListFilter::default() }).await.unwrap();
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].beginning(None), beginning());
    });
}

#[test]
fn the_sqlite_in_this_program_has_no_known_way_to_damage_a_file() {
    let version = rethread_store::sqlite_version();
    let parts: Vec<u32> = version.split('.').map(|part| part.parse().unwrap()).collect();
    assert!(parts >= vec![3, 51, 3], "{version}");
}
