//! One turn with an agent, from the request to the end.

use std::sync::{Arc, Mutex};

use rethread_domain::SessionId;
use rethread_engine::Error;
use rethread_engine::agents::{Answer, Progress, Runner};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::masking::StreamMasker;
use super::questions::Questions;
use super::steps::Steps;
use super::{Request, lock};
use crate::problem::Problem;

/// How much of an answer is kept for clients that ask late.
const MOST_ANSWER: usize = 1 << 20;

/// The state of a turn.
#[derive(Debug, Clone)]
pub(crate) enum TurnState {
    Running,
    Ended(Box<Answer>),
    Failed(Problem),
    /// Cancelled before the agent had answered.
    Cancelled,
}

impl TurnState {
    fn of(outcome: Result<Answer, Error>, is_cancelled: bool) -> Self {
        match outcome {
            Ok(mut answer) => {
                // The session has the whole answer.
                answer.answer.truncate(answer.answer.floor_char_boundary(MOST_ANSWER));
                Self::Ended(Box::new(answer))
            }
            Err(Error::Agent { .. }) if is_cancelled => Self::Cancelled,
            Err(error) => Self::Failed(error.into()),
        }
    }
}

/// A turn and its outcome.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) id: Uuid,
    pub(crate) session: SessionId,
    pub(crate) user: String,
    pub(crate) agent: String,
    pub(crate) conversation: String,
    /// The agent's questions; only while [`TurnState::Running`].
    pub(crate) questions: Arc<Questions>,
    steps: Arc<Steps>,
    lines: StreamMasker,
    state: Mutex<TurnState>,
    cancelled: CancellationToken,
    /// The prompt, if the turn is over and the session does not have it.
    unrecorded_prompt: Mutex<Option<String>>,
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
            lines: StreamMasker::default(),
            state: Mutex::new(TurnState::Running),
            cancelled: CancellationToken::new(),
            unrecorded_prompt: Mutex::default(),
        })
    }

    /// The prompt, if the turn is over and it was not recorded.
    pub(crate) fn unrecorded_prompt(&self) -> Option<String> {
        lock(&self.unrecorded_prompt).clone()
    }

    pub(crate) fn state(&self) -> TurnState {
        lock(&self.state).clone()
    }

    pub(crate) fn cancel(&self) {
        self.cancelled.cancel();
    }

    pub(super) fn is_over(&self) -> bool {
        self.steps.is_over()
    }

    /// The steps from `from` on, once there is a new one, and whether the turn is over.
    pub(crate) async fn steps(&self, from: usize) -> (Vec<Arc<str>>, bool) {
        self.steps.after(from).await
    }

    /// Runs the turn once those before it in the session are done, and keeps its outcome.
    pub(super) async fn run(&self, request: &Request, runner: &Runner) {
        let mut view = |progress: Progress<'_>| self.see(request, progress);
        let outcome = runner.run(&request.turn, &self.cancelled, &mut view).await;
        self.questions.end();
        if let Some(rest) = self.lines.rest(request.engine.redactor()) {
            self.steps.push(&rest);
        }
        if outcome.is_err() && !is_recorded(request).await {
            *lock(&self.unrecorded_prompt) = Some(request.turn.prompt.clone());
        }
        *lock(&self.state) = TurnState::of(outcome, self.cancelled.is_cancelled());
        self.steps.end();
    }

    fn see(&self, request: &Request, progress: Progress<'_>) {
        match progress {
            Progress::Opened(opening) => {
                self.steps.push(&json!({"is": "opened", "how": opening.how, "why": opening.why}));
            }
            Progress::Elsewhere => self.steps.push(&json!({"is": "elsewhere"})),
            Progress::Waiting | Progress::Recorded(_) => (),
            Progress::Update(update) => {
                for told in self.lines.take(request.engine.redactor(), update) {
                    self.steps.push(&told);
                }
            }
        }
    }
}

/// Whether the session has the prompt. If that cannot be read it is treated as lost: twice is better than never.
async fn is_recorded(request: &Request) -> bool {
    let Some(id) = request.turn.options.request_id else { return false };
    let session = request.turn.options.session;
    let found = request.engine.message_by_id(session, &id.to_string()).await;
    found.is_ok_and(|found| found.is_some())
}
