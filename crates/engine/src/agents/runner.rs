//! Runs one request to its end, the same way at every door: in the order of the requests, here or through the process that has
//! the conversation open, until it is answered or cancelled.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rethread_domain::turn::Update;
use rethread_domain::{SessionId, id};
use rethread_store as store;
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::open::OpenOptions;
use super::port::AgentError;
use super::send::{Answer, Progress, replied};
use super::talk::Talk;
use crate::{Engine, Error, Result};

/// How often to check that the process that is to answer is still alive.
const CHECK_EVERY: Duration = Duration::from_millis(500);
/// How often to check whether another process has left the conversation.
const WAIT: Duration = Duration::from_millis(100);
/// How long a turn that ran out of time may take to end.
const PATIENCE: Duration = Duration::from_secs(10);

type Queue = Arc<tokio::sync::Mutex<()>>;

/// A request to an agent.
#[derive(Debug, Clone)]
pub struct TurnRequest {
    pub options: OpenOptions,
    pub prompt: String,
    pub when_busy: WhenBusy,
}

/// Refuses a prompt without visible characters.
pub fn check_prompt(prompt: &str) -> Result<()> {
    if id::is_blank(prompt) { Err(Error::Empty("prompt")) } else { Ok(()) }
}

/// What to do if another process has the conversation open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenBusy {
    /// That process sends the request, with the agent and the settings that it has.
    Delegate,
    /// Wait: only this process can run it as requested.
    Wait,
    /// [`Error::Busy`].
    Refuse,
}

/// Runs requests to agents. Its clones share one queue for each session.
///
/// A cancel is sticky: whenever the token is cancelled, the request ends. [`AgentError::Cancelled`] means that it had not begun
/// and nothing was recorded; a turn that had begun ends with an [`Answer`] whose stop is `cancelled`.
#[derive(Debug, Clone)]
pub struct Runner {
    engine: Engine,
    queues: Arc<Mutex<BTreeMap<SessionId, Queue>>>,
}

/// The head of a session's queue: while it is held, no other request runs in this session through the same runner.
#[derive(Debug)]
pub struct QueueHead<'a> {
    runner: &'a Runner,
    _head: OwnedMutexGuard<()>,
}

impl Runner {
    pub fn new(engine: Engine) -> Self {
        Self { engine, queues: Arc::default() }
    }

    /// Waits for the head of the session's queue; `None` if cancelled meanwhile.
    pub async fn wait_in_queue(
        &self,
        session: SessionId,
        cancel: &CancellationToken,
    ) -> Option<QueueHead<'_>> {
        let queue = self.queue(session);
        tokio::select! {
            biased;
            () = cancel.cancelled() => None,
            head = queue.lock_owned() => Some(QueueHead { runner: self, _head: head }),
        }
    }

    /// Runs a request once it is its turn.
    pub async fn run(
        &self,
        request: &TurnRequest,
        cancel: &CancellationToken,
        view: &mut (dyn FnMut(Progress<'_>) + Send),
    ) -> Result<Answer> {
        match self.wait_in_queue(request.options.session, cancel).await {
            Some(place) => place.run(request, cancel, view).await,
            None => Err(request.options.error(AgentError::Cancelled)),
        }
    }

    fn queue(&self, session: SessionId) -> Queue {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        // A queue that only this map refers to is unused.
        queues.retain(|_, queue| Arc::strong_count(queue) > 1);
        Arc::clone(queues.entry(session).or_default())
    }
}

impl QueueHead<'_> {
    /// Runs a request here or, as it says, through the process that has the conversation open.
    pub async fn run(
        &self,
        request: &TurnRequest,
        cancel: &CancellationToken,
        view: &mut (dyn FnMut(Progress<'_>) + Send),
    ) -> Result<Answer> {
        check_prompt(&request.prompt)?;
        let (engine, options) = (&self.runner.engine, &request.options);
        let cancelled = || Err(options.error(AgentError::Cancelled));
        loop {
            let opened = tokio::select! {
                biased;
                () = cancel.cancelled() => return cancelled(),
                opened = Talk::open(engine, options.clone()) => opened,
            };
            match (opened, request.when_busy) {
                (Ok(talk), _) => return say(talk, &request.prompt, cancel, view).await,
                (Err(Error::Busy { .. }), WhenBusy::Delegate) => {
                    if let Some(answer) = engine.delegate(request, cancel, view).await? {
                        return Ok(answer);
                    }
                    // That process has ended and had not begun.
                }
                (Err(Error::Busy { .. }), WhenBusy::Wait) => {
                    view(Progress::Waiting);
                    tokio::select! {
                        () = tokio::time::sleep(WAIT) => (),
                        () = cancel.cancelled() => return cancelled(),
                    }
                }
                (Err(error), _) => return Err(error),
            }
        }
    }
}

async fn say(
    mut talk: Talk,
    prompt: &str,
    cancel: &CancellationToken,
    view: &mut (dyn FnMut(Progress<'_>) + Send),
) -> Result<Answer> {
    if let Some(opening) = talk.opening() {
        view(Progress::Opened(opening));
    }
    let answer = talk.say(prompt, cancel, view).await;
    talk.end().await?;
    answer
}

impl Talk {
    /// Sends a request that cannot be cancelled.
    pub async fn send(
        &mut self,
        prompt: &str,
        view: &mut (dyn FnMut(&Update) + Send),
    ) -> Result<Answer> {
        self.say(prompt, &CancellationToken::new(), &mut updates(view)).await
    }

    /// Sends a request until `stop` resolves to a reason to end it, such as a timeout. Then the turn is cancelled, and given some
    /// time to be recorded.
    pub async fn say_until<S>(
        &mut self,
        prompt: &str,
        stop: impl Future<Output = S>,
        view: &mut (dyn FnMut(&Update) + Send),
    ) -> std::result::Result<Result<Answer>, S> {
        let cancel = CancellationToken::new();
        let mut view = updates(view);
        let mut said = std::pin::pin!(self.say(prompt, &cancel, &mut view));
        tokio::select! {
            answer = &mut said => Ok(answer),
            stopped = stop => {
                cancel.cancel();
                // The turn records its own end; if that takes too long, whoever opens the conversation next does it.
                drop(tokio::time::timeout(PATIENCE, said).await);
                Err(stopped)
            }
        }
    }
}

/// Passes on only the updates of a turn.
fn updates(view: &mut (dyn FnMut(&Update) + Send)) -> impl FnMut(Progress<'_>) + Send {
    |progress| {
        if let Progress::Update(update) = progress {
            view(update);
        }
    }
}

impl Engine {
    /// Leaves the prompt to the process that has the conversation open, and takes it back if cancelled before that has begun.
    /// `None` if that process has ended and had not begun.
    async fn delegate(
        &self,
        request: &TurnRequest,
        cancel: &CancellationToken,
        view: &mut (dyn FnMut(Progress<'_>) + Send),
    ) -> Result<Option<Answer>> {
        let options = &request.options;
        let (session, conversation) = (options.session, options.conversation.as_str());
        let now = self.clock.now();
        let no = self.store.ask_prompt(session, conversation, &request.prompt, now).await?;
        view(Progress::Elsewhere);
        tokio::select! {
            biased;
            answer = self.answered_elsewhere(options, no) => answer,
            () = cancel.cancelled() => {
                let is_taken_back = self.store.withdraw(no).await?;
                Err(if is_taken_back { options.error(AgentError::Cancelled) } else { Error::Taken })
            }
        }
    }

    async fn answered_elsewhere(&self, options: &OpenOptions, no: u64) -> Result<Option<Answer>> {
        let (mut changes, mut was_taken) = (self.changes(), false);
        let mut checked = Instant::now();
        loop {
            changes.within(CHECK_EVERY).await;
            match self.store.asked(no).await? {
                store::Asked::Answered(reply) => {
                    self.store.withdraw(no).await?;
                    return replied(&reply).map(Some);
                }
                store::Asked::Abandoned => {
                    self.store.withdraw(no).await?;
                    return Err(Error::Interrupted);
                }
                // The answer was deleted together with a message that was purged.
                store::Asked::Gone if was_taken => return Err(Error::Interrupted),
                store::Asked::Gone => return Ok(None),
                store::Asked::Taken => was_taken = true,
                store::Asked::Waiting => (),
            }
            if checked.elapsed() >= CHECK_EVERY {
                checked = Instant::now();
                // If that process has ended, the next iteration shows whether it had begun.
                drop(self.store.drive(options.session, &options.conversation).await?);
            }
        }
    }
}
