//! What has changed, for whoever follows it live.

use rethread_store::FeedPage;

use crate::{Engine, Result};

impl Engine {
    /// At most `limit` lines of the feed after number `after`, of one user or of all. Go on from `upto`.
    pub async fn feed(&self, after: u64, user: Option<&str>, limit: u32) -> Result<FeedPage> {
        Ok(self.store.feed(after, user, limit).await?)
    }

    /// The number of the last line of the feed.
    pub async fn feed_head(&self) -> Result<u64> {
        Ok(self.store.feed_head().await?)
    }
}
