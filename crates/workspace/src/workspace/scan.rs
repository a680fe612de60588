//! Looks for session folders without reading them.

use std::path::PathBuf;

use rustix::fs::FileType;

use crate::beneath::{Directory, describe_kind, oddity};
use crate::error::Error;
use crate::folder::{CARD, CONVERSATIONS, FolderPath, LOG, SESSION, Stamp, is_date};

/// A session folder as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub path: FolderPath,
    pub log: Option<Stamp>,
    pub card: Option<Stamp>,
    /// Why it cannot be used: something else stands where a folder or a file should be.
    pub odd: Option<String>,
}

/// Something that stands where a kind or a session could be, and is neither.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Odd {
    /// Below the root of the workspace.
    pub path: PathBuf,
    pub why: String,
}

pub(super) fn scan(root: &Directory) -> Result<Vec<Seen>, Error> {
    let Some(conversations) = root.directory(CONVERSATIONS)? else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for (date, kind) in conversations.entries()? {
        if kind != FileType::Directory || !is_date(&date) {
            continue;
        }
        // One that cannot be opened does not hide the others; `odd` tells about it.
        let Ok(Some(day)) = conversations.directory(&date) else { continue };
        for (name, kind) in day.entries()? {
            if let Ok(path) = FolderPath::in_day(&date, &name) {
                found.push(look(&day, path, kind));
            }
        }
    }
    found.sort_unstable_by(|one, other| one.path.as_str().cmp(other.path.as_str()));
    Ok(found)
}

fn look(day: &Directory, path: FolderPath, kind: FileType) -> Seen {
    let mut seen = Seen { path, log: None, card: None, odd: None };
    if kind != FileType::Directory {
        seen.odd = Some(format!("it is {}", describe_kind(kind)));
        return seen;
    }
    let session = match day.glance(&format!("{}/{SESSION}", seen.path.name())) {
        Ok(Some(session)) => session,
        Ok(None) => return seen,
        Err(error) => {
            seen.odd = Some(described(SESSION, &error));
            return seen;
        }
    };
    for (name, stamp) in [(LOG, &mut seen.log), (CARD, &mut seen.card)] {
        match session.stat(name) {
            Ok(None) => (),
            Ok(Some(stat)) => match oddity(&stat) {
                None => *stamp = Some(Stamp::of(&stat)),
                Some(what) => seen.odd = Some(format!("{name} is {what}")),
            },
            Err(error) => seen.odd = Some(described(name, &error)),
        }
    }
    seen
}

fn described(name: &str, error: &Error) -> String {
    match error {
        Error::NotPlain { found, .. } => format!("{name} is {found}"),
        _ => format!("{name} may not be read"),
    }
}

pub(super) fn odd(root: &Directory) -> Result<Vec<Odd>, Error> {
    let Some(conversations) = root.directory(CONVERSATIONS)? else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    let mut dates = conversations.entries()?;
    dates.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    for (date, kind) in dates.into_iter().filter(|(date, _)| is_date(date)) {
        let path = PathBuf::from(CONVERSATIONS).join(&date);
        if kind != FileType::Directory {
            found.push(Odd { path, why: format!("it is {}", describe_kind(kind)) });
            continue;
        }
        match conversations.directory(&date) {
            Ok(Some(day)) => found.extend(odd_in_day(&day, &date)?),
            Ok(None) => (),
            Err(error) => found.push(Odd { path, why: error.to_string() }),
        }
    }
    Ok(found)
}

/// Session folders that cannot be used, and folders that look like one but are not called so.
fn odd_in_day(day: &Directory, date: &str) -> Result<Vec<Odd>, Error> {
    let mut found = Vec::new();
    for (name, kind) in day.entries()? {
        let path = PathBuf::from(CONVERSATIONS).join(date).join(&name);
        let why = match FolderPath::in_day(date, &name) {
            Ok(folder) => look(day, folder, kind).odd,
            Err(why) => {
                let inside = if kind == FileType::Directory { day.glance(&name)? } else { None };
                let has_session = match inside {
                    Some(inside) => inside.stat(SESSION)?.is_some(),
                    None => false,
                };
                has_session.then(|| why.to_owned())
            }
        };
        found.extend(why.map(|why| Odd { path, why }));
    }
    found.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}

/// The highest number that any name of this day begins with.
pub(super) fn last_number(day: &Directory) -> Result<u32, Error> {
    let number = |(name, _): &(String, FileType)| -> Option<u32> {
        let (digits, _) = name.split_once('-')?;
        let form = (3..=6).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
        digits.parse().ok().filter(|_| form)
    };
    Ok(day.entries()?.iter().filter_map(number).max().unwrap_or(0))
}
