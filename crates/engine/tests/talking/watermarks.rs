//! What an agent's own session holds: never more than what it has taken in.

use futures::executor::block_on;
use rethread_domain::opening::{Policy, Watermark};
use rethread_domain::{Fact, Role};
use rethread_engine::agents::{AgentError, OpenOptions, Talk};
use rethread_store::Append;
use rethread_testkit::message;

use crate::scripted::{Act, End, Script};
use crate::world::{Home, World, run, told};

fn overloaded() -> End {
    let (what, message) = ("session/prompt".into(), "Overloaded".into());
    End::AgentError(AgentError::Refused { what, code: -32603, message })
}

#[test]
fn what_was_told_with_a_prompt_that_is_refused_is_told_again() {
    run(async {
        let home = Home::new();
        let world = World::new(&home);
        let (anna, bert) = (world.agent("anna", "resume keeps"), world.agent("bert", "resume"));
        anna.plays([Script::saying(&["m1"])]);
        world.turn(&anna, "fix the basket").await.unwrap();
        bert.plays([Script::saying(&["BETA"])]);
        world.turn(&bert, "paint the fence").await.unwrap();
        anna.plays([Script::default().ending(overloaded())]);
        let held = world.watermark(&anna);
        assert!(world.turn(&anna, "one").await.is_err());
        let now = world.watermark(&anna).unwrap();
        assert_eq!(now.in_doubt, Some(5), "nobody knows whether it has the request");
        let before = Watermark { in_doubt: now.in_doubt, ..held.unwrap() };
        assert_eq!(now, before, "a refused prompt moves no watermark");
        let answer = world.turn(&anna, "two").await.unwrap();
        assert_eq!(told(&answer.opened), ("resumed", None));
        let missed = anna.last_prompt().document().unwrap().to_owned();
        for line in ["> paint the fence\n", "> BETA\n", "> one\n"] {
            assert_eq!(missed.matches(line).count(), 1, "{missed}");
        }
        assert!(!missed.contains("> fix the basket"), "{missed}");
    });
}

#[test]
fn a_first_prompt_that_is_refused_is_told_whole_with_the_next() {
    run(async {
        let home = Home::new();
        let world = World::new(&home);
        let (anna, bert) = (world.agent("anna", "resume"), world.agent("bert", "resume"));
        anna.plays([Script::saying(&["done"])]);
        world.turn(&anna, "fix the basket").await.unwrap();
        let options =
            OpenOptions { system_prompt: Some("Be brief.".into()), ..world.options(&bert) };
        let mut talk = Talk::open(&world.engine, options).await.unwrap();
        bert.plays([Script::default().ending(overloaded())]);
        assert!(talk.send("try one", &mut |_| ()).await.is_err());
        talk.send("try two", &mut |_| ()).await.unwrap();
        talk.end().await.unwrap();
        let prompted = bert.last_prompt();
        assert_eq!(prompted.texts(), ["Be brief.", "try two"]);
        let history = prompted.document().unwrap();
        for line in ["> fix the basket\n", "> done\n", "> try one\n"] {
            assert_eq!(history.matches(line).count(), 1, "{history}");
        }
    });
}

#[test]
fn what_it_had_begun_to_answer_before_it_refused_it_keeps() {
    run(async {
        let home = Home::new();
        let world = World::new(&home);
        let agent = world.agent("anna", "resume keeps");
        let mut talk = world.open(&agent).await.unwrap();
        talk.send("fix the basket", &mut |_| ()).await.unwrap();
        agent.plays([Script::saying(&["half"]).ending(overloaded())]);
        assert!(talk.send("go on", &mut |_| ()).await.is_err());
        talk.send("and now", &mut |_| ()).await.unwrap();
        talk.end().await.unwrap();
        let missed = agent.last_prompt().document().unwrap().to_owned();
        assert!(missed.contains("> half\n") && !missed.contains("go on"), "{missed}");
    });
}

#[test]
fn a_session_that_was_told_nothing_holds_nothing() {
    run(async {
        let home = Home::new();
        let world = World::new(&home);
        let agent = world.agent("anna", "resume");
        world.turn(&agent, "the passkey is heron-42").await.unwrap();
        let held = world.watermark(&agent);
        let options = OpenOptions { policy: Policy::Off, ..world.options(&agent) };
        let mut talk = Talk::open(&world.engine, options).await.unwrap();
        talk.send("hello", &mut |_| ()).await.unwrap();
        // Not even where it is lost, and nothing else is.
        agent.plays([Script::default().ending(End::Denies)]);
        let answer = talk.send("hello again", &mut |_| ()).await.unwrap();
        assert_eq!(told(&answer.opened), ("untold", Some("session_gone")));
        assert_eq!(agent.last_prompt().document(), None);
        talk.end().await.unwrap();
        assert_eq!(world.watermark(&agent), held);
        let answer = world.turn(&agent, "what was the passkey").await.unwrap();
        assert_eq!(told(&answer.opened), ("resumed", None));
        let prompted = agent.last_prompt();
        assert_eq!(prompted.native, "anna-1");
        let missed = prompted.document().unwrap();
        assert!(missed.contains("> hello\n") && missed.contains("> hello again\n"), "{missed}");
    });
}

#[test]
fn a_session_that_was_rejected_gets_no_watermark_from_the_turn_that_was_told_anew() {
    run(async {
        let home = Home::new();
        let world = World::new(&home);
        let agent = world.agent("anna", "resume keeps");
        world.turn(&agent, "fix the basket").await.unwrap();
        let mut talk = world.open(&agent).await.unwrap();
        let denies = Script::default().ending(End::Denies);
        agent.plays([denies, Script::saying(&["half"]).then(Act::Pause).ending(End::Cancelled)]);
        {
            let mut view = |_: &_| ();
            let mut sending = std::pin::pin!(talk.send("go on", &mut view));
            tokio::select! {
                outcome = &mut sending => panic!("{outcome:?}"),
                () = agent.waiting.notified() => (),
            }
        }
        // We are killed.
        drop(talk);
        let answer = world.turn(&agent, "and now").await.unwrap();
        assert_eq!(told(&answer.opened).0, "retold");
        let history = agent.last_prompt().document().unwrap().to_owned();
        assert!(history.contains("> go on\n") && history.contains("> half\n"), "{history}");
        assert!(world.facts().iter().any(|fact| matches!(fact, Fact::Forgot { .. })));
        let hows: Vec<_> = world.openings().iter().map(|one| one.how.as_str()).collect();
        assert_eq!(hows, ["fresh", "resumed", "retold", "retold"]);
    });
}

#[test]
fn what_others_say_while_a_turn_runs_is_told_with_the_next_request_and_the_answer_is_not() {
    for in_between in [false, true] {
        run(async {
            let home = Home::new();
            let world = World::new(&home);
            let agent = world.agent("anna", "resume");
            let mut talk = world.open(&agent).await.unwrap();
            talk.send("fix the basket", &mut |_| ()).await.unwrap();
            let (store, session) = (world.store.clone(), world.session);
            // Before the answer is written down.
            world.watched.before("append", 1, move || {
                let said = message(Role::System, "MEANWHILE");
                block_on(store.append(Append::new(session, vec![said]))).unwrap();
            });
            agent.plays([Script::saying(&["done"])]);
            talk.send("go on", &mut |_| ()).await.unwrap();
            let texts = world.texts();
            assert_eq!(texts[1..], ["go on", "MEANWHILE", "done"]);
            let held = world.watermark(&agent).unwrap();
            assert_eq!((held.upto, held.beyond, held.messages), (2, vec![(4, 4)], 3));
            if in_between {
                // In another process, as in the same one.
                talk.end().await.unwrap();
                talk = world.open(&agent).await.unwrap();
            }
            talk.send("and now", &mut |_| ()).await.unwrap();
            let missed = agent.last_prompt().document().unwrap().to_owned();
            assert!(missed.contains("> MEANWHILE\n") && !missed.contains("> done"), "{missed}");
            talk.send("and then", &mut |_| ()).await.unwrap();
            assert_eq!(agent.last_prompt().document(), None, "told once");
            talk.end().await.unwrap();
            let held = world.watermark(&agent).unwrap();
            assert_eq!((held.upto, held.beyond, held.messages), (6, vec![], 6));
        });
    }
}
