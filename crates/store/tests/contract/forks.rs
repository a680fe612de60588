//! Forks share what they fork from, and do not affect each other.

use rethread_domain::context::Limits;
use rethread_domain::message::NewMessage;
use rethread_domain::search::{Filter, Place};
use rethread_domain::session::Origin;
use rethread_domain::{Fact, SessionId, Status};
use rethread_store::{Error, RecallRequest, Search};
use rethread_testkit::{TestStore, Texts, assistant, at, user};

use crate::on_each;

async fn fork(store: &TestStore, source: SessionId, seq: u32) -> SessionId {
    store.fork(source, seq, SessionId::generate(), at(100)).await.unwrap().id
}

async fn said(store: &TestStore, texts: &[&str]) -> SessionId {
    let id = store.begin().await;
    store.add(id, texts.iter().map(|text| user(text)).collect()).await.unwrap();
    id
}

/// The sessions in which a word is found, each with the number of the message.
async fn found(store: &TestStore, words: &str, filter: &Filter) -> Vec<(SessionId, u32)> {
    let hits = store.search(&Search::new(words, filter.clone(), 50)).await.unwrap().hits;
    let message = |place: Place| match place {
        Place::Message { seq, .. } => Some(seq),
        Place::Title | Place::Summary => None,
    };
    hits.into_iter().filter_map(|hit| Some((hit.session, message(hit.place)?))).collect()
}

#[test]
fn a_fork_goes_on_from_the_end_and_neither_side_sees_the_other() {
    on_each(async |store| {
        let source = said(store, &["one", "two"]).await;
        let fork = fork(store, source, 2).await;
        store.add(source, vec![user("three here")]).await.unwrap();
        store.add(fork, vec![user("three there"), user("four there")]).await.unwrap();
        assert_eq!(store.texts(source).await, ["one", "two", "three here"]);
        assert_eq!(store.texts(fork).await, ["one", "two", "three there", "four there"]);
        let session = store.session(fork).await.unwrap();
        assert_eq!(session.forked_from, Some(Origin { session: source, seq: 2 }));
        assert_eq!((session.started_at, session.last_seq), (at(100), 4));
        store.expect_sound().await;
    });
}

#[test]
fn a_fork_in_the_middle_knows_only_what_came_before() {
    on_each(async |store| {
        let source = store.begin().await;
        let late = |message: NewMessage| NewMessage { conversation: "late".into(), ..message };
        let messages = vec![user("one"), assistant("two"), late(user("three")), user("four")];
        store.add(source, messages).await.unwrap();
        let fork = fork(store, source, 2).await;
        assert_eq!(store.texts(fork).await, ["one", "two"]);
        let names = async |id| -> Vec<(u32, String, u32)> {
            let found = store.conversations(id).await.unwrap();
            found.into_iter().map(|one| (one.n, one.name, one.messages)).collect()
        };
        assert_eq!(names(fork).await, [(1, "main".into(), 2)]);
        let other = NewMessage { conversation: "other".into(), ..user("three there") };
        store.add(fork, vec![other, late(user("four there"))]).await.unwrap();
        let expected = [(1, "main".into(), 2), (2, "other".into(), 1), (3, "late".into(), 1)];
        assert_eq!(names(fork).await, expected);
        assert_eq!(names(source).await, [(1, "main".into(), 3), (2, "late".into(), 1)]);
        let shown: Vec<String> =
            store.all(fork).await.into_iter().map(|one| one.conversation).collect();
        assert_eq!(shown, ["main", "main", "other", "late"]);
        store.expect_sound().await;
    });
}

#[test]
fn what_a_fork_shares_is_found_although_its_source_went_before_the_index_came_to_it() {
    on_each(async |store| {
        let source = said(store, &["a zebra", "two"]).await;
        let middle = fork(store, source, 1).await;
        store.add(middle, vec![user("an okapi"), user("three")]).await.unwrap();
        let last = fork(store, middle, 2).await;
        // The first time, the index is begun anew, and gets no further than to a title.
        store.index(1).await.unwrap();
        for gone in [source, middle] {
            store.erase(gone).await.unwrap();
            store.expect_sound().await;
        }
        for (word, seq) in [("zebra", 1), ("okapi", 2)] {
            assert_eq!(found(store, word, &Filter::default()).await, [(last, seq)]);
        }
        store.index_all().await;
        store.expect_sound().await;
    });
}

#[test]
fn forks_of_forks_share_all_the_way() {
    on_each(async |store| {
        let a = said(store, &["1", "2", "3"]).await;
        let b = fork(store, a, 2).await;
        store.add(b, vec![user("3b"), user("4b")]).await.unwrap();
        let c = fork(store, b, 3).await;
        let d = fork(store, c, 1).await;
        store.add(c, vec![user("4c")]).await.unwrap();
        store.add(d, vec![user("2d")]).await.unwrap();
        store.add(a, vec![user("4")]).await.unwrap();
        assert_eq!(store.texts(a).await, ["1", "2", "3", "4"]);
        assert_eq!(store.texts(b).await, ["1", "2", "3b", "4b"]);
        assert_eq!(store.texts(c).await, ["1", "2", "3b", "4c"]);
        assert_eq!(store.texts(d).await, ["1", "2d"]);
        let messages = store.usage().await.unwrap().messages;
        assert_eq!(messages, 4 + 2 + 1 + 1, "what is shared is kept once");
        store.expect_sound().await;
    });
}

#[test]
fn ids_of_shared_messages_are_known_in_the_fork() {
    on_each(async |store| {
        let with_id = |id: &str, text: &str| NewMessage { id: Some(id.into()), ..user(text) };
        let source = store.begin().await;
        store.add(source, vec![with_id("a", "one"), with_id("b", "two")]).await.unwrap();
        let fork = fork(store, source, 1).await;
        let again =
            store.add(fork, vec![with_id("a", "one"), with_id("b", "other")]).await.unwrap();
        assert_eq!((again[0].seq, again[0].is_new), (1, false));
        assert_eq!((again[1].seq, again[1].is_new), (2, true), "b is not shared");
        assert_eq!(store.message_by_id(source, "b").await.unwrap(), Some(2));
        assert_eq!(store.texts(fork).await, ["one", "other"]);
        assert_eq!(store.message_by_id(fork, &fork.message(1)).await.unwrap(), Some(1));
    });
}

#[test]
fn a_fork_past_the_end_or_of_what_is_closed_is_refused() {
    on_each(async |store| {
        let source = said(store, &["one"]).await;
        let new = SessionId::generate();
        let past = store.fork(source, 2, new, at(1)).await;
        assert!(matches!(past, Err(Error::NoMessage(_, 2))));
        let taken = store.fork(source, 1, source, at(1)).await;
        assert!(matches!(taken, Err(Error::Exists(id)) if id == source));
        store.note(source, Fact::Moved { to: Status::Archived }).await;
        assert!(matches!(store.fork(source, 1, new, at(1)).await, Err(Error::Refused(_))));
        assert!(matches!(store.session(new).await, Err(Error::NotFound(_))));
        store.expect_sound().await;
    });
}

#[test]
fn an_empty_session_can_be_forked() {
    on_each(async |store| {
        let source = store.begin().await;
        let fork = fork(store, source, 0).await;
        store.add(fork, vec![user("one")]).await.unwrap();
        assert_eq!(store.texts(fork).await, ["one"]);
        assert_eq!(store.texts(source).await, Vec::<String>::new());
        store.expect_sound().await;
    });
}

#[test]
fn a_shared_message_is_found_once_and_in_the_fork_when_asked() {
    on_each(async |store| {
        let source = said(store, &["the zebra", "other"]).await;
        let fork = fork(store, source, 2).await;
        for _ in 0..2 {
            assert_eq!(found(store, "zebra", &Filter::default()).await, [(source, 1)]);
            let of_anna = Filter { user: Some("anna".into()), ..Filter::default() };
            assert_eq!(found(store, "zebra", &of_anna).await, [(source, 1)]);
            let of_fork = Filter { session: Some(fork), ..Filter::default() };
            assert_eq!(found(store, "zebra", &of_fork).await, [(fork, 1)]);
            store.index_all().await;
        }
    });
}

#[test]
fn what_a_fork_needs_outlives_its_source() {
    on_each(async |store| {
        for indexed in [true, false] {
            let long = format!("Long zebra. {}", Texts::new(3).text(60_000));
            let source = said(store, &["keep the zebra", &long, "drop the walrus"]).await;
            if indexed {
                store.index_all().await;
            }
            let fork = fork(store, source, 2).await;
            store.add(fork, vec![user("own giraffe")]).await.unwrap();
            store.erase(source).await.unwrap();
            assert!(matches!(store.session(source).await, Err(Error::NotFound(_))));
            assert_eq!(store.texts(fork).await, ["keep the zebra", &long, "own giraffe"]);
            store.expect_sound().await;
            store.index_all().await;
            store.expect_sound().await;
            let everywhere = Filter::default();
            let mut zebras = found(store, "zebra", &everywhere).await;
            zebras.sort_unstable();
            assert_eq!(zebras, [(fork, 1), (fork, 2)], "indexed: {indexed}");
            assert_eq!(found(store, "walrus", &everywhere).await, []);
            store.rebuild().await.unwrap();
            store.expect_sound().await;
            assert_eq!(found(store, "zebra", &everywhere).await.len(), 2);
            store.erase(fork).await.unwrap();
            assert_eq!(found(store, "zebra", &everywhere).await, []);
            let usage = store.usage().await.unwrap();
            assert_eq!((usage.sessions, usage.messages, usage.blob_bytes), (0, 0, 0));
            store.expect_sound().await;
        }
    });
}

#[test]
fn a_fork_can_be_resumed_and_relevance_reaches_into_what_it_shares() {
    on_each(async |store| {
        for indexed in [true, false] {
            let source = said(store, &["the password rule is zebra-42"]).await;
            let filler = (0..40).map(|n| assistant(&format!("filler number {n}"))).collect();
            store.add(source, filler).await.unwrap();
            if indexed {
                store.index_all().await;
            }
            let fork = fork(store, source, 41).await;
            store.add(fork, vec![user("hello")]).await.unwrap();
            let request = RecallRequest {
                session: fork,
                limits: Limits { messages: 3, ..Limits::default() },
                prompt: Some("what was the password rule?".into()),
                within: None,
            };
            let recalled = store.recall(&request).await.unwrap();
            let recent: Vec<u32> = recalled.recent.iter().map(|message| message.seq).collect();
            assert_eq!(recent, [42, 41, 40]);
            assert!(
                recalled.related.iter().any(|related| related.message.seq == 1),
                "indexed: {indexed}"
            );
        }
    });
}

#[test]
fn a_message_from_the_future_is_found_by_time_in_the_fork_that_is_left() {
    on_each(async |store| {
        let source = store.begin().await;
        let later = at(60 * 24 * 100);
        store.add(source, vec![NewMessage { at: later, ..user("the zebra") }]).await.unwrap();
        for seq in [1, 2] {
            store.add(source, vec![user("now")]).await.unwrap();
            let fork = fork(store, source, seq).await;
            assert_eq!(store.session(fork).await.unwrap().last_active_at, later);
        }
        store.expect_sound().await;
        store.index_all().await;
        store.erase(source).await.unwrap();
        let since = Filter { since: Some(at(0)), ..Filter::default() };
        assert_eq!(found(store, "zebra", &since).await.len(), 1);
    });
}
