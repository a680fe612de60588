//! opencode and Kilo: a database with the tables `session`, `message` and `part`.

use std::collections::VecDeque;
use std::io;
use std::path::Path;

use jiff::Timestamp;
use rethread_domain::conversation::{DEFAULT, TitleFrom};
use rethread_domain::message::Usage;
use rethread_domain::turn::INTERRUPTED;
use serde_json::Value;

use crate::blocks::from_url;
use crate::database::{Database, LONGEST_ROW, document, row_text, text, unreadable};
use crate::json;
use crate::reading::{Reading, Source};
use crate::speech::{Call, File, Outcome, Speech};
use crate::{Error, Found, Head, Unread};

pub(crate) fn is_one(database: &Database) -> bool {
    database.has("session", &["id", "directory", "time_updated"])
        && database.has("message", &["id", "session_id", "time_created", "data"])
        && database.has("part", &["id", "message_id", "data"])
}

/// The sessions of a database.
pub(crate) fn list(agent: &'static str, path: &Path) -> (Vec<Found>, Option<Error>) {
    let sql = "select id, time_updated, parent_id is not null,
            (select count(*) || ':' || coalesce(max(time_updated), 0) from message where session_id = session.id)
        from session where length(id) <= 200 order by 3, time_created";
    Database::list(path, sql, |row| {
        let updated: i64 = row.get(1).unwrap_or(0);
        Found {
            agent,
            path: path.to_owned(),
            source: path.to_owned(),
            native: text(row, 0),
            stamp: format!("{updated}:{}", text(row, 3)),
            changed_at: Timestamp::from_millisecond(updated).unwrap_or(Timestamp::UNIX_EPOCH),
        }
    })
}

/// The rows of a session.
pub(crate) struct Opencode {
    database: Database,
    messages: VecDeque<String>,
    /// From this message on, it was taken back.
    reverted_from: Option<String>,
}

impl Opencode {
    pub(crate) fn open(found: &Found) -> Result<Option<Reading<Self>>, Error> {
        let database = Database::open(&found.path)?;
        let (head, revert, messages) =
            describe(&database, &found.native).map_err(unreadable(&found.path))?;
        if messages.is_empty() {
            return Ok(None);
        }
        let revert = json::value(revert.as_bytes()).unwrap_or_default();
        let reverted_from = json::text(&revert, "messageID").map(str::to_owned);
        let rows = Self { database, messages, reverted_from };
        Ok(Some(Reading::new(rows, head, Speech::new(found.agent), Vec::new())))
    }

    fn read(
        &self,
        id: &str,
        speech: &mut Speech,
        unread: &mut Vec<Unread>,
    ) -> rusqlite::Result<()> {
        let sql =
            "select case when length(data) <= ?2 then data end, time_created, length(data) > ?2
            from message where id = ?1";
        let row = self.database.row(sql, (id, LONGEST_ROW), |row| {
            (row_text(row, 0, 2), row.get::<_, i64>(1).unwrap_or(0))
        })?;
        let Some((data, created)) = row else { return Ok(()) };
        let what = format!("message {id}");
        let Some(data) = document(data.as_deref(), &what, unread) else { return Ok(()) };
        let is_reverted = self.reverted_from.as_deref().is_some_and(|from| id >= from);
        speech.conversation = match &self.reverted_from {
            Some(from) if is_reverted => {
                format!("branch-{}", &crate::speech::digest(from.as_bytes())[..8])
            }
            _ => DEFAULT.to_owned(),
        };
        let at = Timestamp::from_millisecond(created).ok();
        let at = speech.or_last(at);
        begin(&data, speech);
        let sql = "select id, case when length(data) <= ?2 then data end, length(data) > ?2 from part where message_id = ?1 order by id";
        let mut statement = self.database.connection.prepare_cached(sql)?;
        let mut parts = statement.query((id, LONGEST_ROW))?;
        let mut said =
            Said { id, at, is_summary: data.get("summary") == Some(&Value::Bool(true)), count: 0 };
        while let Some(row) = parts.next()? {
            let (part_id, part) = (text(row, 0), row_text(row, 1, 2));
            let what = format!("part {part_id}");
            let Some(part) = document(part.as_deref(), &what, unread) else { continue };
            if json::text(&data, "role") == Some("user") {
                said.user(&part_id, &part, speech);
            } else {
                said.assistant(&part_id, &part, speech);
            }
        }
        if said.count > 0 && json::text(&data, "role") == Some("assistant") {
            end(&data, speech);
        }
        Ok(())
    }
}

/// What a message says of the model that it came from.
fn begin(data: &Value, speech: &mut Speech) {
    if json::text(data, "role") != Some("assistant") {
        return;
    }
    speech.model = json::text(data, "modelID").map(str::to_owned);
    let tokens = &data["tokens"];
    let count = |name: &str| tokens.pointer(name).and_then(Value::as_u64).unwrap_or(0).min(1 << 50);
    let cost = data.get("cost").and_then(Value::as_f64);
    speech.used(Usage {
        input_tokens: count("/input") + count("/cache/read") + count("/cache/write"),
        output_tokens: count("/output") + count("/reasoning"),
        cost_usd: cost.filter(|cost| *cost > 0.0 && *cost <= 1e6),
    });
}

/// What a message says of its end.
fn end(data: &Value, speech: &mut Speech) {
    if let Some(error) = data.get("error").filter(|error| !error.is_null()) {
        let why = error.pointer("/data/message").or_else(|| error.get("name"));
        let why = why.and_then(Value::as_str).unwrap_or("error").to_owned();
        if json::text(error, "name") == Some("MessageAbortedError") {
            speech.mark(INTERRUPTED, true.into());
        } else {
            speech.mark("error", why.into());
        }
    } else if data.pointer("/time/completed").is_none() {
        speech.mark(INTERRUPTED, true.into());
    }
}

/// A message whose parts are read.
struct Said<'a> {
    id: &'a str,
    at: Timestamp,
    is_summary: bool,
    count: usize,
}

impl Said<'_> {
    fn user(&mut self, id: &str, part: &Value, speech: &mut Speech) {
        let is = |name: &str| part.get(name) == Some(&Value::Bool(true));
        match json::text(part, "type").unwrap_or_default() {
            "text" if is("synthetic") || is("ignored") => (),
            "text" => speech.user(id, self.at, json::text(part, "text").unwrap_or_default(), &[]),
            "file" => speech.user(id, self.at, "", &[file(part)]),
            "compaction" | "agent" | "subtask" => (),
            _ => speech.record(part),
        }
        self.count += 1;
    }

    fn assistant(&mut self, id: &str, part: &Value, speech: &mut Speech) {
        let text = json::text(part, "text").unwrap_or_default();
        match json::text(part, "type").unwrap_or_default() {
            "text" if self.is_summary => speech.compacted(id, self.at, text),
            "text" => speech.assistant(id, self.at, text, &[]),
            "reasoning" => speech.think(text),
            "file" => speech.assistant(id, self.at, "", &[file(part)]),
            "tool" => self.tool(part, speech),
            "step-start" | "step-finish" | "snapshot" | "patch" | "retry" => return,
            _ => speech.record(part),
        }
        self.count += 1;
    }

    fn tool(&self, part: &Value, speech: &mut Speech) {
        let state = &part["state"];
        let call = json::text(part, "callID").unwrap_or(self.id);
        let name = json::text(part, "tool").unwrap_or("tool");
        let at = state.pointer("/time/start").and_then(json::time).unwrap_or(self.at);
        speech.call(Call::new(call, name, state["input"].clone(), at));
        let at = state.pointer("/time/end").and_then(json::time).unwrap_or(at);
        let files = json::list(state, "attachments").iter().map(file).collect();
        let text = |name: &str| json::text(state, name).unwrap_or_default().to_owned();
        match json::text(state, "status").unwrap_or_default() {
            "completed" => {
                speech.result(
                    call,
                    at,
                    Outcome { output: text("output"), has_failed: false, files },
                );
            }
            "error" => {
                speech.result(call, at, Outcome { output: text("error"), has_failed: true, files });
            }
            _ => (),
        }
    }
}

fn file(part: &Value) -> File {
    let name = json::text(part, "filename").map(str::to_owned);
    from_url(json::text(part, "url").unwrap_or_default(), json::text(part, "mime"), name)
}

/// What a session is, what was taken back in it, and its messages in order.
fn describe(
    database: &Database,
    native: &str,
) -> rusqlite::Result<(Head, String, VecDeque<String>)> {
    let has = |column| database.has("session", &[column]);
    let column = |name: &'static str| if has(name) { name } else { "null" };
    let sql = format!(
        "select directory, title, version, parent_id, {}, {} from session where id = ?1",
        column("revert"),
        column("model")
    );
    let (mut head, revert) = database.connection.query_row(&sql, [native], |row| {
        let some = |at| Some(text(row, at)).filter(|text| !text.is_empty());
        let model = json::value(text(row, 5).as_bytes()).unwrap_or_default();
        let head = Head {
            native: native.to_owned(),
            folder: some(0),
            // Until somebody thinks of a title, there is one with the time in it.
            title: some(1)
                .filter(|title| {
                    !title.starts_with("New session - ") && !title.starts_with("Child session - ")
                })
                .map(|title| (title, TitleFrom::Agent)),
            version: some(2),
            parent: some(3),
            model: json::text(&model, "id").map(str::to_owned),
            ..Head::default()
        };
        Ok((head, text(row, 4)))
    })?;
    let sql = "select id from message where session_id = ?1 order by time_created, id";
    let messages = database.ids(sql, native)?;
    native.clone_into(&mut head.native);
    Ok((head, revert, messages))
}

impl Source for Opencode {
    fn advance(&mut self, speech: &mut Speech, unread: &mut Vec<Unread>) -> io::Result<bool> {
        let Some(id) = self.messages.pop_front() else { return Ok(false) };
        self.read(&id, speech, unread).map_err(io::Error::other)?;
        Ok(true)
    }
}
