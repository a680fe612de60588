//! What was said in an agent's own program, without us, is noticed at the next open and taken in.

use futures::executor::block_on;
use rethread_domain::Role;
use rethread_store::Append;
use rethread_testkit::message;

use crate::scripted::{Doors, Outcome, Script, Scripted};
use crate::world::{Home, World, run, told};

const REQUEST: &str = "paint the fence, the one behind the shop";
const ANSWER: &str = "It is painted.";

/// A conversation of one turn with an agent in whose session somebody talks afterwards.
async fn world(home: &Home, abilities: &str) -> (World, Scripted) {
    let world = World::new(home);
    let agent = world.agent("anna", abilities);
    agent.plays([Script::saying(&["It is fixed."])]);
    world.turn(&agent, "fix the basket").await.unwrap();
    agent.told_natively("anna-1", REQUEST, ANSWER);
    agent.state().tried.clear();
    (world, agent)
}

#[test]
fn it_is_looked_for_only_where_something_changed() {
    for (abilities, how, tried) in [
        ("resume load list", ("loaded", None), &["load anna-1"][..]),
        ("resume load", ("loaded", None), &["load anna-1"]),
        ("load", ("loaded", None), &["load anna-1"]),
        ("resume list", ("resumed", None), &["resume anna-1"]),
    ] {
        run(async {
            let home = Home::new();
            let (world, agent) = world(&home, abilities).await;
            let answer = world.turn(&agent, "go on").await.unwrap();
            assert_eq!(told(&answer.opened), how, "{abilities}");
            assert_eq!(agent.state().tried, tried, "{abilities}");
            let texts = world.texts();
            let taken: &[&str] = if how.0 == "loaded" { &[REQUEST, ANSWER] } else { &[] };
            let expected = [&["fix the basket", "It is fixed."], taken, &["go on"]].concat();
            assert_eq!(texts[..expected.len()], expected, "{abilities}");
            assert_eq!(agent.last_prompt().document(), None, "it knows that: {abilities}");
            // What is as we left it is not read again.
            agent.state().tried.clear();
            world.turn(&agent, "and on").await.unwrap();
            let cheaply = if abilities.contains("resume") && abilities.contains("list") {
                "resume anna-1"
            } else {
                "load anna-1"
            };
            assert_eq!(agent.state().tried, [cheaply], "{abilities}");
            let count = world.texts().iter().filter(|text| *text == REQUEST).count();
            assert_eq!(count, taken.len() / 2, "{abilities}");
        });
    }
}

#[test]
fn it_is_taken_in_once_though_no_turn_follows() {
    run(async {
        let home = Home::new();
        let (world, agent) = world(&home, "resume load list").await;
        for _ in 0..3 {
            world.open(&agent).await.unwrap().end().await.unwrap();
        }
        assert_eq!(world.texts(), ["fix the basket", "It is fixed.", REQUEST, ANSWER]);
        world.turn(&agent, "go on").await.unwrap();
        assert_eq!(agent.last_prompt().document(), None, "it knows that");
    });
}

#[test]
fn what_others_said_meanwhile_is_still_told() {
    run(async {
        let home = Home::new();
        let (world, agent) = world(&home, "resume load list").await;
        let said = message(Role::System, "the shop is closed");
        block_on(world.store.append(Append::new(world.session, vec![said]))).unwrap();
        // Once with a turn that follows, and once without.
        for _ in 0..2 {
            world.open(&agent).await.unwrap().end().await.unwrap();
        }
        world.turn(&agent, "go on").await.unwrap();
        let prompt = agent.last_prompt();
        let missed = prompt.document().unwrap();
        assert!(missed.contains("> the shop is closed"), "{missed}");
        assert!(!missed.contains(ANSWER) && !missed.contains("basket"), "{missed}");
    });
}

#[test]
fn where_it_cannot_be_looked_at_the_session_is_taken_up_all_the_same() {
    run(async {
        let home = Home::new();
        let (world, agent) = world(&home, "resume load list").await;
        let load = Outcome::AgentError(rethread_engine::agents::AgentError::Refused {
            what: "session/load".into(),
            code: -32603,
            message: "no".into(),
        });
        agent.state().doors = Doors { load, ..Doors::default() };
        let answer = world.turn(&agent, "go on").await.unwrap();
        assert_eq!(told(&answer.opened), ("resumed", Some("refused")));
        assert_eq!(agent.state().tried, ["load anna-1", "resume anna-1"]);
    });
}

/// The agent's answer and what was said natively lie apart, with messages of others between and before them.
#[test]
fn nothing_that_it_has_is_told_again_however_much_others_said_in_between() {
    run(async {
        let home = Home::new();
        let world = World::new(&home);
        let anna = world.agent("anna", "resume load list keeps");
        let bert = world.agent("bert", "resume");
        anna.plays([Script::saying(&["It is fixed."])]);
        bert.plays([Script::saying(&["It is swept."])]);
        // Somebody else says something while the first turn runs.
        let closed = Append::new(world.session, vec![message(Role::System, "the shop is closed")]);
        let store = world.store.clone();
        world.watched.before("append", 1, move || drop(block_on(store.append(closed)).unwrap()));
        world.turn(&anna, "fix the basket").await.unwrap();
        world.turn(&bert, "sweep the shop").await.unwrap();
        anna.told_natively("anna-1", REQUEST, ANSWER);
        for _ in 0..2 {
            world.open(&anna).await.unwrap().end().await.unwrap();
        }
        world.turn(&anna, "go on").await.unwrap();
        let prompt = anna.last_prompt();
        let missed = prompt.document().unwrap();
        for (text, count) in [
            ("the shop is closed", 1),
            ("sweep the shop", 1),
            ("It is swept.", 1),
            ("fix the basket", 0),
            ("It is fixed.", 0),
            (REQUEST, 0),
            (ANSWER, 0),
        ] {
            assert_eq!(missed.matches(&format!("> {text}")).count(), count, "{text}: {missed}");
        }
        assert_eq!(prompt.texts(), ["go on"], "nothing is repeated, so there is no note");
    });
}
