//! Finding what was said.

use axum::extract::State;
use axum::response::Response;
use rethread_domain::search::{Filter, Hit, Query};
use rethread_domain::{Role, Status};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::ok;
use super::sessions::{Status_, scope};
use crate::access::Caller;
use crate::cursor;
use crate::extract::Params;
use crate::problem::Problem;
use crate::state::App;
use crate::views::{HitView, Page};

const TAG: &str = "sessions";

pub(crate) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(search))
}

/// What to look for, and where
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Sought {
    /// Words in any form, names whole and by their parts, "quoted" as they stand, `begin*`
    q: String,
    session: Option<String>,
    user: Option<String>,
    project: Option<String>,
    agent: Option<String>,
    kind: Option<String>,
    #[param(inline)]
    status: Option<Status_>,
    /// `user`, `assistant`, `system` or `tool`
    #[param(inline)]
    role: Option<Role_>,
    /// Only since then, such as 2026-11-15T21:38:00Z
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<String>,
    #[param(value_type = Option<String>, format = DateTime)]
    until: Option<String>,
    #[param(minimum = 1, maximum = 200)]
    limit: Option<u32>,
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role_ {
    User,
    Assistant,
    System,
    Tool,
}

impl From<Role_> for Role {
    fn from(role: Role_) -> Self {
        match role {
            Role_::User => Self::User,
            Role_::Assistant => Self::Assistant,
            Role_::System => Self::System,
            Role_::Tool => Self::Tool,
        }
    }
}

fn moment(text: Option<&str>) -> Result<Option<jiff::Timestamp>, Problem> {
    let parsed = text.map(rethread_engine::entry::time).transpose();
    parsed.map_err(|bad| rethread_engine::Error::from(bad).into())
}

/// Finds what was said, in messages, titles and summaries
#[utoipa::path(get, path = "/search", tag = TAG, params(Sought), responses((status = 200, body = Page<HitView>)))]
async fn search(
    State(app): State<App>,
    caller: Caller,
    Params(sought): Params<Sought>,
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
    let hits = app.engine.search(&sought.q, &filter, limit).await?;
    ok(&Page { items: found(&app, &sought.q, &hits).await?, next: None })
}

/// What was found, without secrets.
pub(crate) async fn found(app: &App, words: &str, hits: &[Hit]) -> Result<Vec<HitView>, Problem> {
    let query = Query::parse(words);
    let mut views = Vec::with_capacity(hits.len());
    for hit in hits {
        let excerpt = app.engine.masked_excerpt(&query, hit).await?;
        views.push(HitView::of(app, hit, excerpt));
    }
    Ok(views)
}
