//! What the server tells whoever keeps it: a line of JSON for each request and each event that matters. Never a query,
//! a body or a header: secrets come in those.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use serde_json::{Map, Value, json};

/// How many lines wait for whoever reads them; those that come then are counted, and lost.
const WAITING: usize = 1_024;
/// How long the end of the server waits for its last lines.
const AT_END: Duration = Duration::from_secs(1);

/// Where lines go.
#[derive(Debug, Clone)]
pub struct Log(Option<Lines>);

/// Lines on their way to the thread that writes them: nobody else waits for it.
#[derive(Debug, Clone)]
struct Lines {
    send: SyncSender<Told>,
    lost: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Told {
    Line(String),
    /// Everything before it was written, once this is answered.
    Flush(SyncSender<()>),
}

/// Writes until nobody has anything more to say.
fn write(lines: &Receiver<Told>, lost: &AtomicU64, mut to: impl Write) {
    for told in lines {
        let count = lost.swap(0, Ordering::SeqCst);
        // Whoever reads it may be gone.
        if count > 0 {
            drop(writeln!(to, "{}", line("lines_lost", [("count".to_owned(), count.into())])));
        }
        match told {
            Told::Line(line) => drop(writeln!(to, "{line}")),
            Told::Flush(done) => drop(done.send(())),
        }
    }
}

fn line(what: &str, fields: impl IntoIterator<Item = (String, Value)>) -> Value {
    let now = rethread_engine::Clock::Wall.now().to_string();
    let mut line = json!({"at": now, "event": what});
    if let Some(line) = line.as_object_mut() {
        line.extend(fields);
    }
    line
}

impl Log {
    /// To standard error, a line at a time.
    pub fn stderr() -> std::io::Result<Self> {
        Self::to(std::io::stderr())
    }

    fn to(to: impl Write + Send + 'static) -> std::io::Result<Self> {
        let (send, lines) = sync_channel(WAITING);
        let lost = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&lost);
        let writer = std::thread::Builder::new().name("log".to_owned());
        writer.spawn(move || write(&lines, &seen, to))?;
        Ok(Self(Some(Lines { send, lost })))
    }

    pub const fn none() -> Self {
        Self(None)
    }

    /// Waits until everything is written that was said, if somebody reads it.
    pub(crate) fn flush(&self) {
        let Some(lines) = &self.0 else { return };
        let (done, wait) = sync_channel(1);
        if lines.send.try_send(Told::Flush(done)).is_ok() {
            let _waited = wait.recv_timeout(AT_END);
        }
    }

    pub(crate) fn event(&self, what: &str, fields: &[(&str, &str)]) {
        let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value)));
        self.line(what, fields.collect());
    }

    pub(crate) fn line(&self, what: &str, fields: Map<String, Value>) {
        let Some(lines) = &self.0 else { return };
        if lines.send.try_send(Told::Line(line(what, fields).to_string())).is_err() {
            lines.lost.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// A time as the log has it.
pub(crate) fn millis(since: std::time::Instant) -> f64 {
    (since.elapsed().as_secs_f64() * 1e6).round() / 1e3
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;

    #[test]
    fn a_reader_that_is_away_holds_up_nobody() {
        let (read, write) = std::io::pipe().unwrap();
        let log = Log::to(write).unwrap();
        let text = "x".repeat(1_000);
        // More than the pipe and the queue hold.
        for _ in 0..10 * WAITING {
            log.event("said", &[("what", &text)]);
        }
        // The writer ends with it, and with the writer what is read: a loss that is not told fails the test.
        drop(log);
        for line in BufReader::new(read).lines() {
            let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
            if line["event"] == "lines_lost" {
                assert!(line["count"].as_u64().unwrap() > 0, "{line}");
                return;
            }
        }
        panic!("nobody is told what was lost");
    }
}
