//! Rows and domain types.

use std::sync::LazyLock;

use jiff::Timestamp;
use rethread_domain::conversation::{LabelPrices, TitleFrom};
use rethread_domain::message::{Body, Extras};
use rethread_domain::price::{Cuts, Price, encode_numbers};
use rethread_domain::session::{Counters, HeadPrices, Origin, Repository, State};
use rethread_domain::{Conversation, Message, Role, Seq, Session, SessionId, Status, retell};

use super::columns::{Checked, Columns};
use super::damage::{self, Damage};
use super::sql::{Connection, OptionalExtension, Row, SqlResult, ValueRef, params, unreadable};
use super::summed::summed;
use super::{dialect, extras};
use crate::error::{Error, Result};

/// A session with what only the store knows of it.
#[derive(Debug, Clone)]
pub(super) struct SessionRow {
    pub(super) no: i64,
    pub(super) session: Session,
    /// Up to here its messages are those of others.
    pub(super) base: Seq,
    pub(super) indexed: Seq,
    pub(super) epoch: u32,
    /// Its row cannot be trusted: what is here is only its number, see [`damage::healed`].
    pub(super) damaged: bool,
}

const SESSION: &str = "no, id, user, project, kind, agent, model, command, prompt_hash, tools, title,
    title_from, summary, status, archived_from, started_at, last_active_at, deleted_at, forked_from,
    forked_at, branch, head, facts, last_seq, base_seq, indexed_seq, conversations, tokens, runs,
    input_tokens, output_tokens, cost_nano, current, turn, epoch, head_price, title_price, summary_prices,
    parent, title_indexed";
const SESSION_COLUMNS: usize = 40;

/// A query for whole sessions.
pub(super) fn select_session(rest: &str) -> String {
    format!("select {SESSION}, sum from session {rest}")
}

pub(super) fn session_by_id(connection: &Connection, id: SessionId) -> Result<SessionRow> {
    static SQL: LazyLock<String> = LazyLock::new(|| select_session("where id = ?1"));
    let mut statement = connection.prepare_cached(&SQL)?;
    let found = statement.query_row([id.to_string()], session).optional()?;
    let row = damage::healed_by_id(connection, found.ok_or(Error::NotFound(id))?, id)?;
    if row.session.id == id {
        return Ok(row);
    }
    Err(Error::Damaged(format!("the index of sessions leads from {id} to {}", row.session.id)))
}

pub(super) fn micros(at: Timestamp) -> i64 {
    at.as_microsecond()
}

/// The time, for what nobody gave one.
pub(super) fn now(connection: &Connection) -> Result<i64> {
    Ok(connection.prepare_cached(dialect::NOW)?.query_row([], |row| row.get(0))?)
}

pub(super) const fn status_number(status: Status) -> i64 {
    match status {
        Status::Active => 0,
        Status::Paused => 1,
        Status::Completed => 2,
        Status::Archived => 3,
    }
}

pub(super) const fn role_number(role: Role) -> i64 {
    match role {
        Role::User => 0,
        Role::Assistant => 1,
        Role::System => 2,
        Role::Tool => 3,
    }
}

const fn title_number(from: TitleFrom) -> i64 {
    match from {
        TitleFrom::Nobody => 0,
        TitleFrom::Request => 1,
        TitleFrom::Agent => 2,
        TitleFrom::Person => 3,
    }
}

fn state(row: &impl Columns) -> SqlResult<State> {
    let status = row.one_of(13, &Status::ALL, status_number)?;
    let from = match row.read::<Option<i64>>(14)? {
        Some(_) => row.one_of(14, &Status::ALL, status_number)?,
        None => Status::Paused,
    };
    Ok(State::new(status, from))
}

fn parent(row: &impl Columns) -> SqlResult<Option<SessionId>> {
    row.read::<Option<String>>(38)?.map(|_| row.parse(38)).transpose()
}

/// Reads a session. One that is damaged has to be healed before anything is told of it.
pub(super) fn session(row: &Row<'_>) -> SqlResult<SessionRow> {
    let columns = Checked::<SESSION_COLUMNS>::of(row)?;
    if columns.is_intact
        && let Ok(session) = read_session(&columns)
    {
        return Ok(session);
    }
    damage::unread_session(row)
}

fn read_session(row: &impl Columns) -> SqlResult<SessionRow> {
    let tools: Option<String> = row.read(9)?;
    let origin = row.read::<Option<String>>(18)?.map(|text| {
        let session = text.parse().map_err(|_| unreadable(18, text))?;
        SqlResult::Ok(Origin { session, seq: row.read(19)? })
    });
    let (branch, head): (_, Option<String>) = (row.read(20)?, row.read(21)?);
    Ok(SessionRow {
        no: row.read(0)?,
        base: row.read(24)?,
        indexed: row.read(25)?,
        epoch: row.read(34)?,
        damaged: false,
        session: Session {
            id: row.parse(1)?,
            user: row.read(2)?,
            project: row.read(3)?,
            kind: row.read(4)?,
            agent: row.read(5)?,
            answering: None,
            imported_from: None,
            model: row.read(6)?,
            command: row.read(7)?,
            prompt_hash: row.read(8)?,
            tools: tools.and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default(),
            forked_from: origin.transpose()?,
            parent: parent(row)?,
            title: row.read(10)?,
            title_from: row.one_of(11, &TitleFrom::ALL, title_number)?,
            summary: row.read(12)?,
            state: state(row)?,
            started_at: row.time(15)?,
            last_active_at: row.time(16)?,
            deleted_at: row.time_or_none(17)?,
            repository: head.map(|head| Repository { branch, head }),
            facts: row.read(22)?,
            last_seq: row.read(23)?,
            counters: Counters {
                conversations: row.read(26)?,
                tokens: row.unsigned(27)?,
                runs: row.read(28)?,
                input_tokens: row.unsigned(29)?,
                output_tokens: row.unsigned(30)?,
                cost_nano: row.read(31)?,
            },
            current: row.read(32)?,
            turn: row.read(33)?,
            prices: HeadPrices {
                head: Some(row.read(35)?),
                title: Some(row.read(36)?),
                summary: Some(row.numbers(37)?),
            },
        },
    })
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Writes the row of a session anew, all but what only the index and claims change.
pub(super) fn write_session(connection: &Connection, no: i64, session: &Session) -> Result<()> {
    let tools = (!session.tools.is_empty())
        .then(|| serde_json::to_string(&session.tools).unwrap_or_default());
    connection
        .prepare_cached(summed!(
            "update session set project = ?2, agent = ?3, model = ?4, tools = ?5,
                command = ?6, prompt_hash = ?7,
                title = ?8, title_from = ?9, summary = ?10, status = ?11,
                archived_from = ?12, started_at = ?13, last_active_at = ?14,
                deleted_at = ?15, branch = ?16, head = ?17, facts = ?18,
                last_seq = ?19, conversations = ?20, tokens = ?21, runs = ?22,
                input_tokens = ?23, output_tokens = ?24, cost_nano = ?25, current = ?26,
                turn = ?27, head_price = ?28, title_price = ?29,
                summary_prices = ?30
             where no = ?1"
        ))?
        .execute(params![
            no,
            session.project,
            session.agent,
            session.model,
            tools,
            session.command,
            session.prompt_hash,
            session.title,
            title_number(session.title_from),
            session.summary,
            status_number(session.status()),
            match session.state {
                State::Archived { from } => Some(status_number(from)),
                _ => None,
            },
            micros(session.started_at),
            micros(session.last_active_at),
            session.deleted_at.map(micros),
            session.repository.as_ref().and_then(|repository| repository.branch.as_deref()),
            session.repository.as_ref().map(|repository| &repository.head),
            session.facts,
            session.last_seq,
            session.counters.conversations,
            signed(session.counters.tokens),
            session.counters.runs,
            signed(session.counters.input_tokens),
            signed(session.counters.output_tokens),
            session.counters.cost_nano,
            session.current,
            session.turn,
            retell::head_price(session),
            retell::title_price(session),
            blob_or_null(&retell::summary_prices(session)),
        ])?;
    Ok(())
}

/// Writes what an append changes: a small part of the row.
pub(super) fn count_session(connection: &Connection, no: i64, session: &Session) -> Result<()> {
    connection
        .prepare_cached(
            summed!("update session set last_seq = ?2, last_active_at = ?3, conversations = ?4, tokens = ?5,
                runs = ?6, input_tokens = ?7, output_tokens = ?8, cost_nano = ?9, current = ?10, turn = ?11
             where no = ?1"),
        )?
        .execute((
            no,
            session.last_seq,
            micros(session.last_active_at),
            session.counters.conversations,
            signed(session.counters.tokens),
            session.counters.runs,
            signed(session.counters.input_tokens),
            signed(session.counters.output_tokens),
            session.counters.cost_nano,
            session.current,
            session.turn,
        ))?;
    Ok(())
}

fn blob_or_null(numbers: &[u32]) -> Option<Vec<u8>> {
    (!numbers.is_empty()).then(|| encode_numbers(numbers.iter().copied()))
}

/// Adds the row of a new session; gives its number.
pub(super) fn insert_session(connection: &Connection, session: &Session, base: Seq) -> Result<i64> {
    let origin = session.forked_from;
    let added = connection.prepare_cached(
        summed!("insert into session (id, user, project, kind, command, prompt_hash, forked_from, forked_at, base_seq, parent,
            title_from, status, started_at, last_active_at, facts, last_seq, indexed_seq, conversations, tokens,
            runs, input_tokens, output_tokens, cost_nano, turn, epoch, head_price, title_price)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 0, 0, 0, 0, 0, ?9, ?9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
         on conflict (id) do nothing returning no"),
    )?
    .query_row((
        session.id.to_string(),
        &session.user,
        &session.project,
        &session.kind,
        &session.command,
        &session.prompt_hash,
        origin.map(|origin| origin.session.to_string()),
        origin.map(|origin| origin.seq),
        base,
        session.parent.map(|parent| parent.to_string()),
    ), |row| row.get(0))
    .optional()?;
    let no: i64 = added.ok_or(Error::Exists(session.id))?;
    write_session(connection, no, session)?;
    Ok(no)
}

const CONVERSATION: &str =
    "n, name, title, created_at, last_at, last_seq, messages, tokens, turn, running,
    summary, name_price, heading_price, summary_prices, session";
const CONVERSATION_COLUMNS: usize = 15;

pub(super) fn select_conversation(rest: &str) -> String {
    format!("select {CONVERSATION}, sum from conversation {rest}")
}

/// Reads a conversation; `Err` with its number where it is damaged.
pub(super) fn conversation(row: &Row<'_>) -> std::result::Result<Conversation, u32> {
    let columns = Checked::<CONVERSATION_COLUMNS>::of(row).ok();
    columns
        .filter(|columns| columns.is_intact)
        .and_then(|columns| read_conversation(&columns).ok())
        .ok_or_else(|| row.get(0).unwrap_or(0))
}

fn read_conversation(row: &impl Columns) -> SqlResult<Conversation> {
    let summary: Option<String> = row.read(10)?;
    Ok(Conversation {
        n: row.read(0)?,
        name: row.read(1)?,
        title: row.read(2)?,
        created_at: row.time(3)?,
        last_at: row.time(4)?,
        last_seq: row.read(5)?,
        messages: row.read(6)?,
        tokens: row.unsigned(7)?,
        turn: row.read(8)?,
        running: row.read(9)?,
        summary: match summary {
            Some(json) => Some(
                serde_json::from_str(&json).map_err(|error| unreadable(10, error.to_string()))?,
            ),
            None => None,
        },
        prices: LabelPrices {
            name: Some(row.read(11)?),
            heading: Some(row.read(12)?),
            summary: Some(row.numbers(13)?),
        },
    })
}

pub(super) fn write_conversation(
    connection: &Connection,
    session: i64,
    conversation: &Conversation,
) -> Result<()> {
    let summary = conversation
        .summary
        .as_ref()
        .map(|summary| serde_json::to_string(summary).unwrap_or_default());
    connection
        .prepare_cached(
            summed!("insert into conversation (session, n, name, title, created_at, last_at, last_seq, messages, tokens,
                turn, running, summary, name_price, heading_price, summary_prices)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
             on conflict (session, n) do update set title = excluded.title, last_at = excluded.last_at,
                last_seq = excluded.last_seq, messages = excluded.messages, tokens = excluded.tokens,
                turn = excluded.turn, running = excluded.running, summary = excluded.summary,
                name_price = excluded.name_price, heading_price = excluded.heading_price,
                summary_prices = excluded.summary_prices"),
        )?
        .execute(params![
            session,
            conversation.n,
            conversation.name,
            conversation.title,
            micros(conversation.created_at),
            micros(conversation.last_at),
            conversation.last_seq,
            conversation.messages,
            signed(conversation.tokens),
            conversation.turn,
            conversation.running,
            summary,
            retell::name_price(conversation),
            retell::heading_price(conversation),
            blob_or_null(&retell::own_summary_prices(conversation)),
        ])?;
    Ok(())
}

const MESSAGE: &str =
    "id, role, conversation, at, tokens, price, cuts, body, head_bytes, blob, extras,
    given_id, purged_at, prev, bytes, set_aside";
pub(super) const MESSAGE_COLUMNS: usize = 16;

pub(super) fn select_message(rest: &str) -> String {
    format!("select {MESSAGE}, sum from message {rest}")
}

/// A message with what only the store knows of it.
#[derive(Debug, Clone)]
pub(super) struct MessageRow {
    pub(super) message: Message,
    pub(super) conversation: u32,
    pub(super) prev: Seq,
    pub(super) blob: Option<i64>,
    pub(super) damage: Option<Damage>,
}

/// Reads a message; the name of its conversation has to be filled in. One that is damaged says so instead of its text.
pub(super) fn message(row: &Row<'_>) -> SqlResult<MessageRow> {
    let columns = Checked::<MESSAGE_COLUMNS>::of(row)?;
    if !columns.is_intact {
        return damage::unread_message(row, Damage::Unreadable);
    }
    match columns.value(15)? {
        ValueRef::Null => {
            read_message(&columns).or_else(|_| damage::unread_message(row, Damage::Unreadable))
        }
        _ => damage::unread_message(row, Damage::SetAside),
    }
}

fn read_message(row: &impl Columns) -> SqlResult<MessageRow> {
    let body: String = row.read(7)?;
    let head_bytes: Option<usize> = row.read(8)?;
    let blob: Option<i64> = row.read(9)?;
    let extras = match row.value(10)?.as_str_or_null()? {
        Some(kept) => match extras::only_rules(kept) {
            Some(extras) => extras,
            None => {
                let json = extras::decode(kept, &body)
                    .ok_or_else(|| unreadable(10, "what comes with a message".to_owned()))?;
                serde_json::from_str(&json).map_err(|error| unreadable(10, error.to_string()))?
            }
        },
        None => Extras::default(),
    };
    let body = match head_bytes {
        Some(at) if body.is_char_boundary(at) => {
            let (head, tail) = body.split_at(at);
            Body::Ends { head: head.to_owned(), tail: tail.to_owned(), bytes: row.unsigned(14)? }
        }
        _ => Body::Whole(body),
    };
    Ok(MessageRow {
        conversation: row.read(2)?,
        prev: row.read(13)?,
        blob,
        damage: None,
        message: Message {
            seq: seq_of(row.read(0)?),
            given_id: row.read(11)?,
            role: row.one_of(1, &Role::ALL, role_number)?,
            at: row.time(3)?,
            conversation: String::new(),
            body,
            extras,
            price: Price {
                tokens: row.read(4)?,
                quoted: row.read(5)?,
                cuts: row.value(6)?.as_blob_or_null()?.map(Cuts::decode).unwrap_or_default(),
            },
            purged_at: row.time_or_none(12)?,
        },
    })
}

/// The key of a message: sessions side by side, in the order of their messages.
pub(super) const fn key(session: i64, seq: Seq) -> i64 {
    session << 32 | seq as i64
}

pub(super) const fn seq_of(key: i64) -> Seq {
    let bytes = key.to_le_bytes();
    Seq::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}
