//! Facts: starting a session, changing it, forking it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::LazyLock;

use jiff::Timestamp;
use rethread_domain::conversation::TitleFrom;
use rethread_domain::feed::Kind;
use rethread_domain::message::{DAMAGED, NewMessage};
use rethread_domain::opening::Watermark;
use rethread_domain::session::{Beginning, FactRecord, Origin};
use rethread_domain::{Conversation, Fact, Seq, Session, SessionId, retell};

use super::append::count_run;
use super::columns::{Checked, Columns};
use super::damage::{self, Damage};
use super::feed;
use super::index;
use super::openings;
use super::rows::{self, MessageRow, SessionRow};
use super::scope::{Scope, Segment};
use super::sql::{Connection, OptionalExtension, Rows};
use super::summed::summed;
use super::talks;
use crate::error::{Error, Result};
use crate::types::{Order, Span};

pub(super) fn start(
    connection: &Connection,
    id: SessionId,
    beginning: Beginning,
    at: Timestamp,
) -> Result<Session> {
    let mut session = Session::start(id, beginning.clone(), at);
    retell::price_session(&mut session);
    let no = rows::insert_session(connection, &session, 0)?;
    insert(connection, no, &session, &Fact::Started(beginning), at)?;
    feed::tell_fact(connection, &session, Kind::SessionStarted, at)?;
    Ok(session)
}

/// Writes a fact whose count the session already has.
fn insert(
    connection: &Connection,
    no: i64,
    session: &Session,
    fact: &Fact,
    at: Timestamp,
) -> Result<()> {
    let what = serde_json::to_string(fact).map_err(|error| Error::Failed(error.to_string()))?;
    connection
        .prepare_cached(summed!(
            "insert into fact (session, n, after, at, what) values (?1, ?2, ?3, ?4, ?5)"
        ))?
        .execute((no, session.facts, session.last_seq, rows::micros(at), what))?;
    Ok(())
}

/// Applies a fact and writes it down; the session's row is still to be written.
pub(super) fn add(
    connection: &Connection,
    row: &mut SessionRow,
    fact: &Fact,
    at: Timestamp,
) -> Result<()> {
    row.session.apply(fact, at);
    retell::price_session(&mut row.session);
    talks::note(connection, row.no, fact)?;
    openings::count(connection, &row.session.user, fact)?;
    insert(connection, row.no, &row.session, fact, at)
}

/// The same, and the feed tells it.
pub(super) fn add_told(
    connection: &Connection,
    row: &mut SessionRow,
    fact: &Fact,
    at: Timestamp,
) -> Result<()> {
    let kind = Kind::of_fact(fact, &row.session);
    add(connection, row, fact, at)?;
    feed::tell_fact(connection, &row.session, kind, at)
}

pub(super) fn change(
    connection: &Connection,
    id: SessionId,
    decided_on: u32,
    fact: &Fact,
    at: Timestamp,
) -> Result<Session> {
    let mut row = rows::session_by_id(connection, id)?;
    if row.session.facts != decided_on {
        return Err(Error::Conflict(id));
    }
    add_told(connection, &mut row, fact, at)?;
    if let Fact::Summarised { conversation: Some(name), summary } = fact {
        for mut conversation in
            conversations(connection, row.no)?.into_iter().filter(|one| one.name == *name)
        {
            conversation.summarise(summary);
            rows::write_conversation(connection, row.no, &conversation)?;
        }
    }
    rows::write_session(connection, row.no, &row.session)?;
    forget_title(connection, row.no)?;
    Ok(row.session)
}

/// The search index has to read title and summary again.
pub(super) fn forget_title(connection: &Connection, no: i64) -> Result<()> {
    connection
        .prepare_cached(summed!(
            "update session set title_indexed = 0 where no = ?1 and title_indexed = 1"
        ))?
        .execute([no])?;
    Ok(())
}

pub(super) fn conversations(connection: &Connection, no: i64) -> Result<Vec<Conversation>> {
    let mut statement =
        connection.prepare_cached(&rows::select_conversation("where session = ?1 order by n"))?;
    damage::conversations(connection, no, &mut statement, [no])
}

/// The conversation of a name, or the one that was last spoken in.
pub(super) fn last_spoken_in(
    connection: &Connection,
    row: &SessionRow,
    name: Option<&str>,
) -> Result<Option<Conversation>> {
    if let Some(name) = name {
        return Ok(conversations(connection, row.no)?.into_iter().find(|one| one.name == name));
    }
    let Some(current) = row.session.current else { return Ok(None) };
    let sql = rows::select_conversation("where session = ?1 and n = ?2");
    let mut statement = connection.prepare_cached(&sql)?;
    let found = damage::conversations(connection, row.no, &mut statement, (row.no, current))?;
    Ok(found.into_iter().next())
}

pub(super) fn facts(connection: &Connection, no: i64) -> Result<Vec<FactRecord>> {
    Ok(numbered(connection, no)?.into_iter().map(|(_, record)| record).collect())
}

/// The facts of a session with their numbers. They have no gaps: in place of one that is not there is a mark. The number
/// of a damaged one may be any, and it may be of another session: whole ones keep their places, and there are no more
/// marks than facts, so that reading costs by what is there.
pub(super) fn numbered(connection: &Connection, no: i64) -> Result<Vec<(u32, FactRecord)>> {
    static SQL: LazyLock<String> =
        LazyLock::new(|| format!("select {FACT}, sum from fact where session = ?1 order by n"));
    let mut statement = connection.prepare_cached(&SQL)?;
    let found = read(statement.query([no])?)?;
    let mut marks = found.len();
    let mut facts: Vec<(u32, FactRecord)> = Vec::with_capacity(found.len());
    let (damaged, mut whole): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|(_, record)| is_damaged(&record.fact));
    let mut damaged: BTreeSet<u32> = damaged.into_iter().map(|(n, _)| n).collect();
    let mark = |facts: &mut Vec<(u32, FactRecord)>, n| {
        facts.push((n, unread(facts.last().map(|(_, record)| record))));
    };
    whole.sort_by_key(|(n, _)| *n);
    for (n, record) in whole {
        let next = facts.last().map_or(1, |(n, _)| n.saturating_add(1));
        for lost in (next..n).take(marks) {
            damaged.remove(&lost);
            mark(&mut facts, lost);
            marks -= 1;
        }
        facts.push((n, record));
    }
    for n in damaged {
        mark(&mut facts, n);
    }
    Ok(facts)
}

/// What stands in place of a fact that is damaged: it came after the one before it.
fn unread(before: Option<&FactRecord>) -> FactRecord {
    let (after, at) = before.map_or((0, Timestamp::UNIX_EPOCH), |record| (record.after, record.at));
    FactRecord { after, at, fact: Fact::Unknown(damage::unread_entry("fact")) }
}

/// How a session was opened, of what came after these messages.
pub(super) fn attached(
    connection: &Connection,
    id: SessionId,
    after: &Range<Seq>,
) -> Result<Vec<(u32, FactRecord)>> {
    let row = rows::session_by_id(connection, id)?;
    let begin = first_after(connection, &row, after.start)?;
    let end = first_after(connection, &row, after.end)?;
    let mut statement = connection.prepare_cached(&format!(
        r#"select {FACT}, sum from fact where session = ?1 and n >= ?2 and n < ?3
            and substr(what, 1, 18) = '{{"what":"attached"' order by n"#,
    ))?;
    read(statement.query((row.no, begin, end))?)
}

/// The first fact that came after message `seq` or a later one. They are numbered in the order in which they came: few are
/// looked at, however many there are.
fn first_after(connection: &Connection, row: &SessionRow, seq: Seq) -> Result<u32> {
    let mut statement =
        connection.prepare_cached("select after from fact where session = ?1 and n = ?2")?;
    let (mut from, mut to) = (1, row.session.facts + 1);
    while from < to {
        let middle = from + (to - from) / 2;
        let after: Option<Seq> =
            statement.query_row((row.no, middle), |row| row.get(0)).optional()?;
        if after.is_some_and(|after| after >= seq) {
            to = middle;
        } else {
            from = middle + 1;
        }
    }
    Ok(from)
}

const FACT: &str = "session, n, after, at, what";
const FACT_COLUMNS: usize = 5;

/// Facts with their numbers. In place of one that is damaged is a mark.
fn read(mut found: Rows<'_>) -> Result<Vec<(u32, FactRecord)>> {
    let mut facts: Vec<(u32, FactRecord)> = Vec::new();
    while let Some(row) = found.next()? {
        let columns = Checked::<FACT_COLUMNS>::of(row)?;
        let known = if columns.is_intact { read_one(&columns) } else { None };
        let next = facts.last().map_or(1, |(n, _)| n.saturating_add(1));
        facts.push(known.unwrap_or_else(|| {
            (row.get(1).unwrap_or(next), unread(facts.last().map(|(_, record)| record)))
        }));
    }
    Ok(facts)
}

fn read_one(row: &impl Columns) -> Option<(u32, FactRecord)> {
    let fact = serde_json::from_str(row.value(4).ok()?.as_str().ok()?).ok()?;
    let (n, after, at) = (row.read(1).ok()?, row.read(2).ok()?, row.time(3).ok()?);
    Some((n, FactRecord { after, at, fact }))
}

/// Whether a mark stands in place of what was damaged.
pub(super) fn is_damaged(fact: &Fact) -> bool {
    matches!(fact, Fact::Unknown(map) if map.get("what").is_some_and(|what| what == DAMAGED))
}

/// Whether the damaged fact is kept elsewhere: then the mark is all that there is to it.
pub(super) fn is_set_aside(fact: &Fact) -> bool {
    is_damaged(fact) && matches!(fact, Fact::Unknown(map) if map.contains_key("kept"))
}

/// A new session over the same messages: nothing is copied but what sums them up.
pub(super) fn fork(
    connection: &Connection,
    source: SessionId,
    at_seq: Seq,
    id: SessionId,
    at: Timestamp,
) -> Result<Session> {
    let origin = rows::session_by_id(connection, source)?;
    origin.session.can_resume()?;
    if at_seq > origin.session.last_seq {
        return Err(Error::NoMessage(source, at_seq));
    }
    let mut beginning = origin.session.beginning(origin.session.title.clone());
    beginning.forked_from = Some(Origin { session: source, seq: at_seq });
    beginning.parent = None;
    if let Some(FactRecord { fact: Fact::Started(before), .. }) =
        facts(connection, origin.no)?.first()
    {
        // Not the agent that spoke first: that is known again from what is shared.
        beginning.agent.clone_from(&before.agent);
    }
    index::reach(connection, &origin, at_seq)?;
    let scope = Scope::of(connection, &origin)?;
    let names = conversations(connection, origin.no)?;
    let mut fold = Fold::new(Session::start(id, beginning.clone(), at));
    if at_seq == origin.session.last_seq {
        fold.take_over(connection, &origin, &names)?;
    } else {
        let span = Span { from: 1, to: at_seq, order: Order::OldestFirst, limit: u32::MAX };
        let opened =
            |n: u32| names.iter().find(|one| one.n == n).map_or("", |one| one.name.as_str());
        scope.visit(connection, span, |message| {
            fold.hear(&message, opened(message.conversation));
            Ok(true)
        })?;
    }
    for conversation in fold.conversations.values_mut() {
        let summary =
            names.iter().find(|one| one.n == conversation.n).and_then(|one| one.summary.as_ref());
        if let Some(summary) = summary.filter(|summary| summary.upto <= at_seq) {
            conversation.summarise(summary);
        }
    }
    fold.begin_at(at);
    let no = rows::insert_session(connection, &fold.session, at_seq)?;
    insert(connection, no, &fold.session, &Fact::Started(beginning), at)?;
    // The facts that follow are how it began: this tells them all.
    feed::tell_fact(connection, &fold.session, Kind::SessionStarted, at)?;
    let mut row = SessionRow {
        no,
        session: fold.session,
        base: at_seq,
        indexed: at_seq,
        epoch: 0,
        damaged: false,
    };
    if let Some(title) =
        origin.session.title.filter(|_| origin.session.title_from == TitleFrom::Person)
    {
        // A name that a person gave stays one.
        add(connection, &mut row, &Fact::Titled { title, from: TitleFrom::Person }, at)?;
    }
    open_all(connection, &mut row, &fold.conversations, at)?;
    share(connection, no, &fold.runs, &scope.clipped(at_seq))?;
    rows::write_session(connection, no, &row.session)?;
    Ok(row.session)
}

/// Tells and writes the conversations that a fork begins with.
fn open_all(
    connection: &Connection,
    row: &mut SessionRow,
    conversations: &BTreeMap<u32, Conversation>,
    at: Timestamp,
) -> Result<()> {
    for conversation in conversations.values() {
        let fact = Fact::Opened { n: conversation.n, name: conversation.name.clone() };
        add(connection, row, &fact, at)?;
        if let Some(summary) = &conversation.summary {
            let fact = Fact::Summarised {
                conversation: Some(conversation.name.clone()),
                summary: summary.clone(),
            };
            add(connection, row, &fact, at)?;
        }
        rows::write_conversation(connection, row.no, conversation)?;
    }
    Ok(())
}

/// Writes down what a fork shares.
fn share(
    connection: &Connection,
    no: i64,
    runs: &BTreeMap<String, u32>,
    segments: &[Segment],
) -> Result<()> {
    for (agent, runs) in runs {
        count_run(connection, no, agent, *runs)?;
    }
    for segment in segments {
        connection.execute(
            summed!("insert into segment (session, lo, hi, source) values (?1, ?2, ?3, ?4)"),
            (no, segment.lo, segment.hi, segment.source),
        )?;
    }
    Ok(())
}

/// The view of a session, made from its log.
pub(super) struct Fold {
    pub(super) session: Session,
    pub(super) conversations: BTreeMap<u32, Conversation>,
    pub(super) runs: BTreeMap<String, u32>,
    /// By conversation and agent.
    pub(super) watermarks: BTreeMap<(String, String), Watermark>,
    /// Whether a part of the log cannot be read: then the rest does not amount to what the rows say.
    pub(super) is_damaged: bool,
}

impl Fold {
    pub(super) fn new(session: Session) -> Self {
        Self {
            session,
            conversations: BTreeMap::new(),
            runs: BTreeMap::new(),
            watermarks: BTreeMap::new(),
            is_damaged: false,
        }
    }

    /// The sums of another session, whole.
    fn take_over(
        &mut self,
        connection: &Connection,
        origin: &SessionRow,
        names: &[Conversation],
    ) -> Result<()> {
        self.session.last_seq = origin.session.last_seq;
        self.session.counters = origin.session.counters;
        self.session.current = origin.session.current;
        self.session.turn = origin.session.turn;
        self.session.agent.clone_from(&origin.session.agent);
        self.session.prices.head = None;
        self.conversations = names.iter().map(|one| (one.n, one.clone())).collect();
        self.runs = super::read::agent_runs(connection, origin.no, u32::MAX)?
            .into_iter()
            .map(|agent| (agent.name, agent.usage_count))
            .collect();
        Ok(())
    }

    /// A fork begins when it is made, whatever it shares.
    pub(super) fn begin_at(&mut self, at: Timestamp) {
        let latest = self.conversations.values().map(|conversation| conversation.last_at).max();
        self.session.started_at = at;
        self.session.last_active_at = latest.map_or(at, |latest| latest.max(at));
    }

    pub(super) fn hear(&mut self, row: &MessageRow, name: &str) {
        self.is_damaged |= row.damage.is_some_and(|damage| damage != Damage::SetAside);
        let message = &row.message;
        let conversation = self
            .conversations
            .entry(row.conversation)
            .or_insert_with(|| Conversation::open(row.conversation, name, message.at));
        let heard = NewMessage {
            id: None,
            role: message.role,
            content: message.body.head().to_owned(),
            at: message.at,
            conversation: String::new(),
            extras: message.extras.clone(),
            price: message.price.clone(),
        };
        if let Some(agent) = self.session.hear(&heard, conversation).run_of {
            *self.runs.entry(agent).or_insert(0) += 1;
        }
    }

    pub(super) fn apply(&mut self, fact: &Fact, at: Timestamp) {
        self.is_damaged |= is_damaged(fact) && !is_set_aside(fact);
        self.session.apply(fact, at);
        match fact {
            Fact::Summarised { conversation: Some(name), summary } => {
                let own =
                    self.conversations.values_mut().find(|conversation| conversation.name == *name);
                if let Some(conversation) = own {
                    conversation.summarise(summary);
                }
            }
            Fact::Holds(watermark) => {
                let key = (watermark.conversation.clone(), watermark.agent.clone());
                self.watermarks.insert(key, watermark.clone());
            }
            Fact::Forgot { conversation, agent } => {
                self.watermarks.remove(&(conversation.clone(), agent.clone()));
            }
            _ => (),
        }
    }
}
