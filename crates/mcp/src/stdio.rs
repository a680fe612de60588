//! Standard input and output: one message a line, none longer than a limit.
//!
//! The library drops a line that is too long, or that is no JSON, without a word, and its client waits for ever. So what
//! goes by is looked at on its way in, and such a line is answered.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rmcp::ServiceExt;
use rmcp::model::ServerJsonRpcMessage;
use rmcp::service::{RoleServer, RxJsonRpcMessage, ServerInitializeError, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::io::stdio_pipes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;

use crate::oversized::{self, Finder};
use crate::server::{Office, Server};

/// The longest line, in bytes.
const LONGEST_LINE: usize = 16 * 1024 * 1024;

/// Answers the client at the other end of standard input, until it is gone and all that it began is finished.
pub async fn serve_stdio(office: Arc<Office>) -> std::io::Result<()> {
    let (reader, writer) = stdio_pipes();
    let transport = Front::new(reader, writer);
    let tidy = tokio::spawn({
        let office = Arc::clone(&office);
        async move { office.keep_tidy().await }
    });
    let served = async {
        match Box::pin(Server::new(Arc::clone(&office)).serve(transport)).await {
            // However it ended, nobody is left to be told.
            Ok(service) => drop(service.waiting().await),
            // A client that leaves before it has said anything.
            Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {}
            Err(error) => return Err(std::io::Error::other(error)),
        }
        office.finish().await;
        Ok(())
    };
    let outcome = tokio::select! {
        outcome = served => outcome,
        () = crate::server::asked_to_end() => {
            office.cancel_all().await;
            Ok(())
        }
    };
    tidy.abort();
    outcome
}

/// The transport of the library, with an answer to lines that it drops.
struct Front<R: AsyncRead + Unpin, W: AsyncWrite> {
    inner: AsyncRwTransport<RoleServer, Spy<R>, W>,
    refused: mpsc::UnboundedReceiver<ServerJsonRpcMessage>,
}

impl<R: AsyncRead + Send + Unpin, W: AsyncWrite + Send + Unpin + 'static> Front<R, W> {
    fn new(reader: R, writer: W) -> Self {
        let (send, refused) = mpsc::unbounded_channel();
        let spy = Spy {
            inner: reader,
            line: Vec::new(),
            length: 0,
            finder: Finder::default(),
            refuse: send,
        };
        let inner = AsyncRwTransport::new(spy, writer).with_max_line_length(LONGEST_LINE);
        Self { inner, refused }
    }
}

impl<R, W> Transport<RoleServer> for Front<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = std::io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            tokio::select! {
                biased;
                // It is sent whether or not somebody waits for it.
                Some(answer) = self.refused.recv() => drop(tokio::spawn(self.inner.send(answer))),
                message = self.inner.receive() => return message,
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}

/// Passes everything on, and tells of lines that are too long or no JSON.
struct Spy<R> {
    inner: R,
    /// The line so far, unless it is too long.
    line: Vec<u8>,
    length: usize,
    finder: Finder,
    refuse: mpsc::UnboundedSender<ServerJsonRpcMessage>,
}

impl<R> Spy<R> {
    fn look(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let text = piece.strip_suffix(b"\n").unwrap_or(piece);
            self.length += text.len();
            // The library counts the line's end too.
            if self.length < LONGEST_LINE {
                self.line.extend_from_slice(text);
            }
            for byte in text {
                self.finder.look(*byte);
            }
            if piece.len() > text.len() {
                self.line_ends();
            }
        }
    }

    fn line_ends(&mut self) {
        let finder = std::mem::take(&mut self.finder);
        let line = std::mem::take(&mut self.line);
        let answer = if std::mem::take(&mut self.length) < LONGEST_LINE {
            oversized::not_json(&line)
        } else {
            finder.answer(&format!("a line of more than {LONGEST_LINE} bytes"))
        };
        if let Some(answer) = answer {
            // The transport is gone when nobody listens.
            drop(self.refuse.send(answer));
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Spy<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        self.look(&buffer.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}
