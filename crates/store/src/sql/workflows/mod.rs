//! Workflows: their events, who runs them, and what sums them up.

mod cache;
mod log;
mod own;
pub(super) mod rows;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use rethread_domain::SessionId;
use rethread_workflow::{Event, EventRecord, Workflow, WorkflowId};

pub(super) use self::cache::Cache;
pub(super) use self::log::{drift, purge, rebuild};
use super::ThisStore;
use super::summed::summed;
use crate::Workflows;
use crate::error::{Error, Result};
use crate::types::{Epoch, Span};
use crate::workflows::{Owner, WorkflowClaim, WorkflowFilter, WorkflowRow};

#[async_trait]
impl Workflows for ThisStore {
    async fn create_workflow(
        &self,
        id: WorkflowId,
        events: Vec<Event>,
        at: Timestamp,
    ) -> Result<Workflow> {
        let events = log::encode(id, &events)?;
        let workflow = log::begin(id, &events, at)?;
        let (no, workflow) = self
            .write(move |connection| {
                let no = log::create(connection, &workflow, &events, at)?;
                Ok((no, workflow))
            })
            .await?;
        self.folded().keep(no, workflow.clone());
        Ok(workflow)
    }

    async fn append_events(
        &self,
        id: WorkflowId,
        expected: u32,
        epoch: Option<Epoch>,
        events: Vec<Event>,
        at: Timestamp,
    ) -> Result<()> {
        let events = log::encode(id, &events)?;
        let folded = Arc::clone(self.folded());
        let (no, workflow) = self
            .write(move |connection| {
                let row = log::admit(connection, id, expected, epoch)?;
                // Taken, and put back when it is known that what is written stays.
                let before = folded.take(&row);
                log::append(connection, &row, before, &events, at)
            })
            .await?;
        self.folded().keep(no, workflow);
        Ok(())
    }

    async fn workflow_events(&self, id: WorkflowId, after: u32) -> Result<Vec<EventRecord>> {
        self.read(|connection| log::events(connection, rows::find(connection, id)?.no, after))
    }

    async fn workflow_log(&self, id: WorkflowId, span: Span) -> Result<Vec<EventRecord>> {
        self.read(|connection| log::part(connection, rows::find(connection, id)?.no, span))
    }

    async fn workflow(&self, id: WorkflowId) -> Result<Workflow> {
        let (no, workflow) = self.read(|connection| {
            let row = rows::find(connection, id)?;
            let known = self.folded().get(&row);
            let known = known.map(|known| log::fold_on(connection, row.no, known)).transpose()?;
            let workflow = match known.filter(|known| cache::is_as(known, &row)) {
                Some(workflow) => workflow,
                None => log::fold(connection, row.no, id)?,
            };
            Ok((row.no, workflow))
        })?;
        self.folded().keep(no, workflow.clone());
        Ok(workflow)
    }

    async fn workflows(&self, filter: &WorkflowFilter) -> Result<Vec<WorkflowRow>> {
        self.read(|connection| rows::list(connection, filter))
    }

    async fn resolve_workflow(&self, text: &str, user: Option<&str>) -> Result<Vec<WorkflowId>> {
        self.read(|connection| rows::resolve(connection, text, user))
    }

    async fn workflow_of(&self, session: SessionId) -> Result<Option<(WorkflowId, String)>> {
        self.read(|connection| rows::workflow_of(connection, session))
    }

    async fn claim_workflow(
        &self,
        id: WorkflowId,
        lease: Duration,
    ) -> Result<Option<WorkflowClaim>> {
        if self.is_workflow_claimed(id).await? {
            return Ok(None);
        }
        let locks = self.locks().clone();
        self.write(move |connection| own::claim(connection, &locks, id, lease)).await
    }

    async fn renew_workflow(&self, id: WorkflowId, epoch: Epoch, lease: Duration) -> Result<()> {
        self.write(move |connection| own::renew(connection, id, epoch, lease)).await
    }

    async fn owner_of(&self, id: WorkflowId) -> Result<Option<Owner>> {
        self.read(|connection| own::owner(connection, self.locks(), id))
    }

    async fn is_workflow_claimed(&self, id: WorkflowId) -> Result<bool> {
        Ok(self.owner_of(id).await?.is_some_and(|owner| !owner.is_late))
    }

    async fn sweep_locks(&self) -> Result<Vec<WorkflowId>> {
        let mut found = Vec::new();
        for no in self.sweep().await? {
            found.extend(self.read(|connection| rows::id_of(connection, no))?);
        }
        Ok(found)
    }

    async fn told_workflow(&self, id: WorkflowId) -> Result<u32> {
        self.read(|connection| Ok(rows::find(connection, id)?.told))
    }

    async fn set_told(&self, id: WorkflowId, no: u32) -> Result<()> {
        self.write(move |connection| {
            let row = rows::find(connection, id)?;
            connection
                .prepare_cached(summed!("update workflow set told = max(told, ?2) where no = ?1"))?
                .execute((row.no, no))?;
            Ok(())
        })
        .await
    }

    async fn erase_workflow(&self, id: WorkflowId) -> Result<()> {
        let locks = self.locks().clone();
        let no = self
            .write(move |connection| {
                let row = rows::find(connection, id)?;
                if !row.sum.status.is_final() {
                    return Err(Error::WorkflowOpen(id, row.sum.status));
                }
                log::erase(connection, &row)?;
                locks.forget_workflow(connection, row.no);
                Ok(row.no)
            })
            .await?;
        self.folded().forget(no);
        Ok(())
    }
}
