//! Hints: what to do next about an error. The default is in the table of codes; some errors know more.

use rethread_domain::Status;
use rethread_domain::quote;
use rethread_domain::session::Refusal;
use rethread_store as store;
use rethread_workflow as workflow;

use crate::Error;
use crate::agents::AgentError;
use crate::codes::Code;
use crate::entry::BadEntry;

const EXPORTED: &str = "`rethread import` reads what `rethread export` writes as jsonl or json; nothing of the session was imported";

impl Error {
    /// What to do next, for users of the command line.
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Refused(refusal) => return by_refusal(*refusal),
            Self::Workflow(refusal) => return Some(by_workflow(refusal)),
            Self::Agent { agent, trouble } => return Some(trouble.hint(agent, true)),
            Self::Unanswered { resets_at: Some(at), .. } => {
                return Some(format!(
                    "the limit is lifted at {at}; until then another agent can go on: `rethread continue --with AGENT`"
                ));
            }
            Self::Busy { session, .. } => {
                let id = session.short();
                return Some(format!(
                    "`rethread send {id} PROMPT`, without other options, lets that process send it; `rethread stop {id}` ends it"
                ));
            }
            Self::WorkflowBusy(id)
            | Self::Store(store::Error::LeaseLost(id))
            | Self::NoSnapshot { workflow: id, .. } => return with_id(self.code(), &id.short()),
            Self::NoMessage(id, _) => return with_id(self.code(), &id.short()),
            Self::Entry(BadEntry::TooLong(..)) => {
                "the setting record.max_message_bytes allows longer ones"
            }
            Self::Empty("query") => "give words that were said",
            Self::Empty(_) => "say what the agent is to do",
            Self::Entry(_) => "`rethread record --help` shows what a line looks like",
            Self::Import { .. } | Self::Store(store::Error::BadLog(..)) => EXPORTED,
            Self::Store(store::Error::CannotOpen(why))
                if why.contains("postgres://") || why.contains("PostgreSQL") =>
            {
                "check the address, whether the server runs, and whether it lets this user in"
            }
            Self::Store(store::Error::IdReserved(_)) => "omit the id: the store gives one",
            Self::Store(store::Error::EventTooLong { .. } | store::Error::BadEvent(..)) => {
                "shorten what the plan or the issue says"
            }
            Self::Store(store::Error::WorkflowExists(_) | store::Error::WorkflowOpen(..)) => {
                "`rethread workflow list` lists the workflows"
            }
            Self::Store(store::Error::WorktreeTaken { by, .. }) => {
                let id = by.short();
                return Some(format!(
                    "`rethread workflow resume {id}` or `rethread workflow cancel {id}`, or give another folder with --worktree DIR"
                ));
            }
            _ => return Code::of(self.code()).hint(),
        };
        Some(text.to_owned())
    }
}

/// The hint of the table, with the id of a session or workflow.
fn with_id(code: &str, id: &str) -> Option<String> {
    Code::of(code).hint().map(|hint| hint.replace("ID", id))
}

fn by_refusal(refusal: Refusal) -> Option<String> {
    let text = match refusal {
        Refusal::Archived(id) | Refusal::Completed(id) | Refusal::Deleted(id) => {
            return with_id(Error::from(refusal).code(), &id.short());
        }
        Refusal::Already(id, Status::Paused) => {
            format!("`rethread activate {}` takes it up again", id.short())
        }
        Refusal::Already(id, _) => format!("`rethread show {}` shows its status", id.short()),
        Refusal::NotArchived(_) => "`rethread list --status archived` shows those that are".into(),
        Refusal::NotDeleted(_) => "`rethread list --deleted` shows those that are".into(),
    };
    Some(text)
}

fn by_workflow(refusal: &workflow::Refusal) -> String {
    use workflow::{Refusal as R, Status};
    match refusal {
        R::Already(id, Status::Paused) => {
            format!("`rethread workflow resume {}` goes on with it", id.short())
        }
        R::Already(id, _)
        | R::HasPlan(id)
        | R::Running(id)
        | R::Not(id, ..)
        | R::WaitsForNothing(id) => {
            format!("`rethread workflow status {}` shows its status", id.short())
        }
        R::Over(..) => "start a new one: `rethread workflow start PLAN`".to_owned(),
        R::Waits { id, failed: Some(task), .. } => {
            let (id, task) = (id.short(), quote::safe(task));
            format!(
                "`rethread workflow retry {task} {id}` runs it again (`--with AGENT`: with another agent), `rethread workflow skip {task} {id}` goes on without it"
            )
        }
        R::Waits { id, .. } => {
            let id = id.short();
            format!(
                "answer it with `rethread workflow approve {id}`, `… retry TASK {id}` or `… skip TASK {id}`; `rethread workflow status {id}` says which"
            )
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
    }
}

impl AgentError {
    /// What to do about it. Earlier messages are kept; `is_recorded` tells whether this request is.
    pub fn hint(&self, agent: &str, is_recorded: bool) -> String {
        let usual = || Code::of(self.code()).hint().unwrap_or_default();
        let fresh = match self {
            Self::Nonsense { what, .. } if what == "initialize" => {
                return "check its command in `rethread config show`: some agents speak ACP only with an \
                        argument such as --acp"
                    .to_owned();
            }
            Self::TimedOut { .. } => "the settings under [talk] allow more time".to_owned(),
            Self::Nonsense { .. } | Self::Refused { .. } => {
                "try again, or with another agent".to_owned()
            }
            Self::Cancelled => "ask again".to_owned(),
            Self::Ended { .. } => {
                format!("`rethread agents {agent} --probe` tries whether it starts")
            }
            _ => return usual(),
        };
        if is_recorded { usual() } else { format!("nothing of this was recorded; {fresh}") }
    }

    /// The code of the error.
    pub const fn code(&self) -> &'static str {
        match self {
            // What the agent refuses is the request.
            Self::Refused { .. } => "agent_refused",
            other => other.name(),
        }
    }
}
