//! What programs see of each thing: one form for `--json`, REST and MCP.
//!
//! A view is made of what is stored. What leaves for others is masked with [`Engine::masked`]; how much of it is given
//! at once is for each door to say. A field that has no value is `null` unless its view leaves it out.

mod session;
mod snapshot;
#[cfg(test)]
mod tests;
mod workflow;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Engine, Error, Result};

pub use session::{
    AnswerView, ConversationView, FoundView, HitView, MessageView, OpeningView, OriginView,
    SessionView, openings,
};
pub use snapshot::{
    Comparison, DecisionView, ErrorView, FeedbackView, GitView, Pair, SnapshotRowView,
    SnapshotView, SourceView, TaskChange,
};
pub use workflow::{
    IssueView, MoveView, QuestionView, TaskView, TestsView, UsageView, WorkflowEventView,
    WorkflowRowView, WorkflowView,
};

impl Engine {
    /// The same without what looks like a secret, wherever in it that stands.
    pub fn masked<T: Serialize + DeserializeOwned>(&self, view: &T) -> Result<T> {
        let mut value = serde_json::to_value(view).map_err(Error::internal)?;
        self.redactor.redact_json(&mut value);
        serde_json::from_value(value).map_err(Error::internal)
    }
}
