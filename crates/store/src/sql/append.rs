//! Adding messages: check all of them first, then write, so that a refusal leaves nothing behind.

use std::collections::HashMap;
use std::sync::LazyLock;

use jiff::Timestamp;
use rethread_domain::feed::Kind;
use rethread_domain::message::NewMessage;
use rethread_domain::opening::Watermark;
use rethread_domain::{Conversation, Fact, Seq, Session, Status};

use super::blob;
use super::damage;
use super::extras;
use super::facts;
use super::feed;
use super::rows::{self, SessionRow, key};
use super::scope::{Scope, open_body};
use super::sql::{Connection, params};
use super::summed::summed;
use super::usage::Tally;
use super::{talks, usage};
use crate::crash;
use crate::error::{Error, Result};
use crate::types::{Append, Appended};

/// What becomes of a message.
enum Plan {
    /// It is there already.
    Known(Seq),
    /// It is the same as an earlier one of this append.
    Repeats(usize),
    /// It is new, under its own id or under the one that its place gives it.
    New { given: Option<String> },
}

const WOKEN: Fact = Fact::Moved { to: Status::Active };

pub(super) fn append(connection: &Connection, append: Append) -> Result<Vec<Appended>> {
    let mut row = rows::session_by_id(connection, append.session)?;
    let (plans, request) = admit(connection, &row, &append)?;
    let said_at = append.messages.last().map(|message| message.at);
    let at = append.at.or(said_at).unwrap_or(row.session.last_active_at);
    let mut conversations = HashMap::new();
    let mut tally = Tally::default();
    let mut answers: Vec<Appended> = Vec::with_capacity(plans.len());
    let mut is_retitled = false;
    let before = Before::of(&row.session, &append);
    for (plan, message) in plans.into_iter().zip(append.messages) {
        let answer = match plan {
            Plan::Known(seq) => Appended { seq, is_new: false },
            Plan::Repeats(index) => Appended { seq: answers[index].seq, is_new: false },
            Plan::New { given } => {
                // What is said wakes a paused session; the end of what had been said before does not.
                if append.ends.is_none() && row.session.status() == Status::Paused {
                    facts::add_told(connection, &mut row, &WOKEN, message.at)?;
                }
                let added = (&mut conversations, &mut tally);
                is_retitled |= add(connection, &mut row, added, message, given)?;
                Appended { seq: row.session.last_seq, is_new: true }
            }
        };
        answers.push(answer);
    }
    tally.write(connection, row.no)?;
    crash::point("append.inserted");
    before.note(connection, &mut row, &append.facts, at)?;
    is_retitled |= append.facts.iter().any(|fact| matches!(fact, Fact::Titled { .. }));
    if let Some(what) = append.begins
        && let Some(conversation) = conversations.get(&what.conversation)
    {
        talks::begin(connection, &row, conversation, what, at)?;
    }
    if let Some(watermark) = append.holds {
        let added = answers.iter().filter(|answer| answer.is_new).map(|answer| answer.seq).min();
        let own = conversations.get(&watermark.conversation);
        if let Some(held) = watermark_of(connection, &row, own, watermark, request, added)? {
            facts::add(connection, &mut row, &Fact::Holds(held), at)?;
        }
    }
    for conversation in conversations.values() {
        rows::write_conversation(connection, row.no, conversation)?;
    }
    before.tell_end(connection, &row.session, at)?;
    if is_retitled || row.session.facts != before.facts {
        rows::write_session(connection, row.no, &row.session)?;
    } else if answers.iter().any(|answer| answer.is_new) {
        rows::count_session(connection, row.no, &row.session)?;
    }
    if is_retitled {
        facts::forget_title(connection, row.no)?;
    }
    crash::point("append.counted");
    Ok(answers)
}

/// What there was before an append, to tell what it has changed.
struct Before {
    seq: Seq,
    facts: u32,
    /// Whether the append is more than its messages and facts: a turn begins or ends.
    is_turn: bool,
    has_facts: bool,
}

impl Before {
    fn of(session: &Session, append: &Append) -> Self {
        let is_turn = append.begins.is_some() || append.ends.is_some();
        let has_facts = !append.facts.is_empty();
        Self { seq: session.last_seq, facts: session.facts, is_turn, has_facts }
    }

    /// Tells the messages, then adds the facts that came with them. Of those, what only asks for another look needs
    /// no line beside new messages.
    fn note(
        &self,
        connection: &Connection,
        row: &mut SessionRow,
        facts: &[Fact],
        at: Timestamp,
    ) -> Result<()> {
        feed::tell_messages(connection, &row.session, self.seq, rows::micros(at))?;
        let has_messages = row.session.last_seq > self.seq;
        for fact in facts {
            let kind = Kind::of_fact(fact, &row.session);
            facts::add(connection, row, fact, at)?;
            if !has_messages || kind != Kind::SessionChanged {
                feed::tell_fact(connection, &row.session, kind, at)?;
            }
        }
        Ok(())
    }

    /// A turn that began or ended without a word, or what an agent holds now: nothing else tells it.
    fn tell_end(&self, connection: &Connection, session: &Session, at: Timestamp) -> Result<()> {
        let is_told = self.has_facts || session.last_seq > self.seq;
        if is_told || !self.is_turn && session.facts == self.facts {
            return Ok(());
        }
        feed::tell_fact(connection, session, Kind::SessionChanged, at)
    }
}

/// Whether it is let in: what becomes of its messages, and the request whose turn it ends. Nothing is written where it
/// is not.
fn admit(
    connection: &Connection,
    row: &SessionRow,
    append: &Append,
) -> Result<(Vec<Plan>, Option<Seq>)> {
    if append.epoch.is_some_and(|epoch| epoch != row.epoch) {
        return Err(Error::LostClaim(append.session));
    }
    // What ends a turn is let in, whatever became of the session meanwhile: it was said.
    if append.ends.is_none() {
        row.session.accepts_messages()?;
    }
    let plans = plan(connection, row, &append.messages)?;
    let mut request = None;
    if let Some(conversation) = &append.ends {
        request = talks::end(connection, row.no, conversation)?;
        if request.is_none() {
            return Err(Error::LostClaim(append.session));
        }
    }
    if let Some(what) = append.begins.as_ref().filter(|_| append.messages.is_empty())
        && !talks::begin_again(connection, row, what)?
    {
        return Err(Error::LostClaim(append.session));
    }
    Ok((plans, request))
}

/// The watermark stands at the newest message of the conversation, unless others said something between the request
/// and its answer: that is still to be told.
fn watermark_of(
    connection: &Connection,
    row: &SessionRow,
    own: Option<&Conversation>,
    mut watermark: Watermark,
    request: Option<Seq>,
    added: Option<Seq>,
) -> Result<Option<Watermark>> {
    let own = match own {
        Some(own) => Some(own.clone()),
        None => known(connection, row.no, &watermark.conversation)?,
    };
    let Some(own) = own else { return Ok(None) };
    let request = request.unwrap_or(own.last_seq);
    let is_next = added == Some(request + 1);
    let scope = Scope::of(connection, row)?;
    let (mut missed, mut answer) = (0, None);
    let mut seq = own.last_seq;
    while seq > request && !is_next {
        let Some(message) = scope.message(connection, seq)? else { break };
        if added.is_some_and(|added| seq >= added) {
            answer = Some((seq, answer.map_or(seq, |(_, last)| last)));
        } else {
            missed += 1;
        }
        seq = scope.before(connection, &message, own.n)?;
    }
    watermark.messages = own.messages.saturating_sub(missed);
    (watermark.upto, watermark.beyond) = if missed == 0 {
        (own.last_seq, Vec::new())
    } else {
        (request, answer.into_iter().collect())
    };
    Ok(Some(watermark))
}

fn plan(connection: &Connection, row: &SessionRow, messages: &[NewMessage]) -> Result<Vec<Plan>> {
    if messages.iter().all(|message| message.id.is_none()) {
        return Ok(messages.iter().map(|_| Plan::New { given: None }).collect());
    }
    let scope = Scope::of(connection, row)?;
    let mut next = row.session.last_seq + 1;
    let mut seen: HashMap<&str, usize> = HashMap::new();
    let mut plans = Vec::with_capacity(messages.len());
    for (index, message) in messages.iter().enumerate() {
        let plan = match &message.id {
            None => Plan::New { given: None },
            Some(id) => match seen.get(id.as_str()) {
                Some(earlier) if same(message, &messages[*earlier]) => Plan::Repeats(*earlier),
                Some(_) => return Err(Error::IdTaken { id: id.clone(), seq: next }),
                None => plan_given(connection, row, &scope, message, id, next)?,
            },
        };
        if let Some(id) = &message.id {
            seen.entry(id).or_insert(index);
        }
        next += u32::from(matches!(plan, Plan::New { .. }));
        plans.push(plan);
    }
    Ok(plans)
}

fn same(a: &NewMessage, b: &NewMessage) -> bool {
    a.role == b.role && a.content == b.content
}

fn plan_given(
    connection: &Connection,
    row: &SessionRow,
    scope: &Scope,
    message: &NewMessage,
    id: &str,
    next: Seq,
) -> Result<Plan> {
    let by_place = row.session.id.seq_of(id);
    let known = match by_place {
        Some(seq) if seq == next => return Ok(Plan::New { given: None }),
        Some(seq) if seq > next || seq == 0 => return Err(Error::IdReserved(id.to_owned())),
        Some(seq) => Some(seq),
        None => scope.given(connection, id)?,
    };
    let Some(seq) = known else { return Ok(Plan::New { given: Some(id.to_owned()) }) };
    let taken = || Error::IdTaken { id: id.to_owned(), seq };
    let mut there = scope.message(connection, seq)?.ok_or_else(taken)?;
    open_body(connection, &mut there)?;
    let is_same = there.message.purged_at.is_some()
        || there.message.role == message.role
            && there.message.body.whole() == Some(&message.content);
    if is_same { Ok(Plan::Known(seq)) } else { Err(taken()) }
}

/// Writes one message; gives whether it gave the session a title.
fn add(
    connection: &Connection,
    row: &mut SessionRow,
    (conversations, tally): (&mut HashMap<String, Conversation>, &mut Tally),
    message: NewMessage,
    given: Option<String>,
) -> Result<bool> {
    if !conversations.contains_key(&message.conversation) {
        let conversation = conversation(connection, row, &message)?;
        conversations.insert(message.conversation.clone(), conversation);
    }
    let Some(conversation) = conversations.get_mut(&message.conversation) else { return Ok(false) };
    let prev = conversation.last_seq;
    let was_unnamed = row.session.agent.is_none();
    let heard = row.session.hear(&message, conversation);
    if let Some(agent) = row.session.agent.as_deref().filter(|_| was_unnamed) {
        tally.write(connection, row.no)?;
        usage::name(connection, row.no, agent)?;
    }
    tally.count(row.session.agent.as_deref(), &message);
    if let Some(agent) = &heard.run_of {
        count_run(connection, row.no, agent, 1)?;
    }
    insert(connection, row, conversation.n, prev, message, given)?;
    Ok(heard.redescribed || row.session.last_seq == 1)
}

pub(super) fn count_run(
    connection: &Connection,
    session: i64,
    agent: &str,
    runs: u32,
) -> Result<()> {
    connection
        .prepare_cached(summed!(
            "insert into agent_use (session, agent, runs) values (?1, ?2, ?3)
             on conflict (session, agent) do update set runs = agent_use.runs + excluded.runs"
        ))?
        .execute((session, agent, runs))?;
    Ok(())
}

pub(super) fn known(
    connection: &Connection,
    session: i64,
    name: &str,
) -> Result<Option<Conversation>> {
    static SQL: LazyLock<String> =
        LazyLock::new(|| rows::select_conversation("where session = ?1 and name = ?2"));
    let mut statement = connection.prepare_cached(&SQL)?;
    Ok(damage::conversations(connection, session, &mut statement, (session, name))?.pop())
}

/// The conversation that a message belongs to; a new name opens a new one.
fn conversation(
    connection: &Connection,
    row: &mut SessionRow,
    message: &NewMessage,
) -> Result<Conversation> {
    if let Some(conversation) = known(connection, row.no, &message.conversation)? {
        return Ok(conversation);
    }
    let n = connection
        .prepare_cached("select coalesce(max(n), 0) + 1 from conversation where session = ?1")?
        .query_row([row.no], |row| row.get(0))?;
    let opened = Conversation::open(n, &message.conversation, message.at);
    let fact = Fact::Opened { n, name: message.conversation.clone() };
    facts::add(connection, row, &fact, message.at)?;
    rows::write_conversation(connection, row.no, &opened)?;
    Ok(opened)
}

pub(super) fn insert(
    connection: &Connection,
    row: &SessionRow,
    conversation: u32,
    prev: Seq,
    message: NewMessage,
    given: Option<String>,
) -> Result<()> {
    let cuts = Some(message.price.cuts.encode()).filter(|cuts| !cuts.is_empty());
    let stored = blob::write(connection, &row.session.user, message.content)?;
    let extras = extras::encode(&message.extras, &stored.body)?;
    connection
        .prepare_cached(
            summed!("insert into message (id, role, conversation, at, prev, tokens, price, cuts, body, head_bytes, bytes,
                blob, extras, given_id)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)"),
        )?
        .execute(params![
            key(row.no, row.session.last_seq),
            rows::role_number(message.role),
            conversation,
            rows::micros(message.at),
            prev,
            message.price.tokens,
            message.price.quoted,
            cuts,
            stored.body,
            stored.head_bytes,
            stored.bytes,
            stored.blob,
            extras,
            given,
        ])?;
    Ok(())
}
