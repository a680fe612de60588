//! Settings of workflows, and of whom they tell.

use std::collections::BTreeMap;

use anyhow::Context as _;
use rethread_outbound::webhook::{Format, Key};
use rethread_workflow::plan::MOST_RETRIES;
use rethread_workflow::{Limits, OnFailure, OnFull};
use serde::{Deserialize, Serialize};

use super::variable;

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Workflow {
    agent: String,
    pub(crate) jobs: u32,
    rounds: u32,
    context_limit: f64,
    context_warning: f64,
    on_full: String,
    boundary_seconds: u64,
    task_seconds: u64,
    retries: u32,
    retry_seconds: u64,
    on_failure: String,
    pub(crate) brief_tokens: u32,
    pub(crate) lesson_tokens: u32,
    after_crash: String,
    /// Whether agents are given Rethread's MCP server.
    pub(crate) mcp: bool,
    /// What plans may name as a check.
    pub(crate) commands: BTreeMap<String, String>,
}

impl Workflow {
    /// The agent that works where none is named.
    pub(crate) fn agent(&self) -> Option<&str> {
        Some(self.agent.as_str()).filter(|name| !name.is_empty())
    }

    pub(super) fn check(&self) -> anyhow::Result<()> {
        anyhow::ensure!(self.jobs > 0, "workflow.jobs must be at least 1");
        anyhow::ensure!(self.task_seconds > 0, "workflow.task_seconds must be at least 1");
        anyhow::ensure!(self.brief_tokens >= 500, "workflow.brief_tokens must be at least 500");
        for (name, share) in [("limit", self.context_limit), ("warning", self.context_warning)] {
            let is_share = (0.0..=1.0).contains(&share);
            anyhow::ensure!(
                is_share,
                "workflow.context_{name} must be between 0 and 1, not {share}"
            );
        }
        anyhow::ensure!(
            ["ask", "resume"].contains(&self.after_crash.as_str()),
            "workflow.after_crash must be ask or resume, not {:?}",
            self.after_crash
        );
        self.limits().map(drop)
    }

    /// What a run is limited by, unless the user says otherwise.
    pub(crate) fn limits(&self) -> anyhow::Result<Limits> {
        let on_full = match self.on_full.as_str() {
            "pause" => OnFull::Pause,
            "continue" => OnFull::Continue,
            other => anyhow::bail!("workflow.on_full must be pause or continue, not {other:?}"),
        };
        let on_failure = OnFailure::ALL.into_iter().find(|one| one.as_str() == self.on_failure);
        let on_failure = on_failure.with_context(|| {
            format!("workflow.on_failure must be stop, ask or continue, not {:?}", self.on_failure)
        })?;
        anyhow::ensure!(
            self.retries <= MOST_RETRIES,
            "workflow.retries must be at most {MOST_RETRIES}"
        );
        Ok(Limits {
            jobs: self.jobs,
            context: self.context_limit,
            warn: self.context_warning,
            on_full,
            boundary_seconds: self.boundary_seconds,
            task_seconds: self.task_seconds,
            rounds: self.rounds,
            retries: self.retries,
            retry_seconds: self.retry_seconds,
            on_failure,
            ..Limits::default()
        })
    }

    pub(crate) fn resumes_after_crash(&self) -> bool {
        self.after_crash == "resume"
    }
}

/// Whom workflows tell.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hook {
    #[serde(default)]
    url: String,
    /// The environment variable that holds the URL, which is a secret with Slack and Discord.
    #[serde(default)]
    url_variable: String,
    #[serde(default)]
    format: String,
    /// The environment variable that holds the key that notices are signed with.
    #[serde(default)]
    secret_variable: String,
    /// What it is told of; empty: everything.
    #[serde(default)]
    on: Vec<String>,
}

impl Hook {
    /// Ready to be called; `None` where its variable is not set.
    pub(super) fn ready(
        &self,
        name: &str,
    ) -> anyhow::Result<Option<rethread_outbound::webhook::Hook>> {
        let format: Format = match self.format.as_str() {
            "" | "json" => Format::Json,
            "slack" => Format::Slack,
            "discord" => Format::Discord,
            other => {
                anyhow::bail!("notify.{name}.format must be json, slack or discord, not {other:?}")
            }
        };
        let url = match self.url_variable.as_str() {
            "" => Some(self.url.clone()),
            from => variable(from),
        };
        let Some(url) = url else { return Ok(None) };
        let secret = Some(self.secret_variable.as_str()).filter(|from| !from.is_empty());
        let secret = secret.and_then(variable).map(Key::from);
        let about = || format!("notify.{name}");
        let mut hook = rethread_outbound::webhook::Hook::new(&url, format).with_context(about)?;
        hook.secret = secret;
        for event in &self.on {
            hook.on.push(event.parse().with_context(about)?);
        }
        Ok(Some(hook))
    }
}
