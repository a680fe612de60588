//! Events over WebSocket: each is a text frame. What the client sends is only read so that it can close.

use std::sync::Arc;

use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;

use super::{Broadcast, Follower, beat};
use crate::access::Caller;
use crate::problem::Problem;
use crate::state::App;

/// The longest frame that a client may send.
const LONGEST: usize = 4 << 10;
/// How many bytes wait for a slow client before it is cut off.
const MOST_WAITING: usize = 256 << 10;

/// Why a stream ends, as WebSocket numbers it.
const GOING_AWAY: u16 = 1001;
const REFUSED: u16 = 1008;
const AGAIN: u16 = 1013;

pub(crate) async fn upgrade(
    app: &App,
    caller: &Caller,
    after: Option<u64>,
    upgrade: WebSocketUpgrade,
) -> Result<Response, Problem> {
    let follower = Follower::new(app, caller, after).await?;
    let (app, caller) = (Arc::clone(app), caller.clone());
    let upgrade = upgrade
        .max_message_size(LONGEST)
        .max_frame_size(LONGEST)
        // It is filled with zeros for each look at what came.
        .read_buffer_size(LONGEST)
        .max_write_buffer_size(MOST_WAITING);
    Ok(upgrade.on_upgrade(move |socket| serve(app, caller, follower, socket)))
}

async fn serve(app: App, caller: Caller, mut follower: Follower, mut socket: WebSocket) {
    let mut beat = beat();
    let mut silent = 0_u32;
    let end = loop {
        tokio::select! {
            told = follower.next() => match told {
                Ok(told) if send(&app, &mut socket, &told).await => (),
                Ok(_) => {
                    app.metrics.cut_off.inc();
                    return;
                }
                Err(_) => break (AGAIN, "the store cannot be read now"),
            },
            heard = socket.recv() => match heard {
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => silent = 0,
            },
            () = app.stop.cancelled() => break (GOING_AWAY, "the server is stopping"),
            _ = beat.tick() => {
                if !caller.is_valid(&app).await {
                    break (REFUSED, "the credential is no longer valid");
                }
                silent += 1;
                // A client that answers no ping for a minute is gone.
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

async fn send(app: &App, socket: &mut WebSocket, told: &Broadcast) -> bool {
    write(app, socket, Message::Text(told.text.as_str().into())).await
}

/// Whether the client took it in time.
async fn write(app: &App, socket: &mut WebSocket, message: Message) -> bool {
    let sent = tokio::time::timeout(app.settings.bounds.slowness, socket.send(message)).await;
    matches!(sent, Ok(Ok(())))
}
