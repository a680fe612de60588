//! The barest HTTP/1.1 and WebSocket clients there can be, and a server that only answers.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// Where the server is, and what lets us in.
#[derive(Debug, Clone)]
pub(crate) struct Door {
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
}

/// A connection that is kept.
#[derive(Debug)]
pub(crate) struct Line {
    stream: BufReader<TcpStream>,
    door: Door,
}

impl Line {
    pub(crate) async fn open(door: &Door) -> Result<Self> {
        let stream = TcpStream::connect(door.address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream), door: door.clone() })
    }

    /// The status and the body of an answer.
    pub(crate) async fn ask(
        &mut self,
        method: &str,
        path: &str,
        body: &str,
    ) -> Result<(u16, Vec<u8>)> {
        let Door { address, token } = &self.door;
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        self.stream.write_all(request.as_bytes()).await?;
        let (status, length) = head(&mut self.stream).await?;
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await?;
        Ok((status, body))
    }
}

/// Reads the head of a message: the status, and how long the body is.
async fn head(stream: &mut BufReader<TcpStream>) -> Result<(u16, usize)> {
    let mut line = String::new();
    ensure!(stream.read_line(&mut line).await? > 0, "the connection was closed");
    let status = line.split(' ').nth(1).and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut length = 0;
    loop {
        line.clear();
        stream.read_line(&mut line).await?;
        let text = line.trim_end();
        if text.is_empty() {
            return Ok((status, length));
        }
        if let Some((name, value)) = text.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse()?;
        }
    }
}

/// A client that follows events.
#[derive(Debug)]
pub(crate) struct Follower {
    stream: BufReader<TcpStream>,
}

impl Follower {
    pub(crate) async fn open(door: &Door) -> Result<Self> {
        let mut stream = BufReader::new(TcpStream::connect(door.address).await?);
        let Door { address, token } = door;
        // Any 16 bytes do.
        let nonce = format!("{}==", "A".repeat(22));
        let request = format!(
            "GET /api/v1/events HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
             Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: {nonce}\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        let (status, _) = head(&mut stream).await?;
        ensure!(status == 101, "the events were refused: {status}");
        Ok(Self { stream })
    }

    /// The text of the next event.
    pub(crate) async fn next(&mut self) -> Result<String> {
        loop {
            let first = self.stream.read_u8().await?;
            let length = match self.stream.read_u8().await? {
                126 => usize::from(self.stream.read_u16().await?),
                length => usize::from(length),
            };
            let mut text = vec![0; length];
            self.stream.read_exact(&mut text).await?;
            match first & 0xf {
                1 => return Ok(String::from_utf8(text)?),
                // A ping: whoever does not answer is taken for gone.
                9 => self.stream.write_all(&[0x8a, 0x80, 0, 0, 0, 0]).await?,
                kind => ensure!(kind != 8, "the server closed the events"),
            }
        }
    }
}

/// A server that reads requests and answers with a word: what the wire costs by itself.
pub(crate) async fn echo() -> Result<Door> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream));
        }
    });
    Ok(Door { address, token: "none".to_owned() })
}

async fn answer(stream: TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    loop {
        let (_, length) = head(&mut stream).await.context("closed")?;
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await?;
    }
}
