//! What we send out over HTTP: requests to a [model], and [webhooks](webhook) that say what became of a workflow. The
//! only room that knows HTTP clients.
//!
//! Deliberately absent: keys and secret URLs, in every message and in every `Debug`; redirects, which could carry them
//! elsewhere; the clock, which is handed in.

pub mod http;
pub mod model;
pub mod webhook;
