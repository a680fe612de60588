//! What was typed before, in a file that only its owner can read.
//!
//! One entry a line, with `\n` for a line end within it and `\\` for a backslash. Several programs can write it:
//! each reads what the others have added before it replaces the file.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// How many entries are kept, and how large they can be: each, and all together.
const MOST: usize = 1000;
pub(super) const ENTRY_BYTES: usize = 64 * 1024;
const FILE_BYTES: usize = 1024 * 1024;

/// Lines typed, oldest first, each once.
#[derive(Debug)]
pub(super) struct History {
    path: PathBuf,
    entries: Vec<String>,
    /// Those that the file does not have yet.
    new: Vec<String>,
}

impl History {
    /// Reads the file, if it is there.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let entries = read(path)?;
        Ok(Self { path: path.to_owned(), entries, new: Vec::new() })
    }

    pub(super) fn entries(&self) -> &[String] {
        &self.entries
    }

    /// Adds a line as the newest; whether it is worth keeping.
    pub(super) fn add(&mut self, line: &str) -> bool {
        if line.trim().is_empty() || line.len() > ENTRY_BYTES {
            return false;
        }
        push(&mut self.entries, line);
        push(&mut self.new, line);
        true
    }

    /// Writes what is new, and takes in what others have written.
    pub(super) fn save(&mut self) -> io::Result<()> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        // Held until it is dropped. A file of its own, since the other one is replaced.
        let lock = create(&self.beside("lock"))?;
        lock.lock()?;
        let mut entries = read(&self.path)?;
        for line in &self.new {
            push(&mut entries, line);
        }
        self.replace(&entries)?;
        self.entries = entries;
        self.new.clear();
        Ok(())
    }

    /// Puts a new file in the place of the old one, whole or not at all.
    fn replace(&self, entries: &[String]) -> io::Result<()> {
        let half = self.beside("new");
        match fs::remove_file(&half) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => (),
        }
        let mut file = create(&half)?;
        file.write_all(entries.iter().map(|entry| escaped(entry)).collect::<String>().as_bytes())?;
        fs::rename(&half, &self.path)
    }

    /// The name of the file with another ending.
    fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(".");
        name.push(ending);
        name.into()
    }
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)
}

/// The entries of a file; of one that is too large, those at its end.
fn read(path: &Path) -> io::Result<Vec<String>> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let about = file.metadata()?;
    if about.permissions().mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    let most = u64::try_from(4 * FILE_BYTES).unwrap_or(u64::MAX);
    let skipped = about.len().saturating_sub(most);
    file.seek(SeekFrom::Start(skipped))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let mut entries = Vec::new();
    // The first line of what is left of a large file is half of one.
    for line in text.lines().skip(usize::from(skipped > 0)) {
        let entry = unescaped(line);
        if !entry.trim().is_empty() && entry.len() <= ENTRY_BYTES {
            entries.push(entry);
        }
    }
    Ok(newest(entries))
}

/// Adds an entry as the newest, and keeps the rules: each once, not too many.
fn push(entries: &mut Vec<String>, line: &str) {
    entries.push(line.to_owned());
    *entries = newest(std::mem::take(entries));
}

/// Each entry once, at the place where it was last, and no more of them than there may be.
fn newest(entries: Vec<String>) -> Vec<String> {
    let mut bytes = 0;
    let mut seen = std::collections::HashSet::new();
    let mut kept: Vec<String> = Vec::new();
    for entry in entries.into_iter().rev() {
        if seen.contains(&entry) {
            continue;
        }
        bytes += escaped(&entry).len();
        if kept.len() == MOST || bytes > FILE_BYTES {
            break;
        }
        seen.insert(entry.clone());
        kept.push(entry);
    }
    kept.reverse();
    kept
}

/// The entry as a line of the file.
fn escaped(entry: &str) -> String {
    entry.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r") + "\n"
}

fn unescaped(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (c, chars.clone().next()) {
            ('\\', Some('n')) => out.push('\n'),
            ('\\', Some('r')) => out.push('\r'),
            ('\\', Some('\\')) => out.push('\\'),
            _ => {
                out.push(c);
                continue;
            }
        }
        chars.next();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved(path: &Path, lines: &[&str]) -> Vec<String> {
        let mut history = History::open(path).unwrap();
        for line in lines {
            history.add(line);
        }
        history.save().unwrap();
        History::open(path).unwrap().entries
    }

    #[test]
    fn an_entry_is_kept_once_at_its_last_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        assert_eq!(saved(&path, &["a", "b", "a", " ", "", "c"]), ["b", "a", "c"]);
        assert_eq!(saved(&path, &["b"]), ["a", "c", "b"]);
    }

    #[test]
    fn any_line_comes_back_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let lines = ["two\nlines", "C:\\new\\rest", "\\", "\\\\n", "tab\there", "a\r\nb", "日本"];
        assert_eq!(saved(&folder.path().join("history"), &lines), lines);
    }

    #[test]
    fn only_the_newest_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        let lines: Vec<String> = (0..MOST + 5).map(|n| n.to_string()).collect();
        fs::write(&path, lines.join("\n") + "\n").unwrap();
        let entries = saved(&path, &["last"]);
        assert_eq!(
            (entries.len(), entries[0].as_str(), entries[MOST - 1].as_str()),
            (MOST, "6", "last")
        );
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), MOST);
    }

    #[test]
    fn the_file_stays_small() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        let long = "x".repeat(ENTRY_BYTES - 10);
        let lines: Vec<String> = (0..100).map(|n| format!("{long}{n}")).collect();
        fs::write(&path, lines.join("\n") + "\n").unwrap();
        let entries = saved(&path, &["short", &"y".repeat(ENTRY_BYTES + 1)]);
        assert_eq!(entries.last().unwrap(), "short");
        // Sixteen long ones, each a little below the most, and the short one.
        assert_eq!(entries.len(), 17);
        assert!(entries[0].ends_with("x84"));
        assert!(fs::metadata(&path).unwrap().len() <= FILE_BYTES as u64);
    }

    #[test]
    fn two_writers_lose_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        let (mut one, mut other) = (History::open(&path).unwrap(), History::open(&path).unwrap());
        one.add("from one");
        one.save().unwrap();
        other.add("from the other");
        other.save().unwrap();
        assert_eq!(History::open(&path).unwrap().entries, ["from one", "from the other"]);
        assert_eq!(other.entries, ["from one", "from the other"]);
    }

    #[test]
    fn only_the_owner_can_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data").join("history");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        saved(&path, &["secret"]);
        let parent = path.parent().unwrap();
        assert_eq!(mode(parent), 0o700);
        for entry in fs::read_dir(parent).unwrap() {
            assert_eq!(mode(&entry.unwrap().path()), 0o600);
        }
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        History::open(&path).unwrap();
        assert_eq!(mode(&path), 0o600);
    }
}
