//! Workflows, their snapshots, and what people say to them.

use utoipa_axum::router::OpenApiRouter;

use crate::state::App;

pub(crate) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
}
