//! Finding the rows that are damaged, and mending them: from a backup, from the log, or by setting them aside.

use std::path::Path;

use jiff::Timestamp;
use rethread_domain::session::FactRecord;
use rethread_domain::{Fact, Seq};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params_from_iter};
use serde_json::json;

use super::mend::sum_of;
use super::records::{Bad, Kept, columns_of};
use super::rows::{self, key, seq_of};
use super::scope::{Scope, Segment};
use super::summed::{summed, with_sums};
use super::sums::{self, TABLES, Table};
use super::{blob, connection, damage, facts, passages, rebuild, schema};
use crate::error::{Error, Result};
use crate::types::{Record, Repaired, Span};

/// Every row that does not match its checksum, or cannot be read.
fn find(connection: &Connection) -> Result<Vec<Bad>> {
    let mut all = Vec::new();
    for table in TABLES {
        let sql = format!(
            "select {} from {name} where not {}",
            table.key.join(", "),
            sums::intact(table.name),
            name = table.name
        );
        let mut statement = connection.prepare(&sql)?;
        let mut found = statement.query([])?;
        while let Some(row) = found.next()? {
            let key: rusqlite::Result<Vec<Kept>> =
                (0..table.key.len()).map(|column| row.get_ref(column).map(Kept::of)).collect();
            all.push(Bad { table, key: key? });
        }
    }
    unreadable(connection, &mut all)?;
    Ok(all)
}

/// Rows that match their checksums and cannot be read all the same: they were written so, or before there were any.
fn unreadable(connection: &Connection, all: &mut Vec<Bad>) -> Result<()> {
    let mut add = |name: &str, key: Vec<i64>| {
        let key: Vec<Kept> = key.into_iter().map(|one| Kept::Other(Value::Integer(one))).collect();
        let is_known = all.iter().any(|bad| bad.table.name == name && bad.key == key);
        if let Some(table) = Table::of(name).filter(|_| !is_known) {
            all.push(Bad { table, key });
        }
    };
    let mut statement = connection.prepare(&rows::select_message(""))?;
    let mut found = statement.query([])?;
    while let Some(row) = found.next()? {
        if rows::message(row)?.damage == Some(damage::Damage::Unreadable) {
            add("message", vec![row.get(0)?]);
        }
    }
    let mut sessions = connection.prepare("select no from session")?;
    let numbers: Vec<i64> =
        sessions.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    for no in numbers {
        if let Some(row) = damage::session_by_no(connection, no)? {
            let last = row.session.last_seq;
            let own = Segment { lo: row.base + 1, hi: last, source: no };
            let span = Span::after(1, u32::MAX);
            Scope { segments: vec![own] }.visit(connection, span, |message| {
                if message.damage == Some(damage::Damage::Missing) {
                    add("message", vec![key(no, message.message.seq)]);
                }
                Ok(true)
            })?;
        }
        for (n, record) in facts::numbered(connection, no)? {
            if facts::is_damaged(&record.fact) && !facts::is_set_aside(&record.fact) {
                add("fact", vec![no, i64::from(n)]);
            }
        }
    }
    let mut blobs = connection.prepare("select no from blob")?;
    let numbers: Vec<i64> =
        blobs.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    for no in numbers {
        match blob::read(connection, no) {
            Err(Error::Damaged(_)) => add("blob", vec![no]),
            read => drop(read?),
        }
    }
    Ok(())
}

/// The records that are damaged.
pub(super) fn records(connection: &Connection) -> Result<Vec<Record>> {
    Ok(find(connection)?.iter().map(|bad| bad.record(connection)).collect())
}

/// Mends what is damaged: from a backup where there is one, from the log, or by setting it aside.
pub(super) fn repair(
    connection: &Connection,
    backup: Option<&Path>,
    at: Timestamp,
) -> Result<Repaired> {
    let backup = backup.map(open_backup).transpose()?;
    let mut repaired = Repaired::default();
    for bad in find(connection)? {
        let record = bad.record(connection);
        let restored = match &backup {
            Some(backup) => bring_back(connection, backup, &bad)?,
            None => false,
        };
        if restored {
            repaired.restored.push(record);
        } else if is_derived(bad.table.name) || mend_fact(connection, &bad)? {
            repaired.rebuilt.push(record);
        } else {
            set_aside(connection, &bad, at)?;
            repaired.set_aside.push(record);
        }
    }
    repaired.restored.extend(bring_back_aside(connection, backup.as_ref())?);
    for bad in find(connection)?.iter().filter(|bad| is_derived(bad.table.name)) {
        // A session's row is written over by the rebuilding, and heals from the log until then.
        if !matches!(bad.table.name, "session" | "workflow") {
            remove(connection, bad)?;
        }
    }
    if !repaired.is_empty() {
        connection.execute_batch("reindex")?;
        rebuild::everything(connection)?;
    }
    Ok(repaired)
}

fn open_backup(path: &Path) -> Result<Connection> {
    let backup = connection::reader(path)?;
    if schema::version(&backup, path, schema::STEPS.len())? == 0 {
        return Err(connection::not_a_store(path, "there is nothing in it"));
    }
    Ok(backup)
}

/// What can be made anew from the log; or, of imports, from the agents' files, which are then read once more.
fn is_derived(table: &str) -> bool {
    matches!(
        table,
        "session"
            | "conversation"
            | "agent_use"
            | "holding"
            | "imported"
            | "passage"
            | "posting"
            | "posting_run"
            | "usage_day"
            | "opening_sum"
            | "workflow"
            | "workflow_session"
    )
}

/// Takes a row from the backup, if it is the one that the checksum here was made of, or the same as the one here.
fn bring_back(connection: &Connection, backup: &Connection, bad: &Bad) -> Result<bool> {
    if bad.table.name == "blob" {
        return bring_back_text(connection, backup, bad);
    }
    let Some(own) = bad.read(connection, &columns_of(bad.table))? else {
        return bring_back_missing(connection, backup, bad);
    };
    let Some(other) = from_backup(backup, bad)? else { return Ok(false) };
    let fits = own.last().and_then(Kept::number) == Some(sum_of(&other));
    if !fits && own[..own.len() - 1] != other[..] {
        return Ok(false);
    }
    write(connection, bad, &other)?;
    Ok(true)
}

/// A message that is not there at all.
fn bring_back_missing(connection: &Connection, backup: &Connection, bad: &Bad) -> Result<bool> {
    let Some(values) = from_backup(backup, bad)?.filter(|_| bad.table.name == "message") else {
        return Ok(false);
    };
    add_mark(connection, bad)?;
    write(connection, bad, &values)?;
    let read = |row: &rusqlite::Row<'_>| Ok(rows::message(row)?.damage);
    let sql = rows::select_message("where id = ?1");
    let damage = connection.query_row(&sql, params_from_iter(&bad.key), read)?;
    Ok(damage.is_none())
}

/// A row in place of a message that is missing, to be filled in.
fn add_mark(connection: &Connection, bad: &Bad) -> Result<()> {
    connection.execute(
        summed!("insert into message (id, role, conversation, at, prev, body) values (?1, 2, 0, 0, 0, '')"),
        params_from_iter(&bad.key),
    )?;
    Ok(())
}

/// The columns that the checksum is made of, as the backup has them.
fn from_backup(backup: &Connection, bad: &Bad) -> Result<Option<Vec<Kept>>> {
    let sql = format!("select name from pragma_table_info('{}')", bad.table.name);
    let there: Vec<String> =
        backup.prepare(&sql)?.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    if there.is_empty() {
        return Ok(None);
    }
    let known = |column: &&'static str| {
        if there.iter().any(|one| one == column) { *column } else { "null" }.to_owned()
    };
    let columns: Vec<String> = bad.table.columns.iter().map(known).collect();
    bad.read(backup, &columns)
}

/// Writes a row anew: all that its checksum is made of.
pub(super) fn write(connection: &Connection, bad: &Bad, values: &[Kept]) -> Result<()> {
    let columns = bad.table.columns;
    let set: Vec<String> =
        columns.iter().enumerate().map(|(n, column)| format!("{column} = ?{}", n + 1)).collect();
    let key: Vec<String> = bad
        .table
        .key
        .iter()
        .enumerate()
        .map(|(n, column)| format!("{column} = ?{}", columns.len() + n + 1))
        .collect();
    let sql = with_sums(&format!(
        "update {} set {}, sum = null where {}",
        bad.table.name,
        set.join(", "),
        key.join(" and ")
    ));
    connection.execute(&sql, params_from_iter(values.iter().chain(&bad.key)))?;
    Ok(())
}

/// A long text: what it is known by is the hash of all of it.
fn bring_back_text(connection: &Connection, backup: &Connection, bad: &Bad) -> Result<bool> {
    let Some(no) = bad.key.first().and_then(Kept::number) else { return Ok(false) };
    let Ok(text) = blob::read(backup, no) else { return Ok(false) };
    let (owner, hash, data): (String, Vec<u8>, Vec<u8>) =
        backup.query_row("select owner, hash, data from blob where no = ?1", [no], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
    let uses: i64 =
        connection
            .query_row("select count(*) from message where blob = ?1", [no], |row| row.get(0))?;
    // Whoever uses it has both of its ends: they are the same text.
    let sql = rows::select_message("where blob = ?1");
    let mut statement = connection.prepare(&sql)?;
    let sharers: Vec<rows::MessageRow> =
        statement.query_map([no], rows::message)?.collect::<rusqlite::Result<_>>()?;
    let is_same = sharers.iter().filter(|one| one.damage.is_none()).all(|one| {
        let body = &one.message.body;
        body.bytes() == text.len() as u64
            && text.starts_with(body.head())
            && text.ends_with(body.tail())
    });
    if !is_same {
        return Ok(false);
    }
    connection.execute(
        summed!("update blob set owner = ?2, hash = ?3, bytes = ?4, uses = ?5, data = ?6, sum = null where no = ?1"),
        (no, owner, hash, text.len(), uses, data),
    )?;
    Ok(true)
}

/// A fact that the rows still know: how a session began, and what its conversations are called.
fn mend_fact(connection: &Connection, bad: &Bad) -> Result<bool> {
    let ("fact", [session, n]) = (bad.table.name, bad.key.as_slice()) else { return Ok(false) };
    let (Some(session), Some(n)) = (session.number(), n.number()) else { return Ok(false) };
    let mut statement = connection.prepare(&rows::select_session("where no = ?1"))?;
    let Some(row) = statement.query_row([session], rows::session).optional()? else {
        return Ok(false);
    };
    let all = facts::facts(connection, session)?;
    let mended = if n == 1 && !row.damaged {
        let mut beginning = row.session.beginning(None);
        beginning.agent = None;
        Some((0, row.session.started_at, Fact::Started(beginning)))
    } else {
        opened(connection, session, &all)?
    };
    let Some((after, at, fact)) = mended else { return Ok(false) };
    let what = serde_json::to_string(&fact).map_err(|error| Error::Failed(error.to_string()))?;
    connection.execute(
        summed!("update fact set after = ?3, at = ?4, what = ?5, sum = null where session = ?1 and n = ?2"),
        (session, n, after, rows::micros(at), what),
    )?;
    Ok(true)
}

/// The one conversation of which no fact says that it was opened.
fn opened(
    connection: &Connection,
    session: i64,
    all: &[FactRecord],
) -> Result<Option<(Seq, Timestamp, Fact)>> {
    let sql = rows::select_conversation("where session = ?1 order by n");
    let mut statement = connection.prepare(&sql)?;
    let found = statement.query_map([session], |row| Ok(rows::conversation(row)))?;
    for conversation in found.collect::<rusqlite::Result<Vec<_>>>()?.into_iter().flatten() {
        let is_known = all
            .iter()
            .any(|record| matches!(&record.fact, Fact::Opened { n, .. } if *n == conversation.n));
        if !is_known {
            let first: Option<i64> = connection
                .query_row(
                    "select min(id) from message where id between ?1 and ?2 and conversation = ?3",
                    (key(session, 0), key(session, Seq::MAX), conversation.n),
                    |row| row.get(0),
                )
                .optional()?
                .flatten();
            let after = first.map_or(0, |id| seq_of(id).saturating_sub(1));
            let fact = Fact::Opened { n: conversation.n, name: conversation.name };
            return Ok(Some((after, conversation.created_at, fact)));
        }
    }
    Ok(None)
}

/// Keeps a row as it is in quarantine, and leaves a mark in its place.
fn set_aside(connection: &Connection, bad: &Bad, at: Timestamp) -> Result<()> {
    let names = columns_of(bad.table);
    if bad.table.name == "message" && bad.read(connection, &names)?.is_none() {
        add_mark(connection, bad)?;
    }
    if bad.table.name == "fact" && bad.read(connection, &names)?.is_none() {
        connection.execute(
            summed!("insert into fact (session, n, after, at, what) values (?1, ?2, 0, 0, '')"),
            params_from_iter(&bad.key),
        )?;
    }
    let Some(values) = bad.read(connection, &names)? else { return Ok(()) };
    let row: serde_json::Map<String, serde_json::Value> =
        names.iter().cloned().zip(values.iter().map(Kept::json)).collect();
    let record = bad.record(connection);
    connection.execute(
        "insert into quarantine (at, tab, session, place, row) values (?1, ?2, ?3, ?4, ?5)",
        (
            rows::micros(at),
            &record.kind,
            &record.of,
            record.number.and_then(|number| i64::try_from(number).ok()),
            serde_json::to_vec(&row).map_err(|error| Error::Failed(error.to_string()))?,
        ),
    )?;
    let kept = connection.last_insert_rowid();
    let mark = json!({ "what": "damaged", "kept": kept }).to_string();
    match (bad.table.name, bad.key.first().and_then(Kept::number)) {
        ("message", Some(id)) => leave_mark(connection, id, kept),
        ("fact", _) => {
            let values = bad.key.iter().cloned().chain([Kept::Text(mark.into_bytes())]);
            connection.execute(
                summed!("update fact set what = ?3, at = coalesce((select at from fact as other where session = ?1
                    and other.n = ?2 - 1), 0), after = coalesce((select after from fact as other
                    where session = ?1 and other.n = ?2 - 1), 0), sum = null
                 where session = ?1 and n = ?2"),
                params_from_iter(values),
            )?;
            Ok(())
        }
        ("workflow_event", Some(id)) => {
            connection.execute(
                summed!("update workflow_event set what = ?2, at = coalesce((select at from workflow_event as other
                    where other.id = ?1 - 1), 0), sum = null where id = ?1"),
                (id, mark),
            )?;
            Ok(())
        }
        ("feed", Some(no)) => {
            connection.execute(
                summed!("update feed set user = '', kind = 'DAMAGED', session = null, workflow = null, first = 0,
                    last = 0, at = 0, sum = null where no = ?1"),
                [no],
            )?;
            Ok(())
        }
        _ => remove(connection, bad),
    }
}

/// Leaves a mark in place of a message. It belongs to the conversation of the message before it, unless it says another
/// one that is known.
fn leave_mark(connection: &Connection, id: i64, kept: i64) -> Result<()> {
    let first = key(id >> 32, 0);
    connection.execute(
        summed!("update message set role = 2, tokens = 0, price = null, cuts = null, body = '', head_bytes = null,
            bytes = null, blob = null, extras = null, given_id = null, purged_at = null, set_aside = ?2,
            conversation = coalesce(
                (select n from conversation where session = ?1 >> 32 and n = message.conversation),
                (select conversation from message as other where other.id < ?1 and other.id >= ?3
                 order by other.id desc limit 1), 1),
            at = coalesce((select at from message as other where other.id < ?1 and other.id >= ?3
                 order by other.id desc limit 1), (select started_at from session where no = ?1 >> 32), 0)
         where id = ?1"),
        (id, kept, first),
    )?;
    connection.execute(
        summed!(
            "update message set prev = coalesce((select other.id & 4294967295 from message as other
                where other.id < ?1 and other.id >= ?2 and other.conversation = message.conversation
                order by other.id desc limit 1), 0), sum = null
         where id = ?1"
        ),
        (id, first),
    )?;
    passages::remove(connection, id)
}

fn remove(connection: &Connection, bad: &Bad) -> Result<()> {
    let sql = format!("delete from {} where {}", bad.table.name, bad.condition());
    connection.execute(&sql, params_from_iter(&bad.key))?;
    Ok(())
}

/// Messages that were set aside before, as far as the backup has them.
fn bring_back_aside(connection: &Connection, backup: Option<&Connection>) -> Result<Vec<Record>> {
    let (Some(backup), Some(table)) = (backup, Table::of("message")) else { return Ok(Vec::new()) };
    let aside: Vec<(i64, i64, Vec<u8>)> = connection
        .prepare(
            "select message.id, no, row from message join quarantine on no = set_aside and tab = 'message'",
        )?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let mut restored = Vec::new();
    for (id, no, row) in aside {
        let bad = Bad { table, key: vec![Kept::Other(Value::Integer(id))] };
        let Some(values) = from_backup(backup, &bad)? else { continue };
        let row: serde_json::Value = serde_json::from_slice(&row).unwrap_or_default();
        let is_same =
            table.columns.iter().zip(&values).all(|(column, value)| row[column] == value.json());
        if row["sum"] == sum_of(&values) || is_same {
            write(connection, &bad, &values)?;
            connection.execute("delete from quarantine where no = ?1", [no])?;
            restored.push(bad.record(connection));
        }
    }
    Ok(restored)
}

/// A damaged message is purged: nothing of it stays in quarantine, nor a long text that nobody else has. What cannot be
/// trusted of it, who said it and when, goes too.
pub(super) fn forget(connection: &Connection, place: i64, session: &str) -> Result<()> {
    let purged_at: Option<i64> =
        connection
            .query_row("select purged_at from message where id = ?1", [place], |row| row.get(0))?;
    leave_mark(connection, place, 0)?;
    connection.execute(
        summed!("update message set set_aside = null, purged_at = ?2, sum = null where id = ?1"),
        (place, purged_at),
    )?;
    connection.execute(
        "delete from quarantine where session = ?1 and place = ?2",
        (session, seq_of(place)),
    )?;
    connection.execute(
        "delete from blob where no not in (select blob from message where blob is not null)",
        [],
    )?;
    Ok(())
}
