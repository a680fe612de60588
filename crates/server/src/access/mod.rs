//! Authentication and authorization: every request needs a credential, of a program or a browser, whose role allows it.

mod cookie;
pub(crate) mod login;
mod origin_guard;
mod routes;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{ConnectInfo, FromRequestParts, MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use rethread_domain::access::{Pass, Role, Token};
use rethread_engine::{Logged as _, Stop};

use crate::extract::is_read;
use crate::problem::Problem;
use crate::state::App;

pub(crate) use origin_guard::{guard_origin, security_headers};
pub(crate) use routes::{ADMIN, OPEN, READ, Routes, STREAM, Table, WRITE};

/// The authenticated caller of a request.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) token: Token,
    /// The secret itself: open streams use it to check that the token is still valid.
    pub(crate) secret: Arc<str>,
}

impl Caller {
    pub(crate) fn may_see(&self, user: &str) -> bool {
        self.token.role == Role::Admin || self.token.user == user
    }

    /// The user whose sessions and workflows are listed; `None` means those of every user.
    pub(crate) fn scope(&self) -> Option<String> {
        (self.token.role != Role::Admin).then(|| self.token.user.clone())
    }

    pub(crate) fn user(&self) -> &str {
        &self.token.user
    }

    pub(crate) fn may_write(&self) -> bool {
        self.token.role >= Role::Write
    }

    pub(crate) fn is_admin(&self) -> bool {
        self.token.role == Role::Admin
    }

    /// Whether the token is still valid: it may have expired or been revoked while a response is being sent.
    pub(crate) async fn is_valid(&self, app: &App) -> bool {
        matches!(app.engine.admit(&self.secret).await, Ok(Some(_)))
    }
}

impl FromRequestParts<App> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        let known = parts.extensions.get::<Self>().cloned();
        known.ok_or_else(|| Problem::new("unauthenticated", "give a token"))
    }
}

/// Middleware: authenticates the caller, checks the role that the route requires, and applies the rate limits.
pub(crate) async fn authorize(
    State((app, table)): State<(App, Arc<Table>)>,
    mut request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path().to_owned();
    let address = client_address(&app, request.headers(), peer_address(&request));
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    // Without a credential nobody learns which paths exist.
    let needs = routes::requirements_of(&table, request.method(), route).unwrap_or(READ);
    let Some(role) = needs.role else {
        return match limit_anonymous(&app, &path, request.method(), &address) {
            Err(problem) => problem.into_response(),
            Ok(()) => next.run(request).await,
        };
    };
    let caller = match identify(&app, request.headers()).await {
        Ok(Some(caller)) => caller,
        Ok(None) => return unauthenticated(&app, &request, &address, &path),
        Err(problem) => return problem.into_response(),
    };
    if let Err(problem) = app.limiter.caller(&caller.token.id) {
        return problem.into_response();
    }
    if caller.token.role < role {
        let what = format!(
            "this needs the role {}, the token has {}",
            role.as_str(),
            caller.token.role.as_str()
        );
        return Problem::new("forbidden", what).into_response();
    }
    // Browsers send the cookie to any server on this host: once stolen, it must not create a token that outlives it.
    let is_lasting = path.starts_with("/api/v1/tokens") && !is_read(request.method());
    if is_lasting && caller.token.pass == Pass::Browser {
        return Problem::new("forbidden", "a browser's login makes and ends no tokens")
            .hint("`rethread token create` and `rethread token revoke` do")
            .into_response();
    }
    request.extensions_mut().insert(caller.clone());
    let stop = Stop::default();
    request.extensions_mut().insert(stop.clone());
    let work = next.run(request);
    let mut response = if needs.is_stream {
        work.await
    } else {
        app.workers.run(&caller.token.user, &stop, work).await
    };
    response.extensions_mut().insert(AnsweredUser {
        user: caller.token.user.clone(),
        token: caller.token.id.to_string(),
    });
    if app.engine.is_use_new(&caller.token) {
        // The response does not wait for this.
        let (engine, id) = (app.engine.clone(), caller.token.id);
        tokio::spawn(async move {
            engine.note_use(&id).await.or_log("the use of a token could not be noted");
        });
    }
    response
}

/// The rate limit of routes that need no credential.
fn limit_anonymous(app: &App, path: &str, method: &Method, address: &str) -> Result<(), Problem> {
    match path {
        // Monitoring must always get an answer.
        "/healthz" | "/readyz" => Ok(()),
        // Before anything of the body is read.
        "/login" if method == Method::POST => app.limiter.login(address),
        _ => app.limiter.stranger(address),
    }
}

/// Whose request was answered: for the log.
#[derive(Debug, Clone)]
pub(crate) struct AnsweredUser {
    pub(crate) user: String,
    pub(crate) token: String,
}

fn peer_address(request: &Request) -> Option<IpAddr> {
    let info = request.extensions().get::<ConnectInfo<SocketAddr>>();
    info.map(|ConnectInfo(address)| address.ip())
}

/// The address of the client. Behind a proxy it is the last entry of `X-Forwarded-For`: the one that the proxy itself added.
fn client_address(app: &App, headers: &HeaderMap, connected: Option<IpAddr>) -> String {
    let passed = headers.get_all("x-forwarded-for").iter().next_back();
    let passed = passed.filter(|_| app.settings.is_behind_proxy).and_then(|all| all.to_str().ok());
    match passed.and_then(|all| all.rsplit(',').next()) {
        // No valid address is longer; the limit bounds what is remembered for each client.
        Some(last) => last.trim().chars().take(64).collect(),
        None => connected.map_or_else(|| "?".to_owned(), |address| address.to_string()),
    }
}

/// The answer to a request without a valid credential: browsers are redirected to the login page, programs get a problem.
fn unauthenticated(app: &App, request: &Request, address: &str, path: &str) -> Response {
    if let Err(problem) = app.limiter.stranger(address) {
        return problem.into_response();
    }
    let accepts = request.headers().get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let is_page = accepts.is_some_and(|accepts| accepts.contains("text/html"));
    if is_page && request.method() == Method::GET && !path.starts_with("/api/") {
        return Redirect::to("/login").into_response();
    }
    Problem::new("unauthenticated", "give a token that is valid: Authorization: Bearer TOKEN")
        .hint("`rethread token create` makes one; `rethread login` logs a browser in")
        .into_response()
}

/// Finds the caller by the credential in the request: a bearer token, or the cookie of a logged-in browser.
async fn identify(app: &App, headers: &HeaderMap) -> Result<Option<Caller>, Problem> {
    let (secret, by_cookie) = match bearer(headers) {
        Bearer::Token(secret) => (secret.to_owned(), false),
        Bearer::Malformed => return Ok(None),
        Bearer::Missing => match cookie::read(headers, &app.settings) {
            Some(secret) => (secret, true),
            None => return Ok(None),
        },
    };
    let Some(token) = app.engine.admit(&secret).await? else { return Ok(None) };
    // A cookie is not accepted as a bearer token, nor the reverse: a credential that leaks in one place does not work in another.
    if (token.pass == Pass::Browser) != by_cookie {
        return Ok(None);
    }
    Ok(Some(Caller { token, secret: secret.into() }))
}

enum Bearer<'a> {
    Missing,
    Token(&'a str),
    Malformed,
}

fn bearer(headers: &HeaderMap) -> Bearer<'_> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let Some(first) = given.next() else { return Bearer::Missing };
    let parts = first.to_str().ok().and_then(|text| text.split_once(' '));
    match (parts, given.next()) {
        (Some((scheme, secret)), None) if scheme.eq_ignore_ascii_case("bearer") => {
            Bearer::Token(secret.trim())
        }
        _ => Bearer::Malformed,
    }
}
