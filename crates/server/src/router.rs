//! Assembles the server: the API, the dashboard, and the middleware around them.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{DefaultBodyLimit, MatchedPath, Request, State};
use axum::handler::Handler as _;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use tower_http::catch_panic::CatchPanicLayer;
use tracing::Instrument as _;
use utoipa::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};

use crate::access::{self, ADMIN, AnsweredUser, OPEN, READ, Routes, login};
use crate::dashboard;
use crate::document;
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

/// The API, with the requirements of its operations.
pub(crate) fn api() -> Routes {
    Routes::default()
        .merge(sessions::router())
        .merge(crate::routes::search::router())
        .merge(messages::router())
        .merge(prompts::router())
        .merge(agents::router())
        .merge(crate::routes::workflows::router())
        .merge(crate::routes::snapshots::router())
        .merge(events::router())
        .merge(tokens::router())
        .merge(operations::router())
        .below(API, Document::openapi())
}

/// The `OpenAPI` document.
pub(crate) fn document() -> utoipa::openapi::OpenApi {
    let (_, mut document, _) = api().split();
    env!("CARGO_PKG_VERSION").clone_into(&mut document.info.version);
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    let components = document.components.get_or_insert_default();
    components.add_security_scheme("token", SecurityScheme::Http(bearer));
    document::complete(&mut document);
    document
}

/// All routes with all middleware.
pub(crate) fn router(app: &App) -> Router {
    let text: Arc<str> = crate::schema_constraints::text(&document()).into();
    let log_in = login::log_in.layer(DefaultBodyLimit::max(login::LONGEST));
    let described = move || std::future::ready(document_text(&text));
    let (routes, _, table) = api()
        .get(OPEN, "/healthz", operations::healthz)
        .get(OPEN, "/readyz", operations::readyz)
        .get(ADMIN, "/metrics", operations::metrics)
        .post(OPEN, "/login", log_in)
        .post(READ, "/logout", login::log_out)
        .get(READ, "/api/v1/openapi.json", described)
        .merge(dashboard::router())
        .split();
    let bounds = &app.settings.bounds;
    let gate = (Arc::clone(app), Arc::new(table));
    routes
        .fallback(missing)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(bounds.body_bytes))
        .layer(middleware::from_fn(plain_bodies))
        .layer(middleware::from_fn_with_state(gate, access::authorize))
        .layer(middleware::from_fn_with_state(Arc::clone(app), access::guard_origin))
        .layer(CatchPanicLayer::custom(|_| fault().into_response()))
        .layer(middleware::from_fn(add_request_id))
        .layer(middleware::from_fn(dashboard::shown))
        .layer(middleware::from_fn_with_state(Arc::clone(app), observe))
        .layer(middleware::from_fn(access::security_headers))
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
    Problem::new("method_not_allowed", "this address does not support the method")
        .hint("GET /api/v1/openapi.json lists the API")
}

/// Middleware: refuses compressed bodies, whose size after decompression is unknown.
async fn plain_bodies(request: Request, next: Next) -> Response {
    let packed = request.headers().get(header::CONTENT_ENCODING);
    if packed.is_some_and(|encoding| encoding != "identity") {
        return Problem::new("unsupported_media_type", "compressed bodies are not accepted")
            .hint("send it without Content-Encoding")
            .into_response();
    }
    next.run(request).await
}

fn fault() -> Problem {
    Problem::new("internal", "the server failed; its log says more")
}

/// The id of a request: sent in its response, and on every line of the log about it.
#[derive(Debug, Clone)]
struct RequestId(Arc<str>);

/// Middleware: adds to an internal error the request id under which the log has its cause.
async fn add_request_id(request: Request, next: Next) -> Response {
    let id = request.extensions().get::<RequestId>().cloned();
    let response = next.run(request).await;
    let problem = response.extensions().get::<Problem>().filter(|one| one.code == "internal");
    match (problem, id) {
        (Some(problem), Some(RequestId(id))) => {
            let told = problem.clone().hint(format!("look there for the request {id}"));
            let who = response.extensions().get::<AnsweredUser>().cloned();
            let mut response = told.into_response();
            if let Some(who) = who {
                response.extensions_mut().insert(who);
            }
            response
        }
        _ => response,
    }
}

/// Middleware: gives each request an id and a span, and counts and logs its response.
async fn observe(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let id: Arc<str> = uuid::Uuid::now_v7().simple().to_string().into();
    let span = tracing::info_span!("request", request = &*id);
    request.extensions_mut().insert(RequestId(Arc::clone(&id)));
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let mut response = next.run(request).instrument(span.clone()).await;
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert("x-request-id", value);
    }
    let route = route.unwrap_or_else(|| "unknown".to_owned());
    count(&app, &method, &route, begun, &response);
    span.in_scope(|| note(&method, &route, begun, &response));
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

/// Logs a response. Never a query, a body or a header: they may contain secrets.
fn note(method: &Method, route: &str, begun: Instant, response: &Response) {
    let method: String = method.as_str().chars().take(20).collect();
    let status = response.status().as_u16();
    let ms = (begun.elapsed().as_secs_f64() * 1e6).round() / 1e3;
    let who = response.extensions().get::<AnsweredUser>();
    let user = who.map(|who| who.user.as_str());
    let token = who.map(|who| who.token.as_str());
    let code = response.extensions().get::<ProblemCode>().map(|ProblemCode(code)| *code);
    if response.status() < StatusCode::INTERNAL_SERVER_ERROR {
        tracing::info!(method, route, status, ms, user, token, code, "request");
    } else {
        let detail = response.extensions().get::<Problem>().map(|problem| problem.detail.as_str());
        tracing::error!(method, route, status, ms, user, token, code, detail, "failure");
    }
}
