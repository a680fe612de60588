//! What goes to the editor, in order: each line waits until what it shows is durable.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};

use crate::latch::Latch;

/// How many bytes may wait before the agent has to wait too.
const ROOM: usize = 8 * 1024 * 1024;
/// What a line takes beside its text.
const FRAME: usize = 128;
/// Everything of an attempt may be shown.
const OVER: u64 = u64::MAX;

/// A prompt that was sent to the agent: how much of its answer is durable.
#[derive(Debug)]
pub(crate) struct Attempt {
    recorded: watch::Sender<u64>,
    is_void: AtomicBool,
    is_answered: AtomicBool,
}

impl Attempt {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            recorded: watch::Sender::new(0),
            is_void: AtomicBool::new(false),
            is_answered: AtomicBool::new(false),
        })
    }

    pub(crate) fn recorded(&self, upto: u64) {
        self.recorded.send_if_modified(|now| {
            let is_more = upto > *now;
            *now = upto.max(*now);
            is_more
        });
    }

    /// The turn has ended and is durable, or cannot be recorded: nothing waits any more.
    pub(crate) fn over(&self) {
        self.recorded(OVER);
    }

    /// The prompt is sent once more: the answer to this one is not shown.
    pub(crate) fn void(&self) {
        self.is_void.store(true, Ordering::Relaxed);
        self.over();
    }

    /// The agent has answered it: what it answered is on its way to the editor.
    pub(crate) fn answered(&self) {
        self.is_answered.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_answered(&self) -> bool {
        self.is_answered.load(Ordering::Relaxed)
    }

    async fn reached(&self, upto: u64) {
        let mut recorded = self.recorded.subscribe();
        let _never_dropped = recorded.wait_for(|now| *now >= upto).await;
    }
}

/// What a line waits for.
#[derive(Debug)]
pub(crate) enum Gate {
    Open,
    /// So many updates of the attempt are durable.
    Recorded(Arc<Attempt>, u64),
    /// The turn is durable; if the attempt is void by then, the line is dropped.
    End(Arc<Attempt>),
}

#[derive(Debug)]
struct Waiting {
    line: String,
    gate: Gate,
    _room: OwnedSemaphorePermit,
}

/// The way to the editor.
#[derive(Debug)]
pub(crate) struct Outbox {
    lines: mpsc::UnboundedSender<Waiting>,
    room: Arc<Semaphore>,
    /// Set when nothing can be written any more.
    pub(crate) closed: Arc<Latch>,
}

impl Outbox {
    pub(crate) fn new(to: impl AsyncWrite + Send + Unpin + 'static) -> Self {
        let (lines, waiting) = mpsc::unbounded_channel();
        let (room, closed) = (Arc::new(Semaphore::new(ROOM)), Arc::new(Latch::new()));
        let (its, room_of) = (Arc::clone(&closed), Arc::clone(&room));
        tokio::spawn(async move {
            write(waiting, to).await;
            its.set();
            room_of.close();
        });
        Self { lines, room, closed }
    }

    /// Waits while there is no room (backpressure).
    pub(crate) async fn push(&self, line: String, gate: Gate) {
        let bytes = (line.len() + FRAME).min(ROOM);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let Ok(room) = Arc::clone(&self.room).acquire_many_owned(bytes).await else { return };
        let _closed = self.lines.send(Waiting { line, gate, _room: room });
    }

    pub(crate) async fn say(&self, line: String) {
        self.push(line, Gate::Open).await;
    }

    /// A short line of our own, which does not wait.
    pub(crate) fn say_now(&self, line: String) {
        let Ok(room) = Arc::clone(&self.room).try_acquire_many_owned(0) else { return };
        let _closed = self.lines.send(Waiting { line, gate: Gate::Open, _room: room });
    }
}

async fn write(mut lines: mpsc::UnboundedReceiver<Waiting>, mut to: impl AsyncWrite + Unpin) {
    while let Some(mut next) = lines.recv().await {
        let is_dropped = match &next.gate {
            Gate::Open => false,
            Gate::Recorded(attempt, upto) => {
                attempt.reached(*upto).await;
                false
            }
            Gate::End(attempt) => {
                attempt.reached(OVER).await;
                attempt.is_void.load(Ordering::Relaxed)
            }
        };
        if is_dropped {
            continue;
        }
        next.line.push('\n');
        if to.write_all(next.line.as_bytes()).await.is_err() || to.flush().await.is_err() {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, duplex};
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn a_line_waits_until_it_is_recorded_and_the_next_ones_wait_behind_it() {
        let (to, mut from) = duplex(1024);
        let (outbox, attempt) = (Outbox::new(to), Attempt::new());
        outbox.push("1".to_owned(), Gate::Recorded(Arc::clone(&attempt), 1)).await;
        outbox.say("2".to_owned()).await;
        outbox.push("3".to_owned(), Gate::End(Arc::clone(&attempt))).await;
        let mut seen = [0; 4];
        assert!(timeout(Duration::from_millis(20), from.read_u8()).await.is_err());
        attempt.recorded(1);
        from.read_exact(&mut seen).await.unwrap();
        assert_eq!(&seen, b"1\n2\n");
        assert!(timeout(Duration::from_millis(20), from.read_u8()).await.is_err());
        attempt.over();
        from.read_exact(&mut seen[..2]).await.unwrap();
        assert_eq!(&seen[..2], b"3\n");
    }

    #[tokio::test]
    async fn the_answer_of_an_attempt_that_is_repeated_is_dropped() {
        let (to, mut from) = duplex(1024);
        let (outbox, attempt) = (Outbox::new(to), Attempt::new());
        outbox.push("lost".to_owned(), Gate::End(Arc::clone(&attempt))).await;
        outbox.say("next".to_owned()).await;
        attempt.void();
        let mut seen = [0; 5];
        from.read_exact(&mut seen).await.unwrap();
        assert_eq!(&seen, b"next\n");
    }

    #[tokio::test]
    async fn who_writes_waits_for_an_editor_that_does_not_read() {
        let (to, mut from) = duplex(16);
        let outbox = Arc::new(Outbox::new(to));
        let large = "x".repeat(ROOM / 2);
        let writer = Arc::clone(&outbox);
        let line = large.clone();
        let pushed = tokio::spawn(async move {
            for _ in 0..4 {
                writer.say(line.clone()).await;
            }
        });
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(!pushed.is_finished());
        let mut seen = vec![0; large.len() + 1];
        for _ in 0..4 {
            from.read_exact(&mut seen).await.unwrap();
        }
        pushed.await.unwrap();
    }
}
