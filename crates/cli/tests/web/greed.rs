//! What somebody does to the others: takes memory, threads and time, or goes on with what was taken from them.

use std::io::{BufReader, Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Request, head, read};
use crate::site::Site;
use crate::sockets::{elsewhere, until};

/// Longer than a credential is trusted without a look.
const LONG: Duration = Duration::from_millis(700);

fn said(text: &str) -> Value {
    json!({"messages": [{"role": "user", "content": text}]})
}

#[test]
fn a_strangers_login_is_not_waited_for_however_long_it_says_it_is() {
    let site = Site::new();
    let mut request = Request::new("POST", "/login").form(&format!("code={}", "x".repeat(8_000)));
    request.headers.push(("Content-Length".to_owned(), "8388608".to_owned()));
    request.body.truncate(8_000);
    // By hand, since less is sent than is said.
    let body = std::mem::take(&mut request.body);
    let mut stream = request.over(crate::sockets::connect(elsewhere(), site.address), site.address);
    stream.write_all(&body).unwrap();
    assert_eq!(read(&mut BufReader::new(stream)).unwrap().is(413).code(), "body_too_large");
}

#[test]
fn a_login_of_a_browser_makes_no_tokens() {
    let site = Site::new();
    let cookie = site.as_cookie(&site.cookie());
    let asked = |method: &str, path: &str| {
        let request = Request::new(method, path).header("Cookie", &cookie);
        let origin = format!("http://{}", site.address);
        let request = request.header("Origin", &origin).header("Sec-Fetch-Site", "same-origin");
        request.json(&json!({"name": "more", "role": "admin"})).send(site.address)
    };
    assert_eq!(asked("POST", "/api/v1/tokens").is(403).code(), "forbidden");
    let id = site.get("/api/v1/tokens").json()["tokens"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(asked("DELETE", &format!("/api/v1/tokens/{id}")).is(403).code(), "forbidden");
    let list = Request::new("GET", "/api/v1/tokens").header("Cookie", &cookie);
    list.send(site.address).is(200);
}

impl Site {
    /// Ends a token that it made; gives its secret before.
    fn short_lived(&self) -> (String, impl Fn() + '_) {
        let made = self.post("/api/v1/tokens", &json!({"name": "t", "role": "admin"})).is(201);
        let text = |name: &str| made.json()[name].as_str().unwrap().to_owned();
        let path = format!("/api/v1/tokens/{}", text("id"));
        let end = move || {
            Request::new("DELETE", &path).by(&self.token).send(self.address).is(200);
        };
        (text("secret"), end)
    }
}

#[test]
fn a_body_that_outlives_its_token_is_not_taken() {
    let site = Site::new();
    let id = site.record("x", &["x"]);
    let (secret, end) = site.short_lived();
    let path = format!("/api/v1/sessions/{id}/messages");
    let mut request = Request::new("POST", &path).by(&secret).json(&said("late"));
    let body = std::mem::take(&mut request.body);
    let request = request.header("Content-Length", &body.len().to_string());
    let mut stream = request.begin(site.address);
    stream.write_all(&body[..10]).unwrap();
    sleep(LONG);
    end();
    stream.write_all(&body[10..]).unwrap();
    assert_eq!(read(&mut BufReader::new(stream)).unwrap().is(401).code(), "unauthenticated");
    let session = site.get(&format!("/api/v1/sessions/{id}")).json();
    assert_eq!(session["messages"], 1, "{session}");
}

/// A session of 24 MB: more than what is under way holds.
fn long_session(site: &Site) -> String {
    let id = site.record("long", &["x"]);
    let text = "heron ".repeat(140_000);
    for _ in 0..29 {
        site.post(&format!("/api/v1/sessions/{id}/messages"), &said(&text)).is(201);
    }
    id
}

#[test]
fn exports_end_with_their_token_and_are_so_many_for_one_user() {
    let site = Site::new();
    let path = format!("/api/v1/sessions/{}/export", long_session(&site));
    let whole = site.get(&path).is(200).body.len();
    let (secret, end) = site.short_lived();
    let begin = || {
        let mut reader = BufReader::new(Request::new("GET", &path).by(&secret).begin(site.address));
        let answer = head(&mut reader).unwrap();
        (answer, reader)
    };
    let mut open: Vec<_> = (0..4).map(|_| begin()).collect();
    assert!(open.iter().all(|(answer, _)| answer.status == 200), "{open:?}");
    // One more of the same user, by another token of theirs.
    let refused = site.get(&path).is(429);
    assert_eq!(refused.code(), "too_many_streams");
    assert!(refused.header("retry-after").is_some());
    let (_, mut other) = open.pop().unwrap();
    end();
    sleep(LONG);
    let mut rest = Vec::new();
    // Cut off, or ended before its end.
    drop(other.read_to_end(&mut rest));
    assert!(rest.len() < whole, "{} of {whole} bytes", rest.len());
    drop((open, other));
    until("the seats are given back", || (site.get(&path).status == 200).then_some(()));
}

#[test]
fn a_key_is_not_used_up_by_what_cannot_be_recorded() {
    let site = Site::new();
    let id = site.record("x", &["x"]);
    let path = format!("/api/v1/sessions/{id}/messages");
    let send = |body: &Value| {
        let request = Request::new("POST", &path).by(&site.token).json(body);
        request.header("Idempotency-Key", "one").send(site.address)
    };
    send(&json!({"messages": [{"role": "nobody", "content": "x"}]})).is(422);
    let first = send(&said("right")).is(201).json();
    assert_eq!(
        send(&said("right")).is(201).json()["messages"][0]["seq"],
        first["messages"][0]["seq"]
    );
    assert_eq!(send(&said("other")).is(409).code(), "key_reused");
}

#[test]
fn a_store_that_is_moved_away_is_told_before_anything_is_lost() {
    let site = Site::new();
    let id = site.record("x", &["x"]);
    let path = format!("/api/v1/sessions/{id}/messages");
    site.post(&path, &said("kept")).is(201);
    let (store, moved) = (site.env.store().to_owned(), site.env.path("moved"));
    std::fs::rename(&store, &moved).unwrap();
    // The token cannot be looked up either.
    let refused = site.post(&path, &said("lost")).is(503);
    assert_eq!(refused.code(), "store_not_open");
    Request::new("GET", "/readyz").send(site.address).is(503);
    Request::new("GET", "/healthz").send(site.address).is(200);
    std::fs::rename(&moved, &store).unwrap();
    site.post(&path, &said("kept too")).is(201);
}

/// Each takes seconds of a core: long runs of one character are the hardest to count.
#[test]
fn who_asks_for_much_holds_up_nobody_else() {
    let site = Site::new();
    let bert = site.token_for("bert", "write");
    let begun = Request::new("POST", "/api/v1/sessions").by(&bert).json(&json!({}));
    let session =
        begun.send(site.address).is(201).json()["session_id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/sessions/{session}/messages");
    let (hard, address) = (said(&"-".repeat(1 << 20)), site.address);
    let answered = AtomicUsize::new(0);
    let sent = AtomicUsize::new(0);
    scope(|threads| {
        for _ in 0..6 {
            threads.spawn(|| {
                let request = Request::new("POST", &path).by(&bert).json(&hard);
                let stream = request.begin(address);
                sent.fetch_add(1, Ordering::SeqCst);
                read(&mut BufReader::new(stream)).unwrap().is(201);
                answered.fetch_add(1, Ordering::SeqCst);
            });
        }
        until("all are sent", || (sent.load(Ordering::SeqCst) == 6).then_some(()));
        for _ in 0..5 {
            Request::new("GET", "/healthz").send(site.address).is(200);
            site.get("/api/v1/sessions").is(200);
        }
        assert!(answered.load(Ordering::SeqCst) < 6, "they came after all the others");
    });
}
