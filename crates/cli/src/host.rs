//! What only the program can give to the use cases: its settings, starting itself, a word to its user.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use rethread_domain::Session;
use rethread_engine::Error;
use rethread_engine::agents::Consent;
use rethread_engine::program::{
    AgentInfo, AgentNeeds, AgentSetup, Fault, Notifier, Program, WorkflowSettings,
};
use rethread_engine::workflows::{Checker, Extractor};
use rethread_workflow::{Command, WorkflowId};

use crate::cli::App;
use crate::commands::workflow;
use crate::config;
use crate::model::Model;
use crate::notices::Hooks;
use crate::{error, output};

struct Host(App);

impl App {
    /// This program, as the use cases see it.
    pub(crate) fn program(&self) -> Arc<dyn Program> {
        Arc::new(Host(self.clone()))
    }
}

impl Host {
    /// A process of ours that outlives us, with words for `rethread workflow`.
    fn spawn(&self, words: &[String]) -> anyhow::Result<Child> {
        use std::os::unix::process::CommandExt as _;
        let mut command = std::process::Command::new(std::env::current_exe()?);
        config::name_store(&mut command, &self.0.url);
        command
            .arg("workflow")
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        Ok(command.spawn()?)
    }
}

/// What went wrong, as the use cases tell it.
pub(crate) fn fault(failure: anyhow::Error) -> Fault {
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

impl Program for Host {
    fn user(&self) -> Result<String, Fault> {
        self.0.config.user(None).map_err(fault)
    }

    fn agents(&self) -> Result<Vec<AgentInfo>, Fault> {
        self.0.listed().map_err(fault)
    }

    fn consent(&self, agent: &str) -> Result<Consent, Fault> {
        let entry = self.0.agent(agent).map_err(fault)?;
        self.0.config.consent(entry.permissions.as_deref()).map_err(fault)
    }

    fn agent(
        &self,
        name: &str,
        session: &Session,
        consent: Option<Consent>,
        needs: AgentNeeds<'_>,
    ) -> Result<AgentSetup, Fault> {
        let entry = self.0.agent(name).map_err(fault)?;
        self.0.set_up(entry, session, consent, needs).map_err(fault)
    }

    fn tools(&self) -> Vec<String> {
        self.0.tools()
    }

    fn excluded(&self, folder: &Path) -> Option<PathBuf> {
        self.0.config.excluded(folder)
    }

    fn workflows(&self) -> Result<WorkflowSettings, Fault> {
        let settings = &self.0.config.workflow;
        Ok(WorkflowSettings {
            agent: settings.agent().map(str::to_owned),
            limits: settings.limits().map_err(fault)?,
            commands: settings.commands.clone(),
            brief_tokens: settings.brief_tokens,
            lesson_tokens: settings.lesson_tokens,
            resumes_after_crash: settings.resumes_after_crash(),
        })
    }

    fn checker(&self) -> Result<Arc<dyn Checker>, Fault> {
        Ok(Arc::new(self.0.shell().map_err(fault)?))
    }

    fn extractor(&self) -> Result<Option<Arc<dyn Extractor>>, Fault> {
        let endpoint = self.0.config.endpoint().map_err(fault)?;
        Ok(endpoint.map(|endpoint| Arc::new(Model(endpoint)) as Arc<dyn Extractor>))
    }

    fn notifier(&self) -> Result<Option<Arc<dyn Notifier>>, Fault> {
        let hooks = Hooks::new(&self.0.config).map_err(fault)?;
        Ok(hooks.map(|hooks| Arc::new(hooks) as Arc<dyn Notifier>))
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
        output::note(format_args!("note: {}", output::shown(text, false)));
        tracing::warn!(note = text, "note");
    }
}
