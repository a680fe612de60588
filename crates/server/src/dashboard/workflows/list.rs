//! The list of workflows.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use rethread_engine::views::WorkflowRowView;
use rethread_workflow::Status;
use serde::Deserialize;

use super::describe::{self, plain};
use super::start::Start;
use crate::access::Caller;
use crate::dashboard::frame::{self, Frame, Nav};
use crate::dashboard::words::{self, Moment, some};
use crate::extract::Params;
use crate::problem::Problem;
use crate::routes::workflows::{Listed, listed};
use crate::state::App;

/// Which ones. Forms send their empty fields too: an empty text is no wish.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    status: String,
    worktree: String,
    user: String,
    cursor: String,
    told: Option<String>,
}

impl Asked {
    fn is_filtered(&self) -> bool {
        [&self.status, &self.worktree, &self.user].into_iter().any(|text| some(text).is_some())
    }

    /// The same as part of an address, from another place in the list on.
    fn query(&self, cursor: &str) -> String {
        words::query(&[
            ("status", &self.status),
            ("worktree", &self.worktree),
            ("user", &self.user),
            ("cursor", cursor),
        ])
    }
}

struct Row {
    id: String,
    short: String,
    title: String,
    status: String,
    words: String,
    user: String,
    agent: String,
    worktree: String,
    worktree_name: String,
    done: u32,
    total: u32,
    session: u32,
    next: Option<String>,
    made: Moment,
    changed: Moment,
}

impl Row {
    fn of(app: &App, row: WorkflowRowView) -> Self {
        let now = app.engine.clock().now();
        Self {
            short: describe::short(&row.id),
            id: row.id,
            title: titled(row.title),
            words: plain(&row.status),
            status: row.status,
            user: row.user,
            agent: row.agent,
            worktree_name: words::last_part(&row.worktree).to_owned(),
            worktree: row.worktree,
            done: row.tasks_completed,
            total: row.tasks_total,
            session: row.session_count,
            next: row.next_task,
            made: Moment::of(row.created_at, now),
            changed: Moment::of(row.updated_at, now),
        }
    }
}

pub(super) fn titled(title: String) -> String {
    if title.trim().is_empty() { "Untitled".to_owned() } else { title }
}

#[derive(Template)]
#[template(path = "workflows/results.html")]
struct Results {
    rows: Vec<Row>,
    /// Where the list goes on.
    older: Option<String>,
    is_first: bool,
    is_filtered: bool,
    is_admin: bool,
}

#[derive(Template)]
#[template(path = "workflows/list.html")]
struct List {
    frame: Frame,
    asked: Asked,
    statuses: Vec<(&'static str, String)>,
    start: Start,
    fragment: String,
    results: Results,
}

async fn found(app: &App, caller: &Caller, asked: &Asked) -> Result<Results, Problem> {
    let wanted = Listed {
        user: some(&asked.user),
        status: some(&asked.status),
        worktree: some(&asked.worktree),
        cursor: some(&asked.cursor),
        limit: None,
    };
    let page = listed(app, caller, wanted).await?;
    Ok(Results {
        rows: page.items.into_iter().map(|row| Row::of(app, row)).collect(),
        older: page.next.map(|cursor| format!("/workflows?{}", asked.query(&cursor))),
        is_first: asked.cursor.is_empty(),
        is_filtered: asked.is_filtered(),
        is_admin: caller.is_admin(),
    })
}

pub(super) async fn page(
    State(app): State<App>,
    caller: Caller,
    Params(asked): Params<Asked>,
) -> Result<Response, Problem> {
    let start = Start::new(&app)?;
    with(&app, &caller, asked, start).await
}

/// The list, with the form that starts another as it stands.
pub(super) async fn with(
    app: &App,
    caller: &Caller,
    asked: Asked,
    start: Start,
) -> Result<Response, Problem> {
    let after = app.engine.feed_head().await?;
    let results = found(app, caller, &asked).await?;
    let frame = Frame::new("Workflows", Nav::Workflows, caller).notice(asked.told.as_deref());
    frame::page(&List {
        frame: frame.live(after),
        statuses: Status::ALL.iter().map(|one| (one.as_str(), plain(one.as_str()))).collect(),
        start,
        fragment: format!("/workflows/results?{}", asked.query(&asked.cursor)),
        results,
        asked,
    })
}

/// The list alone, for the script.
pub(super) async fn results(
    State(app): State<App>,
    caller: Caller,
    Params(asked): Params<Asked>,
) -> Result<Response, Problem> {
    frame::page(&found(&app, &caller, &asked).await?)
}
