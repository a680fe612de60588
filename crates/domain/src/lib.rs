//! What Rethread is about: sessions, what was said in them, and how to tell it again.
//!
//! Pure: no I/O, no async, no clock, no randomness but where an id is made.

pub mod access;
pub mod consent;
pub mod context;
pub mod conversation;
pub mod fact;
pub mod feed;
pub mod id;
mod language;
mod mask;
pub mod meaning;
pub mod message;
mod named;
pub mod native;
pub mod near;
pub mod number;
pub mod opening;
pub mod outcome;
pub mod passage;
pub mod price;
pub mod quote;
pub mod rank;
pub mod replay;
pub mod retell;
pub mod search;
pub mod session;
pub mod shell;
pub mod summary;
pub mod terms;
pub mod tokens;
pub mod turn;
mod word_cache;
pub mod wording;
mod words;

pub use conversation::Conversation;
pub use id::{Seq, SessionId};
pub use message::{Message, Role, Usage};
pub use session::{Fact, Session, Status};
