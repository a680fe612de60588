//! The way in: a code that works once.

use askama::Template;
use axum::Router;
use axum::extract::RawQuery;
use axum::response::Response;
use axum::routing::get;

use super::frame::{Frame, page};
use crate::problem::Problem;
use crate::state::App;

pub(super) fn router() -> Router<App> {
    Router::new().route("/login", get(show))
}

#[derive(Template)]
#[template(path = "login.html")]
struct Login {
    frame: Frame,
    is_refused: bool,
    is_out: bool,
}

async fn show(RawQuery(query): RawQuery) -> Result<Response, Problem> {
    let query = query.unwrap_or_default();
    let frame = Frame::bare("Log in", None);
    page(&Login { frame, is_refused: query == "refused", is_out: query == "out" })
}
