//! One request to an agent, from the moment it is taken to its end.

use std::sync::{Arc, Mutex};

use rethread_domain::SessionId;
use rethread_engine::Error;
use rethread_engine::agents::{Answer, Progress, Runner};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::lines::Lines;
use super::questions::Questions;
use super::steps::Steps;
use super::{Request, lock};
use crate::problem::Problem;

/// How much of an answer is kept for those who ask late.
const MOST_ANSWER: usize = 1 << 20;

/// How a turn stands.
#[derive(Debug, Clone)]
pub(crate) enum Stands {
    Running,
    Ended(Box<Answer>),
    Failed(Problem),
    /// Somebody did not want it any more, and the agent had not answered.
    Cancelled,
}

impl Stands {
    fn of(outcome: Result<Answer, Error>, is_cancelled: bool) -> Self {
        match outcome {
            Ok(mut answer) => {
                // The log has all of it.
                answer.answer.truncate(answer.answer.floor_char_boundary(MOST_ANSWER));
                Self::Ended(Box::new(answer))
            }
            Err(Error::Agent { .. }) if is_cancelled => Self::Cancelled,
            Err(error) => Self::Failed(error.into()),
        }
    }
}

/// One request and what came of it.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) id: Uuid,
    pub(crate) session: SessionId,
    pub(crate) user: String,
    pub(crate) agent: String,
    pub(crate) conversation: String,
    /// What the agent asks; [`Stands::Running`] only.
    pub(crate) questions: Arc<Questions>,
    steps: Arc<Steps>,
    lines: Lines,
    stands: Mutex<Stands>,
    cancelled: CancellationToken,
    /// What was to be said, where it is over and the session does not have it.
    unsaid: Mutex<Option<String>>,
}

impl Turn {
    pub(super) fn new(request: &Request) -> Arc<Self> {
        let options = &request.turn.options;
        Arc::new(Self {
            id: request.id,
            session: options.session,
            user: request.user.clone(),
            agent: options.agent.clone(),
            conversation: options.conversation.clone(),
            questions: Arc::clone(&request.questions),
            steps: Arc::clone(&request.questions.steps),
            lines: Lines::default(),
            stands: Mutex::new(Stands::Running),
            cancelled: CancellationToken::new(),
            unsaid: Mutex::default(),
        })
    }

    /// What was to be said, where it is over and was not recorded.
    pub(crate) fn unsaid(&self) -> Option<String> {
        lock(&self.unsaid).clone()
    }

    pub(crate) fn stands(&self) -> Stands {
        lock(&self.stands).clone()
    }

    pub(crate) fn cancel(&self) {
        self.cancelled.cancel();
    }

    pub(super) fn is_over(&self) -> bool {
        self.steps.is_over()
    }

    /// The steps from `from` on, once there is one more, and whether that is all.
    pub(crate) async fn steps(&self, from: usize) -> (Vec<Arc<str>>, bool) {
        self.steps.after(from).await
    }

    /// Carries it out once it is its turn in the session, and tells how it ended.
    pub(super) async fn run(&self, request: &Request, runner: &Runner) {
        let mut view = |progress: Progress<'_>| self.see(request, progress);
        let outcome = runner.run(&request.turn, &self.cancelled, &mut view).await;
        self.questions.end();
        if let Some(rest) = self.lines.rest(request.engine.redactor()) {
            self.steps.push(&rest);
        }
        if outcome.is_err() && !is_recorded(request).await {
            *lock(&self.unsaid) = Some(request.turn.prompt.clone());
        }
        *lock(&self.stands) = Stands::of(outcome, self.cancelled.is_cancelled());
        self.steps.end();
    }

    fn see(&self, request: &Request, progress: Progress<'_>) {
        match progress {
            Progress::Opened(opening) => {
                self.steps.push(&json!({"is": "opened", "how": opening.how, "why": opening.why}));
            }
            Progress::Elsewhere => self.steps.push(&json!({"is": "elsewhere"})),
            Progress::Waiting => (),
            Progress::Update(update) => {
                for told in self.lines.take(request.engine.redactor(), update) {
                    self.steps.push(&told);
                }
            }
        }
    }
}

/// Whether the session has the request. Where that cannot be read, it is taken for lost: twice is better than never.
async fn is_recorded(request: &Request) -> bool {
    let Some(id) = &request.turn.options.request_id else { return false };
    let found = request.engine.message_by_id(request.turn.options.session, id).await;
    found.is_ok_and(|found| found.is_some())
}
