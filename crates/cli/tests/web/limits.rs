//! How much somebody may ask, send and keep open, and that others do not notice.

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{PATIENCE, Request, read};
use crate::env::TestEnv;
use crate::site::Site;
use crate::sockets::{connect, elsewhere, raw, until};

/// A server with these settings.
fn limited(settings: &str) -> Site {
    let env = TestEnv::new();
    env.set("serve", settings);
    Site::within(env, &[])
}

/// The head of a request for a new session, all but its end.
fn beginning(site: &Site, more: &str) -> String {
    format!(
        "POST /api/v1/sessions HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\n{more}",
        site.address, site.token
    )
}

/// How long it takes until the connection is closed.
#[track_caller]
fn closed(mut stream: TcpStream) -> Duration {
    let begun = Instant::now();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Err(error) if error.kind() != std::io::ErrorKind::ConnectionReset => panic!("{error}"),
        _ => begun.elapsed(),
    }
}

#[test]
fn one_token_may_ask_so_often_and_others_do_not_notice() {
    let site = limited("requests_per_second = 5");
    let polite = site.token_for("bert", "read");
    let ask = |token: &str| {
        Request::new("GET", "/api/v1/sessions").by(token).send_from(elsewhere(), site.address)
    };
    let held = (0..100).map(|_| ask(&site.token)).find(|answer| answer.status != 200);
    let held = held.expect("a hundred in a row are too many").is(429);
    assert_eq!(held.code(), "too_many_requests");
    let seconds: u64 = held.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=5).contains(&seconds), "{seconds}");
    ask(&polite).is(200);
    // Whoever waits as long as they were told is answered.
    std::thread::sleep(Duration::from_secs(seconds));
    ask(&site.token).is(200);
}

#[test]
fn strangers_may_not_ask_often() {
    let site = Site::new();
    let from = elsewhere();
    for path in ["/api/v1/sessions", "/", "/login", "/assets/x"] {
        let from = elsewhere();
        let ask = || Request::new("GET", path).send_from(from, site.address);
        let held = (0..200).map(|_| ask()).find(|answer| answer.status == 429);
        let held = held.unwrap_or_else(|| panic!("{path}: two hundred are too many"));
        assert!(held.header("retry-after").is_some());
        // From the same address, whoever has a token is answered.
        site.get("/api/v1/sessions").is(200);
        Request::new("GET", "/api/v1/sessions")
            .by(&site.token)
            .send_from(from, site.address)
            .is(200);
    }
    // Whoever watches over it is always told.
    for _ in 0..100 {
        Request::new("GET", "/healthz").send_from(from, site.address).is(200);
    }
}

#[test]
fn a_head_has_an_end() {
    let site = Site::new();
    let get = |more: &str| {
        let text = format!(
            "GET /api/v1/sessions HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n{more}\r\n",
            site.address, site.token
        );
        raw(site.address, text.as_bytes()).map_or(0, |answer| answer.status)
    };
    assert_eq!(get(""), 200);
    let refused = [0, 400, 414, 431];
    assert!(refused.contains(&get(&format!("X-Long: {}\r\n", "x".repeat(1 << 20)))));
    assert!(refused.contains(&get(&"X-Many: x\r\n".repeat(1_000))));
    for text in ["X: \0\r\n", "no colon\r\n", " folded\r\n", "X : y\r\n", "Content-Length: -1\r\n"]
    {
        assert!(refused.contains(&get(text)), "{text:?}");
    }
    // Two ways to tell where the body ends are one too many.
    for text in [
        "Content-Length: 3\r\nContent-Length: 4\r\n",
        "Content-Length: 3\r\nTransfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: x\r\n",
    ] {
        assert!(refused.contains(&get(text)), "{text:?}");
    }
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(1 << 20));
    let answer = raw(site.address, long.as_bytes());
    assert!(answer.is_none_or(|answer| refused.contains(&answer.status)));
    for garbage in [&b"\x16\x03\x01\x02\x00"[..], b"\0\0\0\0\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\n"] {
        let answer = raw(site.address, garbage);
        assert!(answer.is_none_or(|answer| answer.status >= 400), "{garbage:?}");
    }
    site.get("/api/v1/sessions").is(200);
}

#[test]
fn whoever_is_slow_is_let_go() {
    let site = limited("patience_seconds = 1");
    let within = Duration::from_secs(20);
    // A head that does not end, though something comes all the time.
    let mut slow = TcpStream::connect(site.address).unwrap();
    slow.write_all(beginning(&site, "").as_bytes()).unwrap();
    let begun = Instant::now();
    while slow.write_all(b"X: y\r\n").is_ok() {
        assert!(begun.elapsed() < within, "it may go on for ever");
        std::thread::sleep(Duration::from_millis(50));
    }
    // Nothing at all, and nothing after an answer.
    assert!(closed(TcpStream::connect(site.address).unwrap()) < within);
    let kept = Request::new("GET", "/api/v1/sessions").by(&site.token).begin(site.address);
    assert!(closed(kept) < within);
    // A body that stops, and one that comes drop by drop.
    let mut stuck = TcpStream::connect(site.address).unwrap();
    stuck.write_all(beginning(&site, "Content-Length: 20\r\n\r\n{\"title\"").as_bytes()).unwrap();
    let answer = read(&mut BufReader::new(&mut stuck)).expect("it is told");
    assert_eq!(answer.is(400).code(), "bad_request");
    assert!(closed(stuck) < within);
    let mut drops = TcpStream::connect(site.address).unwrap();
    drops
        .write_all(beginning(&site, "Content-Length: 9000\r\n\r\n{\"title\":\"").as_bytes())
        .unwrap();
    let begun = Instant::now();
    while drops.write_all(b"x").is_ok() {
        assert!(begun.elapsed() < within, "it may go on for ever");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(site.get("/api/v1/sessions").is(200).json()["items"].as_array().unwrap().is_empty());
}

#[test]
fn whoever_does_not_take_an_answer_is_let_go() {
    let site = Site::new();
    let id = site.record("long", &["x"]);
    let text = "x".repeat(900_000);
    for _ in 0..30 {
        let body = json!({"messages": [{"role": "user", "content": text}]});
        site.post(&format!("/api/v1/sessions/{id}/messages"), &body).is(201);
    }
    let path = format!("/api/v1/sessions/{id}/export?format=jsonl");
    let whole = site.get(&path).is(200).body.len();
    assert!(whole > 27_000_000, "{whole}");
    let before = site.memory();
    let deaf: Vec<TcpStream> =
        (0..10).map(|_| Request::new("GET", &path).by(&site.token).begin(site.address)).collect();
    until("they are there", || (site.counter("rethread_connections") >= 11.0).then_some(()));
    assert!(site.memory() < before + 128 * 1024, "{before} {}", site.memory());
    until("they are let go", || (site.counter("rethread_connections") < 2.0).then_some(()));
    drop(deaf);
}

#[test]
fn thousands_of_idle_sockets_are_in_nobodys_way_for_long() {
    let site = limited("patience_seconds = 1\nmax_connections = 256");
    let before = site.memory();
    let idle: Vec<TcpStream> =
        (0..1_100).filter_map(|_| TcpStream::connect(site.address).ok()).collect();
    assert!(idle.len() > 1_000, "{}", idle.len());
    // Whoever asks meanwhile from elsewhere is answered.
    let begun = Instant::now();
    assert_eq!(from_elsewhere(&site), 200);
    assert!(begun.elapsed() < Duration::from_secs(40), "{:?}", begun.elapsed());
    assert!(site.memory() < before + 64 * 1024, "{before} {}", site.memory());
    drop(idle);
    until("they are let go", || (site.counter("rethread_connections") < 3.0).then_some(()));
    site.get("/api/v1/sessions").is(200);
}

/// Asks for the sessions from another address; gives the status.
fn from_elsewhere(site: &Site) -> u16 {
    let mut stream = connect(elsewhere(), site.address);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let text = format!(
        "GET /api/v1/sessions HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
        site.address, site.token
    );
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default()
}

#[test]
fn one_address_does_not_take_all_connections() {
    let site = limited("max_connections = 40");
    // Half of them may be of one address; two are for whoever looks.
    let near = elsewhere();
    let held: Vec<TcpStream> = (0..20).map(|_| connect(near, site.address)).collect();
    until("they are there", || (site.counter("rethread_connections") >= 21.0).then_some(()));
    for _ in 0..30 {
        let mut refused = connect(near, site.address);
        refused.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut answer = String::new();
        refused.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert!(answer.contains("\"code\":\"too_many_connections\""), "{answer}");
    }
    assert_eq!(from_elsewhere(&site), 200, "there is room for others");
    let refusals = site.counter("rethread_refusals_total{code=\"too_many_connections\"}");
    assert!(refusals >= 30.0, "{refusals}");
    drop(held);
    until("they are let go", || (site.counter("rethread_connections") < 3.0).then_some(()));
    let again = connect(near, site.address);
    until("it is let in", || (site.counter("rethread_connections") >= 2.0).then_some(()));
    drop(again);
}

/// Sends chunks until it is refused; gives the answer and how many bytes were sent.
fn pour(site: &Site, path: &str, most: usize) -> (u16, usize) {
    let text = beginning(site, "Transfer-Encoding: chunked\r\n\r\n");
    let text = text.replace("/api/v1/sessions ", &format!("{path} "));
    let mut stream = connect(elsewhere(), site.address);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    let chunk = [b"10000\r\n".as_slice(), &vec![b' '; 1 << 16], b"\r\n"].concat();
    let mut sent = 0;
    while sent < most && stream.write_all(&chunk).is_ok() {
        sent += 1 << 16;
    }
    let answer = read(&mut BufReader::new(&mut stream));
    (answer.map_or(0, |answer| answer.status), sent)
}

#[test]
fn a_body_without_end_is_refused_early() {
    let site = Site::new();
    pour(&site, "/api/v1/sessions", 1 << 20);
    let before = site.memory();
    let mut most = 0;
    for _ in 0..3 {
        let (status, sent) = pour(&site, "/api/v1/sessions", 1 << 30);
        // The answer may be lost with the connection, while we still send.
        assert!([0, 413].contains(&status), "{status}");
        assert!(sent < 64 << 20, "{sent}");
        most = most.max(site.memory());
    }
    assert!(most < before + 64 * 1024, "{before} KiB, then {most} KiB");
    // One that says how long it is need not be sent at all.
    let long = beginning(&site, "Content-Length: 1073741824\r\n\r\n");
    assert_eq!(raw(site.address, long.as_bytes()).expect("an answer").status, 413);
    // A stranger's is not read at all.
    let text = format!(
        "POST /api/v1/import HTTP/1.1\r\nHost: {}\r\nContent-Length: 1073741824\r\n\r\n",
        site.address
    );
    assert_eq!(raw(site.address, text.as_bytes()).expect("an answer").status, 401);
}

#[test]
fn packed_and_deeply_nested_bodies_are_refused() {
    let mut site = Site::new();
    for packing in ["gzip", "GZIP", "deflate", "br", "zstd", "identity, gzip", "x", ""] {
        let request = Request::new("POST", "/api/v1/sessions").by(&site.token).json(&json!({}));
        let answer = request.header("Content-Encoding", packing).send(site.address);
        assert_eq!(answer.is(415).code(), "unsupported_media_type", "{packing}");
    }
    let id = site.record("x", &["x"]);
    for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
        let deep = format!("{}1{}", open.repeat(50_000), close.repeat(50_000));
        let bodies = [
            ("/api/v1/sessions".to_owned(), deep.clone()),
            (
                format!("/api/v1/sessions/{id}/messages"),
                format!(r#"{{"messages":[{{"role":"user","content":"x","extra":{deep}}}]}}"#),
            ),
            (
                format!("/api/v1/sessions/{id}/messages"),
                format!(r#"{{"messages":[{{"role":"user","content":"x","tool_calls":{deep}}}]}}"#),
            ),
            ("/api/v1/import".to_owned(), deep.clone()),
            ("/api/v1/workflows".to_owned(), format!(r#"{{"issue":{deep}}}"#)),
        ];
        for (path, body) in bodies {
            let mut request = Request::new("POST", &path).by(&site.token);
            request = request.header("Content-Type", "application/json");
            request.body = body.into_bytes();
            let answer = request.send(site.address);
            assert!([400, 415, 422].contains(&answer.status), "{path} {}", answer.text());
        }
    }
    site.get("/api/v1/sessions").is(200);
    site.stop_without_errors();
}
