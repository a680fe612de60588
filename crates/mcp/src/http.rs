//! The Streamable HTTP transport. Every request needs the token and our own `Host`; pages of other sites are refused (CSRF).

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use rethread_engine::shutdown_signal;
use rmcp::model::ServerJsonRpcMessage;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::oversized::{self, RequestScanner};
use crate::server::{Server, ServerState};

/// The path of the endpoint.
const PATH: &str = "/mcp";
/// The longest body, in bytes: the same as the longest line on standard input.
const LONGEST_BODY: usize = 16 * 1024 * 1024;
/// How much of a longer body is read to find the id of the request, so that it can be answered.
const LONGEST_READ: usize = 4 * LONGEST_BODY;

/// Where to listen, and the token that callers need.
#[derive(Debug)]
pub struct HttpOptions {
    pub listener: TcpListener,
    /// The accepted `Host` values: names with their ports.
    pub hosts: Vec<String>,
    /// The origins of our own pages; requests from others are refused.
    pub origins: Vec<String>,
    pub token: String,
}

/// Serves until a signal arrives; then cancels what is running, and saves it.
pub async fn serve_http(state: Arc<ServerState>, options: HttpOptions) -> std::io::Result<()> {
    let shutdown = shutdown_signal()?;
    let stop = CancellationToken::new();
    let config = StreamableHttpServerConfig::default()
        .with_allowed_hosts(options.hosts)
        .with_allowed_origins(options.origins)
        .enforce_origin_validation()
        .with_max_request_body_bytes(LONGEST_BODY)
        .with_cancellation_token(stop.clone());
    let shared = Arc::clone(&state);
    let service = StreamableHttpService::new(
        move || Ok(Server::new(Arc::clone(&shared))),
        Arc::new(LocalSessionManager::default()),
        config,
    );
    let token: Arc<str> = Arc::from(options.token);
    let routes = Router::new()
        .route_service(PATH, service)
        .layer(middleware::from_fn(bounded))
        .layer(middleware::from_fn_with_state(token, admitted));
    let tidy = tokio::spawn({
        let state = Arc::clone(&state);
        async move { state.keep_tidy().await }
    });
    let ended = {
        let stop = stop.clone();
        async move {
            shutdown.await;
            stop.cancel();
        }
    };
    let served = axum::serve(options.listener, routes).with_graceful_shutdown(ended).await;
    state.cancel_all().await;
    tidy.abort();
    served
}

fn refused(status: StatusCode, why: &'static str) -> Response {
    (status, why).into_response()
}

/// Middleware: requires the token and a known `Host`, and refuses requests from pages of other sites.
async fn admitted(State(token): State<Arc<str>>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    if !is_admitted(headers, &token) {
        let mut response = refused(
            StatusCode::UNAUTHORIZED,
            "give the token: Authorization: Bearer TOKEN; `rethread mcp --http` says where it is\n",
        );
        let challenge = header::HeaderValue::from_static("Bearer");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        return response;
    }
    if headers.get_all(header::HOST).iter().count() != 1 {
        return refused(StatusCode::FORBIDDEN, "name one host\n");
    }
    let site = headers.get("sec-fetch-site").map(header::HeaderValue::as_bytes);
    if !matches!(site, None | Some(b"same-origin" | b"none")) {
        return refused(StatusCode::FORBIDDEN, "requests from pages of other sites are refused\n");
    }
    next.run(request).await
}

fn is_admitted(headers: &HeaderMap, token: &str) -> bool {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(given), None) = (given.next(), given.next()) else { return false };
    let Some((scheme, given)) = given.to_str().ok().and_then(|given| given.split_once(' ')) else {
        return false;
    };
    scheme.eq_ignore_ascii_case("bearer") && is_same(given.trim(), token)
}

/// Compares in constant time, so that a token cannot be guessed piece by piece.
fn is_same(given: &str, token: &str) -> bool {
    let (given, token) = (given.as_bytes(), token.as_bytes());
    let differs = given.iter().zip(token).fold(0, |differs, (a, b)| differs | (a ^ b));
    std::hint::black_box(differs) == 0 && given.len() == token.len() && !token.is_empty()
}

/// Middleware: reads the body. One that is too long gets a JSON-RPC error that says what to do.
async fn bounded(request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let mut chunks = body.into_data_stream();
    let mut whole = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let Ok(chunk) = chunk else {
            return refused(StatusCode::BAD_REQUEST, "the request broke off\n");
        };
        whole.extend_from_slice(&chunk);
        if whole.len() > LONGEST_BODY {
            return too_long(&whole, chunks).await;
        }
    }
    if parts.method == Method::POST
        && let Some(answer) = oversized::not_json(&whole)
    {
        return (StatusCode::BAD_REQUEST, as_json(&answer)).into_response();
    }
    next.run(Request::from_parts(parts, Body::from(whole))).await
}

fn as_json(answer: &ServerJsonRpcMessage) -> Response {
    let text = serde_json::to_string(answer).unwrap_or_default();
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

async fn too_long(begun: &[u8], mut rest: axum::body::BodyDataStream) -> Response {
    let mut scanner = RequestScanner::default();
    for byte in begun {
        scanner.look(*byte);
    }
    let mut read = begun.len();
    while let Some(Ok(chunk)) = rest.next().await {
        read += chunk.len();
        if read > LONGEST_READ {
            return refused(StatusCode::PAYLOAD_TOO_LARGE, "the request is too long\n");
        }
        for byte in &chunk {
            scanner.look(*byte);
        }
    }
    let answer = scanner.answer(&format!("a body of more than {LONGEST_BODY} bytes"));
    match answer {
        Some(answer) => as_json(&answer),
        None => refused(StatusCode::PAYLOAD_TOO_LARGE, "the request is too long\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(given: &[&str], expected: bool) {
        let mut headers = HeaderMap::new();
        for value in given {
            headers.append(header::AUTHORIZATION, value.parse().unwrap());
        }
        assert_eq!(is_admitted(&headers, "secret"), expected, "{given:?}");
    }

    #[test]
    fn only_the_token_opens() {
        check(&["Bearer secret"], true);
        check(&["bearer secret"], true);
        check(&[], false);
        check(&["Bearer"], false);
        check(&["Bearer "], false);
        check(&["Bearer secre"], false);
        check(&["Bearer secrets"], false);
        check(&["Bearer Secret"], false);
        check(&["Basic secret"], false);
        check(&["secret"], false);
        check(&["Bearer secret", "Bearer secret"], false);
        let mut headers = HeaderMap::new();
        headers.append(header::AUTHORIZATION, "Bearer ".parse().unwrap());
        assert!(!is_admitted(&headers, ""), "an empty token opens nothing");
    }
}
