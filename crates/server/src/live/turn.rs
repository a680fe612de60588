//! A turn with an agent as server-sent events.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures::stream;
use tokio::time::Interval;

use super::{StreamPermit, heartbeat};
use crate::access::Caller;
use crate::problem::Problem;
use crate::state::App;
use crate::turns::Turn;
use crate::views::TurnView;

struct State {
    app: App,
    caller: Caller,
    turn: Arc<Turn>,
    /// How many steps have been sent.
    sent: usize,
    is_over: bool,
    /// A timer of its own: however much is sent, the credential is checked in time.
    heartbeat: Interval,
    _permit: StreamPermit,
}

impl State {
    /// What to send next: steps, the end of the turn, or a heartbeat.
    async fn next(&mut self) -> Bytes {
        let (texts, is_over) = tokio::select! {
            steps = self.turn.steps(self.sent) => steps,
            () = self.app.stop.cancelled() => (Vec::new(), true),
            _ = self.heartbeat.tick() => {
                if self.caller.is_valid(&self.app).await {
                    return Bytes::from_static(b": alive\n\n");
                }
                self.is_over = true;
                return Bytes::from_static(b": over\n\n");
            }
        };
        let mut frames = String::new();
        for (no, text) in (self.sent + 1..).zip(&texts) {
            frames.push_str(&format!("id: {no}\nevent: update\ndata: {text}\n\n"));
        }
        if is_over {
            let view = TurnView::of(&self.app, &self.turn);
            let view = serde_json::to_string(&view).unwrap_or_default();
            frames.push_str(&format!("event: over\ndata: {view}\n\n"));
        }
        self.sent += texts.len();
        self.is_over = is_over;
        frames.into()
    }
}

/// Sends what an agent says and does until the turn ends, the credential ends or the server stops.
pub(crate) fn follow(app: &App, caller: &Caller, turn: Arc<Turn>) -> Result<Response, Problem> {
    let permit = StreamPermit::take(app, caller)?;
    let (app, caller) = (Arc::clone(app), caller.clone());
    let state = State {
        app,
        caller,
        turn,
        sent: 0,
        is_over: false,
        heartbeat: heartbeat(),
        _permit: permit,
    };
    let events = stream::unfold(state, |mut state| async move {
        if state.is_over {
            return None;
        }
        let chunk = state.next().await;
        Some((Ok::<_, std::convert::Infallible>(chunk), state))
    });
    let mut response = Body::from_stream(events).into_response();
    let kind = HeaderValue::from_static("text/event-stream; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    Ok(response)
}
