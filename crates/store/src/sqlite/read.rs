//! Reading sessions: one, several, and what was said in them.

use rethread_domain::context::AgentUse;
use rethread_domain::id::SessionRef;
use rethread_domain::{Message, Session, SessionId, Status};
use rusqlite::Connection;

use super::rows::{self, SessionRow};
use super::scope::{Names, Scope, open_body};
use crate::error::{Error, Result};
use crate::types::{ListFilter, Span};

/// How many sessions an ambiguous id is explained with.
const CANDIDATES: usize = 8;

/// Sessions whose id, or the random part of it, begins so.
pub(super) fn resolve(connection: &Connection, reference: &SessionRef) -> Result<Vec<SessionId>> {
    let from = reference.as_str();
    // No hexadecimal digit comes after this, so it ends the range of what begins with `from`.
    let to = format!("{from}g");
    let mut found: Vec<SessionId> = Vec::new();
    for sql in [
        "select id from session where id >= ?1 and id < ?2 limit ?3",
        "select id from session where substr(id, 25) >= ?1 and substr(id, 25) < ?2 limit ?3",
    ] {
        let mut statement = connection.prepare_cached(sql)?;
        let ids = statement.query_map((from, &to, CANDIDATES), |row| row.get::<_, String>(0))?;
        for id in ids {
            let id = id?;
            found.push(id.parse().map_err(|_| Error::Damaged(format!("session id {id:?}")))?);
        }
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// The most recent sessions that fit. Each user's are in order in the index; theirs are merged.
pub(super) fn list(connection: &Connection, filter: &ListFilter) -> Result<Vec<Session>> {
    if filter.deleted {
        return deleted(connection, filter);
    }
    let users = match &filter.user {
        Some(user) => vec![user.clone()],
        None => users(connection)?,
    };
    let sql =
        rows::select_session("where user = ?1 and deleted_at is null order by last_active_at desc");
    let mut all = Vec::new();
    for user in &users {
        let mut statement = connection.prepare_cached(&sql)?;
        let mut found = statement.query([user])?;
        let mut taken = 0;
        while taken < filter.limit {
            let Some(row) = found.next()? else { break };
            let session = rows::session(row)?.session;
            if fits(filter, &session) {
                all.push(session);
                taken += 1;
            }
        }
    }
    if users.len() > 1 {
        all.sort_by_key(|session| std::cmp::Reverse(session.last_active_at));
        all.truncate(filter.limit as usize);
    }
    Ok(all)
}

fn deleted(connection: &Connection, filter: &ListFilter) -> Result<Vec<Session>> {
    let sql = rows::select_session("where deleted_at is not null order by deleted_at desc");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut all = Vec::new();
    let mut found = statement.query([])?;
    while let Some(row) = found.next()? {
        let session = rows::session(row)?.session;
        if all.len() == filter.limit as usize {
            break;
        }
        if filter.user.as_ref().is_none_or(|user| *user == session.user) && fits(filter, &session) {
            all.push(session);
        }
    }
    Ok(all)
}

fn fits(filter: &ListFilter, session: &Session) -> bool {
    let is = |wanted: &Option<String>, found: &str| {
        wanted.as_deref().is_none_or(|wanted| wanted == found)
    };
    let by_status = match filter.status {
        Some(status) => session.status == status,
        None => filter.archived || filter.deleted || session.status != Status::Archived,
    };
    by_status
        && is(&filter.project, &session.project)
        && is(&filter.kind, &session.kind)
        && is(&filter.agent, session.agent.as_deref().unwrap_or_default())
}

/// The distinct users, by skipping from one to the next.
fn users(connection: &Connection) -> Result<Vec<String>> {
    let mut statement = connection.prepare_cached(
        "select user from session where deleted_at is null and user > ?1 order by user limit 1",
    )?;
    let mut users: Vec<String> = Vec::new();
    loop {
        let last = users.last().map_or("", String::as_str);
        match statement.query_row([last], |row| row.get::<_, String>(0)) {
            Ok(user) => users.push(user),
            Err(rusqlite::Error::QueryReturnedNoRows) => return Ok(users),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Messages with whole texts.
pub(super) fn messages(
    connection: &Connection,
    row: &SessionRow,
    span: Span,
) -> Result<Vec<Message>> {
    let scope = Scope::of(connection, row)?;
    let mut names = Names::new(connection, row.no, Vec::new());
    let mut messages = Vec::new();
    scope.visit(connection, span, |mut message| {
        open_body(connection, &mut message)?;
        messages.push(names.name(message)?.message);
        Ok(true)
    })?;
    Ok(messages)
}

/// The most used agents first.
pub(super) fn agent_runs(
    connection: &Connection,
    session: i64,
    limit: u32,
) -> Result<Vec<AgentUse>> {
    let mut statement = connection.prepare_cached(
        "select agent, runs from agent_use where session = ?1 order by runs desc, agent limit ?2",
    )?;
    let found = statement.query_map((session, limit), |row| {
        Ok(AgentUse { name: row.get(0)?, usage_count: row.get(1)? })
    })?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}
