//! What the trouble with workflows asks of the user.

use rethread_domain::workflow::{Refusal, Status};
use rethread_engine::Error;
use rethread_store as store;

use super::{BAD_INPUT, REFUSED, Report};

fn found(code: &'static str, exit: u8, hint: &str) -> Report {
    Report { code, exit, hint: Some(hint.to_owned()) }
}

pub(super) fn by_engine(error: &Error) -> Report {
    match error {
        Error::Plan(_) => found(
            "bad_plan",
            REFUSED,
            "mend the file and say it again; docs/guide/workflows.md has a plan to copy",
        ),
        Error::AmbiguousWorkflow { .. } => found("ambiguous_id", REFUSED, "give more of the id"),
        Error::NoSnapshot { .. } => found(
            "snapshot_not_found",
            REFUSED,
            "`rethread workflow snapshots ID` lists those of a workflow",
        ),
        Error::Workflow(refusal) => by_refusal(refusal),
        Error::WorkflowBusy(id) => {
            let id = id.short();
            let hint = format!(
                "`rethread workflow status {id}` shows it, `rethread workflow pause {id}` stops it"
            );
            found("workflow_busy", REFUSED, &hint)
        }
        _ => found("workflow_not_found", REFUSED, "`rethread workflow list` shows what there is"),
    }
}

pub(super) fn by_store(error: &store::Error) -> Report {
    use store::Error as E;
    match error {
        E::WorktreeTaken { by, .. } => {
            let id = by.short();
            let hint = format!(
                "`rethread workflow resume {id}` or `rethread workflow cancel {id}`, or give another folder with --worktree DIR"
            );
            found("worktree_taken", REFUSED, &hint)
        }
        E::WorkflowConflict(_) | E::LeaseLost(_) => found(
            "lease_lost",
            REFUSED,
            "another process runs this workflow now; nothing was written",
        ),
        E::EventTooLong { .. } | E::BadEvent(..) => {
            found("bad_input", BAD_INPUT, "what the plan or the issue says is too long")
        }
        _ => found("refused", REFUSED, "`rethread workflow list` shows what there is"),
    }
}

fn by_refusal(refusal: &Refusal) -> Report {
    use Refusal as R;
    let hint = match refusal {
        R::Already(id, Status::Paused) => {
            format!("`rethread workflow resume {}` goes on with it", id.short())
        }
        R::Already(id, _)
        | R::HasPlan(id)
        | R::Running(id)
        | R::Not(id, ..)
        | R::WaitsForNothing(id) => {
            format!("`rethread workflow status {}` shows how it stands", id.short())
        }
        R::Over(..) => "start a new one: `rethread workflow start PLAN`".to_owned(),
        R::Waits { id, .. } => {
            format!("`rethread workflow status {}` says how to answer", id.short())
        }
        R::Spent(id, _) => format!(
            "`rethread workflow resume {} --max-tokens N`, `--max-cost USD` or `--max-minutes M` allows more",
            id.short()
        ),
        R::NoTask(id, _) => format!("`rethread workflow status {}` lists its tasks", id.short()),
        R::Task { .. } | R::Stale { .. } => {
            "only tasks that failed, were skipped or wait can be retried; what is done stays done"
                .to_owned()
        }
    };
    Report { code: "refused", exit: REFUSED, hint: Some(hint) }
}
