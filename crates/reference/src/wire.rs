//! The wire: JSON-RPC 2.0, one object a line. Everything that is read or written passes here.

use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;

use serde_json::{Value, json};

use crate::errors::Error;
use crate::faults;
use crate::flags::Flags;
use crate::lock;
use crate::log::{Direction, Log};
use crate::second;

/// What the client sent.
#[derive(Debug)]
pub(crate) enum Frame {
    Request { id: Value, method: String, params: Value },
    Notification { method: String, params: Value },
    Response { id: Value, reply: Reply },
    Invalid(Error),
}

/// The client's answer to a request of ours: its result, or its error.
pub(crate) type Reply = Result<Value, Value>;

/// What a running turn can be told.
#[derive(Debug)]
pub(crate) enum Signal {
    Cancel,
    Reply(u64, Reply),
}

/// Both ends of the connection to the client.
#[derive(Debug)]
pub(crate) struct Wire {
    out: Mutex<Out>,
    log: Option<Log>,
    waiting: Mutex<Waiting>,
    garbage: bool,
    is_second: AtomicBool,
}

#[derive(Debug)]
struct Out {
    noise: bool,
    frames: usize,
}

/// The requests of ours that the client has not answered.
#[derive(Debug, Default)]
struct Waiting {
    last: u64,
    turns: HashMap<u64, Sender<Signal>>,
}

impl Wire {
    pub(crate) fn open(flags: &Flags) -> io::Result<Self> {
        Ok(Self {
            out: Mutex::new(Out { noise: flags.noise, frames: 0 }),
            log: flags.log.as_deref().map(Log::open).transpose()?,
            waiting: Mutex::default(),
            garbage: flags.garbage,
            is_second: AtomicBool::new(false),
        })
    }

    /// From now on, version 2 is spoken.
    pub(crate) fn be_second(&self) {
        self.is_second.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_second(&self) -> bool {
        self.is_second.load(Ordering::Relaxed)
    }

    /// Writes what comes before the first frame.
    pub(crate) fn greet(&self) {
        let out = lock(&self.out);
        if out.noise {
            drop(write(&faults::NOISE.concat()));
        }
    }

    /// Reads frames until standard input ends.
    pub(crate) fn read(&self, received: &Sender<Frame>) {
        let mut input = io::stdin().lock();
        let mut line = Vec::new();
        loop {
            line.clear();
            match input.read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            let text = String::from_utf8_lossy(&line);
            if text.trim().is_empty() {
                continue;
            }
            if let Some(log) = &self.log {
                log.note(Direction::In, &text);
            }
            if received.send(parse(&text)).is_err() {
                return;
            }
        }
    }

    pub(crate) fn notify(&self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Sends a `session/update`.
    pub(crate) fn update(&self, session: &str, mut update: Value) {
        if self.is_second() {
            second::update(&mut update);
        }
        self.notify("session/update", json!({ "sessionId": session, "update": update }));
    }

    pub(crate) fn respond(&self, id: &Value, answer: Result<Value, Error>) {
        let frame = match answer {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err(error) => json!({ "jsonrpc": "2.0", "id": id, "error": error.to_json() }),
        };
        if self.garbage {
            for line in faults::garbage() {
                self.send_line(&line);
            }
        }
        self.send(&frame);
        if self.garbage {
            self.send(&frame);
        }
    }

    /// Sends a request for the turn that listens at `turn`, which gets the reply under the number returned.
    pub(crate) fn request(&self, turn: &Sender<Signal>, method: &str, params: Value) -> u64 {
        let id = {
            let mut waiting = lock(&self.waiting);
            waiting.last += 1;
            let id = waiting.last;
            waiting.turns.insert(id, turn.clone());
            id
        };
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// Hands a reply of the client to the turn that waits for it. One that nobody waits for is dropped.
    pub(crate) fn deliver(&self, id: &Value, reply: Reply) {
        let Some(id) = id.as_u64() else { return };
        if let Some(turn) = lock(&self.waiting).turns.remove(&id) {
            // The turn may have ended meanwhile.
            drop(turn.send(Signal::Reply(id, reply)));
        }
    }

    /// Writes `bytes` bytes and no end of line.
    pub(crate) fn write_endless_line(&self, bytes: u64) {
        const PIECE: usize = 64 * 1024;
        let piece = vec![b'x'; PIECE];
        let _out = lock(&self.out);
        let mut left = bytes;
        while left > 0 {
            let now = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
            if write(&piece[..now]).is_err() {
                return;
            }
            left -= now as u64;
        }
    }

    fn send(&self, frame: &Value) {
        self.send_line(&frame.to_string());
    }

    fn send_line(&self, line: &str) {
        let mut out = lock(&self.out);
        if let Some(log) = &self.log {
            log.note(Direction::Out, line);
        }
        let mut bytes = Vec::with_capacity(line.len() + 2);
        if out.noise {
            bytes.extend_from_slice(faults::NOISE[out.frames % faults::NOISE.len()]);
        }
        bytes.extend_from_slice(line.as_bytes());
        // Every other line ends the way it does on Windows.
        bytes.extend_from_slice(if out.noise && out.frames % 2 == 1 { b"\r\n" } else { b"\n" });
        out.frames += 1;
        // When nobody listens any more, standard input ends too, and with it the agent.
        drop(write(&bytes));
    }
}

fn write(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

fn parse(line: &str) -> Frame {
    let Ok(Value::Object(mut frame)) = serde_json::from_str(line) else {
        return Frame::Invalid(Error::parse());
    };
    let id = frame.remove("id");
    let method = frame.remove("method");
    let params = frame.remove("params").unwrap_or_default();
    match (id, method) {
        (Some(id), Some(Value::String(method))) => Frame::Request { id, method, params },
        (None, Some(Value::String(method))) => Frame::Notification { method, params },
        (Some(id), None) => {
            let reply = match (frame.remove("result"), frame.remove("error")) {
                (_, Some(error)) => Err(error),
                (result, None) => Ok(result.unwrap_or_default()),
            };
            Frame::Response { id, reply }
        }
        _ => Frame::Invalid(Error::invalid_request("neither a request nor a response")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_told_apart() {
        assert!(matches!(parse(r#"{"id":1,"method":"m"}"#), Frame::Request { .. }));
        assert!(matches!(parse(r#"{"method":"m","params":{}}"#), Frame::Notification { .. }));
        assert!(matches!(parse(r#"{"id":1,"result":null}"#), Frame::Response { reply: Ok(_), .. }));
        assert!(matches!(parse(r#"{"id":1,"error":{}}"#), Frame::Response { reply: Err(_), .. }));
        for bad in ["", "[]", "{", "{}", r#"{"id":1,"method":2}"#] {
            assert!(matches!(parse(bad), Frame::Invalid(_)), "{bad}");
        }
    }
}
