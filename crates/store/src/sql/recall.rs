//! What a context is made of, read in a few bounded steps: its cost does not follow the length of the session.

use std::sync::LazyLock;

use rethread_domain::opening;
use rethread_domain::passage::{self, Outline};
use rethread_domain::rank::{self, Found, Places, Related, Wanted};
use rethread_domain::{Conversation, Seq, retell};

use super::append;
use super::damage;
use super::index;
use super::passages;
use super::postings;
use super::read;
use super::rows::{self, MessageRow, SessionRow};
use super::scope::{self, Names, Scope, open_body};
use super::sql::Connection;
use crate::error::Result;
use crate::types::{Order, RecallRequest, Recalled, Span, Within};

/// The most used agents that are told.
pub(super) const AGENTS: u32 = 5;
/// The most messages that are looked through because the index lacks them.
const MOST_UNINDEXED: u32 = 256;

pub(super) fn recall(connection: &Connection, request: &RecallRequest) -> Result<Recalled> {
    let row = rows::session_by_id(connection, request.session)?;
    row.session.can_resume()?;
    let mut conversations = recent_conversations(connection, row.no, request.limits.conversations)?;
    let scope = Scope::of(connection, &row)?;
    let part = match &request.within {
        Some(within) => part(connection, &row, &scope, within, request, &mut conversations)?,
        None => Part {
            recent: recent_messages(connection, &scope, &conversations, request.limits.messages)?,
            messages: row.session.last_seq,
            is_whole: false,
        },
    };
    let said: Vec<&str> = part.recent.iter().map(|one| one.message.body.head()).collect();
    let wanted = request.prompt.as_ref().map(|prompt| understood(prompt, &row, &said));
    let mut names = Names::new(connection, row.no, conversations.clone());
    let recent = part
        .recent
        .into_iter()
        .map(|message| Ok(names.name(message)?.message))
        .collect::<Result<Vec<_>>>()?;
    let mut related = Vec::new();
    // What is told whole needs no choice.
    if let Some(wanted) = wanted.as_ref().filter(|_| !part.is_whole) {
        related = related_messages(connection, &row, &scope, wanted, &mut names, request)?;
    }
    let others = names.known.split_off(conversations.len());
    Ok(Recalled {
        agents: read::agent_runs(connection, row.no, AGENTS)?,
        unindexed: row.session.last_seq.saturating_sub(row.indexed),
        session: row.session,
        conversations,
        others,
        recent,
        related,
        wanted,
        messages: part.messages,
        is_whole: part.is_whole,
    })
}

/// The messages that there are to tell.
#[derive(Default)]
struct Part {
    recent: Vec<MessageRow>,
    messages: u32,
    is_whole: bool,
}

/// A part of one conversation: all of it where the budget allows, the newest messages otherwise.
fn part(
    connection: &Connection,
    row: &SessionRow,
    scope: &Scope,
    within: &Within,
    request: &RecallRequest,
    conversations: &mut Vec<Conversation>,
) -> Result<Part> {
    let Some(own) = append::known(connection, row.no, &within.conversation)? else {
        return Ok(Part::default());
    };
    let mut part = Part { messages: own.messages.saturating_sub(within.known), ..Part::default() };
    let mut seq = own.last_seq;
    let mut left = request.limits.tokens.saturating_sub(retell::whole_frame(&own));
    part.is_whole = true;
    while seq > within.after {
        let Some(message) = scope.message(connection, seq)? else { break };
        seq = scope.before(connection, &message, own.n)?;
        if message.message.seq >= within.before {
            part.messages = part.messages.saturating_sub(1);
            continue;
        }
        if !is_within(message.message.seq, Some(within)) {
            continue;
        }
        let price = retell::whole_price(&message.message);
        match price.and_then(|price| left.checked_sub(price)) {
            Some(rest) => left = rest,
            None => part.is_whole = false,
        }
        part.recent.push(message);
        if !part.is_whole && part.recent.len() >= request.limits.messages as usize {
            break;
        }
    }
    if !part.is_whole {
        part.recent.truncate(request.limits.messages as usize);
    }
    conversations.retain(|other| other.n != own.n);
    conversations.insert(0, own);
    conversations.truncate(request.limits.conversations as usize);
    Ok(part)
}

fn understood(prompt: &str, row: &SessionRow, said: &[&str]) -> Wanted {
    let year = |at: jiff::Timestamp| at.to_zoned(jiff::tz::TimeZone::UTC).year();
    let years = year(row.session.started_at)..=year(row.session.last_active_at);
    Wanted::of(prompt, years, said)
}

fn recent_conversations(
    connection: &Connection,
    session: i64,
    limit: u32,
) -> Result<Vec<Conversation>> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        rows::select_conversation("where session = ?1 order by turn desc limit ?2")
    });
    let mut statement = connection.prepare_cached(&SQL)?;
    damage::conversations(connection, session, &mut statement, (session, limit))
}

/// The newest messages of these conversations. Mostly they are the newest of the session; where others lie
/// between, each conversation is followed back from message to message.
fn recent_messages(
    connection: &Connection,
    scope: &Scope,
    conversations: &[Conversation],
    limit: u32,
) -> Result<Vec<MessageRow>> {
    let mut messages = Vec::new();
    let is_recent = |n: u32| conversations.iter().any(|conversation| conversation.n == n);
    let mut strays = false;
    scope.visit(connection, Span::newest(limit), |message| {
        strays = message.damage.is_none() && !is_recent(message.conversation);
        messages.push(message);
        Ok(!strays)
    })?;
    if !strays {
        return Ok(messages);
    }
    messages.clear();
    let mut heads: Vec<(Seq, u32)> =
        conversations.iter().map(|conversation| (conversation.last_seq, conversation.n)).collect();
    while messages.len() < limit as usize {
        let Some((newest, n)) = heads.iter_mut().max().filter(|(seq, _)| *seq > 0) else { break };
        let Some(message) = scope.message(connection, *newest)? else { break };
        *newest = scope.before(connection, &message, *n)?;
        messages.push(message);
    }
    Ok(messages)
}

/// What a prompt is answered from: the best passages of the messages that have its words, or stand beside them.
fn related_messages(
    connection: &Connection,
    row: &SessionRow,
    scope: &Scope,
    wanted: &Wanted,
    names: &mut Names<'_>,
    request: &RecallRequest,
) -> Result<Vec<Related>> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let within = request.within.as_ref();
    let newest = row.session.last_seq;
    let lacking = unindexed(connection, row, scope)?;
    // All of a short session are looked at: the index need not be asked which.
    let is_short = newest as usize <= rank::SHORTLIST;
    let all = || (1..=row.indexed).filter(|seq| is_within(*seq, within)).collect::<Vec<Seq>>();
    let short = is_short.then(|| passages::outlines(connection, scope, &all())).transpose()?;
    let reader = postings::reader(connection)?;
    let mut places = Vec::with_capacity(wanted.terms.len());
    for forms in wanted.forms() {
        let forms: Vec<&str> = forms.collect();
        let words: Vec<_> = forms.iter().map(|form| passage::fingerprint(form)).collect();
        let have_it = |(seq, outline): &(Seq, Outline)| {
            words.iter().any(|word| outline.has(*word)).then_some(*seq)
        };
        let mut found = Places::default();
        match &short {
            Some(all) => found.seqs = all.iter().rev().filter_map(have_it).collect(),
            None => {
                for form in forms {
                    found.add(index::places(&reader, scope, form, rank::MOST_PLACES)?);
                }
            }
        }
        found.seqs.splice(0..0, lacking.iter().filter_map(have_it));
        found.seqs.retain(|seq| is_within(*seq, within));
        places.push(found);
    }
    let on_days = said_on_days(&reader, scope, wanted, short.as_deref(), within)?;
    // Recent ones too: those that find no place among the last messages may matter all the same.
    let list = rank::shortlist(&places, &on_days, newest);
    let mut seqs: Vec<Seq> =
        list.iter().map(|(seq, _)| *seq).filter(|seq| is_within(*seq, within)).collect();
    seqs.sort_unstable();
    let mut outlines = match short {
        Some(mut all) => {
            all.retain(|(seq, _)| seqs.binary_search(seq).is_ok());
            all
        }
        None => {
            let indexed: Vec<Seq> =
                seqs.iter().copied().filter(|seq| *seq <= row.indexed).collect();
            passages::outlines(connection, scope, &indexed)?
        }
    };
    let new = lacking.into_iter().rev().filter(|(seq, _)| seqs.binary_search(seq).is_ok());
    outlines.extend(new);
    let found = rank::choose(wanted, &places, &outlines, newest, request.limits.tokens);
    let related = read_found(connection, scope, names, &outlines, found)?;
    let is_own =
        |one: &Related| within.is_none_or(|within| one.message.conversation == within.conversation);
    Ok(related.into_iter().filter(is_own).collect())
}

/// What was said on the days that a prompt names.
fn said_on_days(
    reader: &postings::Reader<'_>,
    scope: &Scope,
    wanted: &Wanted,
    short: Option<&[(Seq, Outline)]>,
    within: Option<&Within>,
) -> Result<Vec<Seq>> {
    let mut said = Vec::new();
    for day in wanted.days.iter().flat_map(|(from, to)| *from..=*to).take(400) {
        let is_on_day = |(seq, outline): &(Seq, Outline)| (outline.day == day).then_some(*seq);
        match short {
            Some(all) => said.extend(all.iter().filter_map(is_on_day)),
            None => {
                let term = index::day_term(day);
                let found = index::places(reader, scope, &term, rank::MOST_OF_A_DAY)?;
                said.extend(found.seqs.into_iter().filter(|seq| is_within(*seq, within)));
            }
        }
    }
    Ok(said)
}

/// Reads the messages of which passages were found. Of long texts only the ends are read.
fn read_found(
    connection: &Connection,
    scope: &Scope,
    names: &mut Names<'_>,
    outlines: &[(Seq, Outline)],
    mut found: Vec<Found>,
) -> Result<Vec<Related>> {
    found.sort_unstable_by_key(|one| (one.seq, one.excerpt.index));
    let mut related: Vec<Related> = Vec::new();
    let mut one = scope::one(connection)?;
    for of_message in found.chunk_by(|a, b| a.seq == b.seq) {
        let seq = of_message[0].seq;
        let Some(message) = scope.message_by(&mut one, seq)? else { continue };
        if message.damage.is_some() || message.message.purged_at.is_some() {
            continue;
        }
        let passages = of_message.iter().map(|one| one.excerpt.clone()).collect();
        let mut told = Related { message: names.name(message)?.message, passages };
        let at = outlines.binary_search_by_key(&seq, |(seq, _)| *seq);
        if at.is_ok_and(|at| outlines[at].1.is_masked) {
            // Its passages are those of the masked text; whoever masks it moves them again.
            match told.message.body.whole().map(str::to_owned) {
                Some(text) => told.move_to(&text),
                None if told.message.extras.secrets.is_empty() => continue,
                None => (),
            }
        }
        related.push(told);
    }
    Ok(related)
}

fn is_within(seq: Seq, within: Option<&Within>) -> bool {
    within.is_none_or(|within| {
        within.after < seq && seq < within.before && !opening::in_any(&within.but, seq)
    })
}

/// The newest messages that the index lacks, newest first, with their outlines.
fn unindexed(
    connection: &Connection,
    row: &SessionRow,
    scope: &Scope,
) -> Result<Vec<(Seq, Outline)>> {
    let mut found = Vec::new();
    if row.indexed < row.session.last_seq {
        let span = Span {
            from: row.indexed + 1,
            to: Seq::MAX,
            order: Order::NewestFirst,
            limit: MOST_UNINDEXED,
        };
        scope.visit(connection, span, |mut message| {
            if message.damage.is_none() && message.message.purged_at.is_none() {
                open_body(connection, &mut message)?;
                found.push((message.message.seq, passages::outline(&message.message)));
            }
            Ok(true)
        })?;
    }
    Ok(found)
}
