//! The key is sent to the server and shown to nobody else.

use std::time::Duration;

use rethread_outbound::model::{Dialect, Endpoint, Error, Key};
use rethread_testkit::http::{Reply, Server};
use serde_json::json;

use super::setup::{BOTH, KEY, complete, good_body, request, settings, structured};

fn assert_hidden(error: &Error) {
    let shown = format!("{error} {error:?} {error:#?}");
    assert!(!shown.contains(KEY), "{shown}");
}

#[test]
fn debug_does_not_show_it() {
    for dialect in BOTH {
        let settings = settings(dialect, "http://127.0.0.1:1/v1");
        assert_eq!(format!("{:?}", settings.key), "Some(Key(hidden))");
        assert!(!format!("{settings:?} {settings:#?}").contains(KEY));
        let endpoint = Endpoint::new(settings).unwrap();
        let shown = format!("{endpoint:?} {endpoint:#?}");
        assert!(shown.contains("small") && !shown.contains(KEY), "{shown}");
    }
}

#[tokio::test]
async fn no_error_shows_it_even_if_the_server_does() {
    let told = json!({ "error": { "message": format!("bad key {KEY}") } }).to_string();
    for dialect in BOTH {
        for reply in [
            Reply::new("401 Unauthorized", &told),
            Reply::new("401 Unauthorized", KEY),
            Reply::new("500 Oops", &told),
            Reply::new("200 OK", json!(KEY).to_string()),
            Reply::new("200 OK", json!({ "choices": KEY, "content": KEY }).to_string()),
            Reply::close(),
            Reply::Hang(Vec::new()),
        ] {
            let server = Server::start(vec![reply]);
            let mut settings = settings(dialect, &server.url());
            settings.attempts = 1;
            settings.timeout = Duration::from_millis(500);
            assert_hidden(&complete(settings, &request()).await.unwrap_err());
        }
    }
}

#[tokio::test]
async fn the_place_of_the_key_is_marked() {
    let mut body = good_body(Dialect::OpenAi);
    body["choices"][0]["message"]["refusal"] = json!(format!("I saw {KEY}."));
    let server = Server::start(vec![Reply::new("200 OK", body.to_string())]);
    let found = complete(settings(Dialect::OpenAi, &server.url()), &structured()).await;
    let why = "the model declined: I saw [key].".to_owned();
    assert_eq!(found, Err(Error::Unintelligible(why)));
}

#[test]
fn a_key_that_cannot_be_sent_is_not_shown_either() {
    for dialect in BOTH {
        for key in [format!("{KEY}\n"), format!("{KEY} x"), format!("{KEY}é"), String::new()] {
            let mut settings = settings(dialect, "http://127.0.0.1:1");
            settings.key = Some(Key::from(key));
            let error = Endpoint::new(settings).unwrap_err();
            assert!(matches!(error, Error::BadSettings(_)));
            assert_hidden(&error);
        }
    }
}
