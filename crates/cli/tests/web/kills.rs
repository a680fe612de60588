//! kill -9 of the server under load: what was acknowledged is there, once, and whoever follows events misses none.

use std::collections::BTreeMap;
use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Answer, PATIENCE, Request, head, read};
use crate::site::{Running, Site};

/// How much there is to do.
struct Size {
    clients: usize,
    workers: usize,
    /// One of so many requests appends.
    each: u32,
}

/// A hundred requests a second, half of which append.
const USUAL: Size = Size { clients: 30, workers: 10, each: 2 };
/// Five hundred, of which nine of ten read: `RETHREAD_LOAD=full cargo test --test web kills`.
const FULL: Size = Size { clients: 200, workers: 50, each: 10 };

fn size() -> Size {
    if std::env::var_os("RETHREAD_LOAD").is_some_and(|load| load == "full") { FULL } else { USUAL }
}

/// How often each worker asks.
const EVERY: Duration = Duration::from_millis(100);
const KILLS: u32 = 3;
const BETWEEN: Duration = Duration::from_secs(5);
/// Until whoever was cut off tries again.
const PAUSE: Duration = Duration::from_millis(50);

/// What was acknowledged: the text, by session and number.
type Acknowledged = BTreeMap<(String, u64), String>;

/// Where everybody asks, and what they share.
struct Load<'a> {
    each: u32,
    to: SocketAddr,
    token: &'a str,
    sessions: &'a [String],
    is_over: AtomicBool,
    /// The number of the last event, once it is known.
    last: AtomicU64,
}

impl Load<'_> {
    /// An answer, unless the server goes away before it is whole.
    fn ask(&self, method: &str, path: &str, key: &str, body: &str) -> Option<Answer> {
        let mut stream = TcpStream::connect(self.to).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        let (to, token, length) = (self.to, self.token, body.len());
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {to}\r\nAuthorization: Bearer {token}\r\nIdempotency-Key: {key}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).ok()?;
        read(&mut BufReader::new(stream)).filter(|answer| !answer.body.is_empty())
    }

    /// The same until there is an answer.
    fn insist(&self, method: &str, path: &str, key: &str, body: &str) -> Answer {
        let begun = Instant::now();
        loop {
            match self.ask(method, path, key, body) {
                Some(answer) if answer.status < 500 => return answer,
                _ => assert!(begun.elapsed() < PATIENCE, "{method} {path}: no answer"),
            }
            sleep(PAUSE);
        }
    }

    /// Appends and reads in turn, at its pace, until it is over; gives what was acknowledged.
    fn work(&self, worker: usize) -> Acknowledged {
        let mut acknowledged = BTreeMap::new();
        let begun = Instant::now();
        for number in 0_u32.. {
            sleep((EVERY * number).saturating_sub(begun.elapsed()));
            if self.is_over.load(Ordering::SeqCst) {
                break;
            }
            let session = &self.sessions[(worker + number as usize) % self.sessions.len()];
            let path = format!("/api/v1/sessions/{session}/messages");
            if number % self.each != 0 {
                self.insist("GET", &path, "none", "").is(200);
                continue;
            }
            let text = format!("worker {worker} says {number}");
            let body = json!({"messages": [{"role": "user", "content": text}]}).to_string();
            let key = format!("{worker}-{number}");
            let answer = self.insist("POST", &path, &key, &body).is(201).json();
            let seq = answer["messages"][0]["seq"].as_u64().unwrap();
            acknowledged.insert((session.clone(), seq), text);
        }
        acknowledged
    }

    /// The numbers that one client is sent, over all its connections.
    fn follow(&self) -> Vec<u64> {
        let mut seen = Vec::new();
        let begun = Instant::now();
        let is_done = |seen: &[u64]| {
            let last = self.last.load(Ordering::SeqCst);
            last > 0 && seen.last().is_some_and(|seen| *seen >= last)
        };
        while !is_done(&seen) {
            assert!(begun.elapsed() < PATIENCE * 2, "a client is left behind at {:?}", seen.last());
            if let Some(mut socket) = self.open(seen.last().copied().unwrap_or(0)) {
                while !is_done(&seen) {
                    match event(&mut socket) {
                        Heard::Event(event) => seen.push(event["no"].as_u64().unwrap()),
                        Heard::Nothing => (),
                        Heard::End => break,
                    }
                }
            }
            sleep(PAUSE);
        }
        seen
    }

    fn open(&self, after: u64) -> Option<BufReader<TcpStream>> {
        let mut stream = TcpStream::connect(self.to).ok()?;
        stream.set_read_timeout(Some(Duration::from_millis(500))).ok()?;
        let (to, token) = (self.to, self.token);
        let request = format!(
            "GET /api/v1/events?after={after} HTTP/1.1\r\nHost: {to}\r\nAuthorization: Bearer {token}\r\n\
             Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).ok()?;
        let mut reader = BufReader::new(stream);
        let answer = head(&mut reader)?;
        assert_eq!(answer.status, 101, "{answer:?}");
        Some(reader)
    }
}

enum Heard {
    Event(Value),
    Nothing,
    End,
}

/// The next frame of a WebSocket. A silence between frames is nothing; one within a frame is its end.
fn event(socket: &mut BufReader<TcpStream>) -> Heard {
    let mut first = [0; 2];
    match socket.read(&mut first[..1]) {
        Ok(1) => (),
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Heard::Nothing,
        _ => return Heard::End,
    }
    let mut rest = |socket: &mut BufReader<TcpStream>| {
        socket.read_exact(&mut first[1..]).ok()?;
        let mut length = u16::from(first[1]);
        if length == 126 {
            let mut long = [0; 2];
            socket.read_exact(&mut long).ok()?;
            length = u16::from_be_bytes(long);
        }
        let mut text = vec![0; usize::from(length)];
        socket.read_exact(&mut text).ok()?;
        Some(text)
    };
    let Some(text) = rest(socket) else { return Heard::End };
    match first[0] & 0xf {
        1 => Heard::Event(serde_json::from_slice(&text).unwrap()),
        8 => Heard::End,
        _ => Heard::Nothing,
    }
}

/// The server once more, at the same place.
fn again(site: &Site) -> Running {
    let address = site.address.to_string();
    let mut command = site.env.command(["serve", "--addr", &address]);
    let child = Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let begun = Instant::now();
    while TcpStream::connect(site.address).is_err() {
        assert!(begun.elapsed() < PATIENCE, "the server does not come back");
        sleep(PAUSE);
    }
    child
}

/// The number of the newest event.
fn newest(site: &Site) -> u64 {
    let stream = Request::new("GET", "/api/v1/events").by(&site.token).begin(site.address);
    let mut reader = BufReader::new(stream);
    assert_eq!(head(&mut reader).unwrap().status, 200);
    let mut text = String::new();
    while !text.contains("\n\n") {
        let mut byte = [0];
        reader.read_exact(&mut byte).unwrap();
        text.push(char::from(byte[0]));
    }
    let number = text.split("connected, after ").nth(1).unwrap();
    number.trim().parse().unwrap()
}

/// All messages of a session, by their numbers.
fn kept(site: &Site, session: &str) -> Vec<String> {
    let mut texts = Vec::new();
    let mut after = 0;
    loop {
        let path = format!("/api/v1/sessions/{session}/messages?after={after}&limit=200");
        let page = site.get(&path).is(200).json();
        for (number, message) in (after + 1..).zip(page["items"].as_array().unwrap()) {
            assert_eq!(message["seq"], number);
            texts.push(message["content"].as_str().unwrap().to_owned());
        }
        if page["next"].is_null() {
            return texts;
        }
        after = texts.len();
    }
}

#[test]
fn a_killed_server_loses_nothing_that_it_acknowledged_and_no_event() {
    let mut site = Site::new();
    let titles = ["one", "two", "three"];
    let sessions: Vec<String> = titles.iter().map(|title| site.record(title, &["begin"])).collect();
    let (address, token) = (site.address, site.token.clone());
    let amount = size();
    let load = Load {
        each: amount.each,
        to: address,
        token: &token,
        sessions: &sessions,
        is_over: AtomicBool::new(false),
        last: AtomicU64::new(0),
    };
    scope(|threads| {
        let clients: Vec<_> =
            (0..amount.clients).map(|_| threads.spawn(|| load.follow())).collect();
        let load = &load;
        let workers: Vec<_> =
            (0..amount.workers).map(|worker| threads.spawn(move || load.work(worker))).collect();
        sleep(BETWEEN);
        site.kill();
        let mut server = again(&site);
        for _ in 1..KILLS {
            sleep(BETWEEN);
            drop(server);
            server = again(&site);
        }
        sleep(BETWEEN);
        load.is_over.store(true, Ordering::SeqCst);
        let acknowledged: Acknowledged =
            workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect();
        let last = newest(&site);
        load.last.store(last, Ordering::SeqCst);
        let all: Vec<u64> = (1..=last).collect();
        for client in clients {
            assert_eq!(client.join().unwrap(), all);
        }
        let mut count = 0;
        for session in &sessions {
            let texts = kept(&site, session);
            let mut once = texts.clone();
            once.sort();
            once.dedup();
            assert_eq!(once.len(), texts.len(), "a message is there twice");
            for (seq, text) in (1_u64..).zip(texts).skip(1) {
                // What was not acknowledged was insisted on until it was: nothing else is there.
                assert_eq!(
                    acknowledged.get(&(session.clone(), seq)),
                    Some(&text),
                    "{session} {seq}"
                );
                count += 1;
            }
        }
        assert_eq!(count, acknowledged.len());
        assert!(count > 200, "only {count} messages were acknowledged");
        eprintln!("{count} messages and {last} events, {KILLS} kills");
        drop(server);
    });
}
