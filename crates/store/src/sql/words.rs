//! Whether the search index has the words of what was said, and no others: it is a projection like any other, but has no
//! checksums of its own.

use std::collections::BTreeSet;

use super::scope::open_body;
use super::sql::Connection;
use super::{damage, index, passages, postings, rows, titles};
use crate::error::Result;

/// How many words there are in how many places, and a sum over all of them that does not depend on their order.
#[derive(Debug, Default, PartialEq, Eq)]
struct Words {
    count: u64,
    sum: u64,
}

impl Words {
    fn add(&mut self, term: &[u8], place: i64) {
        let mut sum = crc32fast::Hasher::new();
        sum.update(term);
        sum.update(&place.to_le_bytes());
        self.count += 1;
        self.sum = self.sum.wrapping_add(u64::from(sum.finalize()));
    }

    fn add_all(&mut self, text: &str, place: i64) {
        let terms: BTreeSet<&str> = text.split_ascii_whitespace().collect();
        for term in terms {
            self.add(term.as_bytes(), place);
        }
    }
}

/// What the index of messages has.
fn kept(connection: &Connection) -> Result<Words> {
    let mut words = Words::default();
    postings::each(connection, |term, keys| {
        for key in keys {
            words.add(term, *key);
        }
        Ok(())
    })?;
    Ok(words)
}

/// What the index of titles has of the places that `counts` is true for.
fn kept_of_titles(connection: &Connection, counts: impl Fn(i64) -> bool) -> Result<Words> {
    let mut words = Words::default();
    titles::each(connection, |term, place| {
        if counts(place) {
            words.add(term, place);
        }
    })?;
    Ok(words)
}

/// What the log says, as far as it is indexed; nothing where a part of it cannot be read.
fn said(connection: &Connection) -> Result<Option<Words>> {
    let sql = rows::select_message(
        "where purged_at is null and set_aside is null and (message.id & 4294967295) <=
            coalesce((select indexed_seq from session where no = message.id >> 32), 4294967295)",
    );
    let mut statement = connection.prepare(&sql)?;
    let mut found = statement.query([])?;
    let mut words = Words::default();
    while let Some(row) = found.next()? {
        let key = row.get(0)?;
        let mut message = rows::message(row)?;
        open_body(connection, &mut message)?;
        if message.damage.is_some() {
            return Ok(None);
        }
        let mut terms = BTreeSet::new();
        index::each_term(&message.message, |term| terms.extend([term.to_owned()]));
        for term in &terms {
            words.add(term.as_bytes(), key);
        }
    }
    Ok(Some(words))
}

/// What the titles and summaries say that the index has, and of which sessions.
fn titled(connection: &Connection) -> Result<(Words, BTreeSet<i64>)> {
    let mut statement = connection.prepare(&rows::select_session("where title_indexed = 1"))?;
    let (mut words, mut sessions) = (Words::default(), BTreeSet::new());
    for row in damage::sessions(connection, &mut statement, [])? {
        sessions.insert(row.no);
        for (key, text) in [
            (index::title_key(row.no), &row.session.title),
            (index::summary_key(row.no), &row.session.summary),
        ] {
            words.add_all(&text.as_deref().map(index::title_terms).unwrap_or_default(), key);
        }
    }
    Ok((words, sessions))
}

/// What differs between the search index and the log, in words.
pub(super) fn drift(connection: &Connection) -> Result<Vec<String>> {
    let mut drift = Vec::new();
    if !index::is_current(connection)? {
        return Ok(drift);
    }
    if said(connection)?.is_some_and(|said| kept(connection).ok() != Some(said)) {
        drift.push("the search index does not have the words of the messages".to_owned());
    }
    drift.extend(passages::drift(connection)?);
    let (titled, sessions) = titled(connection)?;
    // What was there of others before is not looked at until it is brought in anew.
    if kept_of_titles(connection, |key| sessions.contains(&(key / 2))).ok() != Some(titled) {
        drift.push("the search index does not have the words of the titles".to_owned());
    }
    Ok(drift)
}
