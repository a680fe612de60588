//! The kinds of sessions a workspace has: each is a prompt in `.rethread/kinds`.

use std::path::PathBuf;

use super::OURS;
use super::scan::Odd;
use crate::beneath::Directory;
use crate::error::Error;
use crate::folder::{is_kind_name, read_whole};

pub(super) const KINDS: &str = "kinds";
const EXTENSION: &str = ".md";
/// The largest prompt, in bytes: it goes to an agent as a whole.
const LARGEST: u64 = 256 << 10;

/// A kind of session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    pub name: String,
    /// What people type to be in such a session: `/workspace.brainstorm`.
    pub command: String,
    /// What the agent is told: the file as it is.
    pub prompt: String,
    /// Changes with the prompt: its hash by BLAKE3, in hexadecimal digits.
    pub hash: String,
    /// The first heading of the prompt; the name where there is none.
    pub title: String,
}

/// All kinds by name, and the files that could be one and are none.
pub(super) fn all(root: &Directory) -> Result<(Vec<Kind>, Vec<Odd>), Error> {
    let (mut kinds, mut odd) = (Vec::new(), Vec::new());
    let Some(folder) = folder(root)? else { return Ok((kinds, odd)) };
    let mut entries = folder.entries()?;
    entries.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    for (file, _) in entries {
        let Some(name) = file.strip_suffix(EXTENSION).filter(|name| !name.starts_with('.')) else {
            continue;
        };
        let why = if is_kind_name(name) {
            match read(&folder, name) {
                Ok(found) => {
                    kinds.extend(found);
                    continue;
                }
                Err(Error::NotPlain { found, .. }) => format!("it is {found}"),
                Err(error) => error.to_string(),
            }
        } else {
            "its name is not that of a kind: small letters, digits and -, at most 32, \
             and neither resume nor stop-conversation"
                .to_owned()
        };
        let path: PathBuf = [OURS, KINDS, &file].iter().collect();
        odd.push(Odd { path, why });
    }
    Ok((kinds, odd))
}

/// The kind of this name.
pub(super) fn one(root: &Directory, name: &str) -> Result<Option<Kind>, Error> {
    if !is_kind_name(name) {
        return Ok(None);
    }
    match folder(root)? {
        Some(folder) => read(&folder, name),
        None => Ok(None),
    }
}

fn folder(root: &Directory) -> Result<Option<Directory>, Error> {
    root.directory(&format!("{OURS}/{KINDS}"))
}

fn read(folder: &Directory, name: &str) -> Result<Option<Kind>, Error> {
    let file = format!("{name}{EXTENSION}");
    let Some(bytes) = read_whole(folder, &file, LARGEST)? else { return Ok(None) };
    let bad = |why| Error::BadKind { path: folder.shown(&file), why };
    let hash = blake3::hash(&bytes).to_hex().to_string();
    let prompt = String::from_utf8(bytes).map_err(|_| bad("it is not UTF-8"))?;
    if prompt.trim().is_empty() {
        return Err(bad("it is empty"));
    }
    let heading = prompt.lines().find_map(|line| line.strip_prefix('#'));
    let title = heading.map(|text| text.trim_matches(['#', ' ', '\t']));
    let title = title.filter(|title| !title.is_empty()).unwrap_or(name).to_owned();
    let (name, command) = (name.to_owned(), format!("/workspace.{name}"));
    Ok(Some(Kind { name, command, prompt, hash, title }))
}
