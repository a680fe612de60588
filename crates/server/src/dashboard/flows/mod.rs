//! Pages about workflows: the list, one workflow with its tasks and runs, its snapshots, and what can be done with them.

mod act;
mod compare;
mod list;
mod log;
mod now;
mod runs;
mod show;
mod snapshot;
mod speech;
mod start;
mod told;

use axum::Router;
use axum::routing::{get, post};

use crate::state::App;

pub(super) fn router() -> Router<App> {
    Router::new()
        .route("/workflows", get(list::page).post(act::start))
        .route("/workflows/results", get(list::results))
        .route("/workflows/{id}", get(show::page))
        .route("/workflows/{id}/board", get(show::board))
        .route("/workflows/{id}/log", get(show::log))
        .route("/workflows/{id}/now", get(now::part))
        .route("/workflows/{id}/compare", get(compare::page))
        .route("/workflows/{id}/snapshots/{snapshot}", get(snapshot::page))
        .route("/workflows/{id}/pause", post(act::pause))
        .route("/workflows/{id}/resume", post(act::resume))
        .route("/workflows/{id}/{what}", post(act::say))
}
