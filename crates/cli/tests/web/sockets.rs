//! Connections that are more than a request and its answer: from an address of their own, WebSocket, server-sent events.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) use rethread_testkit::until;
use serde_json::Value;

use crate::client::{Answer, PATIENCE, Request, head, read};

/// An address of this machine that nobody has come from yet: strangers are counted by theirs.
pub(crate) fn elsewhere() -> Ipv4Addr {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let [_, one, two, three] = NEXT.fetch_add(1, Ordering::SeqCst).to_be_bytes();
    Ipv4Addr::new(127, one.wrapping_add(77), two, three)
}

/// A connection from this address.
pub(crate) fn connect(from: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        let stream = socket.connect(to).await.unwrap().into_std().unwrap();
        stream.set_nonblocking(false).unwrap();
        stream
    })
}

impl Request {
    /// Sends it from another address.
    pub(crate) fn send_from(&self, from: Ipv4Addr, to: SocketAddr) -> Answer {
        let mut stream = self.over(connect(from, to), to);
        read(&mut BufReader::new(&mut stream)).unwrap_or_else(|| panic!("no answer to {self:?}"))
    }

    /// The same, asking for a WebSocket.
    pub(crate) fn upgrade(self) -> Self {
        self.header("Connection", "Upgrade")
            .header("Upgrade", "websocket")
            .header("Sec-WebSocket-Version", "13")
            .header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
    }
}

/// How something that is followed ended, or what it told.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Heard {
    Event(Value),
    /// The number by which a WebSocket says why.
    Closed(u16),
    Gone,
}

/// A client that follows events.
#[derive(Debug)]
pub(crate) struct Stream {
    reader: BufReader<TcpStream>,
    is_socket: bool,
    /// What came of an event so far.
    text: String,
}

impl Stream {
    /// Over WebSocket, or by server-sent events; otherwise the refusal.
    pub(crate) fn open(request: Request, is_socket: bool, to: SocketAddr) -> Result<Self, Answer> {
        let request = if is_socket { request.upgrade() } else { request };
        let mut reader = BufReader::new(request.begin(to));
        let answer = head(&mut reader).expect("an answer");
        let is_good = answer.status == if is_socket { 101 } else { 200 };
        if !is_good {
            let length = answer.header("content-length").and_then(|text| text.parse().ok());
            let mut body = vec![0; length.unwrap_or(0)];
            reader.read_exact(&mut body).expect("a body");
            return Err(Answer { body, ..answer });
        }
        Ok(Self { reader, is_socket, text: String::new() })
    }

    /// What comes next, whatever is only said to stay in touch.
    pub(crate) fn next(&mut self) -> Heard {
        if self.is_socket { self.frame() } else { self.told() }.unwrap_or(Heard::Gone)
    }

    /// Sends a frame as a client has to: masked, here with nothing.
    pub(crate) fn send(&mut self, kind: u8, content: &[u8]) -> std::io::Result<()> {
        let mut frame = vec![0x80 | kind];
        match u16::try_from(content.len()).unwrap() {
            length @ 0..126 => frame.push(0x80 | u8::try_from(length).unwrap()),
            length => {
                frame.push(0x80 | 0x7e);
                frame.extend(length.to_be_bytes());
            }
        }
        frame.extend([0; 4]);
        frame.extend(content);
        self.reader.get_mut().write_all(&frame)
    }

    fn frame(&mut self) -> Option<Heard> {
        loop {
            let mut start = [0; 2];
            self.reader.read_exact(&mut start).ok()?;
            let length = match start[1] {
                126 => {
                    let mut long = [0; 2];
                    self.reader.read_exact(&mut long).ok()?;
                    usize::from(u16::from_be_bytes(long))
                }
                short => usize::from(short),
            };
            let mut content = vec![0; length];
            self.reader.read_exact(&mut content).ok()?;
            match start[0] {
                0x81 => return Some(Heard::Event(serde_json::from_slice(&content).unwrap())),
                0x88 => return Some(Heard::Closed(u16::from_be_bytes([content[0], content[1]]))),
                0x89 => self.send(0xA, &content).ok()?,
                _ => (),
            }
        }
    }

    fn told(&mut self) -> Option<Heard> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.text = rest;
                let data = event.lines().find_map(|line| line.strip_prefix("data: "));
                let Some(data) = data else { continue };
                let data: Value = serde_json::from_str(data).unwrap();
                if let Some(no) = event.lines().find_map(|line| line.strip_prefix("id: ")) {
                    let same = data["no"].as_u64().is_none_or(|own| no.parse() == Ok(own));
                    assert!(same, "{event}");
                }
                return Some(Heard::Event(data));
            }
            let mut length = String::new();
            self.reader.read_line(&mut length).ok()?;
            let length = usize::from_str_radix(length.trim(), 16).ok().filter(|it| *it > 0)?;
            let mut chunk = vec![0; length + 2];
            self.reader.read_exact(&mut chunk).ok()?;
            self.text.push_str(std::str::from_utf8(&chunk[..length]).unwrap());
        }
    }
}

/// Sends these bytes as they are; what comes back, if anything does before the connection ends.
pub(crate) fn raw(to: SocketAddr, bytes: &[u8]) -> Option<Answer> {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // It may be refused before all of it is sent.
    drop(stream.write_all(bytes));
    read(&mut BufReader::new(stream))
}

/// Sockets on which this process, or one that it started, waits for connections.
pub(crate) fn listening(pid: u32) -> Vec<String> {
    let mut inodes = Vec::new();
    for table in ["tcp", "tcp6"] {
        let text = std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        for line in text.lines().skip(1) {
            let parts: Vec<&str> = line.split_whitespace().collect();
            // 0A: it listens.
            if parts[3] == "0A" {
                inodes.push((format!("socket:[{}]", parts[9]), parts[1].to_owned()));
            }
        }
    }
    let mut found = Vec::new();
    for one in family(pid) {
        let Ok(files) = std::fs::read_dir(format!("/proc/{one}/fd")) else { continue };
        for file in files.flatten().filter_map(|file| std::fs::read_link(file.path()).ok()) {
            let name = file.display().to_string();
            let known = inodes.iter().find(|(inode, _)| *inode == name);
            found.extend(known.map(|(_, address)| address.clone()));
        }
    }
    found
}

/// A process and all that it started.
pub(crate) fn family(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    let mut at = 0;
    while let Some(one) = all.get(at).copied() {
        let path = format!("/proc/{one}/task/{one}/children");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        all.extend(text.split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
        at += 1;
    }
    all
}

/// The port on which this process listens.
pub(crate) fn listening_port(pid: u32) -> u16 {
    let found = listening(pid);
    u16::from_str_radix(found[0].rsplit(':').next().unwrap(), 16).unwrap()
}
