//! Which files of other agents were read, and how far.

use std::collections::HashSet;

use async_trait::async_trait;
use jiff::Timestamp;
use rethread_domain::conversation::DEFAULT;
use rethread_domain::opening::{How, Watermark};
use rethread_domain::{Fact, SessionId};

use super::ThisStore;
use super::rows::micros;
use super::sql::{Connection, OptionalExtension, Row, SqlResult};
use super::summed::summed;
use super::sums;
use crate::Imports;
use crate::error::Result;
use crate::imports::Import;

#[async_trait]
impl Imports for ThisStore {
    async fn imports(&self) -> Result<Vec<Import>> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(&format!("{ALL} where {}", intact()))?;
            let found = statement.query_map([], import)?.collect::<SqlResult<_>>()?;
            Ok(found)
        })
    }

    async fn import_of(&self, source: &str, native: &str) -> Result<Option<Import>> {
        self.read(|connection| {
            let sql = format!("{ALL} where source = ?1 and native = ?2 and {}", intact());
            let mut statement = connection.prepare_cached(&sql)?;
            Ok(statement.query_row([source, native], import).optional()?)
        })
    }

    async fn set_import(&self, import: Import) -> Result<()> {
        self.write(move |connection| set(connection, &import)).await
    }

    async fn imported_from(&self, id: SessionId) -> Result<Option<String>> {
        self.read(|connection| {
            let sql =
                format!("select what from fact where {OF_SESSION} and {IMPORTED} and {}", whole());
            let mut statement = connection.prepare_cached(&sql)?;
            let found = statement.query_map([id.to_string()], |row| row.get::<_, String>(0))?;
            for found in found {
                if let Ok(Fact::Imported { agent, .. }) = serde_json::from_str(&found?) {
                    return Ok(Some(agent));
                }
            }
            Ok(None)
        })
    }

    async fn imported_sessions(&self) -> Result<HashSet<SessionId>> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(&format!(
                "select distinct id from fact join session on session.no = fact.session where {IMPORTED}"
            ))?;
            let found = statement.query_map([], |row| row.get::<_, String>(0))?;
            let ids = found.collect::<SqlResult<Vec<String>>>()?;
            Ok(ids.iter().filter_map(|id| id.parse().ok()).collect())
        })
    }

    async fn natives(&self) -> Result<Vec<(String, String, SessionId)>> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(
                "select session.id, what from holding join session on session.no = holding.session",
            )?;
            let found = statement
                .query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))?;
            let mut natives = Vec::new();
            for found in found {
                let (id, what) = found?;
                natives.extend(held(&id, &what));
            }
            Ok(natives)
        })
    }

    async fn opened_natives(&self) -> Result<Vec<(String, String, SessionId)>> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(&format!(
                "select session.id, what from fact join session on session.no = fact.session
                 where {ATTACHED} and {}",
                whole()
            ))?;
            let found = statement
                .query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))?;
            let mut natives = Vec::new();
            for found in found {
                let (id, what) = found?;
                natives.extend(opened(&id, &what));
            }
            Ok(natives)
        })
    }

    async fn began_in(&self, id: SessionId, agent: &str, native: &str) -> Result<bool> {
        self.read(|connection| {
            for kind in [IMPORTED, ATTACHED] {
                let sql =
                    format!("select what from fact where {OF_SESSION} and {kind} and {}", whole());
                let mut statement = connection.prepare_cached(&sql)?;
                let found = statement.query_map([id.to_string()], |row| row.get::<_, String>(0))?;
                for found in found {
                    let first = serde_json::from_str(&found?).ok().and_then(first_native);
                    if first.is_some_and(|(whose, which)| whose == agent && which == native) {
                        return Ok(true);
                    }
                }
            }
            Ok(false)
        })
    }

    async fn holder_of(&self, agent: &str, native: &str) -> Result<Option<SessionId>> {
        self.read(|connection| {
            // The text is only parsed where it has the id in it.
            let mut statement = connection.prepare_cached(
                "select session.id, what from holding join session on session.no = holding.session
                 where holding.agent = ?1 and instr(what, ?2) > 0 order by session.no desc",
            )?;
            let found = statement.query_map([agent, native], |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
            })?;
            for found in found {
                let (id, what) = found?;
                let held = held(&id, &what).filter(|(_, own, _)| own == native);
                if let Some((.., id)) = held {
                    return Ok(Some(id));
                }
            }
            let mut statement = connection.prepare_cached(&format!(
                "select session.id, what from fact join session on session.no = fact.session
                 where {ATTACHED} and instr(what, ?1) > 0 and {} order by session.no desc",
                whole()
            ))?;
            let found = statement.query_map([native], |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
            })?;
            for found in found {
                let (id, what) = found?;
                let opened = opened(&id, &what);
                let opened = opened.filter(|(whose, own, _)| whose == agent && own == native);
                if let Some((.., id)) = opened {
                    return Ok(Some(id));
                }
            }
            Ok(None)
        })
    }

    async fn projects(&self, most: u32) -> Result<Vec<String>> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(
                "select project from session where deleted_at is null
                 group by project order by max(last_active_at) desc limit ?1",
            )?;
            let found = statement.query_map([most], |row| row.get(0))?;
            Ok(found.collect::<SqlResult<_>>()?)
        })
    }
}

pub(super) const ALL: &str =
    "select source, native, agent, session, stamp, cursor, seq, gone_at from imported";

/// Facts of these kinds have an index of their own.
pub(super) const IMPORTED: &str = r#"substr(what, 1, 18) = '{"what":"imported"'"#;
pub(super) const ATTACHED: &str = r#"substr(what, 1, 18) = '{"what":"attached"'"#;
pub(super) const OF_SESSION: &str = "session = (select no from session where id = ?1)";

/// Facts that are as they were written; `doctor` names the others.
fn whole() -> String {
    sums::intact("fact")
}

/// Only intact rows are used. A damaged one is as good as none: the file is read again, and ids show which of its messages are known.
fn intact() -> String {
    sums::intact("imported")
}

/// An agent, its own session and ours. A row that is damaged is named by `doctor`.
fn held(id: &str, what: &str) -> Option<(String, String, SessionId)> {
    let held = serde_json::from_str::<Watermark>(what).ok().filter(Watermark::is_held)?;
    Some((held.agent, held.native, id.parse().ok()?))
}

/// An agent, the session that it made for a conversation of ours, and ours.
fn opened(id: &str, what: &str) -> Option<(String, String, SessionId)> {
    match serde_json::from_str(what) {
        Ok(Fact::Attached(opening)) if opening.is_own() => {
            Some((opening.agent, opening.native?, id.parse().ok()?))
        }
        _ => None,
    }
}

/// The agent, and its own session that ours began in, if a fact says so.
fn first_native(fact: Fact) -> Option<(String, String)> {
    match fact {
        Fact::Imported { agent, native, .. } => Some((agent, native)),
        Fact::Attached(opening) if opening.how == How::Fresh && opening.conversation == DEFAULT => {
            Some((opening.agent, opening.native?))
        }
        _ => None,
    }
}

fn import(row: &Row<'_>) -> SqlResult<Import> {
    let session: Option<String> = row.get(3)?;
    let gone_at: Option<i64> = row.get(7)?;
    Ok(Import {
        source: row.get(0)?,
        native: row.get(1)?,
        agent: row.get(2)?,
        session: session.and_then(|id| id.parse().ok()),
        stamp: row.get(4)?,
        cursor: row.get(5)?,
        seq: row.get(6)?,
        gone_at: gone_at.and_then(|at| Timestamp::from_microsecond(at).ok()),
    })
}

fn set(connection: &Connection, import: &Import) -> Result<()> {
    connection
        .prepare_cached("delete from imported where source = ?1 and native = ?2")?
        .execute((&import.source, &import.native))?;
    connection
        .prepare_cached(summed!(
            "insert into imported (source, native, agent, session, stamp, cursor, seq, gone_at)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"
        ))?
        .execute((
            &import.source,
            &import.native,
            &import.agent,
            import.session.map(|id| id.to_string()),
            &import.stamp,
            &import.cursor,
            import.seq,
            import.gone_at.map(micros),
        ))?;
    Ok(())
}
