//! The form that starts a workflow. Errors are shown beside their field, and the input is kept.

use std::fmt::Display;
use std::str::FromStr;

use askama::Template;
use axum::http::StatusCode;
use rethread_domain::quote::safe;
use serde::Deserialize;

use super::describe;
use crate::dashboard::humanize::some;
use crate::problem::Problem;
use crate::routes::workflows::StartWorkflow;
use crate::state::App;

/// The input.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default)]
pub(super) struct Fields {
    worktree: String,
    plan: String,
    issue: String,
    agent: String,
    jobs: String,
    pause_after: String,
    max_minutes: String,
    max_tokens: String,
    max_cost_usd: String,
}

/// The names of the fields: the text of a problem about a field begins with its name.
const NAMES: [&str; 9] = [
    "worktree",
    "plan",
    "issue",
    "agent",
    "jobs",
    "pause_after",
    "max_minutes",
    "max_tokens",
    "max_cost_usd",
];

/// A positive number; `None` if the field is empty.
fn number<T: FromStr + PartialOrd + Default + Display>(
    name: &str,
    text: &str,
    what: &str,
) -> Result<Option<T>, Problem> {
    let Some(text) = some(text) else { return Ok(None) };
    let read = text.parse::<T>().ok().filter(|number| *number > T::default());
    let unfit = || Problem::new("bad_input", format!("expected {what} above 0")).of(name);
    read.map(Some).ok_or_else(unfit)
}

impl Fields {
    /// Parses the input.
    pub(super) fn read(&self) -> Result<StartWorkflow, Problem> {
        let whole = "a whole number";
        Ok(StartWorkflow {
            worktree: some(&self.worktree),
            plan: some(&self.plan),
            issue: some(&self.issue),
            agent: some(&self.agent),
            jobs: number("jobs", &self.jobs, whole)?,
            pause_after: number("pause_after", &self.pause_after, whole)?,
            max_minutes: number("max_minutes", &self.max_minutes, whole)?,
            max_tokens: number("max_tokens", &self.max_tokens, whole)?,
            max_cost_usd: number("max_cost_usd", &self.max_cost_usd, "an amount")?,
        })
    }
}

/// Why the workflow was not started.
struct Refused {
    /// The field that it is about; empty if none.
    field: &'static str,
    text: String,
    hint: Option<String>,
}

impl Refused {
    fn name(&self) -> String {
        describe::plain(self.field)
    }
}

/// The form.
#[derive(Template)]
#[template(path = "workflows/start.html")]
pub(super) struct Start {
    fields: Fields,
    agents: Vec<String>,
    /// The default folder.
    folder: String,
    /// The default agent.
    default_agent: Option<String>,
    refused: Option<Refused>,
}

impl Start {
    pub(super) fn new(app: &App) -> Result<Self, Problem> {
        Self::with(app, Fields::default(), None)
    }

    /// The form with its input and the reason for the refusal.
    pub(super) fn again(app: &App, fields: Fields, problem: &Problem) -> Result<Self, Problem> {
        let said = problem.detail.split_once(": ");
        let named = said.and_then(|(name, text)| Some((known(name)?, text)));
        let (field, text) = match (named, problem.code) {
            (Some(named), _) => named,
            (None, "worktree_taken") => ("worktree", problem.detail.as_str()),
            (None, "unknown_agent") => ("agent", problem.detail.as_str()),
            (None, "bad_plan") => ("plan", problem.detail.as_str()),
            (None, _) => ("", problem.detail.as_str()),
        };
        let refused = Refused { field, text: app.clean(text), hint: problem.hint.clone() };
        Self::with(app, fields, Some(refused))
    }

    fn with(app: &App, fields: Fields, refused: Option<Refused>) -> Result<Self, Problem> {
        Ok(Self {
            fields,
            agents: describe::agents(app)?,
            folder: app.clean(&safe(&app.settings.project.to_string_lossy())),
            default_agent: app.program.workflows()?.agent,
            refused,
        })
    }

    fn is_open(&self) -> bool {
        self.refused.is_some()
    }

    /// The attributes of a field: which hint describes it, and whether it is the invalid one.
    fn marks(&self, field: &'static str) -> String {
        match &self.refused {
            Some(refused) if refused.field == field => {
                format!(
                    " aria-invalid=\"true\" aria-describedby=\"start-error h-{field}\" autofocus"
                )
            }
            _ => format!(" aria-describedby=\"h-{field}\""),
        }
    }
}

fn known(name: &str) -> Option<&'static str> {
    NAMES.into_iter().find(|known| *known == name)
}

/// Whether the problem concerns the input or the current state: then it is shown in the form.
pub(super) fn is_shown_in_form(problem: &Problem) -> bool {
    let others = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::TOO_MANY_REQUESTS];
    let status = problem.status();
    status == StatusCode::BAD_GATEWAY || status.is_client_error() && !others.contains(&status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_above_0_or_not_there() {
        let read = |text| number::<u32>("jobs", text, "a whole number").map_err(|no| no.detail);
        assert_eq!(read(" 7 "), Ok(Some(7)));
        assert_eq!(read("  "), Ok(None));
        for text in ["0", "-1", "1.5", "x", "4294967296"] {
            assert_eq!(read(text), Err("jobs: expected a whole number above 0".to_owned()));
        }
        let cost = |text| number::<f64>("max_cost_usd", text, "an amount").ok().flatten();
        assert_eq!(cost("0.5"), Some(0.5));
        assert_eq!((cost("0"), cost("NaN"), cost("x")), (None, None, None));
    }
}
