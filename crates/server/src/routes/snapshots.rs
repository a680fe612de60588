//! Snapshots of workflows: list, read whole or in parts, compare.

use axum::extract::State;
use axum::response::Response;
use rethread_engine::views::{
    Comparison, DecisionView, ErrorView, FeedbackView, GitView, SnapshotRowView, SnapshotView,
};
use rethread_workflow::{Snapshot, SnapshotSum, Workflow};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::ok;
use crate::access::{Caller, READ, Routes};
use crate::extract::{PathParams, QueryParams};
use crate::problem::Problem;
use crate::state::App;
use crate::views::Page;

const TAG: &str = "snapshots";

pub(crate) fn router() -> Routes {
    Routes::default()
        .api(READ, routes!(list))
        .api(READ, routes!(read))
        .api(READ, routes!(decisions))
        .api(READ, routes!(errors))
        .api(READ, routes!(feedback))
        .api(READ, routes!(changes))
        .api(READ, routes!(compare))
}

/// Snapshots of a workflow, oldest first
#[utoipa::path(get, path = "/workflows/{id}/snapshots", tag = TAG, params(("id" = String, Path)),
    responses((status = 200, body = Page<SnapshotRowView>)))]
async fn list(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Response, Problem> {
    let workflow = app.workflow(&caller, &id).await?;
    ok(&Page { items: rows(&app, &workflow)?, next: None })
}

/// All snapshots of a workflow, oldest first.
pub(crate) fn rows(app: &App, workflow: &Workflow) -> Result<Vec<SnapshotRowView>, Problem> {
    workflow.snapshots.iter().map(|snapshot| row(app, snapshot)).collect()
}

/// The view of a snapshot in a list.
pub(crate) fn row(app: &App, snapshot: &SnapshotSum) -> Result<SnapshotRowView, Problem> {
    Ok(app.engine.masked(&SnapshotRowView::from(snapshot))?)
}

/// Finds a snapshot by its id or a prefix, in a workflow that the caller may see.
pub(crate) async fn found(
    app: &App,
    caller: &Caller,
    id: &str,
    given: &str,
) -> Result<Snapshot, Problem> {
    let workflow = app.workflow(caller, id).await?;
    Ok(app.engine.snapshot(workflow.id, Some(given).filter(|given| *given != "latest")).await?)
}

/// The view of a snapshot.
pub(crate) fn view(app: &App, snapshot: &Snapshot) -> Result<SnapshotView, Problem> {
    Ok(app.engine.masked(&SnapshotView::from(snapshot))?)
}

macro_rules! parts {
    ($($(#[$doc:meta])* $name:ident $path:literal $body:ty, $part:expr;)*) => {
        $(
            $(#[$doc])*
            #[utoipa::path(get, path = $path, tag = TAG,
                params(("id" = String, Path), ("snapshot" = String, Path, description = "Its id, the beginning of it, or `latest`")),
                responses((status = 200, body = $body)))]
            async fn $name(
                State(app): State<App>,
                caller: Caller,
                PathParams((id, snapshot)): PathParams<(String, String)>,
            ) -> Result<Response, Problem> {
                let part: fn(SnapshotView) -> $body = $part;
                let snapshot = found(&app, &caller, &id, &snapshot).await?;
                ok(&part(view(&app, &snapshot)?))
            }
        )*
    };
}

parts! {
    /// A snapshot in full
    read "/workflows/{id}/snapshots/{snapshot}" SnapshotView, |whole| whole;
    /// Decisions so far, and their reasons
    decisions "/workflows/{id}/snapshots/{snapshot}/decisions" Page<DecisionView>,
        |whole| Page { items: whole.decisions, next: None };
    /// Errors so far, and how they were resolved
    errors "/workflows/{id}/snapshots/{snapshot}/errors" Page<ErrorView>,
        |whole| Page { items: whole.errors, next: None };
    /// Review feedback so far
    feedback "/workflows/{id}/snapshots/{snapshot}/reviewer-feedback" Page<FeedbackView>,
        |whole| Page { items: whole.feedback, next: None };
    /// The state of the repository at that time
    changes "/workflows/{id}/snapshots/{snapshot}/git-changes" GitView, |whole| whole.git;
}

/// Which two snapshots
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct CompareParams {
    /// The id of a snapshot, a prefix of it, or `latest`
    pub(crate) from: String,
    /// The same
    pub(crate) to: String,
}

/// Compares two snapshots of a workflow
#[utoipa::path(get, path = "/workflows/{id}/compare", tag = TAG, params(("id" = String, Path), CompareParams),
    responses((status = 200, body = Comparison)))]
async fn compare(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(both): QueryParams<CompareParams>,
) -> Result<Response, Problem> {
    let from = found(&app, &caller, &id, &both.from).await?;
    let to = found(&app, &caller, &id, &both.to).await?;
    ok(&app.engine.masked(&Comparison::of(&from, &to))?)
}
