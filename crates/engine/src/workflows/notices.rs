//! Notices about workflows. Delivery is recorded in the store, so that a crash does not repeat them.

use rethread_workflow::{Notice, NoticeKind, Workflow, WorkflowId};

use super::drive::Report;
use crate::Engine;
use crate::program::{Fault, Program};

/// Whether an event may lead to a notice.
pub(super) fn is_of_interest(report: &Report) -> bool {
    matches!(report, Report::Event(record) if NoticeKind::of(&record.event).is_some())
}

impl Engine {
    /// Delivers the notices that are due. A failure does not stop the work; the user is told.
    pub(super) async fn tell_others(&self, program: &dyn Program, id: WorkflowId) {
        if let Err(error) = self.try_to_tell(program, id).await {
            program.note(&error.to_string());
        }
    }

    async fn try_to_tell(&self, program: &dyn Program, id: WorkflowId) -> Result<(), Fault> {
        let Some(notifier) = program.notifier()? else { return Ok(()) };
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
                for trouble in notifier.deliver(&notice).await {
                    program.note(&trouble);
                }
                self.store.set_told(id, record.no).await.map_err(crate::Error::from)?;
            }
        }
        Ok(())
    }
}
