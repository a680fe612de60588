//! The messages of a session, wherever they are: its own, and those that a fork shares.

use std::sync::LazyLock;

use rethread_domain::{Conversation, Seq};
use rusqlite::{Connection, OptionalExtension};

use super::blob;
use super::rows::{self, MessageRow, SessionRow, key};
use crate::error::Result;
use crate::types::{Order, Span};

static NEWEST_FIRST: LazyLock<String> =
    LazyLock::new(|| rows::select_message("where id between ?1 and ?2 order by id desc"));
static OLDEST_FIRST: LazyLock<String> =
    LazyLock::new(|| rows::select_message("where id between ?1 and ?2 order by id"));
static ONE: LazyLock<String> = LazyLock::new(|| rows::select_message("where id = ?1"));

/// A stretch of numbers whose messages are those of one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) lo: Seq,
    pub(super) hi: Seq,
    pub(super) source: i64,
}

/// Where the messages of a session are, oldest first. Mostly one stretch.
#[derive(Debug, Clone)]
pub(super) struct Scope {
    pub(super) segments: Vec<Segment>,
}

impl Scope {
    pub(super) fn of(connection: &Connection, row: &SessionRow) -> Result<Self> {
        let mut segments = if row.base == 0 { Vec::new() } else { shared(connection, row.no)? };
        segments.push(Segment { lo: row.base + 1, hi: row.session.last_seq, source: row.no });
        Ok(Self { segments })
    }

    /// The same up to a number.
    pub(super) fn clipped(&self, hi: Seq) -> Vec<Segment> {
        let cut = |segment: &Segment| Segment { hi: segment.hi.min(hi), ..*segment };
        self.segments.iter().map(cut).filter(|segment| segment.lo <= segment.hi).collect()
    }

    /// The keys from `from` to `to`, in pieces, oldest first.
    pub(super) fn keys(
        &self,
        from: Seq,
        to: Seq,
    ) -> impl DoubleEndedIterator<Item = (i64, i64)> + '_ {
        self.segments.iter().filter_map(move |segment| {
            let (lo, hi) = (segment.lo.max(from), segment.hi.min(to));
            (lo <= hi).then(|| (key(segment.source, lo), key(segment.source, hi)))
        })
    }

    pub(super) fn key(&self, seq: Seq) -> Option<i64> {
        let holds = |segment: &&Segment| (segment.lo..=segment.hi).contains(&seq);
        self.segments.iter().find(holds).map(|segment| key(segment.source, seq))
    }

    /// Visits messages in order until `limit` or until told to stop. Long texts have only their ends.
    pub(super) fn visit(
        &self,
        connection: &Connection,
        span: Span,
        mut visit: impl FnMut(MessageRow) -> Result<bool>,
    ) -> Result<()> {
        let newest_first = span.order == Order::NewestFirst;
        let sql: &str = if newest_first { &NEWEST_FIRST } else { &OLDEST_FIRST };
        let mut keys: Vec<_> = self.keys(span.from, span.to).collect();
        if newest_first {
            keys.reverse();
        }
        let mut left = span.limit;
        let mut statement = connection.prepare_cached(sql)?;
        for (lo, hi) in keys {
            let mut found = statement.query((lo, hi))?;
            while left > 0 {
                let Some(row) = found.next()? else { break };
                left -= 1;
                if !visit(rows::message(row)?)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    pub(super) fn message(&self, connection: &Connection, seq: Seq) -> Result<Option<MessageRow>> {
        let Some(key) = self.key(seq) else { return Ok(None) };
        let mut statement = connection.prepare_cached(&ONE)?;
        Ok(statement.query_row([key], rows::message).optional()?)
    }

    /// The number of the message that its writer knows as `given`.
    pub(super) fn given(&self, connection: &Connection, given: &str) -> Result<Option<Seq>> {
        let mut statement = connection
            .prepare_cached("select id from message where id >> 32 = ?1 and given_id = ?2")?;
        for segment in self.segments.iter().rev() {
            let found: Option<i64> =
                statement.query_row((segment.source, given), |row| row.get(0)).optional()?;
            if let Some(seq) =
                found.map(rows::seq_of).filter(|seq| (segment.lo..=segment.hi).contains(seq))
            {
                return Ok(Some(seq));
            }
        }
        Ok(None)
    }
}

fn shared(connection: &Connection, session: i64) -> Result<Vec<Segment>> {
    let mut statement = connection
        .prepare_cached("select lo, hi, source from segment where session = ?1 order by lo")?;
    let found = statement.query_map([session], |row| {
        Ok(Segment { lo: row.get(0)?, hi: row.get(1)?, source: row.get(2)? })
    })?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

/// Conversations of one session, read as they are needed.
pub(super) struct Names<'a> {
    connection: &'a Connection,
    session: i64,
    pub(super) known: Vec<Conversation>,
}

impl<'a> Names<'a> {
    pub(super) fn new(connection: &'a Connection, session: i64, known: Vec<Conversation>) -> Self {
        Self { connection, session, known }
    }

    /// Fills in the name of a message's conversation.
    pub(super) fn name(&mut self, mut row: MessageRow) -> Result<MessageRow> {
        if !self.known.iter().any(|known| known.n == row.conversation) {
            let sql = rows::select_conversation("where session = ?1 and n = ?2");
            let mut statement = self.connection.prepare_cached(&sql)?;
            let found = statement
                .query_row((self.session, row.conversation), rows::conversation)
                .optional()?;
            self.known.extend(found);
        }
        if let Some(known) = self.known.iter().find(|known| known.n == row.conversation) {
            row.message.conversation.clone_from(&known.name);
        }
        Ok(row)
    }
}

/// Reads the whole of a long text.
pub(super) fn open_body(connection: &Connection, row: &mut MessageRow) -> Result<()> {
    if let Some(blob) = row.blob {
        row.message.body = rethread_domain::message::Body::Whole(blob::read(connection, blob)?);
    }
    Ok(())
}
