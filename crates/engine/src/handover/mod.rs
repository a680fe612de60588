//! Going on with a conversation in an agent's own program: in the native session that the agent has, in one that is written for
//! it, or in a new one that is told the story so far.
//!
//! Nothing of the agent's is changed: a session that is damaged, or lacks what was said elsewhere, is left as it is, and a sound
//! copy is written beside it under a new id.

mod copy;
mod look;

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use rethread_domain::SessionId;
use rethread_domain::context::Limits;
use rethread_domain::native::{Problem, Way, way};
use rethread_import::{Found, write};
use serde::Serialize;

use crate::agents::AgentError;
use crate::imports::ImportOptions;
use crate::{ContextOptions, Engine, Error, Result};

/// An agent's own program, as far as handing over needs it.
#[async_trait]
pub trait NativeAgent: Send + Sync {
    /// Has the agent import a file, and returns what it printed.
    async fn import(&self, file: &Path, folder: &Path) -> std::result::Result<String, AgentError>;

    /// What the agent prints as the list of its sessions in a folder; `None` if it has no such list.
    async fn list(&self, folder: &Path) -> Option<std::result::Result<String, AgentError>>;
}

/// Which conversation goes on in which agent.
#[derive(Debug, Clone)]
pub struct HandoverRequest {
    pub session: SessionId,
    pub conversation: String,
    /// The name of the agent's entry in the settings.
    pub agent: String,
    /// Where agents keep their sessions, whose new messages are, and how long they may be.
    pub imports: ImportOptions,
    /// The budget of a history that is told in the first prompt.
    pub limits: Limits,
    /// The share of the token budget that is kept in reserve.
    pub margin: f64,
    /// Where files are put that an agent has to import.
    pub aside: PathBuf,
}

/// How an agent's own session stands.
#[derive(Debug, Clone, Serialize)]
pub struct NativeState {
    pub agent: String,
    /// The id of the native session, if there is one.
    pub native: Option<String>,
    /// The file or database that it is in, if that can be read.
    pub path: Option<PathBuf>,
    pub problems: Vec<Problem>,
    /// What a native resume does.
    pub way: Way,
    #[serde(skip)]
    found: Option<Found>,
}

/// What the agent's own program is to be started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// With this native session.
    Resume(String),
    /// With this first prompt.
    Tell(String),
}

/// A conversation that is ready to go on in an agent's own program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandedOver {
    pub start: Start,
    /// The file that was written for it.
    pub written: Option<PathBuf>,
    /// What the user should know: why it is not simply resumed, and what is left out.
    pub notes: Vec<String>,
}

impl Engine {
    /// How the agent's own session of a conversation stands, and what a native resume would do.
    pub async fn native_state(
        &self,
        request: &HandoverRequest,
        agent: Option<&dyn NativeAgent>,
    ) -> Result<NativeState> {
        let session = self.session(request.session).await?;
        let (watermark, mut problems) = self.missing_natively(request).await?;
        let native = watermark.map(|watermark| watermark.native);
        let mut found = None;
        if let Some(native) = &native {
            found = look::locate(&request.agent, native, &request.imports.roots);
            problems.extend(look::problems(
                &request.agent,
                native,
                found.as_ref(),
                &session.project,
                &request.imports.roots,
            ));
            if found.is_some()
                && let Some(agent) = agent
                && let Some(Ok(listed)) = agent.list(Path::new(&session.project)).await
                && !listed.contains(native.as_str())
            {
                problems.push(Problem::NotListed { native: native.clone() });
            }
        }
        let is_writable = write::way(&request.agent).is_some();
        Ok(NativeState {
            agent: request.agent.clone(),
            native,
            path: found.as_ref().map(|found| found.path.clone()),
            way: way(&problems, is_writable),
            problems,
            found,
        })
    }

    /// Makes a conversation ready to go on in the agent's own program. What was said there meanwhile is imported first.
    pub async fn hand_over(
        &self,
        request: &HandoverRequest,
        agent: &dyn NativeAgent,
    ) -> Result<HandedOver> {
        let (id, conversation) = (request.session, request.conversation.clone());
        let Some(_drive) = self.store.drive(id, &conversation).await? else {
            return Err(Error::Busy { session: id, conversation });
        };
        self.import_for(id, &request.imports).await?;
        let session = self.session(request.session).await?;
        let state = self.native_state(request, None).await?;
        let mut notes: Vec<String> = state
            .problems
            .iter()
            .filter(|problem| !matches!(problem, Problem::NeverHeld))
            .map(|problem| problem.describe(&request.agent))
            .collect();
        match state.way {
            Way::Resume => {
                if let Some(found) = &state.found {
                    self.mark_place(request, &session, found).await?;
                }
                let native = state.native.unwrap_or_default();
                Ok(HandedOver { start: Start::Resume(native), written: None, notes })
            }
            Way::Write => match self.write_native(request, &session, agent, &mut notes).await {
                Ok((native, path)) => {
                    Ok(HandedOver { start: Start::Resume(native), written: Some(path), notes })
                }
                // An agent of another version may refuse the file: the story is told instead.
                Err(Error::NotWritten { why, .. }) => {
                    notes.push(why);
                    self.told(request, notes).await
                }
                Err(error) => Err(error),
            },
            Way::Tell => self.told(request, notes).await,
        }
    }

    async fn told(&self, request: &HandoverRequest, mut notes: Vec<String>) -> Result<HandedOver> {
        let options = ContextOptions {
            limits: request.limits,
            margin: request.margin,
            ..ContextOptions::default()
        };
        let context = self.context(request.session, &options).await?;
        notes.push(format!(
            "{} is told the story so far as its first prompt ({} tokens)",
            request.agent, context.token_count
        ));
        Ok(HandedOver { start: Start::Tell(context.context), written: None, notes })
    }
}
