//! This program as its MCP server sees it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use rethread_domain::Session;
use rethread_domain::workflow::{Workflow, WorkflowId};
use rethread_engine::Error;
use rethread_engine::agents::{Nobody, OpenOptions, Trouble};
use rethread_mcp::{AgentInfo, Asked, Failure, Host, Kind, Order, Resumed};

use crate::agents::How;
use crate::cli::App;
use crate::commands::{project, refuse_excluded, workflow};
use crate::{error, output};

pub(super) struct Program {
    app: App,
    user: String,
    /// What was said of folders: once is enough.
    said: Mutex<BTreeSet<String>>,
}

impl Program {
    pub(super) fn new(app: App, user: &str) -> Self {
        Self { app, user: user.to_owned(), said: Mutex::default() }
    }
}

impl Program {
    /// What is asked for, without what only a person may say. Mistakes that are told otherwise here come first.
    fn ordered(&self, order: Order) -> Result<workflow::Order, Failure> {
        if order.agent.is_none() && self.app.config.workflow.agent.is_empty() {
            return Err(Failure::new(
                "It is not said which agent is to work",
                "give agentName; list_agents shows them",
            ));
        }
        let unwritten = order.worktree.join("PLAN.md");
        if order.plan.is_none() && unwritten.exists() {
            return Err(Failure::new(
                format!("{} is there already", unwritten.display()),
                "give it as plan, or have it moved away",
            ));
        }
        let issue = order.issue.as_deref().map(workflow::issue_of).transpose().map_err(told)?;
        Ok(workflow::Order {
            id: None,
            user: None,
            worktree: order.worktree,
            plan: order.plan,
            issue,
            agent: order.agent,
            jobs: order.jobs,
            pause_after: order.pause_after,
            max_minutes: order
                .max_minutes
                .map(|most| f64::from(u32::try_from(most).unwrap_or(u32::MAX))),
            max_tokens: order.max_tokens,
            max_cost: order.max_cost,
            permissions: None,
            commands: workflow::Approval::Later,
        })
    }
}

/// What went wrong, as the client is told.
fn told(failure: anyhow::Error) -> Failure {
    match failure.downcast::<Error>() {
        Ok(Error::Store(taken @ rethread_store::Error::WorktreeTaken { .. })) => Failure::new(
            taken.to_string(),
            "one workflow works in a folder at a time: wait until it is over (workflow_status), or give another worktree",
        ),
        Ok(error) => error.into(),
        Err(failure) => {
            let hint = error::hint(&failure);
            Failure::new(
                format!("{failure:#}"),
                hint.unwrap_or_else(|| "`rethread doctor` looks closer".into()),
            )
        }
    }
}

#[async_trait]
impl Host for Program {
    fn agents(&self) -> Result<Vec<AgentInfo>, Failure> {
        let entries = self.app.config.agents().map_err(told)?;
        let agents = entries.into_values().map(|entry| {
            let (name, install) = (entry.name.clone(), entry.install.clone());
            let unrestrictable = entry.unrestrictable().map(str::to_owned);
            let launcher = self.app.launcher(entry).map_err(told)?;
            let is_installed = !matches!(launcher.program(), Err(Trouble::NotInstalled { .. }));
            Ok(AgentInfo { name, is_installed, install, unrestrictable })
        });
        agents.collect()
    }

    fn project(&self, folder: &str) -> Result<PathBuf, Failure> {
        project(Some(Path::new(folder))).map_err(|failure| {
            Failure::new(
                format!("{failure:#}"),
                "give the path of a folder that is there, or leave it away",
            )
        })
    }

    fn may_record(&self, project: &Path) -> Result<(), Failure> {
        refuse_excluded(&self.app, project).map_err(told)
    }

    async fn agent_of(&self, session: &Session) -> Result<Option<String>, Failure> {
        let conversation = self.app.conversation(session, None).await.map_err(told)?;
        // A session that nobody has spoken in has no agent to be changed.
        Ok(self.app.agent_of(session, &conversation, None).await.ok())
    }

    async fn options(
        &self,
        session: &Session,
        asked: &Asked,
    ) -> Result<(OpenOptions, bool), Failure> {
        let mut entry = self.app.agent(&asked.agent).map_err(told)?;
        let is_native = entry.restrict_tools(&asked.allowed, &asked.disallowed);
        let how = How::default();
        let options = self.app.options_of(session, entry, &how, Arc::new(Nobody)).await;
        let mut options = options.map_err(told)?;
        if !asked.allowed.is_empty() {
            options.rules.allowed.clone_from(&asked.allowed);
            options.rules.only_allowed = true;
        }
        options.rules.disallowed.extend(asked.disallowed.iter().cloned());
        Ok((options, is_native))
    }

    async fn gather(&self) {
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

    async fn start_workflow(&self, order: Order) -> Result<Workflow, Failure> {
        let order = self.ordered(order)?;
        let workflow = order.begin(&self.app).await.map_err(told)?;
        let begin = ["--start".to_owned()];
        workflow::in_background(&self.app, workflow.id, &begin).await.map_err(told)
    }

    async fn pause_workflow(
        &self,
        id: WorkflowId,
        reason: String,
        now: bool,
        wait: Duration,
    ) -> Result<Workflow, Failure> {
        workflow::pause(&self.app, id, reason, now, wait, || ()).await.map_err(told)
    }

    async fn resume_workflow(
        &self,
        id: WorkflowId,
        from: Option<&str>,
        with: Option<String>,
    ) -> Result<Resumed, Failure> {
        let resumption = workflow::resumption(&self.app, id, from, with).await.map_err(told)?;
        let words = resumption.words();
        let workflow = workflow::in_background(&self.app, id, &words).await.map_err(told)?;
        Ok(Resumed { workflow, snapshot: resumption.snapshot, diverged: resumption.diverged })
    }

    fn kinds(&self) -> Vec<Kind> {
        let workspace = self.app.engine.workspace();
        // Files that are no kinds are told by `rethread doctor`.
        let kinds = workspace.and_then(|workspace| workspace.kinds().ok()).unwrap_or_default();
        let known = kinds.into_iter().map(|kind| Kind {
            name: kind.name,
            description: kind.title,
            prompt: kind.prompt,
        });
        known.collect()
    }
}
