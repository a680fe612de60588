//! Logging a browser in with a link that works once, and out again.

use std::net::SocketAddr;

use axum::extract::{ConnectInfo, Form, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use super::{Caller, cookie};
use crate::problem::Problem;
use crate::state::App;

/// What the login page sends. The code stands behind the `#` of the link, so that it is in no log and no referrer.
#[derive(Debug, Deserialize)]
pub(crate) struct Login {
    code: String,
}

fn to(place: &'static str, cookie: &str) -> Response {
    let mut response = (StatusCode::SEE_OTHER, [(header::LOCATION, place)]).into_response();
    if let Ok(value) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(header::SET_COOKIE, value);
    }
    response
}

/// Turns a code into a cookie, once.
pub(crate) async fn log_in(
    State(app): State<App>,
    ConnectInfo(address): ConnectInfo<SocketAddr>,
    Form(login): Form<Login>,
) -> Result<Response, Problem> {
    app.limiter.login(&address.ip().to_string())?;
    let lasts = app.settings.bounds.login;
    let Some((token, secret)) = app.engine.redeem(login.code.trim(), lasts).await? else {
        app.log.event("login_refused", &[("address", &address.ip().to_string())]);
        return Ok(to("/login?refused", ""));
    };
    app.log.event("login", &[("user", &token.user), ("token", &token.id.to_string())]);
    Ok(to("/", &cookie::set(&secret, lasts, app.settings.is_secure)))
}

/// The cookie is worth nothing afterwards, wherever it may have got to.
pub(crate) async fn log_out(State(app): State<App>, caller: Caller) -> Result<Response, Problem> {
    app.engine.revoke(&caller.token.id).await?;
    app.log.event("logout", &[("user", caller.user())]);
    Ok(to("/login?out", &cookie::forget(app.settings.is_secure)))
}
