//! What is done at an open: quiet sessions are paused, turns that nobody ends are ended, each once.

use std::sync::Barrier;

use futures::executor::block_on;
use jiff::SignedDuration;
use rethread_domain::opening::Underway;
use rethread_domain::{SessionId, Status};
use rethread_engine::{Clock, Engine, Housekeeping};
use rethread_store::{Append, Asked, Store};
use rethread_testkit::{at, beginning, user};

use crate::scripted::say;
use crate::world::{Home, MAIN, World, is_interrupted, run};

const QUIET: SignedDuration = SignedDuration::from_mins(5);

fn tidied(store: &std::sync::Arc<dyn Store>, minute: i64) -> Housekeeping {
    let engine = Engine::new(std::sync::Arc::clone(store), Clock::Fixed(at(minute)));
    block_on(engine.tidy(QUIET)).unwrap()
}

fn ids(sessions: &[rethread_domain::Session]) -> Vec<SessionId> {
    sessions.iter().map(|session| session.id).collect()
}

/// A turn that has begun, and said one word.
async fn leave_turn(store: &dyn Store, session: SessionId) {
    let begins = Underway {
        conversation: MAIN.into(),
        agent: "anna".into(),
        model: None,
        request: 0,
        watermark: None,
        keeps_request: None,
    };
    let append =
        Append { begins: Some(begins), ..Append::new(session, vec![user("fix the basket")]) };
    store.append(append).await.unwrap();
    store.stream(session, MAIN, vec![(at(1), say("half"))]).await.unwrap();
}

#[test]
fn a_session_is_paused_after_five_minutes_without_a_word() {
    let home = Home::new();
    let world = World::new(&home);
    block_on(home.store.append(Append::new(
        world.session,
        vec![user("The basket is lost when somebody logs in.")],
    )))
    .unwrap();
    assert_eq!(ids(&tidied(&home.store, 5).paused), []);
    let found = tidied(&home.store, 6);
    assert_eq!((ids(&found.paused), ids(&found.interrupted)), (vec![world.session], vec![]));
    let session = block_on(home.store.session(world.session)).unwrap();
    assert_eq!(session.status(), Status::Paused);
    assert!(session.summary.unwrap().contains("The basket is lost"), "it is summed up");
    assert_eq!(ids(&tidied(&home.store, 7).paused), [], "it is told once");
}

#[test]
fn a_session_is_not_paused_while_somebody_talks_in_it() {
    let home = Home::new();
    let world = World::new(&home);
    let agent = world.agent("anna", "resume");
    run(async {
        let mut talk = world.open(&agent).await.unwrap();
        talk.send("fix the basket", &mut |_| ()).await.unwrap();
        let other = home.open_again();
        let engine = Engine::new(other, Clock::Fixed(at(60)));
        assert_eq!(ids(&engine.tidy(QUIET).await.unwrap().paused), []);
        talk.end().await.unwrap();
        assert_eq!(ids(&engine.tidy(QUIET).await.unwrap().paused), [world.session]);
    });
}

#[test]
fn one_open_pauses_few_sessions_and_those_that_were_active_last() {
    let home = Home::new();
    let mut all = Vec::new();
    for minute in 0..10 {
        let id = SessionId::generate();
        block_on(home.store.start(id, beginning(), at(minute))).unwrap();
        all.push(id);
    }
    assert_eq!(
        ids(&tidied(&home.store, 60).paused),
        all[2..].iter().rev().copied().collect::<Vec<_>>()
    );
    assert_eq!(ids(&tidied(&home.store, 60).paused), [all[1], all[0]]);
}

#[test]
fn a_turn_that_nobody_ends_is_ended_once_though_two_look_at_the_same_time() {
    let home = Home::new();
    let stores = [home.open_again(), home.open_again()];
    for _ in 0..25 {
        let world = World::new(&home);
        block_on(leave_turn(&*home.store, world.session));
        let together = Barrier::new(2);
        let told: usize = std::thread::scope(|scope| {
            let look = |store| {
                let together = &together;
                scope.spawn(move || {
                    together.wait();
                    tidied(store, 2).interrupted.len()
                })
            };
            let both: Vec<_> = stores.iter().map(look).collect();
            both.into_iter().map(|one| one.join().unwrap()).sum()
        });
        assert_eq!(told, 1, "one of both says so");
        assert_eq!(world.texts(), ["fix the basket", "half"]);
        assert!(is_interrupted(&world.messages()[1]));
    }
}

#[test]
fn a_turn_of_a_session_that_was_put_away_is_ended_all_the_same() {
    let home = Home::new();
    let world = World::new(&home);
    block_on(leave_turn(&*home.store, world.session));
    let engine = Engine::new(home.open_again(), Clock::Fixed(at(2)));
    block_on(engine.shift(world.session, rethread_domain::session::Move::Archive)).unwrap();
    assert_eq!(ids(&tidied(&home.store, 3).interrupted), [world.session]);
    assert_eq!(world.texts(), ["fix the basket", "half"]);
    assert_eq!(block_on(home.store.session(world.session)).unwrap().status(), Status::Archived);
}

#[test]
fn an_answer_that_nobody_waits_for_any_more_does_not_stay() {
    let home = Home::new();
    let world = World::new(&home);
    run(async {
        let drive = world.store.drive(world.session, MAIN).await.unwrap().unwrap();
        let no = world.store.ask_prompt(world.session, MAIN, "Go.", at(0)).await.unwrap();
        world.store.take_prompt(world.session, MAIN).await.unwrap().unwrap();
        world.store.answer(no, "done", at(60)).await.unwrap();
        drop(drive);
        tidied(&home.store, 61);
        assert_eq!(world.store.asked(no).await.unwrap(), Asked::Answered("done".into()));
        tidied(&home.store, 62);
        assert_eq!(world.store.asked(no).await.unwrap(), Asked::Gone);
    });
}
