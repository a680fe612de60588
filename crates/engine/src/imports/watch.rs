//! Importing what other agents write while they write it.

use std::time::Duration;

use rethread_import::Watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{ImportOptions, ImportReport};
use crate::{Engine, Result};

/// How often it is asked whether something has changed.
const ASK_EVERY: Duration = Duration::from_millis(200);
/// An agent that writes on and on is waited for so long; then what is there is imported.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// A look at everything, for what cannot be watched: folders that did not exist, network file systems.
const LOOK_EVERY: Duration = Duration::from_secs(30);

impl Engine {
    /// Imports what is new in the sessions of other agents, at once and then whenever something changes, until `stop`.
    ///
    /// Several may do so at once: what one has imported is there for the others.
    pub async fn watch_sessions(
        &self,
        options: &ImportOptions,
        stop: &CancellationToken,
        each: &mut (dyn FnMut(Result<ImportReport>) + Send),
    ) {
        let mut watch = Watch::new(&options.roots, &options.agents);
        while !stop.is_cancelled() {
            each(self.import_sessions(options, &mut |_| ()).await);
            if let Ok(roots) = self.with_projects(&options.roots).await {
                watch.refresh(&roots, &options.agents);
            }
            let wait = wait_for_change(&watch);
            tokio::select! {
                () = stop.cancelled() => return,
                () = wait => (),
            }
        }
    }
}

/// Until something has changed and nothing changes any more, within bounds.
async fn wait_for_change(watch: &Watch) {
    let look = Instant::now() + LOOK_EVERY;
    while !watch.has_changed() {
        if Instant::now() >= look {
            return;
        }
        sleep(ASK_EVERY).await;
    }
    let most = Instant::now() + LONGEST_WAIT;
    sleep(ASK_EVERY).await;
    while watch.has_changed() && Instant::now() < most {
        sleep(ASK_EVERY).await;
    }
}
