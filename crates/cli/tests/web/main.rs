//! The server as browsers and programs meet it: the real program on a free port, one file for each promise.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)] // Tests may panic and talk.

#[macro_use]
#[path = "../it/env.rs"]
#[expect(dead_code, unused_macros, reason = "the other tests use the rest of it")]
mod env;
mod browser;
#[path = "../it/chat.rs"]
#[expect(dead_code, reason = "the other tests use the rest of it")]
mod chat;
mod client;
#[path = "../it/mcp_client.rs"]
#[expect(dead_code, reason = "the other tests use the rest of it")]
mod mcp_client;
mod outside;
mod routes;
mod site;
mod sockets;

mod access;
mod approval;
mod asked;
mod conformity;
mod diagnostics;
mod doors;
mod events;
mod generated;
mod greed;
mod imported;
mod kills;
mod limits;
mod matrix;
mod ready;
mod rest;
mod schema;
mod talks;
mod views;
mod workflows;
