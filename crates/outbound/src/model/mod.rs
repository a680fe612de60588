//! A model behind HTTP. Beside `notify`, the only room that knows HTTP clients.
//!
//! One request, one answer: no streaming, no conversation kept. The two dialects that servers speak are told apart
//! once, in the settings. An [`Endpoint`] waits and tries again by itself where that may help, and needs a tokio
//! runtime with I/O and time.
//!
//! Deliberately absent: the key, in every message and in every `Debug`; redirects, which could carry it elsewhere.

mod dialect;
mod endpoint;
mod error;
mod presentable;
mod settings;

pub use crate::http::{Backoff, Key};
pub use dialect::Dialect;
pub use endpoint::Endpoint;
pub use error::Error;
pub use settings::Settings;

/// What the model is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Who the model is to be; may be empty.
    pub system: String,
    pub prompt: String,
    /// A JSON schema of an object that the answer has to follow. `OpenAI` itself takes only strict ones: every
    /// property required, none besides them.
    pub schema: Option<serde_json::Value>,
}

/// What the model said, whole: an answer that was cut off is an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Never empty; JSON if the request had a schema. Whether it follows the schema is not checked here.
    pub text: String,
    /// As the server counts; 0 if it does not say.
    pub input_tokens: u64,
    /// As the server counts; 0 if it does not say.
    pub output_tokens: u64,
}
