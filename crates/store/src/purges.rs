//! Purging: what the store has to do, and what it remembers until the rest is done.

use async_trait::async_trait;
use jiff::Timestamp;
use rethread_domain::{Seq, SessionId};

use crate::error::Result;
use crate::types::Drive;

/// A purge that has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Purging {
    pub id: SessionId,
    pub seq: Seq,
    /// Sessions whose folders have a name that was made from the text.
    pub renames: Vec<SessionId>,
}

/// Removing the text of messages for good.
#[async_trait]
pub trait Purges: Send + Sync + 'static {
    /// Removes the text of one message from everything that is kept, leaving a mark, and remembers that the purge has begun: what
    /// is left to do is done by whoever opens the store next, if we do not come to it.
    async fn begin_purge(&self, purging: Purging, at: Timestamp) -> Result<()>;

    /// Takes what was removed out of the files as well; gives whether it could. Somebody who reads an older state keeps it there:
    /// they are waited for, or not.
    async fn empty_log(&self, is_patient: bool) -> Result<bool>;

    /// Whether its files are its own. Those of a server are not: nothing can be taken out of them here, and no purge waits for it.
    fn has_own_files(&self) -> bool {
        true
    }

    /// The purges that have begun and not ended. Costs by its answer.
    async fn purges_begun(&self) -> Result<Vec<Purging>>;

    /// Nothing is left to do.
    async fn end_purge(&self, purging: Purging) -> Result<()>;

    /// Held by whoever purges; `None` where somebody else does.
    async fn purge_alone(&self) -> Result<Option<Drive>>;

    /// Every session that has a message: the one it was said in, and forks.
    async fn sharers(&self, id: SessionId, seq: Seq) -> Result<Vec<SessionId>>;

    /// All of it, for a message that nothing outside of the store has. Gives whether it has left the files.
    async fn purge(&self, id: SessionId, seq: Seq, at: Timestamp) -> Result<bool> {
        let purging = Purging { id, seq, renames: Vec::new() };
        self.begin_purge(purging.clone(), at).await?;
        let has_left = self.empty_log(true).await?;
        if has_left || !self.has_own_files() {
            self.end_purge(purging).await?;
        }
        Ok(has_left)
    }
}
