//! Several on one store: who drives a session, and what others ask of it.

use rethread_store::{Append, Command, Error};
use rethread_testkit::{at, user};

use crate::on_each;

#[test]
fn one_drives_a_session_until_they_let_go() {
    on_each(async |store| {
        let (id, other) = (store.begin().await, store.begin().await);
        let second_store = store.open_again().await;
        assert!(!store.is_claimed(id).await.unwrap());
        let claim = store.claim(id).await.unwrap().unwrap();
        assert!(store.claim(id).await.unwrap().is_none());
        assert!(second_store.claim(id).await.unwrap().is_none());
        assert!(second_store.is_claimed(id).await.unwrap());
        assert!(second_store.claim(other).await.unwrap().is_some(), "another session is free");
        drop(claim);
        assert!(!second_store.is_claimed(id).await.unwrap());
        assert!(second_store.claim(id).await.unwrap().is_some());
    });
}

#[test]
fn whoever_drove_before_can_no_longer_write_as_the_driver() {
    on_each(async |store| {
        let id = store.begin().await;
        let write =
            |epoch, text: &str| store.append(Append { epoch, ..Append::new(id, vec![user(text)]) });
        let first = store.claim(id).await.unwrap().unwrap();
        let old = first.epoch;
        write(Some(old), "one").await.unwrap();
        drop(first);
        let second = store.claim(id).await.unwrap().unwrap();
        assert!(second.epoch > old);
        let refused = write(Some(old), "late").await;
        assert!(matches!(refused, Err(Error::LostClaim(found)) if found == id));
        write(Some(second.epoch), "two").await.unwrap();
        write(None, "three").await.unwrap();
        assert_eq!(store.texts(id).await, ["one", "two", "three"]);
        store.expect_sound().await;
    });
}

#[test]
fn what_was_asked_is_asked_of_all_in_order_and_taken_back_once() {
    on_each(async |store| {
        let (id, other) = (store.begin().await, store.begin().await);
        let claim = store.claim(id).await.unwrap().unwrap();
        let elsewhere = store.open_again().await;
        let first = elsewhere.ask(id, Command::Pause, at(1)).await.unwrap();
        let second = elsewhere.ask(id, Command::Complete, at(2)).await.unwrap();
        elsewhere.ask(other, Command::Pause, at(3)).await.unwrap();
        assert!(second > first);
        let both = [(first, Command::Pause), (second, Command::Complete)];
        for store in [store.open_again().await, store.open_again().await] {
            assert_eq!(store.asked_since(id, 0).await.unwrap(), both, "everybody is asked");
            assert_eq!(store.asked_since(id, first).await.unwrap(), both[1..]);
            assert_eq!(store.asked_since(id, second).await.unwrap(), []);
        }
        let taken = store.take_asked(id).await.unwrap();
        assert_eq!(taken, [Command::Pause, Command::Complete]);
        assert_eq!(store.take_asked(id).await.unwrap(), []);
        drop(claim);
    });
}

#[test]
fn the_version_changes_when_another_has_written() {
    on_each(async |store| {
        let id = store.begin().await;
        let before = store.version().await.unwrap();
        assert_eq!(store.version().await.unwrap(), before);
        let elsewhere = store.open_again().await;
        elsewhere.ask(id, Command::Pause, at(1)).await.unwrap();
        assert_ne!(store.version().await.unwrap(), before);
    });
}
