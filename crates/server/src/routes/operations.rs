//! For whoever keeps the server: does it live, can it serve, what does it count, how is the store.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::{json, ok};
use crate::access::{ADMIN, Caller, Routes};
use crate::problem::Problem;
use crate::ready;
use crate::state::App;

pub(crate) fn router() -> Routes {
    Routes::default().api(ADMIN, routes!(store))
}

#[derive(Debug, Serialize)]
struct Lives {
    status: &'static str,
}

#[derive(Debug, Serialize)]
struct Readiness {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// The process answers.
pub(crate) async fn healthz() -> Result<Response, Problem> {
    ok(&Lives { status: "ok" })
}

/// It can serve: the store can be read and written, and it is not about to end.
pub(crate) async fn readyz(State(app): State<App>) -> Result<Response, Problem> {
    match ready::trouble(&app).await {
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

/// How the store stands
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StoreView {
    /// What is damaged in the file itself
    damage: Vec<String>,
    /// Records that do not match their checksums
    records: Vec<String>,
    /// What differs from the log and can be rebuilt
    drift: Vec<String>,
    unindexed: u64,
    sessions: u64,
    deleted_sessions: u64,
    messages: u64,
    file_bytes: u64,
    wal_bytes: u64,
    free_bytes: u64,
    blob_bytes: u64,
    schema: i64,
}

/// Looks through the whole store, which takes as long as it is large
#[utoipa::path(get, path = "/store", tag = "operations", responses((status = 200, body = StoreView)))]
async fn store(State(app): State<App>, _caller: Caller) -> Result<Response, Problem> {
    let engine = app.engine.clone();
    let handle = tokio::runtime::Handle::current();
    let looked = tokio::task::spawn_blocking(move || handle.block_on(engine.check()));
    let checked = looked.await.map_err(|_| Problem::new("internal", "the look broke off"))??;
    let (health, usage) = (checked.health, checked.usage);
    ok(&StoreView {
        damage: health.damage,
        records: health.records.iter().map(ToString::to_string).collect(),
        drift: health.drift,
        unindexed: health.unindexed,
        sessions: usage.sessions,
        deleted_sessions: usage.deleted_sessions,
        messages: usage.messages,
        file_bytes: usage.file_bytes,
        wal_bytes: usage.wal_bytes,
        free_bytes: usage.free_bytes,
        blob_bytes: usage.blob_bytes,
        schema: usage.schema,
    })
}
