//! Going through the places of terms, newest first.

use std::cell::Cell;
use std::cmp::Reverse;
use std::rc::Rc;

use super::super::sql::Connection;
use super::block::{self, Entries};
use super::run::{Blocks, Run};
use crate::error::Result;

/// Told whenever a block is read: fails where that is too much.
pub(in super::super) type Tick<'c> = &'c dyn Fn() -> Result<()>;

/// So many blocks are looked through for words with the same beginning.
const MOST_BLOCKS: usize = 400;

/// The places of terms, as they are now.
pub(in super::super) struct Reader<'c> {
    blocks: Blocks<'c>,
    /// Those with the newest messages first.
    runs: Vec<Rc<Run>>,
    tick: Tick<'c>,
    is_too_much: Cell<bool>,
}

impl<'c> Reader<'c> {
    pub(in super::super) fn new(connection: &'c Connection, tick: Tick<'c>) -> Result<Self> {
        let mut runs: Vec<Rc<Run>> = Run::all(connection)?.into_iter().map(Rc::new).collect();
        runs.sort_by_key(|run| Reverse(run.hi));
        let blocks = Blocks::new(connection)?;
        Ok(Self { blocks, runs, tick, is_too_much: Cell::new(false) })
    }

    /// The places of a term between two keys.
    pub(in super::super) fn term(&self, term: &str, lo: i64, hi: i64) -> Node {
        let part = |run: &Rc<Run>| Node::Part(Part::new(run.clone(), term.as_bytes(), lo));
        Node::Any(self.runs_between(lo, hi).map(part).collect())
    }

    /// The places of all terms that begin so.
    pub(in super::super) fn beginning(beginning: &str, lo: i64, hi: i64) -> Node {
        Node::Beginning { beginning: beginning.into(), lo, hi, opened: None }
    }

    /// Whether so many terms have a beginning that was asked for that they were not gone through.
    pub(in super::super) fn is_too_much(&self) -> bool {
        self.is_too_much.get()
    }

    fn runs_between(&self, lo: i64, hi: i64) -> impl Iterator<Item = &Rc<Run>> {
        self.runs.iter().filter(move |run| run.lo <= hi && run.hi >= lo)
    }

    /// Brings the terms together that begin so.
    fn open(&self, beginning: &[u8], lo: i64, hi: i64) -> Result<Node> {
        let (mut keys, mut nodes, mut left) = (Vec::new(), Vec::new(), MOST_BLOCKS);
        for run in self.runs_between(lo, hi) {
            // Terms with places in several parts are gone through by themselves.
            let mut long: Vec<Vec<u8>> = Vec::new();
            let mut no = self.blocks.leaf(run, beginning, i64::MIN)?.unwrap_or(run.leaf);
            let mut is_over = false;
            while no < run.leaf + run.leaves && !is_over {
                (self.tick)()?;
                let Some(rest) = left.checked_sub(1) else {
                    self.is_too_much.set(true);
                    return Ok(Node::Keys(Vec::new()));
                };
                left = rest;
                let mut term = Vec::new();
                is_over = self.blocks.look(no, |bytes| {
                    for entry in Entries::of(bytes, true)? {
                        term.truncate(entry.shared);
                        term.extend(entry.suffix);
                        if !term.starts_with(beginning) {
                            if term.as_slice() > beginning {
                                return Some(true);
                            }
                        } else if long.last() == Some(&term) {
                            // It is gone through by itself.
                        } else if block::goes_on(entry.places) {
                            long.push(term.clone());
                        } else {
                            block::keys(entry.first, entry.places, &mut keys);
                        }
                    }
                    Some(false)
                })?;
                let last = self.blocks.leaf(run, &term, i64::MAX)?.filter(|last| *last > no);
                no = last.filter(|_| long.last() == Some(&term)).unwrap_or(no + 1);
            }
            let part = |term: Vec<u8>| Node::Part(Part::new(run.clone(), &term, lo));
            nodes.extend(long.into_iter().map(part));
        }
        keys.retain(|key| (lo..=hi).contains(key));
        keys.sort_unstable();
        nodes.push(Node::Keys(keys));
        Ok(Node::Any(nodes))
    }
}

/// Places, newest first.
pub(in super::super) enum Node {
    Part(Part),
    /// In order.
    Keys(Vec<i64>),
    Any(Vec<Node>),
    All(Vec<Node>),
    Beginning {
        beginning: Box<str>,
        lo: i64,
        hi: i64,
        opened: Option<Box<Node>>,
    },
}

impl Node {
    /// The last place that does not come after a key. Whoever asks asks for earlier ones from then on.
    pub(in super::super) fn last_upto(
        &mut self,
        reader: &Reader<'_>,
        key: i64,
    ) -> Result<Option<i64>> {
        match self {
            Self::Part(part) => part.last_upto(reader, key),
            Self::Keys(keys) => {
                while keys.last().is_some_and(|last| *last > key) {
                    keys.pop();
                }
                Ok(keys.last().copied())
            }
            Self::Any(nodes) => {
                let mut last = None;
                for node in nodes {
                    if last < node.bound() {
                        last = last.max(node.last_upto(reader, key)?);
                    }
                }
                Ok(last)
            }
            Self::All(nodes) => {
                let mut agreed = key;
                // The place of the last node that moved; all those after it have agreed.
                let (mut at, mut agreeing) = (0, 0);
                while agreeing < nodes.len() {
                    let Some(last) = nodes[at].last_upto(reader, agreed)? else { return Ok(None) };
                    agreeing = if last < agreed { 1 } else { agreeing + 1 };
                    agreed = last;
                    at = (at + 1) % nodes.len();
                }
                Ok((!nodes.is_empty()).then_some(agreed))
            }
            Self::Beginning { beginning, lo, hi, opened } => {
                let node = match opened {
                    Some(node) => node,
                    None => opened.insert(reader.open(beginning.as_bytes(), *lo, *hi)?.into()),
                };
                node.last_upto(reader, key)
            }
        }
    }

    /// No place that is left comes after this; `None` where none is left.
    fn bound(&self) -> Option<i64> {
        match self {
            Self::Part(part) => part.bound(),
            Self::Keys(keys) => keys.last().copied(),
            _ => Some(i64::MAX),
        }
    }
}

/// The places of a term in one run.
pub(in super::super) struct Part {
    run: Rc<Run>,
    term: Box<[u8]>,
    lo: i64,
    /// What was read of them and not given yet, in order.
    keys: Vec<i64>,
    /// What comes before was not read.
    unread: Option<i64>,
}

impl Part {
    fn new(run: Rc<Run>, term: &[u8], lo: i64) -> Self {
        let unread = Some(run.hi);
        Self { run, term: term.into(), lo, keys: Vec::new(), unread }
    }

    fn bound(&self) -> Option<i64> {
        self.keys.last().copied().or(self.unread)
    }

    fn last_upto(&mut self, reader: &Reader<'_>, key: i64) -> Result<Option<i64>> {
        loop {
            // Mostly the next one is asked for, sometimes one that is far off.
            if self.keys.last().is_some_and(|last| *last > key) {
                self.keys.pop();
            }
            if self.keys.last().is_some_and(|last| *last > key) {
                let upto = self.keys.partition_point(|known| *known <= key);
                self.keys.truncate(upto);
            }
            if let Some(last) = self.keys.last() {
                return Ok((*last >= self.lo).then_some(*last));
            }
            let Some(upto) = self.unread.map(|unread| unread.min(key)) else { return Ok(None) };
            (reader.tick)()?;
            let is_found = upto >= self.lo
                && reader.blocks.part(&self.run, &self.term, upto, &mut self.keys)?;
            self.unread = self.keys.first().filter(|_| is_found).map(|first| first - 1);
        }
    }
}
