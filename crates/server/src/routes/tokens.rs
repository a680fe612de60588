//! Tokens: created and revoked with the role admin.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use jiff::SignedDuration;
use rethread_domain::access::{Pass, Role, TokenId};
use rethread_engine::NewToken;
use rethread_engine::views::TokenView;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::{json, ok};
use crate::access::{ADMIN, Caller, Routes};
use crate::extract::{Json, PathParams};
use crate::problem::Problem;
use crate::state::App;

const TAG: &str = "tokens";

pub(crate) fn router() -> Routes {
    Routes::default().api(ADMIN, routes!(list, create)).api(ADMIN, routes!(revoke))
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TokensView {
    tokens: Vec<TokenView>,
}

/// All tokens, newest first; never their secrets
#[utoipa::path(get, path = "/tokens", tag = TAG, responses((status = 200, body = TokensView)))]
async fn list(State(app): State<App>, _caller: Caller) -> Result<Response, Problem> {
    let tokens = app.engine.tokens().await?.into_iter().map(TokenView::from);
    ok(&TokensView { tokens: tokens.collect() })
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = TokenRole)]
pub(crate) enum TokenRole {
    Read,
    Write,
    Admin,
}

/// A token to create
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateToken {
    name: String,
    role: TokenRole,
    /// Whose sessions it gives access to; by default the caller's
    user: Option<String>,
    /// It expires after this many days
    #[schema(minimum = 1, maximum = 3650)]
    days: Option<u16>,
}

/// Creates a token. Its secret is in this answer and nowhere else.
#[utoipa::path(post, path = "/tokens", tag = TAG, request_body = CreateToken, responses((status = 201, body = TokenView)))]
async fn create(
    State(app): State<App>,
    caller: Caller,
    Json(made): Json<CreateToken>,
) -> Result<Response, Problem> {
    if made.days.is_some_and(|days| !(1..=3650).contains(&days)) {
        return Err(Problem::new("bad_input", "days are 1 to 3650"));
    }
    let new = NewToken {
        name: made.name,
        role: match made.role {
            TokenRole::Read => Role::Read,
            TokenRole::Write => Role::Write,
            TokenRole::Admin => Role::Admin,
        },
        user: made.user.unwrap_or_else(|| caller.user().to_owned()),
        pass: Pass::Token,
        lasts: made.days.map(|days| SignedDuration::from_hours(24 * i64::from(days))),
        parent: None,
    };
    let (token, secret) = app.engine.issue(new).await?;
    tracing::info!(token = %token.id, by = %caller.token.id, "token_made");
    json(StatusCode::CREATED, &TokenView { secret: Some(secret), ..token.into() })
}

/// Revokes a token at once; its open streams end too
#[utoipa::path(delete, path = "/tokens/{id}", tag = TAG, params(("id" = String, Path)),
    responses((status = 200, body = TokenView)))]
async fn revoke(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Response, Problem> {
    let id: TokenId =
        id.parse().map_err(|_| Problem::new("bad_id", "this is not the id of a token"))?;
    let token = app.engine.revoke(&id).await?;
    tracing::info!(token = %id, by = %caller.token.id, "token_revoked");
    ok(&TokenView::from(token))
}
