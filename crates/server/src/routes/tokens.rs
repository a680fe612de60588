//! Tokens: whoever has the role admin makes and revokes them.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use jiff::{SignedDuration, Timestamp};
use rethread_domain::access::{Pass, Role, Token, TokenId};
use rethread_engine::NewToken;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::{json, ok};
use crate::access::{ADMIN, Caller, Routes};
use crate::extract::{At, Json};
use crate::problem::Problem;
use crate::state::App;

const TAG: &str = "tokens";

pub(crate) fn router() -> Routes {
    Routes::default().api(ADMIN, routes!(list, create)).api(ADMIN, routes!(revoke))
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TokenView {
    id: String,
    name: String,
    /// `read`, `write` or `admin`
    role: String,
    user: String,
    /// `token`, `browser` or `link`
    kind: String,
    created_at: Timestamp,
    expires_at: Option<Timestamp>,
    revoked_at: Option<Timestamp>,
    used_at: Option<Timestamp>,
    /// Only in the answer that made it
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
}

impl TokenView {
    fn of(token: Token, secret: Option<String>) -> Self {
        Self {
            id: token.id.to_string(),
            name: token.name,
            role: token.role.as_str().to_owned(),
            user: token.user,
            kind: token.pass.as_str().to_owned(),
            created_at: token.created_at,
            expires_at: token.expires_at,
            revoked_at: token.revoked_at,
            used_at: token.used_at,
            secret,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TokensView {
    tokens: Vec<TokenView>,
}

/// All tokens, the newest first; never their secrets
#[utoipa::path(get, path = "/tokens", tag = TAG, responses((status = 200, body = TokensView)))]
async fn list(State(app): State<App>, _caller: Caller) -> Result<Response, Problem> {
    let tokens = app.engine.tokens().await?.into_iter().map(|token| TokenView::of(token, None));
    ok(&TokensView { tokens: tokens.collect() })
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = TokenRole)]
pub(crate) enum Role_ {
    Read,
    Write,
    Admin,
}

/// Whom a token is for
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Made {
    name: String,
    role: Role_,
    /// Whose sessions it is for; by default the caller's
    user: Option<String>,
    /// It expires after this many days
    #[schema(minimum = 1, maximum = 3650)]
    days: Option<u16>,
}

/// Makes a token. Its secret is in this answer and nowhere else.
#[utoipa::path(post, path = "/tokens", tag = TAG, request_body = Made, responses((status = 201, body = TokenView)))]
async fn create(
    State(app): State<App>,
    caller: Caller,
    Json(made): Json<Made>,
) -> Result<Response, Problem> {
    if made.days.is_some_and(|days| !(1..=3650).contains(&days)) {
        return Err(Problem::new("bad_input", "days are 1 to 3650"));
    }
    let new = NewToken {
        name: made.name,
        role: match made.role {
            Role_::Read => Role::Read,
            Role_::Write => Role::Write,
            Role_::Admin => Role::Admin,
        },
        user: made.user.unwrap_or_else(|| caller.user().to_owned()),
        pass: Pass::Token,
        lasts: made.days.map(|days| SignedDuration::from_hours(24 * i64::from(days))),
        parent: None,
    };
    let (token, secret) = app.engine.issue(new).await?;
    tracing::info!(token = %token.id, by = %caller.token.id, "token_made");
    json(StatusCode::CREATED, &TokenView::of(token, Some(secret)))
}

/// Revokes a token: it is worth nothing from now on, open streams included
#[utoipa::path(delete, path = "/tokens/{id}", tag = TAG, params(("id" = String, Path)),
    responses((status = 200, body = TokenView)))]
async fn revoke(
    State(app): State<App>,
    caller: Caller,
    At(id): At<String>,
) -> Result<Response, Problem> {
    let id: TokenId =
        id.parse().map_err(|_| Problem::new("bad_id", "this is not the id of a token"))?;
    let token = app.engine.revoke(&id).await?;
    tracing::info!(token = %id, by = %caller.token.id, "token_revoked");
    ok(&TokenView::of(token, None))
}
