//! Agents, how conversations were opened in them, and usage over time.

use axum::extract::State;
use axum::response::Response;
use jiff::ToSpan;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use rethread_engine::UsageFilter;
use rethread_engine::views::AgentView;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::ok;
use crate::access::{Caller, READ, Routes};
use crate::extract::QueryParams;
use crate::problem::Problem;
use crate::state::App;

const TAG: &str = "agents";
/// The longest period of a usage report.
const MOST_DAYS: i32 = 3_660;

pub(crate) fn router() -> Routes {
    Routes::default()
        .api(READ, routes!(list))
        .api(READ, routes!(openings))
        .api(READ, routes!(usage))
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Agents {
    agents: Vec<AgentView>,
}

pub(crate) fn known(app: &App) -> Result<Vec<AgentView>, Problem> {
    Ok(app.program.agents()?.into_iter().map(AgentView::from).collect())
}

/// The known agents
#[utoipa::path(get, path = "/agents", tag = TAG, responses((status = 200, body = Agents)))]
async fn list(State(app): State<App>, _caller: Caller) -> Result<Response, Problem> {
    ok(&Agents { agents: known(&app)? })
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OpeningsView {
    openings: Vec<OpeningCount>,
}

/// How often conversations were opened in an agent in one way for one reason
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OpeningCount {
    pub(crate) agent: String,
    /// `resumed`, `loaded`, `retold`, `fresh`, `untold` or `failed`
    pub(crate) how: String,
    pub(crate) why: Option<String>,
    pub(crate) count: u64,
    pub(crate) median_ms: u64,
    pub(crate) most_ms: u64,
}

pub(crate) async fn counted(app: &App, caller: &Caller) -> Result<Vec<OpeningCount>, Problem> {
    let counts = app.engine.openings(caller.scope().as_deref()).await?.into_iter();
    let views = counts.map(|one| OpeningCount {
        agent: app.clean(&one.agent),
        how: one.how.as_str().to_owned(),
        why: app.clean_some(one.why.as_deref()),
        count: one.count,
        median_ms: one.median_ms,
        most_ms: one.most_ms,
    });
    Ok(views.collect())
}

/// How conversations have been opened so far, by agent, way and reason
#[utoipa::path(get, path = "/agents/openings", tag = TAG, responses((status = 200, body = OpeningsView)))]
async fn openings(State(app): State<App>, caller: Caller) -> Result<Response, Problem> {
    ok(&OpeningsView { openings: counted(&app, &caller).await? })
}

/// The period and the filters of a usage report
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct UsageParams {
    /// The first day (UTC), by default 29 days ago
    #[param(value_type = Option<String>, format = Date)]
    pub(crate) from: Option<String>,
    /// The last day (UTC), by default today
    #[param(value_type = Option<String>, format = Date)]
    pub(crate) to: Option<String>,
    pub(crate) agent: Option<String>,
    pub(crate) project: Option<String>,
}

/// Usage on one day, in one project, by one agent
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct UsageDay {
    #[schema(format = Date)]
    pub(crate) day: String,
    pub(crate) project: String,
    pub(crate) agent: String,
    pub(crate) sessions: u64,
    pub(crate) messages: u64,
    pub(crate) tokens: u64,
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
    pub(crate) cost_usd: f64,
    /// The fullest context, from 0 to 1, if an agent reported it
    pub(crate) context_use: Option<f64>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = UsageByDay)]
pub(crate) struct UsageView {
    #[schema(format = Date)]
    pub(crate) from: String,
    #[schema(format = Date)]
    pub(crate) to: String,
    pub(crate) days: Vec<UsageDay>,
}

fn day(text: &str) -> Result<Date, Problem> {
    let parsed = text.parse::<Date>().ok().filter(|day| day.year() > 1970 && day.year() < 9000);
    parsed.ok_or_else(|| Problem::new("bad_input", "not a day: give it as 2026-11-15"))
}

pub(crate) async fn used(
    app: &App,
    caller: &Caller,
    params: UsageParams,
) -> Result<UsageView, Problem> {
    let today = app.engine.clock().now().to_zoned(TimeZone::UTC).date();
    let to = params.to.as_deref().map(day).transpose()?.unwrap_or(today);
    let usual = to.checked_sub(29.days()).unwrap_or(to);
    let from = params.from.as_deref().map(day).transpose()?.unwrap_or(usual);
    let length = (to - from).get_days();
    if from > to || length > MOST_DAYS {
        return Err(Problem::new("bad_input", "the days are in the wrong order, or too many"));
    }
    let filter = UsageFilter {
        user: caller.scope(),
        project: params.project,
        agent: params.agent,
        from,
        to,
    };
    let days = app.engine.usage_by_day(&filter).await?.into_iter().map(|day| UsageDay {
        day: day.day.to_string(),
        project: app.clean(&day.project),
        agent: app.clean(&day.agent),
        sessions: day.sessions,
        messages: day.messages,
        tokens: day.tokens,
        input_tokens: day.input_tokens,
        output_tokens: day.output_tokens,
        cost_usd: day.cost_usd,
        context_use: day.context_use,
    });
    Ok(UsageView { from: from.to_string(), to: to.to_string(), days: days.collect() })
}

/// Tokens, cost and context use by day, project and agent
#[utoipa::path(get, path = "/usage", tag = TAG, params(UsageParams), responses((status = 200, body = UsageView)))]
async fn usage(
    State(app): State<App>,
    caller: Caller,
    QueryParams(params): QueryParams<UsageParams>,
) -> Result<Response, Problem> {
    ok(&used(&app, &caller, params).await?)
}
