//! Writing to a session's folder: nothing is lost, and nobody finds half of a file.

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write as _};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use rustix::fs::{AtFlags, fstat, unlinkat};
use rustix::io::Errno;

use super::card::{self, Card};
use super::line::{LONGEST_LINE, Line};
use super::page::{self, Page};
use super::path::is_kind_name;
use super::read::CHUNK;
use super::{CARD, LOG, Locked, SESSION, Stamp, read_whole, recover, size};
use crate::beneath::{Access, Directory, Place};
use crate::error::{Doing, Error};

/// Where damaged bytes are kept, each under a name made of its content.
pub(crate) const DAMAGED: &str = "damaged";

/// What was appended to a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appended {
    /// How long the log was before, without what was torn.
    pub from: u64,
    pub to: u64,
    pub stamp: Stamp,
    /// What was in the way and is now kept aside.
    pub torn: Option<Torn>,
}

/// The end of a line that was never written to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Torn {
    pub at: Range<u64>,
    /// Where its bytes are kept, below the root of the workspace.
    pub aside: PathBuf,
}

/// A line of a log that is written anew.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
pub enum Entry {
    Line(Line),
    /// Bytes as they are; a newline is added where they have none.
    Raw(Vec<u8>),
}

impl Locked {
    /// Adds lines to the log, all of them in one write. What is torn at its end is kept aside before.
    ///
    /// With `sync` they outlast a power cut once this returns.
    pub fn append(&self, lines: &[Line], sync: bool) -> Result<Appended, Error> {
        let mut bytes = vec![b'\n'];
        for line in lines {
            line.render(&mut bytes)?;
        }
        let session = self.session()?;
        let (mut file, stat, new) = session.append(LOG)?;
        let (tail, torn) = self.repair(&file, size(&stat))?;
        let from = tail.length;
        // The last line may be whole and lack only its end.
        let bytes = if tail.is_open && !lines.is_empty() { &bytes[..] } else { &bytes[1..] };
        let failed = |error| Error::from_io(&session.shown(LOG), Doing::Write, error);
        if let Err(error) = file.write_all(bytes) {
            // Where not all of it found room, none of it stays; otherwise the next append finds it torn.
            drop(file.set_len(from));
            return Err(failed(error));
        }
        if sync {
            file.sync_data().map_err(failed)?;
            if new {
                session.sync()?;
            }
        }
        let stamp = stamp(session, LOG, &file)?;
        Ok(Appended { from, to: from + bytes.len() as u64, stamp, torn })
    }

    /// Keeps aside what is torn at the end of the log and cuts it off; `None` where nothing is.
    pub fn truncate_torn(&self) -> Result<Option<Torn>, Error> {
        let session = self.session()?;
        if session.plain(LOG)?.is_none() {
            return Ok(None);
        }
        let (file, stat, _) = session.append(LOG)?;
        Ok(self.repair(&file, size(&stat))?.1)
    }

    fn repair(&self, file: &File, size: u64) -> Result<(Tail, Option<Torn>), Error> {
        let session = self.session()?;
        let read = |error| Error::from_io(&session.shown(LOG), Doing::Read, error);
        let (tail, torn) = find_tail(file, size).map_err(read)?;
        let Some(at) = torn else { return Ok((tail, None)) };
        let mut part = Part { file, at: at.clone(), place: at.start };
        let aside = self.set_aside(&mut part)?;
        let cut = file.set_len(at.start).and_then(|()| file.sync_data());
        cut.map_err(|error| Error::from_io(&session.shown(LOG), Doing::Write, error))?;
        Ok((tail, Some(Torn { at, aside })))
    }

    /// Writes the whole log anew: whoever reads finds the old one or the new one.
    pub fn replace_log(&self, entries: &mut dyn Iterator<Item = Entry>) -> Result<Stamp, Error> {
        let session = self.session()?;
        let path = session.shown(LOG);
        let failed = |error| Error::from_io(&path, Doing::Write, error);
        let file = session.replace(LOG, Access::Private, Place::Replace, &mut |file| {
            let mut writer = BufWriter::with_capacity(CHUNK, file);
            let mut bytes = Vec::new();
            for entry in &mut *entries {
                match entry {
                    Entry::Line(line) => line.render(&mut bytes)?,
                    Entry::Raw(raw) => {
                        bytes = raw;
                        if bytes.last().is_some_and(|last| *last != b'\n') {
                            bytes.push(b'\n');
                        }
                    }
                }
                writer.write_all(&bytes).map_err(failed)?;
                bytes.clear();
            }
            writer.flush().map_err(failed)
        })?;
        stamp(session, LOG, &file)
    }

    /// Keeps bytes in `.session/damaged`, once for each content; where, below the root of the workspace.
    pub fn keep_aside(&self, bytes: &[u8]) -> Result<PathBuf, Error> {
        self.set_aside(&mut io::Cursor::new(bytes))
    }

    fn set_aside(&self, source: &mut (impl Read + Seek)) -> Result<PathBuf, Error> {
        let session = self.session()?;
        let failed = |error| Error::from_io(&session.shown(DAMAGED), Doing::Write, error);
        let mut hasher = blake3::Hasher::new();
        io::copy(source, &mut hasher).map_err(failed)?;
        let name = format!("{}.bin", &hasher.finalize().to_hex().as_str()[..16]);
        let damaged = session.make(DAMAGED)?;
        if damaged.plain(&name)?.is_none() {
            damaged.replace(&name, Access::Private, Place::Replace, &mut |file| {
                source.seek(SeekFrom::Start(0)).map_err(failed)?;
                io::copy(source, file).map(drop).map_err(failed)
            })?;
            session.sync()?;
        }
        Ok([self.path().as_str(), SESSION, DAMAGED, &name].iter().collect())
    }

    /// Writes `session.json`, unless it says the same already. Fields on disk that we do not know are kept.
    ///
    /// One of a later version or of another session stays as it is, and one that cannot be read is kept aside.
    pub fn write_card(&self, card: &Card) -> Result<Stamp, Error> {
        let session = self.session()?;
        let path = session.shown(CARD);
        let before = read_whole(session, CARD, card::LARGEST)?;
        let mut card = card.clone();
        match before.as_ref().map(|bytes| Card::parse(bytes, &path)) {
            Some(Ok(found)) if found.version > Card::VERSION => {
                return Err(Error::Newer { path, found: found.version, known: Card::VERSION });
            }
            Some(Ok(found)) if found.id != card.id => {
                return Err(Error::OtherSession { path, found: found.id, given: card.id });
            }
            Some(Ok(found)) => card.keep_unknown(found.other),
            Some(Err(newer @ Error::Newer { .. })) => return Err(newer),
            Some(Err(_)) => {
                self.keep_aside(before.as_deref().unwrap_or_default())?;
            }
            None => (),
        }
        let bytes = card.render(&path)?;
        if before.is_some_and(|before| before == bytes) {
            let gone = || session.failed(CARD, Doing::Read, Errno::NOENT);
            return session.plain(CARD)?.as_ref().map(Stamp::of).ok_or_else(gone);
        }
        let file = session.replace_with(CARD, Access::Private, Place::Replace, &bytes)?;
        stamp(session, CARD, &file)
    }

    /// Writes our part of the page for people, `<kind>.md`; whether it changed.
    ///
    /// What stands outside of our part stays as it is, and so does a page that has no such part.
    pub fn write_page(&self, kind: &str, page: &Page) -> Result<bool, Error> {
        if !is_kind_name(kind) {
            return Err(Error::BadName { what: "a kind", given: kind.to_owned() });
        }
        let name = format!("{kind}.md");
        let place = &self.0.place;
        let before = read_whole(place, &name, page::LARGEST)?;
        let Some(after) = page.render(before.as_deref()) else { return Ok(false) };
        if before.is_some_and(|before| before == after) {
            return Ok(false);
        }
        place.replace_with(&name, Access::AsItWas, Place::Replace, &after)?;
        Ok(true)
    }

    /// Whether nobody wrote anything of their own into the page for people.
    pub(crate) fn page_is_ours(&self, kind: &str) -> Result<bool, Error> {
        if !is_kind_name(kind) {
            return Ok(false);
        }
        let found = read_whole(&self.0.place, &format!("{kind}.md"), page::LARGEST)?;
        Ok(found.is_some_and(|page| page::is_all_ours(&page)))
    }

    /// Takes a `session.json` away that is another session's; its bytes are kept aside. Gives where.
    pub fn set_card_aside(&self) -> Result<Option<PathBuf>, Error> {
        let session = self.session()?;
        let Some(bytes) = read_whole(session, CARD, card::LARGEST)? else { return Ok(None) };
        let aside = self.keep_aside(&bytes)?;
        unlinkat(session, CARD, AtFlags::empty())
            .map_err(|errno| session.failed(CARD, Doing::Write, errno))?;
        Ok(Some(aside))
    }

    /// Removes `session.json`, of a session that is gone.
    pub fn remove_card(&self) -> Result<(), Error> {
        let session = self.session()?;
        match unlinkat(session, CARD, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(session.failed(CARD, Doing::Write, errno)),
        }
    }

    fn session(&self) -> Result<&Directory, Error> {
        // It was opened to be locked.
        self.0.session.as_ref().ok_or_else(|| Error::Busy(self.0.place.shown(SESSION)))
    }
}

fn stamp(place: &Directory, name: &str, file: &File) -> Result<Stamp, Error> {
    let stat =
        fstat(file).map_err(|errno| Error::from_system(&place.shown(name), Doing::Read, errno))?;
    Ok(Stamp::of(&stat))
}

/// How a log ends, once what is torn is gone.
struct Tail {
    length: u64,
    /// The last line is whole, but has no newline.
    is_open: bool,
}

/// Looks at the last line; also what of it is torn.
fn find_tail(file: &File, size: u64) -> io::Result<(Tail, Option<Range<u64>>)> {
    let start = last_line(file, size)?;
    if start == size {
        return Ok((Tail { length: size, is_open: false }, None));
    }
    let length = usize::try_from(size - start).unwrap_or(usize::MAX);
    if length > LONGEST_LINE {
        return Ok((Tail { length: start, is_open: false }, Some(start..size)));
    }
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, start)?;
    match recover::line(&bytes, start, 1, false, &mut |_| ()) {
        None => Ok((Tail { length: size, is_open: true }, None)),
        Some(torn) => {
            Ok((Tail { length: torn.start, is_open: torn.start > start }, Some(torn.start..size)))
        }
    }
}

/// Where the last line begins; at the end of the file if that is a newline.
fn last_line(file: &File, size: u64) -> io::Result<u64> {
    let mut end = size;
    // Nearly always the last byte tells already.
    let mut wanted = 1;
    let mut chunk = vec![0; CHUNK];
    while end > 0 {
        let length = usize::try_from(end).unwrap_or(usize::MAX).min(wanted);
        let start = end - length as u64;
        file.read_exact_at(&mut chunk[..length], start)?;
        if let Some(place) = chunk[..length].iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + place as u64 + 1);
        }
        (end, wanted) = (start, CHUNK);
    }
    Ok(0)
}

/// A part of a file as if it were one.
struct Part<'file> {
    file: &'file File,
    at: Range<u64>,
    place: u64,
}

impl Read for Part<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.at.end - self.place).unwrap_or(usize::MAX);
        let wanted = left.min(buffer.len());
        let taken = self.file.read_at(&mut buffer[..wanted], self.place)?;
        self.place += taken as u64;
        Ok(taken)
    }
}

impl Seek for Part<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        // Only the beginning is ever asked for.
        match to {
            SeekFrom::Start(from) => self.place = (self.at.start + from).min(self.at.end),
            SeekFrom::End(_) | SeekFrom::Current(_) => {
                return Err(io::ErrorKind::Unsupported.into());
            }
        }
        Ok(self.place - self.at.start)
    }
}
