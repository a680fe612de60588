//! `rethread run`

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use rethread_domain::Session;
use rethread_domain::session::Beginning;
use rethread_engine::agents::{TurnRequest, WhenBusy};

use super::{leave, project, refuse_excluded};
use crate::agents::How;
use crate::chat::{self, Left, Person};
use crate::cli::App;

/// Talk to an agent in a new session
///
/// With a PROMPT it runs one turn and prints the answer; without, it is a conversation in the terminal. Everything is
/// recorded as it streams: `rethread resume` and `rethread continue` take it up again, in this agent or another.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The agent: one of `rethread agents`
    agent: String,
    /// What to ask; without it, a conversation
    prompt: Option<String>,
    #[command(flatten)]
    how: How,
    /// The folder that the agent works in [default: the current one]
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
    /// What kind of session it is; in a workspace, its prompt comes with it [default: chat]
    #[arg(long)]
    kind: Option<String>,
    /// What it is about: its title, and in a workspace the name of its folder
    #[arg(long, conflicts_with = "title")]
    topic: Option<String>,
    /// A title, instead of one from the first request
    #[arg(long)]
    title: Option<String>,
    /// Whom the session belongs to [default: you]
    #[arg(long)]
    user: Option<String>,
}

impl Args {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        // An agent that is not there leaves no session behind.
        app.agent(&self.agent)?;
        let session = self.start(app).await?;
        let person = Arc::new(Person::new(app.json));
        let outcome = self.talk(app, &session, person).await;
        // Nothing was said: nothing stays.
        app.engine.erase_if_empty(session.id).await?;
        let left = outcome?;
        if left == Left::Resume {
            return super::resume::pick(app).await;
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn talk(
        &self,
        app: &App,
        session: &Session,
        person: Arc<Person>,
    ) -> anyhow::Result<Left> {
        let options = app.options(session, &self.agent, &self.how, person.clone()).await?;
        if let Some(prompt) = &self.prompt {
            let (prompt, when_busy) = (prompt.clone(), WhenBusy::Delegate);
            chat::once(app, &TurnRequest { options, prompt, when_busy }).await?;
            return Ok(Left::Stopped);
        }
        let over = chat::talk(app, options, &person, &self.how).await?;
        leave(app, over.session, over.left).await?;
        Ok(over.left)
    }

    async fn start(&self, app: &App) -> anyhow::Result<Session> {
        let folder = project(self.project.as_deref())?;
        refuse_excluded(app, &folder)?;
        // In a workspace a kind has a prompt; elsewhere it is a word to filter by.
        let kind = match &self.kind {
            Some(name) if app.engine.workspace().is_some() => Some(app.kind(name)?),
            _ => None,
        };
        let beginning = Beginning {
            kind: self.kind.clone().unwrap_or_else(|| "chat".to_owned()),
            title: self.title.clone().or_else(|| self.topic.clone()),
            agent: Some(self.agent.clone()),
            model: self.how.model.clone(),
            command: kind.as_ref().map(|kind| kind.command.clone()),
            prompt_hash: kind.map(|kind| kind.hash),
            tools: app.config.tools().keys().cloned().collect(),
            ..Beginning::new(
                app.config.user(self.user.as_deref())?,
                folder.to_string_lossy().into_owned(),
            )
        };
        let title = beginning.title.clone();
        let session = app.engine.start(beginning).await?;
        Ok(app.engine.keep_title(session, title.as_deref()).await?)
    }
}
