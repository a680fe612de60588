//! Hooks, notices and a courier that most tests share.

use std::time::Duration;

use jiff::Timestamp;
use rethread_outbound::webhook::{
    Backoff, Courier, Error, Event, Format, Hook, Key, Notice, Patience,
};
use rethread_testkit::http::{Received, Reply, Server};
use serde_json::Value;

pub(crate) const SECRET: &str = "whsec-4711";
pub(crate) const NOW: i64 = 1_700_000_000;

pub(crate) fn patience() -> Patience {
    let backoff = Backoff { base: Duration::from_millis(1), longest: Duration::from_millis(2) };
    Patience { timeout: Duration::from_mins(1), attempts: 3, backoff }
}

pub(crate) fn courier() -> Courier {
    with(patience())
}

pub(crate) fn with(patience: Patience) -> Courier {
    Courier::new(patience, || Timestamp::from_second(NOW).unwrap()).unwrap()
}

/// Where a hook leads, with a secret in it.
pub(crate) fn url(server: &Server) -> String {
    format!("{}/services/T0secret/B0secret", server.url())
}

/// The same, as it is shown.
pub(crate) fn shown(server: &Server) -> String {
    format!("{}/…", server.url())
}

pub(crate) fn hook(server: &Server, format: Format) -> Hook {
    let mut hook = Hook::new(&url(server), format).unwrap();
    hook.secret = Some(Key::from(SECRET.to_owned()));
    hook
}

pub(crate) fn notice() -> Notice {
    Notice {
        id: "0198-d1".to_owned(),
        event: Event::Paused,
        at: "2026-11-16T07:00:00Z".parse().unwrap(),
        workflow_id: "0198-w1".to_owned(),
        title: "Fix the login".to_owned(),
        status: "paused".to_owned(),
        reason: Some("requested".to_owned()),
        snapshot_id: Some("0198-s1".to_owned()),
        session_number: 2,
        tasks_completed: 3,
        tasks_total: 5,
        worktree: Some("login".to_owned()),
        resume: Some("rethread workflow resume 0198-w1".to_owned()),
    }
}

/// Sends to a server that answers by script.
pub(crate) async fn send(server: &Server) -> Result<(), Error> {
    courier().deliver(&hook(server, Format::Json), &notice()).await
}

/// What a notice becomes in that form, on its way.
pub(crate) async fn sent(format: Format, notice: &Notice) -> (Received, Value) {
    let server = Server::start(vec![Reply::ok("ok")]);
    courier().deliver(&hook(&server, format), notice).await.unwrap();
    let received = server.received(1).remove(0);
    let body = serde_json::from_slice(&received.body).unwrap();
    (received, body)
}
