//! What the server tells whoever keeps it: a line of JSON for each request and each event that matters. Never a query,
//! a body or a header: secrets come in those.

use std::io::Write as _;
use std::sync::Arc;

use serde_json::{Map, Value};

/// Where lines go.
#[derive(Clone)]
pub struct Log(Option<Write>);

/// Takes a line.
type Write = Arc<dyn Fn(&str) + Send + Sync>;

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Log").field(&self.0.is_some()).finish()
    }
}

impl Log {
    /// To standard error, a line at a time.
    pub fn stderr() -> Self {
        Self(Some(Arc::new(|line| {
            // Whoever reads it may be gone.
            drop(writeln!(std::io::stderr().lock(), "{line}"));
        })))
    }

    pub fn to(write: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(write)))
    }

    pub const fn none() -> Self {
        Self(None)
    }

    pub(crate) fn event(&self, what: &str, fields: &[(&str, &str)]) {
        let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value)));
        self.line(what, fields.collect());
    }

    pub(crate) fn line(&self, what: &str, fields: Map<String, Value>) {
        let Some(write) = &self.0 else { return };
        let mut line = Map::new();
        line.insert("at".to_owned(), rethread_engine::Clock::Wall.now().to_string().into());
        line.insert("event".to_owned(), what.into());
        line.extend(fields);
        write(&Value::Object(line).to_string());
    }
}

/// A time as the log has it.
pub(crate) fn millis(since: std::time::Instant) -> f64 {
    (since.elapsed().as_secs_f64() * 1e6).round() / 1e3
}
