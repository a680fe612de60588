//! The settings of the server: its names, its users' limits, and its timeouts.

use std::path::PathBuf;
use std::time::Duration;

use jiff::SignedDuration;
use rethread_domain::context;
use rethread_engine::Pruning;

#[derive(Debug, Clone)]
pub struct Settings {
    /// The accepted `Host` values: names with their ports.
    pub hosts: Vec<String>,
    /// The origins of our own pages; requests from others are refused.
    pub origins: Vec<String>,
    /// Whether browsers reach it over HTTPS: cookies are then `Secure`.
    pub is_secure: bool,
    /// Whether a reverse proxy stands before it and sends the client's address.
    pub is_behind_proxy: bool,
    /// The port: it is part of the cookie's name.
    pub port: u16,
    /// The default folder of new sessions.
    pub project: PathBuf,
    /// The file of the store, where it is one.
    pub store: Option<PathBuf>,
    pub version: &'static str,
    pub context: context::Limits,
    pub pruning: Pruning,
    /// How long a session may be idle before it is paused.
    pub idle: SignedDuration,
    pub message_bytes: u64,
    pub bounds: Bounds,
}

/// Limits and timeouts.
#[derive(Debug, Clone)]
pub struct Bounds {
    pub body_bytes: usize,
    pub header_bytes: usize,
    pub connections: usize,
    /// From one address; behind a proxy the total applies instead.
    pub connections_each: usize,
    /// Open event streams: in total, and for each user.
    pub streams: usize,
    pub streams_each: usize,
    /// Requests per second for each token.
    pub requests: u32,
    /// Requests per second without a credential, for each address.
    pub strangers: u32,
    /// Concurrent turns with agents.
    pub turns: usize,
    /// How long a client may take to send the head of a request, or a part of its body.
    pub patience: Duration,
    /// How long a client may take to read a part of the response.
    pub slowness: Duration,
    /// How long requests and turns have to finish on shutdown.
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
