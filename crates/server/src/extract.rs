//! Extractors: read the parts of requests strictly. Input that does not fit, unknown fields included, becomes a problem.

use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, header};
use rethread_domain::quote;
use rethread_domain::wording::plain;
use rethread_engine::Stop;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::access::Caller;
use crate::problem::Problem;
use crate::state::App;

/// A JSON body.
#[derive(Debug)]
pub(crate) struct Json<T>(pub(crate) T);

/// The query parameters.
#[derive(Debug)]
pub(crate) struct QueryParams<T>(pub(crate) T);

/// The path parameters.
#[derive(Debug)]
pub(crate) struct PathParams<T>(pub(crate) T);

/// Signals that the client has disconnected.
#[derive(Debug)]
pub(crate) struct Disconnect(pub(crate) Stop);

/// The `Idempotency-Key` header, with which a request can be repeated safely.
#[derive(Debug)]
pub(crate) struct IdempotencyKey(pub(crate) Option<String>);

/// If a body takes longer than this to arrive, the credential is checked again.
const RECHECK_AFTER: Duration = Duration::from_millis(500);
/// The longest idempotency key.
const LONGEST_KEY: usize = 200;

fn is_json(headers: &HeaderMap) -> bool {
    let given = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = given.and_then(|given| given.split(';').next()).unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
}

impl FromRequestParts<App> for Disconnect {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        Ok(Self(parts.extensions.get().cloned().unwrap_or_default()))
    }
}

impl<T: DeserializeOwned> FromRequest<App> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let has_type = request.headers().contains_key(header::CONTENT_TYPE);
        let is_json = is_json(request.headers());
        let not_json = || {
            Problem::new("unsupported_media_type", "Content-Type is not JSON")
                .hint("send it as Content-Type: application/json")
        };
        if has_type && !is_json {
            return Err(not_json());
        }
        let bytes = body(request, app, app.settings.bounds.body_bytes).await?;
        // If every field is optional, so is the body.
        if bytes.is_empty()
            && let Ok(nothing) = serde_json::from_value(Value::Object(Map::new()))
        {
            return Ok(Self(nothing));
        }
        if !is_json {
            return Err(not_json());
        }
        // serde would accept an array of values in the order of the fields: only objects are accepted.
        if bytes.trim_ascii_start().starts_with(b"[") {
            return Err(Problem::new("bad_input", "the body is not an object"));
        }
        let parsed = serde_json::from_slice(&bytes).or_else(|error| {
            // 3.0 counts as an integer, as in JSON Schema.
            let mut value = serde_json::from_slice(&bytes).unwrap_or_default();
            make_whole(&mut value);
            serde_json::from_value(value).map_err(|_| error)
        });
        parsed.map(Self).map_err(|error| json_problem(&error))
    }
}

/// Turns floating-point numbers with an integral value into integers, at any depth.
pub(crate) fn make_whole(value: &mut Value) {
    match value {
        Value::Number(number) => {
            // Beyond 2^53, adjacent integers cannot be told apart.
            let whole = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < 9e15);
            #[expect(clippy::cast_possible_truncation, reason = "it is whole and small enough")]
            if let (true, Some(whole)) = (number.is_f64(), whole) {
                *value = Value::from(whole as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(make_whole),
        Value::Object(fields) => fields.values_mut().for_each(make_whole),
        _ => (),
    }
}

/// Invalid JSON and JSON of the wrong shape are different problems.
pub(crate) fn json_problem(error: &serde_json::Error) -> Problem {
    use serde_json::error::Category;
    let code = match error.classify() {
        Category::Data => "bad_input",
        Category::Io | Category::Syntax | Category::Eof => "bad_request",
    };
    let said: String = error.to_string().chars().take(300).collect();
    Problem::new(code, quote::safe(&said))
}

fn too_large() -> Problem {
    Problem::new("body_too_large", "the body has more bytes than are allowed")
        .hint("send it in parts; the setting serve.max_body_bytes allows more")
}

/// Reads the whole body. A body with a `Content-Length` above `most` is refused without waiting for it.
pub(crate) async fn body(request: Request, app: &App, most: usize) -> Result<Bytes, Problem> {
    let told = request.headers().get(header::CONTENT_LENGTH).and_then(|told| told.to_str().ok());
    let told = told.and_then(|told| told.parse::<usize>().ok());
    if told.is_some_and(|told| told > most) {
        return Err(too_large());
    }
    let (caller, begun) = (request.extensions().get::<Caller>().cloned(), Instant::now());
    let bytes = Bytes::from_request(request, app).await.map_err(|rejection| {
        if rejection.status() == axum::http::StatusCode::PAYLOAD_TOO_LARGE {
            too_large()
        } else {
            Problem::new("bad_request", "the body broke off or came too slowly")
        }
    })?;
    // The credential was valid when the body began to arrive.
    if let Some(caller) = caller
        && begun.elapsed() >= RECHECK_AFTER
        && !caller.is_valid(app).await
    {
        return Err(Problem::new("unauthenticated", "the token ended while the body was sent"));
    }
    Ok(bytes)
}

impl<T: DeserializeOwned> FromRequestParts<App> for QueryParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        let parsed = Query::<T>::try_from_uri(&parts.uri);
        parsed.map(|Query(params)| Self(params)).map_err(|rejection| {
            Problem::new("bad_input", complaint(&rejection.body_text()))
                .hint("GET /api/v1/openapi.json lists the parameters")
        })
    }
}

/// The cause alone, without the framework's prefix.
fn complaint(said: &str) -> String {
    let prefixes = ["Failed to deserialize query string: ", "Invalid URL: "];
    let said = prefixes.iter().find_map(|prefix| said.strip_prefix(prefix)).unwrap_or(said);
    let said: String = plain(said).chars().take(300).collect();
    quote::safe(&said)
}

impl<T: DeserializeOwned + Send> FromRequestParts<App> for PathParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let parsed = Path::<T>::from_request_parts(parts, app).await;
        parsed
            .map(|Path(path)| Self(path))
            .map_err(|rejection| Problem::new("bad_id", complaint(&rejection.body_text())))
    }
}

impl FromRequestParts<App> for IdempotencyKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        let mut given = parts.headers.get_all("idempotency-key").iter();
        let Some(first) = given.next() else { return Ok(Self(None)) };
        let text = first.to_str().ok().filter(|text| {
            (1..=LONGEST_KEY).contains(&text.len())
                && text.bytes().all(|byte| byte.is_ascii_graphic())
        });
        match (text, given.next()) {
            (Some(text), None) => Ok(Self(Some(text.to_owned()))),
            _ => Err(Problem::new("bad_input", "the Idempotency-Key is not valid")
                .hint(format!("1 to {LONGEST_KEY} visible ASCII characters, once"))),
        }
    }
}

/// Whether a request changes nothing.
pub(crate) fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}
