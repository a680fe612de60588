//! A server that answers one connection after another by script, and tells what it was asked.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use serde_json::Value;

/// What is done with one connection, after the request was read.
pub(crate) enum Reply {
    /// These bytes are sent, then the connection is closed.
    Bytes(Vec<u8>),
    /// These bytes are sent, then nothing more until the client goes away.
    Hang(Vec<u8>),
}

#[derive(Debug)]
pub(crate) struct Received {
    /// Such as `POST /v1/messages HTTP/1.1`.
    pub(crate) line: String,
    /// By name in small letters, without `host` and `content-length`.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Value,
}

pub(crate) struct Server {
    address: SocketAddr,
    received: Receiver<Received>,
}

impl Reply {
    pub(crate) fn new(status: &str, body: impl AsRef<[u8]>) -> Self {
        Self::with(status, "", body)
    }

    /// `headers` are whole lines, each with its end.
    pub(crate) fn with(status: &str, headers: &str, body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n"
        );
        Self::Bytes([head.as_bytes(), body].concat())
    }

    pub(crate) fn close() -> Self {
        Self::Bytes(Vec::new())
    }
}

impl Server {
    pub(crate) fn start(script: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, received) = channel();
        thread::spawn(move || {
            for reply in script {
                let (stream, _) = listener.accept().unwrap();
                serve(stream, &reply, &sender);
            }
        });
        Self { address, received }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the requests that came, which have to be that many.
    pub(crate) fn received(&self, count: usize) -> Vec<Received> {
        let patience = Duration::from_secs(30);
        let next = || self.received.recv_timeout(patience).expect("fewer requests came");
        let found: Vec<Received> = std::iter::repeat_with(next).take(count).collect();
        assert!(self.received.try_recv().is_err(), "more than {count} requests came");
        found
    }
}

fn serve(stream: TcpStream, reply: &Reply, sender: &Sender<Received>) {
    let mut reader = BufReader::new(stream);
    let request = read(&mut reader);
    let _ = sender.send(request); // The test may be over.
    let (Reply::Bytes(bytes) | Reply::Hang(bytes)) = reply;
    let _ = reader.get_mut().write_all(bytes); // The client may have heard enough.
    if matches!(reply, Reply::Hang(_)) {
        let _ = reader.read(&mut [0]);
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Received {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if line.trim_end().is_empty() {
            break;
        }
        lines.push(line.trim_end().to_owned());
    }
    let line = lines.remove(0);
    let mut headers: BTreeMap<String, String> = lines
        .iter()
        .map(|line| line.split_once(": ").unwrap())
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    headers.remove("host");
    let length = headers.remove("content-length").unwrap().parse().unwrap();
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    Received { line, headers, body: serde_json::from_slice(&body).unwrap() }
}
