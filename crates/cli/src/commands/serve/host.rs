//! This program as its server sees it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use rethread_domain::Session;
use rethread_domain::workflow::{Command, Workflow, WorkflowId};
use rethread_engine::Error;
use rethread_engine::agents::{Asker, OpenOptions, Trouble};
use rethread_server::{AgentInfo, Choice, Fault, Order, Program, Resumed};

use crate::agents::How;
use crate::cli::App;
use crate::commands::{project, refuse_excluded, workflow};
use crate::{error, output};

/// How often a workspace is looked through, at most.
const GATHER_EVERY: Duration = Duration::from_secs(1);

pub(super) struct Host {
    app: App,
    /// When the workspace was last looked through.
    gathered: Mutex<Option<Instant>>,
}

impl Host {
    pub(super) const fn new(app: App) -> Self {
        Self { app, gathered: Mutex::new(None) }
    }

    /// Whether it is time to look through the workspace again.
    fn is_due(&self) -> bool {
        let mut gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = gathered.is_none_or(|last| last.elapsed() >= GATHER_EVERY);
        if is_due {
            *gathered = Some(Instant::now());
        }
        is_due
    }
}

/// What went wrong, as the server tells it.
fn told(failure: anyhow::Error) -> Fault {
    match failure.downcast::<Error>() {
        Ok(error) => Fault::Engine(error),
        Err(failure) => {
            let (code, hint) = error::code_and_hint(&failure);
            Fault::Refused { code, message: format!("{failure:#}"), hint }
        }
    }
}

#[async_trait]
impl Program for Host {
    fn agents(&self) -> Result<Vec<AgentInfo>, Fault> {
        let entries = self.app.config.agents().map_err(told)?;
        let agents = entries.into_values().map(|entry| {
            let (name, install) = (entry.name.clone(), entry.install.clone());
            let launcher = self.app.launcher(entry).map_err(told)?;
            let is_installed = !matches!(launcher.program(), Err(Trouble::NotInstalled { .. }));
            Ok(AgentInfo { name, is_installed, install })
        });
        agents.collect()
    }

    fn project(&self, folder: &str) -> Result<PathBuf, Fault> {
        let folder = project(Some(Path::new(folder))).map_err(told)?;
        refuse_excluded(&self.app, &folder).map_err(told)?;
        Ok(folder)
    }

    async fn options(
        &self,
        session: &Session,
        choice: &Choice,
        asker: Arc<dyn Asker>,
    ) -> Result<OpenOptions, Fault> {
        let how = How::for_server(choice.model.clone(), choice.conversation.clone());
        let conversation =
            self.app.conversation(session, how.conversation()).await.map_err(told)?;
        let agent = self.app.agent_of(session, &conversation, choice.agent.as_deref());
        let agent = agent.await.map_err(told)?;
        self.app.options(session, &agent, &how, asker).await.map_err(told)
    }

    async fn gather(&self) {
        if self.is_due()
            && let Err(failure) = self.app.gather().await
        {
            output::note(format_args!("note: {failure:#}"));
        }
    }

    async fn start_workflow(&self, order: Order) -> Result<Workflow, Fault> {
        let issue = order.issue.as_deref().map(workflow::issue_of).transpose().map_err(told)?;
        let ordered = workflow::Order {
            id: order.id,
            user: Some(order.user),
            worktree: project(Some(&order.worktree)).map_err(told)?,
            plan: order.plan,
            issue,
            agent: order.agent,
            jobs: order.jobs,
            pause_after: order.pause_after,
            max_minutes: order.max_minutes.map(f64::from),
            max_tokens: order.max_tokens,
            max_cost: order.max_cost_usd,
            permissions: None,
            commands: workflow::Approval::Later,
        };
        let workflow = ordered.begin(&self.app).await.map_err(told)?;
        let begin = ["--start".to_owned()];
        workflow::in_background(&self.app, workflow.id, &begin).await.map_err(told)
    }

    async fn pause_workflow(
        &self,
        id: WorkflowId,
        reason: String,
        now: bool,
        wait: Duration,
    ) -> Result<Workflow, Fault> {
        workflow::pause(&self.app, id, reason, now, wait, || ()).await.map_err(told)
    }

    async fn resume_workflow(
        &self,
        id: WorkflowId,
        from: Option<&str>,
        with: Option<String>,
    ) -> Result<Resumed, Fault> {
        let resumption = workflow::resumption(&self.app, id, from, with).await.map_err(told)?;
        let words = resumption.words();
        let workflow = workflow::in_background(&self.app, id, &words).await.map_err(told)?;
        Ok(Resumed { workflow, snapshot: resumption.snapshot, diverged: resumption.diverged })
    }

    async fn tell_workflow(&self, read: &Workflow, command: Command) -> Result<Workflow, Fault> {
        workflow::tell(&self.app, read, command).await.map_err(told)
    }
}
