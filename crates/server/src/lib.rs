//! HTTP for programs and people: the API, events as they happen, and a dashboard. The only room that knows HTTP from
//! this side, beside the one for agents.

mod access;
mod cursor;
mod dashboard;
mod document;
mod extract;
mod forms;
mod limit;
mod live;
mod metrics;
mod patient;
mod problem;
mod ready;
mod router;
mod routes;
mod serve;
mod settings;
mod state;
mod tls;
mod turns;
mod views;
mod work;

pub use serve::Server;
pub use settings::{Bounds, Settings};
pub use tls::{TlsConfig, tls};
