//! Live events: one task reads the feed for all clients, who take from a ring of bounded length. A client that falls behind
//! (backpressure) reads the feed by itself until it has caught up; nothing is queued for it.

mod sse;
mod turn;
mod ws;

use std::sync::Arc;
use std::time::Duration;

use rethread_domain::feed::{FeedEvent, Kind};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use crate::access::Caller;
use crate::problem::Problem;
use crate::rate_limit::ConcurrencyPermit;
use crate::state::{App, Shared};
use crate::views::EventView;

pub(crate) use sse::stream as sse;
pub(crate) use turn::follow as turn;
pub(crate) use ws::upgrade as ws;

/// How long to wait after the feed could not be read.
const RETRY_AFTER: Duration = Duration::from_millis(100);
/// How many events the ring holds.
const RING: usize = 1_024;
/// How many events are read from the feed at once.
const PAGE: u32 = 256;
/// How often an open stream gets a heartbeat and its credential is checked again.
const HEARTBEAT: Duration = Duration::from_millis(500);

/// The heartbeat of a stream; the first one comes after a full interval.
fn heartbeat() -> Interval {
    let mut heartbeat = tokio::time::interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    heartbeat
}

/// An event, serialized once for all clients.
#[derive(Debug)]
pub(crate) struct Broadcast {
    pub(crate) no: u64,
    /// Its user; unknown if its row in the feed is damaged.
    user: Option<String>,
    pub(crate) kind: String,
    pub(crate) text: String,
}

impl Broadcast {
    fn of(event: &FeedEvent) -> Arc<Self> {
        let text = serde_json::to_string(&EventView::of(event)).unwrap_or_default();
        Arc::new(Self {
            no: event.no,
            user: (event.kind != Kind::Damaged).then(|| event.user.clone()),
            kind: event.kind.as_str().to_owned(),
            text,
        })
    }
}

/// The ring of recent events.
#[derive(Debug)]
pub(crate) struct EventRing {
    ring: broadcast::Sender<Arc<Broadcast>>,
}

impl EventRing {
    pub(crate) fn new() -> Self {
        Self { ring: broadcast::Sender::new(RING) }
    }
}

impl Shared {
    /// Follows the feed until the server stops.
    pub(crate) async fn follow_log(self: App, mut upto: u64) {
        let mut changes = self.engine.changes();
        let mut is_behind = false;
        loop {
            tokio::select! {
                () = changes.next() => (),
                // If the feed could not be read, it is tried again.
                () = tokio::time::sleep(RETRY_AFTER), if is_behind => (),
                () = self.stop.cancelled() => return,
            }
            let read = self.read_on(upto).await;
            is_behind = read.is_none();
            if let Some(read) = read {
                upto = read;
                self.metrics.feed.set(read);
            }
        }
    }

    /// Puts new events into the ring and returns the number of the last; `None` if they could not be read.
    async fn read_on(&self, mut upto: u64) -> Option<u64> {
        loop {
            let page = self.engine.feed(upto, None, PAGE).await.ok()?;
            for event in &page.events {
                // There may be no client.
                drop(self.live.ring.send(Broadcast::of(event)));
            }
            if page.upto == upto {
                return Some(upto);
            }
            upto = page.upto;
            // Reading never yields by itself: let other tasks run.
            tokio::task::yield_now().await;
        }
    }
}

/// A client of the event stream, with its position.
pub(crate) struct Subscriber {
    app: App,
    caller: Caller,
    ring: broadcast::Receiver<Arc<Broadcast>>,
    /// The number of the last event that was delivered or skipped.
    after: u64,
    /// Events that were read from the feed, to be delivered next.
    read: std::vec::IntoIter<FeedEvent>,
    /// Whether the client has caught up, so that the ring continues at its position.
    is_live: bool,
    _permit: StreamPermit,
}

/// A permit for an open stream, which is counted in the metrics too.
struct StreamPermit {
    app: App,
    _permit: ConcurrencyPermit,
}

impl StreamPermit {
    fn take(app: &App, caller: &Caller) -> Result<Self, Problem> {
        let limit = &app.limiter.streams;
        let permit = limit.take(caller.user()).ok_or_else(|| too_many("streams", limit.each()))?;
        app.metrics.streams.inc();
        Ok(Self { app: Arc::clone(app), _permit: permit })
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.app.metrics.streams.dec();
    }
}

pub(crate) fn too_many(what: &str, each: usize) -> Problem {
    let what = format!("there are too many {what}; one user may have {each} open");
    Problem::new("too_many_streams", what).hint("close one of them, or wait").after(5)
}

impl Subscriber {
    /// Starts after event `after`; without it, at the present.
    pub(crate) async fn new(
        app: &App,
        caller: &Caller,
        after: Option<u64>,
    ) -> Result<Self, Problem> {
        let permit = StreamPermit::take(app, caller)?;
        let newest = app.engine.feed_head().await?;
        let after = after.unwrap_or(newest);
        if after > newest {
            let what = format!("there is no event {after}: the newest is {newest}");
            return Err(Problem::new("events_ahead", what)
                .hint("the number is of another store, or of a newer one: read everything again, and begin without it"));
        }
        Ok(Self {
            _permit: permit,
            ring: app.live.ring.subscribe(),
            app: Arc::clone(app),
            caller: caller.clone(),
            after,
            read: Vec::new().into_iter(),
            is_live: false,
        })
    }

    /// The next event that the caller may see.
    pub(crate) async fn next(&mut self) -> Result<Arc<Broadcast>, Problem> {
        loop {
            if let Some(event) = self.read.next() {
                return Ok(Broadcast::of(&event));
            }
            if !self.is_live {
                self.read_log().await?;
                continue;
            }
            match self.ring.recv().await {
                Ok(event) if event.no <= self.after => (),
                Ok(event) => {
                    self.after = event.no;
                    if event.user.as_deref().is_none_or(|user| self.caller.may_see(user)) {
                        return Ok(event);
                    }
                }
                // The client has fallen out of the ring: the feed has everything.
                Err(RecvError::Lagged(_)) => self.is_live = false,
                Err(RecvError::Closed) => return Err(stopping()),
            }
        }
    }

    async fn read_log(&mut self) -> Result<(), Problem> {
        let user = self.caller.scope();
        // Subscribe before reading, so that no event is missed in between.
        self.ring = self.app.live.ring.subscribe();
        // Reading never yields by itself: let other tasks run.
        tokio::task::yield_now().await;
        let page = self.app.engine.feed(self.after, user.as_deref(), PAGE).await?;
        self.is_live = page.upto == self.after;
        self.read = page.events.into_iter();
        self.after = page.upto.max(self.after);
        Ok(())
    }

    pub(crate) fn after(&self) -> u64 {
        self.after
    }
}

pub(crate) fn stopping() -> Problem {
    Problem::new("stopping", "the server is stopping").after(1)
}
