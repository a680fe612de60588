//! Events: no gap and no repetition, whatever happens to the server, its clients and those who write.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Answer, Request};
use crate::env::TestEnv;
use crate::site::Site;
use crate::sockets::{Heard, Stream, connect, elsewhere, raw, until};

/// WebSocket and server-sent events.
const BOTH: [bool; 2] = [true, false];

/// Follows what comes after this event, as this token may; the two ways of saying from where are both used.
fn follow(
    to: SocketAddr,
    token: &str,
    after: Option<u64>,
    is_socket: bool,
) -> Result<Stream, Answer> {
    let request = match after {
        Some(after) if is_socket => {
            Request::new("GET", &format!("/api/v1/events?after={after}")).by(token)
        }
        Some(after) => {
            let request = Request::new("GET", "/api/v1/events?after=0").by(token);
            request.header("Last-Event-ID", &after.to_string())
        }
        None => Request::new("GET", "/api/v1/events").by(token),
    };
    Stream::open(request, is_socket, to)
}

#[track_caller]
fn event(stream: &mut Stream) -> Value {
    match stream.next() {
        Heard::Event(event) => event,
        other => panic!("no event, but {other:?}"),
    }
}

fn number(event: &Value) -> u64 {
    event["no"].as_u64().unwrap()
}

/// A store that was put back to an older state would otherwise leave its followers waiting for ever.
#[test]
fn whoever_has_seen_more_than_there_is_is_told() {
    let site = Site::new();
    site.record("one", &["begin"]);
    let head = site.head();
    for is_socket in BOTH {
        for ahead in [head + 1, u64::MAX] {
            let refused = follow(site.address, &site.token, Some(ahead), is_socket).unwrap_err();
            assert_eq!(refused.is(409).code(), "events_ahead");
        }
        assert!(follow(site.address, &site.token, Some(head), is_socket).is_ok());
    }
}

impl Site {
    /// The number of the newest event, as the store has it.
    fn head(&self) -> u64 {
        let script = "import sqlite3, sys\n\
                      print(sqlite3.connect(sys.argv[1]).execute('select max(no) from feed').fetchone()[0] or 0)";
        let store = self.env.store().to_str().unwrap();
        let out = std::process::Command::new("python3").args(["-c", script, store]).output();
        String::from_utf8(out.unwrap().stdout).unwrap().trim().parse().unwrap()
    }

    /// Fills the log with events of anna's.
    fn fill(&self, count: u32) {
        let session = self.record("filled", &["x"]);
        self.env.change_store(&format!(
            "with recursive n(i) as (select 1 union all select i + 1 from n where i < {count})
             insert into feed (at, user, kind, session, workflow, first, last)
             select 0, 'anna', 'MESSAGES_APPENDED', '{session}', null, i, i from n"
        ));
    }

    /// What the counter of this name says.
    pub(crate) fn counter(&self, name: &str) -> f64 {
        let text = self.get("/metrics").is(200).text();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name}: {text}")).parse().unwrap()
    }

    /// How much memory the server has, in KiB.
    pub(crate) fn memory(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    }
}

#[test]
fn what_was_missed_comes_first_and_nothing_twice() {
    let site = Site::new();
    for n in 0..3 {
        site.record(&format!("before {n}"), &["one", "two"]);
    }
    for is_socket in BOTH {
        let head = site.head();
        let mut last = 0;
        while last < head {
            // Two at a time, then the connection is lost.
            let mut stream = follow(site.address, &site.token, Some(last), is_socket).unwrap();
            for _ in 0..2.min(head - last) {
                let event = event(&mut stream);
                assert_eq!(number(&event), last + 1, "{event}");
                last += 1;
            }
        }
        let mut stream = follow(site.address, &site.token, Some(last), is_socket).unwrap();
        let id = site.record("meanwhile", &["three"]);
        let (first, second) = (event(&mut stream), event(&mut stream));
        assert_eq!((number(&first), number(&second)), (last + 1, last + 2));
        assert_eq!(first["type"], "SESSION_STARTED");
        assert_eq!(first["session_id"], *id);
    }
}

#[test]
fn without_a_number_it_begins_now() {
    let site = Site::new();
    site.record("before", &["x"]);
    for is_socket in BOTH {
        let head = site.head();
        let mut stream = follow(site.address, &site.token, None, is_socket).unwrap();
        site.post("/api/v1/sessions", &json!({})).is(201);
        assert_eq!(number(&event(&mut stream)), head + 1);
    }
}

#[test]
fn numbers_that_are_none_are_told() {
    let site = Site::new();
    site.record("before", &["x"]);
    for text in ["-1", "x", "1.5", "", "99999999999999999999", "0x1", "1;2"] {
        let path = format!("/api/v1/events?after={text}");
        assert_eq!(site.get(&path).is(422).code(), "bad_input", "{text}");
        let request = Request::new("GET", "/api/v1/events").by(&site.token);
        let answer = request.header("Last-Event-ID", text).send(site.address);
        assert_eq!(answer.is(422).code(), "bad_input", "{text}");
    }
    let half = "GET /api/v1/events HTTP/1.1\r\nHost: HOST\r\nAuthorization: Bearer TOKEN\r\n\
                Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let half = half.replace("HOST", &site.address.to_string()).replace("TOKEN", &site.token);
    assert_eq!(raw(site.address, half.as_bytes()).unwrap().is(400).code(), "bad_request");
}

#[test]
fn everybody_is_told_of_their_own() {
    let site = Site::new();
    let bert = site.token_for("bert", "write");
    let begin = |token: &str| {
        let request = Request::new("POST", "/api/v1/sessions").by(token).json(&json!({}));
        request.send(site.address).is(201).json()["session_id"].clone()
    };
    for is_socket in BOTH {
        let head = site.head();
        let mut live = follow(site.address, &bert, Some(head), is_socket).unwrap();
        let sessions: Vec<Value> =
            (0..6).map(|n| begin(if n % 2 == 0 { &site.token } else { &bert })).collect();
        let mut late = follow(site.address, &bert, Some(head), is_socket).unwrap();
        let mut all = follow(site.address, &site.token, Some(head), is_socket).unwrap();
        for (n, session) in (1..).zip(&sessions) {
            assert_eq!(event(&mut all)["session_id"], *session);
            if n % 2 == 0 {
                for stream in [&mut live, &mut late] {
                    let event = event(stream);
                    assert_eq!(event["session_id"], *session);
                    assert_eq!(number(&event), head + n);
                }
            }
        }
    }
}

/// Follows until everything up to `end` was seen; whenever the connection is lost it goes on where it was.
fn follow_all(
    place: &Mutex<SocketAddr>,
    token: &str,
    is_socket: bool,
    end: &Mutex<Option<u64>>,
) -> Vec<u64> {
    let mut seen = Vec::new();
    let begun = Instant::now();
    loop {
        let last = seen.last().copied().unwrap_or(0);
        if end.lock().unwrap().is_some_and(|end| last >= end) {
            return seen;
        }
        assert!(begun.elapsed() < Duration::from_mins(4), "{last} of {end:?}");
        let to = *place.lock().unwrap();
        // It may be down just now.
        let opened = std::panic::catch_unwind(|| follow(to, token, Some(last), is_socket));
        let Ok(Ok(mut stream)) = opened else {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        };
        while let Heard::Event(event) = stream.next() {
            seen.push(number(&event));
            if end.lock().unwrap().is_some_and(|end| number(&event) >= end) {
                break;
            }
        }
    }
}

/// Lets the others end, also when the test fails.
struct Stop<'a>(&'a AtomicBool, &'a Mutex<Option<u64>>);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
        if let Ok(mut end) = self.1.lock() {
            end.get_or_insert(0);
        }
    }
}

/// Appends until it is told to stop; what was acknowledged is kept.
fn append(place: &Mutex<SocketAddr>, token: &str, id: &str, over: &AtomicBool) -> Vec<String> {
    let mut kept = Vec::new();
    for n in 0.. {
        let text = format!("api {n}");
        let body = json!({"messages": [{"role": "user", "content": text}]});
        let path = format!("/api/v1/sessions/{id}/messages");
        let request = Request::new("POST", &path).by(token);
        let request = request.header("Idempotency-Key", &format!("k{n}")).json(&body);
        loop {
            let to = *place.lock().unwrap();
            let sent = std::panic::catch_unwind(|| request.send(to).status);
            if sent.is_ok_and(|status| status == 201) {
                kept.push(text);
                break;
            }
            if over.load(Ordering::SeqCst) {
                return kept;
            }
        }
        if over.load(Ordering::SeqCst) {
            return kept;
        }
    }
    kept
}

#[test]
fn no_gap_and_no_repetition_over_kills_and_restarts() {
    let mut site = Site::new();
    let id = site.record("api", &["first"]);
    let token = site.token.clone();
    let place = Mutex::new(site.address);
    let (over, end) = (AtomicBool::new(false), Mutex::new(None));
    std::thread::scope(|scope| {
        let (place, token, id, over, end) = (&place, &*token, &*id, &over, &end);
        let _stop = Stop(over, end);
        let clients: Vec<_> = [true, false, true, false]
            .map(|is_socket| scope.spawn(move || follow_all(place, token, is_socket, end)))
            .into();
        let writer = scope.spawn(move || append(place, token, id, over));
        for round in 0..4 {
            // The command line writes beside it, in processes of its own.
            for n in 0..3 {
                site.record(&format!("cli {round} {n}"), &["one", "two"]);
            }
            if round % 2 == 0 {
                site.kill();
            } else {
                assert!(site.stop(), "{}", site.said.lock().unwrap());
            }
            site.record(&format!("while it is down {round}"), &["three"]);
            site.restart();
            *place.lock().unwrap() = site.address;
        }
        site.record("last", &["four"]);
        over.store(true, Ordering::SeqCst);
        let kept = writer.join().unwrap();
        let head = site.head();
        *end.lock().unwrap() = Some(head);
        // Whoever waits for one more event is given it.
        site.post("/api/v1/sessions", &json!({})).is(201);
        let all: Vec<u64> = (1..=head).collect();
        for client in clients {
            let seen = client.join().unwrap();
            assert_eq!(seen[..all.len()], all);
        }
        // What was acknowledged is there, once and in order.
        let texts: Vec<String> = site.env.messages(id)[1..]
            .iter()
            .map(|message| message["content"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(texts[..kept.len()], kept);
        assert!(texts.len() <= kept.len() + 1, "{} {}", texts.len(), kept.len());
        assert!(!kept.is_empty());
    });
    site.env.assert_sound();
}

#[test]
fn what_is_revoked_is_cut_off_within_a_second() {
    let site = Site::new();
    let id = site.record("busy", &["x"]);
    let (over, end) = (AtomicBool::new(false), Mutex::default());
    let place = Mutex::new(site.address);
    std::thread::scope(|scope| {
        let (place, over, id, token) = (&place, &over, &id, &site.token);
        let _stop = Stop(over, &end);
        // Also while something happens all the time.
        for is_busy in [false, true] {
            if is_busy {
                scope.spawn(move || append(place, token, id, over));
            }
            for is_socket in BOTH {
                let lost = site.token_for("anna", "admin");
                let newest = site.env.json(["token", "list"])[0]["id"].clone();
                let mut stream = follow(site.address, &lost, None, is_socket).unwrap();
                let mut kept = follow(site.address, &site.token, None, is_socket).unwrap();
                let path = format!("/api/v1/tokens/{}", newest.as_str().unwrap());
                Request::new("DELETE", &path).by(&site.token).send(site.address).is(200);
                let revoked = Instant::now();
                let end = loop {
                    match stream.next() {
                        Heard::Event(_) => assert!(revoked.elapsed() < Duration::from_secs(1)),
                        end => break end,
                    }
                };
                assert!(revoked.elapsed() < Duration::from_secs(1), "{:?}", revoked.elapsed());
                assert_eq!(end, if is_socket { Heard::Closed(1008) } else { Heard::Gone });
                assert_eq!(follow(site.address, &lost, None, is_socket).unwrap_err().status, 401);
                site.post("/api/v1/sessions", &json!({})).is(201);
                event(&mut kept);
            }
        }
    });
}

#[test]
fn whoever_follows_a_turn_is_cut_off_with_their_token_too() {
    let env = TestEnv::new();
    env.agent("ref", &[]);
    let site = Site::within(env, &[]);
    let id = site.record("x", &["x"]);
    let prompt = json!({"prompt": "hang", "agent": "ref"});
    let turn = site.post(&format!("/api/v1/sessions/{id}/prompts"), &prompt).is(202).json();
    let lost = site.token_for("anna", "read");
    let newest = site.env.json(["token", "list"])[0]["id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/turns/{}/events", turn["turn_id"].as_str().unwrap());
    let mut stream =
        Stream::open(Request::new("GET", &path).by(&lost), false, site.address).unwrap();
    site.env.run(["token", "revoke", &newest]).succeeded();
    let revoked = Instant::now();
    while let Heard::Event(event) = stream.next() {
        assert_ne!(event["status"], "ended");
    }
    assert!(revoked.elapsed() < Duration::from_secs(1), "{:?}", revoked.elapsed());
}

#[test]
fn there_are_only_so_many_clients() {
    let env = TestEnv::new();
    env.set("serve", "max_streams = 4");
    let site = Site::within(env, &[]);
    let (second, third) = (site.token_for("bert", "read"), site.token_for("cleo", "read"));
    let refused = |token: &str| {
        for is_socket in BOTH {
            let refused = follow(site.address, token, None, is_socket).unwrap_err().is(429);
            assert_eq!(refused.code(), "too_many_streams");
            assert!(refused.header("retry-after").is_some());
        }
    };
    let open = |token: &str| BOTH.map(|both| follow(site.address, token, None, both).unwrap());
    // One token has half of them at most, so that there are some for others.
    let [one, other] = open(&site.token);
    refused(&site.token);
    let _others = open(&second);
    refused(&third);
    // Whoever asks otherwise is answered all the same, and a place that is left is free.
    site.get("/api/v1/sessions").is(200);
    for left in [one, other] {
        drop(left);
        let found = until("a place is free", || follow(site.address, &third, None, true).ok());
        drop(found);
    }
}

/// A client that takes in next to nothing.
fn deaf(site: &Site, is_socket: bool) -> std::net::TcpStream {
    let request = Request::new("GET", "/api/v1/events?after=0").by(&site.token);
    let request = if is_socket { request.upgrade() } else { request };
    let stream = connect(elsewhere(), site.address);
    request.over(stream, site.address)
}

#[test]
fn whoever_does_not_read_is_cut_off_and_costs_nothing() {
    let site = Site::new();
    site.fill(100_000);
    let head = site.head();
    // It warms up with a client that reads.
    let read_all = || {
        let mut stream = follow(site.address, &site.token, Some(0), true).unwrap();
        (1..=head).for_each(|no| assert_eq!(number(&event(&mut stream)), no));
    };
    read_all();
    let before = site.memory();
    let deaf: Vec<_> = (0..20).map(|n| deaf(&site, n % 2 == 0)).collect();
    until("they are there", || (site.counter("rethread_event_clients") >= 20.0).then_some(()));
    read_all();
    let most = site.memory();
    assert!(most < before + 64 * 1024, "{before} KiB, then {most} KiB");
    until("they are cut off", || (site.counter("rethread_event_clients") < 1.0).then_some(()));
    assert!(site.memory() < before + 64 * 1024);
    drop(deaf);
    site.post("/api/v1/sessions", &json!({})).is(201);
    let mut stream = follow(site.address, &site.token, Some(head), false).unwrap();
    assert_eq!(number(&event(&mut stream)), head + 1);
}

#[test]
fn what_a_client_sends_over_a_socket_harms_nobody() {
    let mut site = Site::new();
    let mut good = follow(site.address, &site.token, None, true).unwrap();
    good.send(1, b"hello").unwrap();
    for (kind, length) in [(1, 5_000), (2, 60_000), (9, 125), (0, 10), (3, 1), (8, 1)] {
        let mut bad = follow(site.address, &site.token, None, true).unwrap();
        bad.send(kind, &vec![b'x'; length]).unwrap();
        if kind != 9 {
            assert!(!matches!(bad.next(), Heard::Event(_)), "{kind}");
        }
    }
    site.post("/api/v1/sessions", &json!({})).is(201);
    event(&mut good);
    site.stop_without_errors();
}
