//! Settings of the server.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::error::BadInput;

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Serve {
    addr: String,
    pub(crate) log: String,
    pub(crate) login_hours: i64,
    pub(crate) requests_per_second: u32,
    pub(crate) max_body_bytes: usize,
    pub(crate) max_connections: usize,
    pub(crate) max_streams: usize,
    pub(crate) max_turns: usize,
    pub(crate) patience_seconds: u64,
    pub(crate) watch: bool,
}

impl Serve {
    pub(crate) fn address(&self) -> anyhow::Result<SocketAddr> {
        self.addr.parse().map_err(|_| {
            let what = format!("the setting serve.addr is {:?}", self.addr);
            BadInput::new(what, "give an address with its port, such as 127.0.0.1:8617").into()
        })
    }
}
