//! The log file (`-wal`) that a crash left, looked at before SQLite recovers it.
//!
//! SQLite takes what is in it up to the first frame that does not match its checksum, and drops the rest without a word:
//! that is right for a write that a crash cut off, and wrong for a bit that flipped in the middle. The two can be told
//! apart: nothing is written after what was cut off. So a commit that follows a bad frame, written in the same run of the
//! log, was lost to damage.
//!
//! A single bit that flipped can mostly be found again: it is the only one with which the frame matches its checksum. Then it
//! is put right, and nothing is lost. Where more is wrong, or several bits could be it (the highest of a number count for
//! little in that checksum), the file is kept aside as it is, and people are told.
//!
//! One thing looks the same: a writer that was killed after it had written a commit and before it announced it, while
//! somebody else had the store open. They write over it, and what they leave of it is a commit after a frame that does not
//! fit. That follows a commit, and no single bit makes it fit.
//!
//! Of the very last frame, where more than a bit is wrong, nobody can tell: half written and damaged look the same.

mod flipped;

use std::fs::{self, File, OpenOptions};
use std::io::{BufReader, ErrorKind, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, fcntl_lock};

use self::flipped::{
    Correction, GoesOn, Sum, Suspects, checksum, frame_sum, header_correction, number, stored,
};
use super::connection::{self, beside};
use super::locks::{Lock, Locks};
use crate::error::{Error, Result};

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// How a log file begins; the last bit says how its checksums read numbers.
const MAGIC: u32 = 0x377f_0682;
/// Files that are kept aside are named so, with what tells one run of a log from another.
const ASIDE: &str = "-wal.damaged-";

/// The lock that is held while a log file is put right.
const MENDING: &str = "log";
/// How long somebody else who puts it right is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many bits of one log file are put right.
const MOST_FLIPS: u32 = 16;

/// A log file with a frame that is damaged, and with commits after it or a bit that can be put right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Damage {
    /// The first bad frame, from 1; 0 where it is the beginning of the file.
    frame: u64,
    commits: u64,
    salt: [u8; 8],
    /// What would mend the bad frame.
    correction: Option<Correction>,
}

fn is_header(header: &[u8]) -> bool {
    let magic = number(header, 0);
    magic & !1 == MAGIC && checksum(&header[..24], (0, 0), magic & 1 == 1) == stored(header, 24)
}

/// Reads a whole part; `None` at the end, or where the rest is shorter.
fn next(from: &mut impl Read, part: &mut [u8]) -> std::io::Result<bool> {
    match from.read_exact(part) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Goes through a log file. `page` is the size of the store's pages, for a file whose beginning is damaged.
fn examine(from: &mut impl Read, page: usize) -> std::io::Result<Option<Damage>> {
    let mut header = [0; HEADER];
    if !next(from, &mut header)? {
        return Ok(None);
    }
    let is_intact = is_header(&header);
    // A damaged beginning may also be wrong about this; logs are written as the machine reads numbers.
    let is_big = if is_intact { number(&header, 0) & 1 == 1 } else { cfg!(target_endian = "big") };
    let sum = checksum(&header[..24], (0, 0), is_big);
    let mut correction = None;
    let page = if is_intact { number(&header, 8) as usize } else { page };
    if !(512..=65_536).contains(&page) || !page.is_power_of_two() {
        return Ok(None);
    }
    let mut salt: Option<[u8; 8]> = if is_intact { header[16..24].try_into().ok() } else { None };
    // What the checksum of the next frame may go on from: after a bad frame, what it says or what it amounts to.
    let mut seeds = vec![stored(&header, 24), sum];
    let mut damage = (!is_intact).then_some((0, 0));
    let (mut is_after_commit, mut is_left_over) = (true, false);
    let mut suspected: Option<(u64, Suspects)> = None;
    let mut frame = vec![0; FRAME_HEADER + page];
    let mut count = 0u64;
    while next(from, &mut frame)? {
        count += 1;
        if count == 1 && !is_intact {
            correction = header_correction(&mut header, &frame, is_big, is_header);
        }
        let own: [u8; 8] = frame[8..16].try_into().unwrap_or_default();
        let run = *salt.get_or_insert(own);
        let is_of_run = run == own;
        let said = stored(&frame, 16);
        let sums: Vec<Sum> = seeds.iter().map(|seed| frame_sum(&frame, *seed, is_big)).collect();
        let is_good = is_of_run && sums.contains(&said);
        if let Some((begins, suspects)) = suspected.take() {
            correction = settled(begins, &suspects, GoesOn::of(&sums, said).filter(|_| is_good));
        }
        match &mut damage {
            None if !is_good => {
                damage = Some((count, 0));
                let begins = HEADER as u64 + (count - 1) * frame.len() as u64;
                let suspects = Suspects::of(&mut frame, run, seeds[0], is_big);
                is_left_over = is_of_run && is_after_commit && suspects.is_empty();
                suspected = Some((begins, suspects));
            }
            Some((_, commits)) if is_good && number(&frame, 4) != 0 => *commits += 1,
            _ => (),
        }
        is_after_commit = is_good && number(&frame, 4) != 0;
        seeds = if is_good { vec![said] } else { [vec![said], sums].concat() };
        seeds.dedup();
        seeds.truncate(4);
    }
    if let Some((begins, suspects)) = suspected {
        correction = settled(begins, &suspects, None);
    }
    let is_loss = |commits: u64| commits > u64::from(is_left_over) || correction.is_some();
    let salt = salt.unwrap_or_default();
    let found = damage.filter(|(_, commits)| is_loss(*commits));
    Ok(found.map(|(frame, commits)| Damage { frame, commits, salt, correction }))
}

/// What mends the file, by what mends a frame of it.
fn settled(begins: u64, suspects: &Suspects, goes_on: Option<GoesOn>) -> Option<Correction> {
    let found = suspects.settle(goes_on)?;
    Some(Correction { at: begins + found.at, ..found })
}

/// The size of pages where nothing else is said.
const PAGE: usize = 4_096;

/// The size of a store's pages, which its file says, unless nothing was written to it yet.
fn page_size(store: &Path) -> usize {
    let mut beginning = [0; 18];
    let read = File::open(store).and_then(|mut file| file.read_exact(&mut beginning));
    match (read, u16::from_be_bytes([beginning[16], beginning[17]])) {
        (Ok(()), 1) => 65_536,
        (Ok(()), size) => usize::from(size),
        (Err(_), _) => PAGE,
    }
}

fn examine_file(log: &Path, page: usize) -> std::io::Result<Option<Damage>> {
    examine(&mut BufReader::with_capacity(1 << 17, File::open(log)?), page)
}

/// Whether a program has the store open, as far as the system says so: then there is nothing to recover. Where it does not
/// say so, a look at the log costs time and does no harm.
fn is_in_use(store: &Path) -> bool {
    let Ok(locks) = fs::read_to_string("/proc/locks") else { return false };
    ["", "-shm"].iter().filter_map(|suffix| fs::metadata(beside(store, suffix)).ok()).any(|file| {
        let device = file.dev();
        let major = (device >> 8) & 0xfff;
        let minor = (device & 0xff) | ((device >> 12) & 0xf_ff00);
        let named = format!(" {major:02x}:{minor:02x}:{} ", file.ino());
        locks.lines().any(|line| line.contains(&named))
    })
}

/// A log file that is in use, by its beginning and its length.
pub(super) struct InUse {
    header: [u8; HEADER],
    bytes: u64,
}

impl InUse {
    /// `None` where it is empty, having been folded into the store, or not there. SQLite has no locks on this file that closing it here could take away.
    pub(super) fn look(log: &Path) -> Option<Self> {
        let file = File::open(log).ok()?;
        let bytes = file.metadata().ok()?.len();
        let mut header = [0; HEADER];
        let length = usize::try_from(bytes).map_or(HEADER, |bytes| bytes.min(HEADER));
        file.read_exact_at(&mut header[..length], 0).ok()?;
        (length >= 4).then_some(Self { header, bytes })
    }

    /// Whether it was cut off or written over: SQLite writes on behind its end, and leaves a hole where its beginning was.
    pub(super) fn is_hollow(&self) -> bool {
        number(&self.header, 0) & !1 != MAGIC
    }

    fn salt(&self) -> [u8; 8] {
        let mut salt = [0; 8];
        salt.copy_from_slice(&self.header[16..24]);
        salt
    }

    /// What a commit leaves that ended with this frame.
    pub(super) fn committed(&self, frames: u32) -> Committed {
        let page = u64::from(number(&self.header, 8));
        let bytes = HEADER as u64 + u64::from(frames) * (FRAME_HEADER as u64 + page);
        Committed { salt: self.salt(), bytes }
    }

    /// Whether what a commit wrote is no longer there, although the log was not begun anew since.
    pub(super) fn is_cut(&self, committed: &Committed) -> bool {
        self.salt() == committed.salt && self.bytes < committed.bytes
    }
}

/// How far a log file reached after a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Committed {
    /// What tells one run of the log from the next.
    salt: [u8; 8],
    pub(super) bytes: u64,
}

/// Holds off everybody else while a log file is put right.
struct Alone {
    _lock: Lock,
    /// Whoever opens a store needs a lock on the index of its log, in whatever container they are.
    _index: Option<File>,
}

impl Alone {
    /// `None` where somebody uses the store, or it may not be written to.
    fn with(store: &Path) -> Result<Option<Self>> {
        let began = Instant::now();
        let lock = loop {
            // Another one that puts it right is waited for: SQLite must not read what is half mended.
            match Locks::of(store).take(MENDING) {
                Ok(Some(lock)) => break lock,
                Ok(None) if is_in_use(store) => return Ok(None),
                Ok(None) if began.elapsed() < PATIENCE => (),
                Ok(None) => return Err(Error::Busy),
                Err(_) => return Ok(None),
            }
        };
        if is_in_use(store) {
            return Ok(None);
        }
        let index = OpenOptions::new().read(true).write(true).open(beside(store, "-shm"));
        let index = match index {
            Ok(index) => Some(index),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(_) => return Ok(None),
        };
        let held = |index: &File| fcntl_lock(index, FlockOperation::NonBlockingLockExclusive);
        if index.as_ref().is_some_and(|index| held(index).is_err()) {
            return Ok(None);
        }
        Ok(Some(Self { _lock: lock, _index: index }))
    }
}

/// Puts right what can be put right; gives how many bits, and the damage that is left.
fn mend(log: &Path, page: usize) -> std::io::Result<(u32, Option<Damage>)> {
    let file = OpenOptions::new().write(true).open(log)?;
    let (mut bits, mut damage) = (0, examine_file(log, page)?);
    while let Some(correction) =
        damage.and_then(|damage| damage.correction).filter(|_| bits < MOST_FLIPS)
    {
        file.write_all_at(&[correction.byte], correction.at)?;
        file.sync_all()?;
        bits += 1;
        damage = examine_file(log, page)?;
    }
    Ok((bits, damage))
}

/// Looks at a log file that nobody has open. Bits that flipped are put right; where more is wrong, and that costs commits,
/// the file is kept aside. Gives what to say.
pub(super) fn look(store: &Path) -> Result<Option<String>> {
    let log = beside(store, "-wal");
    let has_frames = fs::metadata(&log).is_ok_and(|file| file.len() > HEADER as u64);
    if !has_frames || is_in_use(store) {
        return Ok(None);
    }
    let page = page_size(store);
    let found = examine_file(&log, page).unwrap_or(None);
    // Somebody whom the system does not show may write to it: what is damaged stays so.
    let Some(damage) = found.filter(|_| examine_file(&log, page).is_ok_and(|again| again == found))
    else {
        return Ok(None);
    };
    let alone = if damage.correction.is_some() { Alone::with(store)? } else { None };
    // Where it cannot be written to, it is told as it is.
    let mended = alone.and_then(|_alone| mend(&log, page).ok());
    let (bits, damage) = mended.unwrap_or((0, Some(damage)));
    match damage {
        // Whoever has it open by now has looked at it, too.
        Some(damage) if damage.commits > 0 && !is_in_use(store) => keep_aside(store, &log, damage),
        None if bits > 0 => Ok(Some(put_right(bits))),
        // Nobody can tell the end of a log from a write that was cut off.
        _ => Ok(None),
    }
}

/// Keeps a log file in which commits are lost; gives what to say.
fn keep_aside(store: &Path, log: &Path, damage: Damage) -> Result<Option<String>> {
    let salt = u64::from_be_bytes(damage.salt);
    let aside = beside(store, &format!("{ASIDE}{salt:016x}"));
    if !aside.exists() {
        keep(log, &aside).map_err(|error| {
            Error::Damaged(format!(
                "{}: {}; it could not be copied to {} before it is recovered ({error}), so the store is not opened",
                log.display(),
                damage.describe(),
                aside.display()
            ))
        })?;
    }
    Ok(Some(warning(&damage, &aside)))
}

fn put_right(bits: u32) -> String {
    let (what, were) =
        if bits == 1 { ("one bit".to_owned(), "was") } else { (format!("{bits} bits"), "were") };
    format!(
        "the log file that a crash left was damaged: {what} of it {were} wrong, and {were} put right by the checksums. \
         Nothing is lost; the disk or the memory of this machine may be failing"
    )
}

fn keep(log: &Path, aside: &Path) -> std::io::Result<()> {
    let half = beside(aside, ".part");
    // Mostly there is none; else the next step says so.
    drop(fs::remove_file(&half));
    connection::new_file(&half)?;
    fs::copy(log, &half)?;
    File::open(&half)?.sync_all()?;
    fs::rename(&half, aside)
}

impl Damage {
    fn describe(&self) -> String {
        let place = match self.frame {
            0 => "its beginning is damaged".to_owned(),
            frame => format!("frame {frame} is damaged"),
        };
        let commits = match self.commits {
            1 => "1 commit".to_owned(),
            commits => format!("{commits} commits"),
        };
        format!("{place}, and {commits} that end after it could not be recovered")
    }
}

fn warning(damage: &Damage, aside: &Path) -> String {
    format!(
        "the log file that a crash left was damaged: {}. It is kept as {}; a backup or the sessions' folders may have what \
         is missing",
        damage.describe(),
        aside.display()
    )
}

/// What is said of the damaged log files that are kept beside a store.
pub(super) fn kept(store: &Path) -> Vec<String> {
    let folder = store.parent().filter(|folder| !folder.as_os_str().is_empty());
    let (Ok(found), Some(name)) =
        (fs::read_dir(folder.unwrap_or(Path::new("."))), store.file_name())
    else {
        return Vec::new();
    };
    let name = format!("{}{ASIDE}", name.to_string_lossy());
    let is_kept = |path: &PathBuf| {
        path.file_name().is_some_and(|file| {
            let file = file.to_string_lossy();
            file.starts_with(&name) && !file.ends_with(".part")
        })
    };
    let mut files: Vec<PathBuf> =
        found.filter_map(|one| Some(one.ok()?.path())).filter(is_kept).collect();
    files.sort();
    let page = page_size(store);
    let say = |file: &PathBuf| match examine_file(file, page) {
        Ok(Some(damage)) => {
            format!("{}; remove that file when it is no longer needed", warning(&damage, file))
        }
        _ => format!(
            "a damaged log file is kept as {}; remove it when it is no longer needed",
            file.display()
        ),
    };
    files.iter().map(say).collect()
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    #[test]
    fn what_is_left_of_a_commit_that_nobody_heard_of_is_no_damage() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        let open = |name: &str| {
            let connection = Connection::open(place(name)).unwrap();
            connection
                .execute_batch("pragma journal_mode = wal; pragma wal_autocheckpoint = 0")
                .unwrap();
            connection
        };
        let first = open("first");
        first.execute_batch("create table t (text); insert into t values ('before')").unwrap();
        for suffix in ["", "-wal"] {
            fs::copy(beside(&place("first"), suffix), beside(&place("second"), suffix)).unwrap();
        }
        let prefix = usize::try_from(fs::metadata(place("first-wal")).unwrap().len()).unwrap();
        // Killed before it could say so.
        first.execute_batch("insert into t values (randomblob(40000))").unwrap();
        let unheard = fs::read(place("first-wal")).unwrap();
        // Somebody else writes over it.
        let second = open("second");
        second.execute_batch("insert into t values ('after')").unwrap();
        let mut log = fs::read(place("second-wal")).unwrap();
        assert!(prefix < log.len() && log.len() < unheard.len());
        log.extend_from_slice(&unheard[log.len()..]);
        let examined = |log: &[u8]| examine(&mut &*log, PAGE).unwrap();
        assert_eq!(examined(&log), None);
        // A bit that flips in the first frame of a commit is damage.
        let mut flipped = unheard.clone();
        flipped[prefix + FRAME_HEADER + 1000] ^= 4;
        let damage = examined(&flipped).unwrap();
        assert_eq!((examined(&unheard), damage.commits), (None, 1));
        let byte = unheard[prefix + FRAME_HEADER + 1000];
        let at = (prefix + FRAME_HEADER + 1000) as u64;
        assert_eq!(damage.correction, Some(Correction { at, byte }));
    }
}
