//! One request and its answer, for a person or for a program.

use std::sync::atomic::{AtomicBool, Ordering};

use rethread_engine::Error;
use rethread_engine::agents::{AgentError, Answer, Progress, Runner, TurnRequest};
use rethread_engine::views::AnswerView;
use tokio_util::sync::CancellationToken;

use super::{View, patiently};
use crate::cli::App;
use crate::error::{Cancelled, NotRecorded};
use crate::output;

/// How far a request got.
#[derive(Debug, Default)]
struct Way {
    is_opened: AtomicBool,
    is_elsewhere: AtomicBool,
}

impl Way {
    fn note(&self, progress: &Progress<'_>) {
        self.is_opened.store(true, Ordering::SeqCst);
        if matches!(progress, Progress::Elsewhere) {
            self.is_elsewhere.store(true, Ordering::SeqCst);
        }
    }
}

/// Ctrl-C cancels the request, and waits for the agent to end its turn; a second one does not wait.
pub(crate) async fn once(app: &App, request: &TurnRequest) -> anyhow::Result<Answer> {
    let project = app.engine.session(request.options.session).await?.project;
    let mut view = View::new(app.json, None, &project);
    let agent = &request.options.agent;
    let cancelled = |is_recorded: bool| -> anyhow::Error {
        Cancelled { agent: agent.clone(), is_recorded }.into()
    };
    let (way, cancel) = (Way::default(), CancellationToken::new());
    let outcome = {
        let mut show = |progress: Progress<'_>| {
            way.note(&progress);
            view.progress(&progress);
        };
        let runner = Runner::new(app.engine.clone());
        let is_starting = || !app.json && !way.is_opened.load(Ordering::SeqCst);
        let mut sent =
            std::pin::pin!(patiently(agent, runner.run(request, &cancel, &mut show), is_starting));
        loop {
            tokio::select! {
                outcome = &mut sent => break Some(outcome),
                _ = tokio::signal::ctrl_c() => {
                    if cancel.is_cancelled() {
                        // What was said so far is kept, and marked as interrupted.
                        break None;
                    }
                    cancel.cancel();
                }
            }
        }
    };
    if let Some(Ok(answer)) = &outcome {
        view.answered(&answer.answer);
    }
    view.end_turn();
    let (is_opened, is_elsewhere) = (way.is_opened.into_inner(), way.is_elsewhere.into_inner());
    let answer = match outcome {
        None => return Err(cancelled(is_opened)),
        Some(Err(Error::Agent { trouble, .. })) if cancel.is_cancelled() => {
            return Err(cancelled(is_opened && trouble != AgentError::Cancelled));
        }
        Some(Err(error)) if !is_opened => return Err(NotRecorded(error).into()),
        Some(outcome) => outcome?,
    };
    if answer.stop == "cancelled" && (cancel.is_cancelled() || !app.json && !is_elsewhere) {
        // By the person, who may have given no answer to a question, or by another process.
        return Err(cancelled(true));
    }
    if app.json {
        output::json(&AnswerView::from(&answer));
    }
    if let Some(failure) = answer.failure() {
        return Err(failure.into());
    }
    if !app.json && answer.stop != "end_turn" {
        view.note(&answer.stop);
    }
    Ok(answer)
}
