//! Full-text search.

use axum::extract::State;
use axum::response::Response;
use rethread_domain::search::{Cursor, Filter, Found};
use rethread_domain::{Role, Status};
use rethread_engine::views::FoundView;
use rethread_engine::{Engine, Search};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::ok;
use super::sessions::{StatusParam, scope};
use crate::access::{Caller, READ, Routes};
use crate::cursor;
use crate::extract::{Disconnect, QueryParams};
use crate::problem::Problem;
use crate::state::App;

const TAG: &str = "sessions";

pub(crate) fn router() -> Routes {
    Routes::default().api(READ, routes!(search))
}

/// What to search for, and where
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SearchParams {
    /// Words in any form, names whole or in parts, "quoted" phrases, `prefix*`; the last word may be a prefix too
    #[param(min_length = 1)]
    q: String,
    session: Option<String>,
    user: Option<String>,
    project: Option<String>,
    agent: Option<String>,
    kind: Option<String>,
    #[param(inline)]
    status: Option<StatusParam>,
    /// `user`, `assistant`, `system` or `tool`
    #[param(inline)]
    role: Option<MessageRole>,
    /// Only since this time, such as 2026-11-15T21:38:00Z
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<String>,
    #[param(value_type = Option<String>, format = DateTime)]
    until: Option<String>,
    #[param(minimum = 1, maximum = 200)]
    limit: Option<u32>,
    /// `next` of the previous answer
    cursor: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum MessageRole {
    User,
    Assistant,
    System,
    Tool,
}

impl From<MessageRole> for Role {
    fn from(role: MessageRole) -> Self {
        match role {
            MessageRole::User => Self::User,
            MessageRole::Assistant => Self::Assistant,
            MessageRole::System => Self::System,
            MessageRole::Tool => Self::Tool,
        }
    }
}

fn moment(text: Option<&str>) -> Result<Option<jiff::Timestamp>, Problem> {
    let parsed = text.map(rethread_engine::entry::time).transpose();
    parsed.map_err(|bad| rethread_engine::Error::from(bad).into())
}

/// Searches messages, titles and summaries
///
/// Secrets are masked and cannot be found. The work of one search is bounded: `partial` says that it was cut short, and
/// `next` continues it.
#[utoipa::path(get, path = "/search", tag = TAG, params(SearchParams), responses((status = 200, body = FoundView)))]
async fn search(
    State(app): State<App>,
    caller: Caller,
    Disconnect(stop): Disconnect,
    QueryParams(sought): QueryParams<SearchParams>,
) -> Result<Response, Problem> {
    let limit = cursor::limit(sought.limit)?;
    let session = match &sought.session {
        Some(given) => Some(app.session(&caller, given).await?.id),
        None => None,
    };
    let filter = Filter {
        session,
        user: scope(&caller, sought.user),
        project: sought.project,
        agent: sought.agent,
        kind: sought.kind,
        status: sought.status.map(Status::from),
        role: sought.role.map(Role::from),
        since: moment(sought.since.as_deref())?,
        until: moment(sought.until.as_deref())?,
    };
    let after = sought.cursor.as_deref().map(place).transpose()?;
    let search = Search { after, stop, ..Engine::sought(&sought.q, filter, limit)? };
    ok(&view(&app, &app.engine.search(search).await?)?)
}

/// Parses the cursor of a search.
pub(crate) fn place(cursor: &str) -> Result<Cursor, Problem> {
    cursor.parse().map_err(|_| cursor::invalid())
}

pub(crate) fn view(app: &App, found: &Found) -> Result<FoundView, Problem> {
    Ok(app.engine.masked(&FoundView::from(found))?)
}
