//! A session's folder: what it says, and how it is written.

mod card;
mod line;
mod page;
mod path;
mod read;
mod recover;
mod stamp;
mod topic;
mod write;

use std::fs::File;
use std::io::{BufReader, Read as _, Seek as _, SeekFrom};
use std::ops::{Deref, Range};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Stat, flock};
use rustix::io::Errno;

use crate::beneath::Directory;
use crate::error::{Doing, Error};

pub use card::Card;
pub use line::{LONGEST_LINE, Line, Loose};
pub use page::Page;
pub(crate) use path::{CONVERSATIONS, is_date};
pub use path::{FolderPath, is_kind_name};
pub use read::{End, Item, read_log};
pub use stamp::Stamp;
pub use topic::topic;
pub(crate) use write::DAMAGED;
pub use write::{Appended, Entry, Torn};

/// What is ours in a session's folder; the page beside it is for people.
pub(crate) const SESSION: &str = ".session";
pub(crate) const LOG: &str = "messages.jsonl";
pub(crate) const CARD: &str = "session.json";

/// How long another process is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(5);

/// A session's folder, held open. One that was removed or replaced meanwhile has to be opened again.
#[derive(Debug)]
pub struct Folder {
    path: FolderPath,
    place: Directory,
    session: Option<Directory>,
}

/// What came of an attempt to lock a folder.
#[derive(Debug)]
pub enum Tried {
    Locked(Locked),
    /// Somebody else has the lock.
    Held(Folder),
}

impl Folder {
    /// Opens the folder beneath the root of a workspace; `None` where there is none.
    pub(crate) fn open(root: &Directory, path: &FolderPath) -> Result<Option<Self>, Error> {
        let Some(place) = root.directory(path.as_str())? else { return Ok(None) };
        let session = place.directory(SESSION)?;
        Ok(Some(Self { path: path.clone(), place, session }))
    }

    /// Makes the inside of a new session folder.
    pub(crate) fn prepare(day: &Directory, name: &str) -> Result<(), Error> {
        let place = day.make(name)?;
        place.make(SESSION)?;
        place.sync()
    }

    pub fn path(&self) -> &FolderPath {
        &self.path
    }

    /// Keeps other processes from writing to this folder. Waits for them 10 seconds at most.
    pub fn lock(self) -> Result<Locked, Error> {
        self.lock_within(PATIENCE)
    }

    /// As [`Folder::lock`], with another patience.
    ///
    /// The lock is on the folder `.session` itself: nothing is left behind, and a log that is replaced stays covered.
    pub fn lock_within(self, patience: Duration) -> Result<Locked, Error> {
        let start = Instant::now();
        let mut folder = self;
        loop {
            match folder.try_lock()? {
                Tried::Locked(locked) => return Ok(locked),
                Tried::Held(held) if start.elapsed() >= patience => return Err(held.busy()),
                Tried::Held(held) => folder = held,
            }
            thread::sleep(PAUSE);
        }
    }

    /// As [`Folder::lock`], without waiting: for callers that have other things to do meanwhile.
    pub fn try_lock(mut self) -> Result<Tried, Error> {
        let session = match self.session.take() {
            Some(session) => session,
            None => self.place.make(SESSION)?,
        };
        match flock(&session, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                // Whoever had the lock before may have put another folder in its place.
                let now = self.place.stat(SESSION)?;
                let mine = session.own_stat()?;
                if now.is_some_and(|now| (now.st_ino, now.st_dev) == (mine.st_ino, mine.st_dev)) {
                    session.make_private()?;
                    self.session = Some(session);
                    return Ok(Tried::Locked(Locked(self)));
                }
            }
            Err(Errno::WOULDBLOCK | Errno::INTR) => self.session = Some(session),
            Err(errno) => return Err(session.failed("", Doing::Write, errno)),
        }
        Ok(Tried::Held(self))
    }

    /// That others hold the lock for longer than they are waited for.
    pub fn busy(&self) -> Error {
        Error::Busy(self.place.shown(SESSION))
    }

    /// What `session.json` says; `None` without one.
    pub fn card(&self) -> Result<Option<Card>, Error> {
        let Some(session) = &self.session else { return Ok(None) };
        match read_whole(session, CARD, card::LARGEST)? {
            Some(bytes) => Card::parse(&bytes, &session.shown(CARD)).map(Some),
            None => Ok(None),
        }
    }

    /// What `session.json` says of each session that it names: several where those of two sessions were merged into one.
    pub fn cards(&self) -> Result<Vec<Card>, Error> {
        let Some(session) = &self.session else { return Ok(Vec::new()) };
        match read_whole(session, CARD, card::LARGEST)? {
            Some(bytes) => Card::parse_each(&bytes, &session.shown(CARD)),
            None => Ok(Vec::new()),
        }
    }

    /// By what the log is known to be unchanged; `None` without a log.
    pub fn stamp(&self) -> Result<Option<Stamp>, Error> {
        self.stamp_of(LOG)
    }

    /// By what `session.json` is known to be unchanged; `None` without one.
    pub fn card_stamp(&self) -> Result<Option<Stamp>, Error> {
        self.stamp_of(CARD)
    }

    fn stamp_of(&self, name: &str) -> Result<Option<Stamp>, Error> {
        let Some(session) = &self.session else { return Ok(None) };
        Ok(session.plain(name)?.as_ref().map(Stamp::of))
    }

    /// Reads the log from byte `from` and tells what is there, piece by piece.
    ///
    /// Fails with [`Error::Cut`] if the log is shorter than that.
    pub fn read(&self, from: u64, visit: &mut dyn FnMut(Item)) -> Result<End, Error> {
        let Some(mut file) = self.log_from(from)? else { return Ok(End::default()) };
        let outcome = read::read_from(&mut file, from, LONGEST_LINE, visit);
        outcome.map_err(|error| Error::from_io(&self.log_path(), Doing::Read, error))
    }

    /// The raw bytes of a part of the log, such as one that is damaged.
    pub fn bytes(&self, at: Range<u64>) -> Result<Vec<u8>, Error> {
        let length = at.end.saturating_sub(at.start);
        if length > LONGEST_LINE as u64 {
            return Err(Error::TooLarge { path: self.log_path(), limit: LONGEST_LINE as u64 });
        }
        let Some(file) = self.log_from(at.start)? else { return Ok(Vec::new()) };
        let mut bytes = Vec::new();
        match file.take(length).read_to_end(&mut bytes) {
            Ok(_) => Ok(bytes),
            Err(error) => Err(Error::from_io(&self.log_path(), Doing::Read, error)),
        }
    }

    fn log_from(&self, from: u64) -> Result<Option<BufReader<File>>, Error> {
        let opened = match &self.session {
            Some(session) => session.read(LOG)?,
            None => None,
        };
        let size = opened.as_ref().map_or(0, |(_, stat)| size(stat));
        if from > size {
            return Err(Error::Cut { path: self.log_path(), size, from });
        }
        let Some((mut file, _)) = opened else { return Ok(None) };
        match file.seek(SeekFrom::Start(from)) {
            Ok(_) => Ok(Some(BufReader::with_capacity(read::CHUNK, file))),
            Err(error) => Err(Error::from_io(&self.log_path(), Doing::Read, error)),
        }
    }

    fn log_path(&self) -> PathBuf {
        self.place.shown(SESSION).join(LOG)
    }
}

/// A session's folder that no other process writes to until this is dropped.
#[derive(Debug)]
pub struct Locked(Folder);

impl Deref for Locked {
    type Target = Folder;

    fn deref(&self) -> &Folder {
        &self.0
    }
}

pub(crate) fn size(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or_default()
}

/// A small file as a whole; `None` where there is none.
pub(crate) fn read_whole(
    place: &Directory,
    name: &str,
    limit: u64,
) -> Result<Option<Vec<u8>>, Error> {
    let Some((file, _)) = place.read(name)? else { return Ok(None) };
    let mut bytes = Vec::new();
    file.take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Error::from_io(&place.shown(name), Doing::Read, error))?;
    if bytes.len() as u64 > limit {
        return Err(Error::TooLarge { path: place.shown(name), limit });
    }
    Ok(Some(bytes))
}
