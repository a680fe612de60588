//! `output_streams/<id>/`: an invoked session as files, for people and programs that read files.
//!
//! A projection: the store is the truth, and what is missing or damaged here is rebuilt from it. `session.log` is append-only.
//! `conversation.json` is a valid JSON document at every moment, yet appending a message does not read or rewrite the rest: the
//! trailer after the messages has a fixed length and is overwritten.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rethread_domain::quote::safe;
use rethread_domain::{Session, SessionId};
use rethread_engine::views::MessageView;
use rethread_engine::{Engine, Logged as _, Order, Span};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

const CONVERSATION: &str = "conversation.json";
const LOG: &str = "session.log";
const SUMMARY: &str = "summary.json";
/// How many messages are read at once.
const PAGE: u32 = 500;
/// Logged if the files cannot be written: the store has everything.
pub(crate) const BEHIND: &str = "the output stream of a session is behind";

/// The root of the output streams.
#[derive(Debug, Clone)]
pub struct Streams {
    root: PathBuf,
}

/// The cost of an update.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Synced {
    pub messages: u32,
    pub bytes_read: u64,
    pub bytes_written: u64,
}

impl Streams {
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    pub fn folder(&self, id: SessionId) -> PathBuf {
        self.root.join(id.to_string())
    }

    fn open_folder(&self, id: SessionId) -> std::io::Result<PathBuf> {
        let folder = self.folder(id);
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        Ok(folder)
    }

    /// Opens the session's log.
    pub(crate) fn log(&self, id: SessionId) -> std::io::Result<Log> {
        let path = self.open_folder(id)?.join(LOG);
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        Ok(Log { file })
    }

    /// Whether the session has files to keep up to date.
    pub(crate) fn has(&self, id: SessionId) -> bool {
        self.folder(id).join(CONVERSATION).is_file()
    }

    /// Appends missing messages to `conversation.json`, at a cost that depends only on what is missing.
    pub async fn sync(&self, engine: &Engine, id: SessionId) -> std::io::Result<Synced> {
        let session = engine.session(id).await.map_err(std::io::Error::other)?;
        let path = self.open_folder(id)?.join(CONVERSATION);
        let mut options = OpenOptions::new();
        let mut file =
            options.create(true).truncate(false).read(true).write(true).mode(0o600).open(path)?;
        // Another server may be doing the same.
        file.lock()?;
        let mut synced = Synced::default();
        let mut count = match tail(&mut file, &mut synced)? {
            Some(count) if count <= session.last_seq => count,
            _ => begin(&mut file, &session, &mut synced)?,
        };
        while count < session.last_seq {
            let span = Span {
                from: count + 1,
                to: session.last_seq,
                order: Order::OldestFirst,
                limit: PAGE,
            };
            let page = engine.messages(id, span).await.map_err(std::io::Error::other)?;
            let Some(last) = page.last().map(|message| message.seq) else { break };
            let mut text = String::new();
            for message in &page {
                text.push_str(if message.seq > 1 { ",\n" } else { "\n" });
                // Masked as in an export: others read these files.
                let mut view = serde_json::to_value(MessageView::of(id, message))?;
                engine.redactor().redact_json(&mut view);
                text.push_str(&view.to_string());
            }
            text.push_str(&trailer(last, session.last_active_at));
            file.seek(SeekFrom::End(-TRAILER))?;
            file.write_all(text.as_bytes())?;
            synced.bytes_written += text.len() as u64;
            synced.messages += last - count;
            count = last;
        }
        Ok(synced)
    }

    /// Writes the prompt of a turn to `conversation.json` as soon as it is stored, not only at the end of the turn.
    pub(crate) async fn follow(&self, engine: &Engine, id: SessionId) -> Following {
        let (streams, engine) = (self.clone(), engine.clone());
        let before = engine.session(id).await.map_or(0, |session| session.last_seq);
        Following(tokio::spawn(async move {
            let mut changes = engine.changes();
            while let Ok(now) = engine.session(id).await {
                if now.last_seq > before {
                    // If it fails, the end of the turn tries again.
                    streams.sync(&engine, id).await.or_log(BEHIND);
                    return;
                }
                changes.next().await;
            }
        }))
    }

    /// Replaces `summary.json`, whose size does not depend on the length of the session.
    pub(crate) fn sum_up(
        &self,
        engine: &Engine,
        session: &Session,
        more: Value,
    ) -> std::io::Result<()> {
        let folder = self.open_folder(session.id)?;
        let mut summary = json!({
            "sessionId": session.id,
            "agentName": session.agent,
            "status": session.status(),
            "title": session.title,
            "summary": session.summary,
            "messageCount": session.last_seq,
            "totalTokens": session.counters.tokens,
            "inputTokens": session.counters.input_tokens,
            "outputTokens": session.counters.output_tokens,
            "createdAt": session.started_at,
            "lastUpdated": session.last_active_at,
        });
        if let (Value::Object(fields), Value::Object(more)) = (&mut summary, more) {
            fields.extend(more);
        }
        engine.redactor().redact_json(&mut summary);
        replace(&folder.join(SUMMARY), &format!("{summary:#}\n"))
    }
}

/// Follows a turn until it is dropped.
#[derive(Debug)]
pub(crate) struct Following(JoinHandle<()>);

impl Drop for Following {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let half = path.with_extension("part");
    let mut options = OpenOptions::new();
    let mut file = options.create(true).truncate(true).write(true).mode(0o600).open(&half)?;
    file.write_all(text.as_bytes())?;
    std::fs::rename(half, path)
}

/// The length of [`trailer`] in bytes, which is always the same.
const TRAILER: i64 = 74;

fn trailer(count: u32, at: Timestamp) -> String {
    format!("\n],\"messageCount\":{count:10},\"lastUpdated\":\"{at:.6}\"}}\n")
}

/// The number of messages in a file; `None` if it does not end with a valid trailer.
fn tail(file: &mut File, synced: &mut Synced) -> std::io::Result<Option<u32>> {
    if file.metadata()?.len() < TRAILER.unsigned_abs() {
        return Ok(None);
    }
    file.seek(SeekFrom::End(-TRAILER))?;
    let mut end = String::new();
    let Ok(read) = file.read_to_string(&mut end) else { return Ok(None) };
    synced.bytes_read += read as u64;
    let count = end.split("\"messageCount\":").nth(1).and_then(|rest| rest.split(',').next());
    let is_whole = end.starts_with("\n]") && end.ends_with("\"}\n");
    Ok(count.filter(|_| is_whole).and_then(|count| count.trim().parse().ok()))
}

/// Starts a file without messages.
fn begin(file: &mut File, session: &Session, synced: &mut Synced) -> std::io::Result<u32> {
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    let about = json!({
        "sessionId": session.id, "agentName": session.agent, "createdAt": session.started_at,
    });
    let about = about.to_string();
    let open = about.strip_suffix('}').unwrap_or(&about);
    let text = format!("{open},\"messages\":[{}", trailer(0, session.last_active_at));
    file.write_all(text.as_bytes())?;
    synced.bytes_written += text.len() as u64;
    Ok(0)
}

/// The log of a session: lines with their time; continuation lines are indented.
#[derive(Debug)]
pub(crate) struct Log {
    file: File,
}

impl Log {
    /// A failed write is ignored: the store has the session.
    pub(crate) fn line(&mut self, at: Timestamp, what: &str, text: &str) {
        let text = safe(text).trim_end().replace('\n', "\n    ");
        let written = self.file.write_all(format!("[{at:.3}] {what}: {text}\n").as_bytes());
        written.or_log(BEHIND);
    }
}
