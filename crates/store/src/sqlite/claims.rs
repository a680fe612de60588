//! Who drives a session: an open file's lock, which the system takes back when its holder dies.

use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use async_trait::async_trait;
use jiff::Timestamp;
use rethread_domain::SessionId;
use rusqlite::{Connection, OptionalExtension};

use super::connection::{self, beside};
use super::summed::summed;
use super::{SqliteStore, rows, sums};
use crate::Claims;
use crate::error::{Error, Result};
use crate::types::{Asked, Claim, Command, Drive, Epoch};

/// How often a lock that is held is tried again before it counts as held.
const LOOKS: u32 = 3;

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

fn lock_file(store: &Path, name: &str) -> PathBuf {
    beside(store, "-locks").join(format!("{name}.lock"))
}

/// The locks that there are, held or not.
fn lock_names(store: &Path) -> Vec<String> {
    let Ok(files) = std::fs::read_dir(beside(store, "-locks")) else { return Vec::new() };
    files
        .filter_map(|file| {
            file.ok()?.file_name().to_str()?.strip_suffix(".lock").map(str::to_owned)
        })
        .collect()
}

/// Whether a lock is of this session, or of one of its conversations.
fn is_of(name: &str, no: i64) -> bool {
    name.split('-').next().and_then(|first| first.parse().ok()) == Some(no)
}

/// Held while a session is driven. The file goes with it.
pub(super) struct Lock {
    path: PathBuf,
    _file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Still locked, so nobody else takes it for theirs; a file that stays does no harm.
        drop(std::fs::remove_file(&self.path));
    }
}

/// Takes a lock, if nobody has it.
pub(super) fn lock(store: &Path, name: &str) -> Result<Option<Lock>> {
    let path = lock_file(store, name);
    let mut looks = 0;
    loop {
        connection::create(&path).map_err(|error| match error {
            Error::CannotOpen(why) => Error::ReadOnly(why),
            error => error,
        })?;
        let file = connection::private_file(&path)?;
        match file.try_lock() {
            Ok(()) if is_at(&file, &path) => return Ok(Some(Lock { path, _file: file })),
            // Its holder took the file away just now.
            Ok(()) => (),
            // Somebody may only be looking whether it is held, which takes no time.
            Err(TryLockError::WouldBlock) if looks < LOOKS => {
                looks += 1;
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
    }
}

/// Whether the open file is the one that the path names now.
fn is_at(file: &File, path: &Path) -> bool {
    let number = |found: std::io::Result<std::fs::Metadata>| {
        found.map(|found| (found.dev(), found.ino())).ok()
    };
    number(file.metadata()).is_some_and(|own| Some(own) == number(std::fs::metadata(path)))
}

/// Whether somebody drives a session or one of its conversations.
pub(super) fn is_driven(store: &Path, no: i64) -> Result<bool> {
    for name in lock_names(store).iter().filter(|name| is_of(name, no)) {
        if is_locked(store, name)? {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(super) fn is_locked(store: &Path, name: &str) -> Result<bool> {
    let file = match File::open(lock_file(store, name)) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
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
    connection
        .prepare_cached(summed!("insert into command (session, at, what) values (?1, ?2, ?3)"))?
        .execute((row.no, rows::micros(at), command.as_str()))?;
    Ok(u64::try_from(connection.last_insert_rowid()).unwrap_or(0))
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
        .collect::<rusqlite::Result<_>>()?;
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
    connection
        .prepare_cached(summed!(
            "insert into command (session, at, what, conversation, prompt)
             values (?1, ?2, 'prompt', ?3, ?4)"
        ))?
        .execute((row.no, rows::micros(at), conversation, prompt))?;
    Ok(u64::try_from(connection.last_insert_rowid()).unwrap_or(0))
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

/// Takes away the lock files of drivers that died.
pub(super) fn sweep_locks(store: &Path) -> Result<()> {
    for name in lock_names(store) {
        drop(lock(store, &name)?);
    }
    Ok(())
}

/// Removes the locks of sessions that nobody holds; gives the numbers of workflows with a lock that nobody holds.
pub(super) fn sweep(store: &Path) -> Result<Vec<i64>> {
    let mut found = Vec::new();
    for name in lock_names(store) {
        if is_locked(store, &name)? {
            continue;
        }
        match name.strip_prefix('w').and_then(|name| name.split('-').next()?.parse().ok()) {
            Some(no) => found.push(no),
            // Taken and dropped, it is gone.
            None => drop(lock(store, &name)?),
        }
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// A session that is gone needs no locks.
pub(super) fn forget_locks(store: &Path, no: i64) {
    for name in lock_names(store).iter().filter(|name| is_of(name, no)) {
        // A file that stays does no harm.
        drop(std::fs::remove_file(lock_file(store, name)));
    }
}

/// Nor does a workflow that is gone.
pub(super) fn forget_workflow_locks(store: &Path, no: i64) {
    let of = format!("w{no}-");
    for name in lock_names(store).iter().filter(|name| name.starts_with(&of)) {
        // A file that stays does no harm.
        drop(std::fs::remove_file(lock_file(store, name)));
    }
}

#[async_trait]
impl Claims for SqliteStore {
    async fn claim(&self, id: SessionId) -> Result<Option<Claim>> {
        let no = self.read(|connection| Ok(rows::session_by_id(connection, id)?.no))?;
        let Some(lock) = lock(&self.path, &lock_name(no, None))? else {
            return Ok(None);
        };
        let job = move |connection: &Connection| begin_epoch(connection, id);
        let epoch = self.writer()?.write_soon(job).await?;
        Ok(Some(Claim { epoch, _lock: Box::new(lock) }))
    }

    async fn drive(&self, id: SessionId, conversation: &str) -> Result<Option<Drive>> {
        let no = self.read(|connection| Ok(rows::session_by_id(connection, id)?.no))?;
        let name = lock_name(no, Some(conversation));
        let Some(lock) = lock(&self.path, &name)? else { return Ok(None) };
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
        let no = self.read(|connection| Ok(rows::session_by_id(connection, id)?.no))?;
        is_driven(&self.path, no)
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
        let mut watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
        let connection = match watcher.take() {
            Some(connection) => connection,
            None => connection::reader(&self.path)?,
        };
        let version: i64 = connection.query_row("pragma data_version", [], |row| row.get(0))?;
        *watcher = Some(connection);
        Ok(u64::try_from(version).unwrap_or(0))
    }
}
