//! The login page, which takes a single-use code.

use askama::Template;
use axum::extract::RawQuery;
use axum::response::Response;

use super::frame::{Frame, page};
use crate::access::{OPEN, Routes};
use crate::problem::Problem;

pub(super) fn router() -> Routes {
    Routes::default().get(OPEN, "/login", show)
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
