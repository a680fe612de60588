//! A server on this machine that answers one request after another by script, and tells what it was sent.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Received {
    /// By name in small letters.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

/// What a request is answered with.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    Ok(String),
    /// Nothing, until the client goes away.
    Silence,
}

#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    received: Receiver<Received>,
}

impl Server {
    /// The last answer is given again and again.
    pub(crate) fn start(script: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (sender, received) = channel();
        thread::spawn(move || {
            let mut script = script.into_iter().peekable();
            while let Some(reply) = script.next() {
                let reply = if script.peek().is_some() { vec![reply] } else { vec![reply; 1_000] };
                for reply in reply {
                    let Ok((stream, _)) = listener.accept() else { return };
                    let mut reader = BufReader::new(stream);
                    let Some(request) = read(&mut reader) else { continue };
                    drop(sender.send(request)); // The test may be over.
                    answer(&mut reader, &reply);
                }
            }
        });
        Self { address, received }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The requests that came, which have to be that many.
    #[track_caller]
    pub(crate) fn received(&self, count: usize) -> Vec<Received> {
        let next = || self.received.recv_timeout(PATIENCE).expect("fewer requests came");
        let found: Vec<Received> = std::iter::repeat_with(next).take(count).collect();
        assert!(self.received.try_recv().is_err(), "more than {count} requests came");
        found
    }

    /// The requests that came until now, and were not told of yet.
    pub(crate) fn so_far(&self) -> Vec<Received> {
        self.received.try_iter().collect()
    }
}

fn answer(reader: &mut BufReader<TcpStream>, reply: &Reply) {
    match reply {
        Reply::Ok(body) => {
            let length = body.len();
            let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json";
            let text = format!("{head}\r\ncontent-length: {length}\r\n\r\n{body}");
            drop(reader.get_mut().write_all(text.as_bytes()));
        }
        Reply::Silence => drop(reader.read(&mut [0])),
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Received> {
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if line.trim_end().is_empty() {
            break;
        }
        if let Some((name, value)) = line.trim_end().split_once(": ") {
            headers.insert(name.to_lowercase(), value.to_owned());
        }
    }
    let length = headers.get("content-length")?.parse().ok()?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Received { headers, body: String::from_utf8(body).ok()? })
}
