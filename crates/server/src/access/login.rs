//! Logging a browser in with a single-use link, and out again.

use std::net::SocketAddr;

use axum::extract::rejection::FormRejection;
use axum::extract::{ConnectInfo, Form, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rethread_domain::access::Pass;
use serde::Deserialize;

use super::{Caller, client_address, cookie};
use crate::problem::Problem;
use crate::state::App;

/// The longest body of a login request. Anybody may send one.
pub(crate) const LONGEST: usize = 4 << 10;

/// The form of the login page. The code stands in the fragment of the link (after the `#`), so that it reaches no log and
/// no referrer.
#[derive(Debug, Deserialize)]
pub(crate) struct Login {
    code: String,
}

fn redirect(place: &'static str, cookie: Option<&str>) -> Response {
    let mut response = (StatusCode::SEE_OTHER, [(header::LOCATION, place)]).into_response();
    if let Some(Ok(value)) = cookie.map(HeaderValue::from_str) {
        response.headers_mut().insert(header::SET_COOKIE, value);
    }
    response
}

/// Exchanges a single-use code for a cookie.
pub(crate) async fn log_in(
    State(app): State<App>,
    ConnectInfo(connected): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    form: Result<Form<Login>, FormRejection>,
) -> Result<Response, Problem> {
    let address = client_address(&app, &headers, Some(connected.ip()));
    let Form(login) = form.map_err(|rejection| form_problem(&rejection))?;
    let lasts = app.settings.bounds.login;
    let Some((token, secret)) = app.engine.redeem(login.code.trim(), lasts).await? else {
        tracing::warn!(address, "login_refused");
        return Ok(redirect("/login?refused", None));
    };
    tracing::info!(user = token.user, token = %token.id, "login");
    Ok(redirect("/", Some(&cookie::set(&secret, lasts, &app.settings))))
}

fn form_problem(rejection: &FormRejection) -> Problem {
    let code = match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => "body_too_large",
        StatusCode::UNSUPPORTED_MEDIA_TYPE => "unsupported_media_type",
        StatusCode::UNPROCESSABLE_ENTITY => "bad_input",
        _ => "bad_request",
    };
    Problem::new(code, "this is not what the login page sends")
}

/// Revokes the cookie's token, so that copies of the cookie are worthless too.
pub(crate) async fn log_out(State(app): State<App>, caller: Caller) -> Result<Response, Problem> {
    if caller.token.pass != Pass::Browser {
        return Err(Problem::new(
            "forbidden",
            "only a browser logs out; `rethread token revoke` ends a token",
        ));
    }
    app.engine.revoke(&caller.token.id).await?;
    tracing::info!(user = caller.user(), "logout");
    Ok(redirect("/login?out", Some(&cookie::forget(&app.settings))))
}
