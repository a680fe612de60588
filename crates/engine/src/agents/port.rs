//! What the engine needs of an agent, whatever wire it speaks. `acp` implements it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::channel::mpsc;
use jiff::Timestamp;
use rethread_domain::consent::Intent;
pub use rethread_domain::opening::Settings;
use rethread_domain::replay::Said;
use rethread_domain::turn::Update;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

/// Starts an agent.
#[async_trait]
pub trait Launcher: Send + Sync {
    /// Starts the process in `folder`, which has to be there, and agrees on what it can do.
    async fn launch(&self, folder: &Path, desk: Arc<dyn Desk>) -> Result<Box<dyn Agent>, Trouble>;
}

/// A running agent, with at most one native session open.
#[async_trait]
pub trait Agent: Send {
    fn abilities(&self) -> &Abilities;

    /// Opens a native session. What a load replays is not passed on, but told of in the answer.
    async fn open(&mut self, door: Door<'_>) -> Result<Opened, Trouble>;

    /// When a native session last changed, by the agent's own list of them; `None` where that cannot be known.
    async fn changed_at(&mut self, native: &str) -> Option<Timestamp>;

    /// Sets mode, model and options of the open native session.
    async fn set(&mut self, settings: &Settings) -> Result<(), Trouble>;

    /// Sends a prompt and passes on what comes of it, in order, until the turn ends. Waits while `updates` is full.
    /// `cancel` ends the turn whenever it is cancelled, before the agent has the prompt as well.
    async fn prompt(
        &mut self,
        blocks: Vec<Block>,
        updates: mpsc::Sender<Update>,
        cancel: CancellationToken,
    ) -> Result<Ended, Trouble>;

    /// Whether the process has ended or no longer speaks.
    fn is_gone(&self) -> bool;

    /// Ends the process and all that it started.
    async fn end(self: Box<Self>);
}

/// Where an agent's questions are answered.
#[async_trait]
pub trait Desk: Send + Sync {
    /// Gives the id of the chosen option with who chose it; `None` where the turn was cancelled.
    async fn permit(&self, question: &Question) -> Option<Choice>;

    /// Whether we may do something for the agent, where the rules alone say so.
    fn may(&self, act: &Act) -> Option<bool>;
}

/// What an agent has us do for it beside talking: as good as a tool of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Act {
    pub deed: Deed,
    /// What exactly: the command, or the file.
    pub intent: Intent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Deed {
    Read,
    Edit,
    Execute,
}

impl Deed {
    /// The kind of tool that does the same.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Edit => "edit",
            Self::Execute => "execute",
        }
    }
}

/// May a tool be used?
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    pub tool: String,
    /// What will be done.
    pub intent: Intent,
    /// Whether the intent is all of it: what nobody can read, nobody allows.
    pub is_whole: bool,
    /// Who asks, by name; empty until it is put to somebody.
    pub agent: String,
    /// Why no lasting answer is offered, though the agent would take one.
    pub unlasting: Option<&'static str>,
    pub options: Vec<Opt>,
}

/// One answer that an agent offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opt {
    pub id: String,
    pub name: String,
    /// `allow_once`, `allow_always`, `reject_once` or `reject_always`.
    pub kind: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The option that the agent is told.
    pub option: String,
    /// What was decided: the kind of an option.
    pub kind: String,
    /// `user`, `grant`, `policy`, or `nobody` where nobody could be asked.
    pub by: &'static str,
}

/// What an agent says it can do, corrected by what we know of it.
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that it can or cannot do")]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Abilities {
    /// What the agent calls itself.
    pub name: Option<String>,
    pub version: Option<String>,
    pub resume: bool,
    pub load: bool,
    pub list: bool,
    /// Takes a document as part of a prompt.
    pub embedded: bool,
    /// Whether it keeps a request that it had begun to answer when it was killed, where that is known.
    pub keeps_request: Option<bool>,
    /// Gives the id of a session that was deleted to another.
    pub reuses_ids: bool,
}

/// Which native session to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door<'a> {
    Resume(&'a str),
    Load(&'a str),
    New,
}

/// An open native session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Opened {
    pub native: String,
    /// What a load replayed.
    pub replayed: Replayed,
}

/// What an agent replayed while it loaded: enough to tell whether it is the right conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Replayed {
    /// How many updates there were.
    pub updates: u64,
    /// What was said, as far as it is kept: the first few messages and the newest.
    pub said: Vec<Said>,
}

/// A part of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    Text(String),
    /// What the agent is told beside the request.
    Document {
        uri: String,
        text: String,
    },
}

/// How a prompt ended, by the agent's own word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// `end_turn`, `max_tokens`, `max_turn_requests`, `refusal`, `cancelled`.
    pub stop: String,
}

/// What goes wrong with agents, sorted by what follows from it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    #[error("{program} is not installed, or not on the PATH")]
    NotInstalled { program: String },
    #[error("{program} cannot be started: {why}")]
    CannotStart { program: String, why: String },
    #[error("the project folder {} is gone", .0.display())]
    FolderGone(PathBuf),
    #[error("the agent ended ({status}){}", said(.stderr))]
    Ended { status: String, stderr: String },
    #[error("the agent did not answer {what} within {} seconds", .after.as_secs())]
    TimedOut { what: String, after: Duration },
    #[error("the agent said nothing for {} second{}", .0.as_secs(), plural(*.0))]
    Silent(Duration),
    #[error("the agent said more than {0} bytes in one turn")]
    TurnTooLarge(u64),
    #[error("the agent speaks version {0} of the protocol; this program speaks version 1")]
    WrongVersion(String),
    #[error("the agent sent a line of more than {0} bytes")]
    LineTooLong(u64),
    #[error("the agent's answer to {what} cannot be understood: {why}")]
    Nonsense { what: String, why: String },
    /// The native session that was asked for is not there.
    #[error("the agent does not know its session any more: {0}")]
    SessionGone(String),
    #[error("the agent wants a login first: {0}")]
    NeedsLogin(String),
    #[error("the agent has no {0}")]
    Unsupported(String),
    #[error("the agent was told to use {what}, but says that it uses {now}")]
    NotTaken { what: String, now: String },
    /// A usage limit of the model is reached.
    #[error("{message}")]
    LimitReached { message: String, lifted: Option<Lifted> },
    #[error("cancelled")]
    Cancelled,
    #[error("the agent refused {what}: {message} ({code})")]
    Refused { what: String, code: i64, message: String },
}

/// When a usage limit is lifted, where an agent says so beside its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifted {
    At(Timestamp),
    After(Duration),
}

fn plural(time: Duration) -> &'static str {
    if time.as_secs() == 1 { "" } else { "s" }
}

fn said(stderr: &str) -> String {
    if stderr.is_empty() { String::new() } else { format!("; its last words: {stderr}") }
}

impl Trouble {
    /// A short name, by which outcomes are counted.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::NotInstalled { .. } => "not_installed",
            Self::CannotStart { .. } => "cannot_start",
            Self::FolderGone(_) => "folder_gone",
            Self::Ended { .. } => "agent_ended",
            Self::TimedOut { .. } => "timed_out",
            Self::Silent(_) => "silent",
            Self::TurnTooLarge(_) => "turn_too_large",
            Self::WrongVersion(_) => "wrong_version",
            Self::LineTooLong(_) => "line_too_long",
            Self::Nonsense { .. } => "nonsense",
            Self::SessionGone(_) => "session_gone",
            Self::NeedsLogin(_) => "needs_login",
            Self::Unsupported(_) => "unsupported",
            Self::NotTaken { .. } => "not_taken",
            Self::LimitReached { .. } => super::outcome::USAGE_LIMIT,
            Self::Cancelled => "cancelled",
            Self::Refused { .. } => "refused",
        }
    }

    /// Whether the process is of no use any more.
    pub const fn is_fatal(&self) -> bool {
        matches!(
            self,
            Self::NotInstalled { .. }
                | Self::CannotStart { .. }
                | Self::FolderGone(_)
                | Self::Ended { .. }
                | Self::TimedOut { .. }
                | Self::Silent(_)
                | Self::WrongVersion(_)
                | Self::LineTooLong(_)
        )
    }
}
