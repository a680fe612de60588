//! The HTTP server: the REST API, live events and the dashboard. Apart from MCP's HTTP transport, this is the only crate that
//! serves HTTP.

mod access;
mod cursor;
mod dashboard;
mod document;
mod extract;
mod live;
mod metrics;
mod problem;
mod rate_limit;
mod readiness;
mod router;
mod routes;
mod schema_constraints;
mod serve;
mod settings;
mod slow_clients;
mod state;
mod tls;
mod turns;
mod views;
mod workers;

pub use serve::Server;
pub use settings::{Bounds, Settings};
pub use tls::{TlsConfig, tls};
