//! An agent behind the proxy: how it is started and greeted, and its process while it runs.

use std::sync::{Arc, Mutex};

use rethread_engine::agents::AgentError;

use super::hub::{self, Hub};
use super::upstream::Upstream;
use crate::classify::{RpcError, classify};
use crate::connection::lock;
use crate::launch::AcpLauncher;

/// Why an agent cannot be used; in its own words where it gave an error.
pub(crate) type Unusable = (AgentError, Option<String>);

pub(crate) struct Backend {
    /// The name of its entry in the settings.
    pub(crate) agent: String,
    pub(crate) launcher: AcpLauncher,
    upstream: Mutex<Option<Arc<Upstream>>>,
    starting: tokio::sync::Mutex<()>,
}

impl std::fmt::Debug for Backend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Backend").field("agent", &self.agent).finish_non_exhaustive()
    }
}

impl Backend {
    pub(crate) fn new(launcher: AcpLauncher) -> Arc<Self> {
        let agent = launcher.entry.name.clone();
        let starting = tokio::sync::Mutex::default();
        Arc::new(Self { agent, launcher, upstream: Mutex::default(), starting })
    }

    pub(crate) fn alive(&self) -> Option<Arc<Upstream>> {
        lock(&self.upstream).clone().filter(|one| !one.is_gone())
    }

    /// The agent's process, started if there is none.
    pub(crate) async fn process(
        self: &Arc<Self>,
        hub: &Arc<Hub>,
    ) -> Result<Arc<Upstream>, AgentError> {
        let _starting = self.starting.lock().await;
        self.started(hub)
    }

    fn started(self: &Arc<Self>, hub: &Arc<Hub>) -> Result<Arc<Upstream>, AgentError> {
        if let Some(known) = self.alive() {
            return Ok(known);
        }
        let (upstream, lines) = Upstream::start(&self.launcher, &hub.folder)?;
        *lock(&self.upstream) = Some(Arc::clone(&upstream));
        let (hub, own) = (Arc::clone(hub), Arc::clone(self));
        tokio::spawn(hub::listen(hub, own, Arc::clone(&upstream), lines));
        Ok(upstream)
    }

    /// The agent's process, started and greeted if there is none.
    pub(crate) async fn upstream(
        self: &Arc<Self>,
        hub: &Arc<Hub>,
    ) -> Result<Arc<Upstream>, Unusable> {
        let _starting = self.starting.lock().await;
        let upstream = self.started(hub).map_err(|trouble| (trouble, None))?;
        if let Some(hello) = hub.hello().filter(|_| upstream.hello.get().is_none()) {
            self.greet(&upstream, &hello).await?;
        }
        Ok(upstream)
    }

    async fn greet(&self, upstream: &Arc<Upstream>, hello: &str) -> Result<(), Unusable> {
        let limits = &self.launcher.limits;
        let call = upstream.call("initialize", hello, Box::new(|_| ()));
        match tokio::time::timeout(limits.initialize, call).await {
            Ok(Ok(answer)) => {
                let _first = upstream.hello.set(answer);
                Ok(())
            }
            Ok(Err(Some(error))) => {
                let known = RpcError::parse(&error);
                let quirks = self.launcher.entry.quirks;
                Err((classify("initialize", &known, quirks), Some(error)))
            }
            Ok(Err(None)) => Err((upstream.ended(limits.close).await, None)),
            Err(_) => {
                upstream.abandon();
                let (what, after) = ("initialize".to_owned(), limits.initialize);
                Err((AgentError::TimedOut { what, after }, None))
            }
        }
    }
}
