//! The log of a workflow, latest first, one page at a time. Recent messages of its agents stand between the events; older ones
//! are in their sessions.

use askama::Template;
use jiff::Timestamp;
use rethread_domain::SessionId;
use rethread_engine::views::WorkflowEventView;
use rethread_engine::{Order, Span};
use rethread_workflow::{Event, EventRecord, Workflow};

use super::{describe, messages};
use crate::access::Caller;
use crate::problem::Problem;
use crate::state::App;

/// How many events a page has.
const EVENTS: u32 = 100;
/// Of how many sessions messages are shown.
const SESSIONS: usize = 4;
/// How many messages are shown in total.
const MESSAGES: usize = 60;

/// A line of the log.
pub(super) struct Line {
    /// Identifies the line on the page.
    pub(super) id: String,
    pub(super) at: Timestamp,
    /// The agent and its task.
    pub(super) by: Option<String>,
    pub(super) text: String,
    pub(super) tone: &'static str,
    /// The session that it is about (id, full and short), and the message in it.
    pub(super) session: Option<(String, String, String)>,
}

impl Line {
    fn of(line: WorkflowEventView) -> Option<Self> {
        let tone = match line.kind.as_str() {
            "TASK_FAILED" | "WORKFLOW_FAILED" => "bad",
            "CAPACITY_WARNING" | "WORKFLOW_BLOCKED" => "warn",
            "TASK_COMPLETED" | "WORKFLOW_COMPLETED" => "good",
            _ => "",
        };
        Some(Self {
            id: format!("e{}", line.no),
            at: line.at,
            by: None,
            text: line.text?,
            tone,
            session: line.session_id.map(|id| (id.clone(), describe::short(&id), String::new())),
        })
    }

    fn time(&self) -> String {
        self.at.strftime("%m-%d %H:%M:%S").to_string()
    }
}

#[derive(Template)]
#[template(path = "workflows/log.html")]
pub(super) struct Log {
    id: String,
    lines: Vec<Line>,
    /// The sessions whose messages are shown: the script reloads when they grow.
    sessions: String,
    /// The event before which the next page begins.
    older: Option<u32>,
    /// Whether this is an older page, which does not change any more.
    pub(super) is_older: bool,
}

impl Log {
    /// The latest events with what agents say, or the page before an event.
    pub(super) async fn of(
        app: &App,
        caller: &Caller,
        workflow: &Workflow,
        before: Option<u32>,
    ) -> Result<Self, Problem> {
        let to = before.map_or(u32::MAX, |before| before.saturating_sub(1));
        let span = Span { from: 1, to, order: Order::NewestFirst, limit: EVENTS };
        let records = app.engine.workflow_log(workflow.id, span).await?;
        let events: Vec<_> = records.iter().map(WorkflowEventView::from).collect();
        let events = app.engine.masked(&events)?.into_iter();
        let mut lines: Vec<Line> = events.filter_map(Line::of).collect();
        let mut sessions = Vec::new();
        if before.is_none() {
            sessions = at_work(workflow, &records);
            lines.extend(said(app, caller, &sessions).await?);
            // The sort is stable: of the same time, events stay before what they caused.
            lines.sort_by_key(|line| std::cmp::Reverse(line.at));
        }
        let sessions: Vec<String> = sessions.iter().map(|(id, _)| id.to_string()).collect();
        Ok(Self {
            id: workflow.id.to_string(),
            lines,
            sessions: sessions.join(" "),
            older: records.last().map(|last| last.no).filter(|no| *no > 1),
            is_older: before.is_some(),
        })
    }
}

/// The sessions that are, or recently were, worked in, each with its task.
fn at_work(workflow: &Workflow, latest: &[EventRecord]) -> Vec<(SessionId, String)> {
    let running = workflow.at_work().into_iter().map(|(on, session)| (session, on.to_owned()));
    let begun = latest.iter().filter_map(|record| match &record.event {
        Event::TaskBegan { task, session, .. } | Event::TaskMoved { task, session, .. } => {
            Some((*session, task.clone()))
        }
        Event::SessionBegan { on, session } => Some((*session, on.clone())),
        Event::Reviewed(feedback) => Some((feedback.session?, feedback.task.clone())),
        _ => None,
    });
    let mut found: Vec<(SessionId, String)> = Vec::new();
    for (session, task) in running.chain(begun) {
        if found.len() < SESSIONS && found.iter().all(|(known, _)| *known != session) {
            found.push((session, task));
        }
    }
    found
}

/// The latest messages of these sessions, latest first.
async fn said(
    app: &App,
    caller: &Caller,
    sessions: &[(SessionId, String)],
) -> Result<Vec<Line>, Problem> {
    let mut lines = Vec::new();
    for (id, task) in sessions {
        // A session may have been deleted while its workflow remains.
        let Ok(session) = app.session(caller, &id.to_string()).await else { continue };
        if session.deleted_at.is_some() {
            continue;
        }
        let span = Span::newest(u32::try_from(MESSAGES).unwrap_or(u32::MAX));
        let messages = app.engine.heads(*id, span).await?;
        lines.extend(
            messages.iter().filter_map(|message| messages::line(app, &session, task, message)),
        );
    }
    lines.sort_by_key(|line| std::cmp::Reverse(line.at));
    lines.truncate(MESSAGES);
    Ok(lines)
}
