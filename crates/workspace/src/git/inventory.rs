//! What is in a folder, what git's index has of it, and what ignore rules hide.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::Hurdle;
use super::place::{Place, literal, path_of, refusal};
use super::program::{ask, ask_about, reading};

/// Where a session keeps its state, below its folder.
const SESSION: &[u8] = b".session/";

/// Something on the disk that is no folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    File {
        executable: bool,
    },
    Link,
    /// A repository in the repository, not looked into.
    Repository,
    /// A pipe, a socket, a device: nothing that git keeps.
    Odd,
}

impl Found {
    pub(super) fn of(metadata: &fs::Metadata) -> Self {
        if metadata.is_file() {
            // Git looks at the owner's bit only.
            return Self::File { executable: metadata.permissions().mode() & 0o100 != 0 };
        }
        if metadata.is_symlink() { Self::Link } else { Self::Odd }
    }
}

/// What the index says of a path.
#[derive(Debug)]
pub(super) struct Indexed {
    pub(super) id: String,
    /// A sparse checkout leaves it off the disk.
    pub(super) left_out: bool,
}

/// All paths are bytes from the top of the working tree, as git writes them.
#[derive(Debug)]
pub(super) struct Inventory {
    /// Single files that come along with the folder.
    pub(super) also: BTreeSet<Vec<u8>>,
    pub(super) found: BTreeMap<Vec<u8>, Found>,
    pub(super) indexed: BTreeMap<Vec<u8>, Indexed>,
}

impl Inventory {
    /// Looks at the folder and at the files that come along. A session that is hidden from git is a hurdle; other
    /// files that rules hide are left out, as git does.
    pub(super) fn of(place: &Place, also: &[PathBuf]) -> Result<Self, Hurdle> {
        let mut found = BTreeMap::new();
        let folder = place.top.join(path_of(&place.prefix));
        walk(&folder, &place.prefix, &mut found)
            .map_err(|error| Hurdle::Failed(format!("the folder cannot be read: {error}")))?;
        let mut single = BTreeSet::new();
        for path in also.iter().filter_map(|file| place.inside(file)) {
            let kind =
                fs::symlink_metadata(place.top.join(path_of(&path))).ok().map(|it| Found::of(&it));
            if let Some(kind @ (Found::File { .. } | Found::Link)) = kind
                && !path.starts_with(&place.prefix)
            {
                found.insert(path.clone(), kind);
                single.insert(path);
            }
        }
        let indexed = indexed(place, &single)?;
        let mut inventory = Self { also: single, found, indexed };
        inventory.leave_out_hidden(place)?;
        Ok(inventory)
    }

    /// What the index has of the folder.
    pub(super) fn index(place: &Place) -> Result<BTreeMap<Vec<u8>, Indexed>, Hurdle> {
        indexed(place, &BTreeSet::new())
    }

    /// The paths that belong to the session's own state.
    pub(super) fn is_session(place: &Place, path: &[u8]) -> bool {
        path.strip_prefix(place.prefix.as_slice()).is_some_and(|path| path.starts_with(SESSION))
    }

    fn leave_out_hidden(&mut self, place: &Place) -> Result<(), Hurdle> {
        self.found.retain(|path, kind| match kind {
            Found::File { .. } | Found::Link => true,
            Found::Repository | Found::Odd => self.indexed.contains_key(path),
        });
        let unknown: Vec<&Vec<u8>> =
            self.found.keys().filter(|path| !self.indexed.contains_key(*path)).collect();
        let hidden = hidden(place, &unknown)?;
        let of_session =
            |(path, _): &(&Vec<u8>, &PathBuf)| Self::is_session(place, path) && !is_leftover(path);
        if let Some((_, rule)) = hidden.iter().find(of_session) {
            return Err(Hurdle::Ignored(rule.clone()));
        }
        self.found.retain(|path, _| !hidden.contains_key(path));
        let mut ours = self.found.keys().chain(self.indexed.keys());
        match hidden.iter().find(|(path, _)| path.starts_with(&place.prefix)) {
            Some((_, rule)) if !ours.any(|path| path.starts_with(&place.prefix)) => {
                Err(Hurdle::Ignored(rule.clone()))
            }
            _ => Ok(()),
        }
    }
}

/// Whether git has anything of a folder that is there. Executes nothing of the repository.
pub fn is_tracked(folder: &Path) -> bool {
    let known = Place::find(folder).and_then(|place| Inventory::index(&place));
    known.is_ok_and(|known| !known.is_empty())
}

/// What editors and file managers leave behind is hidden with good reason.
fn is_leftover(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    name.starts_with(b".") || name.starts_with(b"#") || name.ends_with(b"~")
}

/// Everything below a folder. Links are not followed.
fn walk(folder: &Path, prefix: &[u8], found: &mut BTreeMap<Vec<u8>, Found>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == ".git" {
            continue;
        }
        let mut path = prefix.to_vec();
        path.extend_from_slice(name.as_bytes());
        let full = entry.path();
        let metadata = match fs::symlink_metadata(&full) {
            // Removed while we look.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            metadata => metadata?,
        };
        if !metadata.is_dir() {
            found.insert(path, Found::of(&metadata));
        } else if fs::symlink_metadata(full.join(".git")).is_ok() {
            found.insert(path, Found::Repository);
        } else {
            path.push(b'/');
            walk(&full, &path, found)?;
        }
    }
    Ok(())
}

/// What the index has of the folder and of the files that come along.
fn indexed(place: &Place, also: &BTreeSet<Vec<u8>>) -> Result<BTreeMap<Vec<u8>, Indexed>, Hurdle> {
    let mut git = reading(&place.top);
    git.args(["ls-files", "-z", "-t", "--stage", "--"]).arg(place.scope());
    let answer = ask(git.args(also.iter().map(|path| literal(path))))?;
    if !answer.success() {
        return Err(refusal(&answer));
    }
    let records = answer.out.split(|byte| *byte == 0).filter(|record| !record.is_empty());
    Ok(records.filter_map(read_indexed).collect())
}

/// Reads `H 100644 <id> 0\t<path>`.
fn read_indexed(record: &[u8]) -> Option<(Vec<u8>, Indexed)> {
    let tab = record.iter().position(|byte| *byte == b'\t')?;
    let head = std::str::from_utf8(&record[..tab]).ok()?;
    let mut words = head.split(' ');
    let (tag, _mode, id) = (words.next()?, words.next()?, words.next()?);
    let indexed = Indexed { id: id.to_owned(), left_out: tag == "S" };
    Some((record[tab + 1..].to_vec(), indexed))
}

/// Which of these paths are hidden, and by which rule.
fn hidden(place: &Place, paths: &[&Vec<u8>]) -> Result<BTreeMap<Vec<u8>, PathBuf>, Hurdle> {
    if paths.is_empty() {
        return Ok(BTreeMap::new());
    }
    let mut input = Vec::new();
    for path in paths {
        // This command knows no other way to take a name for a name.
        input.extend_from_slice(b"./");
        input.extend_from_slice(path);
        input.push(0);
    }
    let asked = ["check-ignore", "--verbose", "-z", "--stdin"];
    let answer = ask_about(reading(&place.top).args(asked), input)?;
    if !matches!(answer.code, Some(0 | 1)) {
        return Err(refusal(&answer));
    }
    let fields: Vec<&[u8]> = answer.out.split(|byte| *byte == 0).collect();
    let rules = fields.chunks_exact(4).filter_map(|rule| match rule {
        // The last rule that fits is told, also one that makes an exception.
        [file, line, pattern, path] if !pattern.starts_with(b"!") => {
            let shown = [*file, b":", line, b" ", pattern].concat();
            Some((path.strip_prefix(b"./")?.to_vec(), path_of(&shown)))
        }
        _ => None,
    });
    Ok(rules.collect())
}
