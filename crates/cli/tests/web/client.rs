//! A client that sends exactly what it is told to, and reads whole answers.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// Nothing takes longer, however busy the machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// An answer. Header names are in small letters.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|_| panic!("{} {}", self.status, self.text()))
    }

    /// The code of the problem that it tells of.
    #[track_caller]
    pub(crate) fn code(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }

    #[track_caller]
    pub(crate) fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text());
        self
    }
}

/// A request, put together by the test.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn new(method: &str, path: &str) -> Self {
        Self {
            method: method.to_owned(),
            path: path.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same, for whoever has this token.
    pub(crate) fn by(self, token: &str) -> Self {
        self.header("Authorization", &format!("Bearer {token}"))
    }

    pub(crate) fn json(mut self, value: &Value) -> Self {
        self.body = value.to_string().into_bytes();
        self.header("Content-Type", "application/json")
    }

    pub(crate) fn form(mut self, text: &str) -> Self {
        self.body = text.as_bytes().to_vec();
        self.header("Content-Type", "application/x-www-form-urlencoded")
    }

    /// Sends it; a Host is named unless the test has named one.
    pub(crate) fn send(&self, to: SocketAddr) -> Answer {
        let mut stream = self.begin(to);
        read(&mut BufReader::new(&mut stream)).expect("an answer")
    }

    /// Sends it and leaves the connection to the test.
    pub(crate) fn begin(&self, to: SocketAddr) -> TcpStream {
        self.over(TcpStream::connect(to).expect("a connection"), to)
    }

    /// Sends it over a connection that is there.
    pub(crate) fn over(&self, mut stream: TcpStream, to: SocketAddr) -> TcpStream {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        if !self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            head.push_str(&format!("Host: {to}\r\n"));
        }
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !self.body.is_empty() {
            head.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        }
        head.push_str("\r\n");
        // It may be refused before all of it is sent.
        drop(stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&self.body)));
        stream
    }
}

fn line(reader: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
    Some(line.trim_end().to_owned())
}

/// The head of an answer.
pub(crate) fn head(reader: &mut impl BufRead) -> Option<Answer> {
    let status = line(reader)?.split(' ').nth(1)?.parse().ok()?;
    let mut headers = Vec::new();
    loop {
        let line = line(reader)?;
        match line.split_once(':') {
            Some((name, value)) => headers.push((name.to_lowercase(), value.trim().to_owned())),
            None => break,
        }
    }
    Some(Answer { status, headers, body: Vec::new() })
}

/// A whole answer, however its length is told.
pub(crate) fn read(reader: &mut impl BufRead) -> Option<Answer> {
    let mut answer = head(reader)?;
    if answer.header("transfer-encoding").is_some() {
        while let Some(length) = line(reader).and_then(|line| usize::from_str_radix(&line, 16).ok())
        {
            let mut chunk = vec![0; length];
            reader.read_exact(&mut chunk).ok()?;
            answer.body.extend(chunk);
            line(reader)?;
            if length == 0 {
                break;
            }
        }
    } else if let Some(length) = answer.header("content-length").and_then(|text| text.parse().ok())
    {
        answer.body = vec![0; length];
        reader.read_exact(&mut answer.body).ok()?;
    }
    Some(answer)
}
