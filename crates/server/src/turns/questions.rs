//! The permission questions of a turn. A question is open until somebody answers it, or the turn ends.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use rethread_engine::Engine;
use rethread_engine::agents::{Asker, Question};
use serde_json::json;
use tokio::sync::oneshot;

use super::lock;
use super::steps::Steps;
use crate::problem::Problem;
use crate::views::QuestionView;

/// The questions of one turn.
#[derive(Debug)]
pub(crate) struct Questions {
    engine: Engine,
    pub(super) steps: Arc<Steps>,
    asked: Mutex<QuestionTable>,
}

#[derive(Debug, Default)]
struct QuestionTable {
    /// How many questions there have been: they are numbered from 1.
    count: u32,
    open: BTreeMap<u32, OpenQuestion>,
    is_over: bool,
}

/// A question without an answer.
#[derive(Debug)]
struct OpenQuestion {
    view: QuestionView,
    /// The agent's ids of the options; clients know them by number.
    names: Vec<String>,
    answer: oneshot::Sender<String>,
}

impl Questions {
    pub(crate) fn new(engine: Engine) -> Arc<Self> {
        Arc::new(Self { engine, steps: Steps::new(), asked: Mutex::default() })
    }

    /// The open questions, oldest first.
    pub(crate) fn open(&self) -> Vec<QuestionView> {
        lock(&self.asked).open.values().map(|open| open.view.clone()).collect()
    }

    /// Answers a question, once.
    pub(crate) fn answer(&self, question: u32, option: u32) -> Result<(), Problem> {
        let mut asked = lock(&self.asked);
        if !(1..=asked.count).contains(&question) {
            return Err(Problem::new("question_not_found", "the turn has not asked this"));
        }
        let Some(open) = asked.open.get(&question) else { return Err(closed()) };
        let name = (1..).zip(&open.names).find(|(number, _)| *number == option);
        let Some(name) = name.map(|(_, name)| name.clone()) else {
            let what = format!("the question has the options 1 to {}", open.names.len());
            return Err(Problem::new("unknown_option", what));
        };
        let Some(open) = asked.open.remove(&question) else { return Err(closed()) };
        // The turn may be cancelled at this very moment.
        open.answer.send(name).map_err(|_| closed())?;
        self.steps.push_always(&json!({
            "is": "settled", "question_id": question, "option_id": option,
        }));
        Ok(())
    }

    /// Closes all questions at the end of the turn.
    pub(super) fn end(&self) {
        let mut asked = lock(&self.asked);
        asked.is_over = true;
        for question in std::mem::take(&mut asked.open).into_keys() {
            self.settled(question);
        }
    }

    fn settled(&self, question: u32) {
        self.steps.push_always(&json!({"is": "settled", "question_id": question}));
    }

    /// Asks the clients that follow the turn; `None` if the turn is over.
    fn open_question(&self, question: &Question) -> Option<(u32, oneshot::Receiver<String>)> {
        let (answer, answered) = oneshot::channel();
        let mut asked = lock(&self.asked);
        if asked.is_over {
            return None;
        }
        asked.count += 1;
        let number = asked.count;
        let view = QuestionView::of(self.engine.redactor(), number, question);
        self.steps.push_always(&json!({"is": "question", "question": &view}));
        let names = question.options.iter().map(|option| option.id.clone()).collect();
        asked.open.insert(number, OpenQuestion { view, names, answer });
        Some((number, answered))
    }
}

fn closed() -> Problem {
    Problem::new("question_closed", "somebody else has answered it, or the turn went on without")
}

/// Keeps a question open until it is dropped, for whatever reason.
struct QuestionGuard<'a>(&'a Questions, u32);

impl Drop for QuestionGuard<'_> {
    fn drop(&mut self) {
        if lock(&self.0.asked).open.remove(&self.1).is_some() {
            self.0.settled(self.1);
        }
    }
}

#[async_trait]
impl Asker for Questions {
    /// Always: a question waits for somebody to come.
    fn is_there(&self) -> bool {
        true
    }

    async fn ask(&self, question: &Question) -> Option<String> {
        let mut question = question.clone();
        if QuestionView::is_masked(self.engine.redactor(), &question) {
            question.options.retain(|option| option.allows() == Some(false));
        }
        if question.options.is_empty() {
            return None;
        }
        let (number, answered) = self.open_question(&question)?;
        let _standing = QuestionGuard(self, number);
        answered.await.ok()
    }

    fn answered(&self, _: &Question, _: &str) {}
}
