//! The event stream, over WebSocket and as server-sent events.

use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::http::{HeaderMap, header};
use axum::response::Response;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use crate::access::{Caller, Routes, STREAM};
use crate::extract::QueryParams;
use crate::live;
use crate::problem::Problem;
use crate::state::App;

pub(crate) fn router() -> Routes {
    Routes::default().api(STREAM, routes!(events))
}

/// Where the event stream starts
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventParams {
    /// The number of the last event that was seen; without it, the stream starts at the present
    after: Option<u64>,
}

/// Live events, without gaps or repetitions across reconnects and restarts
///
/// A WebSocket if the request asks for one: each event is a text frame. Otherwise server-sent events, for which
/// `Last-Event-ID` counts like `after`. A client that does not keep up is disconnected, and can continue where it was.
#[utoipa::path(get, path = "/events", tag = "events", params(EventParams),
    responses((status = 200, content_type = "text/event-stream", body = String), (status = 101)))]
async fn events(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    QueryParams(from): QueryParams<EventParams>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let last = headers.get("last-event-id").map(|last| {
        let number = last.to_str().ok().and_then(|text| text.trim().parse().ok());
        number.ok_or_else(|| Problem::new("bad_input", "Last-Event-ID is not a number"))
    });
    let after = match last.transpose()? {
        Some(last) => Some(last),
        None => from.after,
    };
    match upgrade {
        Ok(upgrade) => live::ws(&app, &caller, after, upgrade).await,
        Err(_) if headers.contains_key(header::UPGRADE) => {
            Err(Problem::new("bad_request", "this is not a WebSocket request"))
        }
        Err(_) => live::sse(&app, &caller, after).await,
    }
}
