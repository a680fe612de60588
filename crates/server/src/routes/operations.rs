//! For operators: liveness, readiness, metrics, and the state of the store.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use rethread_engine::views::StoreView;
use serde::Serialize;
use utoipa_axum::routes;

use super::{json, ok};
use crate::access::{ADMIN, Caller, Routes};
use crate::problem::Problem;
use crate::readiness;
use crate::state::App;

pub(crate) fn router() -> Routes {
    Routes::default().api(ADMIN, routes!(store))
}

#[derive(Debug, Serialize)]
struct Liveness {
    status: &'static str,
}

#[derive(Debug, Serialize)]
struct Readiness {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// Liveness: the process answers.
pub(crate) async fn healthz() -> Result<Response, Problem> {
    ok(&Liveness { status: "ok" })
}

/// Readiness: the store can be read and written, and the server is not stopping.
pub(crate) async fn readyz(State(app): State<App>) -> Result<Response, Problem> {
    match readiness::why_not_ready(&app).await {
        None => json(StatusCode::OK, &Readiness { status: "ok", reason: None }),
        Some(reason) => {
            let told = Readiness { status: "not ready", reason: Some(reason) };
            json(StatusCode::SERVICE_UNAVAILABLE, &told)
        }
    }
}

pub(crate) async fn metrics(State(app): State<App>) -> Result<Response, Problem> {
    let text = app
        .metrics
        .text()
        .map_err(|_| Problem::new("internal", "the counters cannot be written"))?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

/// Checks the whole store, which takes time in proportion to its size
#[utoipa::path(get, path = "/store", tag = "operations", responses((status = 200, body = StoreView)))]
async fn store(State(app): State<App>, _caller: Caller) -> Result<Response, Problem> {
    let engine = app.engine.clone();
    let handle = tokio::runtime::Handle::current();
    let looked = tokio::task::spawn_blocking(move || handle.block_on(engine.check()));
    let checked = looked.await.map_err(|_| Problem::new("internal", "the look broke off"))??;
    ok(&StoreView::from(&checked))
}
