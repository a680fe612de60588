//! The event stream as server-sent events.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures::stream;
use tokio::time::Interval;

use super::{Broadcast, Subscriber, heartbeat};
use crate::access::Caller;
use crate::problem::Problem;
use crate::state::App;

struct State {
    subscriber: Subscriber,
    app: App,
    caller: Caller,
    is_over: bool,
    /// A timer of its own: however many events are sent, the credential is checked in time.
    heartbeat: Interval,
}

fn frame(event: &Arc<Broadcast>) -> Bytes {
    format!("id: {}\nevent: {}\ndata: {}\n\n", event.no, event.kind, event.text).into()
}

/// Sends events until the client disconnects, its credential ends or the server stops. A client that does not read is
/// disconnected by the write timeout of its connection.
pub(crate) async fn stream(
    app: &App,
    caller: &Caller,
    after: Option<u64>,
) -> Result<Response, Problem> {
    let subscriber = Subscriber::new(app, caller, after).await?;
    // Tells the client at once that it is connected, and at which event the stream starts.
    let hello = format!("retry: 1000\n: connected, after {}\n\n", subscriber.after());
    let state = State {
        subscriber,
        app: Arc::clone(app),
        caller: caller.clone(),
        is_over: false,
        heartbeat: heartbeat(),
    };
    let events = stream::unfold(state, |mut state| async move {
        if state.is_over {
            return None;
        }
        let chunk = tokio::select! {
            event = state.subscriber.next() => event.ok().map(|event| frame(&event)),
            () = state.app.stop.cancelled() => None,
            _ = state.heartbeat.tick() => {
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
