//! Finds the workflow of a call.

use rethread_workflow::{Status, Workflow, WorkflowId};

use crate::error::Failure;
use crate::server::ServerState;

/// How many ancestors of a session are searched for a task.
const GENERATIONS: usize = 32;

impl ServerState {
    /// Refuses to let agents invoke each other endlessly.
    pub(crate) fn may_go_deeper(&self) -> Result<(), Failure> {
        let (depth, most) = (self.caller.depth, self.limits.depth);
        if depth < most {
            return Ok(());
        }
        Err(Failure::new(
            format!("Agents have invoked each other {depth} times, one below the other"),
            format!("do the work here; the setting mcp.max_depth allows more than {most}"),
        ))
    }

    /// The workflow and the task that the caller, or an agent on whose behalf it works, is working on.
    pub(crate) async fn own_task(&self) -> Result<Option<(WorkflowId, String)>, Failure> {
        let mut next = self.caller.parent;
        for _ in 0..GENERATIONS {
            let Some(session) = next else { break };
            if let Some(found) = self.engine.workflow_of(session).await? {
                return Ok(Some(found));
            }
            // A deleted session has no parent.
            next = self.engine.session(session).await.ok().and_then(|session| session.parent);
        }
        Ok(None)
    }

    /// The named workflow; otherwise the caller's own, or the latest of the project. If none is named it must have one of the given
    /// statuses; an empty list allows any.
    pub(crate) async fn workflow(
        &self,
        given: Option<&str>,
        wanted: &[Status],
    ) -> Result<Workflow, Failure> {
        let user = &self.caller.user;
        if let Some(given) = given {
            return Ok(self.engine.own_workflow(given.trim(), user).await?);
        }
        let is_wanted = |status: Status| wanted.is_empty() || wanted.contains(&status);
        if let Some((id, _)) = self.own_task().await? {
            let own = self.engine.workflow(id).await?;
            if own.charter.user == *user && is_wanted(own.status()) {
                return Ok(own);
            }
        }
        let rows = self.engine.workflows_in(&self.caller.project, user).await?;
        match rows.into_iter().find(|row| is_wanted(row.status)) {
            Some(row) => Ok(self.engine.workflow(row.id).await?),
            None => Err(self.no_workflow(wanted)),
        }
    }

    fn no_workflow(&self, wanted: &[Status]) -> Failure {
        let wanted: Vec<&str> = wanted.iter().map(|status| status.as_str()).collect();
        let what = match wanted.as_slice() {
            [] => "no workflow".to_owned(),
            some => format!("no workflow that is {}", some.join(" or ")),
        };
        let hint = if wanted.is_empty() {
            "start_workflow begins one; another project's is found by its workflow_id"
        } else {
            "workflow_status shows the status of this project's workflow; start_workflow begins one"
        };
        Failure::new(format!("There is {what} in {}", self.caller.project.display()), hint)
    }
}
