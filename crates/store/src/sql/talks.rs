//! Turns while they run, what agents hold of conversations, and what they were allowed for good.

use std::collections::HashMap;
use std::sync::LazyLock;

use jiff::Timestamp;
use rethread_domain::opening::{Underway, Watermark};
use rethread_domain::turn::Update;
use rethread_domain::{Conversation, Fact, Seq, SessionId, conversation};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::rows::{self, SessionRow};
use super::sql::{Connection, OptionalExtension, SqlResult};
use super::summed::summed;
use super::{damage, facts, sums};
use crate::error::{Error, Result};
use crate::types::{Begun, Grant};

/// What is kept of an update that cannot be read.
const MOST_UNREADABLE: usize = 1024;

fn to_json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::Failed(error.to_string()))
}

fn from_json<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| Error::Damaged(error.to_string()))
}

fn time(micros: i64) -> Result<Timestamp> {
    Timestamp::from_microsecond(micros).map_err(|error| Error::Damaged(error.to_string()))
}

/// A turn begins with the newest message of its conversation.
pub(super) fn begin(
    connection: &Connection,
    row: &SessionRow,
    conversation: &Conversation,
    mut what: Underway,
    at: Timestamp,
) -> Result<()> {
    what.request = conversation.last_seq;
    if let Some(watermark) = &mut what.watermark {
        (watermark.upto, watermark.messages) = (conversation.last_seq, conversation.messages);
        watermark.beyond = Vec::new();
    }
    end(connection, row.no, &conversation.name)?;
    connection
        .prepare_cached(summed!(
            "insert into underway (session, conversation, at, what) values (?1, ?2, ?3, ?4)"
        ))?
        .execute((row.no, &conversation.name, rows::micros(at), to_json(&what)?))?;
    Ok(())
}

/// A turn begins once more, with the same request: what came of it so far does not count. Gives whether it was there.
pub(super) fn begin_again(
    connection: &Connection,
    row: &SessionRow,
    what: &Underway,
) -> Result<bool> {
    let changed = connection
        .prepare_cached(summed!(
            "update underway set what = ?3 where session = ?1 and conversation = ?2"
        ))?
        .execute((row.no, &what.conversation, to_json(what)?))?;
    if changed > 0 {
        connection
            .prepare_cached("delete from stream where session = ?1 and conversation = ?2")?
            .execute((row.no, &what.conversation))?;
    }
    Ok(changed > 0)
}

/// Takes a turn away; gives what was being answered, if it was there.
pub(super) fn end(
    connection: &Connection,
    session: i64,
    conversation: &str,
) -> Result<Option<Seq>> {
    connection
        .prepare_cached("delete from stream where session = ?1 and conversation = ?2")?
        .execute((session, conversation))?;
    let ended: Option<String> = connection
        .prepare_cached(
            "delete from underway where session = ?1 and conversation = ?2 returning what",
        )?
        .query_row((session, conversation), |row| row.get(0))
        .optional()?;
    ended.map(|what| from_json::<Underway>(&what).map(|what| what.request)).transpose()
}

pub(super) fn stream(
    connection: &Connection,
    id: SessionId,
    conversation: &str,
    updates: &[(Timestamp, Update)],
) -> Result<()> {
    let is_underway: Option<i64> = connection
        .prepare_cached(
            "select session from underway
             where session = (select no from session where id = ?1) and conversation = ?2",
        )?
        .query_row((id.to_string(), conversation), |row| row.get(0))
        .optional()?;
    let Some(session) = is_underway else { return Err(Error::LostClaim(id)) };
    let mut insert = connection.prepare_cached(summed!(
        "insert into stream (session, conversation, at, what) values (?1, ?2, ?3, ?4)"
    ))?;
    for (at, update) in updates {
        insert.execute((session, conversation, rows::micros(*at), to_json(update)?))?;
    }
    Ok(())
}

pub(super) fn begun(
    connection: &Connection,
    id: SessionId,
    conversation: &str,
) -> Result<Option<Begun>> {
    let session = rows::session_by_id(connection, id)?.no;
    let found: Option<(i64, String)> = connection
        .prepare_cached(&format!(
            "select at, what from underway where session = ?1 and conversation = ?2 and {}",
            sums::insist("underway", "a turn that is under way")
        ))?
        .query_row((session, conversation), |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((at, what)) = found else { return Ok(None) };
    let mut updates: Vec<(Timestamp, Update)> = Vec::new();
    // Calls of tools, by their ids: each time all of their output is told, so only the last counts.
    let mut calls: HashMap<String, usize> = HashMap::new();
    let mut statement = connection.prepare_cached(&format!(
        "select at, what, {} from stream where session = ?1 and conversation = ?2 order by no",
        sums::intact("stream")
    ))?;
    let mut rows = statement.query((session, conversation))?;
    while let Some(row) = rows.next()? {
        let what = row.get_ref(1)?;
        let update = match what.as_str() {
            Ok(text) if row.get(2)? => from_json(text).unwrap_or_else(|_| unreadable(text)),
            _ => Update::Other { raw: "[a part of this turn is damaged]".into() },
        };
        let at = row.get(0).ok().and_then(|at| time(at).ok()).unwrap_or(Timestamp::UNIX_EPOCH);
        if let Update::Tool(tool) = update {
            match calls.get(&tool.id).and_then(|call| updates.get_mut(*call)) {
                Some((_, Update::Tool(known))) => known.take(tool),
                _ => {
                    calls.insert(tool.id.clone(), updates.len());
                    updates.push((at, Update::Tool(tool)));
                }
            }
        } else {
            updates.push((at, update));
        }
    }
    Ok(Some(Begun { at: time(at)?, what: from_json(&what)?, updates }))
}

/// An update that cannot be read must not keep the others from being read.
fn unreadable(what: &str) -> Update {
    let beginning = &what[..what.floor_char_boundary(MOST_UNREADABLE)];
    let text = format!("[{} bytes that cannot be read] {beginning}", what.len());
    Update::Other { raw: text.into() }
}

pub(super) fn underway(connection: &Connection) -> Result<Vec<(SessionId, String)>> {
    let mut statement = connection.prepare_cached(
        "select id, conversation from underway join session on session.no = underway.session",
    )?;
    let found: Vec<(String, String)> =
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<SqlResult<_>>()?;
    let known = |(id, conversation): (String, String)| match id.parse() {
        Ok(id) => Ok((id, conversation)),
        Err(_) => Err(Error::Damaged(format!("not a session id: {id:?}"))),
    };
    found.into_iter().map(known).collect()
}

/// Keeps the table of watermarks as the facts say.
pub(super) fn note(connection: &Connection, session: i64, fact: &Fact) -> Result<()> {
    match fact {
        Fact::Holds(watermark) => hold(connection, session, watermark),
        Fact::Forgot { conversation, agent } => {
            connection
                .prepare_cached(
                    "delete from holding where session = ?1 and conversation = ?2 and agent = ?3",
                )?
                .execute((session, conversation, agent))?;
            Ok(())
        }
        _ => Ok(()),
    }
}

pub(super) fn hold(connection: &Connection, session: i64, watermark: &Watermark) -> Result<()> {
    connection
        .prepare_cached(summed!(
            "insert into holding (session, conversation, agent, what) values (?1, ?2, ?3, ?4)
             on conflict (session, conversation, agent) do update set what = excluded.what, sum = null"
        ))?
        .execute((session, &watermark.conversation, &watermark.agent, to_json(watermark)?))?;
    Ok(())
}

pub(super) fn watermark(
    connection: &Connection,
    id: SessionId,
    conversation: &str,
    agent: &str,
) -> Result<Option<Watermark>> {
    let session = match rows::session_by_id(connection, id) {
        Err(Error::NotFound(_)) => return Ok(None),
        found => found?.no,
    };
    let mut all = watermarks(connection, session)?.into_iter();
    Ok(all.find(|watermark| watermark.conversation == conversation && watermark.agent == agent))
}

pub(super) fn watermarks(connection: &Connection, session: i64) -> Result<Vec<Watermark>> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        let is_intact = sums::intact("holding");
        format!(
            "select what, {is_intact} from holding where session = ?1 order by conversation, agent"
        )
    });
    let mut statement = connection.prepare_cached(&SQL)?;
    let mut found = statement.query([session])?;
    let mut all = Vec::new();
    while let Some(row) = found.next()? {
        let known = row.get_ref(0)?.as_str().ok().and_then(|what| from_json(what).ok());
        match known.filter(|_| row.get::<_, bool>(1).is_ok_and(|is_intact| is_intact)) {
            Some(watermark) => all.push(watermark),
            None => return damage::watermarks(connection, session),
        }
    }
    Ok(all)
}

/// Who spoke last in a conversation, or whose own session holds most of it.
pub(super) fn last_agent(
    connection: &Connection,
    row: &SessionRow,
    asked: Option<&str>,
) -> Result<Option<String>> {
    let (name, running) = match facts::last_spoken_in(connection, row, asked)? {
        Some(own) => (own.name, own.running),
        None => (asked.unwrap_or(conversation::DEFAULT).to_owned(), None),
    };
    if running.is_some() {
        return Ok(running);
    }
    let all = watermarks(connection, row.no)?;
    let own = all.into_iter().filter(|watermark| watermark.conversation == name);
    Ok(own.max_by_key(|watermark| watermark.upto).map(|watermark| watermark.agent))
}

pub(super) fn quiet_since(
    connection: &Connection,
    before: Timestamp,
    limit: u32,
) -> Result<Vec<SessionId>> {
    let mut statement = connection.prepare_cached(
        // What is recorded after the fact was said long ago, but its session was begun just now.
        "select id from session where status = 0 and deleted_at is null and last_active_at < ?1
            and (select at from fact where session = session.no and n = 1) < ?1
         order by last_active_at desc limit ?2",
    )?;
    let found: Vec<String> = statement
        .query_map((rows::micros(before), limit), |row| row.get(0))?
        .collect::<SqlResult<_>>()?;
    let known = |id: String| id.parse().map_err(|_| Error::Damaged(format!("not an id: {id:?}")));
    found.into_iter().map(known).collect()
}

pub(super) fn granted(
    connection: &Connection,
    user: &str,
    project: &str,
    agent: &str,
    what: &str,
) -> Result<Option<bool>> {
    Ok(connection
        // Whoever asked before is asked again where the answer is damaged.
        .prepare_cached(&format!(
            "select allowed from permission
             where user = ?1 and project = ?2 and agent = ?3 and what = ?4 and {}",
            sums::intact("permission")
        ))?
        .query_row((user, project, agent, what), |row| row.get(0))
        .optional()?)
}

pub(super) fn grants(connection: &Connection) -> Result<Vec<Grant>> {
    let mut statement = connection.prepare_cached(&format!(
        "select user, project, agent, what, allowed from permission where {} order by project, agent, what",
        sums::intact("permission")
    ))?;
    let found = statement.query_map([], |row| {
        Ok(Grant {
            user: row.get(0)?,
            project: row.get(1)?,
            agent: row.get(2)?,
            what: row.get(3)?,
            allowed: row.get(4)?,
        })
    })?;
    Ok(found.collect::<SqlResult<_>>()?)
}

pub(super) fn grant(connection: &Connection, grant: &Grant, at: Timestamp) -> Result<()> {
    let Grant { user, project, agent, what, allowed } = grant;
    connection
        .prepare_cached(
            "delete from permission where user = ?1 and project = ?2 and agent = ?3 and what = ?4",
        )?
        .execute((user, project, agent, what))?;
    connection
        .prepare_cached(summed!(
            "insert into permission (user, project, agent, what, allowed, at) values (?1, ?2, ?3, ?4, ?5, ?6)"
        ))?
        .execute((user, project, agent, what, allowed, rows::micros(at)))?;
    Ok(())
}

pub(super) fn ungrant(connection: &Connection, project: &str) -> Result<u32> {
    let gone = connection.execute("delete from permission where project = ?1", [project])?;
    Ok(u32::try_from(gone).unwrap_or(u32::MAX))
}

pub(super) fn ungrant_unlike(connection: &Connection, agent: &str, beginning: &str) -> Result<u32> {
    let gone = connection.execute(
        "delete from permission where agent = ?1 and instr(what, ?2) <> 1",
        (agent, beginning),
    )?;
    Ok(u32::try_from(gone).unwrap_or(u32::MAX))
}
