//! What a server needs of the use cases: who may come in, and that asking twice makes nothing twice.
#![allow(clippy::unwrap_used, clippy::expect_used)] // Tests may panic.

use futures::executor::block_on;
use jiff::SignedDuration;
use rethread_domain::SessionId;
use rethread_domain::access::{Pass, Role};
use rethread_domain::session::Beginning;
use rethread_engine::{Clock, Engine, Error, NewToken};
use rethread_store as store;
use rethread_testkit::{TestStore, at, beginning, user};

fn new(pass: Pass) -> NewToken {
    let lasts = Some(SignedDuration::from_mins(10));
    let (name, user) = ("ci".to_owned(), "anna".to_owned());
    NewToken { name, role: Role::Write, user, pass, lasts, parent: None }
}

async fn engine_at(store: &TestStore, minute: i64) -> Engine {
    Engine::new(store.open_again().await, Clock::Fixed(at(minute)))
}

#[test]
fn a_token_lets_in_until_it_ends_and_a_link_never() {
    block_on(async {
        let store = TestStore::sqlite().await;
        let engine = engine_at(&store, 0).await;
        let (token, secret) = engine.issue(new(Pass::Token)).await.unwrap();
        assert_eq!(engine.admit(&secret).await.unwrap(), Some(token.clone()));
        assert_eq!(engine_at(&store, 10).await.admit(&secret).await.unwrap(), None);
        let (_, link) = engine.issue(new(Pass::Link)).await.unwrap();
        assert_eq!(engine.admit(&link).await.unwrap(), None);
        let lasts = SignedDuration::from_mins(5);
        let (browser, cookie) = engine.redeem(&link, lasts).await.unwrap().unwrap();
        assert_eq!((browser.pass, browser.expires_at), (Pass::Browser, Some(at(5))));
        assert_eq!(engine.admit(&cookie).await.unwrap(), Some(browser));
        assert!(engine.redeem(&link, lasts).await.unwrap().is_none());
        assert_eq!(engine.admit("rtk_x").await.unwrap(), None);
        engine.revoke(&token.id).await.unwrap();
        assert_eq!(engine.admit(&secret).await.unwrap(), None);
        let nameless = NewToken { name: String::new(), ..new(Pass::Token) };
        assert!(matches!(engine.issue(nameless).await, Err(Error::Invalid(_))));
    });
}

#[test]
fn that_it_was_used_is_noted_once_a_minute() {
    block_on(async {
        let store = TestStore::sqlite().await;
        let (token, _) = store.engine().issue(new(Pass::Token)).await.unwrap();
        for (minute, is_new) in [(1, true), (1, false), (2, true)] {
            let engine = engine_at(&store, minute).await;
            let token = store.token(&token.id).await.unwrap();
            assert_eq!(engine.is_use_new(&token), is_new, "{minute}");
            engine.note_use(&token.id).await.unwrap();
            assert_eq!(store.token(&token.id).await.unwrap().used_at, Some(at(minute)));
        }
    });
}

#[test]
fn the_key_of_one_user_is_never_that_of_another() {
    block_on(async {
        let store = TestStore::sqlite().await;
        let engine = store.engine();
        let mut ids = std::collections::HashSet::new();
        for (user, key) in [
            ("anna", "b c"),
            ("anna b", "c"),
            ("anna b c", ""),
            ("\"anna", "b\" c"),
            ("\"anna b\"", "c"),
            ("anna", "\"b c"),
        ] {
            let reserved = engine.reserve("workflow", user, key, b"the same").await.unwrap();
            assert!(reserved.is_new && ids.insert(reserved.id), "{user:?} {key:?}");
        }
    });
}

#[test]
fn what_was_made_under_an_id_is_given_back() {
    block_on(async {
        let store = TestStore::sqlite().await;
        let engine = store.engine();
        let reserved = engine.reserve("session", "anna", "key", b"start").await.unwrap();
        let again = engine.reserve("session", "anna", "key", b"start").await.unwrap();
        assert_eq!((reserved.is_new, again.is_new, again.id), (true, false, reserved.id));
        let other = engine.reserve("session", "anna", "key", b"stop").await;
        assert!(matches!(other, Err(Error::KeyReused)));

        let id = SessionId::from_uuid(reserved.id);
        let started = engine.start_as(id, beginning()).await.unwrap();
        assert_eq!(started.id, id);
        store.add(id, vec![user("Fix it")]).await.unwrap();
        assert_eq!(engine.start_as(id, beginning()).await.unwrap().last_seq, 1);
        let ben = Beginning { user: "ben".into(), ..beginning() };
        let refused = engine.start_as(id, ben).await;
        assert!(matches!(refused, Err(Error::Store(store::Error::Exists(_)))));

        let fork = SessionId::generate();
        let forked = engine.fork_as(fork, id, None).await.unwrap();
        store.add(id, vec![user("More")]).await.unwrap();
        assert_eq!(engine.fork_as(fork, id, None).await.unwrap(), forked);
        let elsewhere = engine.fork_as(fork, fork, None).await;
        assert!(matches!(elsewhere, Err(Error::Store(store::Error::Exists(_)))));
    });
}
