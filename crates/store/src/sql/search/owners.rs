//! Whose the messages are that a search comes across.

use std::collections::HashMap;
use std::rc::Rc;

use rethread_domain::search::Filter;
use rethread_domain::{Seq, Session, SessionId};

use super::super::damage::session_by_no;
use super::super::sql::{Connection, SqlResult};
use super::chosen::fits;
use crate::error::Result;

/// What is told of a session with each find in it.
pub(super) struct Told {
    pub(super) id: SessionId,
    pub(super) title: Option<String>,
}

impl Told {
    pub(super) fn of(session: &Session) -> Self {
        Self { id: session.id, title: session.title.clone() }
    }
}

/// A session that has messages, with the part of another's that it shares.
struct Owner {
    session: Rc<Told>,
    lo: Seq,
    hi: Seq,
}

/// Who has the messages of sessions: themselves and their forks, as far as they fit a filter.
pub(super) struct Owners<'a> {
    connection: &'a Connection,
    filter: &'a Filter,
    known: HashMap<i64, Vec<Owner>>,
}

impl<'a> Owners<'a> {
    pub(super) fn new(connection: &'a Connection, filter: &'a Filter) -> Self {
        Self { connection, filter, known: HashMap::new() }
    }

    /// A session that has this message and fits the filter: the one it was said in, or else a fork.
    pub(super) fn of(&mut self, no: i64, seq: Seq) -> Result<Option<Rc<Told>>> {
        if !self.known.contains_key(&no) {
            let owners = self.read(no)?;
            self.known.insert(no, owners);
        }
        let owners = self.known.get(&no).map_or(&[][..], Vec::as_slice);
        let found = owners.iter().find(|owner| (owner.lo..=owner.hi).contains(&seq));
        Ok(found.map(|owner| owner.session.clone()))
    }

    pub(super) fn is_asked_for(&self, session: &Session) -> bool {
        self.filter.session.is_none_or(|id| id == session.id)
    }

    fn read(&self, no: i64) -> Result<Vec<Owner>> {
        let mut shares = vec![(no, 1, Seq::MAX)];
        let mut statement = self.connection.prepare_cached(
            "select session, lo, hi from segment where source = ?1 order by session",
        )?;
        let forks = statement.query_map([no], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        shares.extend(forks.collect::<SqlResult<Vec<_>>>()?);
        let mut owners = Vec::new();
        for (no, lo, hi) in shares {
            if let Some(row) = session_by_no(self.connection, no)?
                && self.is_asked_for(&row.session)
                && fits(self.connection, self.filter, no)?
            {
                owners.push(Owner { session: Rc::new(Told::of(&row.session)), lo, hi });
            }
        }
        Ok(owners)
    }
}
