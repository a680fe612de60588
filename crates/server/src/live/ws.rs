//! The event stream over WebSocket: each event is a text frame. Client frames are only read to notice a close.

use std::sync::Arc;

use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;

use super::{Broadcast, Subscriber, heartbeat};
use crate::access::Caller;
use crate::problem::Problem;
use crate::state::App;

/// The longest frame that a client may send.
const LONGEST: usize = 4 << 10;
/// How many bytes may wait for a slow client before it is disconnected.
const MOST_WAITING: usize = 256 << 10;

/// Close codes of WebSocket.
const GOING_AWAY: u16 = 1001;
const POLICY_VIOLATION: u16 = 1008;
const TRY_AGAIN_LATER: u16 = 1013;

pub(crate) async fn upgrade(
    app: &App,
    caller: &Caller,
    after: Option<u64>,
    upgrade: WebSocketUpgrade,
) -> Result<Response, Problem> {
    let subscriber = Subscriber::new(app, caller, after).await?;
    let (app, caller) = (Arc::clone(app), caller.clone());
    let upgrade = upgrade
        .max_message_size(LONGEST)
        .max_frame_size(LONGEST)
        // The buffer is zeroed before each read, so it is kept small.
        .read_buffer_size(LONGEST)
        .max_write_buffer_size(MOST_WAITING);
    Ok(upgrade.on_upgrade(move |socket| serve(app, caller, subscriber, socket)))
}

async fn serve(app: App, caller: Caller, mut subscriber: Subscriber, mut socket: WebSocket) {
    let mut heartbeat = heartbeat();
    let mut silent = 0_u32;
    let end = loop {
        tokio::select! {
            event = subscriber.next() => match event {
                Ok(event) if send(&app, &mut socket, &event).await => (),
                Ok(_) => {
                    app.metrics.cut_off.inc();
                    return;
                }
                Err(_) => break (TRY_AGAIN_LATER, "the store cannot be read now"),
            },
            heard = socket.recv() => match heard {
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => silent = 0,
            },
            () = app.stop.cancelled() => break (GOING_AWAY, "the server is stopping"),
            _ = heartbeat.tick() => {
                if !caller.is_valid(&app).await {
                    break (POLICY_VIOLATION, "the credential is no longer valid");
                }
                silent += 1;
                // A client that answers no ping for a minute is disconnected.
                if silent > 120 {
                    return;
                }
                if silent.is_multiple_of(40) && !write(&app, &mut socket, Message::Ping("".into())).await {
                    return;
                }
            }
        }
    };
    let frame = CloseFrame { code: end.0, reason: end.1.into() };
    write(&app, &mut socket, Message::Close(Some(frame))).await;
}

async fn send(app: &App, socket: &mut WebSocket, event: &Broadcast) -> bool {
    write(app, socket, Message::Text(event.text.as_str().into())).await
}

/// Whether the client took the frame in time.
async fn write(app: &App, socket: &mut WebSocket, message: Message) -> bool {
    let sent = tokio::time::timeout(app.settings.bounds.slowness, socket.send(message)).await;
    matches!(sent, Ok(Ok(())))
}
