//! Pages about workflows.

use axum::Router;

use crate::state::App;

pub(super) fn router() -> Router<App> {
    Router::new()
}
