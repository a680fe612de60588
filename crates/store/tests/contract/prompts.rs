//! Who talks in a conversation, and what others ask of them.

use rethread_store::{Asked, Command, Error};
use rethread_testkit::{at, user};

use crate::on_each;

#[test]
fn one_talks_in_a_conversation_and_others_in_other_ones() {
    on_each(async |store| {
        let (id, other) = (store.begin().await, store.begin().await);
        let elsewhere = store.open_again().await;
        let drive = store.drive(id, "main").await.unwrap().unwrap();
        assert!(store.drive(id, "main").await.unwrap().is_none());
        assert!(elsewhere.drive(id, "main").await.unwrap().is_none());
        let beside = elsewhere.drive(id, "../main\n").await.unwrap().unwrap();
        assert!(elsewhere.drive(other, "main").await.unwrap().is_some(), "another session is free");
        let claim = elsewhere.claim(id).await.unwrap().expect("the session itself is free");
        drop((drive, claim));
        assert!(elsewhere.drive(id, "main").await.unwrap().is_some());
        assert!(store.drive(id, "../main\n").await.unwrap().is_none());
        drop(beside);
        assert!(store.drive(id, "../main\n").await.unwrap().is_some());
    });
}

#[test]
fn a_session_in_which_somebody_talks_is_claimed() {
    on_each(async |store| {
        let (id, other) = (store.begin().await, store.begin().await);
        let elsewhere = store.open_again().await;
        let (a, b) = (store.drive(id, "a").await.unwrap(), store.drive(id, "b").await.unwrap());
        assert!(a.is_some() && b.is_some());
        drop(a);
        assert!(elsewhere.is_claimed(id).await.unwrap());
        assert!(!elsewhere.is_claimed(other).await.unwrap());
        store.compact().await.unwrap();
        assert!(elsewhere.is_claimed(id).await.unwrap(), "a lock that is held is not swept away");
        drop(b);
        assert!(!elsewhere.is_claimed(id).await.unwrap());
    });
}

#[test]
fn prompts_are_taken_in_order_and_answered() {
    on_each(async |store| {
        let (id, other) = (store.begin().await, store.begin().await);
        let _drive = store.drive(id, "main").await.unwrap().unwrap();
        let elsewhere = store.open_again().await;
        let ask = async |session, name: &str, prompt: &str| {
            elsewhere.ask_prompt(session, name, prompt, at(1)).await.unwrap()
        };
        let first = ask(id, "main", "one\0").await;
        ask(id, "side", "beside").await;
        ask(other, "main", "elsewhere").await;
        let second = ask(id, "main", "two").await;
        elsewhere.ask(id, Command::Pause, at(2)).await.unwrap();

        assert_eq!(elsewhere.asked(first).await.unwrap(), Asked::Waiting);
        let take = async || store.take_prompt(id, "main").await.unwrap();
        assert_eq!(take().await, Some((first, "one\0".to_owned())));
        assert_eq!(elsewhere.asked(first).await.unwrap(), Asked::Taken);
        assert_eq!(elsewhere.asked(second).await.unwrap(), Asked::Waiting);
        store.answer(first, "done", at(3)).await.unwrap();
        assert_eq!(elsewhere.asked(first).await.unwrap(), Asked::Answered("done".to_owned()));
        assert_eq!(take().await, Some((second, "two".to_owned())));
        assert_eq!(take().await, None);
        assert_eq!(store.take_asked(id).await.unwrap(), [Command::Pause], "no prompt among them");
        assert!(!elsewhere.withdraw(first).await.unwrap());
        assert_eq!(elsewhere.asked(first).await.unwrap(), Asked::Gone);
        let nobody = rethread_domain::SessionId::generate();
        let lost = store.ask_prompt(nobody, "main", "one", at(1)).await;
        assert!(matches!(lost, Err(Error::NotFound(_))));
    });
}

#[test]
fn a_prompt_that_is_taken_back_is_not_sent() {
    on_each(async |store| {
        let id = store.begin().await;
        let _drive = store.drive(id, "main").await.unwrap().unwrap();
        let ask = async |prompt: &str| store.ask_prompt(id, "main", prompt, at(1)).await.unwrap();
        let (first, second) = (ask("one").await, ask("two").await);
        assert!(store.withdraw(first).await.unwrap(), "nobody had taken it");
        assert!(!store.withdraw(first).await.unwrap(), "it is gone");
        let taken = store.take_prompt(id, "main").await.unwrap();
        assert_eq!(taken, Some((second, "two".to_owned())));
        assert!(!store.withdraw(second).await.unwrap(), "somebody had taken it");
        store.answer(second, "too late", at(3)).await.unwrap();
        assert_eq!(store.asked(second).await.unwrap(), Asked::Gone);
        assert!(ask("three").await > second, "a number is never used again");
    });
}

#[test]
fn what_was_asked_of_whoever_talked_before_is_gone() {
    on_each(async |store| {
        let id = store.begin().await;
        let ask = async |name: &str| store.ask_prompt(id, name, "Go.", at(1)).await.unwrap();
        let drive = store.drive(id, "main").await.unwrap().unwrap();
        // One that was answered, one that was taken only, and one of another conversation.
        let (answered, taken, beside) = (ask("main").await, ask("main").await, ask("side").await);
        for _ in 0..2 {
            store.take_prompt(id, "main").await.unwrap().unwrap();
        }
        store.answer(answered, "done", at(3)).await.unwrap();
        drop(drive);
        let drive = store.drive(id, "main").await.unwrap().unwrap();
        assert_eq!(store.asked(taken).await.unwrap(), Asked::Abandoned, "it may have been sent");
        assert_eq!(store.asked(answered).await.unwrap(), Asked::Answered("done".to_owned()));
        assert_eq!(store.asked(beside).await.unwrap(), Asked::Waiting);
        // And one that nobody took.
        let waiting = ask("main").await;
        drop(drive);
        let _drive = store.drive(id, "main").await.unwrap().unwrap();
        assert_eq!(store.asked(waiting).await.unwrap(), Asked::Gone);
        assert_eq!(store.asked(taken).await.unwrap(), Asked::Abandoned);
        assert!(!store.withdraw(taken).await.unwrap(), "somebody had taken it");
        assert_eq!(store.take_prompt(id, "main").await.unwrap(), None);
        // Whoever drives the session is asked other things.
        drop(store.claim(id).await.unwrap().unwrap());
        assert_eq!(store.asked(beside).await.unwrap(), Asked::Waiting);
    });
}

#[test]
fn nothing_that_was_asked_outlives_a_purge_or_its_time() {
    on_each(async |store| {
        let word = "hunter2xyzzy";
        let (id, other) = (store.begin().await, store.begin().await);
        for session in [id, other] {
            store.add(session, vec![user("one")]).await.unwrap();
        }
        let ask = async |session, prompt: &str| {
            let no = store.ask_prompt(session, "main", prompt, at(1)).await.unwrap();
            store.take_prompt(session, "main").await.unwrap().unwrap();
            no
        };
        let taken = ask(id, word).await;
        let answered = ask(id, "two").await;
        store.answer(answered, word, at(5)).await.unwrap();
        let beside = ask(other, "three").await;
        store.answer(beside, "done", at(5)).await.unwrap();
        let waiting = store.ask_prompt(id, "main", "four", at(1)).await.unwrap();
        store.ask(id, Command::Pause, at(5)).await.unwrap();
        store.purge(id, 1, at(6)).await.unwrap();
        assert!(!store.holds(word), "neither the text of a prompt nor an answer stays");
        let asked = async |no| store.asked(no).await.unwrap();
        assert_eq!((asked(taken).await, asked(answered).await), (Asked::Taken, Asked::Gone));
        store.forget_asked(at(5)).await.unwrap();
        assert_eq!(asked(beside).await, Asked::Answered("done".into()));
        assert_eq!(store.asked_since(id, 0).await.unwrap().len(), 1);
        store.forget_asked(at(6)).await.unwrap();
        assert_eq!((asked(beside).await, asked(waiting).await), (Asked::Gone, Asked::Waiting));
        assert_eq!(store.asked_since(id, 0).await.unwrap(), []);
        // What was abandoned is known for a day.
        drop(store.drive(id, "main").await.unwrap().unwrap());
        store.forget_asked(at(24 * 60)).await.unwrap();
        assert_eq!(asked(taken).await, Asked::Abandoned);
        store.forget_asked(at(24 * 60 + 2)).await.unwrap();
        assert_eq!(asked(taken).await, Asked::Gone);
    });
}
