//! Telling others of workflows. What was told is noted in the store: nobody is told twice because a process died.

use rethread_workflow::{Notice, NoticeKind, Workflow, WorkflowId};

use super::drive::Report;
use crate::Engine;
use crate::program::{Fault, Program};

/// Whether others may want to know.
pub(super) fn is_of_interest(report: &Report) -> bool {
    matches!(report, Report::Event(record) if NoticeKind::of(&record.event).is_some())
}

impl Engine {
    /// Tells others of what happened in a workflow since they were last told. What cannot be told does not stop the
    /// work: the user is told.
    pub(super) async fn tell_others(&self, program: &dyn Program, id: WorkflowId) {
        if let Err(error) = self.try_to_tell(program, id).await {
            program.note(&error.to_string());
        }
    }

    async fn try_to_tell(&self, program: &dyn Program, id: WorkflowId) -> Result<(), Fault> {
        let Some(herald) = program.herald()? else { return Ok(()) };
        let told = self.store.told_workflow(id).await.map_err(crate::Error::from)?;
        let mut workflow: Option<Workflow> = None;
        for record in &self.workflow_events(id, 0).await? {
            match &mut workflow {
                None => workflow = Workflow::create(id, &record.event, record.at),
                Some(workflow) => workflow.apply(&record.event, record.at),
            }
            let Some(workflow) = workflow.as_ref().filter(|_| record.no > told) else { continue };
            let masked = |text: &str| self.redactor.redact(text).text.into_owned();
            if let Some(notice) = Notice::of(workflow, record, masked) {
                for trouble in herald.deliver(&notice).await {
                    program.note(&trouble);
                }
                self.store.set_told(id, record.no).await.map_err(crate::Error::from)?;
            }
        }
        Ok(())
    }
}
