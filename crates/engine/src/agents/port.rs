//! The port to agents, independent of the protocol. `acp` implements it.

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
    /// Starts the process in `folder`, which must exist, and negotiates its capabilities.
    async fn launch(
        &self,
        folder: &Path,
        permissions: Arc<dyn PermissionHandler>,
    ) -> Result<Box<dyn Agent>, AgentError>;
}

/// A running agent, with at most one native session open.
#[async_trait]
pub trait Agent: Send {
    fn abilities(&self) -> &Abilities;

    /// Opens a native session. A replay is not passed on; the result describes it.
    async fn open(&mut self, door: OpenRequest<'_>) -> Result<Opened, AgentError>;

    /// When a native session last changed, by the agent's own list; `None` if that is unknown.
    async fn changed_at(&mut self, native: &str) -> Option<Timestamp>;

    /// Sets mode, model and options of the open native session.
    async fn set(&mut self, settings: &Settings) -> Result<(), AgentError>;

    /// The mode and the options that the agent has reported by itself since they were last set, once it has become quiet.
    async fn reported(&mut self) -> Settings;

    /// What there is to choose from, as far as the agent has said.
    fn offered(&self) -> Offered {
        Offered::default()
    }

    /// Sends a prompt and passes on the updates in order until the turn ends. While `updates` is full, the agent waits
    /// (backpressure). `cancel` ends the turn at any time, even before the agent has the prompt.
    async fn prompt(
        &mut self,
        blocks: Vec<Block>,
        updates: mpsc::Sender<Update>,
        cancel: CancellationToken,
    ) -> Result<Ended, AgentError>;

    /// Whether the process has ended or no longer speaks.
    fn is_gone(&self) -> bool;

    /// Ends the process and all that it started.
    async fn end(self: Box<Self>);
}

/// Answers an agent's permission questions.
#[async_trait]
pub trait PermissionHandler: Send + Sync {
    /// Returns the chosen option and who chose it; `None` if the turn was cancelled.
    async fn permit(&self, question: &Question) -> Option<Choice>;

    /// Whether the rules alone allow or forbid an action of ours on behalf of the agent.
    fn may(&self, act: &Action) -> Option<bool>;
}

/// An action that an agent has us carry out: equivalent to a tool of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    pub kind: ActionKind,
    /// The command, or the file.
    pub intent: Intent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ActionKind {
    Read,
    Edit,
    Execute,
}

impl ActionKind {
    /// The kind of tool that does the same.
    pub const fn tool_kind(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Edit => "edit",
            Self::Execute => "execute",
        }
    }
}

/// A permission question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    pub tool: String,
    /// What will be done.
    pub intent: Intent,
    /// Whether the intent describes all of it: what cannot be read cannot be allowed.
    pub is_whole: bool,
    /// The name of the agent; empty until a person is asked.
    pub agent: String,
    /// Why no lasting answer is offered although the agent offers one.
    pub unlasting: Option<&'static str>,
    pub options: Vec<PermissionOption>,
}

/// An answer that an agent offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionOption {
    pub id: String,
    pub name: String,
    /// `allow_once`, `allow_always`, `reject_once` or `reject_always`.
    pub kind: String,
}

impl PermissionOption {
    /// Whether it allows; `None` for a kind that the protocol does not have, of which only the agent knows what it means.
    pub fn allows(&self) -> Option<bool> {
        allows(&self.kind)
    }
}

fn allows(kind: &str) -> Option<bool> {
    match kind {
        "allow_once" | "allow_always" => Some(true),
        "reject_once" | "reject_always" => Some(false),
        _ => None,
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The option that the agent gets.
    pub option: String,
    /// The decision: the kind of an option.
    pub kind: String,
    /// `user`, `grant`, `policy`, or `nobody` if nobody could be asked; `guarded` if that was about a file that needs an
    /// answer of its own.
    pub by: &'static str,
}

impl Choice {
    pub fn allows(&self) -> bool {
        allows(&self.kind) == Some(true)
    }
}

/// The capabilities of an agent, corrected by what is known about it.
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that it can or cannot do")]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Abilities {
    /// The agent's own name.
    pub name: Option<String>,
    pub version: Option<String>,
    pub resume: bool,
    pub load: bool,
    pub list: bool,
    /// Accepts embedded documents in a prompt.
    pub embedded: bool,
    /// Whether it keeps a request that it was answering when it was killed, if known.
    pub keeps_request: Option<bool>,
    /// Reuses the ids of deleted sessions.
    pub reuses_ids: bool,
}

/// What an agent offers in its open session, and what of it is in use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Offered {
    pub modes: Vec<Named>,
    pub mode: Option<String>,
    pub models: Vec<Named>,
    pub model: Option<String>,
    /// Its own commands: the name, without a slash, and what it does.
    pub commands: Vec<Named>,
}

/// Something by its id, with a name for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    pub id: String,
    pub name: String,
}

/// Which native session to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenRequest<'a> {
    Resume(&'a str),
    Load(&'a str),
    New,
}

/// An open native session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Opened {
    pub native: String,
    /// What was replayed while loading.
    pub replayed: Replayed,
}

/// A summary of a replay: enough to tell whether it is the right conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Replayed {
    /// The number of updates.
    pub updates: u64,
    /// The first few messages and the newest.
    pub said: Vec<Said>,
}

/// A part of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    Text(String),
    /// Context that accompanies the request.
    Document {
        uri: String,
        text: String,
    },
}

/// How a prompt ended, as the agent reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// `end_turn`, `max_tokens`, `max_turn_requests`, `refusal`, `cancelled`.
    pub stop: String,
}

/// Errors of agents, by what follows from them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentError {
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
    /// The requested native session does not exist.
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
    /// The model behind the agent failed.
    #[error("the model failed: {0}")]
    ModelFailed(String),
    #[error("cancelled")]
    Cancelled,
    #[error("the agent refused {what}: {message} ({code})")]
    Refused { what: String, code: i64, message: String },
}

/// When a usage limit ends, if the agent says so.
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

impl AgentError {
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
            Self::ModelFailed(_) => super::outcome::MODEL_ERROR,
            Self::Cancelled => "cancelled",
            Self::Refused { .. } => "refused",
        }
    }

    /// Whether the process is unusable afterwards.
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
