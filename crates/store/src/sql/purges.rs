//! Purges: the text of a message leaves the log, what was made of it, and the files of the store. What a purge has to do outside
//! of the store is remembered with it, so that a purge that was cut off is finished by whoever comes next.

use async_trait::async_trait;
use jiff::Timestamp;
use rethread_domain::consent::EXACTLY;
use rethread_domain::conversation::TitleFrom;
use rethread_domain::message::Extras;
use rethread_domain::{Fact, Seq, SessionId};
use rethread_workflow::Quoted;
use serde_json::Value;

use super::rows::{self, MessageRow, SessionRow, seq_of};
use super::scope::Scope;
use super::sql::{Connection, OptionalExtension, SqlResult};
use super::summed::summed;
use super::{
    ThisStore, blob, claims, damage, facts, index, passages, rebuild, repair, sums, workflows,
};
use crate::crash;
use crate::error::{Error, Result};
use crate::purges::{Purges, Purging};
use crate::types::Drive;

/// Begins the names under which `meta` remembers what is left to do.
const BEGUN: &str = "purging ";
/// The lock of whoever purges.
const LOCK: &str = "purge";

#[async_trait]
impl Purges for ThisStore {
    async fn begin_purge(&self, purging: Purging, at: Timestamp) -> Result<()> {
        self.write(move |connection| purge(connection, &purging, at)).await?;
        self.folded().clear();
        Ok(())
    }

    async fn empty_log(&self, is_patient: bool) -> Result<bool> {
        self.empty_written(is_patient).await
    }

    fn has_own_files(&self) -> bool {
        Self::HAS_OWN_FILES
    }

    async fn purges_begun(&self) -> Result<Vec<Purging>> {
        self.read(begun)
    }

    async fn end_purge(&self, purging: Purging) -> Result<()> {
        self.write(move |connection| forget(connection, &purging)).await
    }

    async fn purge_alone(&self) -> Result<Option<Drive>> {
        let lock = self.take_lock(LOCK.to_owned()).await?;
        Ok(lock.map(|lock| Drive { _lock: Box::new(lock) }))
    }

    async fn sharers(&self, id: SessionId, seq: Seq) -> Result<Vec<SessionId>> {
        self.read(|connection| sharers_of(connection, id, seq))
    }
}

fn name(purging: &Purging) -> String {
    format!("{BEGUN}{} {}", purging.id, purging.seq)
}

/// Remembers what is left to do, in the transaction that begins it.
fn remember(connection: &Connection, purging: &Purging, at: Timestamp) -> Result<()> {
    let name = name(purging);
    let renames = purging.renames.iter().map(|id| format!("{name} {id}"));
    for name in renames.chain([name.clone()]) {
        connection
            .prepare_cached(
                "insert into meta (name, value) values (?1, ?2)
             on conflict (name) do update set value = excluded.value",
            )?
            .execute((name, rows::micros(at)))?;
    }
    Ok(())
}

/// Mostly there is nothing, which costs a look at an index.
fn begun(connection: &Connection) -> Result<Vec<Purging>> {
    let mut statement = connection.prepare_cached(
        "select name from meta where name >= 'purging ' and name < 'purging!' order by name",
    )?;
    let mut found = statement.query([])?;
    let mut all: Vec<Purging> = Vec::new();
    while let Some(row) = found.next()? {
        let name: String = row.get(0)?;
        let mut words = name.split(' ').skip(1);
        let (Some(Ok(id)), Some(Ok(seq))) =
            (words.next().map(str::parse), words.next().map(str::parse))
        else {
            continue;
        };
        if all.last().is_none_or(|last| (last.id, last.seq) != (id, seq)) {
            all.push(Purging { id, seq, renames: Vec::new() });
        }
        if let (Some(last), Some(Ok(rename))) = (all.last_mut(), words.next().map(str::parse)) {
            last.renames.push(rename);
        }
    }
    Ok(all)
}

fn forget(connection: &Connection, purging: &Purging) -> Result<()> {
    let name = name(purging);
    connection.execute(
        "delete from meta where name = ?1 or name >= ?1 || ' ' and name < ?1 || '!'",
        [name],
    )?;
    Ok(())
}

/// Lasting answers name the command or the files that a message told of; whoever gave one is asked again.
fn forget_grants(
    connection: &Connection,
    sharers: &[SessionRow],
    seq: Seq,
    said: &str,
) -> Result<()> {
    let quoted = Quoted::new(&[], seq, said);
    let users: std::collections::BTreeSet<&str> =
        sharers.iter().map(|sharer| sharer.session.user.as_str()).collect();
    for user in users {
        let mut statement = connection.prepare(&format!(
            "select project, agent, what from permission where user = ?1 and {}",
            sums::intact("permission")
        ))?;
        let found = statement
            .query_map([user], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
            .collect::<SqlResult<Vec<(String, String, String)>>>()?;
        for (project, agent, what) in found.iter().filter(|(.., what)| quotes(what, said, &quoted))
        {
            connection.execute(
                "delete from permission where user = ?1 and project = ?2 and agent = ?3 and what = ?4",
                (user, project, agent, what),
            )?;
        }
    }
    Ok(())
}

/// Whether what a lasting answer names was said in a message. The folder that a command runs in does not count: most messages
/// of a session name it.
fn quotes(what: &str, said: &str, quoted: &Quoted<'_>) -> bool {
    let named = what.strip_prefix(EXACTLY).and_then(|what| serde_json::from_str(what).ok());
    let mut texts = Vec::new();
    match named {
        Some(Value::Object(fields)) => fields
            .iter()
            .filter(|(name, _)| !matches!(name.as_str(), "kind" | "in"))
            .for_each(|(_, value)| each_text(value, &mut |text| texts.push(text.to_owned()))),
        _ => texts.push(what.to_owned()),
    }
    texts.iter().any(|text| !text.is_empty() && (said.contains(text) || quoted.is_in(text)))
}

/// What a title becomes that was made from a purged message, where nothing else gives one.
const UNTITLED: &str = "untitled";

/// Removes the text of a message from the log, from what was made of it, and from the index.
pub(super) fn purge(connection: &Connection, purging: &Purging, at: Timestamp) -> Result<()> {
    let Purging { id, seq, .. } = *purging;
    let row = rows::session_by_id(connection, id)?;
    let missing = || Error::NoMessage(id, seq);
    let place = Scope::of(connection, &row)?.key(seq).ok_or_else(missing)?;
    let sql = rows::select_message("where id = ?1");
    let message = connection
        .prepare(&sql)?
        .query_row([place], rows::message)
        .optional()?
        .ok_or_else(missing)?;
    let said = all_of(connection, &message);
    let sharers = sharers(connection, place)?;
    forget_grants(connection, &sharers, seq, &said)?;
    let ids: Vec<SessionId> = sharers.iter().map(|sharer| sharer.session.id).collect();
    workflows::purge(connection, &ids, seq, &said, at)?;
    clear_message(connection, place, &message, at)?;
    if message.damage.is_some() {
        repair::forget(connection, place, &id.to_string())?;
    }
    for mut sharer in sharers {
        rewrite_facts(connection, &sharer, seq, &message)?;
        claims::forget_answers(connection, sharer.no)?;
        facts::add_told(connection, &mut sharer, &Fact::Purged { seq }, at)?;
        rebuild::session(connection, &sharer)?;
    }
    while index::catch_up(connection, index::STEP)? > 0 {}
    index::merge(connection)?;
    remember(connection, purging, at)?;
    crash::point("purge.done");
    Ok(())
}

/// All that a message says: its text, and what its tools were given and gave. Nothing where it is damaged.
fn all_of(connection: &Connection, message: &MessageRow) -> String {
    if message.damage.is_some() {
        return String::new();
    }
    let body = &message.message.body;
    let mut text = match message.blob {
        Some(blob) => blob::read(connection, blob)
            .unwrap_or_else(|_| format!("{}\n{}", body.head(), body.tail())),
        None => body.head().to_owned(),
    };
    let extras = serde_json::to_value(&message.message.extras);
    each_text(&extras.unwrap_or_default(), &mut |more| {
        text.push('\n');
        text.push_str(more);
    });
    text
}

fn each_text(value: &Value, take: &mut dyn FnMut(&str)) {
    match value {
        Value::String(text) => take(text),
        Value::Array(values) => values.iter().for_each(|value| each_text(value, take)),
        Value::Object(fields) => fields.values().for_each(|value| each_text(value, take)),
        Value::Null | Value::Bool(_) | Value::Number(_) => (),
    }
}

fn clear_message(
    connection: &Connection,
    place: i64,
    message: &MessageRow,
    at: Timestamp,
) -> Result<()> {
    let extras = &message.message.extras;
    let kept = Extras {
        agent: extras.agent.clone(),
        model: extras.model.clone(),
        usage: extras.usage,
        ..Extras::default()
    };
    let kept = (!kept.is_empty()).then(|| serde_json::to_string(&kept).unwrap_or_default());
    connection.execute(
        summed!("update message set body = '', head_bytes = null, bytes = null, blob = null, cuts = null, tokens = 0,
            price = null, extras = ?2, purged_at = coalesce(purged_at, ?3)
         where id = ?1"),
        (place, kept, rows::micros(at)),
    )?;
    passages::remove(connection, place)?;
    match message.blob {
        Some(blob) => blob::release(connection, blob),
        None => Ok(()),
    }
}

/// The sessions that have a message of this one.
pub(super) fn sharers_of(
    connection: &Connection,
    id: SessionId,
    seq: Seq,
) -> Result<Vec<SessionId>> {
    let row = rows::session_by_id(connection, id)?;
    let place = Scope::of(connection, &row)?.key(seq).ok_or(Error::NoMessage(id, seq))?;
    Ok(sharers(connection, place)?.iter().map(|sharer| sharer.session.id).collect())
}

/// Every session that has the message: the one it was said in, and forks.
fn sharers(connection: &Connection, place: i64) -> Result<Vec<SessionRow>> {
    let sql = rows::select_session(
        "where no = ?1 or no in (select session from segment where source = ?1 and ?2 between lo and hi)",
    );
    damage::sessions(connection, &mut connection.prepare(&sql)?, (place >> 32, seq_of(place)))
}

/// Summaries and titles that were made from the message are in the log as well.
fn rewrite_facts(
    connection: &Connection,
    row: &SessionRow,
    seq: Seq,
    message: &MessageRow,
) -> Result<()> {
    let made = rethread_domain::summary::title(message.message.body.head());
    for (n, record) in facts::numbered(connection, row.no)? {
        let cleaned = match record.fact {
            Fact::Summarised { conversation, summary } if summary.speaks_of(seq) => {
                Fact::Summarised { conversation, summary: summary.without(seq) }
            }
            Fact::Started(mut beginning)
                if beginning.title.is_some() && beginning.title == made =>
            {
                beginning.title = None;
                Fact::Started(beginning)
            }
            // Also where it was made longer, as the title of a branch is. Nobody's title counts as none.
            Fact::Titled { title, .. }
                if made.as_deref().is_some_and(|made| title.starts_with(made)) =>
            {
                Fact::Titled { title: UNTITLED.to_owned(), from: TitleFrom::Nobody }
            }
            _ => continue,
        };
        let what =
            serde_json::to_string(&cleaned).map_err(|error| Error::Failed(error.to_string()))?;
        connection.execute(
            summed!("update fact set what = ?3 where session = ?1 and n = ?2"),
            (row.no, n, what),
        )?;
    }
    Ok(())
}
