//! Receivers that are not there, fall silent, or do not stop talking.

use std::net::TcpListener;
use std::time::Duration;

use rethread_outbound::webhook::{Error, Format, Hook, Patience};
use rethread_testkit::http::{Reply, Server};

use super::setup::{courier, hook, notice, patience, send, shown, with};

const SHORT: Duration = Duration::from_millis(100);
const GIB: u64 = 1 << 30;
/// What the buffers of two sockets may swallow.
const LITTLE: u64 = 64 << 20;

/// The connection is closed by a task, which has to have its turn meanwhile.
async fn flooded(server: Server) -> u64 {
    tokio::task::spawn_blocking(move || server.flooded()).await.unwrap()
}

#[tokio::test]
async fn nobody_there() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let hook = Hook::new(&format!("http://{address}/x"), Format::Json).unwrap();
    let found = courier().deliver(&hook, &notice()).await;
    let Err(Error::Unreachable { at, reason }) = found else { panic!("{found:?}") };
    assert_eq!(at, format!("http://{address}/…"));
    assert!(reason.contains("refused"), "{reason}");
}

#[tokio::test]
async fn silence_is_cut_off_and_tried_again() {
    let server = Server::start(vec![Reply::Hang(Vec::new()), Reply::Hang(b"HTTP/1.1 2".to_vec())]);
    let courier = with(Patience { timeout: SHORT, attempts: 2, ..patience() });
    let found = courier.deliver(&hook(&server, Format::Json), &notice()).await;
    assert_eq!(found, Err(Error::TimedOut { at: shown(&server), after: SHORT }));
    server.received(2);
}

#[tokio::test]
async fn an_answer_without_end_is_not_read() {
    let head =
        |status: &str| format!("HTTP/1.1 {status}\r\ncontent-length: {GIB}\r\n\r\n").into_bytes();
    let server = Server::start(vec![Reply::Flood(head("200 OK"), GIB)]);
    assert_eq!(send(&server).await, Ok(()));
    assert!(flooded(server).await < LITTLE);
    let server = Server::start(vec![Reply::Flood(head("400 Bad"), GIB)]);
    let found = send(&server).await;
    let Err(Error::Refused { message, .. }) = found else { panic!("{found:?}") };
    assert_eq!(message.chars().count(), 300);
    assert!(flooded(server).await < LITTLE);
}

#[tokio::test]
async fn a_yes_whose_words_do_not_come_is_a_yes() {
    let begun = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n".to_vec();
    let server = Server::start(vec![Reply::Hang(begun)]);
    assert_eq!(send(&server).await, Ok(()));
}

#[tokio::test]
async fn what_is_no_http_counts_as_unreachable() {
    let server = Server::start((0..3).map(|_| Reply::Bytes(b"SSH-2.0-x\r\n".to_vec())).collect());
    let found = send(&server).await;
    assert!(matches!(found, Err(Error::Unreachable { .. })), "{found:?}");
    server.received(3);
}
