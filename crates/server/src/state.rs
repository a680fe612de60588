//! The state that all requests share.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rethread_domain::Session;
use rethread_domain::id::SessionRef;
use rethread_engine::Engine;
use rethread_engine::program::{Program, may_record, project_folder};
use rethread_engine::views::SessionView;
use rethread_workflow::Workflow;
use tokio_util::sync::CancellationToken;

use crate::access::Caller;
use crate::live::EventRing;
use crate::metrics::Metrics;
use crate::problem::Problem;
use crate::rate_limit::Limiter;
use crate::readiness::Readiness;
use crate::settings::Settings;
use crate::turns::Turns;
use crate::workers::Workers;

/// The shortest interval between scans of the workspace.
const GATHER_EVERY: Duration = Duration::from_secs(1);

pub(crate) type App = Arc<Shared>;

pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) program: Arc<dyn Program>,
    pub(crate) settings: Settings,
    pub(crate) live: EventRing,
    pub(crate) turns: Arc<Turns>,
    pub(crate) limiter: Limiter,
    pub(crate) workers: Workers,
    pub(crate) metrics: Metrics,
    pub(crate) ready: Readiness,
    /// Cancelled on shutdown: streams close, and nothing new begins.
    pub(crate) stop: CancellationToken,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn new(
        engine: Engine,
        program: Arc<dyn Program>,
        settings: Settings,
    ) -> std::io::Result<App> {
        let metrics = Metrics::new();
        let turns = Turns::new(engine.clone(), settings.bounds.turns);
        let limiter = Limiter::new(&settings.bounds);
        let live = EventRing::new();
        let stop = CancellationToken::new();
        let workers = Workers::new()?;
        Ok(Arc::new(Self {
            engine,
            program,
            settings,
            live,
            turns,
            limiter,
            workers,
            metrics,
            ready: Readiness::default(),
            stop,
        }))
    }

    /// Imports changes of the workspace, at most once per interval.
    pub(crate) async fn keep_up(&self) {
        self.engine.keep_up(self.program.as_ref(), GATHER_EVERY).await;
    }

    /// The folder of something new: it must exist, and recording must be allowed in it.
    pub(crate) fn folder(&self, given: Option<&str>) -> Result<PathBuf, Problem> {
        let Some(folder) = given else { return Ok(self.settings.project.clone()) };
        let folder = project_folder(Path::new(folder))?;
        may_record(self.program.as_ref(), &folder)?;
        Ok(folder)
    }

    /// Finds a session by its id or a prefix. One that the caller may not see is not found.
    pub(crate) async fn session(&self, caller: &Caller, given: &str) -> Result<Session, Problem> {
        let reference: SessionRef = given.parse()?;
        let scope = caller.scope();
        match self.engine.resolve_of(&reference, scope.as_deref()).await {
            Ok(id) => Ok(self.engine.session(id).await?),
            Err(rethread_engine::Error::Ambiguous { .. }) => {
                Err(Problem::new("ambiguous_id", "the id could mean several sessions")
                    .hint("give more of it"))
            }
            Err(rethread_engine::Error::NotFound(_)) => {
                Err(Problem::no_session(reference.as_str()))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Finds a workflow by its id or a prefix. One that the caller may not see is not found.
    pub(crate) async fn workflow(&self, caller: &Caller, given: &str) -> Result<Workflow, Problem> {
        let found = match caller.scope() {
            Some(user) => self.engine.own_workflow(given, &user).await?,
            None => {
                let id = self.engine.resolve_workflow(given).await?;
                self.engine.workflow(id).await?
            }
        };
        Ok(found)
    }

    /// Masks secrets in a text: everything that leaves the server passes through here.
    pub(crate) fn clean(&self, text: &str) -> String {
        self.engine.redactor().redact(text).text.into_owned()
    }

    /// The view of a session.
    pub(crate) fn session_view(&self, session: &Session) -> Result<SessionView, Problem> {
        Ok(self.engine.masked(&SessionView::from(session))?)
    }

    pub(crate) fn clean_some(&self, text: Option<&str>) -> Option<String> {
        text.map(|text| self.clean(text))
    }
}
