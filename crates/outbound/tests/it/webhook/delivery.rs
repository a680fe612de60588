//! A notice arrives, signed, once or as often as it takes.

use hmac::{Hmac, KeyInit, Mac};
use rethread_outbound::webhook::{Courier, Error, Event, Format, Hook, Key, Patience};
use rethread_testkit::http::{Received, Reply, Server};
use sha2::Sha256;

use super::setup::{NOW, SECRET, courier, hook, notice, patience, send, sent, shown, url};

/// Checks as a receiver does.
fn is_signed(received: &Received, secret: &str) -> bool {
    let told = received.headers["x-rethread-signature"].strip_prefix("sha256=").unwrap();
    let told: Vec<u8> = (0..told.len() / 2)
        .map(|n| u8::from_str_radix(&told[2 * n..2 * n + 2], 16).unwrap())
        .collect();
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(received.headers["x-rethread-timestamp"].as_bytes());
    mac.update(b".");
    mac.update(&received.body);
    mac.verify_slice(&told).is_ok()
}

#[tokio::test]
async fn every_form_is_signed() {
    for format in [Format::Json, Format::Slack, Format::Discord] {
        let (mut received, _) = sent(format, &notice()).await;
        assert_eq!(received.line, "POST /services/T0secret/B0secret HTTP/1.1");
        assert_eq!(received.headers["content-type"], "application/json");
        assert_eq!(received.headers["x-rethread-timestamp"], NOW.to_string());
        assert_eq!(received.headers["x-rethread-delivery"], "0198-d1");
        assert_eq!(received.headers["x-rethread-event"], "workflow_paused");
        assert!(is_signed(&received, SECRET));
        assert!(!is_signed(&received, "another"));
        received.body[3] ^= 1;
        assert!(!is_signed(&received, SECRET), "a changed body passes");
    }
}

#[tokio::test]
async fn without_a_secret_there_is_no_signature() {
    let server = Server::start(vec![Reply::ok("ok")]);
    let hook = Hook::new(&url(&server), Format::Json).unwrap();
    courier().deliver(&hook, &notice()).await.unwrap();
    assert!(!server.received(1)[0].headers.contains_key("x-rethread-signature"));
}

#[tokio::test]
async fn what_is_tried_again_is_the_same_delivery() {
    for trouble in ["500 Oops", "503 Later", "429 Slow"] {
        let script = vec![Reply::new(trouble, ""), Reply::Bytes(Vec::new()), Reply::ok("ok")];
        let server = Server::start(script);
        assert_eq!(send(&server).await, Ok(()));
        let received = server.received(3);
        for again in &received {
            assert_eq!(again.headers["x-rethread-delivery"], "0198-d1");
            assert_eq!(again.body, received[0].body);
            assert!(is_signed(again, SECRET));
        }
    }
}

#[tokio::test]
async fn patience_has_an_end() {
    let script = (0..4).map(|_| Reply::new("502 Bad", "no upstream")).collect();
    let server = Server::start(script);
    let refused = Error::Refused { at: shown(&server), status: 502, message: "no upstream".into() };
    assert_eq!(send(&server).await, Err(refused));
    server.received(3);
}

#[tokio::test]
async fn a_refusal_is_final() {
    for status in ["400 Bad", "401 Who", "403 No", "404 Gone", "410 Gone", "301 Moved", "302 Found"]
    {
        let elsewhere = "location: http://127.0.0.1:1/\r\n";
        let server =
            Server::start(vec![Reply::with(status, elsewhere, "no_service"), Reply::ok("ok")]);
        let error = send(&server).await.unwrap_err();
        assert!(matches!(&error, Error::Refused { message, .. } if message == "no_service"));
        server.received(1);
    }
}

#[tokio::test]
async fn the_wait_is_what_the_receiver_asks_for() {
    let asks = |seconds: &str| {
        let header = format!("retry-after: {seconds}\r\n");
        vec![Reply::with("429 Slow", &header, ""), Reply::ok("ok")]
    };
    let server = Server::start(asks("0.05"));
    let mut patience = patience();
    patience.backoff.longest = std::time::Duration::from_mins(1);
    patience.backoff.base = std::time::Duration::from_mins(1);
    let begun = std::time::Instant::now();
    let hook = hook(&server, Format::Json);
    super::setup::with(patience).deliver(&hook, &notice()).await.unwrap();
    let took = begun.elapsed();
    assert!((50..20_000).contains(&took.as_millis()), "{took:?}");
    // An hour is more than there is patience for.
    let server = Server::start(asks("3600"));
    assert_eq!(send(&server).await, Ok(()));
}

#[tokio::test]
async fn only_what_was_asked_for_is_sent() {
    let server = Server::start(vec![Reply::ok("ok")]);
    let mut hook = hook(&server, Format::Json);
    hook.on = vec![Event::Failed];
    courier().deliver(&hook, &notice()).await.unwrap();
    let mut failed = notice();
    failed.event = Event::Failed;
    courier().deliver(&hook, &failed).await.unwrap();
    assert_eq!(server.received(1)[0].headers["x-rethread-event"], "workflow_failed");
}

#[tokio::test]
async fn what_makes_no_sense_is_told() {
    let server = Server::start(Vec::new());
    let mut hook = hook(&server, Format::Json);
    hook.secret = Some(Key::from(String::new()));
    let found = courier().deliver(&hook, &notice()).await;
    assert_eq!(found, Err(Error::BadHook("its secret is empty".to_owned())));
    let clock = || jiff::Timestamp::UNIX_EPOCH;
    let none = Courier::new(Patience { attempts: 0, ..patience() }, clock);
    assert!(matches!(none, Err(Error::BadHook(_))));
}
