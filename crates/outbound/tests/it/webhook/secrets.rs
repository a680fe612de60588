//! Neither a secret nor a URL that is one is ever shown.

use rethread_outbound::webhook::{Format, Hook, Key};
use rethread_testkit::http::{Reply, Server};

use super::setup::{SECRET, courier, hook, notice, send, url};

#[test]
fn debug_shows_the_host_only() {
    let mut hook =
        Hook::new("https://hooks.slack.com/services/T0/B0/xyz?key=k1", Format::Slack).unwrap();
    hook.secret = Some(Key::from(SECRET.to_owned()));
    let shown = format!("{hook:?}");
    assert!(shown.contains("https://hooks.slack.com/…"), "{shown}");
    for hidden in ["services", "xyz", "k1", SECRET] {
        assert!(!shown.contains(hidden), "{shown}");
    }
    assert!(!format!("{:?}", courier()).contains("http"));
}

#[tokio::test]
async fn a_receiver_that_repeats_them_is_not_quoted() {
    let server = Server::start(Vec::new());
    let url = url(&server);
    let path = "/services/T0secret/B0secret";
    for said in [&url, path, "T0secret?", SECRET, "x\u{0}whsec-4\u{7}711"] {
        let server = Server::start(vec![Reply::new("400 Bad", format!("unknown: {said}"))]);
        let error = send(&server).await.unwrap_err();
        for shown in [error.to_string(), format!("{error:?}")] {
            assert!(shown.contains("unknown: "), "{shown}");
            for hidden in ["T0secret", "B0secret", "4711"] {
                assert!(!shown.contains(hidden), "{shown}");
            }
        }
    }
}

#[tokio::test]
async fn no_half_of_one_is_left_at_a_cut() {
    for before in 280..300 {
        let said = format!("{}{SECRET}", "a".repeat(before));
        let server = Server::start(vec![Reply::new("400 Bad", said)]);
        let shown = send(&server).await.unwrap_err().to_string();
        assert!(!shown.contains("whs"), "{shown}");
    }
    for before in 4080..4096 {
        let said = format!("x{}{SECRET}", " ".repeat(before));
        let server = Server::start(vec![Reply::new("400 Bad", said)]);
        let shown = send(&server).await.unwrap_err().to_string();
        assert!(!shown.contains("whs"), "{shown}");
    }
}

#[tokio::test]
async fn nobody_there_is_told_without_them() {
    let server = Server::start(Vec::new());
    let hook = hook(&server, Format::Json);
    drop(server);
    let error = courier().deliver(&hook, &notice()).await.unwrap_err();
    assert!(!format!("{error:?} {error}").contains("secret/"), "{error:?}");
}

#[test]
fn only_web_addresses_are_taken() {
    for (url, why) in [
        ("", "is none: relative URL without a base"),
        ("hooks.slack.com/services/x", "is none: relative URL without a base"),
        ("file:///etc/passwd", "does not begin with http:// or https://"),
        ("ftp://secret.example/x", "does not begin with http:// or https://"),
        ("https://me:secret@example.org/x", "has a name or password in it"),
        ("https://example.org/x#secret", "has a part after #"),
        ("https://", "is none: empty host"),
    ] {
        let error = Hook::new(url, Format::Json).unwrap_err().to_string();
        assert_eq!(error, format!("the webhook is wrong: its URL {why}"), "{url}");
    }
    assert!(Hook::new(" https://example.org/x?token=y\n", Format::Json).is_ok());
}
