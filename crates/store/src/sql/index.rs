//! The search index: it follows the log by a watermark in each session's row.

use std::borrow::Cow;
use std::sync::LazyLock;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rethread_domain::rank::Places;
use rethread_domain::{Message, Role, Seq, number, terms};
use rethread_redact::Redactor;

use super::damage;
use super::passages::{self, Source};
use super::plain::{Plain, plain};
use super::postings::{self, Batch, Reader};
use super::rows::{self, SessionRow, key, seq_of};
use super::scope::{Scope, open_body};
use super::sql::{Connection, OptionalExtension, Row};
use super::summed::summed;
use super::titles;
use crate::crash;
use crate::error::Result;

/// Messages that go into the index in one transaction. Where very many wait, more of them make fewer parts of the index that
/// have to be merged later, and others who write wait longer meanwhile.
pub(super) const STEP: u32 = 500;
const LARGE_STEP: u32 = 4_000;
const VERY_MANY: u64 = 20_000;

/// Finds what is never put into the index.
static RULES: LazyLock<Redactor> = LazyLock::new(|| Redactor::new([]));

/// Every message has terms for what it can be filtered by. None begins like a word.
pub(super) fn role_term(role: Role) -> String {
    format!(":r{role}")
}

pub(super) fn day_term(day: i64) -> String {
    format!(":d{day}")
}

/// Months are counted through, so that a stretch of time is a few terms.
pub(super) fn month_term(month: i64) -> String {
    format!(":m{month}")
}

pub(super) fn month_of(at: Timestamp) -> i64 {
    let time = TimeZone::UTC.to_datetime(at);
    i64::from(time.year()) * 12 + i64::from(time.month())
}

/// Brings up to `most` messages of sessions that lag into the index; gives how many it was.
pub(super) fn catch_up(connection: &Connection, most: u32) -> Result<u32> {
    if !is_current(connection)? {
        reset(connection)?;
    }
    let mut left = most - name(connection, most)?;
    let mut batch = Batch::default();
    while left > 0 {
        let sql = rows::select_session("where indexed_seq < last_seq order by no limit 1");
        let mut statement = connection.prepare_cached(&sql)?;
        let Some(row) = damage::sessions(connection, &mut statement, [])?.pop() else { break };
        drop(statement);
        left -= session(connection, &row, left, &mut batch)?;
    }
    postings::add(connection, &batch)?;
    crash::point("index.written");
    Ok(most - left)
}

/// Whether the index was made from terms as they are made now.
pub(super) fn is_current(connection: &Connection) -> Result<bool> {
    let mut statement = connection.prepare_cached("select value from meta where name = 'terms'")?;
    let made: Option<u32> = statement.query_row([], |row| row.get(0)).optional()?;
    Ok(made == Some(terms::VERSION))
}

/// Merges the index whole: it keeps nothing then of what was taken out.
pub(super) fn merge(connection: &Connection) -> Result<()> {
    postings::merge_all(connection)?;
    titles::optimize(connection)
}

/// Empties the index, for everything to be brought in anew.
pub(super) fn reset(connection: &Connection) -> Result<()> {
    postings::clear(connection)?;
    titles::clear(connection)?;
    connection.execute("delete from passage", [])?;
    connection
        .execute(summed!("update session set indexed_seq = base_seq, title_indexed = 0"), [])?;
    orphans(connection)?;
    connection.execute(
        "insert into meta (name, value) values ('terms', ?1) on conflict (name) do update set value = excluded.value",
        [terms::VERSION],
    )?;
    Ok(())
}

/// Messages of sessions that are gone, kept for their forks: no session's row tells how far they are.
fn orphans(connection: &Connection) -> Result<()> {
    let sql = rows::select_message(
        "where id >> 32 in (select source from segment where source not in (select no from session))
            and purged_at is null and set_aside is null order by id",
    );
    let mut statement = connection.prepare(&sql)?;
    let mut found = statement.query([])?;
    let mut batch = Batch::default();
    while let Some(row) = found.next()? {
        let key: i64 = row.get(0)?;
        add(connection, &mut batch, key, row)?;
    }
    postings::add(connection, &batch)
}

/// Brings a message into the index, from a row of [`rows::select_message`]. One that is damaged or purged is passed over.
fn add(connection: &Connection, batch: &mut Batch, key: i64, row: &Row<'_>) -> Result<()> {
    match plain(row) {
        Plain::Damaged => Ok(()),
        Plain::Whole { role, at, text, rules, price } => {
            let (kept, text) = (text, unmarked(text, rules));
            let is_masked = text != kept;
            let price = price.filter(|_| !is_masked);
            passages::add(connection, batch, key, &Source { role, at, text, price, is_masked })
        }
        Plain::Other => {
            let mut message = rows::message(row)?;
            if message.message.purged_at.is_some() || message.damage.is_some() {
                return Ok(());
            }
            open_body(connection, &mut message)?;
            passages::add(connection, batch, key, &Source::of(&message.message))
        }
    }
}

/// Whether there is anything to catch up with.
pub(super) fn is_behind(connection: &Connection) -> Result<bool> {
    if !is_current(connection)? {
        return Ok(true);
    }
    let mut statement = connection.prepare_cached(
        "select exists (select 1 from session where indexed_seq < last_seq)
             or exists (select 1 from session where title_indexed = 0)",
    )?;
    Ok(statement.query_row([], |row| row.get(0))?)
}

/// How many messages go into the index in one transaction now.
pub(super) fn step(connection: &Connection) -> Result<u32> {
    Ok(if lag(connection)? > VERY_MANY { LARGE_STEP } else { STEP })
}

fn session(connection: &Connection, row: &SessionRow, most: u32, batch: &mut Batch) -> Result<u32> {
    static SQL: LazyLock<String> =
        LazyLock::new(|| rows::select_message("where id between ?1 and ?2 order by id"));
    // What is indexed of a session are its own messages, which have no gaps: one that is missing is passed over.
    let from = row.indexed.max(row.base);
    let upto = row.session.last_seq.min(from.saturating_add(most)).max(from);
    let mut select = connection.prepare_cached(&SQL)?;
    let mut found = select.query((key(row.no, from + 1), key(row.no, upto)))?;
    while let Some(row) = found.next()? {
        let key: i64 = row.get(0)?;
        add(connection, batch, key, row)?;
    }
    let count = upto - from;
    connection
        .prepare_cached(summed!("update session set indexed_seq = ?2 where no = ?1"))?
        .execute((row.no, upto))?;
    // A session that lags with nothing to read would be met again and again.
    Ok(count.max(1))
}

/// Brings a session into the index at least up to `seq`: what a fork shares is looked for there.
pub(super) fn reach(connection: &Connection, row: &SessionRow, seq: Seq) -> Result<()> {
    match seq.checked_sub(row.indexed) {
        Some(lacking) if lacking > 0 => {
            let mut batch = Batch::default();
            session(connection, row, lacking, &mut batch)?;
            postings::add(connection, &batch)
        }
        _ => Ok(()),
    }
}

/// The text of a message as it can be searched: without what is marked or recognised as a secret, which is masked for others
/// and must not be found by its parts either.
pub(super) fn searchable(message: &Message) -> Cow<'_, str> {
    match message.masked() {
        Cow::Borrowed(text) => unmarked(text, message.extras.rules),
        Cow::Owned(text) => Cow::Owned(RULES.redact(&text).text.into_owned()),
    }
}

/// The same of a text in which nothing is marked. Where these rules or newer ones have looked through it already, they are
/// not asked again, unless it has a mask: rules judge by what is around it.
pub(super) fn unmarked(text: &str, rules: u32) -> Cow<'_, str> {
    if is_clean(text, rules) { Cow::Borrowed(text) } else { RULES.redact(text).text }
}

/// Whether a text in which nothing is marked is known to have no secrets.
pub(super) fn is_clean(text: &str, rules: u32) -> bool {
    rules >= rethread_redact::VERSION && !(text.contains('[') && text.contains("[redacted: "))
}

/// Visits what the index holds of a message: its words, and what it can be filtered by.
pub(super) fn each_term(message: &Message, mut visit: impl FnMut(&str)) {
    terms::each_indexed(&searchable(message), |term, _| visit(term));
    for term in filters(message.role, message.at) {
        visit(&term);
    }
}

/// The terms that a message can be filtered by.
pub(super) fn filters(role: Role, at: Timestamp) -> [String; 3] {
    [role_term(role), day_term(number::days(at)), month_term(month_of(at))]
}

/// The keys of a session's title and summary in their index.
pub(super) const fn title_key(no: i64) -> i64 {
    no * 2
}

pub(super) const fn summary_key(no: i64) -> i64 {
    no * 2 + 1
}

/// What the index holds of a title or a summary: its words, without secrets.
pub(super) fn title_terms(text: &str) -> String {
    terms::joined(&RULES.redact(text).text)
}

/// Brings titles and summaries in; gives of how many sessions.
fn name(connection: &Connection, most: u32) -> Result<u32> {
    let sql = rows::select_session("where title_indexed = 0 order by no limit ?1");
    let mut statement = connection.prepare_cached(&sql)?;
    let found = damage::sessions(connection, &mut statement, [most])?;
    drop(statement);
    let count = u32::try_from(found.len()).unwrap_or(most);
    for row in found {
        let texts =
            [(title_key(row.no), &row.session.title), (summary_key(row.no), &row.session.summary)];
        for (key, text) in texts {
            titles::put(connection, key, text.as_deref().map(title_terms).as_deref())?;
        }
        connection
            .prepare_cached(summed!("update session set title_indexed = 1 where no = ?1"))?
            .execute([row.no])?;
    }
    Ok(count)
}

/// How much there is to bring in: messages, and titles.
pub(super) fn left(connection: &Connection) -> Result<u64> {
    let mut statement =
        connection.prepare_cached("select count(*) from session where title_indexed = 0")?;
    let titles: i64 = statement.query_row([], |row| row.get(0))?;
    Ok(lag(connection)? + u64::try_from(titles).unwrap_or(0))
}

/// How many messages the index lacks.
pub(super) fn lag(connection: &Connection) -> Result<u64> {
    let mut statement = connection.prepare_cached(
        "select coalesce(sum(last_seq - indexed_seq), 0) from session where indexed_seq < last_seq",
    )?;
    let lag: i64 = statement.query_row([], |row| row.get(0))?;
    Ok(u64::try_from(lag).unwrap_or(0))
}

/// Where a term stands in a session: the newest `most` places.
pub(super) fn places(
    reader: &Reader<'_>,
    scope: &Scope,
    term: &str,
    most: usize,
) -> Result<Places> {
    let mut seqs = Vec::new();
    for (lo, hi) in scope.keys(1, Seq::MAX).rev() {
        let mut found = reader.term(term, lo, hi);
        let mut upto = hi;
        while let Some(key) = found.last_upto(reader, upto)? {
            seqs.push(seq_of(key));
            if seqs.len() == most {
                return Ok(Places { seqs, cut: true });
            }
            upto = key - 1;
        }
    }
    Ok(Places { seqs, cut: false })
}
