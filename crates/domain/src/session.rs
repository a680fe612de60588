//! A session: what is true of it, the facts that made it so, and which moves it allows.
//!
//! A move is decided here and nowhere else; a fact is applied and cannot be refused. Messages and facts
//! together are the log: folding them gives this view again, counters included.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::conversation::{Conversation, TitleFrom};
pub use crate::fact::{Fact, FactRecord};
use crate::id::{Seq, SessionId};
use crate::message::{NewMessage, Role};
use crate::summary;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Active,
    Paused,
    Completed,
    Archived,
}

crate::named!(Status {
    Active = "active",
    Paused = "paused",
    Completed = "completed",
    Archived = "archived",
});

impl std::str::FromStr for Status {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|status| status.as_str() == text).ok_or_else(|| {
            format!("not a status: {text:?} (expected active, paused, completed or archived)")
        })
    }
}

/// Where a session stands, with what is only of weight there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Active,
    Paused,
    Completed,
    Archived {
        /// Where it stood before.
        from: Status,
    },
}

impl State {
    /// The state with this status, after another.
    pub const fn new(status: Status, before: Status) -> Self {
        match status {
            Status::Active => Self::Active,
            Status::Paused => Self::Paused,
            Status::Completed => Self::Completed,
            Status::Archived => Self::Archived { from: before },
        }
    }

    pub const fn status(self) -> Status {
        match self {
            Self::Active => Status::Active,
            Self::Paused => Status::Paused,
            Self::Completed => Status::Completed,
            Self::Archived { .. } => Status::Archived,
        }
    }
}

/// A change of status that somebody asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    Pause,
    Complete,
    Activate,
    /// Activate, even what was completed.
    Reopen,
    Archive,
    Unarchive,
}

/// Why a move, or a message, does not fit the state a session is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("session {0} is already {1}")]
    Already(SessionId, Status),
    #[error("session {0} is archived")]
    Archived(SessionId),
    #[error("session {0} is completed")]
    Completed(SessionId),
    #[error("session {0} is not archived")]
    NotArchived(SessionId),
    #[error("session {0} is deleted")]
    Deleted(SessionId),
    #[error("session {0} is not deleted")]
    NotDeleted(SessionId),
}

/// Where a session comes from, when it is a fork.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    pub session: SessionId,
    /// The last message that both share.
    pub seq: Seq,
}

/// The state of the project's repository when the session was last active.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repository {
    pub branch: Option<String>,
    pub head: String,
}

/// What a session is started with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beginning {
    pub user: String,
    pub project: String,
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_hash: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<Origin>,
    /// The session whose agent started this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<SessionId>,
}

impl Beginning {
    /// A chat of somebody in a project of which nothing else is known.
    pub fn new(user: impl Into<String>, project: impl Into<String>) -> Self {
        Self {
            user: user.into(),
            project: project.into(),
            kind: "chat".to_owned(),
            title: None,
            agent: None,
            model: None,
            command: None,
            prompt_hash: None,
            tools: Vec::new(),
            forked_from: None,
            parent: None,
        }
    }
}

/// Sums kept with every append, so that nobody has to add them up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    pub conversations: u32,
    pub tokens: u64,
    pub runs: u32,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost_nano: i64,
}

impl Counters {
    #[expect(clippy::cast_precision_loss, reason = "dollars are shown, not summed, as a float")]
    pub fn cost_usd(&self) -> f64 {
        self.cost_nano as f64 / 1e9
    }
}

/// Prices of the lines that a context begins with: `None` for what has changed since `retell` counted it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeadPrices {
    pub head: Option<u32>,
    pub title: Option<u32>,
    /// One for each line.
    pub summary: Option<Vec<u32>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    pub id: SessionId,
    pub user: String,
    pub project: String,
    pub kind: String,
    /// The agent that it was begun with, or the first that spoke in it.
    pub agent: Option<String>,
    /// The agent that answered last, where that was looked up: it is not kept with the session.
    pub answering: Option<String>,
    /// The agent whose own files it was imported from, where that was looked up as well.
    pub imported_from: Option<String>,
    pub model: Option<String>,
    pub command: Option<String>,
    pub prompt_hash: Option<String>,
    pub tools: Vec<String>,
    pub forked_from: Option<Origin>,
    /// The session whose agent started this one.
    pub parent: Option<SessionId>,
    pub title: Option<String>,
    pub title_from: TitleFrom,
    pub summary: Option<String>,
    pub state: State,
    pub started_at: Timestamp,
    pub last_active_at: Timestamp,
    pub deleted_at: Option<Timestamp>,
    pub repository: Option<Repository>,
    /// How many facts there are: who changes the session says which count they decided on.
    pub facts: u32,
    /// The number of the newest message, and so how many there are.
    pub last_seq: Seq,
    pub counters: Counters,
    /// The conversation of the newest message, and how often it changed.
    pub current: Option<u32>,
    pub turn: u32,
    pub prices: HeadPrices,
}

/// What an append did beside adding a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// The agent whose run began with this message.
    pub run_of: Option<String>,
    /// The title or the agent of the session changed.
    pub redescribed: bool,
}

impl Session {
    pub fn start(id: SessionId, beginning: Beginning, at: Timestamp) -> Self {
        let title_from =
            if beginning.title.is_some() { TitleFrom::Agent } else { TitleFrom::Nobody };
        Self {
            id,
            user: beginning.user,
            project: beginning.project,
            kind: beginning.kind,
            agent: beginning.agent,
            answering: None,
            imported_from: None,
            model: beginning.model,
            command: beginning.command,
            prompt_hash: beginning.prompt_hash,
            tools: beginning.tools,
            forked_from: beginning.forked_from,
            parent: beginning.parent,
            title: beginning.title,
            title_from,
            summary: None,
            state: State::Active,
            started_at: at,
            last_active_at: at,
            deleted_at: None,
            repository: None,
            facts: 1,
            last_seq: 0,
            counters: Counters::default(),
            current: None,
            turn: 0,
            prices: HeadPrices::default(),
        }
    }

    /// The agent that goes on with it where nobody names another: the one that answered last.
    pub fn speaker(&self) -> Option<&str> {
        self.answering.as_deref().or(self.agent.as_deref())
    }

    /// What it was started with: the first fact of its log.
    pub fn beginning(&self, title: Option<String>) -> Beginning {
        Beginning {
            user: self.user.clone(),
            project: self.project.clone(),
            kind: self.kind.clone(),
            title,
            agent: self.agent.clone(),
            model: self.model.clone(),
            command: self.command.clone(),
            prompt_hash: self.prompt_hash.clone(),
            tools: self.tools.clone(),
            forked_from: self.forked_from,
            parent: self.parent,
        }
    }

    pub const fn status(&self) -> Status {
        self.state.status()
    }

    /// The status that a move leads to, or why not.
    pub fn decide(&self, asked: Move) -> Result<Status, Refusal> {
        use State::{Active, Archived, Completed, Paused};
        if self.deleted_at.is_some() {
            return Err(Refusal::Deleted(self.id));
        }
        match (self.state, asked) {
            (Archived { from }, Move::Unarchive) => {
                Ok(if from == Status::Completed { from } else { Status::Paused })
            }
            (_, Move::Unarchive) => Err(Refusal::NotArchived(self.id)),
            (Archived { .. }, Move::Archive)
            | (Paused, Move::Pause)
            | (Completed, Move::Complete) => Err(Refusal::Already(self.id, self.status())),
            (Archived { .. }, _) => Err(Refusal::Archived(self.id)),
            (_, Move::Archive) => Ok(Status::Archived),
            (Completed, Move::Pause | Move::Activate) => Err(Refusal::Completed(self.id)),
            (Active, Move::Pause) => Ok(Status::Paused),
            (Active | Paused, Move::Complete) => Ok(Status::Completed),
            (Active | Paused, Move::Activate) | (_, Move::Reopen) => Ok(Status::Active),
        }
    }

    /// Whether messages may be added. To a paused session they may: it is active again then.
    pub fn accepts_messages(&self) -> Result<(), Refusal> {
        match self.status() {
            _ if self.deleted_at.is_some() => Err(Refusal::Deleted(self.id)),
            Status::Archived => Err(Refusal::Archived(self.id)),
            Status::Completed => Err(Refusal::Completed(self.id)),
            Status::Active | Status::Paused => Ok(()),
        }
    }

    pub fn can_resume(&self) -> Result<(), Refusal> {
        match self.status() {
            _ if self.deleted_at.is_some() => Err(Refusal::Deleted(self.id)),
            Status::Archived => Err(Refusal::Archived(self.id)),
            Status::Active | Status::Paused | Status::Completed => Ok(()),
        }
    }

    /// Takes in a fact that has happened. Cannot fail.
    pub fn apply(&mut self, fact: &Fact, at: Timestamp) {
        self.facts += 1;
        match fact {
            Fact::Moved { to } => {
                self.state = State::new(*to, self.status());
                if *to == Status::Active {
                    self.last_active_at = self.last_active_at.max(at);
                }
            }
            Fact::Titled { title, from } if *from >= self.title_from => {
                self.title = Some(title.clone());
                self.title_from = *from;
                self.prices.title = None;
            }
            Fact::Summarised { conversation: None, summary } => {
                self.prices.summary = None;
                self.summary = (!summary.text.is_empty()).then(|| summary.text.clone());
            }
            Fact::Repository(repository) => self.repository = Some(repository.clone()),
            Fact::Rehomed { project } => {
                self.project.clone_from(project);
                self.prices.head = None;
            }
            Fact::Commanded { command, prompt_hash } => {
                self.command = Some(command.clone());
                self.prompt_hash = Some(prompt_hash.clone());
            }
            Fact::Deleted => self.deleted_at = Some(at),
            Fact::Undeleted => self.deleted_at = None,
            Fact::Started(_)
            | Fact::Opened { .. }
            | Fact::Titled { .. }
            | Fact::Summarised { .. }
            | Fact::Attached(_)
            | Fact::Holds(_)
            | Fact::Forgot { .. }
            | Fact::Purged { .. }
            | Fact::Imported { .. }
            | Fact::Unknown(_) => (),
        }
    }

    /// Takes in the next message, which is said in `conversation`.
    pub fn hear(&mut self, message: &NewMessage, conversation: &mut Conversation) -> Heard {
        self.last_seq += 1;
        if self.last_seq == 1 {
            // What is recorded after the fact began when it was said.
            self.started_at = self.started_at.min(message.at);
            self.last_active_at = message.at;
        }
        self.last_active_at = self.last_active_at.max(message.at);
        if self.current != Some(conversation.n) {
            self.current = Some(conversation.n);
            self.turn += 1;
            conversation.turn = self.turn;
        }
        if conversation.messages == 0 {
            self.counters.conversations += 1;
        }
        let tokens = u64::from(message.price.tokens.unwrap_or(0));
        self.counters.tokens += tokens;
        if let Some(usage) = &message.extras.usage {
            self.counters.input_tokens =
                self.counters.input_tokens.saturating_add(usage.input_tokens);
            self.counters.output_tokens =
                self.counters.output_tokens.saturating_add(usage.output_tokens);
            self.counters.cost_nano = self.counters.cost_nano.saturating_add(usage.cost_nano());
        }
        let run_of = self.run_begun(message, conversation);
        self.counters.runs += u32::from(run_of.is_some());
        let named = self.agent.is_none() && run_of.is_some();
        if named {
            // The agent of a session is the first that speaks in it, unless it was started with one.
            self.agent.clone_from(&run_of);
            self.prices.head = None;
        }
        conversation.hear(message, self.last_seq, tokens);
        let titled = self.title_from == TitleFrom::Nobody && message.role == Role::User;
        if titled {
            // What is cut in the middle of a secret could not be recognised as one afterwards.
            self.title = summary::title(&message.masked());
            self.title_from =
                if self.title.is_some() { TitleFrom::Request } else { TitleFrom::Nobody };
            self.prices.title = None;
        }
        Heard { run_of, redescribed: titled || named }
    }

    /// A run is what one agent does from a request to the next one.
    fn run_begun(&self, message: &NewMessage, conversation: &mut Conversation) -> Option<String> {
        match message.role {
            Role::User => {
                conversation.running = None;
                None
            }
            Role::System => None,
            Role::Assistant | Role::Tool => {
                let agent = message.extras.agent.as_ref().or(self.agent.as_ref())?;
                if conversation.running.as_ref() == Some(agent) {
                    return None;
                }
                conversation.running = Some(agent.clone());
                conversation.running.clone()
            }
        }
    }
}

#[cfg(test)]
mod tests;
