//! What earlier sessions of a workflow said that a task needs, chosen as for any other context.

use rethread_domain::context::Limits;
use rethread_domain::{Seq, SessionId};
use rethread_workflow::brief::{Background, Origin};
use rethread_workflow::{Task, Workflow};

use crate::{Engine, Error, Logged as _};

/// What was said elsewhere takes at most this part of a brief,
const SHARE: u32 = 4;
/// and no more tokens than this.
const MOST_TOKENS: u32 = 2_000;
/// With fewer tokens there is room for a few words.
const LEAST_TOKENS: u32 = 200;
const MOST_SESSIONS: usize = 3;
/// How a session ended is told by so many of its last messages; what matters to the task may come from anywhere.
const LAST_MESSAGES: u32 = 4;
/// The first message of a task's session is its brief.
const BRIEF: Seq = 1;

impl Engine {
    /// What the earlier attempt at a task said, or else the tasks that it depends on, for a brief of so many tokens.
    pub(super) async fn background(
        &self,
        workflow: &Workflow,
        task: &Task,
        current: SessionId,
        tokens: u32,
    ) -> Vec<Background> {
        let sessions = sessions(workflow, task, current);
        let count = u32::try_from(sessions.len()).unwrap_or(u32::MAX);
        let each = (tokens / SHARE).min(MOST_TOKENS).checked_div(count).unwrap_or(0);
        if each < LEAST_TOKENS {
            return Vec::new();
        }
        let prompt = format!("{}\n{}", task.spec.title, task.spec.body);
        let limits = Limits { tokens: each, messages: LAST_MESSAGES, conversations: 1 };
        let mut background = Vec::new();
        for (of, session) in sessions {
            let told = match self.said_after(session, BRIEF, &prompt, limits).await {
                // It was deleted since.
                Err(Error::NotFound(_)) => continue,
                told => told.or_log("what an earlier session of a workflow said was not read"),
            };
            background.extend(
                told.flatten().map(|text| Background { from: Origin::Task(of.to_owned()), text }),
            );
        }
        background
    }
}

/// The session of the earlier attempt at the task, if there is one; otherwise the last ones of the tasks that it depends on.
fn sessions<'a>(
    workflow: &'a Workflow,
    task: &'a Task,
    current: SessionId,
) -> Vec<(&'a str, SessionId)> {
    let last = |task: &'a Task| {
        let session = task.sessions.iter().rfind(|session| **session != current)?;
        Some((task.spec.id.as_str(), *session))
    };
    if let Some(own) = last(task) {
        return vec![own];
    }
    let depends_on = task.spec.depends_on.iter().rev();
    depends_on.filter_map(|id| last(workflow.task(id)?)).take(MOST_SESSIONS).collect()
}
