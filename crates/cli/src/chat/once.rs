//! One request and its answer, for a person or for a program.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rethread_engine::agents::{Answer, OpenOptions, Progress};

use super::{View, patiently};
use crate::cli::App;
use crate::error::{Cancelled, NotRecorded, Refused};
use crate::output;

/// How far a request got.
#[derive(Debug, Default)]
struct Way {
    is_opened: AtomicBool,
    is_elsewhere: AtomicBool,
    /// What another process was asked to send; no number is 0.
    asked: AtomicU64,
}

impl Way {
    fn note(&self, progress: &Progress<'_>) {
        self.is_opened.store(true, Ordering::SeqCst);
        match progress {
            Progress::Elsewhere => self.is_elsewhere.store(true, Ordering::SeqCst),
            Progress::Asked(no) => self.asked.store(*no, Ordering::SeqCst),
            Progress::Opened(_) | Progress::Update(_) => (),
        }
    }
}

/// With `only_here`, whoever else has the conversation open is not asked to send it: they could not do it as it is
/// wanted.
pub(crate) async fn once(
    app: &App,
    options: &OpenOptions,
    prompt: &str,
    only_here: bool,
) -> anyhow::Result<Answer> {
    let mut view = View::new(app.json);
    let cancelled = |is_recorded: bool| -> anyhow::Error {
        Cancelled { agent: options.agent.clone(), is_recorded }.into()
    };
    let way = Way::default();
    let outcome = {
        let mut show = |progress: Progress<'_>| {
            way.note(&progress);
            view.progress(&progress);
        };
        let sent = async {
            if only_here {
                app.engine.send_here(options, prompt, &mut show).await
            } else {
                app.engine.send(options, prompt, &mut show).await
            }
        };
        let is_starting = || !app.json && !way.is_opened.load(Ordering::SeqCst);
        tokio::select! {
            answer = patiently(&options.agent, sent, is_starting) => answer,
            // What was said so far is kept, and marked as interrupted.
            _ = tokio::signal::ctrl_c() => {
                view.end_line();
                let is_taken_back = take_back(app, way.asked.into_inner()).await?;
                return Err(cancelled(way.is_opened.into_inner() && !is_taken_back));
            }
        }
    };
    if let Ok(answer) = &outcome {
        view.answered(&answer.answer);
    }
    view.end_line();
    let is_elsewhere = way.is_elsewhere.into_inner();
    if !way.is_opened.into_inner() {
        return outcome.map_err(|error| NotRecorded(error).into());
    }
    let answer = outcome?;
    if answer.stop == "cancelled" && !app.json && !is_elsewhere {
        // By the person, who gave no answer to a question, or by another process: nobody waits for it any more.
        return Err(cancelled(true));
    }
    if app.json {
        output::json(&answer);
    } else if answer.stop != "end_turn" {
        view.note(&answer.stop);
    }
    Ok(answer)
}

/// Takes back what another process was asked to send, and says so where it had begun. Gives whether there was anything.
async fn take_back(app: &App, asked: u64) -> anyhow::Result<bool> {
    if asked == 0 || app.engine.take_back(asked).await? {
        return Ok(asked != 0);
    }
    Err(Refused {
        code: "taken",
        message: "the process that has the conversation open had begun with it, and goes on".into(),
        hint: Some("Ctrl-C there cancels it; so does `rethread stop ID`".into()),
    }
    .into())
}
