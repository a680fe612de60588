//! Opening: the best way in, why it was not a better one, and what stays known when none is found.

use std::time::Duration;

use rethread_domain::Fact;
use rethread_domain::opening::{Policy, Settings};
use rethread_engine::Error;
use rethread_engine::agents::{AgentError, OpenOptions, Talk};

use crate::scripted::{Doors, End, Outcome, Script};
use crate::world::{Home, World, run, told};

fn refused() -> Outcome {
    Outcome::AgentError(AgentError::Refused {
        what: "session".into(),
        code: -32603,
        message: "no".into(),
    })
}

fn gone() -> Outcome {
    Outcome::AgentError(AgentError::SessionGone("gone".into()))
}

fn timed_out() -> Outcome {
    let after = Duration::from_mins(2);
    Outcome::AgentError(AgentError::TimedOut { what: "session/resume".into(), after })
}

/// After one turn, opens again: how, why, the ways that were tried, and how many processes that took.
fn check(
    can: &str,
    resume: Outcome,
    load: Outcome,
    expected: (&str, Option<&str>),
    tried: &[&str],
    launches: u32,
) {
    run(async {
        let home = Home::new();
        let world = World::new(&home);
        let agent = world.agent("anna", can);
        world.turn(&agent, "fix the basket").await.unwrap();
        agent.state().doors = Doors { resume, load, new: Outcome::Fine };
        agent.state().launches = 0;
        agent.state().tried.clear();
        let talk = world.open(&agent).await.unwrap();
        assert_eq!(told(talk.opening().unwrap()), expected);
        assert_eq!(agent.state().tried, tried);
        assert_eq!(agent.state().launches, launches);
        talk.end().await.unwrap();
        assert_eq!(told(world.openings().last().unwrap()), expected, "it is written down");
        assert_eq!(agent.state().alive, 0);
    });
}

#[test]
fn each_way_in_falls_through_to_the_next_and_says_why() {
    let both = "resume load list";
    let fine = || Outcome::Fine;
    check(both, fine(), fine(), ("resumed", None), &["resume anna-1"], 1);
    let ways = &["resume anna-1", "load anna-1"][..];
    check(both, gone(), fine(), ("loaded", Some("session_gone")), ways, 1);
    check(both, refused(), fine(), ("loaded", Some("refused")), ways, 1);
    check(both, timed_out(), fine(), ("loaded", Some("timed_out")), ways, 2);
    check(both, Outcome::Dies, fine(), ("loaded", Some("agent_ended")), ways, 2);
    let ways = &["resume anna-1", "load anna-1", "new"][..];
    check(both, refused(), Outcome::Hollow, ("retold", Some("hollow")), ways, 1);
    check(both, refused(), Outcome::Mixed, ("retold", Some("mixed_up")), ways, 1);
    check(both, Outcome::Dies, timed_out(), ("retold", Some("timed_out")), ways, 3);
    check("load", fine(), gone(), ("retold", Some("session_gone")), &["load anna-1", "new"], 1);
    check("load", fine(), fine(), ("loaded", None), &["load anna-1"], 1);
    check(
        "resume",
        timed_out(),
        fine(),
        ("retold", Some("timed_out")),
        &["resume anna-1", "new"],
        2,
    );
    check("none", fine(), fine(), ("retold", Some("unable")), &["new"], 1);
}

#[test]
fn who_never_held_a_conversation_is_told_it_and_why_is_known() {
    run(async {
        let home = Home::new();
        let world = World::new(&home);
        let (anna, bert) = (world.agent("anna", "resume"), world.agent("bert", "resume"));
        let how = |opening: Option<&_>| {
            let (how, why) = told(opening.unwrap());
            (how, why.map(str::to_owned))
        };
        let mut talk = world.open(&anna).await.unwrap();
        assert_eq!(how(talk.opening()), ("fresh", None));
        anna.plays([Script::saying(&["half"]).ending(End::Dies)]);
        assert!(talk.send("fix the basket", &mut |_| ()).await.is_err());
        talk.end().await.unwrap();
        let talk = world.open(&anna).await.unwrap();
        assert_eq!(how(talk.opening()), ("retold", Some("first_turn".into())));
        talk.end().await.unwrap();
        let talk = world.open(&bert).await.unwrap();
        assert_eq!(how(talk.opening()), ("retold", Some("other_agent".into())));
        talk.end().await.unwrap();
        let options = OpenOptions { policy: Policy::Off, ..world.options(&bert) };
        let talk = Talk::open(&world.engine, options).await.unwrap();
        assert_eq!(how(talk.opening()), ("untold", Some("policy".into())));
        talk.end().await.unwrap();
    });
}

#[test]
fn a_missing_login_and_a_cancelled_open_forget_nothing() {
    for trouble in [AgentError::NeedsLogin("log in".into()), AgentError::Cancelled] {
        for at_load in [false, true] {
            run(async {
                let home = Home::new();
                let world = World::new(&home);
                let agent = world.agent("anna", "resume load list");
                world.turn(&agent, "fix the basket").await.unwrap();
                let before = world.watermark(&agent);
                let stop = Outcome::AgentError(trouble.clone());
                // Even where it had not been found a moment ago.
                let (resume, load) = if at_load { (gone(), stop) } else { (stop, Outcome::Fine) };
                agent.state().doors = Doors { resume, load, new: Outcome::Fine };
                let opened = world.open(&agent).await;
                let Err(Error::Agent { trouble: found, .. }) = opened else { panic!("{opened:?}") };
                assert_eq!(found, trouble);
                assert_eq!(world.watermark(&agent), before);
                let failed = world.openings().pop().unwrap();
                assert_eq!(told(&failed), ("failed", Some(trouble.name())), "it is counted");
                agent.state().doors = Doors::default();
                let talk = world.open(&agent).await.unwrap();
                assert_eq!(told(talk.opening().unwrap()), ("resumed", None));
                drop(talk);
                assert_eq!(agent.state().alive, 0);
            });
        }
    }
}

#[test]
fn rather_none_than_a_new_one_is_obeyed_and_forgets_nothing() {
    run(async {
        let home = Home::new();
        let world = World::new(&home);
        let agent = world.agent("anna", "resume");
        world.turn(&agent, "fix the basket").await.unwrap();
        agent.state().doors.resume = gone();
        let options = OpenOptions { policy: Policy::Required, ..world.options(&agent) };
        let opened = Talk::open(&world.engine, options).await;
        let Err(Error::NotResumable { why, .. }) = opened else { panic!("{opened:?}") };
        assert_eq!((why.as_str(), agent.state().alive), ("session_gone", 0));
        assert!(world.watermark(&agent).is_some());
        let failed = world.openings().pop().unwrap();
        assert_eq!(told(&failed), ("failed", Some("session_gone")));
    });
}

#[test]
fn what_was_forgotten_is_not_tried_again() {
    run(async {
        let home = Home::new();
        let world = World::new(&home);
        let agent = world.agent("anna", "resume");
        world.turn(&agent, "fix the basket").await.unwrap();
        agent.state().natives.clear();
        agent.plays([Script::saying(&["half"]).ending(End::Dies)]);
        assert!(world.turn(&agent, "go on").await.is_err());
        let forgot = |fact: &Fact| matches!(fact, Fact::Forgot { agent, .. } if agent == "anna");
        assert_eq!(world.facts().iter().filter(|fact| forgot(fact)).count(), 1);
        agent.state().tried.clear();
        world.turn(&agent, "go on").await.unwrap();
        assert_eq!(agent.state().tried, ["new"]);
    });
}

#[test]
fn what_was_rejected_is_forgotten_even_if_nothing_else_could_be_opened() {
    run(async {
        let home = Home::new();
        let world = World::new(&home);
        let agent = world.agent("anna", "resume");
        let options = OpenOptions { settings: model("large"), ..world.options(&agent) };
        let mut talk = Talk::open(&world.engine, options).await.unwrap();
        talk.send("fix the basket", &mut |_| ()).await.unwrap();
        talk.end().await.unwrap();
        agent.state().doors = Doors { resume: gone(), load: Outcome::Fine, new: refused() };
        assert!(world.open(&agent).await.is_err());
        assert_eq!(told(world.openings().last().unwrap()), ("failed", Some("refused")));
        agent.state().doors = Doors::default();
        agent.state().tried.clear();
        let answer = world.turn(&agent, "go on").await.unwrap();
        assert_eq!(agent.state().tried, ["new"]);
        assert_eq!(told(&answer.opened).0, "retold");
        assert_eq!(agent.state().set.last(), Some(&model("large")), "what was set is not");
    });
}

#[test]
fn what_could_not_be_opened_for_once_is_tried_again() {
    run(async {
        let home = Home::new();
        let world = World::new(&home);
        let agent = world.agent("anna", "resume");
        world.turn(&agent, "m1 fix the basket").await.unwrap();
        agent.state().doors.resume = refused();
        agent.plays([Script::saying(&["m2 half"]).ending(End::Dies)]);
        assert!(world.turn(&agent, "m3 go on").await.is_err());
        agent.state().doors = Doors::default();
        world.turn(&agent, "m4 and now").await.unwrap();
        let prompted = agent.last_prompt();
        assert_eq!(prompted.native, "anna-1", "its first session is still the one that it has");
        let missed = prompted.document().unwrap();
        assert!(missed.contains("> m3 go on") && missed.contains("> m2 half"), "{missed}");
        assert!(!missed.contains("m1"), "{missed}");
    });
}

#[test]
fn a_session_that_is_gone_at_the_prompt_is_told_anew_once() {
    run(async {
        let home = Home::new();
        let world = World::new(&home);
        let agent = world.agent("anna", "resume");
        agent.plays([Script::saying(&["done"])]);
        world.turn(&agent, "fix the basket").await.unwrap();
        let forgets = Script::default().ending(End::Forgets);
        agent.plays([forgets.clone(), Script::saying(&["I see"])]);
        let mut talk = world.open(&agent).await.unwrap();
        assert_eq!(told(talk.opening().unwrap()), ("resumed", None));
        let answer = talk.send("go on", &mut |_| ()).await.unwrap();
        assert_eq!((answer.answer.as_str(), told(&answer.opened).0), ("I see", "retold"));
        assert_eq!(answer.opened.why.as_deref(), Some("session_gone"));
        let prompted = agent.last_prompt();
        assert_eq!(prompted.texts(), ["go on"]);
        let history = prompted.document().unwrap();
        assert!(
            history.contains("> fix the basket\n") && history.contains("> done\n"),
            "{history}"
        );
        assert!(!history.contains("go on\n"), "{history}");
        assert_eq!(world.texts(), ["fix the basket", "done", "go on", "I see"]);
        let prompts = agent.state().prompts.len();
        // A second time in a row is the end of it.
        agent.plays([forgets.clone(), forgets]);
        let again = talk.send("and again", &mut |_| ()).await;
        assert!(matches!(again, Err(Error::Agent { trouble: AgentError::SessionGone(_), .. })));
        assert_eq!(agent.state().prompts.len(), prompts + 2);
        talk.end().await.unwrap();
        let last = world.messages().pop().unwrap();
        assert!(last.extras.other.contains_key("error"), "{last:?}");
    });
}

#[test]
fn a_session_that_is_gone_and_may_not_be_told_anew_ends_the_turn() {
    run(async {
        let home = Home::new();
        let world = World::new(&home);
        let agent = world.agent("anna", "resume");
        world.turn(&agent, "fix the basket").await.unwrap();
        agent.plays([Script::default().ending(End::Forgets), Script::saying(&["never"])]);
        let options = OpenOptions { policy: Policy::Required, ..world.options(&agent) };
        let mut talk = Talk::open(&world.engine, options).await.unwrap();
        let outcome = talk.send("go on", &mut |_| ()).await;
        assert!(matches!(outcome, Err(Error::NotResumable { .. })), "{outcome:?}");
        assert_eq!(world.store.underway().await.unwrap(), [], "no turn is left under way");
        assert!(crate::world::is_interrupted(world.messages().last().unwrap()));
        talk.end().await.unwrap();
    });
}

fn model(name: &str) -> Settings {
    Settings { model: Some(name.into()), ..Settings::default() }
}

#[test]
fn what_the_user_set_is_set_again_in_every_own_session() {
    run(async {
        let home = Home::new();
        let world = World::new(&home);
        let agent = world.agent("anna", "resume");
        let mode = Settings { mode: Some("plan".into()), ..Settings::default() };
        let mut options = world.options(&agent);
        options.defaults = Settings { model: Some("small".into()), ..mode.clone() };
        let mut talk = Talk::open(&world.engine, options.clone()).await.unwrap();
        assert_eq!(agent.state().set, [options.defaults.clone()]);
        talk.set(&model("large")).await.unwrap();
        talk.send("fix the basket", &mut |_| ()).await.unwrap();
        talk.end().await.unwrap();
        let expected = Settings { model: Some("large".into()), ..mode };
        for lose in [false, true] {
            if lose {
                agent.state().natives.clear();
            }
            agent.state().set.clear();
            let talk = Talk::open(&world.engine, options.clone()).await.unwrap();
            assert_eq!(agent.state().set.last(), Some(&expected), "the user's word is above ours");
            assert_eq!(agent.state().set.len(), 1);
            talk.end().await.unwrap();
        }
    });
}

#[test]
fn what_the_user_set_outlives_a_turn_that_was_cut_off() {
    // In its first turn, in one in a session that is there, in one that was lost, and in one that is told nothing.
    for (before, loses, policy) in [
        (false, false, Policy::Auto),
        (true, false, Policy::Auto),
        (true, true, Policy::Auto),
        (true, false, Policy::Off),
    ] {
        run(async {
            let home = Home::new();
            let world = World::new(&home);
            let agent = world.agent("anna", "resume");
            if before {
                world.turn(&agent, "fix the basket").await.unwrap();
            }
            let held = world.watermark(&agent).map(|held| (held.native, held.upto));
            if loses {
                agent.state().natives.clear();
            }
            let options = OpenOptions { settings: model("large"), policy, ..world.options(&agent) };
            let mut talk = Talk::open(&world.engine, options).await.unwrap();
            agent.plays([Script::saying(&["half"]).ending(End::Dies)]);
            assert!(talk.send("go on", &mut |_| ()).await.is_err());
            talk.end().await.unwrap();
            let now = world.watermark(&agent).unwrap();
            if !loses && before {
                assert_eq!(Some((now.native, now.upto)), held, "the watermark stays");
            }
            agent.state().set.clear();
            let talk = world.open(&agent).await.unwrap();
            assert_eq!(agent.state().set, [model("large")], "{before}, {loses}, {policy:?}");
            let is_held = before && !loses;
            assert_eq!(talk.opening().unwrap().how.as_str() == "resumed", is_held);
            talk.end().await.unwrap();
        });
    }
}

#[test]
fn what_is_set_while_the_agent_is_not_there_is_set_when_it_is() {
    run(async {
        let home = Home::new();
        let world = World::new(&home);
        let agent = world.agent("anna", "resume");
        let mut talk = world.open(&agent).await.unwrap();
        agent.plays([Script::default().ending(End::Dies)]);
        assert!(talk.send("fix the basket", &mut |_| ()).await.is_err());
        talk.set(&model("large")).await.unwrap();
        agent.state().set.clear();
        talk.send("go on", &mut |_| ()).await.unwrap();
        assert_eq!(agent.state().set, [model("large")]);
        talk.end().await.unwrap();
    });
}

#[test]
fn an_old_setting_that_is_refused_is_no_reason_not_to_talk() {
    run(async {
        let home = Home::new();
        let world = World::new(&home);
        let agent = world.agent("anna", "resume");
        let mut options = world.options(&agent);
        options.settings = model("large");
        let mut talk = Talk::open(&world.engine, options.clone()).await.unwrap();
        talk.send("fix the basket", &mut |_| ()).await.unwrap();
        talk.end().await.unwrap();
        agent.state().setting = Some(AgentError::Unsupported("model large".into()));
        world.turn(&agent, "go on").await.unwrap();
        assert!(Talk::open(&world.engine, options).await.is_err(), "a new one is");
        assert_eq!(agent.state().alive, 0);
    });
}

#[test]
fn an_agent_that_cannot_be_started_leaves_the_conversation_free() {
    run(async {
        let home = Home::new();
        let world = World::new(&home);
        let agent = world.agent("anna", "resume");
        let trouble = AgentError::NotInstalled { program: "anna".into() };
        agent.state().launching.push_back(Err(trouble));
        assert!(world.open(&agent).await.is_err());
        let mut talk = world.open(&agent).await.unwrap();
        talk.send("fix the basket", &mut |_| ()).await.unwrap();
        // How it was opened is not forgotten over a process that could not be started again.
        talk.end().await.unwrap();
        let mut talk = world.open(&agent).await.unwrap();
        agent.kill();
        agent.state().launching.push_back(Err(AgentError::NotInstalled { program: "anna".into() }));
        assert!(talk.send("go on", &mut |_| ()).await.is_err());
        talk.send("go on", &mut |_| ()).await.unwrap();
        talk.end().await.unwrap();
        let hows: Vec<&str> = world.openings().iter().map(|one| one.how.as_str()).collect();
        assert_eq!(hows, ["failed", "fresh", "failed", "resumed", "resumed"]);
    });
}
