//! Runs: sorted trees of blocks, written once.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::super::sql::{CachedStatement, Connection};
use super::super::summed::summed;
use super::super::sums;
use super::block::{self, Entries};
use crate::error::{Error, Result};

/// A tree of blocks.
#[derive(Debug, Clone)]
pub(in super::super) struct Run {
    pub(super) no: i64,
    pub(super) leaf: i64,
    pub(super) leaves: i64,
    root: i64,
    depth: u32,
    pub(super) lo: i64,
    pub(super) hi: i64,
    pub(super) messages: u32,
}

impl Run {
    /// All of them, in the order in which they were made.
    pub(in super::super) fn all(connection: &Connection) -> Result<Vec<Self>> {
        let mut statement = connection.prepare_cached(
            "select no, leaf, leaves, root, depth, lo, hi, messages, sum from posting_run order by no",
        )?;
        let mut rows = statement.query([])?;
        let mut runs = Vec::new();
        while let Some(row) = rows.next()? {
            if !sums::is_intact(row, 8) {
                return Err(damaged());
            }
            runs.push(Self {
                no: row.get(0)?,
                leaf: row.get(1)?,
                leaves: row.get(2)?,
                root: row.get(3)?,
                depth: row.get(4)?,
                lo: row.get(5)?,
                hi: row.get(6)?,
                messages: row.get(7)?,
            });
        }
        Ok(runs)
    }

    fn end(&self) -> i64 {
        // Directories come after the leaves, and the root is the last of them.
        self.root.max(self.leaf + self.leaves - 1)
    }

    pub(super) fn delete(&self, connection: &Connection) -> Result<()> {
        connection
            .prepare_cached("delete from posting where no between ?1 and ?2")?
            .execute((self.leaf, self.end()))?;
        connection.prepare_cached("delete from posting_run where no = ?1")?.execute([self.no])?;
        Ok(())
    }
}

/// What is told where a block is not as it was written.
pub(super) fn damaged() -> Error {
    Error::Damaged(
        "the search index is not as it was written; `rethread doctor --rebuild` makes it anew"
            .into(),
    )
}

/// A run in the making. Terms come in their order.
pub(super) struct Builder<'c> {
    connection: &'c Connection,
    insert: CachedStatement<'c>,
    block: block::Writer,
    /// The first entry of each block.
    firsts: Vec<(Box<[u8]>, i64)>,
    first: i64,
    next: i64,
    lo: i64,
    hi: i64,
    scratch: Vec<u8>,
}

impl<'c> Builder<'c> {
    /// For messages between two keys.
    pub(super) fn new(connection: &'c Connection, lo: i64, hi: i64) -> Result<Self> {
        let next: i64 = connection
            .prepare_cached("select coalesce(max(no), 0) + 1 from posting")?
            .query_row([], |row| row.get(0))?;
        let insert =
            connection.prepare_cached(summed!("insert into posting (no, data) values (?1, ?2)"))?;
        Ok(Self {
            connection,
            insert,
            block: block::Writer::new(lo, 0),
            firsts: Vec::new(),
            first: next,
            next,
            lo,
            hi,
            scratch: Vec::new(),
        })
    }

    /// Adds a term with the keys of its messages, in order.
    pub(super) fn add(&mut self, term: &[u8], keys: &[i64]) -> Result<()> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut added = Ok(());
        block::parts(keys, &mut scratch, |first, places| {
            if added.is_ok() {
                added = self.entry(term, first, places);
            }
        });
        self.scratch = scratch;
        added
    }

    fn entry(&mut self, term: &[u8], first: i64, places: &[u8]) -> Result<()> {
        if !self.block.has_room(term, places.len()) {
            self.keep(0)?;
        }
        if self.block.is_empty() {
            self.firsts.push((term.into(), first));
        }
        self.block.add(term, first, Some(places));
        Ok(())
    }

    /// Writes the block; the next one begins with a number.
    fn keep(&mut self, number: i64) -> Result<()> {
        let (insert, no) = (&mut self.insert, self.next);
        self.block.finish(number, |bytes| insert.execute((no, bytes)))?;
        self.next += 1;
        Ok(())
    }

    /// Writes what is left, the directories, and that there is a run of so many messages.
    pub(super) fn finish(mut self, messages: u32) -> Result<()> {
        if self.firsts.is_empty() {
            return Ok(());
        }
        self.keep(0)?;
        let leaves = self.next - self.first;
        let mut depth = 0_u32;
        let mut below = self.first;
        while self.firsts.len() > 1 {
            let start = self.next;
            let firsts = std::mem::take(&mut self.firsts);
            self.block = block::Writer::new(self.lo, below);
            for (child, (term, first)) in (below..).zip(firsts) {
                if !self.block.has_room(&term, 0) {
                    self.keep(child)?;
                }
                if self.block.is_empty() {
                    self.firsts.push((term.clone(), first));
                }
                self.block.add(&term, first, None);
            }
            self.keep(0)?;
            below = start;
            depth += 1;
        }
        self.connection
            .prepare_cached(summed!(
                "insert into posting_run (no, leaf, leaves, root, depth, lo, hi, messages)
                 values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"
            ))?
            .execute((
                next_run(self.connection)?,
                self.first,
                leaves,
                self.next - 1,
                depth,
                self.lo,
                self.hi,
                messages,
            ))?;
        Ok(())
    }
}

fn next_run(connection: &Connection) -> Result<i64> {
    Ok(connection
        .prepare_cached("select coalesce(max(no), 0) + 1 from posting_run")?
        .query_row([], |row| row.get(0))?)
}

/// Reads blocks. Directories are kept as long as it lives, which is as long as one question is answered.
pub(super) struct Blocks<'c> {
    one: RefCell<CachedStatement<'c>>,
    directories: RefCell<HashMap<i64, Rc<[u8]>>>,
}

impl<'c> Blocks<'c> {
    pub(super) fn new(connection: &'c Connection) -> Result<Self> {
        let one = connection.prepare_cached("select no, data, sum from posting where no = ?1")?;
        Ok(Self { one: RefCell::new(one), directories: RefCell::default() })
    }

    /// Looks at a block.
    pub(super) fn look<T>(&self, no: i64, look: impl FnOnce(&[u8]) -> Option<T>) -> Result<T> {
        let mut statement = self.one.borrow_mut();
        let mut rows = statement.query([no])?;
        let row = rows.next()?.filter(|row| sums::is_intact(row, 2)).ok_or_else(damaged)?;
        let bytes = row.get_ref(1)?.as_blob().map_err(|_| damaged())?;
        look(bytes).ok_or_else(damaged)
    }

    fn directory(&self, no: i64) -> Result<Rc<[u8]>> {
        if let Some(known) = self.directories.borrow().get(&no) {
            return Ok(known.clone());
        }
        let read: Rc<[u8]> = self.look(no, |bytes| Some(bytes.into()))?;
        self.directories.borrow_mut().insert(no, read.clone());
        Ok(read)
    }

    /// The leaf that has the last entry that does not come after a term at a key; `None` where all come after.
    pub(super) fn leaf(&self, run: &Run, term: &[u8], key: i64) -> Result<Option<i64>> {
        let mut no = run.root;
        for _ in 0..run.depth {
            let bytes = self.directory(no)?;
            let below = Entries::of(&bytes, false).ok_or_else(damaged)?.number;
            match block::last_upto(&bytes, false, term, key) {
                Some((_, at, _)) => no = below + i64::try_from(at).unwrap_or(0),
                None => return Ok(None),
            }
        }
        Ok(Some(no))
    }

    /// The last part of the places of a term that begins at a key or before it, added to what is there; gives whether there is
    /// one.
    pub(super) fn part(
        &self,
        run: &Run,
        term: &[u8],
        key: i64,
        out: &mut Vec<i64>,
    ) -> Result<bool> {
        let Some(no) = self.leaf(run, term, key)? else { return Ok(false) };
        self.look(no, |bytes| {
            Some(match block::last_upto(bytes, true, term, key) {
                Some((entry, _, true)) => {
                    block::keys(entry.first, entry.places, out);
                    true
                }
                _ => false,
            })
        })
    }
}
