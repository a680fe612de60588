//! Puts the doors together: the API, the pages, what is around all of them.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{DefaultBodyLimit, MatchedPath, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures::FutureExt;
use serde_json::Map;
use utoipa::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;

use crate::access::{self, Who, login};
use crate::dashboard;
use crate::document;
use crate::log::millis;
use crate::metrics::{Route, Why};
use crate::problem::{Problem, ProblemCode};
use crate::routes::{agents, events, messages, operations, prompts, sessions, tokens};
use crate::state::App;

pub(crate) const API: &str = "/api/v1";

#[derive(OpenApi)]
#[openapi(info(
    title = "Rethread",
    description = "Sessions of AI agents: recorded, found again, resumed. Every request needs a token: `rethread token create`.",
    license(name = "Apache-2.0")
))]
struct Document;

/// The API with the document that describes it.
pub(crate) fn api() -> (Router<App>, utoipa::openapi::OpenApi) {
    let routes = OpenApiRouter::new()
        .merge(sessions::router())
        .merge(crate::routes::search::router())
        .merge(messages::router())
        .merge(prompts::router())
        .merge(agents::router())
        .merge(crate::routes::workflows::router())
        .merge(crate::routes::snapshots::router())
        .merge(events::router())
        .merge(tokens::router())
        .merge(operations::router());
    let whole: OpenApiRouter<App> =
        OpenApiRouter::with_openapi(Document::openapi()).nest(API, routes);
    let (paths, mut document) = whole.split_for_parts();
    env!("CARGO_PKG_VERSION").clone_into(&mut document.info.version);
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    let components = document.components.get_or_insert_default();
    components.add_security_scheme("token", SecurityScheme::Http(bearer));
    document::complete(&mut document);
    (paths, document)
}

/// Everything that is answered.
pub(crate) fn router(app: &App) -> Router {
    let (api, document) = api();
    let text: Arc<str> = crate::forms::text(&document).into();
    let pages = dashboard::router();
    let bounds = &app.settings.bounds;
    let plain = Router::new()
        .route("/healthz", get(operations::healthz))
        .route("/readyz", get(operations::readyz))
        .route("/metrics", get(operations::metrics))
        .route("/login", post(login::log_in).layer(DefaultBodyLimit::max(login::LONGEST)))
        .route("/logout", post(login::log_out))
        .route("/api/v1/openapi.json", get(move || std::future::ready(document_text(&text))));
    Router::new()
        .merge(api)
        .merge(plain)
        .merge(pages)
        .fallback(missing)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(bounds.body_bytes))
        .layer(middleware::from_fn(plain_bodies))
        .layer(middleware::from_fn_with_state(Arc::clone(app), access::admitted))
        .layer(middleware::from_fn_with_state(Arc::clone(app), access::fenced))
        .layer(middleware::from_fn(dashboard::shown))
        .layer(middleware::from_fn_with_state(Arc::clone(app), observed))
        .layer(middleware::from_fn(access::sealed))
        .with_state(Arc::clone(app))
}

fn document_text(text: &str) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text.to_owned()).into_response()
}

async fn missing() -> Problem {
    Problem::new("not_found", "there is nothing at this address")
        .hint("GET /api/v1/openapi.json lists the API")
}

async fn wrong_method() -> Problem {
    Problem::new("method_not_allowed", "this address does not know the method")
        .hint("GET /api/v1/openapi.json lists the API")
}

/// A body that is packed may be any size once it is unpacked: none is taken.
async fn plain_bodies(request: Request, next: Next) -> Response {
    let packed = request.headers().get(header::CONTENT_ENCODING);
    if packed.is_some_and(|encoding| encoding != "identity") {
        return Problem::new("unsupported_media_type", "packed bodies are not taken")
            .hint("send it without Content-Encoding")
            .into_response();
    }
    next.run(request).await
}

/// Gives each request an id, a line in the log and a place in the counters. What panics is told as our fault, and
/// nobody else notices.
async fn observed(State(app): State<App>, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let id = uuid::Uuid::now_v7().simple().to_string();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let answered = AssertUnwindSafe(next.run(request)).catch_unwind().await;
    let mut response = answered.unwrap_or_else(|_| {
        Problem::new("internal", "the server failed; its log says more").into_response()
    });
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert("x-request-id", value);
    }
    let route = route.unwrap_or_else(|| "unknown".to_owned());
    count(&app, &method, &route, begun, &response);
    note(&app, &id, &method, &route, begun, &response);
    response
}

fn count(app: &App, method: &Method, route: &str, begun: Instant, response: &Response) {
    let known = matches!(
        *method,
        Method::GET | Method::POST | Method::PATCH | Method::DELETE | Method::HEAD
    );
    let method = if known { method.as_str() } else { "other" }.to_owned();
    let label = Route { method, path: route.to_owned(), status: response.status().as_u16() };
    app.metrics.requests.get_or_create(&label).inc();
    app.metrics.seconds.observe(begun.elapsed().as_secs_f64());
    if let Some(ProblemCode(code)) = response.extensions().get() {
        app.metrics.refusals.get_or_create(&Why { code: (*code).to_owned() }).inc();
    }
}

fn note(app: &App, id: &str, method: &Method, route: &str, begun: Instant, response: &Response) {
    let mut line = Map::new();
    line.insert("request".to_owned(), id.into());
    line.insert("method".to_owned(), method.as_str().chars().take(20).collect::<String>().into());
    line.insert("route".to_owned(), route.into());
    line.insert("status".to_owned(), response.status().as_u16().into());
    line.insert("ms".to_owned(), millis(begun).into());
    if let Some(who) = response.extensions().get::<Who>() {
        line.insert("user".to_owned(), who.user.clone().into());
        line.insert("token".to_owned(), who.token.clone().into());
    }
    if let Some(ProblemCode(code)) = response.extensions().get() {
        line.insert("code".to_owned(), (*code).into());
    }
    let is_failure = response.status() >= StatusCode::INTERNAL_SERVER_ERROR;
    app.log.line(if is_failure { "failure" } else { "request" }, line);
}
