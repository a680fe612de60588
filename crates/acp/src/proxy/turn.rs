//! A prompt of the editor's: sent, recorded, and answered once the turn is durable.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rethread_domain::opening::How;
use rethread_engine::agents::{AgentError, Progress, Talk};
use rethread_engine::program::Fault;
use rethread_engine::{Error, Logged as _};
use tokio_util::sync::CancellationToken;

use super::binding::Binding;
use super::hub::Hub;
use super::{forward, replies};
use crate::frame::{self, Fields};
use crate::translate;

/// Whether the user was told how the session was opened.
#[derive(Debug, Clone, Default)]
pub(crate) struct Told(Arc<AtomicBool>);

/// What a prompt says, as it is recorded.
pub(crate) fn text_of(line: &str) -> String {
    let params = Fields::parse(line).and_then(|line| line.get("params")).unwrap_or("null");
    let blocks = Fields::parse(params).and_then(|params| params.get("prompt")).unwrap_or("[]");
    frame::elements(blocks).into_iter().filter_map(translate::content).collect()
}

/// Runs a prompt to its end; gives the conversation back if it can go on.
pub(crate) async fn run(
    hub: &Arc<Hub>,
    binding: &Arc<Binding>,
    opened: impl Future<Output = Result<Box<Talk>, Fault>>,
    text: &str,
    cancel: &CancellationToken,
    told: &Told,
) -> Option<Box<Talk>> {
    let id = binding.with_prompt(|prompt| prompt.id.clone()).unwrap_or_default();
    let opened = tokio::select! {
        biased;
        () = cancel.cancelled() => Err(None),
        opened = opened => opened.map_err(Some),
    };
    let mut talk = match opened {
        Ok(talk) => talk,
        Err(None) => {
            binding.asked();
            hub.outbox.say(replies::ended(binding, &id, false, None)).await;
            return None;
        }
        Err(Some(fault)) => {
            failed(hub, binding, &id, &fault).await;
            return None;
        }
    };
    remember(&mut talk, binding);
    tell_first(hub, binding, &talk, told);
    let mut view = |progress: Progress<'_>| match progress {
        Progress::Opened(opening) => replies::tell_opening(hub, binding, opening),
        Progress::Recorded(upto) => {
            if let Some(attempt) = binding.attempt() {
                attempt.recorded(upto);
            }
        }
        Progress::Elsewhere | Progress::Waiting | Progress::Update(_) => (),
    };
    let outcome = {
        let _over = Over(binding);
        talk.say(text, cancel, &mut view).await
    };
    let is_answered = binding.attempt().is_some_and(|attempt| attempt.is_answered());
    match outcome {
        Ok(_) => {
            if hub.recorded_again() {
                tracing::info!("sessions are recorded again");
            }
        }
        Err(Error::Agent {
            trouble: AgentError::Cancelled | AgentError::TimedOut { .. }, ..
        }) if !is_answered && cancel.is_cancelled() => {
            hub.outbox.say(replies::ended(binding, &id, binding.is_accepted(), None)).await;
        }
        Err(error) if is_answered => {
            tracing::warn!(error = &error as &dyn std::error::Error, "a turn was not ended well");
            if error.is_of_the_store() {
                replies::tell_unrecorded(hub, &Fault::Engine(error));
            }
        }
        Err(error) => failed(hub, binding, &id, &Fault::Engine(error)).await,
    }
    binding.asked();
    talk.rest().await.or_log("a conversation could not be put aside");
    Some(talk)
}

/// However a turn ends, nothing waits for it any more.
struct Over<'a>(&'a Binding);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        if let Some(attempt) = self.0.attempt() {
            attempt.over();
        }
    }
}

/// The prompt could not be sent, or nobody has answered it. Where only the record is missing, the conversation goes on.
async fn failed(hub: &Arc<Hub>, binding: &Arc<Binding>, id: &str, fault: &Fault) {
    let is_sent = binding.attempt().is_some();
    if !is_sent && matches!(fault, Fault::Engine(error) if error.is_of_the_store()) {
        let line = binding.with_prompt(|prompt| prompt.line.clone()).unwrap_or_default();
        if forward::unrecorded(binding, id, &line).await {
            replies::tell_unrecorded_in(hub, &binding.id, fault);
            binding.asked();
            return;
        }
    }
    binding.asked();
    let error = replies::fault(binding, fault);
    let is_accepted = is_sent && binding.is_accepted();
    hub.outbox.say(replies::ended(binding, id, is_accepted, Some(&error))).await;
}

/// Says how the session was opened, before the first answer.
fn tell_first(hub: &Hub, binding: &Binding, talk: &Talk, told: &Told) {
    if let Some(opening) = talk.opening().filter(|_| !told.0.swap(true, Ordering::Relaxed))
        && opening.how != How::Fresh
    {
        replies::tell_opening(hub, binding, opening);
    }
}

/// Keeps what the editor has set in the agent.
fn remember(talk: &mut Talk, binding: &Binding) {
    let settings = binding.take_set();
    if !settings.is_empty() {
        talk.remember(&settings);
    }
}

/// Ends a conversation.
pub(crate) async fn end(mut talk: Talk, binding: &Binding) {
    remember(&mut talk, binding);
    talk.end().await.or_log("a conversation could not be ended");
}
