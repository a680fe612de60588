//! Views: what programs see of each thing, in one form for `--json`, REST and MCP.
//!
//! A view is made from what is stored. What leaves for others is masked with [`Engine::masked`]; each door decides how much of it to
//! return at once. A field without a value is `null` unless its view omits it.

mod operations;
mod preview;
mod session;
mod snapshot;
#[cfg(test)]
mod tests;
mod workflow;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Engine, Error, Result};

pub use operations::{AgentView, RecordView, StoreView, TokenView};
pub use preview::{EstimateView, PlannedCommandView, PreviewView};
pub use session::{
    AnswerView, ConversationView, FoundView, HitView, MessageView, OpeningView, OriginView,
    SessionView, openings,
};
pub use snapshot::{
    Comparison, DecisionView, ErrorView, FeedbackView, GitView, Pair, SnapshotRowView,
    SnapshotView, SourceView, TaskChange,
};
pub use workflow::{
    ApprovalView, IssueView, MoveView, QuestionView, TaskView, TestsView, UsageView,
    WorkflowEventView, WorkflowRowView, WorkflowView,
};

impl Engine {
    /// Masks secrets anywhere in a view.
    pub fn masked<T: Serialize + DeserializeOwned>(&self, view: &T) -> Result<T> {
        let mut value = serde_json::to_value(view).map_err(Error::internal)?;
        self.redactor.redact_json(&mut value);
        serde_json::from_value(value).map_err(Error::internal)
    }
}
