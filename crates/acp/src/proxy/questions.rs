//! What the agent asks the editor: each question has an id of ours meanwhile.

use std::sync::Arc;

use rethread_domain::turn::Update;

use super::binding::{self, Binding};
use super::hub::Hub;
use super::raw::{Edit, Raw};
use super::upstream::Upstream;
use crate::connection::lock;
use crate::frame::Fields;

/// How many questions of the agent the editor may leave without an answer.
const MOST_QUESTIONS: usize = 4096;

/// A request of the agent that the editor has to answer.
pub(crate) struct Question {
    pub(crate) upstream: Arc<Upstream>,
    /// The agent's id of it.
    pub(crate) id: String,
    pub(crate) method: String,
    pub(crate) params: String,
    pub(crate) binding: Option<Arc<Binding>>,
}

impl Hub {
    /// Our id of a question, if the editor is not waited for too often already.
    pub(super) fn ask(&self, question: Question) -> Option<u64> {
        let mut state = lock(&self.state);
        if state.questions.len() >= MOST_QUESTIONS {
            return None;
        }
        state.next += 1;
        let ours = state.next;
        state.questions.insert(ours, question);
        Some(ours)
    }

    /// The editor has answered a question of the agent.
    pub(crate) async fn answered(&self, raw: &Raw<'_>, id: &str, reply: Result<&str, &str>) {
        let ours: Option<u64> = id.trim_matches('"').parse().ok();
        let question = ours.and_then(|ours| lock(&self.state).questions.remove(&ours));
        let Some(Question { upstream, id, method, params, binding }) = question else { return };
        if let Some(binding) = &binding {
            let terminal = || Fields::parse(&params)?.text("terminalId");
            match (method.as_str(), reply) {
                ("session/request_permission", reply) => {
                    let permission = binding::permission(&params, reply).map(Update::Permission);
                    if let (Some(permission), Some(running)) = (permission, binding.running()) {
                        running.pass(permission).await;
                    }
                }
                ("terminal/output", Ok(result)) => {
                    if let Some(terminal) = terminal() {
                        binding.printed(&terminal, result);
                    }
                }
                _ => (),
            }
        }
        upstream.send(raw.with(Some(&id), None)).await;
    }

    /// The agent takes back a question: the editor knows it by another id.
    pub(super) fn cancel_question(
        &self,
        upstream: &Arc<Upstream>,
        raw: &Raw<'_>,
    ) -> Option<String> {
        let meant = Fields::parse(raw.params)?.get("requestId")?;
        let state = lock(&self.state);
        let ours = state
            .questions
            .iter()
            .find(|(_, one)| one.id == meant && Arc::ptr_eq(&one.upstream, upstream))?;
        let mut edit = Edit::new(raw.line);
        edit.replace(meant, &ours.0.to_string());
        Some(edit.finish())
    }
}
