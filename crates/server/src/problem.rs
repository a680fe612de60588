//! What is said when something cannot be done: RFC 9457, with a code from one table.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rethread_engine::Error;
use rethread_engine::program::Fault;
use serde::Serialize;
use utoipa::ToSchema;

/// Every code there is: what programs may rely on.
pub(crate) const CODES: &[(&str, StatusCode, &str)] = &[
    ("bad_request", StatusCode::BAD_REQUEST, "The request cannot be read"),
    ("bad_input", StatusCode::UNPROCESSABLE_ENTITY, "The request does not fit"),
    ("bad_id", StatusCode::UNPROCESSABLE_ENTITY, "This is not an id"),
    ("bad_name", StatusCode::UNPROCESSABLE_ENTITY, "This name is not allowed"),
    ("bad_cursor", StatusCode::UNPROCESSABLE_ENTITY, "This cursor was not given by this server"),
    ("limit_not_positive", StatusCode::UNPROCESSABLE_ENTITY, "Limits begin at 1"),
    ("unauthenticated", StatusCode::UNAUTHORIZED, "A token is needed"),
    ("forbidden", StatusCode::FORBIDDEN, "The token's role does not allow this"),
    ("wrong_host", StatusCode::FORBIDDEN, "This server has another name"),
    ("wrong_origin", StatusCode::FORBIDDEN, "Pages of other sites get no answer"),
    ("not_found", StatusCode::NOT_FOUND, "There is no such page"),
    ("session_not_found", StatusCode::NOT_FOUND, "There is no such session"),
    ("message_not_found", StatusCode::NOT_FOUND, "There is no such message"),
    ("workflow_not_found", StatusCode::NOT_FOUND, "There is no such workflow"),
    ("snapshot_not_found", StatusCode::NOT_FOUND, "There is no such snapshot"),
    ("turn_not_found", StatusCode::NOT_FOUND, "There is no such turn"),
    ("question_not_found", StatusCode::NOT_FOUND, "There is no such question"),
    ("token_not_found", StatusCode::NOT_FOUND, "There is no such token"),
    ("unknown_agent", StatusCode::UNPROCESSABLE_ENTITY, "There is no such agent"),
    ("agent_not_installed", StatusCode::CONFLICT, "The agent is not installed here"),
    ("unknown_option", StatusCode::UNPROCESSABLE_ENTITY, "The question has no such option"),
    ("method_not_allowed", StatusCode::METHOD_NOT_ALLOWED, "This cannot be done here"),
    ("ambiguous_id", StatusCode::CONFLICT, "The id may mean several"),
    ("refused", StatusCode::CONFLICT, "It does not fit the state"),
    ("session_archived", StatusCode::CONFLICT, "The session is archived"),
    ("session_completed", StatusCode::CONFLICT, "The session is completed"),
    ("session_deleted", StatusCode::CONFLICT, "The session is deleted"),
    ("session_exists", StatusCode::CONFLICT, "The session is there already"),
    ("id_taken", StatusCode::CONFLICT, "The message id is taken"),
    ("key_reused", StatusCode::CONFLICT, "The idempotency key stands for another request"),
    ("events_ahead", StatusCode::CONFLICT, "The events have not come so far"),
    ("conflict", StatusCode::CONFLICT, "Somebody else was quicker"),
    ("conversation_busy", StatusCode::CONFLICT, "Another process talks in the conversation"),
    ("taken", StatusCode::CONFLICT, "Another process had begun with it, and goes on"),
    ("no_answer", StatusCode::BAD_GATEWAY, "The agent gave no answer"),
    ("model_error", StatusCode::BAD_GATEWAY, "The model behind the agent failed"),
    ("usage_limit", StatusCode::BAD_GATEWAY, "A usage limit of the model is reached"),
    ("question_closed", StatusCode::CONFLICT, "The question is not open any more"),
    ("workflow_busy", StatusCode::CONFLICT, "Another process runs the workflow"),
    ("command_hidden", StatusCode::CONFLICT, "The command is not shown whole here"),
    ("worktree_taken", StatusCode::CONFLICT, "Another workflow works in this folder"),
    ("lease_lost", StatusCode::CONFLICT, "Another process runs the workflow now"),
    ("workflow_not_begun", StatusCode::CONFLICT, "The workflow was made, and did not begin"),
    ("bad_plan", StatusCode::UNPROCESSABLE_ENTITY, "The plan cannot be used"),
    ("body_too_large", StatusCode::PAYLOAD_TOO_LARGE, "The request is too long"),
    ("unsupported_media_type", StatusCode::UNSUPPORTED_MEDIA_TYPE, "This form cannot be read"),
    ("too_many_requests", StatusCode::TOO_MANY_REQUESTS, "Too many requests"),
    ("too_many_streams", StatusCode::TOO_MANY_REQUESTS, "Too many event clients"),
    ("too_many_turns", StatusCode::TOO_MANY_REQUESTS, "Too many agents are at work"),
    ("agent_failed", StatusCode::BAD_GATEWAY, "The agent did not answer"),
    ("stopping", StatusCode::SERVICE_UNAVAILABLE, "The server is stopping"),
    ("store_locked", StatusCode::SERVICE_UNAVAILABLE, "Another process has been writing for long"),
    ("store_read_only", StatusCode::SERVICE_UNAVAILABLE, "The store cannot be written to"),
    ("store_not_open", StatusCode::SERVICE_UNAVAILABLE, "The store cannot be opened"),
    ("storage_full", StatusCode::INSUFFICIENT_STORAGE, "No space is left for the store"),
    ("store_damaged", StatusCode::INTERNAL_SERVER_ERROR, "The store is damaged"),
    ("internal", StatusCode::INTERNAL_SERVER_ERROR, "This is a fault of the server"),
];

/// Why a request was not carried out.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    pub(crate) code: &'static str,
    pub(crate) detail: String,
    pub(crate) hint: Option<String>,
    pub(crate) retry_after: Option<u64>,
}

/// As it is sent: `application/problem+json`.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct Body {
    /// `about:blank`: the code says which one it is.
    #[serde(rename = "type")]
    kind: &'static str,
    /// What this code means.
    title: &'static str,
    status: u16,
    /// One of a fixed set: for programs.
    code: &'static str,
    /// What is wrong with this request: for people.
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

    /// The same, said of one part of the request.
    #[must_use]
    pub(crate) fn of(self, part: &str) -> Self {
        Self { detail: format!("{part}: {}", self.detail), ..self }
    }

    /// The same, with when to come again.
    #[must_use]
    pub(crate) fn after(self, seconds: u64) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    pub(crate) fn status(&self) -> StatusCode {
        entry(self.code).1
    }

    pub(crate) fn title(&self) -> &'static str {
        entry(self.code).2
    }

    /// Of a folder; nothing is told of the workflow, which may be somebody else's.
    pub(crate) fn worktree_taken() -> Self {
        Self::new("worktree_taken", "another workflow works in this folder")
    }

    /// Of a session that is not there, or not the caller's: nobody learns which.
    pub(crate) fn no_session(given: &str) -> Self {
        Error::NotFound(given.to_owned()).into()
    }
}

fn entry(code: &str) -> (&'static str, StatusCode, &'static str) {
    let found = CODES.iter().find(|(known, ..)| *known == code).copied();
    found.unwrap_or((
        "internal",
        StatusCode::INTERNAL_SERVER_ERROR,
        "This is a fault of the server",
    ))
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let whole = self.clone();
        let (code, status, title) = entry(self.code);
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
        // For the log and the counters, which see only the response.
        response.extensions_mut().insert(Code(code));
        // For people: `dashboard::shown` makes a page of it.
        response.extensions_mut().insert(whole);
        response
    }
}

/// The code of the problem that a response tells of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Code(pub(crate) &'static str);

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        if error.worktree_taken_by().is_some() {
            return Self::worktree_taken();
        }
        let code = error.code();
        let known = CODES.iter().find(|(known, ..)| *known == code).map(|(known, ..)| *known);
        let code = match (&error, known) {
            (Error::Agent { .. }, _) => "agent_failed",
            (_, Some(known)) => known,
            _ => "refused",
        };
        let detail = rethread_domain::quote::safe(&error.to_string());
        if code == "internal" {
            tracing::error!(error = &error as &dyn std::error::Error, "internal error");
        }
        // What is wrong with the store in detail is for the log, not for callers.
        let detail =
            if code == "internal" { "the server failed; its log says more".into() } else { detail };
        Self::new(code, detail)
    }
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Engine(error) => error.into(),
            Fault::Refused { code, message, hint } => {
                let known = CODES.iter().find(|(known, ..)| *known == code);
                let code = known.map_or("bad_input", |(known, ..)| known);
                let message = rethread_domain::quote::safe(&message);
                Self { hint, ..Self::new(code, message) }
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
