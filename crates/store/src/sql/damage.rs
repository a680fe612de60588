//! Rows that cannot be trusted: what is told in their place, and what can be had from the log instead.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rethread_domain::message::{Body, DAMAGED, DAMAGED_MARK, Extras};
use rethread_domain::opening::Watermark;
use rethread_domain::price::Price;
use rethread_domain::session::{Beginning, FactRecord};
use rethread_domain::{Conversation, Fact, Message, Role, Seq, Session, SessionId};
use serde_json::{Map, Value};

use super::columns::Columns as _;
use super::dialect;
use super::facts::{self, Fold};
use super::rebuild;
use super::rows::{self, MessageRow, SessionRow, key, seq_of};
use super::sql::{Connection, OptionalExtension as _, Params, Row, SqlResult, Statement, params};
use super::summed::summed;
use crate::error::{Error, Result};

/// Why a message is not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Damage {
    /// It does not match its checksum, or cannot be read for another reason.
    Unreadable,
    /// It is not there, though those before and after it are.
    Missing,
    /// It was damaged, and was set aside.
    SetAside,
}

/// What is shown in place of a message.
fn mark(seq: Seq, damage: Damage) -> String {
    match damage {
        Damage::Unreadable => format!(
            "[Message {seq} is damaged: it does not match its checksum, so it is not shown. `rethread doctor --repair` \
             brings it back from a backup or sets it aside.]"
        ),
        Damage::Missing => format!(
            "[Message {seq} is missing from the store. `rethread doctor --repair` brings it back from a backup.]"
        ),
        Damage::SetAside => {
            format!("[Message {seq} was damaged in the store and has been set aside.]")
        }
    }
}

fn marked(seq: Seq, damage: Damage, at: Timestamp) -> Message {
    let other = Map::from_iter([(DAMAGED_MARK.to_owned(), Value::Bool(true))]);
    Message {
        seq,
        given_id: None,
        role: Role::System,
        at,
        conversation: String::new(),
        body: Body::Whole(mark(seq, damage)),
        extras: Extras { other, ..Extras::default() },
        price: Price { tokens: Some(0), ..Price::default() },
        purged_at: None,
    }
}

/// A message of which nothing can be trusted but its place.
pub(super) fn unread_message(row: &Row<'_>, damage: Damage) -> SqlResult<MessageRow> {
    let seq = seq_of(row.get(0)?);
    let at = row.time(3).unwrap_or(Timestamp::UNIX_EPOCH);
    Ok(MessageRow {
        conversation: row.get(2).unwrap_or(0),
        prev: row.get(13).ok().filter(|prev| *prev < seq).unwrap_or(0),
        blob: None,
        message: marked(seq, damage, at),
        damage: Some(damage),
    })
}

/// A message that should be there and is not.
pub(super) fn missing_message(seq: Seq) -> MessageRow {
    let message = marked(seq, Damage::Missing, Timestamp::UNIX_EPOCH);
    MessageRow { conversation: 0, prev: 0, blob: None, message, damage: Some(Damage::Missing) }
}

/// The whole text of a message is damaged, though its ends are not.
pub(super) fn lose_text(row: &mut MessageRow) {
    row.message = Message {
        conversation: std::mem::take(&mut row.message.conversation),
        ..marked(row.message.seq, Damage::Unreadable, row.message.at)
    };
    row.damage = Some(Damage::Unreadable);
}

/// A session of which nothing can be trusted but its number.
pub(super) fn unread_session(row: &Row<'_>) -> SqlResult<SessionRow> {
    let text = |index: usize| row.get::<_, String>(index).unwrap_or_default();
    let id = text(1).parse().unwrap_or_else(|_| SessionId::generate());
    let beginning = Beginning { kind: String::new(), ..Beginning::new("", "") };
    Ok(SessionRow {
        no: row.get(0)?,
        session: Session::start(id, beginning, Timestamp::UNIX_EPOCH),
        base: 0,
        indexed: row.get(25).unwrap_or(0),
        epoch: row.get(34).unwrap_or(0),
        damaged: true,
    })
}

/// A session as its log says, where its row is damaged.
pub(super) fn healed(connection: &Connection, row: SessionRow) -> Result<SessionRow> {
    if !row.damaged {
        return Ok(row);
    }
    // Its id too may be what is damaged; the index has it once more.
    let id: Option<String> =
        connection.prepare_cached(dialect::SESSION_ID)?.query_row([row.no], |row| row.get(0)).ok();
    let id = id.and_then(|id| id.parse().ok()).unwrap_or(row.session.id);
    healed_as(connection, row, id)
}

/// The same of a session that the index of ids led to. SQLite takes the id from the index: where that leads to the row of another
/// session, which is whole by itself, nothing is healed.
pub(super) fn healed_by_id(
    connection: &Connection,
    row: SessionRow,
    id: SessionId,
) -> Result<SessionRow> {
    if row.damaged {
        let sql = rows::select_session("where no = ?1");
        let own = connection.prepare_cached(&sql)?.query_row([row.no], rows::session).optional()?;
        if let Some(own) = own.filter(|own| !own.damaged) {
            return Ok(own);
        }
    }
    healed_as(connection, row, id)
}

/// The same where its id is known.
pub(super) fn healed_as(
    connection: &Connection,
    row: SessionRow,
    id: SessionId,
) -> Result<SessionRow> {
    if !row.damaged {
        return Ok(row);
    }
    let facts = facts::facts(connection, row.no)?;
    let Some(FactRecord { fact: Fact::Started(beginning), .. }) = facts.first() else {
        return Err(Error::Damaged(format!(
            "session {id}: neither its row nor the beginning of its log can be read"
        )));
    };
    let base = beginning.forked_from.map_or(0, |origin| origin.seq);
    let last: Option<i64> = connection
        .prepare_cached("select max(id) from message where id between ?1 and ?2")?
        .query_row((key(row.no, 0), key(row.no, Seq::MAX)), |row| row.get(0))?;
    let mut healed = SessionRow { base, ..row };
    healed.session.id = id;
    healed.session.last_seq = last.map_or(base, seq_of).max(base);
    healed.indexed = healed.indexed.clamp(base, healed.session.last_seq);
    healed.session = rebuild::fold(connection, &healed)?.session;
    Ok(healed)
}

/// Writes what never changes of a session, where its row was damaged: all of it is right when
/// [`rows::write_session`] has written the rest.
pub(super) fn write_identity(connection: &Connection, row: &SessionRow) -> Result<()> {
    let session = &row.session;
    connection
        .prepare_cached(
            summed!("update session set id = ?2, user = ?3, kind = ?4, forked_from = ?5, forked_at = ?6, base_seq = ?7,
                parent = ?8, indexed_seq = ?10, title_indexed = 0, epoch = ?9, sum = null
             where no = ?1"),
        )?
        .execute(params![
            row.no,
            session.id.to_string(),
            session.user,
            session.kind,
            session.forked_from.map(|origin| origin.session.to_string()),
            session.forked_from.map(|origin| origin.seq),
            row.base,
            session.parent.map(|parent| parent.to_string()),
            row.epoch,
            row.indexed,
        ])?;
    Ok(())
}

/// All that are found, each healed.
pub(super) fn sessions(
    connection: &Connection,
    statement: &mut Statement<'_>,
    parameters: impl Params,
) -> Result<Vec<SessionRow>> {
    let found: Vec<SessionRow> =
        statement.query_map(parameters, rows::session)?.collect::<SqlResult<_>>()?;
    found.into_iter().map(|row| healed(connection, row)).collect()
}

/// The session with this number, if there is one.
pub(super) fn session_by_no(connection: &Connection, no: i64) -> Result<Option<SessionRow>> {
    let mut statement = connection.prepare_cached(&rows::select_session("where no = ?1"))?;
    Ok(sessions(connection, &mut statement, [no])?.pop())
}

/// What the log says of a session, for rows that cannot be trusted.
pub(super) fn log_of(connection: &Connection, no: i64) -> Result<Fold> {
    let gone = || Error::Damaged(format!("there is no session with the number {no}"));
    rebuild::fold(connection, &session_by_no(connection, no)?.ok_or_else(gone)?)
}

/// Conversations of one session; those whose rows are damaged are as the log says.
pub(super) fn conversations(
    connection: &Connection,
    session: i64,
    statement: &mut Statement<'_>,
    parameters: impl Params,
) -> Result<Vec<Conversation>> {
    let found: Vec<std::result::Result<Conversation, u32>> = statement
        .query_map(parameters, |row| Ok(rows::conversation(row)))?
        .collect::<SqlResult<_>>()?;
    if found.iter().all(std::result::Result::is_ok) {
        return Ok(found.into_iter().filter_map(std::result::Result::ok).collect());
    }
    let mut log = log_of(connection, session)?.conversations;
    Ok(found.into_iter().filter_map(|one| one.or_else(|n| log.remove(&n).ok_or(n)).ok()).collect())
}

/// Up to where agents hold the conversations of a session, as its log says.
pub(super) fn watermarks(connection: &Connection, session: i64) -> Result<Vec<Watermark>> {
    let mut held = BTreeMap::new();
    for record in facts::facts(connection, session)? {
        match record.fact {
            Fact::Holds(watermark) => {
                held.insert((watermark.conversation.clone(), watermark.agent.clone()), watermark);
            }
            Fact::Forgot { conversation, agent } => {
                held.remove(&(conversation, agent));
            }
            _ => (),
        }
    }
    Ok(held.into_values().collect())
}

/// What stands in the log in place of a fact or an event that cannot be read.
pub(super) fn unread_entry(what: &str) -> Map<String, Value> {
    let why = format!("this {what} is damaged: it does not match its checksum");
    Map::from_iter([("what".to_owned(), DAMAGED.into()), ("why".to_owned(), why.into())])
}
