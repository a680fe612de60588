//! Events as server-sent events.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures::stream;
use tokio::time::Interval;

use super::{Broadcast, Follower, beat};
use crate::access::Caller;
use crate::problem::Problem;
use crate::state::App;

struct State {
    follower: Follower,
    app: App,
    caller: Caller,
    is_over: bool,
    /// Goes on however much there is to send: a credential is looked at in time.
    beat: Interval,
}

fn frame(told: &Arc<Broadcast>) -> Bytes {
    format!("id: {}\nevent: {}\ndata: {}\n\n", told.no, told.kind, told.text).into()
}

/// Sends events until the client goes, its credential ends or the server stops. A client that does not read is cut off
/// by the connection itself, which gives up on writing.
pub(crate) async fn stream(
    app: &App,
    caller: &Caller,
    after: Option<u64>,
) -> Result<Response, Problem> {
    let follower = Follower::new(app, caller, after).await?;
    // The client learns at once that it is connected, and from where to go on.
    let hello = format!("retry: 1000\n: connected, after {}\n\n", follower.after());
    let state = State {
        follower,
        app: Arc::clone(app),
        caller: caller.clone(),
        is_over: false,
        beat: beat(),
    };
    let events = stream::unfold(state, |mut state| async move {
        if state.is_over {
            return None;
        }
        let chunk = tokio::select! {
            told = state.follower.next() => told.ok().map(|told| frame(&told)),
            () = state.app.stop.cancelled() => None,
            _ = state.beat.tick() => {
                let is_valid = state.caller.is_valid(&state.app).await;
                is_valid.then(|| Bytes::from_static(b": alive\n\n"))
            }
        };
        state.is_over = chunk.is_none();
        let chunk = chunk.unwrap_or_else(|| Bytes::from_static(b": over\n\n"));
        Some((Ok::<_, std::convert::Infallible>(chunk), state))
    });
    let hello = stream::once(async { Ok(Bytes::from(hello)) });
    let mut response = Body::from_stream(futures::StreamExt::chain(hello, events)).into_response();
    let kind = HeaderValue::from_static("text/event-stream; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    Ok(response)
}
