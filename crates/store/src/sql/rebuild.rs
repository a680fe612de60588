//! The projections of the log: everything that is derived, made anew from it or compared with it.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use rethread_domain::feed::Kind;
use rethread_domain::opening::Watermark;
use rethread_domain::session::FactRecord;
use rethread_domain::{Conversation, Fact, Seq, Session, retell};

use super::facts::{self, Fold};
use super::index;
use super::rows::{self, SessionRow};
use super::scope::Scope;
use super::sql::{Connection, SqlResult};
use super::summed::summed;
use super::{append, damage, feed, openings, read, talks, usage, workflows};
use crate::crash;
use crate::error::{Error, Result};
use crate::types::{Dump, Order, Span};

const ALL: Span = Span { from: 1, to: Seq::MAX, order: Order::OldestFirst, limit: u32::MAX };

/// Goes through the log of a session: facts and messages in the order in which they came.
pub(super) fn fold(connection: &Connection, row: &SessionRow) -> Result<Fold> {
    let facts = facts::facts(connection, row.no)?;
    let mut facts = facts.iter();
    let damaged = |why: &str| Error::Damaged(format!("session {}: {why}", row.session.id));
    let Some(FactRecord { at: started, fact: Fact::Started(beginning), .. }) = facts.next() else {
        return Err(damaged("its log does not begin with its start"));
    };
    let names: Vec<(u32, &str)> = facts
        .clone()
        .filter_map(|record| match &record.fact {
            Fact::Opened { n, name } => Some((*n, name.as_str())),
            _ => None,
        })
        .collect();
    let forked_at = beginning.forked_from.map_or(0, |origin| origin.seq);
    let mut fold = Fold::new(Session::start(row.session.id, beginning.clone(), *started));
    let mut facts = facts.peekable();
    Scope::of(connection, row)?.visit(connection, ALL, |message| {
        let seq = message.message.seq;
        if seq != fold.session.last_seq + 1 {
            return Err(damaged(&format!("message {} is missing", fold.session.last_seq + 1)));
        }
        while let Some(record) = facts.next_if(|record| record.after < seq) {
            fold.apply(&record.fact, record.at);
        }
        let name =
            names.iter().find(|(n, _)| *n == message.conversation).map_or("", |(_, name)| name);
        fold.hear(&message, name);
        if seq == forked_at {
            fold.begin_at(*started);
        }
        Ok(true)
    })?;
    facts.for_each(|record| fold.apply(&record.fact, record.at));
    retell::price_session(&mut fold.session);
    fold.conversations.values_mut().for_each(retell::price_conversation);
    Ok(fold)
}

/// What differs between a session's rows and its log, in words.
pub(super) fn drift(connection: &Connection, row: &SessionRow) -> Result<Option<String>> {
    let fold = match fold(connection, row) {
        Ok(fold) => fold,
        Err(Error::Damaged(why)) => return Ok(Some(why)),
        Err(error) => return Err(error),
    };
    if row.damaged || fold.is_damaged {
        // That is told of each record by itself.
        return Ok(None);
    }
    let id = row.session.id;
    if fold.session != row.session {
        return Ok(Some(format!("session {id}: its row differs from its log")));
    }
    let conversations: Vec<Conversation> = fold.conversations.into_values().collect();
    if conversations != facts::conversations(connection, row.no)? {
        return Ok(Some(format!("session {id}: its conversations differ from its log")));
    }
    let watermarks: Vec<Watermark> = fold.watermarks.into_values().collect();
    if watermarks != talks::watermarks(connection, row.no)? {
        return Ok(Some(format!("session {id}: what agents hold of it differs from its log")));
    }
    if usage::of_log(connection, row.no, row.session.agent.as_deref())?
        != usage::kept(connection, row.no)?
    {
        return Ok(Some(format!("session {id}: its use by day differs from its log")));
    }
    let runs = read::agent_runs(connection, row.no, u32::MAX)?;
    let same = runs.len() == fold.runs.len()
        && runs.iter().all(|used| fold.runs.get(&used.name) == Some(&used.usage_count));
    Ok((!same).then(|| format!("session {id}: its runs differ from its log")))
}

/// Writes the rows of a session anew from its log.
pub(super) fn session(connection: &Connection, row: &SessionRow) -> Result<Session> {
    let fold = fold(connection, row)?;
    connection.execute("delete from conversation where session = ?1", [row.no])?;
    connection.execute("delete from agent_use where session = ?1", [row.no])?;
    for conversation in fold.conversations.values() {
        rows::write_conversation(connection, row.no, conversation)?;
    }
    connection.execute("delete from holding where session = ?1", [row.no])?;
    for watermark in fold.watermarks.values() {
        talks::hold(connection, row.no, watermark)?;
    }
    for (agent, runs) in &fold.runs {
        append::count_run(connection, row.no, agent, *runs)?;
    }
    usage::rewrite(connection, row.no, fold.session.agent.as_deref())?;
    if row.damaged {
        damage::write_identity(connection, row)?;
    }
    rows::write_session(connection, row.no, &fold.session)?;
    facts::forget_title(connection, row.no)?;
    Ok(fold.session)
}

/// Every session, the deleted ones too.
pub(super) fn each(
    connection: &Connection,
    mut visit: impl FnMut(SessionRow) -> Result<()>,
) -> Result<()> {
    let numbers: Vec<i64> = connection
        .prepare("select no from session order by no")?
        .query_map([], |row| row.get(0))?
        .collect::<SqlResult<_>>()?;
    for no in numbers {
        if let Some(row) = damage::session_by_no(connection, no)? {
            visit(row)?;
        }
    }
    Ok(())
}

/// Rows and index of the whole store.
pub(super) fn everything(connection: &Connection) -> Result<()> {
    each(connection, |row| {
        // Where a part of the log cannot be read, the rows know more than it does.
        if row.damaged || !fold(connection, &row)?.is_damaged {
            session(connection, &row)?;
        }
        Ok(())
    })?;
    workflows::rebuild(connection)?;
    openings::rebuild(connection)?;
    index::reset(connection)?;
    while index::catch_up(connection, index::STEP)? > 0 {}
    Ok(())
}

/// Takes in the log of a session from elsewhere.
pub(super) fn take_in(connection: &Connection, dump: Dump) -> Result<Session> {
    let bad = |why: String| Error::BadLog(dump.id, why);
    let Some(FactRecord { at, fact: Fact::Started(beginning), .. }) = dump.facts.first() else {
        return Err(bad("its log does not begin with its start".into()));
    };
    let session = Session::start(dump.id, beginning.clone(), *at);
    let no = rows::insert_session(connection, &session, 0)?;
    let mut names: Vec<(u32, &str)> = Vec::new();
    for (n, record) in (1u32..).zip(&dump.facts) {
        let what = serde_json::to_string(&record.fact)
            .map_err(|error| Error::Failed(error.to_string()))?;
        connection
            .prepare_cached(summed!(
                "insert into fact (session, n, after, at, what) values (?1, ?2, ?3, ?4, ?5)"
            ))?
            .execute((no, n, record.after, rows::micros(record.at), what))?;
        openings::count(connection, &session.user, &record.fact)?;
        if let Fact::Opened { n, name } = &record.fact {
            names.push((*n, name));
        }
    }
    crash::point("take_in.half");
    let mut row = SessionRow { no, session, base: 0, indexed: 0, epoch: 0, damaged: false };
    let mut last: HashMap<u32, Seq> = HashMap::new();
    let mut ids = HashSet::new();
    for (message, purged_at) in dump.messages {
        let known = names.iter().find(|(_, name)| *name == message.conversation);
        let Some(n) = known.map(|(n, _)| *n) else {
            return Err(bad(format!("conversation {:?} was never opened", message.conversation)));
        };
        row.session.last_seq += 1;
        let seq = row.session.last_seq;
        let prev = last.insert(n, seq).unwrap_or(0);
        let given = message.id.clone().filter(|id| row.session.id.seq_of(id) != Some(seq));
        if let Some(id) = given.clone().filter(|id| !ids.insert(id.clone())) {
            return Err(bad(format!("two messages have the id {id:?}")));
        }
        append::insert(connection, &row, n, prev, message, given)?;
        if let Some(at) = purged_at {
            mark_purged(connection, rows::key(no, seq), at)?;
        }
    }
    connection.execute(
        summed!("update session set last_seq = ?2 where no = ?1"),
        (no, row.session.last_seq),
    )?;
    let session = self::session(connection, &row)?;
    // The facts that it brings are how it begins here.
    let now = rows::now(connection)?;
    feed::tell(connection, &session, Kind::SessionStarted, (1, 1), now)?;
    feed::tell_messages(connection, &session, 0, now)?;
    Ok(session)
}

pub(super) fn mark_purged(connection: &Connection, key: i64, at: Timestamp) -> Result<()> {
    connection.execute(
        summed!("update message set purged_at = ?2 where id = ?1"),
        (key, rows::micros(at)),
    )?;
    Ok(())
}
