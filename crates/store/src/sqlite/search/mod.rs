//! Searching: candidates from the index, newest first and bounded; filters before the bound, so that they never
//! make a search miss what matches; ranking in the domain.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use rethread_domain::search::{self, Clause, Filter, Hit, Place, Query};
use rethread_domain::{Seq, Session, SessionId};
use rusqlite::{Connection, OptionalExtension, params_from_iter};

use super::damage::{self, session_by_no};
use super::index::{self, quoted};
use super::read::{self, Chosen};
use super::rows::{self, MessageRow, seq_of};
use super::scope::{Scope, Segment, open_body};
use crate::error::Result;
use crate::types::{Order, Span};

/// How many finds are ranked at least.
const CANDIDATES: usize = 100;
/// How much of a long text counts for its rank.
const RANKED_BYTES: usize = 8 * 1024;
/// Up to so many sessions are looked through one by one when a filter names them.
const FEW_SESSIONS: usize = 64;
/// Months in a filter that are looked up by their terms.
const MOST_MONTHS: i64 = 240;
const EXCERPT: usize = 160;
/// A find in a title or summary counts for more than one in the text.
const TITLE_BONUS: f64 = 0.5;

pub(super) fn search(
    connection: &Connection,
    query: &Query,
    filter: &Filter,
    limit: u32,
) -> Result<Vec<Hit>> {
    if query.is_empty() || limit == 0 {
        return Ok(Vec::new());
    }
    let most = CANDIDATES.max(limit as usize);
    let mut search = Search {
        connection,
        query,
        filter,
        most,
        owners: HashMap::new(),
        hits: Vec::new(),
        taken: HashSet::new(),
    };
    search.titles()?;
    search.messages(&all_of(&query.clauses))?;
    search.unindexed()?;
    if search.hits.len() < limit as usize && query.clauses.len() > 1 && query.phrases.is_empty() {
        for clause in &query.clauses {
            search.messages(&all_of(std::slice::from_ref(clause)))?;
        }
    }
    let mut hits = search.hits;
    hits.sort_by(|a, b| {
        let by_score = b.hit.score.total_cmp(&a.hit.score);
        by_score.then(b.at.cmp(&a.at)).then(a.hit.session.cmp(&b.hit.session))
    });
    hits.truncate(limit as usize);
    hits.into_iter().map(|ranked| ranked.shown(connection, query)).collect()
}

/// A find. Its excerpt is cut when it is known to be shown.
struct Ranked {
    hit: Hit,
    source: Source,
    at: Timestamp,
}

enum Source {
    Message(i64),
    Text(String),
}

impl Ranked {
    fn shown(mut self, connection: &Connection, query: &Query) -> Result<Hit> {
        let text = match self.source {
            Source::Text(text) => text,
            Source::Message(key) => {
                let sql = rows::select_message("where id = ?1");
                let mut row = connection.prepare_cached(&sql)?.query_row([key], rows::message)?;
                open_body(connection, &mut row)?;
                row.message.body.head().to_owned()
            }
        };
        self.hit.excerpt = search::excerpt(query, &text, EXCERPT);
        Ok(self.hit)
    }
}

/// A session that has a message, with the part of the other's messages that it shares.
struct Owner {
    session: Session,
    lo: Seq,
    hi: Seq,
}

struct Search<'a> {
    connection: &'a Connection,
    query: &'a Query,
    filter: &'a Filter,
    /// How many finds are ranked.
    most: usize,
    /// Who has the messages of a session: itself and its forks, as far as they fit the filter.
    owners: HashMap<i64, Vec<Owner>>,
    hits: Vec<Ranked>,
    /// The keys of the messages among them.
    taken: HashSet<i64>,
}

impl Search<'_> {
    fn titles(&mut self) -> Result<()> {
        if self.filter.is_about_messages() {
            return Ok(());
        }
        let mut statement = self.connection.prepare_cached(
            "select rowid from title_index where title_index match ?1
                and rowid / 2 not in (select no from session where title_indexed = 0)
             order by rowid desc",
        )?;
        let mut found = statement.query([all_of(&self.query.clauses)])?;
        while let Some(row) = found.next()? {
            let key: i64 = row.get(0)?;
            if self.hits.len() >= self.most {
                break;
            }
            self.title(key / 2, key % 2 == 0)?;
        }
        let sql = "select no from session where title_indexed = 0";
        let lacking: Vec<i64> = self
            .connection
            .prepare_cached(sql)?
            .query_map([], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        for no in lacking {
            self.title(no, true)?;
            self.title(no, false)?;
        }
        Ok(())
    }

    fn title(&mut self, no: i64, is_title: bool) -> Result<()> {
        let Some(row) = session_by_no(self.connection, no)? else { return Ok(()) };
        let text = if is_title { row.session.title.clone() } else { row.session.summary.clone() };
        let Some(text) = text.filter(|text| self.query.matches(text)) else { return Ok(()) };
        if self.is_in_session(&row.session) && fits(self.connection, self.filter, no)? {
            self.hits.push(Ranked {
                at: row.session.last_active_at,
                hit: Hit {
                    session: row.session.id,
                    title: row.session.title,
                    place: if is_title { Place::Title } else { Place::Summary },
                    excerpt: String::new(),
                    score: search::score(self.query, &text) + TITLE_BONUS,
                },
                source: Source::Text(text),
            });
        }
        Ok(())
    }

    fn is_in_session(&self, session: &Session) -> bool {
        self.filter.session.is_none_or(|id| id == session.id)
    }

    fn messages(&mut self, words: &str) -> Result<()> {
        let expression = format!("{words}{}{}", self.role_part(), self.time_part()?);
        let mut room = self.most;
        for (lo, hi) in self.ranges()? {
            let mut statement = self.connection.prepare_cached(
                "select rowid from message_index where message_index match ?1 and rowid between ?2 and ?3
                 order by rowid desc",
            )?;
            let mut found = statement.query((&expression, lo, hi))?;
            while let Some(row) = found.next()? {
                if room == 0 {
                    return Ok(());
                }
                room -= usize::from(self.message(row.get(0)?)?);
            }
        }
        Ok(())
    }

    /// Takes a message that the index found, if the filter lets it; gives whether.
    fn message(&mut self, key: i64) -> Result<bool> {
        let (no, seq) = (key >> 32, seq_of(key));
        if self.taken.contains(&key) {
            return Ok(false);
        }
        let Some((id, title)) = self.owner(no, seq)? else { return Ok(false) };
        let sql = rows::select_message("where id = ?1");
        let row =
            self.connection.prepare_cached(&sql)?.query_row([key], rows::message).optional()?;
        let Some(row) = row else { return Ok(false) };
        self.take(key, id, title, row)
    }

    fn take(
        &mut self,
        key: i64,
        session: SessionId,
        title: Option<String>,
        mut row: MessageRow,
    ) -> Result<bool> {
        let is_wanted = self.filter.has_time(row.message.at)
            && self.filter.role.is_none_or(|role| role == row.message.role)
            && row.message.purged_at.is_none()
            && row.damage.is_none();
        if !is_wanted {
            return Ok(false);
        }
        if self.query.has_to_be_read() {
            open_body(self.connection, &mut row)?;
            if !self.query.is_met_by(row.message.body.head()) {
                return Ok(false);
            }
        }
        let text = row.message.body.head();
        let text = &text[..text.floor_char_boundary(RANKED_BYTES)];
        let (at, role) = (row.message.at, row.message.role);
        self.taken.insert(key);
        self.hits.push(Ranked {
            source: Source::Message(key),
            at,
            hit: Hit {
                session,
                title,
                place: Place::Message { seq: row.message.seq, role, at },
                excerpt: String::new(),
                score: search::score(self.query, text),
            },
        });
        Ok(true)
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
                && fits(self.connection, self.filter, no)?
            {
                owners.push(Owner { session: row.session, lo, hi });
            }
        }
        Ok(owners)
    }

    /// The keys to look at, newest first: everything, or those of the few sessions that a filter leaves.
    fn ranges(&self) -> Result<Vec<(i64, i64)>> {
        let everything = vec![(0, i64::MAX)];
        let sessions = match self.filter.session {
            Some(id) => vec![rows::session_by_id(self.connection, id)?],
            None => match few_sessions(self.connection, self.filter)? {
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

    fn role_part(&self) -> String {
        self.filter
            .role
            .map_or_else(String::new, |role| format!(" AND {}", quoted(&index::role_term(role))))
    }

    /// The months of a filter in time, where they are not too many to name.
    fn time_part(&self) -> Result<String> {
        let Some(since) = self.filter.since else { return Ok(String::new()) };
        let until = match self.filter.until {
            Some(until) => until,
            None => read::last_active(self.connection)?.unwrap_or(since),
        };
        let (from, to) = (index::month_of(since), index::month_of(until));
        if to < from || to - from > MOST_MONTHS {
            return Ok(String::new());
        }
        let months: Vec<String> =
            (from..=to).map(|month| quoted(&index::month_term(month))).collect();
        Ok(format!(" AND ({})", months.join(" OR ")))
    }

    /// What the index lacks is looked through: a store that cannot be written to is searched all the same.
    fn unindexed(&mut self) -> Result<()> {
        let sql = rows::select_session("where indexed_seq < last_seq");
        let mut statement = self.connection.prepare_cached(&sql)?;
        let lagging = damage::sessions(self.connection, &mut statement, [])?;
        for row in lagging {
            let own = Scope {
                segments: vec![Segment {
                    lo: row.indexed + 1,
                    hi: row.session.last_seq,
                    source: row.no,
                }],
            };
            let span = Span { from: 1, to: Seq::MAX, order: Order::NewestFirst, limit: u32::MAX };
            let connection = self.connection;
            let mut room = self.most;
            own.visit(connection, span, |mut message| {
                open_body(connection, &mut message)?;
                let seq = message.message.seq;
                if self.query.matches(message.message.body.head())
                    && let Some((id, title)) = self.owner(row.no, seq)?
                {
                    let key = rows::key(row.no, seq);
                    room -= usize::from(self.take(key, id, title, message)?);
                }
                Ok(room > 0)
            })?;
        }
        Ok(())
    }
}

/// Whether a session is among those that a filter asks for.
fn fits(connection: &Connection, filter: &Filter, no: i64) -> Result<bool> {
    let mut chosen = chosen(filter);
    chosen.add("no = ?", Some(no.into()));
    let sql = format!("select 1 from session {}", chosen.condition());
    Ok(connection.prepare_cached(&sql)?.exists(params_from_iter(&chosen.values))?)
}

fn chosen(filter: &Filter) -> Chosen {
    let mut chosen = Chosen::default();
    chosen.names(
        filter.user.as_ref(),
        filter.project.as_ref(),
        filter.kind.as_ref(),
        filter.agent.as_ref(),
    );
    if let Some(status) = filter.status {
        chosen.add("status = ?", Some(rows::status_number(status).into()));
    }
    chosen.add("deleted_at is null", None);
    chosen
}

/// The sessions that a filter leaves, if they are few.
fn few_sessions(connection: &Connection, filter: &Filter) -> Result<Option<Vec<rows::SessionRow>>> {
    let chosen = chosen(filter);
    if chosen.values.is_empty() {
        return Ok(None);
    }
    let sql = format!("{} limit {}", chosen.condition(), FEW_SESSIONS + 1);
    let mut statement = connection.prepare_cached(&rows::select_session(&sql))?;
    let few = damage::sessions(connection, &mut statement, params_from_iter(&chosen.values))?;
    Ok((few.len() <= FEW_SESSIONS).then_some(few))
}

fn all_of(clauses: &[Clause]) -> String {
    let terms = clauses.iter().flat_map(|clause| {
        let last = clause.terms.len() - 1;
        clause.terms.iter().enumerate().map(move |(at, term)| {
            if clause.prefix && at == last {
                let short = clause.short_stems();
                let mut either = vec![format!("{} *", quoted(term))];
                either.extend(short.iter().map(|stem| quoted(stem)));
                format!("({})", either.join(" OR "))
            } else {
                quoted(term)
            }
        })
    });
    format!("({})", terms.collect::<Vec<_>>().join(" AND "))
}
