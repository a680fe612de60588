//! The signal that the store has changed, by this process or another one. This is the only place that polls; everybody who waits
//! for a change of the store waits for this signal.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use rethread_store::Store;
use tokio::sync::watch;

use crate::Engine;

/// How often the store is polled while somebody waits.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// The signal, as long as its task runs: while somebody waits.
pub(crate) type Signal = Mutex<Weak<watch::Sender<()>>>;

/// Waits for changes of the store.
#[derive(Debug)]
pub struct Changes {
    engine: Engine,
    signal: watch::Receiver<()>,
}

impl Changes {
    /// Waits until the store has changed since the last call, or since this was created. May wake up spuriously, but never misses a
    /// change: read again what you wait for.
    pub async fn next(&mut self) {
        while self.signal.changed().await.is_err() {
            // The task ended with its runtime; start another one on ours.
            self.signal = self.engine.signal();
        }
    }

    /// The same with a timeout: for conditions that may also become true outside of the store.
    pub async fn within(&mut self, most: Duration) {
        // Whichever comes first.
        drop(tokio::time::timeout(most, self.next()).await);
    }
}

impl Engine {
    /// Waits for changes from now on.
    pub fn changes(&self) -> Changes {
        Changes { engine: self.clone(), signal: self.signal() }
    }

    fn signal(&self) -> watch::Receiver<()> {
        let mut known = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(signal) = known.upgrade() {
            return signal.subscribe();
        }
        let signal = Arc::new(watch::Sender::new(()));
        *known = Arc::downgrade(&signal);
        let receiver = signal.subscribe();
        tokio::spawn(watch(Arc::downgrade(&self.store), Arc::clone(&self.changed), signal));
        receiver
    }
}

/// Polls the store until nobody waits any more. The first poll counts as a change, as nobody knows what came before.
async fn watch(store: Weak<dyn Store>, known: Arc<Signal>, signal: Arc<watch::Sender<()>>) {
    let mut version = None;
    while let Some(store) = store.upgrade() {
        // If the store cannot be read now, it is polled again.
        if let Ok(now) = store.version().await
            && version.replace(now) != Some(now)
        {
            signal.send_replace(());
        }
        drop(store);
        tokio::time::sleep(LOOK_EVERY).await;
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        if signal.receiver_count() == 0 {
            *known = Weak::new();
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use rethread_testkit::{TestStore, beginning};

    use super::*;
    use crate::Clock;

    /// Waits until the first look of the watcher is over: it counts as a change.
    async fn settled(changes: &mut Changes) {
        changes.next().await;
    }

    #[tokio::test]
    async fn whoever_waits_hears_of_what_others_write() {
        let store = TestStore::sqlite().await;
        let here = Engine::new(store.open_again().await, Clock::Wall);
        let elsewhere = Engine::new(store.open_again().await, Clock::Wall);
        let (mut one, mut other) = (here.changes(), here.clone().changes());
        settled(&mut one).await;
        settled(&mut other).await;
        elsewhere.start(beginning()).await.unwrap();
        one.next().await;
        other.next().await;
        // What this very process writes counts as well.
        here.start(beginning()).await.unwrap();
        one.next().await;
    }

    #[tokio::test]
    async fn one_task_looks_for_all_and_only_while_somebody_waits() {
        let store = TestStore::sqlite().await;
        let engine = Engine::new(store.open_again().await, Clock::Wall);
        let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
        let all: Vec<Changes> = (0..10).map(|_| engine.clone().changes()).collect();
        assert_eq!(tasks(), 1);
        drop(all);
        while tasks() > 0 {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        let mut changes = engine.changes();
        settled(&mut changes).await;
        engine.start(beginning()).await.unwrap();
        changes.next().await;
    }

    /// The runtime on which somebody waited first is gone; the others go on.
    #[test]
    fn a_runtime_that_ends_takes_the_signal_from_nobody() {
        let runtime =
            || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (first, second) = (runtime(), runtime());
        let store = second.block_on(TestStore::sqlite());
        let engine = second.block_on(async { Engine::new(store.open_again().await, Clock::Wall) });
        let mut changes = first.block_on(async { engine.changes() });
        drop(first);
        second.block_on(async {
            settled(&mut changes).await;
            engine.start(beginning()).await.unwrap();
            changes.next().await;
        });
    }
}
