//! What a context is made of, read in a few bounded steps: its cost does not follow the length of the session.

use std::sync::LazyLock;

use rethread_domain::rank::{self, Places, Related, Wanted};
use rethread_domain::{Conversation, Seq, terms};
use rusqlite::Connection;

use super::index;
use super::read;
use super::rows::{self, MessageRow, SessionRow};
use super::scope::{Names, Scope};
use crate::error::Result;
use crate::types::{Order, RecallRequest, Recalled, Span};

/// The most used agents that are told.
pub(super) const AGENTS: u32 = 5;
/// The most messages that are looked through because the index lacks them.
const MOST_UNINDEXED: u32 = 256;

pub(super) fn recall(connection: &Connection, request: &RecallRequest) -> Result<Recalled> {
    let row = rows::session_by_id(connection, request.session)?;
    row.session.can_resume()?;
    let conversations = recent_conversations(connection, row.no, request.limits.conversations)?;
    let scope = Scope::of(connection, &row)?;
    let mut names = Names::new(connection, row.no, conversations.clone());
    let recent = recent_messages(connection, &scope, &conversations, request.limits.messages)?;
    let recent = recent
        .into_iter()
        .map(|message| Ok(names.name(message)?.message))
        .collect::<Result<Vec<_>>>()?;
    let mut related = Vec::new();
    if let Some(prompt) = &request.prompt {
        let wanted = understood(prompt, &row);
        related = related_messages(connection, &row, &scope, &wanted, &mut names)?;
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
    })
}

fn understood(prompt: &str, row: &SessionRow) -> Wanted {
    let year = |at: jiff::Timestamp| at.to_zoned(jiff::tz::TimeZone::UTC).year();
    Wanted::of(prompt, year(row.session.started_at)..=year(row.session.last_active_at))
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
    let found = statement.query_map((session, limit), rows::conversation)?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
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
        strays = !is_recent(message.conversation);
        messages.push(message);
        Ok(!strays)
    })?;
    if !strays {
        return Ok(messages);
    }
    messages.clear();
    let mut heads: Vec<Seq> =
        conversations.iter().map(|conversation| conversation.last_seq).collect();
    while messages.len() < limit as usize {
        let Some(newest) = heads.iter_mut().max().filter(|seq| **seq > 0) else { break };
        let Some(message) = scope.message(connection, *newest)? else { break };
        *newest = message.prev;
        messages.push(message);
    }
    Ok(messages)
}

fn related_messages(
    connection: &Connection,
    row: &SessionRow,
    scope: &Scope,
    wanted: &Wanted,
    names: &mut Names<'_>,
) -> Result<Vec<Related>> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let newest = row.session.last_seq;
    let unindexed = unindexed_terms(connection, row, scope)?;
    let mut places = Vec::with_capacity(wanted.terms.len());
    for term in &wanted.terms {
        let mut found = index::places(connection, scope, term, rank::MOST_PLACES)?;
        let lacking = unindexed.iter().filter(|(_, terms)| terms.iter().any(|own| own == term));
        let lacking: Vec<Seq> = lacking.map(|(seq, _)| *seq).collect();
        if !lacking.is_empty() {
            found = Places { seqs: [lacking, found.seqs].concat(), cut: found.cut };
        }
        places.push(found);
    }
    let mut on_days = Vec::new();
    for day in wanted.days.iter().flat_map(|(from, to)| *from..=*to).take(400) {
        on_days.extend(
            index::places(connection, scope, &index::day_term(day), rank::MOST_PLACES)?.seqs,
        );
    }
    // Recent ones too: those that find no place among the last messages may matter all the same.
    let list = rank::shortlist(&places, &on_days, newest);
    let mut seqs: Vec<Seq> = list.iter().map(|(seq, _)| *seq).collect();
    seqs.sort_unstable();
    let mut messages = Vec::with_capacity(seqs.len());
    for seq in seqs {
        if let Some(message) = scope.message(connection, seq)? {
            messages.push(names.name(message)?.message);
        }
    }
    Ok(rank::weigh(wanted, &list, messages, newest))
}

/// The newest messages that the index lacks, newest first, with their terms.
fn unindexed_terms(
    connection: &Connection,
    row: &SessionRow,
    scope: &Scope,
) -> Result<Vec<(Seq, Vec<String>)>> {
    let mut found = Vec::new();
    if row.indexed < row.session.last_seq {
        let span = Span {
            from: row.indexed + 1,
            to: Seq::MAX,
            order: Order::NewestFirst,
            limit: MOST_UNINDEXED,
        };
        scope.visit(connection, span, |message| {
            found.push((message.message.seq, terms::all(message.message.body.head())));
            Ok(true)
        })?;
    }
    Ok(found)
}
