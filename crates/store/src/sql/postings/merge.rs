//! Merging runs.

use std::collections::HashSet;

use super::super::sql::{CachedStatement, Connection, SqlResult};
use super::super::sums;
use super::block::{self, Entries};
use super::run::{Builder, Run, damaged};
use crate::error::Result;

/// So many runs of about the same size are merged.
const TOGETHER: usize = 4;
/// A run of more messages is merged only when everything is: others who write wait meanwhile.
const LARGEST: u32 = 1 << 16;

/// About how large a run is.
fn size(run: &Run) -> u32 {
    run.messages.max(1).ilog2() / 2
}

/// Merges runs where there are several of about the same size.
pub(super) fn merge_some(connection: &Connection) -> Result<()> {
    loop {
        let runs = Run::all(connection)?;
        let alike = |one: &&Run| {
            let same = runs.iter().filter(|other| size(other) == size(one));
            one.messages <= LARGEST && same.count() >= TOGETHER
        };
        let Some(size_of) = runs.iter().find(alike).map(size) else { return Ok(()) };
        let together: Vec<&Run> = runs.iter().filter(|run| size(run) == size_of).collect();
        merge(connection, &together)?;
    }
}

/// Merges everything: nothing is kept then of what was taken out.
pub(in super::super) fn merge_all(connection: &Connection) -> Result<()> {
    let runs = Run::all(connection)?;
    let is_gone: bool =
        connection.query_row("select exists (select 1 from posting_gone)", [], |row| row.get(0))?;
    if runs.len() > 1 || is_gone {
        merge(connection, &runs.iter().collect::<Vec<_>>())?;
    }
    connection.execute("delete from posting_gone", [])?;
    Ok(())
}

fn merge(connection: &Connection, runs: &[&Run]) -> Result<()> {
    let Some((lo, hi)) =
        runs.iter().map(|run| run.lo).min().zip(runs.iter().map(|run| run.hi).max())
    else {
        return Ok(());
    };
    let gone = gone(connection, lo, hi)?;
    let mut dropped: HashSet<i64> = HashSet::new();
    let mut messages: u32 = runs.iter().map(|run| run.messages).sum();
    let mut builder = Builder::new(connection, lo, hi)?;
    each_of(connection, runs, |term, keys| {
        if !gone.is_empty() {
            keys.retain(|key| {
                let is_gone = gone.contains(key);
                if is_gone {
                    dropped.insert(*key);
                }
                !is_gone
            });
        }
        if keys.is_empty() { Ok(()) } else { builder.add(term, keys) }
    })?;
    messages = messages.saturating_sub(u32::try_from(dropped.len()).unwrap_or(u32::MAX));
    builder.finish(messages)?;
    for run in runs {
        run.delete(connection)?;
    }
    let mut forget = connection.prepare_cached("delete from posting_gone where key = ?1")?;
    for key in dropped {
        forget.execute([key])?;
    }
    Ok(())
}

fn gone(connection: &Connection, lo: i64, hi: i64) -> Result<HashSet<i64>> {
    let mut statement =
        connection.prepare_cached("select key from posting_gone where key between ?1 and ?2")?;
    let keys = statement.query_map([lo, hi], |row| row.get(0))?;
    Ok(keys.collect::<SqlResult<_>>()?)
}

/// Visits all terms in order, each with the keys of its messages in order, but for those that were taken out.
pub(in super::super) fn each(
    connection: &Connection,
    mut visit: impl FnMut(&[u8], &[i64]) -> Result<()>,
) -> Result<()> {
    let runs = Run::all(connection)?;
    let gone = gone(connection, i64::MIN, i64::MAX)?;
    each_of(connection, &runs.iter().collect::<Vec<_>>(), |term, keys| {
        keys.retain(|key| !gone.contains(key));
        visit(term, keys)
    })
}

fn each_of(
    connection: &Connection,
    runs: &[&Run],
    mut visit: impl FnMut(&[u8], &mut Vec<i64>) -> Result<()>,
) -> Result<()> {
    let mut one = connection.prepare_cached("select no, data, sum from posting where no = ?1")?;
    let mut walks = Vec::with_capacity(runs.len());
    for run in runs {
        let mut walk = Walk::new(run);
        if walk.next(&mut one)? {
            walks.push(walk);
        }
    }
    let (mut term, mut keys) = (Vec::new(), Vec::new());
    while let Some(least) = walks.iter().map(|walk| &walk.term).min() {
        term.clone_from(least);
        keys.clear();
        let mut at = 0;
        while at < walks.len() {
            let walk = &mut walks[at];
            let mut is_there = true;
            while is_there && walk.term == term {
                block::keys(walk.first, &walk.bytes[walk.places.clone()], &mut keys);
                is_there = walk.next(&mut one)?;
            }
            if is_there {
                at += 1;
            } else {
                walks.swap_remove(at);
            }
        }
        if !keys.is_sorted() {
            keys.sort_unstable();
        }
        visit(&term, &mut keys)?;
    }
    Ok(())
}

/// Going through the leaves of a run.
struct Walk {
    next: i64,
    end: i64,
    /// The leaf, and where the next entry is in it.
    bytes: Vec<u8>,
    at: usize,
    /// Where its entries end.
    stop: usize,
    /// The entry.
    term: Vec<u8>,
    first: i64,
    places: std::ops::Range<usize>,
}

impl Walk {
    fn new(run: &Run) -> Self {
        Self {
            next: run.leaf,
            end: run.leaf + run.leaves,
            bytes: Vec::new(),
            at: 0,
            stop: 0,
            term: Vec::new(),
            first: 0,
            places: 0..0,
        }
    }

    /// Goes to the next entry; gives whether there is one.
    fn next(&mut self, one: &mut CachedStatement<'_>) -> Result<bool> {
        if self.at == self.stop {
            if self.next == self.end {
                return Ok(false);
            }
            let mut rows = one.query([self.next])?;
            let row = rows.next()?.filter(|row| sums::is_intact(row, 2)).ok_or_else(damaged)?;
            self.bytes.clear();
            self.bytes.extend(row.get_ref(1)?.as_blob().map_err(|_| damaged())?);
            self.at = block::HEAD;
            self.stop = block::end(&self.bytes).ok_or_else(damaged)?;
            self.term.clear();
            self.next += 1;
        }
        let mut entries = Entries::from(&self.bytes, self.at, true).ok_or_else(damaged)?;
        let entry = entries.next().ok_or_else(damaged)?;
        self.term.truncate(entry.shared);
        self.term.extend(entry.suffix);
        self.first = entry.first;
        self.at = self.stop - entries.left();
        self.places = self.at - entry.places.len()..self.at;
        Ok(true)
    }
}
