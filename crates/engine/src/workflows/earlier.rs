//! The workflows that were completed before on the same project: what they learnt is offered to new ones.

use rethread_workflow::{Status, Workflow};

use super::WorkflowFilter;
use crate::{Engine, Logged as _};

/// How many of them, the latest.
const MOST: u32 = 5;

impl Engine {
    /// The latest completed workflows of the same user in the same folder.
    pub(super) async fn earlier_workflows(&self, than: &Workflow) -> Vec<Workflow> {
        let filter = WorkflowFilter {
            user: Some(than.charter.user.clone()),
            worktree: Some(than.charter.worktree.clone()),
            statuses: vec![Status::Completed],
            limit: MOST,
            ..WorkflowFilter::default()
        };
        let rows = self.workflows(&filter).await.or_log("earlier workflows were not found");
        let mut found = Vec::new();
        for row in rows.unwrap_or_default() {
            if row.id != than.id {
                let read = self.workflow(row.id).await;
                found.extend(read.or_log("an earlier workflow was not read"));
            }
        }
        found
    }
}
