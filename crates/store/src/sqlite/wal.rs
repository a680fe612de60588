//! The log file (`-wal`) that a crash left, looked at before SQLite recovers it.
//!
//! SQLite takes what is in it up to the first frame that does not match its checksum, and drops the rest without a word:
//! that is right for a write that a crash cut off, and wrong for a bit that flipped in the middle. The two can be told
//! apart: nothing is written after what was cut off. So a commit that follows a bad frame, written in the same run of the
//! log, was lost to damage. Then the file is kept aside as it is, and people are told.
//!
//! One thing looks the same: a writer that was killed after it had written a commit and before it announced it, while
//! somebody else had the store open. They write over it, and what they leave of it is a commit after a frame that does not
//! fit. That follows a commit, and no single bit makes it fit.
//!
//! Of the very last frame nobody can tell: half written and damaged look the same.

use std::fs::{self, File};
use std::io::{BufReader, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::connection::{self, beside};
use crate::error::{Error, Result};

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// How a log file begins; the last bit says how its checksums read numbers.
const MAGIC: u32 = 0x377f_0682;
/// Files that are kept aside are named so, with what tells one run of a log from another.
const ASIDE: &str = "-wal.damaged-";

/// A log file in which commits follow a frame that is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Damage {
    /// The first bad frame, from 1; 0 where it is the beginning of the file.
    frame: u64,
    commits: u64,
    salt: [u8; 8],
}

type Sum = (u32, u32);

fn number(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    u32::from_be_bytes(bytes.unwrap_or_default())
}

/// The checksum of SQLite's log files.
fn checksum(bytes: &[u8], seed: Sum, is_big: bool) -> Sum {
    let read = |part: &[u8]| {
        let part: [u8; 4] = part.try_into().unwrap_or_default();
        if is_big { u32::from_be_bytes(part) } else { u32::from_le_bytes(part) }
    };
    bytes.chunks_exact(8).fold(seed, |(mut one, mut two), part| {
        one = one.wrapping_add(read(&part[..4])).wrapping_add(two);
        two = two.wrapping_add(read(&part[4..])).wrapping_add(one);
        (one, two)
    })
}

fn stored(bytes: &[u8], at: usize) -> Sum {
    (number(bytes, at), number(bytes, at + 4))
}

/// Whether a frame would match its checksum if one bit were another.
fn is_one_bit_off(frame: &mut [u8], seed: Sum, is_big: bool) -> bool {
    let sum = |frame: &[u8]| {
        checksum(&frame[FRAME_HEADER..], checksum(&frame[..8], seed, is_big), is_big)
    };
    let (said, made) = (stored(frame, 16), sum(frame));
    if (said.0 ^ made.0).count_ones() + (said.1 ^ made.1).count_ones() <= 1 {
        return true;
    }
    (0..8).chain(FRAME_HEADER..frame.len()).any(|byte| {
        (0..8).any(|bit| {
            frame[byte] ^= 1 << bit;
            let fits = sum(frame) == said;
            frame[byte] ^= 1 << bit;
            fits
        })
    })
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
    let magic = number(&header, 0);
    let has_magic = magic & !1 == MAGIC;
    let is_big = if has_magic { magic & 1 == 1 } else { cfg!(target_endian = "big") };
    let sum = checksum(&header[..24], (0, 0), is_big);
    let is_intact = has_magic && sum == stored(&header, 24);
    // A damaged beginning may also be wrong about this; logs are written as the machine reads numbers.
    let is_big = if is_intact { is_big } else { cfg!(target_endian = "big") };
    let page = if is_intact { number(&header, 8) as usize } else { page };
    if !(512..=65_536).contains(&page) || !page.is_power_of_two() {
        return Ok(None);
    }
    let mut salt: Option<[u8; 8]> = if is_intact { header[16..24].try_into().ok() } else { None };
    // What the checksum of the next frame may go on from: after a bad frame, what it says or what it amounts to.
    let mut seeds = vec![stored(&header, 24), sum];
    let mut damage = (!is_intact).then_some((0, 0));
    let (mut is_after_commit, mut is_left_over) = (true, false);
    let mut frame = vec![0; FRAME_HEADER + page];
    let mut count = 0u64;
    while next(from, &mut frame)? {
        count += 1;
        let own: [u8; 8] = frame[8..16].try_into().unwrap_or_default();
        let is_of_run = *salt.get_or_insert(own) == own;
        let said = stored(&frame, 16);
        let sums: Vec<Sum> = seeds
            .iter()
            .map(|seed| {
                checksum(&frame[FRAME_HEADER..], checksum(&frame[..8], *seed, is_big), is_big)
            })
            .collect();
        let is_good = is_of_run && sums.contains(&said);
        match &mut damage {
            None if !is_good => {
                damage = Some((count, 0));
                is_left_over =
                    is_of_run && is_after_commit && !is_one_bit_off(&mut frame, seeds[0], is_big);
            }
            Some((_, commits)) if is_good && number(&frame, 4) != 0 => *commits += 1,
            _ => (),
        }
        is_after_commit = is_good && number(&frame, 4) != 0;
        seeds = if is_good { vec![said] } else { [vec![said], sums].concat() };
        seeds.dedup();
        seeds.truncate(4);
    }
    let found = damage.filter(|(_, commits)| *commits > u64::from(is_left_over));
    Ok(found.map(|(frame, commits)| Damage { frame, commits, salt: salt.unwrap_or_default() }))
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

/// Looks at a log file that nobody has open, and keeps it aside where damage in it costs commits. Gives what to say.
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
    let salt = u64::from_be_bytes(damage.salt);
    let aside = beside(store, &format!("{ASIDE}{salt:016x}"));
    if !aside.exists() {
        keep(&log, &aside).map_err(|error| {
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
    }
}
