//! A server on this machine that answers one request after another by script, and tells what it was sent.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(30);

/// What is done with one connection, after the request was read.
#[derive(Debug, Clone)]
pub enum Reply {
    /// These bytes are sent, then the connection is closed.
    Bytes(Vec<u8>),
    /// These bytes are sent, then nothing more until the client goes away.
    Hang(Vec<u8>),
    /// These bytes are sent, then so many more as long as the client takes them.
    Flood(Vec<u8>, u64),
}

impl Reply {
    pub fn new(status: &str, body: impl AsRef<[u8]>) -> Self {
        Self::with(status, "", body)
    }

    /// `headers` are whole lines, each with its end.
    pub fn with(status: &str, headers: &str, body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n"
        );
        Self::Bytes([head.as_bytes(), body].concat())
    }

    pub fn ok(body: impl AsRef<[u8]>) -> Self {
        Self::new("200 OK", body)
    }

    /// The connection is closed without a word.
    pub fn close() -> Self {
        Self::Bytes(Vec::new())
    }
}

/// A request.
#[derive(Debug)]
pub struct Received {
    /// Such as `POST /v1/messages HTTP/1.1`.
    pub line: String,
    /// By name in small letters, without `host` and `content-length`.
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Received {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    received: Receiver<Received>,
    flooded: Receiver<u64>,
}

impl Server {
    /// Each answer is given once; then nobody listens any more.
    pub fn start(script: Vec<Reply>) -> Self {
        Self::run(script.into_iter())
    }

    /// The answer is given again and again.
    pub fn always(reply: Reply) -> Self {
        Self::run(std::iter::repeat(reply))
    }

    fn run(script: impl Iterator<Item = Reply> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, received) = channel();
        let (drowned, flooded) = channel();
        thread::spawn(move || {
            for reply in script {
                let (stream, _) = listener.accept().unwrap();
                let mut reader = BufReader::new(stream);
                let Some(request) = read(&mut reader) else { continue };
                drop(sender.send(request)); // The test may be over.
                answer(&mut reader, &reply, &drowned);
            }
        });
        Self { address, received, flooded }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the requests that came, which have to be that many.
    #[track_caller]
    pub fn received(&self, count: usize) -> Vec<Received> {
        let next = || self.received.recv_timeout(PATIENCE).expect("fewer requests came");
        let found: Vec<Received> = std::iter::repeat_with(next).take(count).collect();
        assert!(self.received.try_recv().is_err(), "more than {count} requests came");
        found
    }

    /// Returns the requests that came until now, and were not told of yet.
    pub fn so_far(&self) -> Vec<Received> {
        self.received.try_iter().collect()
    }

    /// Returns how much of a flood was taken.
    pub fn flooded(&self) -> u64 {
        self.flooded.recv_timeout(PATIENCE).expect("the flood goes on")
    }
}

fn answer(reader: &mut BufReader<TcpStream>, reply: &Reply, drowned: &Sender<u64>) {
    let (Reply::Bytes(bytes) | Reply::Hang(bytes) | Reply::Flood(bytes, _)) = reply;
    drop(reader.get_mut().write_all(bytes)); // The client may have heard enough.
    match reply {
        Reply::Bytes(_) => (),
        Reply::Hang(_) => drop(reader.read(&mut [0])),
        Reply::Flood(_, most) => {
            let chunk = vec![b'x'; 64 * 1024];
            let mut taken = 0;
            while taken < *most && reader.get_mut().write_all(&chunk).is_ok() {
                taken += chunk.len() as u64;
            }
            drowned.send(taken).unwrap_or_default(); // The test may be over.
        }
    }
}

/// A request with a body; `None` where the client thought better of it.
fn read(reader: &mut BufReader<TcpStream>) -> Option<Received> {
    let mut lines =
        reader.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty());
    let line = lines.next()?;
    let mut headers: BTreeMap<String, String> = lines
        .filter_map(|line| {
            let (name, value) = line.split_once(": ")?;
            Some((name.to_lowercase(), value.to_owned()))
        })
        .collect();
    headers.remove("host");
    let mut body = vec![0; headers.remove("content-length")?.parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    Some(Received { line, headers, body })
}
