//! Webhooks: somebody elsewhere is told what became of a workflow.
//!
//! A [`Courier`] sends a [`Notice`] to a [`Hook`], in the form that the receiver reads, signed where a secret was
//! agreed on, and tries again where that may help. Each try has the same delivery id. Whoever must not wait spawns it.
//!
//! Deliberately absent: secrets, in every message and in every `Debug` (the path of a URL is one: who knows it can
//! write to the channel); redirects, which could carry them elsewhere; the clock, which is handed in.

mod courier;
mod discord;
mod error;
mod hook;
mod signature;
mod slack;
mod text;

pub use crate::http::{Backoff, Key};
pub use courier::{Courier, Patience};
pub use error::Error;
pub use hook::{Format, Hook};
pub use rethread_workflow::{Notice, NoticeKind as Event, UnknownNotice as UnknownEvent};
