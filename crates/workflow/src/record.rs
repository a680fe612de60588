//! What is kept of the work beside its conversations: decisions, errors, reviews, tests, usage, the repository.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use rethread_domain::id::{Seq, SessionId};

/// Who found a decision or an error, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// `model` or `rules`.
    pub by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The messages it rests on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Seq>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecisionKind {
    Approach,
    Library,
    Architecture,
    Workaround,
    Skip,
    Clarification,
}

rethread_domain::named!(DecisionKind {
    Approach = "approach",
    Library = "library",
    Architecture = "architecture",
    Workaround = "workaround",
    Skip = "skip",
    Clarification = "clarification",
});

/// A choice that affects how the work is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    pub id: String,
    pub at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    #[serde(rename = "type")]
    pub kind: DecisionKind,
    /// What was decided.
    pub what: String,
    /// Why; empty where nobody said.
    #[serde(default)]
    pub why: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<String>,
    pub source: Source,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    Fixed,
    Workaround,
    Deferred,
    Unresolved,
}

rethread_domain::named!(Resolution {
    Fixed = "fixed",
    Workaround = "workaround",
    Deferred = "deferred",
    Unresolved = "unresolved",
});

/// Something that went wrong, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorRecord {
    pub id: String,
    pub at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    #[serde(rename = "type")]
    pub kind: String,
    pub message: String,
    /// What was being done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    pub resolution: Resolution,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
    pub source: Source,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    None,
    Minor,
    Major,
    Critical,
}

rethread_domain::named!(Severity {
    None = "none",
    Minor = "minor",
    Major = "major",
    Critical = "critical",
});

/// What a reviewer said of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feedback {
    pub id: String,
    pub at: Timestamp,
    pub task: String,
    pub reviewer: String,
    pub approved: bool,
    pub severity: Severity,
    pub comments: Vec<String>,
    #[serde(default)]
    pub addressed: bool,
    /// The session it was given in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
}

/// Where in a cycle of test, code and tidying the work is, as far as it can be told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Red,
    Green,
    Refactor,
    #[default]
    Unknown,
}

rethread_domain::named!(Phase {
    Red = "red",
    Green = "green",
    Refactor = "refactor",
    Unknown = "unknown",
});

/// What the last check gave.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestState {
    pub phase: Phase,
    /// The names of failing tests, as the tool gives them.
    pub failing: Vec<String>,
    /// Those of them that a task left failing on purpose.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expected: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The end of what it printed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
}

/// How a number of tokens is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// The agent said so.
    #[default]
    Exact,
    /// By our tokenizer, from what was said.
    Counted,
    /// From the cost.
    Estimated,
}

/// What work took. Sums are as good as their worst part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Used {
    pub tokens: u64,
    pub measure: Measure,
    /// Tokens in the context of the session, and its size, where known; of several sessions, the fullest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<(u64, u64)>,
    pub model_calls: u32,
    pub tool_calls: u32,
    pub turns: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    pub seconds: u64,
}

/// What a million tokens cost, half of them in and half out, where only a cost is known.
const USD_PER_MILLION: f64 = 9.0;
/// The window that is assumed where none is known.
pub const WINDOW: u64 = 200_000;

impl Used {
    /// Tokens that a cost amounts to, about.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "never negative")]
    pub fn tokens_for(cost_usd: f64) -> u64 {
        (cost_usd.max(0.0) / USD_PER_MILLION * 1_000_000.0).round() as u64
    }

    /// How full the context is, from 0 to 1.
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    pub fn context_use(&self) -> Option<f64> {
        let (used, size) = self.context?;
        Some((used as f64 / size.max(1) as f64).clamp(0.0, 1.0))
    }

    /// What is left of the context, where known.
    pub fn remaining(&self) -> Option<u64> {
        self.context.map(|(used, size)| size.saturating_sub(used))
    }

    /// Adds what something else took.
    pub fn add(&mut self, other: &Self) {
        self.tokens = self.tokens.saturating_add(other.tokens);
        if other.tokens > 0 {
            self.measure = self.measure.max(other.measure);
        }
        if other.context_use() > self.context_use() {
            self.context = other.context;
        }
        self.model_calls = self.model_calls.saturating_add(other.model_calls);
        self.tool_calls = self.tool_calls.saturating_add(other.tool_calls);
        self.turns = self.turns.saturating_add(other.turns);
        self.seconds = self.seconds.saturating_add(other.seconds);
        if let Some(cost) = other.cost_usd {
            self.cost_usd = Some(self.cost_usd.unwrap_or(0.0) + cost);
        }
    }
}

/// Where the repository of the worktree stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitState {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit_at_start: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Changed since the workflow began, committed or not.
    pub files_modified: Vec<String>,
    pub files_staged: Vec<String>,
    /// Changed and not committed, staged or not.
    pub files_uncommitted: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncommitted_summary: Option<String>,
}

impl GitState {
    pub const fn has_uncommitted(&self) -> bool {
        !self.files_uncommitted.is_empty()
    }
}
