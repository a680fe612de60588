//! Between an editor and an agent: an agent towards the editor, a client towards the agent. Everything passes as it came, but for ids;
//! turns are recorded on the way by the engine.
//!
//! The path of what the agent says: `upstream` (its process) → `hub` (one reader) → `binding` (what it means for its session), then the
//! engine's channel and, behind a gate that opens when it is durable, `outbox` (one writer) → the editor. The path of what the editor
//! says: `editor` (one reader) → `session` (in order, one task for each) → `agent`, as the engine's port, or `forward`. All queues are
//! bounded: who is faster waits.

mod agent;
mod backend;
mod binding;
mod commands;
mod editor;
mod forward;
mod history;
mod hub;
mod list;
mod load;
mod outbox;
mod questions;
mod raw;
mod replies;
mod session;
mod switch;
mod turn;
mod upstream;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rethread_engine::Engine;
use rethread_engine::program::{Fault, Program};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use self::hub::Hub;
use self::outbox::Outbox;
use crate::launch::AcpLauncher;

/// The longest line that passes.
pub const LONGEST_LINE: usize = 50 * 1024 * 1024;
/// How long everything has to be put away once the editor is gone.
const LAST_WORK: Duration = Duration::from_secs(12);

/// How agents are started, by their names.
pub type Launchers = Box<dyn Fn(&str) -> Result<AcpLauncher, Fault> + Send + Sync>;

/// What a proxy is made of.
pub struct Proxy {
    pub engine: Engine,
    pub program: Arc<dyn Program>,
    /// How the agent is started.
    pub launcher: AcpLauncher,
    /// How others are started, by their names: one of them may go on in a session.
    pub others: Launchers,
    /// Where it is started.
    pub folder: PathBuf,
    /// Whether how a conversation was opened is said in it.
    pub tells: bool,
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxy").field("launcher", &self.launcher).finish_non_exhaustive()
    }
}

impl Proxy {
    /// Serves an editor until it is gone, or until `stop` is done. The agent ends with it.
    pub async fn serve(
        self,
        from: impl AsyncRead + Unpin,
        to: impl AsyncWrite + Send + Unpin + 'static,
        stop: impl Future<Output = ()>,
    ) {
        let outbox = Outbox::new(to);
        let closed = Arc::clone(&outbox.closed);
        let hub = Hub::new(self, outbox);
        // Some take long: the editor's first request finds it started. What went wrong is said when it is needed.
        let _later = hub.first.process(&hub).await;
        tokio::select! {
            () = editor::listen(&hub, from, LONGEST_LINE) => (),
            () = closed.wait() => (),
            () = stop => (),
        }
        hub.gone.cancel();
        let ended = async {
            for handle in hub.sessions() {
                handle.done().await;
            }
        };
        let _slow = timeout(LAST_WORK, ended).await;
        let patience = hub.first.launcher.limits.close;
        let all = hub.alive();
        futures::future::join_all(all.iter().map(|upstream| upstream.end(patience))).await;
    }
}
