//! Who drives a session: whoever holds its lock, which is free when its holder has died (`locks.rs`); and what others ask of
//! them.

use async_trait::async_trait;
use jiff::Timestamp;
use rethread_domain::SessionId;

use super::sql::{Connection, OptionalExtension, SqlResult};
use super::summed::summed;
use super::{ThisStore, rows, sums};
use crate::Claims;
use crate::error::{Error, Result};
use crate::types::{Asked, Claim, Command, Drive, Epoch};

/// What is locked: a session, or one conversation of it. Its name is made from our number and from a hash, never
/// from a text that came from outside.
pub(super) fn lock_name(no: i64, conversation: Option<&str>) -> String {
    match conversation {
        None => no.to_string(),
        Some(name) => format!("{no}-{}", &blake3::hash(name.as_bytes()).to_hex()[..32]),
    }
}

/// The lock of whoever runs a workflow in an epoch.
pub(super) fn workflow_lock_name(no: i64, epoch: Epoch) -> String {
    format!("w{no}-{epoch}")
}

/// A new epoch: whoever drove the session before can no longer write as its driver.
pub(super) fn begin_epoch(connection: &Connection, id: SessionId) -> Result<Epoch> {
    let row = rows::session_by_id(connection, id)?;
    connection.execute(summed!("update session set epoch = epoch + 1 where no = ?1"), [row.no])?;
    Ok(row.epoch + 1)
}

pub(super) fn ask(
    connection: &Connection,
    id: SessionId,
    command: Command,
    at: Timestamp,
) -> Result<u64> {
    let row = rows::session_by_id(connection, id)?;
    let no: i64 = connection
        .prepare_cached(summed!(
            "insert into command (session, at, what) values (?1, ?2, ?3) returning no"
        ))?
        .query_row((row.no, rows::micros(at), command.as_str()), |row| row.get(0))?;
    Ok(u64::try_from(no).unwrap_or(0))
}

fn command((no, what): (u64, String)) -> Result<(u64, Command)> {
    let known =
        [Command::Pause, Command::Complete].into_iter().find(|command| command.as_str() == what);
    let known = known.ok_or_else(|| Error::Damaged(format!("unknown command {what:?}")))?;
    Ok((no, known))
}

pub(super) fn asked_since(
    connection: &Connection,
    id: SessionId,
    after: u64,
) -> Result<Vec<(u64, Command)>> {
    let mut statement = connection.prepare_cached(
        "select no, what from command where session = (select no from session where id = ?1)
            and no > ?2 and conversation is null order by no",
    )?;
    let asked: Vec<(u64, String)> = statement
        .query_map((id.to_string(), after), |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<SqlResult<_>>()?;
    asked.into_iter().map(command).collect()
}

pub(super) fn take_asked(connection: &Connection, id: SessionId) -> Result<Vec<Command>> {
    let asked = asked_since(connection, id, 0)?;
    connection
        .prepare_cached(
            "delete from command where session = (select no from session where id = ?1)
                and conversation is null",
        )?
        .execute([id.to_string()])?;
    Ok(asked.into_iter().map(|(_, command)| command).collect())
}

/// A prompt for whoever drives a conversation.
pub(super) fn ask_prompt(
    connection: &Connection,
    id: SessionId,
    conversation: &str,
    prompt: &str,
    at: Timestamp,
) -> Result<u64> {
    let row = rows::session_by_id(connection, id)?;
    let no: i64 = connection
        .prepare_cached(summed!(
            "insert into command (session, at, what, conversation, prompt)
             values (?1, ?2, 'prompt', ?3, ?4) returning no"
        ))?
        .query_row((row.no, rows::micros(at), conversation, prompt), |row| row.get(0))?;
    Ok(u64::try_from(no).unwrap_or(0))
}

/// What becomes of a prompt: nobody has it yet, its driver has it, or went away with it.
const WAITING: i64 = 0;
const TAKEN: i64 = 1;
const ABANDONED: i64 = 2;

/// What was asked of whoever drove the conversation before is theirs no more. What they had taken may have been sent:
/// whoever asked has to know that.
pub(super) fn forget_prompts(
    connection: &Connection,
    id: SessionId,
    conversation: &str,
) -> Result<()> {
    let row = rows::session_by_id(connection, id)?;
    connection.execute(
        "delete from command where session = ?1 and conversation = ?2 and taken = ?3",
        (row.no, conversation, WAITING),
    )?;
    connection.execute(
        summed!(
            "update command set taken = ?4
         where session = ?1 and conversation = ?2 and taken = ?3 and answer is null"
        ),
        (row.no, conversation, TAKEN, ABANDONED),
    )?;
    Ok(())
}

/// Whether there is a prompt that was not answered, taken or not.
pub(super) fn has_unanswered(
    connection: &Connection,
    id: SessionId,
    conversation: &str,
) -> Result<bool> {
    let mut statement = connection.prepare_cached(
        "select exists (select 1 from command where session = (select no from session where id = ?1)
            and conversation = ?2 and taken <> ?3 and answer is null)",
    )?;
    Ok(statement.query_row((id.to_string(), conversation, ABANDONED), |row| row.get(0))?)
}

/// Whether there is a prompt that nobody has taken.
pub(super) fn has_prompts(
    connection: &Connection,
    id: SessionId,
    conversation: &str,
) -> Result<bool> {
    let mut statement = connection.prepare_cached(
        "select exists (select 1 from command where session = (select no from session where id = ?1)
            and conversation = ?2 and taken = 0)",
    )?;
    Ok(statement.query_row((id.to_string(), conversation), |row| row.get(0))?)
}

pub(super) fn take_prompt(
    connection: &Connection,
    id: SessionId,
    conversation: &str,
) -> Result<Option<(u64, String)>> {
    let row = rows::session_by_id(connection, id)?;
    let found: Option<(u64, String)> = connection
        .prepare_cached(&format!(
            "select no, prompt from command
             where session = ?1 and conversation = ?2 and taken = ?3 and {} order by no limit 1",
            sums::insist("command", "a prompt that waits")
        ))?
        .query_row((row.no, conversation, WAITING), |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    if let Some((no, _)) = &found {
        // Its text becomes a message, which can be purged: it does not stay here as well.
        connection
            .prepare_cached(summed!("update command set taken = ?2, prompt = '' where no = ?1"))?
            .execute((no, TAKEN))?;
    }
    Ok(found)
}

pub(super) fn answer(
    connection: &Connection,
    asked: u64,
    answer: &str,
    at: Timestamp,
) -> Result<()> {
    connection.execute(
        summed!("update command set answer = ?2, at = ?3 where no = ?1"),
        (asked, answer, rows::micros(at)),
    )?;
    Ok(())
}

/// What nobody waits for any more. What was abandoned has no text, and stays until whoever asked has had time enough
/// to look, whatever kept them.
const OLD: &str = "at < ?1 and (answer is not null or conversation is null)
    or taken = 2 and at < ?1 - 86400000000";

pub(super) fn has_old(connection: &Connection, before: Timestamp) -> Result<bool> {
    let mut statement =
        connection.prepare_cached(&format!("select exists (select 1 from command where {OLD})"))?;
    Ok(statement.query_row([rows::micros(before)], |row| row.get(0))?)
}

pub(super) fn forget_old(connection: &Connection, before: Timestamp) -> Result<()> {
    connection.execute(&format!("delete from command where {OLD}"), [rows::micros(before)])?;
    Ok(())
}

/// The answers that were given in a session may repeat what is purged from it.
pub(super) fn forget_answers(connection: &Connection, session: i64) -> Result<()> {
    connection
        .execute("delete from command where session = ?1 and answer is not null", [session])?;
    Ok(())
}

pub(super) fn asked(connection: &Connection, asked: u64) -> Result<Asked> {
    let found: Option<(i64, Option<String>)> = connection
        .prepare_cached(&format!(
            "select taken, answer from command where no = ?1 and {}",
            sums::insist("command", "an answer that waits")
        ))?
        .query_row([asked], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    Ok(match found {
        None => Asked::Gone,
        Some((_, Some(answer))) => Asked::Answered(answer),
        Some((WAITING, None)) => Asked::Waiting,
        Some((ABANDONED, None)) => Asked::Abandoned,
        Some((_, None)) => Asked::Taken,
    })
}

/// Takes a prompt back, answered or not; gives whether nobody had taken it.
pub(super) fn withdraw(connection: &Connection, asked: u64) -> Result<bool> {
    let taken: Option<i64> = connection
        .prepare_cached("delete from command where no = ?1 returning taken")?
        .query_row([asked], |row| row.get(0))
        .optional()?;
    Ok(taken == Some(WAITING))
}

#[async_trait]
impl Claims for ThisStore {
    async fn claim(&self, id: SessionId) -> Result<Option<Claim>> {
        let no = self.read(|connection| Ok(rows::session_by_id(connection, id)?.no))?;
        let Some(lock) = self.take_lock(lock_name(no, None)).await? else { return Ok(None) };
        let epoch = self.write_soon(move |connection| begin_epoch(connection, id)).await?;
        Ok(Some(Claim { epoch, _lock: Box::new(lock) }))
    }

    async fn drive(&self, id: SessionId, conversation: &str) -> Result<Option<Drive>> {
        let no = self.read(|connection| Ok(rows::session_by_id(connection, id)?.no))?;
        let name = lock_name(no, Some(conversation));
        let Some(lock) = self.take_lock(name).await? else { return Ok(None) };
        if self.read(|connection| has_unanswered(connection, id, conversation))? {
            let conversation = conversation.to_owned();
            self.write(move |connection| forget_prompts(connection, id, &conversation)).await?;
        }
        Ok(Some(Drive { _lock: Box::new(lock) }))
    }

    async fn ask_prompt(
        &self,
        id: SessionId,
        conversation: &str,
        prompt: &str,
        at: Timestamp,
    ) -> Result<u64> {
        let (conversation, prompt) = (conversation.to_owned(), prompt.to_owned());
        self.write(move |connection| ask_prompt(connection, id, &conversation, &prompt, at)).await
    }

    async fn take_prompt(
        &self,
        id: SessionId,
        conversation: &str,
    ) -> Result<Option<(u64, String)>> {
        if !self.read(|connection| has_prompts(connection, id, conversation))? {
            return Ok(None);
        }
        let conversation = conversation.to_owned();
        self.write(move |connection| take_prompt(connection, id, &conversation)).await
    }

    async fn answer(&self, asked: u64, answer: &str, at: Timestamp) -> Result<()> {
        let answer = answer.to_owned();
        self.write(move |connection| self::answer(connection, asked, &answer, at)).await
    }

    async fn asked(&self, asked: u64) -> Result<Asked> {
        self.read(|connection| self::asked(connection, asked))
    }

    async fn withdraw(&self, asked: u64) -> Result<bool> {
        self.write(move |connection| withdraw(connection, asked)).await
    }

    async fn forget_asked(&self, before: Timestamp) -> Result<()> {
        if !self.read(|connection| has_old(connection, before))? {
            return Ok(());
        }
        self.write(move |connection| forget_old(connection, before)).await
    }

    async fn is_claimed(&self, id: SessionId) -> Result<bool> {
        self.read(|connection| {
            self.locks().is_driven(connection, rows::session_by_id(connection, id)?.no)
        })
    }

    async fn ask(&self, id: SessionId, command: Command, at: Timestamp) -> Result<u64> {
        self.write(move |connection| ask(connection, id, command, at)).await
    }

    async fn asked_since(&self, id: SessionId, after: u64) -> Result<Vec<(u64, Command)>> {
        self.read(|connection| asked_since(connection, id, after))
    }

    async fn take_asked(&self, id: SessionId) -> Result<Vec<Command>> {
        self.write(move |connection| take_asked(connection, id)).await
    }

    async fn version(&self) -> Result<u64> {
        self.written()
    }
}
