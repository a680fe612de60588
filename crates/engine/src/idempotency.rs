//! Idempotency: a request that is repeated with its idempotency key is carried out once. Creates things under reserved ids.

use std::borrow::Cow;

use rethread_domain::session::Beginning;
use rethread_domain::{Seq, Session, SessionId};
use rethread_store::{self as store, ReservedId, UsageDay, UsageFilter};
use rethread_workflow::{Charter, TaskSpec, Workflow, WorkflowId};
use uuid::Uuid;

use crate::{Engine, Error, Result};

impl Engine {
    /// The id that is reserved for a user's key: a new one, or the one that the same request got before.
    ///
    /// Fails with [`Error::KeyReused`] if the key was used for another request within the last seven days.
    pub async fn reserve(
        &self,
        what: &str,
        user: &str,
        key: &str,
        request: &[u8],
    ) -> Result<ReservedId> {
        // A name with a space in it is quoted: the key of one user is never that of another.
        let is_plain = !user.contains([' ', '"']);
        let user = if is_plain { Cow::Borrowed(user) } else { Cow::Owned(format!("{user:?}")) };
        let key = format!("{what} {user} {key}");
        Ok(self.store.reserve(&key, request, Uuid::now_v7(), self.clock.now()).await?)
    }

    /// Starts a session under this id; if it exists already, it is returned as it is now.
    pub async fn start_as(&self, id: SessionId, beginning: Beginning) -> Result<Session> {
        let user = beginning.user.clone();
        let is_same = |session: &Session| session.user == user && session.forked_from.is_none();
        if let Some(there) = self.there(id, is_same).await? {
            return Ok(there);
        }
        match self.start_new(id, beginning).await {
            Err(Error::Store(store::Error::Exists(_))) => self.now_there(id, is_same).await,
            outcome => outcome,
        }
    }

    /// Forks a session under this id; if the fork exists already, it is returned as it is now.
    pub async fn fork_as(
        &self,
        id: SessionId,
        source: SessionId,
        at: Option<Seq>,
    ) -> Result<Session> {
        let is_same = |session: &Session| {
            session.forked_from.is_some_and(|origin| {
                origin.session == source && at.is_none_or(|at| at == origin.seq)
            })
        };
        if let Some(there) = self.there(id, is_same).await? {
            return Ok(there);
        }
        match self.fork_new(id, source, at).await {
            Err(Error::Store(store::Error::Exists(_))) => self.now_there(id, is_same).await,
            outcome => outcome,
        }
    }

    /// Creates a workflow under this id; if it exists already, it is returned as it is now.
    pub async fn create_workflow_as(
        &self,
        id: WorkflowId,
        charter: Charter,
        tasks: Vec<TaskSpec>,
    ) -> Result<Workflow> {
        let (user, worktree) = (charter.user.clone(), charter.worktree.clone());
        let given = |there: Workflow| {
            if there.charter.user == user && there.charter.worktree == worktree {
                Ok(there)
            } else {
                Err(Error::Store(store::Error::WorkflowExists(id)))
            }
        };
        match self.store.workflow(id).await {
            Err(store::Error::NoWorkflow(_)) => (),
            there => return given(there?),
        }
        match self.create_workflow_new(id, charter, tasks).await {
            // Somebody else has done the same meanwhile.
            Err(Error::Store(store::Error::WorkflowExists(_))) => {
                given(self.store.workflow(id).await?)
            }
            Err(Error::Store(store::Error::WorktreeTaken { by, .. })) if by == id => {
                given(self.store.workflow(id).await?)
            }
            outcome => outcome,
        }
    }

    /// Usage by day, project and agent.
    pub async fn usage_by_day(&self, filter: &UsageFilter) -> Result<Vec<UsageDay>> {
        Ok(self.store.usage_by_day(filter).await?)
    }

    /// The session with this id, if there is one; an error if it is not the one that is expected.
    async fn there(
        &self,
        id: SessionId,
        is_same: impl Fn(&Session) -> bool,
    ) -> Result<Option<Session>> {
        match self.store.session(id).await {
            Err(store::Error::NotFound(_)) => Ok(None),
            Ok(session) if !is_same(&session) => Err(store::Error::Exists(id).into()),
            session => Ok(Some(session?)),
        }
    }

    async fn now_there(
        &self,
        id: SessionId,
        is_same: impl Fn(&Session) -> bool,
    ) -> Result<Session> {
        self.there(id, is_same).await?.ok_or_else(|| store::Error::NotFound(id).into())
    }
}
