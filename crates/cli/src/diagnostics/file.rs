//! The log of programs that have no terminal: a file in the data folder, which all processes append to. It is bounded:
//! one that is full becomes the newest of a few older ones, of which the oldest goes.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::config;

const NAME: &str = "rethread.log";
/// How long the file may be, in bytes.
const FULL: u64 = 4 * 1024 * 1024;
/// How many older ones are kept.
const KEPT: u32 = 3;

/// Where the log is kept.
pub(crate) fn folder() -> anyhow::Result<PathBuf> {
    Ok(config::data_folder()?.join("logs"))
}

/// The file, or the older one that it became so many times ago.
fn path(folder: &Path, age: u32) -> PathBuf {
    match age {
        0 => folder.join(NAME),
        age => folder.join(format!("{NAME}.{age}")),
    }
}

#[derive(Debug)]
pub(super) struct Rotated {
    folder: PathBuf,
    full: u64,
    file: Option<File>,
    /// Whether the last line was cut off: the next one begins a line of its own.
    is_torn: bool,
}

impl Rotated {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder, full: FULL, file: None, is_torn: false }
    }

    /// Adds a line with one write, so that those of several processes do not mix.
    pub(super) fn append(&mut self, line: &str) -> io::Result<()> {
        let length = self.current()?.1;
        if length > 0 && length + line.len() as u64 > self.full {
            self.rotate()?;
        }
        let torn = if self.is_torn { "\n" } else { "" };
        let written = self.current()?.0.write_all(format!("{torn}{line}").as_bytes());
        self.is_torn = written.is_err();
        written
    }

    /// The file as it is now, and its length: another process may have put it aside, or somebody removed it.
    fn current(&mut self) -> io::Result<(&File, u64)> {
        let path = path(&self.folder, 0);
        let is_same = |file: &File| {
            let (own, there) = (file.metadata().ok()?, fs::symlink_metadata(&path).ok()?);
            Some((own.dev(), own.ino()) == (there.dev(), there.ino()))
        };
        if self.file.as_ref().is_none_or(|file| is_same(file) != Some(true)) {
            DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
            let file = open(&path)?;
            self.is_torn = is_torn(&file)?;
            self.file = Some(file);
        }
        let file = self.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let length = file.metadata()?.len();
        Ok((file, length))
    }

    /// Puts a full file aside. One process does; the others go on with what is there meanwhile.
    fn rotate(&mut self) -> io::Result<()> {
        let lock = open(&self.folder.join(format!("{NAME}.lock")))?;
        if lock.try_lock().is_err() || self.current()?.1 < self.full / 2 {
            return Ok(());
        }
        for age in (0..KEPT).rev() {
            match fs::rename(path(&self.folder, age), path(&self.folder, age + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => (),
            }
        }
        Ok(())
    }
}

/// Opens a file of ours to append to: nobody else's, no link, and nothing that would make us wait.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(flags.bits().cast_signed())
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("the log is not a file"));
    }
    Ok(file)
}

/// Whether the last line has no end: somebody was stopped while they wrote it.
fn is_torn(file: &File) -> io::Result<bool> {
    let Some(last) = file.metadata()?.len().checked_sub(1) else { return Ok(false) };
    let mut byte = [0];
    Ok(file.read_at(&mut byte, last)? == 1 && byte != *b"\n")
}

/// Reads the log, the oldest line first, and goes on with what is added.
#[derive(Debug)]
pub(crate) struct Reader {
    folder: PathBuf,
    /// The newest file, as far as it was read.
    newest: Option<BufReader<File>>,
    /// The beginning of a line whose end is not written yet.
    begun: Vec<u8>,
}

impl Reader {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, newest: None, begun: Vec::new() }
    }

    /// All lines of the older files.
    pub(crate) fn older(&self, line: &mut dyn FnMut(&str)) -> io::Result<()> {
        for age in (1..=KEPT).rev() {
            let Some(file) = found(&path(&self.folder, age))? else { continue };
            for text in BufReader::new(file).split(b'\n') {
                line(&String::from_utf8_lossy(&text?));
            }
        }
        Ok(())
    }

    /// The lines that came since the last look.
    pub(crate) fn newer(&mut self, line: &mut dyn FnMut(&str)) -> io::Result<()> {
        let path = path(&self.folder, 0);
        loop {
            // Looked at first: what is written to a file before it is put aside is read to its end.
            let there = fs::symlink_metadata(&path).ok().map(|there| (there.dev(), there.ino()));
            if let Some(file) = &mut self.newest {
                let own = file.get_ref().metadata()?;
                if own.len() < file.stream_position()? {
                    file.rewind()?;
                }
                let mut text = std::mem::take(&mut self.begun);
                file.read_to_end(&mut text)?;
                let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
                self.begun = text.split_off(whole);
                String::from_utf8_lossy(&text).lines().for_each(&mut *line);
                if there.is_none() || there == Some((own.dev(), own.ino())) {
                    return Ok(());
                }
            }
            self.begun.clear();
            self.newest = found(&path)?.map(BufReader::new);
            if self.newest.is_none() {
                return Ok(());
            }
        }
    }
}

fn found(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(folder: &Path) -> Vec<String> {
        let (mut lines, mut reader) = (Vec::new(), Reader::new(folder.to_owned()));
        reader.older(&mut |line| lines.push(line.to_owned())).unwrap();
        reader.newer(&mut |line| lines.push(line.to_owned())).unwrap();
        lines
    }

    #[test]
    fn the_log_is_bounded_and_several_write_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let new = || Rotated { full: 1_000, ..Rotated::new(folder.path().join("logs")) };
        let (mut one, mut other) = (new(), new());
        let mut reader = Reader::new(folder.path().join("logs"));
        let mut followed = Vec::new();
        for n in 0..500 {
            let writer = if n % 2 == 0 { &mut one } else { &mut other };
            writer.append(&format!("{n:>40}\n")).unwrap();
            reader.newer(&mut |line| followed.push(line.trim().to_owned())).unwrap();
        }
        assert_eq!(followed, (0..500).map(|n| n.to_string()).collect::<Vec<_>>());
        let lines = all(&folder.path().join("logs"));
        let first = 500 - lines.len();
        let kept: Vec<String> = (first..500).map(|n| n.to_string()).collect();
        assert_eq!(lines.iter().map(|line| line.trim()).collect::<Vec<_>>(), kept);
        let files: Vec<_> = fs::read_dir(folder.path().join("logs")).unwrap().flatten().collect();
        assert_eq!(files.len(), 5, "{files:?}");
        for file in files {
            let metadata = file.metadata().unwrap();
            assert!(metadata.len() <= 1_000, "{file:?}");
            assert_eq!(metadata.mode() & 0o777, 0o600, "{file:?}");
        }
        let mode = fs::metadata(folder.path().join("logs")).unwrap().mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    /// A link or a pipe in its place is not followed, and holds up nobody.
    #[test]
    fn only_a_file_of_ours_is_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        fs::write(&target, "").unwrap();
        std::os::unix::fs::symlink(&target, folder.path().join(NAME)).unwrap();
        let mut log = Rotated::new(folder.path().to_owned());
        log.append("x\n").unwrap_err();
        assert_eq!(fs::read(&target).unwrap(), b"");
        fs::remove_file(folder.path().join(NAME)).unwrap();
        log.append("x\n").unwrap();
        assert_eq!(all(folder.path()), ["x"]);
    }

    /// A line that was cut off, by a full disk or a crash, does not take the next one with it.
    #[test]
    fn a_torn_line_stands_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(NAME), "{\"at\": \"20").unwrap();
        let mut log = Rotated::new(folder.path().to_owned());
        log.append("whole\n").unwrap();
        assert_eq!(all(folder.path()), ["{\"at\": \"20", "whole"]);
    }
}
