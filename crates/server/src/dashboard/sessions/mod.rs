//! Pages about sessions: the list with its search, one session with its conversation, and what can be done with it.

mod act;
mod asks;
mod list;
mod send;
mod show;
mod speech;

use axum::Router;
use axum::routing::{get, post};

use crate::state::App;

pub(super) fn router() -> Router<App> {
    Router::new()
        .route("/", get(list::page))
        .route("/search/results", get(list::results))
        .route("/sessions/{id}", get(show::page))
        .route("/sessions/{id}/head", get(show::head))
        .route("/sessions/{id}/talk", get(show::talk))
        .route("/sessions/{id}/questions", get(asks::questions))
        .route("/sessions/{id}/answer", post(act::answer))
        .route("/sessions/{id}/rename", post(act::rename))
        .route("/sessions/{id}/fork", post(act::fork))
        .route("/sessions/{id}/send", post(act::send))
        .route("/sessions/{id}/cancel", post(act::cancel))
        .route("/sessions/{id}/{what}", post(act::act))
}
