//! Where the server listens, whom it lets in, and how much it lets them have.

use std::path::PathBuf;
use std::time::Duration;

use jiff::SignedDuration;
use rethread_domain::context;
use rethread_engine::Pruning;

#[derive(Debug, Clone)]
pub struct Settings {
    /// The names, with their ports, by which this server may be called.
    pub hosts: Vec<String>,
    /// The origins of its own pages; those of others are refused.
    pub origins: Vec<String>,
    /// Whether browsers reach it by HTTPS: cookies are then for that alone.
    pub is_secure: bool,
    /// Whether something stands before it and says who asks.
    pub is_behind_proxy: bool,
    /// Where it listens: browsers keep a cookie for each port.
    pub port: u16,
    /// The folder that new sessions are about, unless another is named.
    pub project: PathBuf,
    /// The file that the store writes to.
    pub store: PathBuf,
    pub version: &'static str,
    pub context: context::Limits,
    pub pruning: Pruning,
    /// After so long without a word a session is paused.
    pub idle: SignedDuration,
    pub message_bytes: u64,
    pub bounds: Bounds,
}

/// How much there may be of everything.
#[derive(Debug, Clone)]
pub struct Bounds {
    pub body_bytes: usize,
    pub header_bytes: usize,
    pub connections: usize,
    /// Those from one address; of whatever stands before the server there may be as many as in all.
    pub connections_each: usize,
    /// Event clients at once, of all and of one token.
    pub streams: usize,
    pub streams_each: usize,
    /// Requests a second, of one token.
    pub requests: u32,
    /// Requests a second that come without a credential, from one address.
    pub strangers: u32,
    /// Turns with agents at once.
    pub turns: usize,
    /// How long a client may take to send the head of a request, or a part of its body.
    pub patience: Duration,
    /// How long a client may take to read what it is sent.
    pub slowness: Duration,
    /// How long requests and turns have to end when the server stops.
    pub drain: Duration,
    /// How long a browser stays logged in.
    pub login: SignedDuration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            body_bytes: 8 << 20,
            header_bytes: 32 << 10,
            connections: 1_024,
            connections_each: 512,
            streams: 512,
            streams_each: 256,
            requests: 1_000,
            strangers: 20,
            turns: 16,
            patience: Duration::from_secs(15),
            slowness: Duration::from_secs(10),
            drain: Duration::from_secs(10),
            login: SignedDuration::from_hours(12),
        }
    }
}
