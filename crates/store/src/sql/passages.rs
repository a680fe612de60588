//! The passages of messages, as a part of the search index: what a context chooses from without reading texts.

use std::borrow::Cow;

use jiff::Timestamp;
use rethread_domain::message::Message;
use rethread_domain::passage::Outline;
use rethread_domain::{Role, Seq};

use super::index;
use super::postings::{self, Batch};
use super::rows;
use super::scope::{Scope, open_body};
use super::sql::{Connection, OptionalExtension};
use super::summed::summed;
use super::sums;
use crate::error::Result;

/// What the index is made of, of one message.
pub(super) struct Source<'a> {
    pub(super) role: Role,
    pub(super) at: Timestamp,
    /// Without secrets.
    pub(super) text: Cow<'a, str>,
    /// What the text costs as a quotation, where that is known.
    pub(super) price: Option<u32>,
    /// The text is not the one that is kept.
    pub(super) is_masked: bool,
}

impl<'a> Source<'a> {
    pub(super) fn of(message: &'a Message) -> Self {
        let text = index::searchable(message);
        let is_masked = text != message.body.head();
        let price = message.price.quoted.filter(|_| !is_masked);
        Self { role: message.role, at: message.at, text, price, is_masked }
    }

    /// The outline of the message; its terms are visited.
    fn outline(&self, visit: impl FnMut(&str)) -> Outline {
        let mut outline = Outline::with_terms(self.role, self.at, &self.text, self.price, visit);
        outline.is_masked = self.is_masked;
        outline
    }
}

/// The outline of a message.
pub(super) fn outline(message: &Message) -> Outline {
    Source::of(message).outline(|_| ())
}

/// Brings a message into the index: its passages, and its terms into a batch.
pub(super) fn add(
    connection: &Connection,
    batch: &mut Batch,
    key: i64,
    source: &Source<'_>,
) -> Result<()> {
    batch.begin(key);
    let outline = source.outline(|term| batch.add(term));
    for term in index::filters(source.role, source.at) {
        batch.add(&term);
    }
    connection
        .prepare_cached(summed!(
            "insert into passage (id, data) values (?1, ?2)
             on conflict (id) do update set data = excluded.data, sum = null"
        ))?
        .execute((key, outline.encode()))?;
    Ok(())
}

/// Takes a message out of the index.
pub(super) fn remove(connection: &Connection, key: i64) -> Result<()> {
    postings::remove(connection, key)?;
    connection.prepare_cached("delete from passage where id = ?1")?.execute([key])?;
    Ok(())
}

/// Messages that are no further apart than this are read in one go, with those between them.
const NEXT: Seq = 4;

/// The outlines of messages, whose numbers are in order. One that is missing or damaged is made anew from its message.
pub(super) fn outlines(
    connection: &Connection,
    scope: &Scope,
    seqs: &[Seq],
) -> Result<Vec<(Seq, Outline)>> {
    let mut statement = connection.prepare_cached(
        "select id, data, sum from passage where id between ?1 and ?2 order by id",
    )?;
    let mut outlines = Vec::with_capacity(seqs.len());
    for run in seqs.chunk_by(|before, after| after - before <= NEXT) {
        let mut wanted = run.iter().copied().peekable();
        for (lo, hi) in scope.keys(run[0], run[run.len() - 1]) {
            let mut found = statement.query((lo, hi))?;
            while let Some(row) = found.next()? {
                let seq = rows::seq_of(row.get(0)?);
                while let Some(missing) = wanted.next_if(|wanted| *wanted < seq) {
                    outlines.extend(made(connection, scope, missing)?);
                }
                if wanted.next_if_eq(&seq).is_none() {
                    continue;
                }
                let kept = sums::is_intact(row, 2).then(|| row.get_ref(1)).transpose()?;
                let outline = kept.and_then(|data| Outline::decode(data.as_blob().ok()?));
                match outline {
                    Some(outline) => outlines.push((seq, outline)),
                    None => outlines.extend(made(connection, scope, seq)?),
                }
            }
        }
        for missing in wanted {
            outlines.extend(made(connection, scope, missing)?);
        }
    }
    Ok(outlines)
}

fn made(connection: &Connection, scope: &Scope, seq: Seq) -> Result<Option<(Seq, Outline)>> {
    let Some(mut row) = scope.message(connection, seq)? else { return Ok(None) };
    if row.damage.is_some() || row.message.purged_at.is_some() {
        return Ok(None);
    }
    open_body(connection, &mut row)?;
    Ok(row.damage.is_none().then(|| (seq, outline(&row.message))))
}

/// What differs between the passages and the log, in words.
pub(super) fn drift(connection: &Connection) -> Result<Vec<String>> {
    let sql = rows::select_message(
        "where purged_at is null and set_aside is null and (message.id & 4294967295) <=
            coalesce((select indexed_seq from session where no = message.id >> 32), 4294967295)",
    );
    let mut statement = connection.prepare(&sql)?;
    let mut found = statement.query([])?;
    let mut kept = connection.prepare("select data from passage where id = ?1")?;
    let mut expected: i64 = 0;
    while let Some(row) = found.next()? {
        let key: i64 = row.get(0)?;
        let mut message = rows::message(row)?;
        open_body(connection, &mut message)?;
        if message.damage.is_some() {
            return Ok(Vec::new());
        }
        expected += 1;
        let data: Option<Vec<u8>> = kept.query_row([key], |row| row.get(0)).optional()?;
        if data != Some(outline(&message.message).encode()) {
            return Ok(vec![
                "the passages of the messages are not those of their texts".to_owned(),
            ]);
        }
    }
    let count: i64 = connection.query_row("select count(*) from passage", [], |row| row.get(0))?;
    let wrong = format!("there are passages of {count} messages instead of {expected}");
    Ok(if count == expected { Vec::new() } else { vec![wrong] })
}
