//! Streamable HTTP: every request needs the token, names this host, and comes from no page of another site.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use rmcp::model::ServerJsonRpcMessage;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::oversized::{self, Finder};
use crate::server::{Office, Server, asked_to_end};

/// The path of the endpoint.
const PATH: &str = "/mcp";
/// The longest body, in bytes: what a line may have on standard input.
const LONGEST_BODY: usize = 16 * 1024 * 1024;
/// How much of a longer one is read, to find out whom to answer.
const LONGEST_READ: usize = 4 * LONGEST_BODY;

/// Where to listen, and who may ask.
#[derive(Debug)]
pub struct HttpOptions {
    pub listener: TcpListener,
    /// The names, with their ports, by which this host may be called.
    pub hosts: Vec<String>,
    /// The origins of its own pages; those of others are refused.
    pub origins: Vec<String>,
    pub token: String,
}

/// Answers until it is asked to end; what runs is cancelled then, and saved.
pub async fn serve_http(office: Arc<Office>, options: HttpOptions) -> std::io::Result<()> {
    let stop = CancellationToken::new();
    let config = StreamableHttpServerConfig::default()
        .with_allowed_hosts(options.hosts)
        .with_allowed_origins(options.origins)
        .enforce_origin_validation()
        .with_max_request_body_bytes(LONGEST_BODY)
        .with_cancellation_token(stop.clone());
    let shared = Arc::clone(&office);
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
        let office = Arc::clone(&office);
        async move { office.keep_tidy().await }
    });
    let ended = {
        let stop = stop.clone();
        async move {
            asked_to_end().await;
            stop.cancel();
        }
    };
    let served = axum::serve(options.listener, routes).with_graceful_shutdown(ended).await;
    office.cancel_all().await;
    tidy.abort();
    served
}

fn refused(status: StatusCode, why: &'static str) -> Response {
    (status, why).into_response()
}

/// Whoever has no token learns nothing, and a browser that was led here by a page gets nowhere.
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

/// Takes as long whatever differs, so that nobody can guess a token letter by letter.
fn is_same(given: &str, token: &str) -> bool {
    let (given, token) = (given.as_bytes(), token.as_bytes());
    let differs = given.iter().zip(token).fold(0, |differs, (a, b)| differs | (a ^ b));
    std::hint::black_box(differs) == 0 && given.len() == token.len() && !token.is_empty()
}

/// Reads a body that is not too long; one that is gets an answer that says what to do.
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
    let mut finder = Finder::default();
    for byte in begun {
        finder.look(*byte);
    }
    let mut read = begun.len();
    while let Some(Ok(chunk)) = rest.next().await {
        read += chunk.len();
        if read > LONGEST_READ {
            return refused(StatusCode::PAYLOAD_TOO_LARGE, "the request is too long\n");
        }
        for byte in &chunk {
            finder.look(*byte);
        }
    }
    let answer = finder.answer(&format!("a body of more than {LONGEST_BODY} bytes"));
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
