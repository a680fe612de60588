//! Summaries by a model: used where there is one and it answers, never kept past a purge.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::executor::block_on;
use rethread_domain::Fact;
use rethread_domain::session::Move;
use rethread_domain::summary::{Author, Summary};
use rethread_engine::{Clock, Engine, Summariser};
use rethread_store::Append;
use rethread_testkit::{assistant, at, user};

use crate::world::{Home, World};

/// Answers what it was given to say, then nothing.
#[derive(Default)]
struct Scribe {
    answers: Mutex<VecDeque<&'static str>>,
    heard: Mutex<Vec<String>>,
}

#[async_trait]
impl Summariser for Scribe {
    async fn sum_up(&self, story: &str) -> Option<String> {
        self.heard.lock().unwrap().push(story.to_owned());
        self.answers.lock().unwrap().pop_front().map(str::to_owned)
    }
}

fn scribe(answers: &[&'static str]) -> Arc<Scribe> {
    let answers = Mutex::new(answers.iter().copied().collect());
    Arc::new(Scribe { answers, ..Scribe::default() })
}

fn setting(answers: &[&'static str], messages: u32) -> (Home, World, Engine, Arc<Scribe>) {
    let home = Home::new();
    let world = World::new(&home);
    let said = (1..=messages).map(|n| {
        let text = format!("Step {n}: we decided to look at handler_{n} because it fails.");
        if n % 2 == 0 { assistant(&text) } else { user(&text) }
    });
    block_on(home.store.append(Append::new(world.session, said.collect()))).unwrap();
    let scribe = scribe(answers);
    let engine = Engine::new(home.store.clone(), Clock::Fixed(at(9)));
    let engine = engine.with_summariser(Some(scribe.clone()));
    (home, world, engine, scribe)
}

/// The summaries as they were written down, of the session and of conversations.
fn summaries(world: &World) -> Vec<(Option<String>, Summary)> {
    let summary = |fact| match fact {
        Fact::Summarised { conversation, summary } => Some((conversation, summary)),
        _ => None,
    };
    world.facts().into_iter().filter_map(summary).collect()
}

#[test]
fn a_pause_is_summed_up_by_the_model() {
    let (_home, world, engine, scribe) =
        setting(&["- The handlers fail.\n\n* We look at each."], 6);
    let session = block_on(engine.shift(world.session, Move::Pause)).unwrap();
    assert_eq!(session.summary.as_deref(), Some("The handlers fail.\nWe look at each."));
    assert_eq!(summaries(&world)[0].1.by, Author::Model);
    let heard = scribe.heard.lock().unwrap();
    assert!(heard[0].contains("> Step 6: we decided"), "{}", heard[0]);
}

#[test]
fn the_rules_speak_where_the_model_does_not() {
    for answer in [&[][..], &["  \n - \n"]] {
        let (_home, world, engine, scribe) = setting(answer, 6);
        let session = block_on(engine.shift(world.session, Move::Pause)).unwrap();
        assert!(session.summary.unwrap().contains("we decided to look at handler_1"));
        assert_eq!(summaries(&world)[0].1.by, Author::Rules);
        assert_eq!(scribe.heard.lock().unwrap().len(), 1);
    }
}

#[test]
fn pruning_tells_in_the_model_s_words_and_folds_on_from_the_rules() {
    let (_home, world, engine, scribe) =
        setting(&["Ten handlers were seen.", "All in all: ten."], 40);
    block_on(engine.prune(world.session, 30)).unwrap();
    let conversation = &block_on(engine.conversations(world.session)).unwrap()[0];
    let summary = conversation.summary.as_ref().unwrap();
    assert_eq!((summary.by, summary.upto), (Author::Model, 10));
    assert_eq!(summary.text, "Ten handlers were seen.");
    assert!(!summary.points.is_empty());
    assert_eq!(
        block_on(engine.session(world.session)).unwrap().summary.unwrap(),
        "All in all: ten."
    );
    // The next folding: the model is silent, the rules go on from their own points.
    block_on(engine.prune(world.session, 20)).unwrap();
    let conversation = &block_on(engine.conversations(world.session)).unwrap()[0];
    let summary = conversation.summary.as_ref().unwrap();
    assert_eq!((summary.by, summary.upto, summary.folded), (Author::Rules, 20, 20));
    assert!(summary.text.contains("handler_1 "), "{}", summary.text);
    assert!(!summary.text.contains("Ten handlers"), "{}", summary.text);
    let heard = scribe.heard.lock().unwrap();
    assert!(
        heard[2].contains("> Ten handlers were seen."),
        "what it said is given back: {}",
        heard[2]
    );
}

#[test]
fn a_purge_takes_the_model_s_text_along() {
    let words = ["The passkey is heron-42.", "They spoke of heron-42."];
    let (_home, world, engine, _) = setting(&words, 40);
    block_on(engine.prune(world.session, 30)).unwrap();
    block_on(engine.purge(world.session, 3)).unwrap();
    let conversation = &block_on(engine.conversations(world.session)).unwrap()[0];
    let summary = conversation.summary.as_ref().unwrap();
    assert_eq!((summary.by, summary.upto), (Author::Rules, 10));
    let session = block_on(engine.session(world.session)).unwrap();
    for text in [summary.text.as_str(), session.summary.as_deref().unwrap_or_default()] {
        assert!(!text.contains("heron-42") && !text.contains("handler_3 "), "{text}");
    }
    let facts = serde_json::to_string(&world.facts()).unwrap();
    assert!(!facts.contains("heron-42"), "{facts}");
}

#[test]
fn a_session_that_falls_asleep_waits_for_no_model() {
    let (home, world, _, scribe) = setting(&["never asked"], 6);
    let engine = Engine::new(home.store.clone(), Clock::Fixed(at(60)));
    let engine = engine.with_summariser(Some(scribe.clone()));
    let paused = block_on(engine.tidy(jiff::SignedDuration::from_mins(5))).unwrap().paused;
    assert_eq!(paused[0].id, world.session);
    assert_eq!(scribe.heard.lock().unwrap().len(), 0);
    assert_eq!(summaries(&world)[0].1.by, Author::Rules);
}
