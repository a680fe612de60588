//! Turns: what is shown is written down before, whatever ends them.

use rethread_domain::turn::Update;
use rethread_engine::agents::{
    AgentError, Answer, Holds, OpenOptions, ProcessRequest as Asking, Progress, Runner, Settings,
    Talk, TurnRequest, WhenBusy,
};
use rethread_engine::{Clock, Engine, Error};
use rethread_store::{Asked, Command};
use rethread_testkit::at;
use tokio_util::sync::CancellationToken;

use crate::scripted::{Act, End, Script, say};
use crate::watched::Watched;
use crate::world::{Home, MAIN, World, is_interrupted, run, told};

fn context(spent_usd: f64) -> Act {
    Act::Send(Update::Context { used: 10, size: 100, spent_usd: Some(spent_usd) })
}

/// One request, sent by whoever has the conversation open.
async fn send(
    engine: &Engine,
    options: &OpenOptions,
    prompt: &str,
    view: &mut (dyn FnMut(Progress<'_>) + Send),
) -> rethread_engine::Result<Answer> {
    let (options, when_busy) = (options.clone(), WhenBusy::Delegate);
    let request = TurnRequest { options, prompt: prompt.to_owned(), when_busy };
    let runner = Runner::new(engine.clone());
    runner.run(&request, &CancellationToken::new(), view).await
}

#[test]
fn what_is_shown_was_written_down_before() {
    run(async {
        let home = Home::new();
        let world = World::new(&home);
        let agent = world.agent("anna", "resume");
        let script = Script::saying(&["one "]).then(Act::Pause);
        let script = script.then(Act::Send(say("two "))).then(Act::Pause);
        agent.plays([script.then(Act::Send(say("three")))]);
        let mut talk = world.open(&agent).await.unwrap();
        let (store, session) = (world.store.clone(), world.session);
        let mut kept = Vec::new();
        let mut view = |update: &Update| {
            let begun = futures::executor::block_on(store.begun(session, MAIN)).unwrap();
            let streamed = begun.map_or(0, |begun| begun.updates.len());
            kept.push((update.clone(), streamed));
        };
        talk.send("count", &mut view).await.unwrap();
        assert_eq!(kept, [(say("one "), 1), (say("two "), 2), (say("three"), 0)]);
        assert_eq!(world.texts(), ["count", "one two three"]);
        talk.end().await.unwrap();
    });
}

#[test]
fn an_agent_that_leaves_the_mode_in_which_rules_are_kept_is_stopped() {
    run(async {
        let home = Home::new();
        let world = World::new(&home);
        let agent = world.agent("anna", "resume");
        let mode = |mode: &str| Act::Send(Update::Mode { mode: mode.into() });
        let within = Script::saying(&["one"]).then(mode("Plan"));
        let leaves = Script::saying(&["two"]).then(mode("yolo")).then(Act::Pause);
        agent.plays([within, leaves, Script::saying(&["three"])]);
        let modes = vec!["plan".to_owned(), "default".to_owned()];
        let holds = Holds { modes, ..Holds::default() };
        let options = OpenOptions { holds, ..world.options(&agent) };
        let mut talk = Talk::open(&world.engine, options).await.unwrap();
        talk.send("a", &mut |_| ()).await.unwrap();
        let error = talk.send("b", &mut |_| ()).await.unwrap_err();
        assert_eq!(error.code(), "not_taken");
        let told = error.to_string();
        assert!(told.contains("mode plan or default") && told.contains("yolo"), "{told}");
        // It is opened anew, and put into that mode again.
        talk.send("c", &mut |_| ()).await.unwrap();
        talk.end().await.unwrap();
        assert_eq!(world.texts()[..4], ["a", "one", "b", "two"]);
    });
}

#[test]
fn an_agent_that_left_its_mode_between_turns_is_put_back_before_anything_is_sent() {
    run(async {
        let home = Home::new();
        let world = World::new(&home);
        let agent = world.agent("anna", "resume");
        let text = str::to_owned;
        let options = [(text("allow_all"), text("off"))].into();
        let holds = Holds { modes: vec![text("default"), text("plan")], options };
        let defaults = Settings { mode: Some(text("plan")), ..Settings::default() };
        let options = OpenOptions { holds, defaults, ..world.options(&agent) };
        let mut talk = Talk::open(&world.engine, options).await.unwrap();
        talk.send("a", &mut |_| ()).await.unwrap();
        let reports = |mode: &str, allow_all: &str| Settings {
            mode: Some(text(mode)),
            options: [(text("allow_all"), text(allow_all))].into(),
            ..Settings::default()
        };
        // What it may report is no reason to do anything.
        agent.state().set.clear();
        agent.state().reported = reports("Default", "off");
        talk.send("b", &mut |_| ()).await.unwrap();
        assert_eq!(agent.state().set, []);
        for left in [reports("yolo", "off"), reports("plan", "on")] {
            agent.state().set.clear();
            agent.state().reported = left;
            talk.send("c", &mut |_| ()).await.unwrap();
            assert_eq!(agent.state().set, [reports("plan", "off")], "the user's own mode is kept");
        }
        // One that does not come back is not asked.
        let (what, now) = (text("mode plan"), text("yolo"));
        agent.state().reported = reports("yolo", "off");
        agent.state().setting = Some(AgentError::NotTaken { what, now });
        let (prompts, texts) = (agent.state().prompts.len(), world.texts());
        let error = talk.send("d", &mut |_| ()).await.unwrap_err();
        assert_eq!(error.code(), "not_taken");
        assert_eq!((agent.state().prompts.len(), world.texts()), (prompts, texts));
        agent.state().setting = None;
        talk.send("e", &mut |_| ()).await.unwrap();
        talk.end().await.unwrap();
    });
}

#[test]
fn a_store_that_fails_in_the_middle_cancels_the_turn_and_loses_nothing() {
    for (call, after) in [("stream", 1), ("append", 1), ("recall", 0)] {
        run(async {
            let home = Home::new();
            let world = World::new(&home);
            let (anna, bert) = (world.agent("anna", "resume"), world.agent("bert", "resume keeps"));
            world.turn(&anna, "look around").await.unwrap();
            let script = Script::saying(&["one "]).then(Act::Pause);
            let script = script.then(Act::Send(say("two "))).then(Act::Pause);
            // It would go on for ever.
            let end = if call == "stream" { End::Cancelled } else { End::Stop };
            bert.plays([script.ending(end), Script::saying(&["again"])]);
            let mut talk = world.open(&bert).await.unwrap();
            let mut shown = Vec::new();
            world.watched.fail(call, after);
            let outcome = talk.send("count", &mut |update| shown.push(update.clone())).await;
            assert!(matches!(outcome, Err(Error::Store(_))), "{call}: {outcome:?}");
            assert!(world.watched.recover() > 0);
            assert!(shown.contains(&say("one ")) || call == "recall");
            // In the same process, as in another one.
            talk.send("go on", &mut |_| ()).await.unwrap();
            talk.end().await.unwrap();
            let (half, last) = match call {
                "stream" => ("one ", "again"),
                "append" => ("one two ", "again"),
                // It had not been asked yet.
                _ => ("", "one two "),
            };
            assert_eq!(world.texts(), ["look around", "count", half, "go on", last], "{call}");
            assert!(is_interrupted(&world.messages()[2]));
            let told = bert.last_prompt();
            let told = told.document().unwrap_or_default().to_owned();
            assert_eq!(told.matches("> count\n").count(), 1, "{told}");
            assert_eq!(bert.state().alive, 0);
        });
    }
}

#[test]
fn what_became_true_is_not_lost_with_a_request_that_could_not_be_written_down() {
    run(async {
        let home = Home::new();
        let world = World::new(&home);
        let agent = world.agent("anna", "resume");
        let mut talk = world.open(&agent).await.unwrap();
        world.watched.fail("append", 0);
        assert!(talk.send("fix the basket", &mut |_| ()).await.is_err());
        world.watched.recover();
        assert_eq!(world.texts().len(), 0);
        talk.send("fix the basket", &mut |_| ()).await.unwrap();
        talk.end().await.unwrap();
        assert_eq!(world.openings().iter().map(told).collect::<Vec<_>>(), [("fresh", None)]);
    });
}

#[test]
fn costs_are_what_a_turn_added() {
    run(async {
        let home = Home::new();
        let world = World::new(&home);
        let agent = world.agent("anna", "resume");
        let script = |spent| Script::saying(&["done"]).then(context(spent));
        let costs = || -> Vec<Option<f64>> {
            let messages = world.messages();
            let said = messages.iter().filter(|message| message.extras.agent.is_some());
            let cents = |usd: f64| (usd * 100.0).round() / 100.0;
            said.map(|one| one.extras.usage.as_ref().and_then(|one| one.cost_usd).map(cents))
                .collect()
        };
        let mut talk = world.open(&agent).await.unwrap();
        agent.plays([script(0.25), script(0.75), Script::saying(&["done"])]);
        for _ in 0..3 {
            talk.send("go on", &mut |_| ()).await.unwrap();
        }
        talk.end().await.unwrap();
        assert_eq!(costs(), [Some(0.25), Some(0.5), None]);
        // Another process goes on counting, a new session of the agent begins anew.
        agent.plays([script(1.0)]);
        world.turn(&agent, "go on").await.unwrap();
        agent.state().natives.clear();
        agent.plays([script(0.1)]);
        world.turn(&agent, "go on").await.unwrap();
        assert_eq!(costs()[3..], [Some(0.25), Some(0.1)]);
        let spent = world.watermark(&agent).unwrap().spent_usd.unwrap();
        assert!((spent - 0.1).abs() < 1e-9);
    });
}

#[test]
fn a_title_of_the_agent_is_taken_unless_it_was_only_told_the_story() {
    let titled = |title: &str| {
        Script::saying(&["done"]).then(Act::Send(Update::Title { title: title.into() }))
    };
    run(async {
        let home = Home::new();
        let world = World::new(&home);
        let agent = world.agent("anna", "resume");
        let found = || async { world.store.session(world.session).await.unwrap().title.unwrap() };
        agent.plays([titled("The lost basket")]);
        world.turn(&agent, "fix the basket").await.unwrap();
        assert_eq!(found().await, "The lost basket");
        agent.plays([titled("The cookie")]);
        world.turn(&agent, "go on").await.unwrap();
        assert_eq!(found().await, "The cookie");
        agent.state().natives.clear();
        agent.plays([titled("Earlier history of a session")]);
        world.turn(&agent, "go on").await.unwrap();
        assert_eq!(found().await, "The cookie");
    });
}

#[test]
fn a_title_that_repeats_the_beginning_of_what_was_sent_is_none() {
    const BRIEF: &str =
        "## Resuming the work\n\nYou go on with *headers*.\n\nWrite tests for them.";
    run(async {
        let home = Home::new();
        let world = World::new(&home);
        let agent = world.agent("anna", "resume");
        for (title, expected) in [
            ("The headers", "The headers"),
            ("## Resuming the work You go on with *hea...", "The headers"),
            ("Resuming the work\nYou go on…", "The headers"),
            ("Resuming work on headers", "Resuming work on headers"),
        ] {
            let titled = Act::Send(Update::Title { title: title.into() });
            agent.plays([Script::saying(&["done"]).then(titled)]);
            world.turn(&agent, BRIEF).await.unwrap();
            let found = world.store.session(world.session).await.unwrap().title.unwrap();
            assert_eq!(found, expected, "{title}");
        }
    });
}

#[test]
fn an_agent_that_is_gone_is_started_again_before_the_next_request() {
    run(async {
        let home = Home::new();
        let world = World::new(&home);
        let agent = world.agent("anna", "resume keeps");
        let mut talk = world.open(&agent).await.unwrap();
        talk.send("one", &mut |_| ()).await.unwrap();
        agent.kill();
        talk.send("two", &mut |_| ()).await.unwrap();
        assert_eq!(told(talk.opening().unwrap()), ("resumed", None));
        assert_eq!(agent.last_prompt().document(), None, "nothing was missed");
        agent.plays([Script::saying(&["half an answer"]).ending(End::Dies)]);
        let died = talk.send("three", &mut |_| ()).await;
        assert!(matches!(died, Err(Error::Agent { trouble: AgentError::Ended { .. }, .. })));
        assert!(is_interrupted(world.messages().last().unwrap()));
        talk.send("four", &mut |_| ()).await.unwrap();
        let prompted = agent.last_prompt();
        assert_eq!(prompted.native, "anna-1");
        let missed = prompted.document().unwrap();
        assert!(missed.contains("> half an answer\n"), "{missed}");
        assert!(!missed.contains("three"), "it has the request itself: {missed}");
        assert_eq!(agent.state().launches, 3);
        talk.end().await.unwrap();
    });
}

#[test]
fn the_system_prompt_is_told_once_in_each_new_session() {
    run(async {
        let home = Home::new();
        let world = World::new(&home);
        let agent = world.agent("anna", "resume");
        let options =
            OpenOptions { system_prompt: Some("Be brief.".into()), ..world.options(&agent) };
        let mut texts = Vec::new();
        for lose in [false, false, true] {
            if lose {
                agent.state().natives.clear();
            }
            let mut talk = Talk::open(&world.engine, options.clone()).await.unwrap();
            for prompt in ["one", "two"] {
                talk.send(prompt, &mut |_| ()).await.unwrap();
                texts.push(agent.last_prompt().texts().len());
            }
            talk.end().await.unwrap();
        }
        assert_eq!(texts, [2, 1, 1, 1, 2, 1]);
    });
}

/// Another process on the same store.
fn other(home: &Home) -> (std::sync::Arc<Watched>, Engine) {
    let watched = std::sync::Arc::new(Watched::new(home.open_again(), std::sync::Arc::default()));
    let engine = Engine::new(watched.clone(), Clock::Fixed(at(0)));
    (watched, engine)
}

#[test]
fn a_request_to_an_open_conversation_is_sent_by_whoever_has_it() {
    run(async {
        let home = Home::new();
        let world = World::new(&home);
        let agent = world.agent("anna", "resume");
        agent.plays([Script::saying(&["yes"])]);
        let mut talk = world.open(&agent).await.unwrap();
        let (_, elsewhere) = other(&home);
        let options = world.options(&agent);
        let mut view = |_: Progress<'_>| ();
        let sending = send(&elsewhere, &options, "do you hear me?", &mut view);
        let driving = async {
            loop {
                if let Some(Asking::Prompt { no, prompt }) = talk.asked().await.unwrap() {
                    let outcome = talk.send(&prompt, &mut |_| ()).await;
                    return world.engine.reply(no, &outcome).await.unwrap();
                }
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        };
        let (answer, ()) = Box::pin(futures::future::join(sending, driving)).await;
        assert_eq!(answer.unwrap().answer, "yes");
        talk.end().await.unwrap();
        assert_eq!((agent.state().launches, world.texts().len()), (1, 2));
    });
}

#[test]
fn a_request_that_nobody_took_is_sent_by_the_one_who_asked() {
    run(async {
        let home = Home::new();
        let world = World::new(&home);
        let agent = world.agent("anna", "resume");
        let talk = world.open(&agent).await.unwrap();
        let (_, elsewhere) = other(&home);
        let options = world.options(&agent);
        let mut view = |_: Progress<'_>| ();
        let leaving = async {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            talk.end().await.unwrap();
        };
        let sending = send(&elsewhere, &options, "do you hear me?", &mut view);
        let (answer, ()) = Box::pin(futures::future::join(sending, leaving)).await;
        assert_eq!(answer.unwrap().stop, "end_turn");
        assert_eq!(world.texts(), ["do you hear me?"]);
    });
}

#[test]
fn an_answer_that_came_while_its_driver_left_is_heard() {
    run(async {
        let home = Home::new();
        let world = World::new(&home);
        let agent = world.agent("anna", "resume");
        let (watched, elsewhere) = other(&home);
        let options = world.options(&agent);
        let drive = world.store.drive(world.session, MAIN).await.unwrap().unwrap();
        let (store, session) = (world.store.clone(), world.session);
        // It is answered in the moment before the one who asked looks whether anybody is there.
        watched.before("drive", 1, move || {
            futures::executor::block_on(async {
                let (no, _) = store.take_prompt(session, MAIN).await.unwrap().unwrap();
                store.answer(no, r#"{"failed":"not today"}"#, at(0)).await.unwrap();
                assert!(matches!(store.asked(no).await.unwrap(), Asked::Answered(_)));
            });
            drop(drive);
        });
        let mut view = |_: Progress<'_>| ();
        let answer = send(&elsewhere, &options, "do you hear me?", &mut view).await;
        assert!(matches!(&answer, Err(Error::Elsewhere(why)) if why == "not today"), "{answer:?}");
        assert_eq!(world.texts().len(), 0, "it is not sent twice");
    });
}

#[test]
fn a_request_that_was_taken_is_not_sent_again_when_its_driver_dies() {
    for is_driven_again in [false, true] {
        run(async {
            let home = Home::new();
            let world = World::new(&home);
            let agent = world.agent("anna", "resume");
            let (watched, elsewhere) = other(&home);
            let options = world.options(&agent);
            let drive = world.store.drive(world.session, MAIN).await.unwrap().unwrap();
            let (store, session) = (world.store.clone(), world.session);
            // Between two looks of the one who asked, it is taken, its driver dies, and another one takes its place.
            watched.before("asked", 0, move || {
                futures::executor::block_on(async {
                    store.take_prompt(session, MAIN).await.unwrap().unwrap();
                    drop(drive);
                    if is_driven_again {
                        drop(store.drive(session, MAIN).await.unwrap().unwrap());
                    }
                });
            });
            let mut view = |_: Progress<'_>| ();
            let answer = send(&elsewhere, &options, "do you hear me?", &mut view).await;
            assert!(matches!(answer, Err(Error::Interrupted)), "{answer:?}");
            assert_eq!((agent.state().launches, world.texts().len()), (0, 0));
        });
    }
}

#[test]
fn everybody_who_talks_in_a_session_is_asked_to_stop() {
    run(async {
        let home = Home::new();
        let world = World::new(&home);
        let agent = world.agent("anna", "resume");
        world.store.ask(world.session, Command::Complete, at(0)).await.unwrap();
        let mut talk = world.open(&agent).await.unwrap();
        let (_, elsewhere) = other(&home);
        let side = OpenOptions { conversation: "side".into(), ..world.options(&agent) };
        let mut beside = Talk::open(&elsewhere, side).await.unwrap();
        // One of them is in the middle of an answer.
        agent.plays([Script::saying(&["half"]).ending(End::Cancelled)]);
        let asking = async {
            agent.waiting.notified().await;
            home.open_again().ask(world.session, Command::Pause, at(0)).await.unwrap();
        };
        let mut view = |_: &Update| ();
        let (answer, ()) = futures::future::join(beside.send("go on", &mut view), asking).await;
        assert_eq!(answer.unwrap().stop, "cancelled");
        for one in [&mut talk, &mut beside] {
            assert_eq!(one.asked().await.unwrap(), Some(Asking::Pause));
            assert_eq!(one.asked().await.unwrap(), None, "each is asked once");
        }
        talk.end().await.unwrap();
        beside.end().await.unwrap();
        // Whoever comes later is not meant.
        let mut late = world.open(&agent).await.unwrap();
        home.open_again().ask_prompt(world.session, "other", "x", at(0)).await.unwrap();
        assert_eq!(late.asked().await.unwrap(), None);
        late.end().await.unwrap();
    });
}

#[test]
fn a_session_that_is_lost_in_between_is_told_of_in_one_turn_too() {
    run(async {
        let home = Home::new();
        let world = World::new(&home);
        let agent = world.agent("anna", "resume");
        world.turn(&agent, "fix the basket").await.unwrap();
        agent.plays([Script::default().ending(End::Forgets), Script::saying(&["I see"])]);
        let mut told_of = Vec::new();
        let mut view = |progress: Progress<'_>| {
            if let Progress::Opened(opening) = progress {
                told_of.push((opening.how.as_str(), opening.why.clone()));
            }
        };
        send(&world.engine, &world.options(&agent), "go on", &mut view).await.unwrap();
        assert_eq!(told_of, [("resumed", None), ("retold", Some("session_gone".into()))]);
    });
}
