//! One signal that the store has changed, by this process or by another. It is the only place that looks again and
//! again; whoever waits for something to happen in the store waits for the signal.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use rethread_store::Store;
use tokio::sync::watch;

use crate::Engine;

/// How often the store is asked whether anybody has written to it, while somebody waits.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// The signal, while a task gives it: that lives as long as somebody waits.
pub(crate) type Signal = Mutex<Weak<watch::Sender<()>>>;

/// Tells when the store has changed.
#[derive(Debug)]
pub struct Changes {
    engine: Engine,
    signal: watch::Receiver<()>,
}

impl Changes {
    /// Waits until the store has changed since the last call, or since this was made. It may be told of a change that was
    /// seen already, and never misses one: read what is waited for again.
    pub async fn next(&mut self) {
        while self.signal.changed().await.is_err() {
            // Its task ended with the runtime that it was on; ours goes on.
            self.signal = self.engine.signal();
        }
    }

    /// The same, at most so long: what is waited for may happen outside the store as well.
    pub async fn within(&mut self, most: Duration) {
        // Whichever comes first.
        drop(tokio::time::timeout(most, self.next()).await);
    }
}

impl Engine {
    /// Tells when the store has changed from now on.
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

/// Looks at the store until nobody waits any more. The first look counts as a change: nobody knows what came before it.
async fn watch(store: Weak<dyn Store>, known: Arc<Signal>, signal: Arc<watch::Sender<()>>) {
    let mut version = None;
    while let Some(store) = store.upgrade() {
        // A store that cannot be read now is looked at again.
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
    use rethread_testkit::{TestStore, messages};

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
        elsewhere.start(messages::beginning()).await.unwrap();
        one.next().await;
        other.next().await;
        // What this very process writes counts as well.
        here.start(messages::beginning()).await.unwrap();
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
        engine.start(messages::beginning()).await.unwrap();
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
            engine.start(messages::beginning()).await.unwrap();
            changes.next().await;
        });
    }
}
