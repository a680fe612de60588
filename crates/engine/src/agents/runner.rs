//! Runs one request to its end, the same way at every door: in the order in which requests came, here or by whoever
//! has the conversation open, until it is answered or cancelled.

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
use super::port::Trouble;
use super::send::{Answer, Progress, replied};
use super::talk::Talk;
use crate::{Engine, Error, Result};

/// How often we check that the process that is to answer still lives.
const CHECK_EVERY: Duration = Duration::from_millis(500);
/// How often we look whether another process has left the conversation.
const WAIT: Duration = Duration::from_millis(100);
/// How long a turn that ran out of time has to end.
const PATIENCE: Duration = Duration::from_secs(10);

type Queue = Arc<tokio::sync::Mutex<()>>;

/// One request to an agent.
#[derive(Debug, Clone)]
pub struct TurnRequest {
    pub options: OpenOptions,
    pub prompt: String,
    pub when_busy: WhenBusy,
}

/// Refuses a prompt in which nobody would see anything.
pub fn check_prompt(prompt: &str) -> Result<()> {
    if id::is_blank(prompt) { Err(Error::Empty("prompt")) } else { Ok(()) }
}

/// What becomes of a request where another process has the conversation open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenBusy {
    /// That process sends it, with the agent and the settings that it has.
    Delegate,
    /// It waits: only this process can do it as it is wanted.
    Wait,
    /// [`Error::Busy`].
    Refuse,
}

/// Runs requests to agents. Its clones share one queue for each session.
///
/// A cancel sticks: whenever the token is cancelled, the request ends. [`Trouble::Cancelled`] means that it had not
/// begun and nothing was recorded; a turn that had begun ends with an [`Answer`] whose stop is `cancelled`.
#[derive(Debug, Clone)]
pub struct Runner {
    engine: Engine,
    queues: Arc<Mutex<BTreeMap<SessionId, Queue>>>,
}

/// A place at the head of a session's queue: nobody else's request runs in this session through the same runner.
#[derive(Debug)]
pub struct Place<'a> {
    runner: &'a Runner,
    _head: OwnedMutexGuard<()>,
}

impl Runner {
    pub fn new(engine: Engine) -> Self {
        Self { engine, queues: Arc::default() }
    }

    /// Waits until it is this request's turn in its session; `None` where it is cancelled meanwhile.
    pub async fn line_up(
        &self,
        session: SessionId,
        cancel: &CancellationToken,
    ) -> Option<Place<'_>> {
        let queue = self.queue(session);
        tokio::select! {
            biased;
            () = cancel.cancelled() => None,
            head = queue.lock_owned() => Some(Place { runner: self, _head: head }),
        }
    }

    /// Runs a request once it is its turn.
    pub async fn run(
        &self,
        request: &TurnRequest,
        cancel: &CancellationToken,
        view: &mut (dyn FnMut(Progress<'_>) + Send),
    ) -> Result<Answer> {
        match self.line_up(request.options.session, cancel).await {
            Some(place) => place.run(request, cancel, view).await,
            None => Err(request.options.error(Trouble::Cancelled)),
        }
    }

    fn queue(&self, session: SessionId) -> Queue {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody waits in a queue that only this map refers to.
        queues.retain(|_, queue| Arc::strong_count(queue) > 1);
        Arc::clone(queues.entry(session).or_default())
    }
}

impl Place<'_> {
    /// Runs a request: here, or as it says by whoever has the conversation open.
    pub async fn run(
        &self,
        request: &TurnRequest,
        cancel: &CancellationToken,
        view: &mut (dyn FnMut(Progress<'_>) + Send),
    ) -> Result<Answer> {
        check_prompt(&request.prompt)?;
        let (engine, options) = (&self.runner.engine, &request.options);
        let cancelled = || Err(options.error(Trouble::Cancelled));
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
                    // Whoever had it is gone, and had not begun.
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
    /// Sends a request that nobody cancels.
    pub async fn send(
        &mut self,
        prompt: &str,
        view: &mut (dyn FnMut(&Update) + Send),
    ) -> Result<Answer> {
        self.say(prompt, &CancellationToken::new(), &mut updates(view)).await
    }

    /// Sends a request until `stop` resolves, to why it is to end: because it took too long, for instance. Then the
    /// turn is cancelled, and given some time to be written down.
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
                // The turn notes its own end, and is settled by the next who opens it where that takes too long.
                drop(tokio::time::timeout(PATIENCE, said).await);
                Err(stopped)
            }
        }
    }
}

/// Shows the updates of a turn, and nothing else.
fn updates(view: &mut (dyn FnMut(&Update) + Send)) -> impl FnMut(Progress<'_>) + Send {
    |progress| {
        if let Progress::Update(update) = progress {
            view(update);
        }
    }
}

impl Engine {
    /// Leaves the prompt to whoever has the conversation open, and takes it back when it is cancelled before they have
    /// begun. `None` where they are gone and had not begun.
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
                Err(if is_taken_back { options.error(Trouble::Cancelled) } else { Error::Taken })
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
                // Its answer was taken away, with a message that was purged.
                store::Asked::Gone if was_taken => return Err(Error::Interrupted),
                store::Asked::Gone => return Ok(None),
                store::Asked::Taken => was_taken = true,
                store::Asked::Waiting => (),
            }
            if checked.elapsed() >= CHECK_EVERY {
                checked = Instant::now();
                // Where nobody drives it any more, the next look shows whether they had begun.
                drop(self.store.drive(options.session, &options.conversation).await?);
            }
        }
    }
}
