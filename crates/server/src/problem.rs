//! Errors as problem details (RFC 9457), with a code of `engine::codes`.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rethread_engine::Error;
use rethread_engine::codes::Code;
use rethread_engine::program::Fault;
use serde::Serialize;
use utoipa::ToSchema;

/// Why a request was not carried out.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    pub(crate) code: &'static str,
    pub(crate) detail: String,
    pub(crate) hint: Option<String>,
    pub(crate) retry_after: Option<u64>,
}

/// The body of the response: `application/problem+json`.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct Body {
    /// Always `about:blank`: use `code` to tell problems apart.
    #[serde(rename = "type")]
    kind: &'static str,
    /// What this code means.
    title: &'static str,
    status: u16,
    /// One of a fixed set of codes, for programs.
    code: &'static str,
    /// What is wrong with this request, for people.
    detail: String,
    /// What to do next.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

impl Problem {
    pub(crate) fn new(code: &'static str, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), hint: None, retry_after: None }
    }

    #[must_use]
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Names the part of the request that the problem is about.
    #[must_use]
    pub(crate) fn of(self, part: &str) -> Self {
        Self { detail: format!("{part}: {}", self.detail), ..self }
    }

    /// Adds a `Retry-After`.
    #[must_use]
    pub(crate) fn after(self, seconds: u64) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    pub(crate) fn status(&self) -> StatusCode {
        let status = StatusCode::from_u16(Code::of(self.code).status);
        status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    pub(crate) fn title(&self) -> &'static str {
        Code::of(self.code).title
    }

    /// Another workflow works in the folder. It is not named, as it may be another user's.
    pub(crate) fn worktree_taken() -> Self {
        Self::new("worktree_taken", "another workflow works in this folder")
    }

    /// The session does not exist or is another user's; the answer does not say which.
    pub(crate) fn no_session(given: &str) -> Self {
        Error::NotFound(given.to_owned()).into()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let whole = self.clone();
        let (status, Code { name: code, title, .. }) = (self.status(), *Code::of(self.code));
        let body = Body {
            kind: "about:blank",
            title,
            status: status.as_u16(),
            code,
            detail: self.detail,
            hint: self.hint,
        };
        let text = serde_json::to_string(&body).unwrap_or_default();
        let mut response =
            (status, [(header::CONTENT_TYPE, "application/problem+json")], text).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        // For the log and the metrics, which see only the response.
        response.extensions_mut().insert(ProblemCode(code));
        // For people: `dashboard::shown` renders a page from it.
        response.extensions_mut().insert(whole);
        response
    }
}

/// The code of the problem in a response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProblemCode(pub(crate) &'static str);

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        if error.worktree_taken_by().is_some() {
            return Self::worktree_taken();
        }
        let code = error.code();
        if code == "internal" {
            tracing::error!(error = &error as &dyn std::error::Error, "internal error");
            // Details about the store are for the log, not for callers.
            return Self::new(code, "the server failed; its log says more");
        }
        let hint = over_http(code).map(str::to_owned).or_else(|| error.hint());
        Self { hint, ..Self::new(code, rethread_domain::quote::safe(&error.to_string())) }
    }
}

/// The hint over HTTP, where the command line would have another.
fn over_http(code: &str) -> Option<&'static str> {
    match code {
        "bad_id" | "session_not_found" => {
            Some("GET /api/v1/sessions lists the sessions and their ids")
        }
        "message_not_found" => Some("GET /api/v1/sessions/{id}/messages lists the messages"),
        "workflow_not_found" => Some("GET /api/v1/workflows lists the workflows"),
        "snapshot_not_found" => Some("GET /api/v1/workflows/{id}/snapshots lists the snapshots"),
        "token_not_found" => Some("GET /api/v1/tokens lists the tokens"),
        _ => None,
    }
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Engine(error) => error.into(),
            Fault::Refused { code, message, hint } => {
                Self { hint, ..Self::new(code, rethread_domain::quote::safe(&message)) }
            }
        }
    }
}

macro_rules! from_engine {
    ($($error:ty),*) => {
        $(impl From<$error> for Problem {
            fn from(error: $error) -> Self {
                Error::from(error).into()
            }
        })*
    };
}

from_engine!(
    rethread_domain::id::Invalid,
    rethread_domain::session::Refusal,
    rethread_domain::context::NotPositive
);
