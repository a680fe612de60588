//! Events as they happen: one reader of the log for all clients, who take what it read from a ring of bounded length.
//! Whoever falls behind reads the log by themselves until they are there again; nothing is kept for them.

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
use crate::limit::Seat;
use crate::problem::Problem;
use crate::state::{App, Shared};
use crate::views::EventView;

pub(crate) use sse::stream as sse;
pub(crate) use turn::follow as turn;
pub(crate) use ws::upgrade as ws;

/// How long to wait after the log could not be read.
const AGAIN: Duration = Duration::from_millis(100);
/// How many events the ring holds.
const RING: usize = 1_024;
/// How many events are read from the log at once.
const PAGE: u32 = 256;
/// How often an open stream is told that it lives, and its credential looked at.
const BEAT: Duration = Duration::from_millis(500);

/// The beat of one stream, which begins after the first pause.
fn beat() -> Interval {
    let mut beat = tokio::time::interval_at(Instant::now() + BEAT, BEAT);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    beat
}

/// An event with the text that every client is sent.
#[derive(Debug)]
pub(crate) struct Broadcast {
    pub(crate) no: u64,
    /// Whose it is; nobody knows that of a line that is damaged.
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

/// The ring.
#[derive(Debug)]
pub(crate) struct Live {
    ring: broadcast::Sender<Arc<Broadcast>>,
}

impl Live {
    pub(crate) fn new() -> Self {
        Self { ring: broadcast::Sender::new(RING) }
    }
}

impl Shared {
    /// Reads the log as it grows, until the server ends.
    pub(crate) async fn follow_log(self: App, mut upto: u64) {
        let mut changes = self.engine.changes();
        let mut is_behind = false;
        loop {
            tokio::select! {
                () = changes.next() => (),
                // A store that could not be read is looked at again.
                () = tokio::time::sleep(AGAIN), if is_behind => (),
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

    /// Puts what is new into the ring; gives up to where. `None` where it could not be read.
    async fn read_on(&self, mut upto: u64) -> Option<u64> {
        loop {
            let page = self.engine.feed(upto, None, PAGE).await.ok()?;
            for event in &page.events {
                // Nobody may be there.
                drop(self.live.ring.send(Broadcast::of(event)));
            }
            if page.upto == upto {
                return Some(upto);
            }
            upto = page.upto;
            // Reading does not wait by itself: others come in between.
            tokio::task::yield_now().await;
        }
    }
}

/// One client's place in the log.
pub(crate) struct Follower {
    app: App,
    caller: Caller,
    ring: broadcast::Receiver<Arc<Broadcast>>,
    /// Everything up to here was given.
    after: u64,
    /// What was read from the log, to be given next.
    read: std::vec::IntoIter<FeedEvent>,
    /// Whether the ring goes on where the log was read up to.
    is_live: bool,
    _place: Place,
}

/// A place among those who follow something: there are so many, and so many for one user.
struct Place {
    app: App,
    _seat: Seat,
}

impl Place {
    fn take(app: &App, caller: &Caller) -> Result<Self, Problem> {
        let seats = &app.limiter.streams;
        let seat = seats.take(caller.user()).ok_or_else(|| too_many("streams", seats.each()))?;
        app.metrics.streams.inc();
        Ok(Self { app: Arc::clone(app), _seat: seat })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.app.metrics.streams.dec();
    }
}

pub(crate) fn too_many(what: &str, each: usize) -> Problem {
    let what = format!("there are too many {what}; one user may have {each} open");
    Problem::new("too_many_streams", what).hint("close one of them, or wait").after(5)
}

impl Follower {
    /// Begins after event `after`; without it, with what happens from now on.
    pub(crate) async fn new(
        app: &App,
        caller: &Caller,
        after: Option<u64>,
    ) -> Result<Self, Problem> {
        let place = Place::take(app, caller)?;
        let newest = app.engine.feed_head().await?;
        let after = after.unwrap_or(newest);
        if after > newest {
            let what = format!("there is no event {after}: the newest is {newest}");
            return Err(Problem::new("events_ahead", what)
                .hint("the number is of another store, or of a newer one: read everything again, and begin without it"));
        }
        Ok(Self {
            _place: place,
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
                Ok(told) if told.no <= self.after => (),
                Ok(told) => {
                    self.after = told.no;
                    if told.user.as_deref().is_none_or(|user| self.caller.may_see(user)) {
                        return Ok(told);
                    }
                }
                // The ring has gone on without us: the log has everything.
                Err(RecvError::Lagged(_)) => self.is_live = false,
                Err(RecvError::Closed) => return Err(stopping()),
            }
        }
    }

    async fn read_log(&mut self) -> Result<(), Problem> {
        let user = self.caller.scope();
        // What comes from here on is in the ring, so that nothing falls between the two.
        self.ring = self.app.live.ring.subscribe();
        // Reading does not wait by itself: others come in between.
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
