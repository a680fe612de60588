//! Requests that are queued, cancelled, or meet with a conversation that somebody else has open.

use rethread_engine::Error;
use rethread_engine::agents::{AgentError, Answer, Progress, Runner, Talk, TurnRequest, WhenBusy};
use rethread_engine::{Clock, Engine, Result};
use rethread_testkit::at;
use tokio_util::sync::CancellationToken;

use crate::scripted::{End, Script, Scripted};
use crate::world::{Home, World, run};

fn request(world: &World, agent: &Scripted, prompt: &str, when_busy: WhenBusy) -> TurnRequest {
    TurnRequest { options: world.options(agent), prompt: prompt.to_owned(), when_busy }
}

/// Runs a request that nobody watches.
async fn quietly(
    runner: &Runner,
    request: &TurnRequest,
    cancel: &CancellationToken,
) -> Result<Answer> {
    runner.run(request, cancel, &mut |_| ()).await
}

fn is_cancelled(outcome: &Result<Answer>) -> bool {
    matches!(outcome, Err(Error::Agent { trouble: AgentError::Cancelled, .. }))
}

/// What a conversation looks like to another process that has it open.
async fn open_elsewhere(home: &Home, world: &World, agent: &Scripted) -> (Engine, Talk) {
    let engine = Engine::new(home.open_again(), Clock::Fixed(at(0)));
    let talk = Talk::open(&engine, world.options(agent)).await.unwrap();
    (engine, talk)
}

#[test]
fn a_prompt_in_which_nobody_sees_anything_is_refused_before_anything_begins() {
    run(async {
        let home = Home::new();
        let world = World::new(&home);
        let agent = world.agent("anna", "resume");
        let runner = Runner::new(world.engine.clone());
        for prompt in ["", " \n\t", "\u{7}"] {
            let request = request(&world, &agent, prompt, WhenBusy::Delegate);
            let refused = quietly(&runner, &request, &CancellationToken::new()).await.unwrap_err();
            assert_eq!(refused.code(), "bad_input", "{refused}");
        }
        assert_eq!((agent.state().launches, world.texts().len()), (0, 0));
    });
}

#[test]
fn a_cancel_sticks_whenever_it_comes() {
    run(async {
        let home = Home::new();
        let world = World::new(&home);
        let agent = world.agent("anna", "resume");
        let runner = Runner::new(world.engine.clone());
        let request = request(&world, &agent, "fix the basket", WhenBusy::Delegate);
        let early = CancellationToken::new();
        early.cancel();
        let outcome = quietly(&runner, &request, &early).await;
        assert!(is_cancelled(&outcome), "{outcome:?}");
        assert_eq!((agent.state().launches, world.texts().len()), (0, 0), "nothing was begun");
        // Between the opening and the prompt: the agent would wait for ever.
        let late = CancellationToken::new();
        agent.plays([Script::default().ending(End::Cancelled)]);
        let mut cancel = |progress: Progress<'_>| {
            if matches!(progress, Progress::Opened(_)) {
                late.cancel();
            }
        };
        let outcome = runner.run(&request, &late, &mut cancel).await;
        assert!(is_cancelled(&outcome), "{outcome:?}");
        assert_eq!(world.texts(), [] as [&str; 0], "the prompt was not sent");
        // In the middle of the turn, it is kept.
        let late = CancellationToken::new();
        let script = Script::saying(&["half"]).then(crate::scripted::Act::Pause);
        agent.plays([script.ending(End::Cancelled)]);
        let mut cancel = |progress: Progress<'_>| {
            if matches!(progress, Progress::Update(_)) {
                late.cancel();
            }
        };
        let answer = runner.run(&request, &late, &mut cancel).await.unwrap();
        assert_eq!((answer.stop.as_str(), answer.answer.as_str()), ("cancelled", "half"));
        assert_eq!(world.texts(), ["fix the basket", "half"]);
    });
}

#[test]
fn requests_of_a_session_are_sent_one_after_the_other() {
    run(async {
        let home = Home::new();
        let world = World::new(&home);
        let agent = world.agent("anna", "resume");
        let runner = Runner::new(world.engine.clone());
        let ask = |prompt: &str| request(&world, &agent, prompt, WhenBusy::Refuse);
        let (first, second, third) = (ask("first"), ask("second"), ask("third"));
        let (never, cancel) = (CancellationToken::new(), CancellationToken::new());
        agent.plays([Script::saying(&["one"]), Script::saying(&["three"])]);
        let mut opened = |progress: Progress<'_>| {
            if matches!(progress, Progress::Opened(_)) {
                // It waits in the queue, and leaves it.
                cancel.cancel();
            }
        };
        let (one, two, three) = tokio::join!(
            runner.run(&first, &never, &mut opened),
            quietly(&runner, &second, &cancel),
            quietly(&runner, &third, &never),
        );
        assert_eq!(
            (one.unwrap().answer.as_str(), three.unwrap().answer.as_str()),
            ("one", "three")
        );
        assert!(is_cancelled(&two), "{two:?}");
        assert_eq!(world.texts(), ["first", "one", "third", "three"]);
    });
}

#[test]
fn whoever_has_it_open_sends_it_unless_it_is_taken_back() {
    run(async {
        let home = Home::new();
        let world = World::new(&home);
        let agent = world.agent("anna", "resume");
        let (other, mut talk) = open_elsewhere(&home, &world, &agent).await;
        let runner = Runner::new(world.engine.clone());
        let never = CancellationToken::new();
        let refused = request(&world, &agent, "x", WhenBusy::Refuse);
        let outcome = quietly(&runner, &refused, &never).await;
        assert!(matches!(outcome, Err(Error::Busy { .. })), "{outcome:?}");
        let left = request(&world, &agent, "go on", WhenBusy::Delegate);
        let back = CancellationToken::new();
        let mut take_back = |progress: Progress<'_>| {
            if matches!(progress, Progress::Elsewhere) {
                back.cancel();
            }
        };
        let outcome = runner.run(&left, &back, &mut take_back).await;
        assert!(is_cancelled(&outcome), "{outcome:?}");
        assert_eq!(talk.asked().await.unwrap(), None, "it was taken back");
        agent.plays([Script::saying(&["I see"])]);
        let answering = async {
            let (no, prompt) = loop {
                if let Some(rethread_engine::agents::ProcessRequest::Prompt { no, prompt }) =
                    talk.asked().await.unwrap()
                {
                    break (no, prompt);
                }
                tokio::task::yield_now().await;
            };
            let outcome = talk.send(&prompt, &mut |_| ()).await;
            other.reply(no, &outcome).await.unwrap();
            talk.end().await.unwrap();
        };
        let (answer, ()) = tokio::join!(quietly(&runner, &left, &never), answering);
        assert_eq!(answer.unwrap().answer, "I see");
        assert_eq!(world.texts(), ["go on", "I see"]);
    });
}

#[test]
fn what_has_begun_elsewhere_is_not_taken_back_and_what_has_to_wait_waits() {
    run(async {
        let home = Home::new();
        let world = World::new(&home);
        let agent = world.agent("anna", "resume");
        let (_, mut talk) = open_elsewhere(&home, &world, &agent).await;
        let runner = Runner::new(world.engine.clone());
        let (never, cancel) = (CancellationToken::new(), CancellationToken::new());
        let left = request(&world, &agent, "go on", WhenBusy::Delegate);
        let taking = async {
            while talk.asked().await.unwrap().is_none() {
                tokio::task::yield_now().await;
            }
            cancel.cancel();
        };
        let (outcome, ()) = tokio::join!(quietly(&runner, &left, &cancel), taking);
        assert!(matches!(outcome, Err(Error::Taken)), "{outcome:?}");
        // One that has to be done here waits until the other process leaves, or it is cancelled.
        let waits = request(&world, &agent, "look", WhenBusy::Wait);
        let cancel = CancellationToken::new();
        let mut give_up = |progress: Progress<'_>| {
            if matches!(progress, Progress::Waiting) {
                cancel.cancel();
            }
        };
        let outcome = runner.run(&waits, &cancel, &mut give_up).await;
        assert!(is_cancelled(&outcome), "{outcome:?}");
        agent.plays([Script::saying(&["I see"])]);
        let leaving = async { assert_eq!(talk.end().await.unwrap(), 0) };
        let (answer, ()) = tokio::join!(quietly(&runner, &waits, &never), leaving);
        assert_eq!(answer.unwrap().answer, "I see");
    });
}
