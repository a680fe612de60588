//! Going through the store for what matches, from the newest key down.

use std::borrow::Cow;
use std::collections::HashMap;

use rethread_domain::search::{self, Answer, Hit, Place, Query, Rank, Stretch};
use rethread_domain::{Message, Seq, Session, SessionId};
use rusqlite::{Connection, OptionalExtension, Rows};

use super::super::damage::{self, session_by_no};
use super::super::index;
use super::super::rows::{self, MessageRow, seq_of};
use super::super::scope::{Scope, open_body};
use super::chosen::{all_of, expression, few_sessions, fits};
use super::meter::{Meter, is_interrupted};
use crate::error::Result;
use crate::search::Search;

/// How much of a long text counts for its rank.
const RANKED_BYTES: usize = 8 * 1024;
const EXCERPT: usize = 160;
/// A find in a title or summary counts for more than one in the text.
const TITLE_BONUS: f64 = 0.5;

const MESSAGES: &str = "select rowid from message_index where message_index match ?1
    and rowid between ?2 and ?3 order by rowid desc";
const TITLES: &str = "select rowid from title_index where title_index match ?1
    and rowid between ?2 and ?3 and rowid / 2 not in (select no from session where title_indexed = 0)
    order by rowid desc";

/// A find. Its excerpt is cut when it is known to be shown.
pub(super) struct Ranked {
    pub(super) hit: Hit,
    pub(super) rank: Rank,
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

/// A session that has a message, with the part of the other's messages that it shares.
struct Owner {
    session: Session,
    lo: Seq,
    hi: Seq,
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
    query: &'a Query,
    /// What finds are ranked by.
    ranking: &'a Query,
    /// What matches these was found before.
    before: &'a [Query],
    answer: Answer,
    /// What the index finds has to be read: it cannot tell by itself, or holds what must not be found.
    has_to_be_read: bool,
    /// Who has the messages of a session: itself and its forks, as far as they fit the filter.
    owners: HashMap<i64, Vec<Owner>>,
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
        query: &'a Query,
        before: &'a [Query],
        answer: Answer,
    ) -> Self {
        Self {
            connection,
            search,
            meter,
            query,
            ranking: query,
            before,
            answer,
            has_to_be_read: true,
            owners: HashMap::new(),
            hits: Vec::new(),
            most: 0,
            reached: 0,
        }
    }

    pub(super) fn ranked_by(&mut self, query: &'a Query) {
        self.ranking = query;
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
        let mut statement = self.connection.prepare_cached(TITLES)?;
        let expression = all_of(&self.query.clauses);
        let found = self.meter.opening(|| {
            let mut rows = statement.query((&expression, lo, hi))?;
            let first: Option<i64> = rows.next()?.map(|row| row.get(0)).transpose()?;
            Ok((first, rows))
        })?;
        // Where the index cannot tell, every session is looked at.
        let mut which = "select no from session order by no desc";
        if let Some((first, mut rows)) = found {
            which = "select no from session where title_indexed = 0 order by no desc";
            keys.extend(first);
            while let Some(row) = rows.next()? {
                keys.push(row.get(0)?);
            }
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
        if !self.is_in_session(&row.session) || !fits(self.connection, &self.search.filter, no)? {
            return Ok(());
        }
        self.reached = key;
        let text = self.search.redactor.redact(text).text;
        self.meter.read(&text);
        if !self.query.matches(&text) || self.was_before(&text) {
            return Ok(());
        }
        let score = search::score(self.ranking, &text) + TITLE_BONUS;
        let at = row.session.last_active_at;
        self.hits.push(Ranked {
            rank: Rank { score, at, is_message: false, key },
            hit: Hit {
                session: row.session.id,
                title: row.session.title.clone(),
                place: if is_title { Place::Title } else { Place::Summary },
                answer: self.answer,
                excerpt: String::new(),
                score,
            },
        });
        Ok(())
    }

    fn is_in_session(&self, session: &Session) -> bool {
        self.search.filter.session.is_none_or(|id| id == session.id)
    }

    fn was_before(&self, text: &str) -> bool {
        self.before.iter().any(|query| query.matches(text))
    }

    fn messages(&mut self, lo: i64, hi: i64) -> Result<Flow> {
        self.has_to_be_read = self.query.has_to_be_read()
            || self.search.redactor.has_known()
            || !index::is_current(self.connection)?;
        let expression = expression(self.connection, self.query, &self.search.filter)?;
        let ranges: Vec<_> =
            self.ranges()?.into_iter().filter_map(|at| within(at, (lo, hi))).collect();
        let (Some(first), Some(last)) = (ranges.last(), ranges.first()) else {
            return Ok(Flow::On);
        };
        let lagging = self.lagging()?;
        // A beginning stands for many words, which are brought together anew each time: once is enough.
        let pieces =
            if self.query.has_beginnings() { vec![(first.0, last.1)] } else { ranges.clone() };
        for piece in pieces {
            let scans: Vec<_> = lagging.iter().filter_map(|at| within(*at, piece)).collect();
            let mut statement = self.connection.prepare_cached(MESSAGES)?;
            let found = self.meter.opening(|| {
                let mut rows = statement.query((&expression, piece.0, piece.1))?;
                let first: Option<i64> = rows.next()?.map(|row| row.get(0)).transpose()?;
                Ok((first, rows))
            })?;
            let flow = match found {
                Some((first, rows)) => self.indexed(piece, first, rows, scans)?,
                // Where so much begins alike, the newest messages have it soon.
                None => {
                    self.scan_all(ranges.iter().filter_map(|at| within(*at, piece)).collect())?
                }
            };
            if flow == Flow::Full {
                return Ok(Flow::Full);
            }
        }
        Ok(Flow::On)
    }

    /// Takes what the index found in a stretch, and what it lacks there, in the order of keys.
    fn indexed(
        &mut self,
        piece: (i64, i64),
        first: Option<i64>,
        mut rows: Rows<'_>,
        mut scans: Vec<(i64, i64)>,
    ) -> Result<Flow> {
        scans.reverse();
        let mut next = first;
        loop {
            let above = next.unwrap_or(piece.0 - 1);
            while let Some((lo, hi)) = scans.pop_if(|(_, hi)| *hi > above) {
                if lo <= above {
                    scans.push((lo, above));
                }
                if self.scan(lo.max(above + 1), hi)? == Flow::Full {
                    return Ok(Flow::Full);
                }
            }
            let Some(key) = next else { return Ok(Flow::On) };
            self.check()?;
            self.message(key)?;
            if self.flow() == Flow::Full {
                return Ok(Flow::Full);
            }
            next = rows.next()?.map(|row| row.get(0)).transpose()?;
        }
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
        let sql = rows::select_message("where id between ?1 and ?2 order by id desc");
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut found = statement.query((lo, hi))?;
        while let Some(row) = found.next()? {
            self.check()?;
            let key: i64 = row.get(0)?;
            if let Some((id, title)) = self.owner(key >> 32, seq_of(key))? {
                self.take(key, id, title, rows::message(row)?, true)?;
            }
            if self.flow() == Flow::Full {
                return Ok(Flow::Full);
            }
        }
        Ok(Flow::On)
    }

    /// Takes a message that the index found, if the filter lets it.
    fn message(&mut self, key: i64) -> Result<()> {
        let Some((id, title)) = self.owner(key >> 32, seq_of(key))? else { return Ok(()) };
        let sql = rows::select_message("where id = ?1");
        let row =
            self.connection.prepare_cached(&sql)?.query_row([key], rows::message).optional()?;
        row.map_or(Ok(()), |row| self.take(key, id, title, row, self.has_to_be_read))
    }

    fn take(
        &mut self,
        key: i64,
        session: SessionId,
        title: Option<String>,
        mut row: MessageRow,
        has_to_be_read: bool,
    ) -> Result<()> {
        self.reached = key;
        let filter = &self.search.filter;
        let is_wanted = filter.has_time(row.message.at)
            && filter.role.is_none_or(|role| role == row.message.role)
            && row.message.purged_at.is_none()
            && row.damage.is_none();
        if !is_wanted {
            return Ok(());
        }
        open_body(self.connection, &mut row)?;
        self.meter.read(row.message.body.head());
        let text = hidden(&row.message, self.search);
        if has_to_be_read && !self.query.matches(&text) || self.was_before(&text) {
            return Ok(());
        }
        let ranked = &text[..text.floor_char_boundary(RANKED_BYTES)];
        let score = search::score(self.ranking, ranked);
        let (at, role) = (row.message.at, row.message.role);
        self.hits.push(Ranked {
            rank: Rank { score, at, is_message: true, key },
            hit: Hit {
                session,
                title,
                place: Place::Message { seq: row.message.seq, role, at },
                answer: self.answer,
                excerpt: String::new(),
                score,
            },
        });
        Ok(())
    }

    /// A session that has this message and fits the filter: the one it was said in, or else a fork.
    fn owner(&mut self, no: i64, seq: Seq) -> Result<Option<(SessionId, Option<String>)>> {
        if !self.owners.contains_key(&no) {
            let owners = self.owners_of(no)?;
            self.owners.insert(no, owners);
        }
        let owners = self.owners.get(&no).map_or(&[][..], Vec::as_slice);
        let found = owners.iter().find(|owner| (owner.lo..=owner.hi).contains(&seq));
        Ok(found.map(|owner| (owner.session.id, owner.session.title.clone())))
    }

    fn owners_of(&self, no: i64) -> Result<Vec<Owner>> {
        let mut shares = vec![(no, 1, Seq::MAX)];
        let mut statement = self.connection.prepare_cached(
            "select session, lo, hi from segment where source = ?1 order by session",
        )?;
        let forks = statement.query_map([no], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        shares.extend(forks.collect::<rusqlite::Result<Vec<_>>>()?);
        let mut owners = Vec::new();
        for (no, lo, hi) in shares {
            if let Some(row) = session_by_no(self.connection, no)?
                && self.is_in_session(&row.session)
                && fits(self.connection, &self.search.filter, no)?
            {
                owners.push(Owner { session: row.session, lo, hi });
            }
        }
        Ok(owners)
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
        ranges.sort_unstable();
        ranges.dedup();
        ranges.reverse();
        Ok(ranges)
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

impl Ranked {
    /// The text in which it was found, without secrets.
    pub(super) fn text(&self, connection: &Connection, search: &Search) -> Result<String> {
        let (key, redactor) = (self.rank.key, &search.redactor);
        if self.rank.is_message {
            let sql = rows::select_message("where id = ?1");
            let mut row = connection.prepare_cached(&sql)?.query_row([key], rows::message)?;
            open_body(connection, &mut row)?;
            return Ok(hidden(&row.message, search).into_owned());
        }
        let session = session_by_no(connection, key / 2)?.map(|row| row.session);
        let is_title = key % 2 == 0;
        let text = session.and_then(|own| if is_title { own.title } else { own.summary });
        Ok(redactor.redact(&text.unwrap_or_default()).text.into_owned())
    }
}

pub(super) fn excerpt(query: &Query, text: &str) -> String {
    search::excerpt(query, text, EXCERPT)
}

/// A text as it can be searched, without values that are known either.
fn hidden<'a>(message: &'a Message, search: &Search) -> Cow<'a, str> {
    match index::searchable(message) {
        Cow::Borrowed(text) if search.redactor.has_known() => search.redactor.redact(text).text,
        Cow::Owned(text) if search.redactor.has_known() => {
            Cow::Owned(search.redactor.redact(&text).text.into_owned())
        }
        text => text,
    }
}

/// What two stretches have in common.
fn within(one: (i64, i64), other: (i64, i64)) -> Option<(i64, i64)> {
    let (lo, hi) = (one.0.max(other.0), one.1.min(other.1));
    (lo <= hi).then_some((lo, hi))
}
