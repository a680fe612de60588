//! One turn in our process, from an open to its end.

use futures::FutureExt as _;
use rethread_domain::turn::Update;
use rethread_engine::agents::{Answer, OpenOptions, Progress, Talk};
use rethread_engine::{Engine, Error};
use tokio_util::sync::CancellationToken;

use crate::scripted::Scripted;

/// What came of a turn that we lived to see.
pub(super) struct Seen {
    pub(super) talk: Option<Talk>,
    pub(super) outcome: Result<Answer, Error>,
}

pub(super) async fn attempt(
    engine: &Engine,
    options: OpenOptions,
    open: Option<Talk>,
    request: &str,
    who: &Scripted,
    shown: &mut Vec<Update>,
) -> Seen {
    let mut talk = match open {
        Some(talk) => talk,
        None => match Talk::open(engine, options).await {
            Ok(talk) => talk,
            Err(error) => return Seen { talk: None, outcome: Err(error) },
        },
    };
    // A turn in which we died may have left word that its agent waits.
    let _left = who.waiting.notified().now_or_never();
    let prompt = format!("{request} please");
    let cancel = CancellationToken::new();
    let mut view = |progress: Progress<'_>| {
        if let Progress::Update(update) = progress {
            shown.push(update.clone());
        }
    };
    let outcome = {
        let mut sending = std::pin::pin!(talk.say(&prompt, &cancel, &mut view));
        tokio::select! {
            biased;
            outcome = &mut sending => outcome,
            () = who.waiting.notified() => {
                cancel.cancel();
                sending.await
            }
        }
    };
    Seen { talk: Some(talk), outcome }
}
