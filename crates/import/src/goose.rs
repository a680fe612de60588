//! Goose: a database with the tables `sessions` and `messages`.

use std::collections::VecDeque;
use std::io;
use std::path::Path;

use jiff::Timestamp;
use rethread_domain::conversation::TitleFrom;
use rethread_domain::message::Usage;
use serde_json::Value;

use crate::blocks;
use crate::database::{Database, LONGEST_ROW, document, row_text, text, unreadable};
use crate::json;
use crate::reading::{Reading, Source};
use crate::speech::{Call, Outcome, Speech};
use crate::{COMPACTED, Error, Found, Head, Unread};

pub(crate) fn is_one(database: &Database) -> bool {
    database.has("sessions", &["id", "working_dir", "created_at", "updated_at"])
        && database
            .has("messages", &["id", "session_id", "role", "content_json", "created_timestamp"])
}

/// The sessions of a database.
pub(crate) fn list(agent: &'static str, path: &Path) -> (Vec<Found>, Option<Error>) {
    // Ids are used again after a session was deleted.
    let sql = "select id, created_at, updated_at, cast(strftime('%s', updated_at) as integer),
            (select count(*) || ':' || coalesce(max(id), 0) from messages where session_id = sessions.id)
        from sessions where length(id) <= 200 order by created_at, id";
    Database::list(path, sql, |row| Found {
        agent,
        path: path.to_owned(),
        source: path.to_owned(),
        native: text(row, 0),
        stamp: format!("{}:{}:{}", text(row, 1), text(row, 2), text(row, 4)),
        changed_at: Timestamp::from_second(row.get(3).unwrap_or(0))
            .unwrap_or(Timestamp::UNIX_EPOCH),
    })
}

/// The rows of a session.
pub(crate) struct Goose {
    database: Database,
    messages: VecDeque<String>,
    /// Whether what came before is hidden from the model, which is told a summary in its place.
    was_hidden: bool,
}

impl Goose {
    pub(crate) fn open(found: &Found) -> Result<Option<Reading<Self>>, Error> {
        let database = Database::open(&found.path)?;
        let (head, messages) =
            describe(&database, &found.native).map_err(unreadable(&found.path))?;
        if messages.is_empty() {
            return Ok(None);
        }
        let rows = Self { database, messages, was_hidden: false };
        Ok(Some(Reading::new(rows, head, Speech::new(found.agent), Vec::new())))
    }

    fn read(
        &mut self,
        no: &str,
        speech: &mut Speech,
        unread: &mut Vec<Unread>,
    ) -> rusqlite::Result<()> {
        let sql =
            "select role, case when length(content_json) <= ?2 then content_json end, created_timestamp, metadata_json,
                message_id, length(content_json) > ?2
            from messages where id = ?1";
        let row = self.database.row(sql, (no, LONGEST_ROW), |row| {
            let created = row.get::<_, i64>(2).unwrap_or(0);
            (text(row, 0), row_text(row, 1, 5), created, text(row, 3), text(row, 4))
        })?;
        let Some((role, content, created, metadata, id)) = row else { return Ok(()) };
        let what = format!("message {no}");
        let Some(content) = document(content.as_deref(), &what, unread) else { return Ok(()) };
        let metadata = json::value(metadata.as_bytes()).unwrap_or_default();
        let id = if id.is_empty() { format!("row-{no}") } else { id };
        let at = speech.or_last(json::time(&created.into()));
        let is = |name: &str| metadata.get(name).and_then(Value::as_bool);
        let is_seen = is("userVisible") != Some(false);
        let is_told = is("agentVisible") != Some(false);
        // After a summary, the model is told what people do not see, and people see what it is not told.
        let is_summary = is_told && !is_seen && self.was_hidden && is("turnContext") != Some(true);
        self.was_hidden |= !is_told;
        if is_summary {
            self.was_hidden = false;
            let (summary, _) = blocks::read(&content);
            speech.compacted(&id, at, &summary);
            speech.mark(COMPACTED, true.into());
        } else if is_seen && (is_told || !is_note(&content)) {
            say(&id, at, &role, &content, &metadata, speech);
        }
        Ok(())
    }
}

/// Whether a message that the model is not told is about the program itself: the order to compact, and that it was done.
fn is_note(content: &Value) -> bool {
    let (text, _) = blocks::read(content);
    ["/compact", "/summarize", "Compaction complete"].contains(&text.trim())
}

fn say(
    id: &str,
    at: Timestamp,
    role: &str,
    content: &Value,
    metadata: &Value,
    speech: &mut Speech,
) {
    let is_user = role == "user";
    if !is_user {
        let model = metadata.pointer("/inference/resolvedModel");
        let model = model.or_else(|| metadata.pointer("/inference/requestedModel"));
        speech.model = model.and_then(Value::as_str).map(str::to_owned);
        let tokens = |name| json::number(&metadata["usage"], name).min(1 << 50);
        let (input_tokens, output_tokens) = (tokens("inputTokens"), tokens("outputTokens"));
        speech.used(Usage { input_tokens, output_tokens, cost_usd: None });
    }
    for block in content.as_array().map_or(&[][..], Vec::as_slice) {
        match json::text(block, "type").unwrap_or_default() {
            "text" | "image" => {
                let (text, files) = blocks::read(block);
                if is_user && !text.trim_start().starts_with("<turn-context>") {
                    speech.user(id, at, &text, &files);
                } else if !is_user {
                    speech.assistant(id, at, &text, &files);
                }
            }
            "thinking" => speech.think(json::text(block, "thinking").unwrap_or_default()),
            "toolRequest" | "frontendToolRequest" => {
                let call = &block["toolCall"]["value"];
                let name = json::text(call, "name").unwrap_or("tool");
                let call_id = json::text(block, "id").unwrap_or(id);
                speech.call(Call::new(call_id, name, call["arguments"].clone(), at));
            }
            "toolResponse" => {
                let result = &block["toolResult"];
                let (mut output, files) = blocks::read(&result["value"]["content"]);
                let error = json::text(result, "error").map(str::to_owned);
                let has_failed = json::text(result, "status") == Some("error")
                    || result.pointer("/value/isError") == Some(&Value::Bool(true));
                output = error.unwrap_or(output);
                let call_id = json::text(block, "id").unwrap_or(id);
                speech.result(call_id, at, Outcome { output, has_failed, files });
            }
            "redactedThinking"
            | "systemNotification"
            | "toolConfirmationRequest"
            | "actionRequired" => (),
            _ => speech.record(block),
        }
    }
}

fn describe(database: &Database, native: &str) -> rusqlite::Result<(Head, VecDeque<String>)> {
    let column = |name: &'static str| if database.has("sessions", &[name]) { name } else { "null" };
    let names = ["name", "description", "user_set_name", "model_config_json", "parent_session_id"]
        .map(column);
    // Ids are used again: the parent is the one that was there then.
    let sql = format!(
        "select working_dir, created_at, {}, (select created_at from sessions parent where parent.id = {})
        from sessions where id = ?1",
        names.join(", "),
        names[4].replace("parent", "sessions.parent"),
    );
    let head = database.connection.query_row(&sql, [native], |row| {
        let some = |at| Some(text(row, at)).filter(|text| !text.is_empty());
        let from = if text(row, 4) == "1" { TitleFrom::Person } else { TitleFrom::Agent };
        let model = json::value(text(row, 5).as_bytes()).unwrap_or_default();
        Ok(Head {
            native: native.to_owned(),
            instance: text(row, 1),
            folder: some(0),
            title: some(2).or_else(|| some(3)).map(|title| (title, from)),
            model: json::text(&model, "model_name").map(str::to_owned),
            parent: some(6),
            parent_instance: text(row, 7),
            ..Head::default()
        })
    })?;
    let sql = "select id from messages where session_id = ?1 order by id";
    Ok((head, database.ids(sql, native)?))
}

impl Source for Goose {
    fn advance(&mut self, speech: &mut Speech, unread: &mut Vec<Unread>) -> io::Result<bool> {
        let Some(no) = self.messages.pop_front() else { return Ok(false) };
        self.read(&no, speech, unread).map_err(io::Error::other)?;
        Ok(true)
    }
}
