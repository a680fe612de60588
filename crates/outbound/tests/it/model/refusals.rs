//! Servers that say no: which answers are asked for again, and what is told of the others.

use std::time::Duration;

use rethread_outbound::model::{Backoff, Error};
use rethread_testkit::http::{Reply, Server};

use super::setup::{BOTH, ask, because, complete, good, request, settings};

const HOUR: Duration = Duration::from_hours(1);

fn refused(status: u16, message: &str) -> Error {
    Error::Refused { status, message: message.to_owned() }
}

#[tokio::test]
async fn a_server_in_trouble_is_asked_again_with_the_same_words() {
    for dialect in BOTH {
        for status in ["500 Oops", "502 Bad Gateway", "503 Busy", "529 Overloaded"] {
            let server = Server::start(vec![Reply::new(status, "x"), good(dialect)]);
            assert_eq!(ask(dialect, &server).await, Ok(because()));
            let received = server.received(2);
            assert_eq!(received[0].body, received[1].body);
            assert_eq!(received[0].headers, received[1].headers);
        }
    }
}

#[tokio::test]
async fn attempts_come_to_an_end() {
    for dialect in BOTH {
        let busy = || Reply::new("503 Busy", r#"{"error":{"message":"later"}}"#);
        let server = Server::start(vec![busy(), busy(), busy(), good(dialect)]);
        assert_eq!(ask(dialect, &server).await, Err(refused(503, "later")));
        server.received(3);
    }
}

#[tokio::test]
async fn a_single_attempt_is_not_repeated() {
    for dialect in BOTH {
        let server = Server::start(vec![Reply::new("500 Oops", ""), good(dialect)]);
        let mut settings = settings(dialect, &server.url());
        settings.attempts = 1;
        let found = complete(settings, &request()).await;
        assert_eq!(found, Err(refused(500, "Internal Server Error")));
        server.received(1);
    }
}

#[tokio::test]
async fn the_wait_that_a_server_asks_for_replaces_ours() {
    for dialect in BOTH {
        let limited = Reply::with("429 Too Many Requests", "retry-after: 0\r\n", "");
        let server = Server::start(vec![limited, good(dialect)]);
        let mut settings = settings(dialect, &server.url());
        settings.backoff = Backoff { base: HOUR, longest: HOUR };
        assert_eq!(complete(settings, &request()).await, Ok(because()));
        server.received(2);
    }
}

#[tokio::test]
async fn the_wait_that_a_server_asks_for_is_capped() {
    for dialect in BOTH {
        let limited = Reply::with("429 Too Many Requests", "retry-after: 86400\r\n", "");
        let server = Server::start(vec![limited, good(dialect)]);
        assert_eq!(ask(dialect, &server).await, Ok(because()));
        server.received(2);
    }
}

#[tokio::test]
async fn other_refusals_are_final() {
    for dialect in BOTH {
        for status in [400_u16, 401, 403, 404, 408, 413, 422] {
            let body = r#"{"error":{"type":"t","message":"no, never"}}"#;
            let refusal = Reply::new(&format!("{status} No"), body);
            let server = Server::start(vec![refusal, good(dialect)]);
            assert_eq!(ask(dialect, &server).await, Err(refused(status, "no, never")));
            server.received(1);
        }
    }
}

#[tokio::test]
async fn messages_are_found_where_servers_put_them() {
    let cases = [
        (r#"{"type":"error","error":{"message":"a"}}"#, "a"),
        (r#"{"error":"b"}"#, "b"),
        (r#"{"message":"c"}"#, "c"),
        ("<h1>\n  d\n</h1>", "<h1> d </h1>"),
        ("", "Not Found"),
        (r#"{"error":{"message":"red \u001b[31m\u0000\u202e\r\nalert"}}"#, "red [31m alert"),
    ];
    for dialect in BOTH {
        for (body, message) in cases {
            let server = Server::start(vec![Reply::new("404 Not Found", body)]);
            assert_eq!(ask(dialect, &server).await, Err(refused(404, message)));
        }
    }
}

#[tokio::test]
async fn a_long_refusal_is_cut() {
    for dialect in BOTH {
        let server = Server::start(vec![Reply::new("400 No", "x".repeat(10 * 1024 * 1024))]);
        let message = format!("{}…", "x".repeat(300));
        assert_eq!(ask(dialect, &server).await, Err(refused(400, &message)));
    }
}

#[tokio::test]
async fn redirects_are_not_followed() {
    for dialect in BOTH {
        let elsewhere = Server::start(vec![good(dialect)]);
        let location = format!("location: {}/\r\n", elsewhere.url());
        let moved = Reply::with("307 Temporary Redirect", &location, "");
        let server = Server::start(vec![moved, good(dialect)]);
        assert_eq!(ask(dialect, &server).await, Err(refused(307, "Temporary Redirect")));
        server.received(1);
        elsewhere.received(0);
    }
}
