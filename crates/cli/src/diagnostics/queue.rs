//! Lines on their way to the thread that writes them: nobody else waits for it.

use std::io::{IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rethread_domain::redact::Redactor;
use rethread_engine::Clock;
use serde_json::Value;
use tracing::Level;

use super::file::Rotated;
use super::line::{Line, text};

/// How many lines wait to be written; those that come then are counted, and lost.
const WAITING: usize = 1_024;
/// How long the end of the program waits for its last lines.
const AT_END: Duration = Duration::from_secs(1);

/// Where lines go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    /// Lines of JSON on standard error.
    Json,
    /// Lines for people on standard error.
    Text,
    /// The file in the data folder.
    File,
}

#[derive(Debug)]
enum Entry {
    Line(Line),
    /// Everything before it was written, once this is answered.
    Flush(SyncSender<()>),
}

pub(super) struct Queue {
    /// Until the thread has it.
    writer: Mutex<Option<Writer>>,
    redactor: Redactor,
    /// Begun with the first line: most commands have none.
    entries: OnceLock<Option<SyncSender<Entry>>>,
    lost: AtomicU64,
}

impl Queue {
    pub(super) fn new(writer: Writer, redactor: Redactor) -> Self {
        let writer = Mutex::new(Some(writer));
        Self { writer, redactor, entries: OnceLock::new(), lost: AtomicU64::new(0) }
    }

    pub(super) fn send(&'static self, line: Line) {
        let entries = self.entries.get_or_init(|| self.begin());
        if entries.as_ref().is_none_or(|entries| entries.try_send(Entry::Line(line)).is_err()) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Gives whether everything was written in time.
    pub(super) fn flush(&self) -> bool {
        let Some(Some(entries)) = self.entries.get() else { return true };
        let (done, wait) = sync_channel(1);
        // A queue that is full is one that nobody empties.
        entries.try_send(Entry::Flush(done)).is_ok() && wait.recv_timeout(AT_END).is_ok()
    }

    fn begin(&'static self) -> Option<SyncSender<Entry>> {
        let mut write = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let (entries, waiting) = sync_channel(WAITING);
        let thread = std::thread::Builder::new().name("log".to_owned());
        thread.spawn(move || self.write(&waiting, &mut write)).ok()?;
        Some(entries)
    }

    fn write(&self, entries: &Receiver<Entry>, write: &mut Writer) {
        for entry in entries {
            let line = match entry {
                Entry::Line(line) => line,
                Entry::Flush(done) => {
                    // Nobody waits any more where it took too long.
                    drop(done.send(()));
                    continue;
                }
            };
            let lost = self.lost.swap(0, Ordering::Relaxed);
            if lost > 0 && write(&missing(lost).clean(&self.redactor)).is_err() {
                self.lost.fetch_add(lost + 1, Ordering::Relaxed);
            } else if write(&line.clean(&self.redactor)).is_err() {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// What stands in place of lines that were lost.
fn missing(count: u64) -> Line {
    let fields = vec![("message", "lines_lost".into()), ("count", count.into())];
    Line { at: Clock::Wall.now(), level: Level::WARN, target: module_path!(), fields }
}

/// Writes one line.
pub(super) type Writer =
    Box<dyn FnMut(&serde_json::Map<String, Value>) -> std::io::Result<()> + Send>;

impl Output {
    pub(super) fn writer(self) -> Writer {
        match self {
            Self::Json => Box::new(|line| {
                let line = serde_json::to_string(line)? + "\n";
                std::io::stderr().write_all(line.as_bytes())
            }),
            Self::Text => {
                let has_colours = std::io::stderr().is_terminal();
                Box::new(move |line| {
                    let line = text(line, has_colours) + "\n";
                    std::io::stderr().write_all(line.as_bytes())
                })
            }
            Self::File => {
                let mut file = super::folder().ok().map(Rotated::new);
                Box::new(move |line| {
                    let file = file.as_mut().ok_or(std::io::ErrorKind::NotFound)?;
                    file.append(&(serde_json::to_string(line)? + "\n"))
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::sync::{Arc, mpsc};

    use super::*;

    fn queue(writer: Writer) -> &'static Queue {
        Box::leak(Box::new(Queue::new(writer, Redactor::new([]))))
    }

    fn line(message: &str) -> Line {
        let fields = vec![("message", message.into())];
        Line { at: Clock::Wall.now(), level: Level::INFO, target: "x", fields }
    }

    /// Nobody reads: whoever notes something goes on, and what was lost is counted.
    #[test]
    fn a_reader_that_is_away_holds_up_nobody() {
        let (read, mut write) = std::io::pipe().unwrap();
        let queue = queue(Box::new(move |line| {
            write.write_all((serde_json::to_string(line)? + "\n").as_bytes())
        }));
        let text = "x".repeat(1_000);
        // More than the pipe and the queue hold.
        for _ in 0..10 * WAITING {
            queue.send(line(&text));
        }
        assert!(!queue.flush(), "nobody reads, and yet it was written");
        let reader = std::thread::spawn(move || {
            let lines = BufReader::new(read).lines().map(Result::unwrap);
            let lines = lines.map(|line| serde_json::from_str::<Value>(&line).unwrap());
            lines.take_while(|line| line["event"] != "last").collect::<Vec<_>>()
        });
        while !queue.flush() {}
        queue.send(line("last"));
        let lines = reader.join().unwrap();
        let lost: u64 = lines.iter().filter_map(|line| line["count"].as_u64()).sum();
        let written = lines.iter().filter(|line| line["event"] == text.as_str()).count();
        assert!(lost > 0, "nothing was lost of {written} lines");
        assert_eq!(lost + written as u64, 10 * WAITING as u64);
    }

    /// A disk that is full for a while costs the lines of that while, and says so.
    #[test]
    fn a_full_disk_is_survived_and_told() {
        let (to, written) = mpsc::channel();
        let is_full = Arc::new(std::sync::atomic::AtomicBool::new(true));
        let full = Arc::clone(&is_full);
        let queue = queue(Box::new(move |line| {
            if full.load(Ordering::SeqCst) {
                return Err(std::io::ErrorKind::StorageFull.into());
            }
            to.send(line.clone()).map_err(std::io::Error::other)
        }));
        for _ in 0..3 {
            queue.send(line("lost"));
        }
        while !queue.flush() {}
        is_full.store(false, Ordering::SeqCst);
        queue.send(line("kept"));
        while !queue.flush() {}
        let written: Vec<_> = written.try_iter().collect();
        assert_eq!((&written[0]["event"], &written[0]["count"]), (&"lines_lost".into(), &3.into()));
        assert_eq!((&written[1]["event"], written.len()), (&"kept".into(), 2));
    }
}
