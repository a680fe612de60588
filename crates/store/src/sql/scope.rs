//! The messages of a session, wherever they are: its own, and those that a fork shares.

use std::sync::LazyLock;

use rethread_domain::message::Body;
use rethread_domain::{Conversation, Seq};

use super::rows::{self, MessageRow, SessionRow, key};
use super::sql::{CachedStatement, Connection, OptionalExtension};
use super::{blob, damage, sums};
use crate::error::{Error, Result};
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
        let mut segments = if row.base == 0 { Vec::new() } else { shared(connection, row)? };
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
            // There are no gaps between messages: where one is not found, it is missing.
            let (mut oldest, mut newest) = (lo, hi);
            let mut row = found.next()?;
            while left > 0 && oldest <= newest {
                let next = if newest_first { newest } else { oldest };
                newest -= i64::from(newest_first);
                oldest += i64::from(!newest_first);
                left -= 1;
                let message = match row {
                    Some(one) if one.get::<_, i64>(0)? == next => {
                        let message = rows::message(one)?;
                        row = found.next()?;
                        message
                    }
                    _ => damage::missing_message(rows::seq_of(next)),
                };
                if !visit(message)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The message before this one in conversation `n`. Of one that is damaged that is not known, but looked for.
    pub(super) fn before(
        &self,
        connection: &Connection,
        message: &MessageRow,
        n: u32,
    ) -> Result<Seq> {
        if message.damage.is_none() {
            return Ok(message.prev);
        }
        let mut before = 0;
        let to = message.message.seq.saturating_sub(1);
        let span = Span { from: 1, to, order: Order::NewestFirst, limit: u32::MAX };
        self.visit(connection, span, |message| {
            let is_it = message.damage.is_none() && message.conversation == n;
            if is_it {
                before = message.message.seq;
            }
            Ok(!is_it)
        })?;
        Ok(before)
    }

    pub(super) fn message(&self, connection: &Connection, seq: Seq) -> Result<Option<MessageRow>> {
        self.message_by(&mut one(connection)?, seq)
    }

    /// The same, for who reads many.
    pub(super) fn message_by(
        &self,
        statement: &mut CachedStatement<'_>,
        seq: Seq,
    ) -> Result<Option<MessageRow>> {
        let Some(key) = self.key(seq) else { return Ok(None) };
        let found = statement.query_row([key], rows::message).optional()?;
        Ok(Some(found.unwrap_or_else(|| damage::missing_message(seq))))
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

/// The statement that reads one message.
pub(super) fn one(connection: &Connection) -> Result<CachedStatement<'_>> {
    Ok(connection.prepare_cached(&ONE)?)
}

/// What a fork shares. Where that is damaged it is had from the session that it was forked from.
fn shared(connection: &Connection, row: &SessionRow) -> Result<Vec<Segment>> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        let is_intact = sums::intact("segment");
        format!("select lo, hi, source, {is_intact} from segment where session = ?1 order by lo")
    });
    let mut statement = connection.prepare_cached(&SQL)?;
    let mut found = statement.query([row.no])?;
    let mut segments = Vec::new();
    let mut is_whole = true;
    while let Some(row) = found.next()? {
        is_whole &= row.get::<_, bool>(3)?;
        if is_whole {
            segments.push(Segment { lo: row.get(0)?, hi: row.get(1)?, source: row.get(2)? });
        }
    }
    let is_complete = segments.last().is_some_and(|last| last.hi == row.base)
        && segments.first().is_some_and(|first| first.lo == 1)
        && segments.windows(2).all(|two| two[0].hi + 1 == two[1].lo);
    if is_whole && is_complete {
        return Ok(segments);
    }
    let damaged = || {
        Error::Damaged(format!(
            "session {}: which messages it shares cannot be read",
            row.session.id
        ))
    };
    let origin = row.session.forked_from.ok_or_else(damaged)?;
    let source = rows::session_by_id(connection, origin.session).map_err(|_| damaged())?;
    if source.no >= row.no {
        return Err(damaged());
    }
    Ok(Scope::of(connection, &source)?.clipped(origin.seq))
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
            let which = (self.session, row.conversation);
            let found =
                damage::conversations(self.connection, self.session, &mut statement, which)?;
            if found.is_empty() {
                // Its row is not where it was: the log says what it is called.
                let log = damage::log_of(self.connection, self.session)?.conversations;
                self.known.extend(log.into_values().filter(|one| one.n == row.conversation));
            }
            self.known.extend(found);
        }
        if let Some(known) = self.known.iter().find(|known| known.n == row.conversation) {
            row.message.conversation.clone_from(&known.name);
        }
        Ok(row)
    }
}

/// Reads the whole of a long text. Where that is damaged, the message says so.
pub(super) fn open_body(connection: &Connection, row: &mut MessageRow) -> Result<()> {
    let Some(blob) = row.blob else { return Ok(()) };
    let body = &row.message.body;
    match blob::read(connection, blob) {
        Ok(text)
            if text.len() as u64 == body.bytes()
                && text.starts_with(body.head())
                && text.ends_with(body.tail()) =>
        {
            row.message.body = Body::Whole(text);
        }
        Ok(_) | Err(Error::Damaged(_)) => damage::lose_text(row),
        Err(error) => return Err(error),
    }
    Ok(())
}
