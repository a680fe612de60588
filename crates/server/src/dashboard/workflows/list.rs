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
use crate::dashboard::humanize::{self, Moment, some};
use crate::extract::QueryParams;
use crate::problem::Problem;
use crate::routes::workflows::{ListParams, listed};
use crate::state::App;

/// The filters. Browsers submit empty fields too: an empty field means no filter.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default)]
pub(super) struct Filters {
    status: String,
    worktree: String,
    user: String,
    cursor: String,
    notice: Option<String>,
}

impl Filters {
    fn is_filtered(&self) -> bool {
        [&self.status, &self.worktree, &self.user].into_iter().any(|text| some(text).is_some())
    }

    /// The filters as a query string, with another cursor.
    fn query(&self, cursor: &str) -> String {
        humanize::query(&[
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
            worktree_name: humanize::last_part(&row.worktree).to_owned(),
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
    /// The cursor of the next page.
    older: Option<String>,
    is_first: bool,
    is_filtered: bool,
    is_admin: bool,
}

#[derive(Template)]
#[template(path = "workflows/list.html")]
struct List {
    frame: Frame,
    filters: Filters,
    statuses: Vec<(&'static str, String)>,
    start: Start,
    fragment: String,
    results: Results,
}

async fn found(app: &App, caller: &Caller, filters: &Filters) -> Result<Results, Problem> {
    let wanted = ListParams {
        user: some(&filters.user),
        status: some(&filters.status),
        worktree: some(&filters.worktree),
        cursor: some(&filters.cursor),
        limit: None,
    };
    let page = listed(app, caller, wanted).await?;
    Ok(Results {
        rows: page.items.into_iter().map(|row| Row::of(app, row)).collect(),
        older: page.next.map(|cursor| format!("/workflows?{}", filters.query(&cursor))),
        is_first: filters.cursor.is_empty(),
        is_filtered: filters.is_filtered(),
        is_admin: caller.is_admin(),
    })
}

pub(super) async fn page(
    State(app): State<App>,
    caller: Caller,
    QueryParams(filters): QueryParams<Filters>,
) -> Result<Response, Problem> {
    let start = Start::new(&app)?;
    with(&app, &caller, filters, start).await
}

/// The list, with the content of the form that starts a workflow.
pub(super) async fn with(
    app: &App,
    caller: &Caller,
    filters: Filters,
    start: Start,
) -> Result<Response, Problem> {
    let after = app.engine.feed_head().await?;
    let results = found(app, caller, &filters).await?;
    let frame = Frame::new("Workflows", Nav::Workflows, caller).notice(filters.notice.as_deref());
    frame::page(&List {
        frame: frame.live(after),
        statuses: Status::ALL.iter().map(|one| (one.as_str(), plain(one.as_str()))).collect(),
        start,
        fragment: format!("/workflows/results?{}", filters.query(&filters.cursor)),
        results,
        filters,
    })
}

/// The results alone, for the script.
pub(super) async fn results(
    State(app): State<App>,
    caller: Caller,
    QueryParams(filters): QueryParams<Filters>,
) -> Result<Response, Problem> {
    frame::page(&found(&app, &caller, &filters).await?)
}
