//! The REST API: one file for each subject.

pub(crate) mod agents;
pub(crate) mod answers;
pub(crate) mod events;
pub(crate) mod messages;
pub(crate) mod operations;
pub(crate) mod prompts;
pub(crate) mod search;
pub(crate) mod sessions;
pub(crate) mod snapshots;
pub(crate) mod tokens;
#[cfg(test)]
mod workflow_tests;
pub(crate) mod workflows;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::problem::Problem;

/// A JSON response.
pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Result<Response, Problem> {
    let text = serde_json::to_string(value)
        .map_err(|_| Problem::new("internal", "the answer cannot be written"))?;
    let kind = HeaderValue::from_static("application/json");
    Ok((status, [(header::CONTENT_TYPE, kind)], text).into_response())
}

pub(crate) fn ok(value: &impl Serialize) -> Result<Response, Problem> {
    json(StatusCode::OK, value)
}

/// A JSON response with an `ETag`, or 304 if the caller has it already.
pub(crate) fn tagged(
    headers: &HeaderMap,
    tag: &str,
    answer: impl FnOnce() -> Result<Response, Problem>,
) -> Result<Response, Problem> {
    let tag = format!("\"{tag}\"");
    let value =
        HeaderValue::from_str(&tag).map_err(|_| Problem::new("internal", "a tag is not one"))?;
    let known =
        headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|known| known.to_str().ok());
    let is_known = known.flat_map(|known| known.split(',')).any(|known| {
        let known = known.trim();
        known == "*" || known.trim_start_matches("W/") == tag
    });
    let mut response = if is_known {
        (StatusCode::NOT_MODIFIED, Body::empty()).into_response()
    } else {
        answer()?
    };
    let headers = response.headers_mut();
    headers.insert(header::ETAG, value);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    Ok(response)
}
