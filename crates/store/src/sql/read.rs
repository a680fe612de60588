//! Reading sessions: one, several, and what was said in them.

use std::sync::LazyLock;

use jiff::Timestamp;
use rethread_domain::context::AgentUse;
use rethread_domain::id::SessionRef;
use rethread_domain::{Message, Session, SessionId};

use super::rows::{self, SessionRow};
use super::scope::{Names, Scope, open_body};
use super::sql::{Connection, OptionalExtension, Value, params_from_iter};
use super::{damage, sums};
use crate::error::{Error, Result};
use crate::types::{ListFilter, Span};

/// Texts read in one go, so that a page of long ones does not fill the memory.
const MOST_BYTES: u64 = 16 << 20;
/// Up to how many sessions that an id could mean are counted.
const CANDIDATES: usize = 1_000;

/// Sessions whose id, or the random part of it, begins so.
pub(super) fn resolve(
    connection: &Connection,
    reference: &SessionRef,
    user: Option<&str>,
) -> Result<Vec<SessionId>> {
    let from = reference.as_str();
    // No hexadecimal digit comes after this, so it ends the range of what begins with `from`.
    let to = format!("{from}g");
    let mut found: Vec<SessionId> = Vec::new();
    for sql in [
        "select id from session where id >= ?1 and id < ?2 and (?4 is null or user = ?4) limit ?3",
        "select id from session where substr(id, 25) >= ?1 and substr(id, 25) < ?2
         and (?4 is null or user = ?4) limit ?3",
    ] {
        let mut statement = connection.prepare_cached(sql)?;
        let ids =
            statement.query_map((from, &to, CANDIDATES, user), |row| row.get::<_, String>(0))?;
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
    let mut all = Vec::new();
    for user in &users {
        let mut chosen = Chosen::of(Some(user), filter);
        chosen.add("deleted_at is null", None);
        let sql = chosen.ordered("last_active_at", filter);
        let mut statement = connection.prepare_cached(&rows::select_session(&sql))?;
        let values = params_from_iter(&chosen.values);
        let found = damage::sessions(connection, &mut statement, values)?;
        all.extend(found.into_iter().map(|row| row.session));
    }
    if users.len() > 1 {
        all.sort_by_key(|session| std::cmp::Reverse((session.last_active_at, session.id)));
        all.truncate(filter.limit as usize);
    }
    Ok(all)
}

fn deleted(connection: &Connection, filter: &ListFilter) -> Result<Vec<Session>> {
    let mut chosen = Chosen::of(filter.user.as_ref(), filter);
    chosen.add("deleted_at is not null", None);
    let sql = chosen.ordered("deleted_at", filter);
    let mut statement = connection.prepare_cached(&rows::select_session(&sql))?;
    let values = params_from_iter(&chosen.values);
    let found = damage::sessions(connection, &mut statement, values)?;
    Ok(found.into_iter().map(|row| row.session).collect())
}

/// A condition on sessions, made of what a filter asks for and nothing else, so that an index can serve it.
#[derive(Default)]
pub(super) struct Chosen {
    parts: Vec<String>,
    pub(super) values: Vec<Value>,
}

impl Chosen {
    pub(super) fn of(user: Option<&String>, filter: &ListFilter) -> Self {
        let mut chosen = Self::default();
        chosen.names(user, filter.project.as_ref(), filter.kind.as_ref(), filter.agent.as_ref());
        if let Some(parent) = filter.parent {
            chosen.add("parent = ?", Some(parent.to_string().into()));
        }
        match filter.status {
            Some(status) => chosen.add("status = ?", Some(rows::status_number(status).into())),
            None if filter.archived || filter.deleted => (),
            None => chosen.add("status <> 3", None),
        }
        chosen
    }

    /// An agent counts wherever it spoke.
    pub(super) fn names(
        &mut self,
        user: Option<&String>,
        project: Option<&String>,
        kind: Option<&String>,
        agent: Option<&String>,
    ) {
        for (part, name) in [("user = ?", user), ("project = ?", project), ("kind = ?", kind)] {
            if let Some(name) = name {
                self.add(part, Some(name.clone().into()));
            }
        }
        if let Some(agent) = agent {
            self.values.push(agent.clone().into());
            let spoke =
                "exists (select 1 from agent_use where session = no and agent_use.agent = ?)";
            self.add(&format!("(session.agent = ? or {spoke})"), Some(agent.clone().into()));
        }
    }

    /// The condition, and an order by a time that goes on from the place that the filter names.
    pub(super) fn ordered(&mut self, time: &str, filter: &ListFilter) -> String {
        if let Some((at, id)) = filter.before {
            self.values.push(rows::micros(at).into());
            self.add(&format!("({time}, id) < (?, ?)"), Some(id.to_string().into()));
        }
        format!("{} order by {time} desc, id desc limit {}", self.condition(), filter.limit)
    }

    pub(super) fn add(&mut self, part: &str, value: Option<Value>) {
        self.parts.push(part.to_owned());
        self.values.extend(value);
    }

    pub(super) fn condition(&self) -> String {
        if self.parts.is_empty() {
            String::new()
        } else {
            format!("where {}", self.parts.join(" and "))
        }
    }
}

/// The distinct users, by skipping from one to the next.
fn users(connection: &Connection) -> Result<Vec<String>> {
    let mut statement = connection.prepare_cached(
        "select user from session where deleted_at is null and user > ?1 order by user limit 1",
    )?;
    let mut users: Vec<String> = Vec::new();
    loop {
        let last = users.last().map_or("", String::as_str);
        match statement.query_row([last], |row| row.get::<_, String>(0)).optional()? {
            Some(user) => users.push(user),
            None => return Ok(users),
        }
    }
}

/// When anybody was last active.
pub(super) fn last_active(connection: &Connection) -> Result<Option<Timestamp>> {
    let mut statement = connection.prepare_cached(
        "select max(last_active_at) from session where user = ?1 and deleted_at is null",
    )?;
    let mut last: Option<i64> = None;
    for user in users(connection)? {
        last = last.max(statement.query_row([user], |row| row.get(0))?);
    }
    Ok(last.and_then(|micros| Timestamp::from_microsecond(micros).ok()))
}

/// How much is read of long texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Texts {
    Whole,
    Ends,
}

/// Messages, fewer than asked for where their texts are long.
pub(super) fn messages(
    connection: &Connection,
    row: &SessionRow,
    span: Span,
    texts: Texts,
) -> Result<Vec<Message>> {
    let scope = Scope::of(connection, row)?;
    let mut names = Names::new(connection, row.no, Vec::new());
    let mut messages = Vec::new();
    let mut bytes = 0;
    scope.visit(connection, span, |mut message| {
        if texts == Texts::Whole {
            open_body(connection, &mut message)?;
            bytes += message.message.body.bytes();
        }
        messages.push(names.name(message)?.message);
        Ok(bytes < MOST_BYTES)
    })?;
    Ok(messages)
}

/// The most used agents first.
pub(super) fn agent_runs(
    connection: &Connection,
    session: i64,
    limit: u32,
) -> Result<Vec<AgentUse>> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        let is_intact = sums::intact("agent_use");
        format!(
            "select agent, runs, {is_intact} from agent_use where session = ?1 order by runs desc, agent limit ?2"
        )
    });
    let mut statement = connection.prepare_cached(&SQL)?;
    let mut found = statement.query((session, limit))?;
    let mut runs = Vec::new();
    while let Some(row) = found.next()? {
        if !row.get::<_, bool>(2)? {
            return runs_of_log(connection, session, limit);
        }
        runs.push(AgentUse { name: row.get(0)?, usage_count: row.get(1)? });
    }
    Ok(runs)
}

fn runs_of_log(connection: &Connection, session: i64, limit: u32) -> Result<Vec<AgentUse>> {
    let runs = damage::log_of(connection, session)?.runs.into_iter();
    let mut runs: Vec<AgentUse> =
        runs.map(|(name, usage_count)| AgentUse { name, usage_count }).collect();
    runs.sort_by(|a, b| b.usage_count.cmp(&a.usage_count).then_with(|| a.name.cmp(&b.name)));
    runs.truncate(limit as usize);
    Ok(runs)
}
