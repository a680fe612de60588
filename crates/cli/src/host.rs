//! This program as its doors see it: the server of agents, and that of people and programs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use rethread_domain::Session;
use rethread_domain::workflow::{Command, Workflow, WorkflowId};
use rethread_engine::Error;
use rethread_engine::agents::{Nobody, OpenOptions, Trouble};
use rethread_engine::program::{AgentInfo, Choice, Fault, Order, Program, Resumed};

use crate::agents::How;
use crate::cli::App;
use crate::commands::{project, refuse_excluded, workflow};
use crate::{error, output};

pub(crate) struct Host {
    app: App,
    user: String,
    /// How often the workspace is looked through, at most.
    pace: Duration,
    /// When it was last looked through.
    gathered: Mutex<Option<Instant>>,
    /// What was said of folders: once is enough.
    said: Mutex<BTreeSet<String>>,
}

impl Host {
    pub(crate) fn new(app: App, pace: Duration) -> anyhow::Result<Self> {
        let user = app.config.user(None)?;
        Ok(Self { app, user, pace, gathered: Mutex::default(), said: Mutex::default() })
    }

    /// Whether it is time to look through the workspace again.
    fn is_due(&self) -> bool {
        let mut gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = gathered.is_none_or(|last| last.elapsed() >= self.pace);
        if is_due {
            *gathered = Some(Instant::now());
        }
        is_due
    }

    fn listed(&self) -> anyhow::Result<Vec<AgentInfo>> {
        let agents = self.app.config.agents()?.into_values().map(|entry| {
            let (name, install) = (entry.name.clone(), entry.install.clone());
            let unrestrictable = entry.unrestrictable().map(str::to_owned);
            let program = self.app.launcher(entry)?.program();
            let is_installed = !matches!(program, Err(Trouble::NotInstalled { .. }));
            Ok(AgentInfo { name, is_installed, install, unrestrictable })
        });
        agents.collect()
    }

    async fn opening(
        &self,
        session: &Session,
        choice: &Choice,
    ) -> anyhow::Result<(OpenOptions, bool)> {
        let how = How::for_door(choice.model.clone(), choice.conversation.clone());
        let agent = self.app.agent_of(session, &how, choice.agent.as_deref()).await?;
        let mut entry = self.app.agent(&agent)?;
        let is_told = entry.restrict_tools(&choice.allowed, &choice.disallowed);
        let mut options = self.app.options_of(session, entry, &how, Arc::new(Nobody)).await?;
        if !choice.allowed.is_empty() {
            options.rules.allowed.clone_from(&choice.allowed);
            options.rules.only_allowed = true;
        }
        options.rules.disallowed.extend(choice.disallowed.iter().cloned());
        Ok((options, is_told))
    }

    async fn begin(&self, order: Order) -> anyhow::Result<Workflow> {
        let worktree = project(Some(&order.worktree))?;
        let start = workflow::Start {
            order: Order { worktree, ..order },
            permissions: None,
            commands: workflow::Approval::Later,
        };
        let workflow = start.begin(&self.app).await?;
        workflow::in_background(&self.app, workflow.id, &["--start".to_owned()]).await
    }

    async fn go_on(
        &self,
        id: WorkflowId,
        from: Option<&str>,
        with: Option<String>,
    ) -> anyhow::Result<Resumed> {
        let resumption = workflow::resumption(&self.app, id, from, with).await?;
        let workflow = workflow::in_background(&self.app, id, &resumption.words()).await?;
        Ok(Resumed { workflow, snapshot: resumption.snapshot, diverged: resumption.diverged })
    }
}

/// What went wrong, as the doors tell it.
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
        self.listed().map_err(told)
    }

    fn default_agent(&self) -> Option<&str> {
        self.app.config.workflow.agent()
    }

    fn project(&self, folder: &str) -> Result<PathBuf, Fault> {
        project(Some(Path::new(folder))).map_err(told)
    }

    fn may_record(&self, project: &Path) -> Result<(), Fault> {
        refuse_excluded(&self.app, project).map_err(told)
    }

    async fn options(
        &self,
        session: &Session,
        choice: &Choice,
    ) -> Result<(OpenOptions, bool), Fault> {
        self.opening(session, choice).await.map_err(told)
    }

    async fn gather(&self) {
        if !self.is_due() {
            return;
        }
        let engine = &self.app.engine;
        let mut troubles = match engine.gather(&self.user).await {
            Ok(followed) => followed.troubles,
            Err(error) => vec![error.to_string()],
        };
        troubles.extend(engine.take_notes().troubles);
        for trouble in troubles {
            let trouble = engine.redactor().redact(&trouble).text.into_owned();
            let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
            if said.insert(trouble.clone()) {
                output::note(format_args!("note: {}", output::shown(&trouble, false)));
            }
        }
    }

    async fn start_workflow(&self, order: Order) -> Result<Workflow, Fault> {
        self.begin(order).await.map_err(told)
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
        self.go_on(id, from, with).await.map_err(told)
    }

    async fn tell_workflow(&self, read: &Workflow, command: Command) -> Result<Workflow, Fault> {
        workflow::tell(&self.app, read, command).await.map_err(told)
    }
}
