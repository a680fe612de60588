//! Going through the store for what matches, from the newest key down.

use std::rc::Rc;

use rethread_domain::Seq;
use rethread_domain::search::{Answer, Look, Place, Query, Rank, Stretch};

use super::super::damage::{self, session_by_no};
use super::super::index;
use super::super::plain::unchecked;
use super::super::postings::Reader;
use super::super::rows::{self, seq_of};
use super::super::scope::Scope;
use super::super::sql::{Connection, FallibleStreamingIterator, Row, Rows};
use super::super::titles;
use super::chosen::{few_sessions, fits, messages};
use super::meter::{Meter, is_interrupted};
use super::owners::{Owners, Told};
use super::said::{NEWEST_FIRST, Reading, said};
use crate::error::Result;
use crate::search::Search;

/// A find in a title or summary counts for more than one in the text.
const TITLE_BONUS: f64 = 0.5;

/// Messages that are no further apart are read in one go.
const CLOSE: i64 = 8;

/// A find, as far as it is needed to find its place. The rest is read when it is known to be shown.
pub(super) struct Ranked {
    pub(super) rank: Rank,
    pub(super) session: Rc<Told>,
    pub(super) place: Place,
    pub(super) answer: Answer,
}

/// What is looked for.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) query: &'a Query,
    /// What finds are ranked by.
    pub(super) ranking: &'a Query,
    /// What matches these was found before.
    pub(super) before: &'a [Query],
    pub(super) answer: Answer,
}

/// The finds in a stretch of the store.
pub(super) struct Window {
    pub(super) hits: Vec<Ranked>,
    /// Down to which keys it goes.
    pub(super) titles: i64,
    pub(super) messages: i64,
    /// There is nothing below it.
    pub(super) is_end: bool,
    /// It ends where it does because more work is not allowed.
    pub(super) is_cut: bool,
}

/// Whether to go on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    On,
    /// There are as many finds as wanted.
    Full,
}

pub(super) struct Walk<'a> {
    connection: &'a Connection,
    search: &'a Search,
    meter: &'a Meter,
    wanted: Wanted<'a>,
    look: Look<'a>,
    owners: Owners<'a>,
    hits: Vec<Ranked>,
    /// How many finds are wanted.
    most: usize,
    /// The last key that was looked at and belongs to who asks: nothing else may be told by where a search goes on.
    reached: i64,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        connection: &'a Connection,
        search: &'a Search,
        meter: &'a Meter,
        wanted: Wanted<'a>,
    ) -> Self {
        Self {
            connection,
            search,
            meter,
            wanted,
            look: Look::new(wanted.query, wanted.ranking, wanted.before),
            owners: Owners::new(connection, &search.filter),
            hits: Vec::new(),
            most: 0,
            reached: 0,
        }
    }

    /// The finds in these stretches: all where they have two ends, otherwise at most so many.
    pub(super) fn window(
        &mut self,
        titles: Stretch,
        messages: Stretch,
        most: usize,
    ) -> Result<Window> {
        let (title_end, titles_cut) = self.part(titles, most, Self::titles)?;
        let mut hits = std::mem::take(&mut self.hits);
        let (message_end, messages_cut) = if titles_cut {
            (Some(messages.below), true)
        } else {
            self.part(messages, most, Self::messages)?
        };
        hits.append(&mut self.hits);
        Ok(Window {
            hits,
            titles: title_end.unwrap_or(0),
            messages: message_end.unwrap_or(0),
            is_end: title_end.is_none() && message_end.is_none(),
            is_cut: messages_cut,
        })
    }

    /// Goes through one stretch; gives the key where it ended early, and whether that was for too much work.
    fn part(
        &mut self,
        stretch: Stretch,
        most: usize,
        go: impl FnOnce(&mut Self, i64, i64) -> Result<Flow>,
    ) -> Result<(Option<i64>, bool)> {
        if stretch.below <= 0 {
            return Ok((None, false));
        }
        self.most = if stretch.from.is_some() { usize::MAX } else { most };
        self.reached = stretch.below;
        let flow = if self.meter.is_spent() {
            Err(crate::Error::Interrupted)
        } else {
            go(self, stretch.from.unwrap_or(0), stretch.below - 1)
        };
        match flow {
            Ok(Flow::Full) => Ok((Some(self.reached), false)),
            Ok(Flow::On) => Ok((stretch.from, false)),
            Err(error) if is_interrupted(&error) => Ok((Some(self.reached), true)),
            Err(error) => Err(error),
        }
    }

    fn check(&self) -> Result<()> {
        if self.meter.is_over() { Err(crate::Error::Interrupted) } else { Ok(()) }
    }

    fn flow(&self) -> Flow {
        if self.hits.len() >= self.most { Flow::Full } else { Flow::On }
    }

    fn titles(&mut self, lo: i64, hi: i64) -> Result<Flow> {
        if self.search.filter.is_about_messages() {
            return Ok(Flow::On);
        }
        let mut keys: Vec<i64> = Vec::new();
        let found =
            titles::search(self.connection, self.meter, &self.wanted.query.clauses, (lo, hi))?;
        // Where the index cannot tell, every session is looked at.
        let mut which = "select no from session order by no desc";
        if let Some(found) = found {
            which = "select no from session where title_indexed = 0 order by no desc";
            keys.extend(found);
        }
        let mut statement = self.connection.prepare_cached(which)?;
        let mut lacking = statement.query([])?;
        while let Some(row) = lacking.next()? {
            let no: i64 = row.get(0)?;
            keys.extend([index::summary_key(no), index::title_key(no)]);
        }
        keys.retain(|key| (lo..=hi).contains(key));
        keys.sort_unstable_by(|a, b| b.cmp(a));
        for key in keys {
            self.check()?;
            self.title(key)?;
            if self.flow() == Flow::Full {
                return Ok(Flow::Full);
            }
        }
        Ok(Flow::On)
    }

    fn title(&mut self, key: i64) -> Result<()> {
        let (no, is_title) = (key / 2, key % 2 == 0);
        let Some(row) = session_by_no(self.connection, no)? else { return Ok(()) };
        let text = if is_title { &row.session.title } else { &row.session.summary };
        let Some(text) = text else { return Ok(()) };
        if !self.owners.is_asked_for(&row.session)
            || !fits(self.connection, &self.search.filter, no)?
        {
            return Ok(());
        }
        self.reached = key;
        let text = self.search.redactor.redact(text).text;
        self.meter.read(text.len());
        let Some(score) = self.look.judge(&text, true) else { return Ok(()) };
        let (score, at) = (score + TITLE_BONUS, row.session.last_active_at);
        self.hits.push(Ranked {
            rank: Rank { score, at, is_message: false, key },
            session: Rc::new(Told::of(&row.session)),
            place: if is_title { Place::Title } else { Place::Summary },
            answer: self.wanted.answer,
        });
        Ok(())
    }

    fn messages(&mut self, lo: i64, hi: i64) -> Result<Flow> {
        let query = self.wanted.query;
        let is_checked = query.has_to_be_read()
            || self.search.redactor.has_known()
            || !index::is_current(self.connection)?;
        let ranges: Vec<_> =
            self.ranges()?.into_iter().filter_map(|at| within(at, (lo, hi))).collect();
        let (Some(first), Some(last)) = (ranges.last(), ranges.first()) else {
            return Ok(Flow::On);
        };
        let lagging = self.lagging()?;
        // A beginning stands for many words, which are brought together anew each time: once is enough.
        let pieces = if query.has_beginnings() { vec![(first.0, last.1)] } else { ranges.clone() };
        let meter = self.meter.clone();
        let tick = move || if meter.look() { Err(crate::Error::Interrupted) } else { Ok(()) };
        let reader = Reader::new(self.connection, &tick)?;
        for piece in pieces {
            if self.piece(piece, &reader, is_checked, &lagging, &ranges)? == Flow::Full {
                return Ok(Flow::Full);
            }
        }
        Ok(Flow::On)
    }

    /// Goes through a stretch of messages, as far as the index finds them, and through those it lacks, in the order of keys.
    fn piece(
        &mut self,
        piece: (i64, i64),
        reader: &Reader<'_>,
        is_checked: bool,
        lagging: &[(i64, i64)],
        ranges: &[(i64, i64)],
    ) -> Result<Flow> {
        let clauses = &self.wanted.query.clauses;
        let mut found = messages(self.connection, reader, clauses, &self.search.filter, piece)?;
        let mut scans: Vec<_> = lagging.iter().filter_map(|at| within(*at, piece)).collect();
        scans.reverse();
        let mut newest_first = self.connection.prepare_cached(&NEWEST_FIRST)?;
        let mut next = found.last_upto(reader, piece.1)?;
        if reader.is_too_much() {
            // Where so much begins alike, the newest messages have it soon.
            return self.scan_all(ranges.iter().filter_map(|at| within(*at, piece)).collect());
        }
        loop {
            // Rows that are close together are read in one go, with those between them.
            let from = next.unwrap_or(piece.0 - 1);
            let mut rows = newest_first.query((piece.0, from))?;
            let mut passed = from + 1;
            while passed.saturating_sub(next.unwrap_or(piece.0 - 1)) <= CLOSE {
                let above = next.unwrap_or(piece.0 - 1);
                if self.scan_above(above, &mut scans)? == Flow::Full {
                    return Ok(Flow::Full);
                }
                let Some(key) = next else { return Ok(Flow::On) };
                self.check()?;
                let row = row_of(&mut rows, &mut passed, key)?;
                if let Some(row) = row
                    && let Some(owner) = self.owners.of(key >> 32, seq_of(key))?
                {
                    self.take(key, owner, row, is_checked)?;
                }
                if self.flow() == Flow::Full {
                    return Ok(Flow::Full);
                }
                next = found.last_upto(reader, key - 1)?;
            }
        }
    }

    /// Looks at what the index lacks above a key.
    fn scan_above(&mut self, above: i64, scans: &mut Vec<(i64, i64)>) -> Result<Flow> {
        while let Some((lo, hi)) = scans.pop_if(|(_, hi)| *hi > above) {
            if lo <= above {
                scans.push((lo, above));
            }
            if self.scan(lo.max(above + 1), hi)? == Flow::Full {
                return Ok(Flow::Full);
            }
        }
        Ok(Flow::On)
    }

    fn scan_all(&mut self, stretches: Vec<(i64, i64)>) -> Result<Flow> {
        for (lo, hi) in stretches {
            if self.scan(lo, hi)? == Flow::Full {
                return Ok(Flow::Full);
            }
        }
        Ok(Flow::On)
    }

    /// Looks at every message between two keys: a store that cannot be written to is searched all the same.
    fn scan(&mut self, lo: i64, hi: i64) -> Result<Flow> {
        let mut statement = self.connection.prepare_cached(&NEWEST_FIRST)?;
        let mut found = statement.query((lo, hi))?;
        while let Some(row) = found.next()? {
            self.check()?;
            let key: i64 = row.get(0)?;
            if let Some(owner) = self.owners.of(key >> 32, seq_of(key))? {
                self.take(key, owner, row, true)?;
            }
            if self.flow() == Flow::Full {
                return Ok(Flow::Full);
            }
        }
        Ok(Flow::On)
    }

    /// Takes a message, if it is what is looked for.
    fn take(&mut self, key: i64, session: Rc<Told>, row: &Row<'_>, is_checked: bool) -> Result<()> {
        self.reached = key;
        if self.look.wants_phrases()
            && !self.search.redactor.has_known()
            && let Some(text) = unchecked(row).filter(|text| self.look.lacks_phrases(text))
        {
            self.meter.read(text.len());
            return Ok(());
        }
        let said = match said(self.connection, row, self.search)? {
            Reading::Said(said) => said,
            Reading::Nothing => return Ok(()),
            Reading::Damaged => {
                self.meter.damaged(key);
                return Ok(());
            }
        };
        self.meter.read(said.bytes);
        let Some(score) = self.look.judge(&said.text, is_checked) else { return Ok(()) };
        let (seq, role, at) = (seq_of(key), said.role, said.at);
        self.hits.push(Ranked {
            rank: Rank { score, at, is_message: true, key },
            session,
            place: Place::Message { seq, role, at },
            answer: self.wanted.answer,
        });
        Ok(())
    }

    /// The keys to look at, newest first: everything, or those of the few sessions that a filter leaves.
    fn ranges(&self) -> Result<Vec<(i64, i64)>> {
        let everything = vec![(0, i64::MAX)];
        let sessions = match self.search.filter.session {
            Some(id) => vec![rows::session_by_id(self.connection, id)?],
            None => match few_sessions(self.connection, &self.search.filter)? {
                Some(few) => few,
                None => return Ok(everything),
            },
        };
        let mut ranges = Vec::new();
        for row in &sessions {
            ranges.extend(Scope::of(self.connection, row)?.keys(1, Seq::MAX));
        }
        Ok(united(ranges))
    }

    /// The keys of what the index lacks, newest first.
    fn lagging(&self) -> Result<Vec<(i64, i64)>> {
        let sql = rows::select_session("where indexed_seq < last_seq order by no desc");
        let mut statement = self.connection.prepare_cached(&sql)?;
        let lagging = damage::sessions(self.connection, &mut statement, [])?;
        let keys = |row: &rows::SessionRow| {
            (rows::key(row.no, row.indexed + 1), rows::key(row.no, row.session.last_seq))
        };
        Ok(lagging.iter().map(keys).collect())
    }
}

/// The row with this key, from rows that come newest first of which all down to `passed` were seen.
fn row_of<'r, 's>(
    rows: &'r mut Rows<'s>,
    passed: &mut i64,
    key: i64,
) -> Result<Option<&'r Row<'s>>> {
    while *passed > key {
        rows.advance()?;
        *passed = rows.get().map_or(Ok(i64::MIN), |row| row.get(0))?;
    }
    let rows: &'r Rows<'s> = rows;
    Ok(rows.get().filter(|_| *passed == key))
}

/// Stretches that overlap as one, newest first: a session and its forks share messages, which are found once.
fn united(mut ranges: Vec<(i64, i64)>) -> Vec<(i64, i64)> {
    ranges.sort_unstable();
    let mut united: Vec<(i64, i64)> = Vec::with_capacity(ranges.len());
    for (lo, hi) in ranges {
        match united.last_mut() {
            Some(last) if lo <= last.1 => last.1 = last.1.max(hi),
            _ => united.push((lo, hi)),
        }
    }
    united.reverse();
    united
}

/// What two stretches have in common.
fn within(one: (i64, i64), other: (i64, i64)) -> Option<(i64, i64)> {
    let (lo, hi) = (one.0.max(other.0), one.1.min(other.1));
    (lo <= hi).then_some((lo, hi))
}
