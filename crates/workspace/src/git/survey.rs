//! What differs from the last commit, found without asking git for a status or a diff: those run filters.
//!
//! The bytes on the disk are compared with those that were committed. Where filters or line endings change them on the
//! way, that says "changed" too often, never too rarely; a commit then finds out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::Hurdle;
use super::head::head;
use super::inventory::{Found, Inventory};
use super::place::{Place, literal, path_of, refusal};
use super::program::{ask, ask_about, reading};

/// What a path that is only announced to the index has there: nothing, in either kind of repository.
const ANNOUNCED: [&str; 2] = [
    "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
    "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813",
];

const EXECUTABLE: &str = "100755";
const LINK: &str = "120000";
const REPOSITORY: &str = "160000";

/// How a folder differs from the last commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    Nothing,
    /// Only what is below `.session/`.
    OnlySession,
    More,
}

/// Whether paths below `folder` differ from the last commit, and whether only those below `.session/` do. Executes
/// nothing of the repository.
pub fn changed(folder: &Path) -> Result<Changed, Hurdle> {
    let place = Place::find(folder)?;
    let survey = Survey::of(&place, &[])?;
    Ok(kind_of(&place, &survey.changed))
}

/// What a change of these paths amounts to.
pub(super) fn kind_of(place: &Place, paths: &BTreeSet<Vec<u8>>) -> Changed {
    if paths.is_empty() {
        Changed::Nothing
    } else if paths.iter().all(|path| Inventory::is_session(place, path)) {
        Changed::OnlySession
    } else {
        Changed::More
    }
}

#[derive(Debug)]
pub(super) struct Survey {
    /// All that is on the disk, changed or not.
    pub(super) found: BTreeSet<Vec<u8>>,
    pub(super) changed: BTreeSet<Vec<u8>>,
    /// Those of them that git does not know yet.
    pub(super) unknown: BTreeSet<Vec<u8>>,
    /// Those of them that the last commit does not have.
    pub(super) new: BTreeSet<Vec<u8>>,
}

/// What was committed of a path.
#[derive(Debug)]
struct Committed {
    mode: String,
    id: String,
}

impl Survey {
    pub(super) fn of(place: &Place, also: &[PathBuf]) -> Result<Self, Hurdle> {
        Self::from(place, &Inventory::of(place, also)?)
    }

    /// Compares what was found with the last commit.
    pub(super) fn from(place: &Place, inventory: &Inventory) -> Result<Self, Hurdle> {
        let committed = committed(place, inventory)?;
        let ids = ids(place, inventory)?;
        let modes_count = modes_count(place)?;
        let mut changed = BTreeSet::new();
        for (path, before) in &committed {
            let same = match inventory.found.get(path) {
                Some(Found::Repository) => {
                    before.mode == REPOSITORY && stands_at(place, path, &before.id)
                }
                None if before.mode == REPOSITORY => place.top.join(path_of(path)).is_dir(),
                None => inventory.indexed.get(path).is_some_and(|indexed| indexed.left_out),
                Some(found) => {
                    let alike = (before.mode == LINK) == (*found == Found::Link);
                    let executable = *found == Found::File { executable: true };
                    let flipped = modes_count && (before.mode == EXECUTABLE) != executable;
                    alike && !flipped && ids.get(path) == Some(&before.id)
                }
            };
            if !same {
                changed.insert(path.clone());
            }
        }
        let new = inventory.found.keys().filter(|path| !committed.contains_key(*path));
        changed.extend(new.cloned());
        changed.retain(|path| !half_staged(inventory, committed.get(path), ids.get(path), path));
        let unknown = changed
            .iter()
            .filter(|path| inventory.found.contains_key(*path))
            .filter(|path| !inventory.indexed.contains_key(*path));
        let new = changed.iter().filter(|path| !committed.contains_key(*path));
        Ok(Self {
            found: inventory.found.keys().cloned().collect(),
            unknown: unknown.cloned().collect(),
            new: new.cloned().collect(),
            changed,
        })
    }
}

/// Whether the user has staged another version of a file that is not the session's: it is left to them.
fn half_staged(
    inventory: &Inventory,
    before: Option<&Committed>,
    now: Option<&String>,
    path: &[u8],
) -> bool {
    let Some(indexed) = inventory.indexed.get(path) else { return false };
    inventory.also.contains(path)
        && !ANNOUNCED.contains(&indexed.id.as_str())
        && before.is_none_or(|before| before.id != indexed.id)
        && now != Some(&indexed.id)
}

fn stands_at(place: &Place, path: &[u8], commit: &str) -> bool {
    head(&place.top.join(path_of(path))).is_some_and(|head| head.commit == commit)
}

/// What the last commit has of the folder and of the files that come along.
fn committed(place: &Place, inventory: &Inventory) -> Result<BTreeMap<Vec<u8>, Committed>, Hurdle> {
    let Some(commit) = place.commit()? else { return Ok(BTreeMap::new()) };
    let mut git = reading(&place.top);
    git.args(["ls-tree", "-r", "-z", "--full-tree", &commit, "--"]);
    if !place.prefix.is_empty() {
        git.arg(place.scope());
        git.args(inventory.also.iter().map(|path| literal(path)));
    }
    let answer = ask(&mut git)?;
    if !answer.success() {
        return Err(refusal(&answer));
    }
    let records = answer.out.split(|byte| *byte == 0).filter(|record| !record.is_empty());
    Ok(records.filter_map(read_committed).collect())
}

/// Reads `100644 blob <id>\t<path>`.
fn read_committed(record: &[u8]) -> Option<(Vec<u8>, Committed)> {
    let tab = record.iter().position(|byte| *byte == b'\t')?;
    let head = std::str::from_utf8(&record[..tab]).ok()?;
    let mut words = head.split(' ');
    let (mode, _kind, id) = (words.next()?, words.next()?, words.next()?);
    let committed = Committed { mode: mode.to_owned(), id: id.to_owned() };
    Some((record[tab + 1..].to_vec(), committed))
}

/// The ids that git would give to the bytes on the disk, filters aside. Where they cannot be told, because a file was
/// replaced just now, there are none: what has no id counts as changed.
fn ids(place: &Place, inventory: &Inventory) -> Result<BTreeMap<Vec<u8>, String>, Hurdle> {
    let mut ids = BTreeMap::new();
    let mut files: Vec<&Vec<u8>> = Vec::new();
    for (path, found) in &inventory.found {
        match found {
            Found::File { .. } => files.push(path),
            Found::Link => {
                let Ok(target) = fs::read_link(place.top.join(path_of(path))) else { continue };
                let asked = ["hash-object", "--no-filters", "--stdin"];
                let target = target.as_os_str().as_bytes().to_vec();
                let answer = ask_about(reading(&place.top).args(asked), target)?;
                ids.insert(path.clone(), String::from_utf8_lossy(&answer.out).trim().to_owned());
            }
            Found::Repository | Found::Odd => (),
        }
    }
    if files.is_empty() {
        return Ok(ids);
    }
    let input: Vec<u8> = files.iter().flat_map(|path| quoted(path)).collect();
    let asked = ["hash-object", "--no-filters", "--stdin-paths"];
    let answer = ask_about(reading(&place.top).args(asked), input)?;
    if answer.success() {
        let told = String::from_utf8_lossy(&answer.out);
        ids.extend(files.into_iter().cloned().zip(told.lines().map(str::to_owned)));
    }
    Ok(ids)
}

/// A line that names a path, whatever bytes it is made of.
fn quoted(path: &[u8]) -> Vec<u8> {
    let mut line = b"\"".to_vec();
    for byte in path {
        match byte {
            b'"' | b'\\' => line.extend_from_slice(&[b'\\', *byte]),
            0..b' ' | 127.. => line.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
            _ => line.push(*byte),
        }
    }
    line.extend_from_slice(b"\"\n");
    line
}

/// Whether the repository cares for the executable bit; on some file systems it means nothing.
fn modes_count(place: &Place) -> Result<bool, Hurdle> {
    let asked = ["config", "--type=bool", "--get", "core.fileMode"];
    let answer = ask(reading(&place.top).args(asked))?;
    Ok(!answer.out.starts_with(b"false"))
}
