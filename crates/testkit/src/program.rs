//! A program for tests of doors: workflows run in tasks of this process, with an agent that answers when it is let.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};

use async_trait::async_trait;
use futures::SinkExt as _;
use futures::channel::mpsc;
use futures::future::{BoxFuture, FutureExt as _};
use jiff::Timestamp;
use rethread_domain::opening::{Policy, Settings};
use rethread_domain::turn::Update;
use rethread_domain::{Session, context};
use rethread_engine::agents::{
    Abilities, Agent, AgentError, Block, Consent, Ended, Launcher, Nobody, OpenRequest, Opened,
    PermissionHandler, Rules,
};
use rethread_engine::program::{
    AgentInfo, AgentNeeds, AgentSetup, Fault, Notifier, Program, WorkflowSettings,
};
use rethread_engine::workflows::{Checker, CommandOutcome, Extractor};
use rethread_engine::{Engine, Pruning};
use rethread_workflow::{Command, WorkflowId};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

/// A program whose one agent, `calm`, ends a turn for each permit of `turns`.
pub struct TestProgram {
    engine: Engine,
    pub turns: Arc<Semaphore>,
    own: OnceLock<Weak<Self>>,
}

impl std::fmt::Debug for TestProgram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestProgram").finish_non_exhaustive()
    }
}

impl TestProgram {
    pub fn new(engine: &Engine) -> Arc<Self> {
        let turns = Arc::new(Semaphore::new(0));
        let program = Arc::new(Self { engine: engine.clone(), turns, own: OnceLock::new() });
        drop(program.own.set(Arc::downgrade(&program)));
        program
    }
}

impl Program for TestProgram {
    fn user(&self) -> Result<String, Fault> {
        Ok("anna".to_owned())
    }

    fn agents(&self) -> Result<Vec<AgentInfo>, Fault> {
        let (name, install, unrestrictable) = ("calm".to_owned(), None, None);
        Ok(vec![AgentInfo { name, is_installed: true, install, unrestrictable }])
    }

    fn consent(&self, agent: &str) -> Result<Consent, Fault> {
        let unknown = || Fault::refused("unknown_agent", agent, "there is only calm");
        if agent == "calm" { Ok(Consent::default()) } else { Err(unknown()) }
    }

    fn agent(
        &self,
        name: &str,
        _: &Session,
        consent: Option<Consent>,
        _: AgentNeeds<'_>,
    ) -> Result<AgentSetup, Fault> {
        let own = self.consent(name)?;
        Ok(AgentSetup {
            own_sessions: None,
            holds: rethread_engine::agents::Holds::default(),
            launcher: Arc::new(Calm { turns: Arc::clone(&self.turns) }),
            system_prompt: None,
            defaults: Settings::default(),
            rules: Rules { consent: consent.unwrap_or(own), ..Rules::default() },
            policy: Policy::Auto,
            limits: context::Limits::default(),
            margin: 0.0,
            max_turn_bytes: 1 << 20,
            pruning: Pruning::default(),
            is_restricted: false,
        })
    }

    fn tools(&self) -> Vec<String> {
        Vec::new()
    }

    fn excluded(&self, _: &Path) -> Option<PathBuf> {
        None
    }

    fn workflows(&self) -> Result<WorkflowSettings, Fault> {
        let agent = Some("calm".to_owned());
        Ok(WorkflowSettings { agent, brief_tokens: 8_000, ..WorkflowSettings::default() })
    }

    fn checker(&self) -> Result<Arc<dyn Checker>, Fault> {
        Ok(Arc::new(Unchecked))
    }

    fn extractor(&self) -> Result<Option<Arc<dyn Extractor>>, Fault> {
        Ok(None)
    }

    fn notifier(&self) -> Result<Option<Arc<dyn Notifier>>, Fault> {
        Ok(None)
    }

    fn run_apart(
        &self,
        id: WorkflowId,
        first: &Command,
    ) -> Result<BoxFuture<'static, Fault>, Fault> {
        let (engine, first) = (self.engine.clone(), first.clone());
        let own: Arc<dyn Program> = self.own.get().and_then(Weak::upgrade).unwrap();
        let run = tokio::spawn(async move {
            let mut unseen = |_: &_| ();
            let run = engine.run_workflow(&own, id, Some(first), Arc::new(Nobody), &mut unseen);
            Box::pin(run).await
        });
        let ended = async { Fault::bad_input(format!("it ended: {:?}", run.await), "") };
        Ok(ended.boxed())
    }

    fn recover_apart(&self) -> Result<(), Fault> {
        Ok(())
    }

    fn note(&self, _: &str) {}
}

/// No plan of these tests has a check.
struct Unchecked;

#[async_trait]
impl Checker for Unchecked {
    async fn check(
        &self,
        command: &str,
        _: &Path,
        _: std::time::Duration,
        _: watch::Receiver<bool>,
    ) -> CommandOutcome {
        CommandOutcome::cannot_start(format!("{command}: there are no checks here"))
    }
}

#[derive(Clone)]
struct Calm {
    turns: Arc<Semaphore>,
}

#[async_trait]
impl Launcher for Calm {
    async fn launch(
        &self,
        _: &Path,
        _: Arc<dyn PermissionHandler>,
    ) -> Result<Box<dyn Agent>, AgentError> {
        Ok(Box::new(self.clone()))
    }
}

#[async_trait]
impl Agent for Calm {
    fn abilities(&self) -> &Abilities {
        static NONE: OnceLock<Abilities> = OnceLock::new();
        NONE.get_or_init(Abilities::default)
    }

    async fn open(&mut self, _: OpenRequest<'_>) -> Result<Opened, AgentError> {
        Ok(Opened { native: "calm".to_owned(), ..Opened::default() })
    }

    async fn changed_at(&mut self, _: &str) -> Option<Timestamp> {
        None
    }

    async fn set(&mut self, _: &Settings) -> Result<(), AgentError> {
        Ok(())
    }

    async fn reported(&mut self) -> Settings {
        Settings::default()
    }

    async fn prompt(
        &mut self,
        _: Vec<Block>,
        mut updates: mpsc::Sender<Update>,
        cancel: CancellationToken,
    ) -> Result<Ended, AgentError> {
        let stop = tokio::select! {
            permit = self.turns.acquire() => {
                permit.unwrap().forget();
                "end_turn"
            }
            () = cancel.cancelled() => "cancelled",
        };
        drop(updates.send(Update::Text { text: "It is done.".to_owned() }).await);
        Ok(Ended { stop: stop.to_owned() })
    }

    fn is_gone(&self) -> bool {
        false
    }

    async fn end(self: Box<Self>) {}
}
