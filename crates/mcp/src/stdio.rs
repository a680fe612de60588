//! The stdio transport: one message per line, with a limit on its length.
//!
//! The library silently drops a line that is too long or not JSON, and its client would wait for ever. So lines are inspected
//! on their way in, and such a line gets an error response.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rethread_engine::shutdown_signal;
use rmcp::ServiceExt;
use rmcp::model::ServerJsonRpcMessage;
use rmcp::service::{RoleServer, RxJsonRpcMessage, ServerInitializeError, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::io::stdio_pipes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;

use crate::oversized::{self, RequestScanner};
use crate::server::{Server, ServerState};

/// The longest line, in bytes.
const LONGEST_LINE: usize = 16 * 1024 * 1024;

/// Serves the client on standard input until it disconnects and everything it started is finished.
pub async fn serve_stdio(state: Arc<ServerState>) -> std::io::Result<()> {
    let shutdown = shutdown_signal()?;
    let (reader, writer) = stdio_pipes();
    let transport = CheckedTransport::new(reader, writer);
    let tidy = tokio::spawn({
        let state = Arc::clone(&state);
        async move { state.keep_tidy().await }
    });
    let served = async {
        match Box::pin(Server::new(Arc::clone(&state)).serve(transport)).await {
            // However it ended, there is nobody left to tell.
            Ok(service) => drop(service.waiting().await),
            // The client disconnected before initialization.
            Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {}
            Err(error) => return Err(std::io::Error::other(error)),
        }
        state.finish().await;
        Ok(())
    };
    let outcome = tokio::select! {
        outcome = served => outcome,
        () = shutdown => {
            state.cancel_all().await;
            Ok(())
        }
    };
    tidy.abort();
    outcome
}

/// The library's transport, plus error responses to lines that it drops.
struct CheckedTransport<R: AsyncRead + Unpin, W: AsyncWrite> {
    inner: AsyncRwTransport<RoleServer, LineInspector<R>, W>,
    refused: mpsc::UnboundedReceiver<ServerJsonRpcMessage>,
}

impl<R: AsyncRead + Send + Unpin, W: AsyncWrite + Send + Unpin + 'static> CheckedTransport<R, W> {
    fn new(reader: R, writer: W) -> Self {
        let (send, refused) = mpsc::unbounded_channel();
        let inspector = LineInspector {
            inner: reader,
            line: Vec::new(),
            length: 0,
            scanner: RequestScanner::default(),
            refuse: send,
        };
        let inner = AsyncRwTransport::new(inspector, writer).with_max_line_length(LONGEST_LINE);
        Self { inner, refused }
    }
}

impl<R, W> Transport<RoleServer> for CheckedTransport<R, W>
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

/// A reader that passes everything on, and reports lines that are too long or not JSON.
struct LineInspector<R> {
    inner: R,
    /// The current line, unless it is too long.
    line: Vec<u8>,
    length: usize,
    scanner: RequestScanner,
    refuse: mpsc::UnboundedSender<ServerJsonRpcMessage>,
}

impl<R> LineInspector<R> {
    fn look(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let text = piece.strip_suffix(b"\n").unwrap_or(piece);
            self.length += text.len();
            // The library counts the line break too.
            if self.length < LONGEST_LINE {
                self.line.extend_from_slice(text);
            }
            for byte in text {
                self.scanner.look(*byte);
            }
            if piece.len() > text.len() {
                self.line_ends();
            }
        }
    }

    fn line_ends(&mut self) {
        let scanner = std::mem::take(&mut self.scanner);
        let line = std::mem::take(&mut self.line);
        let answer = if std::mem::take(&mut self.length) < LONGEST_LINE {
            oversized::not_json(&line)
        } else {
            scanner.answer(&format!("a line of more than {LONGEST_LINE} bytes"))
        };
        if let Some(answer) = answer {
            // The receiver is gone once the transport has been dropped.
            drop(self.refuse.send(answer));
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for LineInspector<R> {
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
