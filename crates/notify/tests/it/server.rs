//! A server that answers one connection after another by script, and tells what it was sent.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// What is done with one connection, after the request was read.
pub(crate) enum Reply {
    /// These bytes are sent, then the connection is closed.
    Bytes(Vec<u8>),
    /// These bytes are sent, then nothing more until the client goes away.
    Hang(Vec<u8>),
    /// These bytes are sent, then so many more as long as the client takes them.
    Flood(Vec<u8>, u64),
}

#[derive(Debug)]
pub(crate) struct Received {
    /// Such as `POST /x HTTP/1.1`.
    pub(crate) line: String,
    /// By name in small letters.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

pub(crate) struct Server {
    address: SocketAddr,
    received: Receiver<Received>,
    flooded: Receiver<u64>,
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

    pub(crate) fn ok() -> Self {
        Self::new("200 OK", "ok")
    }
}

impl Server {
    pub(crate) fn start(script: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, received) = channel();
        let (drowned, flooded) = channel();
        thread::spawn(move || {
            for reply in script {
                let (stream, _) = listener.accept().unwrap();
                serve(stream, &reply, &sender, &drowned);
            }
        });
        Self { address, received, flooded }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/services/T0secret/B0secret", self.address)
    }

    pub(crate) fn shown(&self) -> String {
        format!("http://{}/…", self.address)
    }

    /// Returns the requests that came, which have to be that many.
    pub(crate) fn received(&self, count: usize) -> Vec<Received> {
        let patience = Duration::from_secs(30);
        let next = || self.received.recv_timeout(patience).expect("fewer requests came");
        let found: Vec<Received> = std::iter::repeat_with(next).take(count).collect();
        assert!(self.received.try_recv().is_err(), "more than {count} requests came");
        found
    }

    /// Returns how much of a flood was taken.
    pub(crate) fn flooded(&self) -> u64 {
        self.flooded.recv_timeout(Duration::from_secs(30)).expect("the flood goes on")
    }
}

fn serve(stream: TcpStream, reply: &Reply, sender: &Sender<Received>, drowned: &Sender<u64>) {
    let mut reader = BufReader::new(stream);
    let request = read(&mut reader);
    let _ = sender.send(request); // The test may be over.
    let (Reply::Bytes(bytes) | Reply::Hang(bytes) | Reply::Flood(bytes, _)) = reply;
    let _ = reader.get_mut().write_all(bytes); // The client may have heard enough.
    match reply {
        Reply::Bytes(_) => (),
        Reply::Hang(_) => drop(reader.read(&mut [0])),
        Reply::Flood(_, most) => {
            let chunk = vec![b'x'; 64 * 1024];
            let mut taken = 0;
            while taken < *most && reader.get_mut().write_all(&chunk).is_ok() {
                taken += chunk.len() as u64;
            }
            let _ = drowned.send(taken);
        }
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
    let headers: BTreeMap<String, String> = lines
        .iter()
        .map(|line| line.split_once(": ").unwrap())
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let length = headers["content-length"].parse().unwrap();
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    Received { line, headers, body }
}
