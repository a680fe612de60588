//! This program as the use cases see it: its settings, starting agents and itself, a word to its user.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use rethread_acp::{Entry, ToolServer};
use rethread_domain::Session;
use rethread_domain::opening::Settings;
use rethread_domain::workflow::{Command, WorkflowId};
use rethread_engine::Error;
use rethread_engine::agents::{Consent, Rules, Trouble};
use rethread_engine::program::{
    AgentInfo, AgentSetup, Fault, Fitting, Herald, Program, WorkflowSettings,
};
use rethread_engine::workflows::{Checker, Extractor};
use rethread_store::StoreUrl;

use crate::cli::App;
use crate::commands::{project, refuse_excluded, workflow};
use crate::model::Model;
use crate::notices::Hooks;
use crate::{config, error, output};

/// The name of Rethread's own server.
const SERVER: &str = "rethread";

pub(crate) struct Host {
    app: App,
    /// How often the workspace is looked through, at most.
    pace: Duration,
    /// When it was last looked through.
    gathered: Mutex<Option<Instant>>,
    /// What was said of folders: once is enough.
    said: Mutex<BTreeSet<String>>,
}

impl App {
    /// This program, for what is done once.
    pub(crate) fn program(&self) -> Arc<dyn Program> {
        Arc::new(Host::new(self.clone(), Duration::ZERO))
    }
}

impl Host {
    pub(crate) fn new(app: App, pace: Duration) -> Self {
        Self { app, pace, gathered: Mutex::default(), said: Mutex::default() }
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

    fn set_up(
        &self,
        mut entry: Entry,
        session: &Session,
        consent: Option<Consent>,
        fitting: Fitting<'_>,
    ) -> anyhow::Result<AgentSetup> {
        let config = &self.app.config;
        let is_restricted = entry.restrict_tools(fitting.allowed, fitting.disallowed);
        if fitting.for_workflow && self.offers_server() {
            entry.servers.push(self.server(session)?);
        }
        entry.env.extend(config::lineage_of(session));
        let (consent, holds) = self.app.kept(&mut entry, consent)?;
        Ok(AgentSetup {
            system_prompt: entry.system_prompt.clone(),
            defaults: Settings {
                model: entry.model.clone(),
                mode: entry.mode.clone(),
                options: entry.options.clone(),
            },
            rules: Rules {
                consent,
                allowed: entry.allowed_tools.clone(),
                disallowed: entry.disallowed_tools.clone(),
                only_allowed: false,
            },
            holds,
            policy: config.policy(None)?,
            limits: config.limits(),
            margin: config.margin(Some(&entry.name)),
            max_turn_bytes: config.talk.max_turn_bytes,
            pruning: config.pruning(),
            is_restricted,
            launcher: Arc::new(self.app.launcher(entry)?),
        })
    }

    /// Whether agents of workflows are given Rethread's own server: not where the user's own has its name.
    fn offers_server(&self) -> bool {
        self.app.config.workflow.mcp && !self.app.config.tools().contains_key(SERVER)
    }

    /// This very program on the same store. Not all agents hand on their environment: it is told where it belongs.
    fn server(&self, session: &Session) -> anyhow::Result<ToolServer> {
        let program = std::env::current_exe()?.to_string_lossy().into_owned();
        let StoreUrl::Sqlite(path) = &self.app.url;
        let store = StoreUrl::Sqlite(std::path::absolute(path)?).to_string();
        let words = ["--store", &store, "mcp", "--project", &session.project].map(str::to_owned);
        Ok(ToolServer {
            name: SERVER.to_owned(),
            command: [vec![program], words.to_vec()].concat(),
            env: config::lineage_of(session).into_iter().collect(),
        })
    }

    /// A process of ours that outlives us, with words for `rethread workflow`.
    fn spawn(&self, words: &[String]) -> anyhow::Result<Child> {
        use std::os::unix::process::CommandExt as _;
        let mut command = std::process::Command::new(std::env::current_exe()?);
        command
            .args(["--store", &self.app.url.to_string(), "workflow"])
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        Ok(command.spawn()?)
    }
}

/// What went wrong, as the use cases tell it.
fn fault(failure: anyhow::Error) -> Fault {
    let failure = match failure.downcast::<Fault>() {
        Ok(fault) => return fault,
        Err(failure) => failure,
    };
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
    fn user(&self) -> Result<String, Fault> {
        self.app.config.user(None).map_err(fault)
    }

    fn agents(&self) -> Result<Vec<AgentInfo>, Fault> {
        self.listed().map_err(fault)
    }

    fn consent(&self, agent: &str) -> Result<Consent, Fault> {
        let entry = self.app.agent(agent).map_err(fault)?;
        self.app.config.consent(entry.permissions.as_deref()).map_err(fault)
    }

    fn agent(
        &self,
        name: &str,
        session: &Session,
        consent: Option<Consent>,
        fitting: Fitting<'_>,
    ) -> Result<AgentSetup, Fault> {
        let entry = self.app.agent(name).map_err(fault)?;
        self.set_up(entry, session, consent, fitting).map_err(fault)
    }

    fn tools(&self) -> Vec<String> {
        let own = Some(SERVER.to_owned()).filter(|_| self.offers_server());
        self.app.config.tools().keys().cloned().chain(own).collect()
    }

    fn default_agent(&self) -> Option<&str> {
        self.app.config.workflow.agent()
    }

    fn project(&self, folder: &Path) -> Result<PathBuf, Fault> {
        project(Some(folder)).map_err(fault)
    }

    fn may_record(&self, project: &Path) -> Result<(), Fault> {
        refuse_excluded(&self.app, project).map_err(fault)
    }

    async fn gather(&self) {
        if !self.is_due() {
            return;
        }
        let engine = &self.app.engine;
        let gathered = match self.user() {
            Ok(user) => engine.gather(&user).await.map_err(|error| error.to_string()),
            Err(fault) => Err(fault.to_string()),
        };
        let mut troubles = gathered.map_or_else(|why| vec![why], |followed| followed.troubles);
        troubles.extend(engine.take_notes().troubles);
        for trouble in troubles {
            let trouble = engine.redactor().redact(&trouble).text.into_owned();
            let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
            if said.insert(trouble.clone()) {
                self.note(&output::shown(&trouble, false));
            }
        }
    }

    fn workflows(&self) -> Result<WorkflowSettings, Fault> {
        let settings = &self.app.config.workflow;
        Ok(WorkflowSettings {
            agent: settings.agent().map(str::to_owned),
            limits: settings.limits().map_err(fault)?,
            commands: settings.commands.clone(),
            brief_tokens: settings.brief_tokens,
            resumes_after_crash: settings.resumes_after_crash(),
        })
    }

    fn checker(&self) -> Result<Arc<dyn Checker>, Fault> {
        Ok(Arc::new(self.app.shell().map_err(fault)?))
    }

    fn extractor(&self) -> Result<Option<Arc<dyn Extractor>>, Fault> {
        let endpoint = self.app.config.endpoint().map_err(fault)?;
        Ok(endpoint.map(|endpoint| Arc::new(Model(endpoint)) as Arc<dyn Extractor>))
    }

    fn herald(&self) -> Result<Option<Arc<dyn Herald>>, Fault> {
        let hooks = Hooks::new(&self.app.config).map_err(fault)?;
        Ok(hooks.map(|hooks| Arc::new(hooks) as Arc<dyn Herald>))
    }

    fn run_apart(
        &self,
        id: WorkflowId,
        first: &Command,
    ) -> Result<BoxFuture<'static, Fault>, Fault> {
        let wish = workflow::wish(first);
        let words: Vec<String> =
            ["run".to_owned(), id.to_string()].into_iter().chain(wish.clone()).collect();
        let mut child = self.spawn(&words).map_err(fault)?;
        let (send, ended) = tokio::sync::oneshot::channel();
        // Whoever started it may live long, and is its parent.
        std::thread::spawn(move || send.send(child.wait()));
        let hint = format!(
            "`rethread workflow run {id} {}` shows why",
            wish.first().map_or("--start", String::as_str)
        );
        let said = async move {
            let status = match ended.await {
                Ok(Ok(status)) => status.to_string(),
                _ => "nobody knows how".to_owned(),
            };
            let what = format!("the process that was to run workflow {id} ended: {status}");
            Fault::refused("workflow_not_begun", what, hint)
        };
        Ok(said.boxed())
    }

    fn recover_apart(&self) -> Result<(), Fault> {
        let words = ["recover", "--resume"].map(str::to_owned);
        let mut child = self.spawn(&words).map_err(fault)?;
        std::thread::spawn(move || child.wait());
        Ok(())
    }

    fn note(&self, text: &str) {
        output::note(format_args!("note: {text}"));
        tracing::warn!(note = text, "note");
    }
}
