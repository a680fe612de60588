//! Who may: a credential for every request, from a program or a browser, and what its role allows.

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

/// Whoever asks.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) token: Token,
    /// By which the token is looked up again, while a stream is open.
    pub(crate) secret: Arc<str>,
}

impl Caller {
    pub(crate) fn may_see(&self, user: &str) -> bool {
        self.token.role == Role::Admin || self.token.user == user
    }

    /// The user whose things are listed; everybody's where the role says so.
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

    /// Whether it may still be answered.
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

/// Lets in whoever has a valid credential whose role allows it, at a bounded pace.
pub(crate) async fn admitted(
    State((app, table)): State<(App, Arc<Table>)>,
    mut request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path().to_owned();
    let address = address(&app, request.headers(), connected(&request));
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    // Of what is not there nobody without a credential learns so.
    let needs = routes::needed(&table, request.method(), route).unwrap_or(READ);
    let Some(role) = needs.role else {
        // Whoever watches over the server is not told to come again.
        let is_health = path == "/healthz" || path == "/readyz";
        // Before anything of the body is read.
        let is_login = path == "/login" && request.method() == Method::POST;
        let may = match (is_health, is_login) {
            (true, _) => Ok(()),
            (_, true) => app.limiter.login(&address),
            _ => app.limiter.stranger(&address),
        };
        return match may {
            Err(problem) => problem.into_response(),
            Ok(()) => next.run(request).await,
        };
    };
    let caller = match identify(&app, request.headers()).await {
        Ok(Some(caller)) => caller,
        Ok(None) => return stranger(&app, &request, &address, &path),
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
    // Other servers on this machine are sent the cookie too: what it opens ends with it.
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
    response
        .extensions_mut()
        .insert(Who { user: caller.token.user.clone(), token: caller.token.id.to_string() });
    if app.engine.is_use_new(&caller.token) {
        // Nobody waits for the note.
        let (engine, id) = (app.engine.clone(), caller.token.id);
        tokio::spawn(async move {
            engine.note_use(&id).await.or_log("the use of a token could not be noted");
        });
    }
    response
}

/// Who was answered, for the log.
#[derive(Debug, Clone)]
pub(crate) struct Who {
    pub(crate) user: String,
    pub(crate) token: String,
}

fn connected(request: &Request) -> Option<IpAddr> {
    let info = request.extensions().get::<ConnectInfo<SocketAddr>>();
    info.map(|ConnectInfo(address)| address.ip())
}

/// Who asks. Something that stands before us says it last.
fn address(app: &App, headers: &HeaderMap, connected: Option<IpAddr>) -> String {
    let passed = headers.get_all("x-forwarded-for").iter().next_back();
    let passed = passed.filter(|_| app.settings.is_behind_proxy).and_then(|all| all.to_str().ok());
    match passed.and_then(|all| all.rsplit(',').next()) {
        // No address is longer: what is remembered of it is bounded.
        Some(last) => last.trim().chars().take(64).collect(),
        None => connected.map_or_else(|| "?".to_owned(), |address| address.to_string()),
    }
}

/// A person is shown the way in; a program is told.
fn stranger(app: &App, request: &Request, address: &str, path: &str) -> Response {
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

/// Whose credential comes with a request: a bearer token, or the cookie of a browser that was logged in.
async fn identify(app: &App, headers: &HeaderMap) -> Result<Option<Caller>, Problem> {
    let (secret, by_cookie) = match bearer(headers) {
        Given::One(secret) => (secret.to_owned(), false),
        Given::Nonsense => return Ok(None),
        Given::Nothing => match cookie::read(headers, &app.settings) {
            Some(secret) => (secret, true),
            None => return Ok(None),
        },
    };
    let Some(token) = app.engine.admit(&secret).await? else { return Ok(None) };
    // A cookie is no bearer token, and the other way round: what leaks from one place does not open another.
    if (token.pass == Pass::Browser) != by_cookie {
        return Ok(None);
    }
    Ok(Some(Caller { token, secret: secret.into() }))
}

enum Given<'a> {
    Nothing,
    One(&'a str),
    Nonsense,
}

fn bearer(headers: &HeaderMap) -> Given<'_> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let Some(first) = given.next() else { return Given::Nothing };
    let parts = first.to_str().ok().and_then(|text| text.split_once(' '));
    match (parts, given.next()) {
        (Some((scheme, secret)), None) if scheme.eq_ignore_ascii_case("bearer") => {
            Given::One(secret.trim())
        }
        _ => Given::Nonsense,
    }
}
