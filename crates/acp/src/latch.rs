//! A latch: set once, waited for by any number of tasks.

use tokio::sync::Semaphore;

#[derive(Debug)]
pub(crate) struct Latch(Semaphore);

impl Latch {
    pub(crate) fn new() -> Self {
        // It has no permits; closing it wakes everybody who waits for one.
        Self(Semaphore::new(0))
    }

    pub(crate) fn set(&self) {
        self.0.close();
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.is_closed()
    }

    pub(crate) async fn wait(&self) {
        let _closed = self.0.acquire().await;
    }
}
