//! Servers that are not there, fall silent, break off or talk nonsense.

use std::net::TcpListener;
use std::time::Duration;

use rethread_outbound::model::Error;
use rethread_testkit::http::{Reply, Server};

use super::setup::{BOTH, ask, because, complete, good, request, settings};

const SHORT: Duration = Duration::from_millis(100);
const TOO_MUCH: usize = 10 * 1024 * 1024;

#[tokio::test]
async fn nobody_there() {
    for dialect in BOTH {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let base = format!("http://{address}");
        let Err(Error::Unreachable { at, reason }) =
            complete(settings(dialect, &base), &request()).await
        else {
            panic!("it was reached");
        };
        assert_eq!(at, base);
        assert!(reason.contains("refused"), "{reason}");
    }
}

#[tokio::test]
async fn a_closed_connection_is_tried_again() {
    for dialect in BOTH {
        let server = Server::start(vec![Reply::close(), good(dialect)]);
        assert_eq!(ask(dialect, &server).await, Ok(because()));
        server.received(2);
        let server = Server::start(vec![Reply::close(), Reply::close(), Reply::close()]);
        let found = ask(dialect, &server).await;
        assert!(matches!(found, Err(Error::Unreachable { .. })), "{found:?}");
        server.received(3);
    }
}

#[tokio::test]
async fn half_an_answer_is_tried_again() {
    for dialect in BOTH {
        let half = b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{".to_vec();
        let server = Server::start(vec![Reply::Bytes(half), good(dialect)]);
        assert_eq!(ask(dialect, &server).await, Ok(because()));
        server.received(2);
    }
}

#[tokio::test]
async fn silence_times_out_and_is_tried_again() {
    let begun = b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{";
    for dialect in BOTH {
        let script = vec![Reply::Hang(Vec::new()), Reply::Hang(begun.to_vec()), good(dialect)];
        let server = Server::start(script);
        let mut settings = settings(dialect, &server.url());
        settings.timeout = SHORT;
        settings.attempts = 2;
        let found = complete(settings, &request()).await;
        assert_eq!(found, Err(Error::TimedOut { after: SHORT }));
        server.received(2);
    }
}

#[tokio::test]
async fn a_refusal_that_does_not_end_is_still_one() {
    for dialect in BOTH {
        let begun = b"HTTP/1.1 400 No\r\ncontent-length: 1000\r\n\r\nbecause".to_vec();
        let server = Server::start(vec![Reply::Hang(begun)]);
        let mut settings = settings(dialect, &server.url());
        settings.timeout = Duration::from_secs(1);
        let found = complete(settings, &request()).await;
        assert_eq!(found, Err(Error::Refused { status: 400, message: "because".to_owned() }));
    }
}

#[tokio::test]
async fn an_answer_that_is_too_large_is_refused() {
    let endless = format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{}", "x".repeat(TOO_MUCH));
    for dialect in BOTH {
        let announced = Reply::new("200 OK", "x".repeat(TOO_MUCH));
        let unannounced = Reply::Bytes(endless.clone().into_bytes());
        for reply in [announced, unannounced] {
            let server = Server::start(vec![reply, good(dialect)]);
            assert_eq!(ask(dialect, &server).await, Err(Error::TooLarge { limit: 1024 * 1024 }));
            server.received(1);
        }
    }
}

#[tokio::test]
async fn nonsense_is_final() {
    for dialect in BOTH {
        for body in ["", "hello", "[]", "null", "{\"choices\": 1, \"content\": 1}", "\u{0}\u{1b}"] {
            let server = Server::start(vec![Reply::new("200 OK", body), good(dialect)]);
            let found = ask(dialect, &server).await;
            assert!(matches!(found, Err(Error::Unintelligible(_))), "{body:?}: {found:?}");
            server.received(1);
        }
    }
}

#[tokio::test]
async fn what_is_no_http_counts_as_unreachable() {
    for dialect in BOTH {
        let script = [0, 1, 2].map(|_| Reply::Bytes(b"SSH-2.0-OpenSSH_9.9\r\n".to_vec()));
        let server = Server::start(script.into());
        let found = ask(dialect, &server).await;
        assert!(matches!(found, Err(Error::Unreachable { .. })), "{found:?}");
        server.received(3);
    }
}
