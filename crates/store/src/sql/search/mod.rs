//! Searching: candidates from the index, newest first and bounded; filters before the bound, so that they never
//! make a search miss what matches; ranking in the domain.
//!
//! Everything is compared, ranked and shown without secrets, whoever asks: a text that is masked for others must not be
//! found by what is masked in it, nor be ranked or counted by it.

mod chosen;
pub(super) mod meter;
mod owners;
mod said;
mod walk;

use std::borrow::Cow;
use std::collections::HashSet;
use std::rc::Rc;

use rethread_domain::search::{self, Answer, Cursor, Found, Hit, Query, Rank, Stretch};

use self::meter::Meter;
use self::owners::Told;
use self::said::Reading;
use self::walk::{Ranked, Walk, Wanted, Window};
use super::damage::session_by_no;
use super::sql::{CachedStatement, Connection};
use crate::error::Result;
use crate::search::Search;

/// How many finds are ranked at least.
const CANDIDATES: usize = 100;
/// How long an excerpt is, about.
const EXCERPT: usize = 160;

pub(super) fn search(connection: &mut Connection, search: &Search) -> Result<Found> {
    if search.query.is_empty() || search.limit == 0 {
        return Ok(Found::default());
    }
    let meter = Meter::new(search);
    meter.on(connection, |connection| {
        let mut page = Page::new(connection, search, &meter);
        page.fill()?;
        // What was found is shown: that is bounded by how much is asked for.
        meter.turn_off();
        let found = if meter.is_stopped() { Vec::new() } else { page.hits };
        let hits = Showing::new(connection, search)?.all(found)?;
        let (next, is_partial) = (page.next, page.is_partial);
        Ok(Found { hits, next, is_partial, damaged: meter.damaged_count(), work: meter.used() })
    })
}

/// A part of what is found, as it comes together.
struct Page<'a> {
    connection: &'a Connection,
    search: &'a Search,
    meter: &'a Meter,
    hits: Vec<Ranked>,
    next: Option<Cursor>,
    is_partial: bool,
}

impl<'a> Page<'a> {
    fn new(connection: &'a Connection, search: &'a Search, meter: &'a Meter) -> Self {
        Self { connection, search, meter, hits: Vec::new(), next: None, is_partial: false }
    }

    fn limit(&self) -> usize {
        self.search.limit as usize
    }

    fn most(&self) -> usize {
        CANDIDATES.max(self.limit())
    }

    fn walk<'b>(&self, wanted: Wanted<'b>) -> Walk<'b>
    where
        'a: 'b,
    {
        Walk::new(self.connection, self.search, self.meter, wanted)
    }

    /// Those that have all words come first, then those that only begin with the last one, then those that have some.
    fn fill(&mut self) -> Result<()> {
        let whole = self.search.query.clone();
        let unfinished = whole.unfinished();
        let mut cursor = self.search.after.unwrap_or_default();
        let mut before = Vec::new();
        if !cursor.unfinished {
            if !self.stage(&whole, &before, cursor)? {
                return Ok(());
            }
            cursor = Cursor { unfinished: true, ..Cursor::default() };
        }
        before.push(whole.clone());
        if let Some(unfinished) = unfinished {
            if self.hits.len() == self.limit() {
                self.next = Some(cursor);
                return Ok(());
            }
            if !self.stage(&unfinished, &before, cursor)? {
                return Ok(());
            }
            before.push(unfinished);
        }
        if whole.clauses.len() > 1 && whole.phrases.is_empty() && self.hits.len() < self.limit() {
            self.some_words(&whole, &before)?;
        }
        Ok(())
    }

    /// Adds finds from `cursor` on; gives whether there are no more of the kind.
    fn stage(&mut self, query: &Query, before: &[Query], mut cursor: Cursor) -> Result<bool> {
        let answer = if cursor.unfinished { Answer::Beginning } else { Answer::Words };
        let mut walk = self.walk(Wanted { query, ranking: query, before, answer });
        loop {
            let mut window = walk.window(cursor.titles, cursor.messages, self.most())?;
            window.hits.sort_by(|a, b| a.rank.order(&b.rank));
            if let Some(last) = cursor.last {
                window.hits.retain(|hit| last.order(&hit.rank).is_lt());
            }
            let room = self.limit() - self.hits.len();
            let is_more = window.hits.len() > room;
            let last = window.hits.get(room.wrapping_sub(1)).map(|hit| hit.rank);
            self.hits.extend(window.hits.drain(..window.hits.len().min(room)));
            if is_more {
                self.next = Some(within(cursor, &window, last.or(cursor.last)));
                return Ok(false);
            }
            let next = after(cursor, &window);
            if window.is_cut {
                self.is_partial = true;
                self.next = Some(next).filter(|next| *next != cursor);
                return Ok(false);
            }
            if window.is_end {
                return Ok(true);
            }
            if self.hits.len() == self.limit() {
                self.next = Some(next);
                return Ok(false);
            }
            cursor = next;
        }
    }

    /// Fills up with what has some of the words, the best of the newest for each.
    fn some_words(&mut self, whole: &Query, before: &[Query]) -> Result<()> {
        let mut found: Vec<Ranked> = Vec::new();
        let mut taken = HashSet::new();
        for clause in &whole.clauses {
            let one = Query::only(clause);
            let wanted = Wanted { query: &one, ranking: whole, before, answer: Answer::Some };
            let mut walk = self.walk(wanted);
            let window = walk.window(Stretch::below(0), Stretch::default(), self.most())?;
            self.is_partial |= window.is_cut;
            found.extend(window.hits.into_iter().filter(|hit| taken.insert(hit.rank.key)));
            if window.is_cut {
                break;
            }
        }
        found.sort_by(|a, b| a.rank.order(&b.rank));
        found.truncate(self.limit() - self.hits.len());
        self.hits.append(&mut found);
        Ok(())
    }
}

/// The same window, after a find in it.
fn within(cursor: Cursor, window: &Window, last: Option<Rank>) -> Cursor {
    let titles = Stretch { from: Some(window.titles), ..cursor.titles };
    let messages = Stretch { from: Some(window.messages), ..cursor.messages };
    Cursor { titles, messages, last, ..cursor }
}

/// The window after this one.
fn after(cursor: Cursor, window: &Window) -> Cursor {
    let (titles, messages) = (Stretch::below(window.titles), Stretch::below(window.messages));
    Cursor { titles, messages, last: None, ..cursor }
}

/// Finds as they leave: their texts and the titles above them without secrets.
struct Showing<'a> {
    connection: &'a Connection,
    search: &'a Search,
    unfinished: Option<Query>,
    one: CachedStatement<'a>,
    /// The last title that was masked: many finds are in the same session.
    title: Option<(Rc<Told>, Option<String>)>,
}

impl<'a> Showing<'a> {
    fn new(connection: &'a Connection, search: &'a Search) -> Result<Self> {
        let one = connection.prepare_cached(&said::ONE)?;
        let unfinished = search.query.unfinished();
        Ok(Self { connection, search, unfinished, one, title: None })
    }

    fn all(&mut self, found: Vec<Ranked>) -> Result<Vec<Hit>> {
        found.into_iter().map(|one| self.shown(one)).collect()
    }

    fn shown(&mut self, found: Ranked) -> Result<Hit> {
        let Ranked { rank, session, place, answer } = found;
        let excerpt = if rank.is_message {
            let mut rows = self.one.query([rank.key])?;
            let said = match rows.next()? {
                Some(row) => said::said(self.connection, row, self.search)?,
                None => Reading::Nothing,
            };
            let text = match said {
                Reading::Said(said) => said.text,
                Reading::Nothing | Reading::Damaged => Cow::Borrowed(""),
            };
            excerpt(self.search, self.unfinished.as_ref(), answer, &text)
        } else {
            let session = session_by_no(self.connection, rank.key / 2)?.map(|row| row.session);
            let is_title = rank.key % 2 == 0;
            let text = session.and_then(|own| if is_title { own.title } else { own.summary });
            let text = text.unwrap_or_default();
            let text = self.search.redactor.redact(&text).text;
            excerpt(self.search, self.unfinished.as_ref(), answer, &text)
        };
        let title = self.title(&session);
        Ok(Hit { session: session.id, title, place, answer, excerpt, score: rank.score })
    }

    fn title(&mut self, session: &Rc<Told>) -> Option<String> {
        if let Some((last, title)) = &self.title
            && Rc::ptr_eq(last, session)
        {
            return title.clone();
        }
        let masked = |title: &String| self.search.redactor.redact(title).text.into_owned();
        let title = session.title.as_ref().map(masked);
        self.title = Some((session.clone(), title.clone()));
        title
    }
}

/// The text around a find.
fn excerpt(search: &Search, unfinished: Option<&Query>, answer: Answer, text: &str) -> String {
    let query = match answer {
        Answer::Words | Answer::Some => &search.query,
        Answer::Beginning => unfinished.unwrap_or(&search.query),
    };
    search::excerpt(query, text, EXCERPT)
}
