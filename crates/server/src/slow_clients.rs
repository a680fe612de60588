//! Timeouts for slow clients: a client that neither sends nor reads for too long is disconnected.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

/// How many bytes of a body a client has to send within each timeout period.
const PACE: u32 = 64 << 10;

/// A connection that fails if the client reads nothing for too long.
pub(crate) struct WriteTimeout<S> {
    stream: S,
    slowness: Duration,
    /// Runs while nothing can be written.
    waits: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteTimeout<S> {
    pub(crate) const fn new(stream: S, slowness: Duration) -> Self {
        Self { stream, slowness, waits: None }
    }

    fn watch<T>(&mut self, cx: &mut Context<'_>, done: Poll<Result<T>>) -> Poll<Result<T>> {
        if done.is_ready() {
            self.waits = None;
            return done;
        }
        let waits = self.waits.get_or_insert_with(|| Box::pin(sleep(self.slowness)));
        ready!(waits.as_mut().poll(cx));
        Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "the client does not read")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch(cx, done)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let done = Pin::new(&mut self.stream).poll_flush(cx);
        self.watch(cx, done)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let done = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.watch(cx, done)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.watch(cx, done)
    }
}

/// A request body that fails if it stalls or arrives too slowly.
pub(crate) struct TimedBody {
    body: Incoming,
    patience: Duration,
    /// When the whole body has to be there, judged by what has arrived so far.
    end: Instant,
    waits: Option<Pin<Box<Sleep>>>,
}

impl TimedBody {
    pub(crate) fn new(body: Incoming, patience: Duration) -> Self {
        Self { body, patience, end: Instant::now() + patience, waits: None }
    }

    fn came(&mut self, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let earned = self.end + self.patience.saturating_mul(bytes) / PACE;
        // Data that arrived early does not extend the deadline beyond the usual.
        self.end = earned.min(Instant::now() + self.patience * 2);
        self.waits = None;
    }
}

impl Body for TimedBody {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Self::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            if let Some(Ok(frame)) = &frame {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                self.came(bytes);
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let end = self.end.min(Instant::now() + self.patience);
        let waits = self.waits.get_or_insert_with(|| Box::pin(sleep_until(end)));
        ready!(waits.as_mut().poll(cx));
        let slow = Error::new(ErrorKind::TimedOut, "the body came too slowly");
        Poll::Ready(Some(Err(slow.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
