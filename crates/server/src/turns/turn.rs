//! One request to an agent, from the moment it is taken to its end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rethread_domain::SessionId;
use rethread_domain::turn::Update;
use rethread_engine::Error;
use rethread_engine::agents::{Answer, Canceller, OpenOptions, Progress, Talk};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::lines::Lines;
use super::questions::Questions;
use super::steps::Steps;
use super::{Request, held};
use crate::problem::Problem;

/// How much of an answer is kept for those who ask late.
const MOST_ANSWER: usize = 1 << 20;
/// How often a cancel is said until the turn has ended.
const SAID_AGAIN: std::time::Duration = std::time::Duration::from_millis(200);

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
    canceller: Mutex<Option<Canceller>>,
    /// What another process was asked to send; no number is 0.
    asked: AtomicU64,
    /// What was to be said, where it is over and the session does not have it.
    unsaid: Mutex<Option<String>>,
}

impl Turn {
    pub(super) fn new(request: &Request) -> Arc<Self> {
        let options = &request.options;
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
            canceller: Mutex::default(),
            asked: AtomicU64::new(0),
            unsaid: Mutex::default(),
        })
    }

    /// What was to be said, where it is over and was not recorded.
    pub(crate) fn unsaid(&self) -> Option<String> {
        held(&self.unsaid).clone()
    }

    pub(crate) fn stands(&self) -> Stands {
        held(&self.stands).clone()
    }

    pub(crate) fn cancel(&self) {
        self.cancelled.cancel();
        let canceller = held(&self.canceller).clone();
        if let Some(canceller) = canceller {
            canceller.cancel();
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.steps.is_over()
    }

    /// The steps from `from` on, once there is one more, and whether that is all.
    pub(crate) async fn steps(&self, from: usize) -> (Vec<Arc<str>>, bool) {
        self.steps.after(from).await
    }

    /// Carries it out once it is its turn in the session, and tells how it ended.
    pub(super) async fn run(&self, request: &Request, queue: &tokio::sync::Mutex<()>) {
        let outcome = tokio::select! {
            _first = queue.lock() => self.carry_out(request).await,
            () = self.cancelled.cancelled() => Err(cancelled(&request.options)),
        };
        self.questions.end();
        if let Some(rest) = self.lines.rest(request.engine.redactor()) {
            self.steps.push(&rest);
        }
        if outcome.is_err() && !is_recorded(request).await {
            *held(&self.unsaid) = Some(request.prompt.clone());
        }
        *held(&self.stands) = Stands::of(outcome, self.cancelled.is_cancelled());
        self.steps.end();
    }
}

impl Turn {
    async fn carry_out(&self, request: &Request) -> Result<Answer, Error> {
        if self.cancelled.is_cancelled() {
            return Err(cancelled(&request.options));
        }
        let opened = tokio::select! {
            opened = Talk::open(&request.engine, request.options.clone()) => opened,
            () = self.cancelled.cancelled() => return Err(cancelled(&request.options)),
        };
        match opened {
            Ok(talk) => self.say(talk, request).await,
            Err(Error::Busy { .. }) => self.ask_elsewhere(request).await,
            Err(error) => Err(error),
        }
    }

    async fn say(&self, mut talk: Talk, request: &Request) -> Result<Answer, Error> {
        let canceller = talk.canceller();
        if let Some(opening) = talk.opening() {
            self.steps.push(&json!({"is": "opened", "how": opening.how, "why": opening.why}));
        }
        *held(&self.canceller) = Some(canceller.clone());
        let mut view = |update: &Update| self.take(request, update);
        let answer = {
            let sent = talk.send(&request.prompt, &mut view);
            tokio::pin!(sent);
            loop {
                tokio::select! {
                    answer = &mut sent => break answer,
                    // A cancel that comes before the agent has the request reaches nobody: it is said again.
                    () = tokio::time::sleep(SAID_AGAIN), if self.cancelled.is_cancelled() => canceller.cancel(),
                    () = self.cancelled.cancelled(), if !self.cancelled.is_cancelled() => canceller.cancel(),
                }
            }
        };
        talk.end().await?;
        answer
    }

    fn take(&self, request: &Request, update: &Update) {
        for told in self.lines.take(request.engine.redactor(), update) {
            self.steps.push(&told);
        }
    }

    async fn ask_elsewhere(&self, request: &Request) -> Result<Answer, Error> {
        let mut view = |progress: Progress<'_>| match progress {
            Progress::Asked(number) => self.asked.store(number, Ordering::SeqCst),
            Progress::Opened(opening) => {
                self.steps.push(&json!({"is": "opened", "how": opening.how, "why": opening.why}));
            }
            Progress::Elsewhere => self.steps.push(&json!({"is": "elsewhere"})),
            Progress::Update(update) => self.take(request, update),
        };
        let sent = request.engine.send(&request.options, &request.prompt, &mut view);
        tokio::select! {
            answer = sent => answer,
            () = self.cancelled.cancelled() => {
                let asked = self.asked.load(Ordering::SeqCst);
                if asked == 0 || request.engine.take_back(asked).await? {
                    return Err(cancelled(&request.options));
                }
                let why = "the process that has the conversation open had begun with it, and goes on";
                Err(Error::Elsewhere(why.to_owned()))
            }
        }
    }
}

/// Whether the session has the request. Where that cannot be read, it is taken for lost: twice is better than never.
async fn is_recorded(request: &Request) -> bool {
    let Some(id) = &request.options.request_id else { return false };
    let found = request.engine.message_by_id(request.options.session, id).await;
    found.is_ok_and(|found| found.is_some())
}

fn cancelled(options: &OpenOptions) -> Error {
    let trouble = rethread_engine::agents::Trouble::Cancelled;
    Error::Agent { agent: options.agent.clone(), trouble }
}
