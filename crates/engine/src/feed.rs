//! The feed of changes, for live followers.

use rethread_store::FeedPage;

use crate::{Engine, Result};

impl Engine {
    /// At most `limit` events of the feed after number `after`, of one user or of all. Continue at `upto`.
    pub async fn feed(&self, after: u64, user: Option<&str>, limit: u32) -> Result<FeedPage> {
        Ok(self.store.feed(after, user, limit).await?)
    }

    /// The number of the newest event.
    pub async fn feed_head(&self) -> Result<u64> {
        Ok(self.store.feed_head().await?)
    }
}
