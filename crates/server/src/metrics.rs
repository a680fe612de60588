//! Metrics for Prometheus.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Route {
    pub(crate) method: String,
    /// The pattern of the route, never the path that was requested.
    pub(crate) path: String,
    pub(crate) status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Why {
    pub(crate) code: String,
}

#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) requests: Family<Route, Counter>,
    pub(crate) refusals: Family<Why, Counter>,
    pub(crate) seconds: Histogram,
    pub(crate) connections: Gauge,
    pub(crate) streams: Gauge,
    pub(crate) cut_off: Counter,
    pub(crate) turns: Gauge,
    pub(crate) feed: Gauge<u64, AtomicU64>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("rethread");
        let requests = Family::default();
        let refusals = Family::default();
        let seconds = Histogram::new(exponential_buckets(0.000_25, 2.0, 16));
        let (connections, streams, turns) = (Gauge::default(), Gauge::default(), Gauge::default());
        let (cut_off, feed) = (Counter::default(), Gauge::<u64, AtomicU64>::default());
        registry.register("requests", "Requests that were answered", requests.clone());
        registry.register("refusals", "Problems that were told, by code", refusals.clone());
        registry.register("request_seconds", "How long answers took", seconds.clone());
        registry.register("connections", "Connections that are open", connections.clone());
        registry.register("event_clients", "Clients that follow events", streams.clone());
        registry.register("event_clients_cut_off", "Clients that were too slow", cut_off.clone());
        registry.register("turns", "Agents at work for this server", turns.clone());
        registry.register("events", "The number of the newest event", feed.clone());
        Self { registry, requests, refusals, seconds, connections, streams, cut_off, turns, feed }
    }

    pub(crate) fn text(&self) -> Result<String, std::fmt::Error> {
        let mut out = String::new();
        text::encode(&mut out, &self.registry)?;
        Ok(out)
    }
}
