//! The pages: HTML made here, readable without a script; a small script of our own keeps them live.

use axum::Router;

use crate::state::App;

pub(crate) fn router() -> Router<App> {
    Router::new()
}
