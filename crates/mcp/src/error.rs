//! What is said to a client when something cannot be done: what is wrong, and what to do.

use rethread_domain::id::Invalid;
use rethread_domain::quote;
use rethread_domain::session::Refusal;
use rethread_engine::Error;
use rethread_engine::agents::Trouble;
use rethread_engine::program::Fault;
use rmcp::model::{CallToolResult, ContentBlock};

use crate::server::Office;

const LOOK_CLOSER: &str = "`rethread doctor` looks closer";

/// Why a tool did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}. {hint}")]
pub struct Failure {
    what: String,
    hint: String,
}

impl Failure {
    /// Both are sentences without their full stop.
    pub fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        let hint: String = hint.into();
        let mut letters = hint.chars();
        let first = letters.next().map(|first| first.to_uppercase().to_string());
        let hint = format!("{}{}", first.unwrap_or_default(), letters.as_str());
        Self { what: what.into(), hint }
    }

    /// A session that is not there, or not the caller's.
    pub(crate) fn no_session(given: &str) -> Self {
        let shown = quote::one_line(given, 80);
        Self::new(
            format!("There is no session {shown}"),
            "list_sessions shows those that there are",
        )
    }

    /// The same, said of one session.
    pub(crate) fn in_session(self, id: impl std::fmt::Display) -> Self {
        let what = format!("{} (sessionId {id})", self.what);
        Self { what, ..self }
    }

    /// The same, without what looks like a secret.
    pub(crate) fn clean(self, office: &Office) -> Self {
        Self { what: office.clean(&self.what), hint: office.clean(&self.hint) }
    }

    pub(crate) fn result(&self) -> CallToolResult {
        CallToolResult::error(vec![ContentBlock::text(self.to_string())])
    }
}

impl From<Invalid> for Failure {
    fn from(invalid: Invalid) -> Self {
        Error::from(invalid).into()
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Error::from(refusal).into()
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        if let Error::NotFound(given) = &error {
            return Self::no_session(given);
        }
        let hint = if error.code() == "internal" { logged(&error) } else { hint(&error) };
        let text = quote::safe(&error.to_string());
        let mut letters = text.chars();
        let first = letters.next().map(|first| first.to_uppercase().to_string());
        Self::new(format!("{}{}", first.unwrap_or_default(), letters.as_str()), hint)
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Engine(error) => error.into(),
            Fault::Refused { message, hint, .. } => {
                Self::new(message, hint.unwrap_or_else(|| LOOK_CLOSER.to_owned()))
            }
        }
    }
}

/// Notes a fault of ours with its causes, and says where.
fn logged(error: &Error) -> String {
    let id = uuid::Uuid::now_v7().simple().to_string();
    tracing::error!(error = error as &dyn std::error::Error, fault = id, "internal error");
    format!("`rethread logs {id}` shows the cause; {LOOK_CLOSER}")
}

fn hint(error: &Error) -> String {
    let text = match error {
        Error::NotFound(_) => "list_sessions shows those that there are",
        Error::Ambiguous { .. } => "give more of the id",
        Error::NoMessage(..) => "get_session shows the messages with their numbers",
        Error::Refused(refusal) => return by_refusal(*refusal),
        Error::Limit(_) => "limits begin at 1",
        Error::Invalid(Invalid::Session(_)) => {
            "give the id as it was returned; list_sessions shows the ids of sessions"
        }
        Error::Invalid(Invalid::Name { .. }) => "give one that has only what is allowed",
        Error::Entry(_) => "a message needs a role (user, assistant, system or tool) and a content",
        Error::IdTaken { .. } => "a new message needs an id of its own, or none",
        Error::Agent { trouble, .. } => by_trouble(trouble),
        Error::Unanswered { .. } => "try again later, or another agent",
        Error::Busy { .. } => "try again when it has ended",
        Error::NotResumable { .. } => {
            "the setting talk.policy = \"auto\" lets it be told the story so far"
        }
        Error::Interrupted => "what had been said is kept; continueSessionId goes on with it",
        Error::Elsewhere(_) => "the process that has the conversation open says more",
        Error::Taken => "it ends there; get_session shows what comes of it",
        Error::Plan(_) => "mend the plan's file first",
        Error::Settings(_) => "`rethread config show` shows what is set",
        Error::NoWorkflow(_) | Error::AmbiguousWorkflow { .. } => {
            "give the id as it was returned; workflow_status without an id shows that of this project"
        }
        Error::NoSnapshot { .. } => "workflow_status lists the snapshots of a workflow",
        Error::Workflow(_) => "workflow_status shows how it stands and what it waits for",
        Error::WorkflowBusy(_) => "workflow_status shows how it stands; pause_workflow stops it",
        Error::NoToken(_) => "`rethread token list` shows what there is",
        Error::KeyReused => "each request needs a key of its own",
        Error::Folder(_) => "`rethread doctor` looks through the folders of a workspace",
        Error::Store(_) if error.code() == "worktree_taken" => {
            "one workflow works in a folder at a time: wait until it is over (workflow_status), or give another worktree"
        }
        Error::Import { .. } | Error::Store(_) => LOOK_CLOSER,
    };
    text.to_owned()
}

fn by_refusal(refusal: Refusal) -> String {
    match refusal {
        Refusal::Archived(id) => format!("`rethread unarchive {}` brings it back", id.short()),
        Refusal::Completed(id) => format!(
            "fork_session starts a new one from it; a person can take it up again with `rethread activate --yes {}`",
            id.short()
        ),
        Refusal::Deleted(id) => format!("`rethread undelete {}` brings it back", id.short()),
        Refusal::Already(..) => "get_session shows how it stands".to_owned(),
        Refusal::NotArchived(_) | Refusal::NotDeleted(_) => {
            "list_sessions shows how it stands".to_owned()
        }
    }
}

fn by_trouble(trouble: &Trouble) -> &'static str {
    match trouble {
        Trouble::NotInstalled { .. } => {
            "list_agents says which are installed, and how to install others"
        }
        Trouble::CannotStart { .. } => "its command in `rethread config show` may be wrong",
        Trouble::FolderGone(_) => "bring the folder back; the session itself is kept",
        Trouble::TimedOut { .. } => {
            "what was said is kept; the settings under [talk] allow more time"
        }
        Trouble::WrongVersion(_) => "another version of the agent may speak version 1",
        Trouble::LineTooLong(_) => "the setting talk.max_line_bytes allows longer ones",
        Trouble::Silent(_) => {
            "what was said is kept; the setting talk.answer_seconds gives the agent more time"
        }
        Trouble::TurnTooLarge(_) => {
            "what was said so far is kept; the setting talk.max_turn_bytes allows more"
        }
        Trouble::NeedsLogin(_) => "a person has to start the agent by itself once and log in there",
        Trouble::Unsupported(_) => "choose one that it has, do without, or use another agent",
        Trouble::NotTaken { .. } => "do without, or use another agent",
        Trouble::SessionGone(_)
        | Trouble::Nonsense { .. }
        | Trouble::Refused { .. }
        | Trouble::Ended { .. }
        | Trouble::Cancelled => {
            "what was said is kept; invoke_agent with continueSessionId goes on, also with another agent and agentChange"
        }
    }
}
