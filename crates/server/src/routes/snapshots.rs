//! Snapshots of workflows: listed, in full, by their parts, compared.

use axum::extract::State;
use axum::response::Response;
use rethread_domain::workflow::{Snapshot, SnapshotSum, Workflow};
use rethread_engine::workflows::Comparison;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::ok;
use crate::access::{Caller, READ, Routes};
use crate::extract::{At, Params};
use crate::problem::Problem;
use crate::state::App;
use crate::views::snapshot::{
    ComparisonView, DecisionView, ErrorView, FeedbackView, GitView, SnapshotRowView, SnapshotView,
};
use crate::views::{Page, masked};

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

/// Snapshots of a workflow, the oldest first
#[utoipa::path(get, path = "/workflows/{id}/snapshots", tag = TAG, params(("id" = String, Path)),
    responses((status = 200, body = Page<SnapshotRowView>)))]
async fn list(
    State(app): State<App>,
    caller: Caller,
    At(id): At<String>,
) -> Result<Response, Problem> {
    let workflow = app.workflow(&caller, &id).await?;
    ok(&Page { items: rows(&app, &workflow)?, next: None })
}

/// All snapshots of a workflow, the oldest first.
pub(crate) fn rows(app: &App, workflow: &Workflow) -> Result<Vec<SnapshotRowView>, Problem> {
    workflow.snapshots.iter().map(|snapshot| row(app, snapshot)).collect()
}

/// A snapshot in a list, as clients see it.
pub(crate) fn row(app: &App, snapshot: &SnapshotSum) -> Result<SnapshotRowView, Problem> {
    masked(app.engine.redactor(), &SnapshotRowView::from(snapshot))
}

/// The snapshot that a text means, of a workflow that the caller may see.
pub(crate) async fn found(
    app: &App,
    caller: &Caller,
    id: &str,
    given: &str,
) -> Result<Snapshot, Problem> {
    let workflow = app.workflow(caller, id).await?;
    Ok(app.engine.snapshot(workflow.id, Some(given).filter(|given| *given != "latest")).await?)
}

/// A snapshot as clients see it.
pub(crate) fn view(app: &App, snapshot: &Snapshot) -> Result<SnapshotView, Problem> {
    masked(app.engine.redactor(), &SnapshotView::from(snapshot))
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
                At((id, snapshot)): At<(String, String)>,
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
    /// What was decided until then, and why
    decisions "/workflows/{id}/snapshots/{snapshot}/decisions" Page<DecisionView>,
        |whole| Page { items: whole.decisions, next: None };
    /// What went wrong until then, and what became of it
    errors "/workflows/{id}/snapshots/{snapshot}/errors" Page<ErrorView>,
        |whole| Page { items: whole.errors, next: None };
    /// What reviewers said until then
    feedback "/workflows/{id}/snapshots/{snapshot}/reviewer-feedback" Page<FeedbackView>,
        |whole| Page { items: whole.feedback, next: None };
    /// Where the repository stood then
    changes "/workflows/{id}/snapshots/{snapshot}/git-changes" GitView, |whole| whole.git;
}

/// Which two
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Both {
    /// The id of a snapshot, the beginning of it, or `latest`
    pub(crate) from: String,
    /// The same
    pub(crate) to: String,
}

/// How two snapshots of a workflow differ
#[utoipa::path(get, path = "/workflows/{id}/compare", tag = TAG, params(("id" = String, Path), Both),
    responses((status = 200, body = ComparisonView)))]
async fn compare(
    State(app): State<App>,
    caller: Caller,
    At(id): At<String>,
    Params(both): Params<Both>,
) -> Result<Response, Problem> {
    let from = found(&app, &caller, &id, &both.from).await?;
    let to = found(&app, &caller, &id, &both.to).await?;
    ok(&compared(&app, &from, &to)?)
}

/// How two snapshots differ, as clients see it.
pub(crate) fn compared(
    app: &App,
    from: &Snapshot,
    to: &Snapshot,
) -> Result<ComparisonView, Problem> {
    masked(app.engine.redactor(), &ComparisonView::from(Comparison::of(from, to)))
}
