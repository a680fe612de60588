//! Finds one session: by the file that it is in, or by the id that its agent knows it by.

use std::path::Path;

use crate::find::{add, find, find_native};
use crate::{AGENTS, Error, Found, Roots, open};

/// The session in one file of an agent.
pub(crate) fn file(agent: &str, path: &Path) -> Result<Option<Found>, Error> {
    let mut all = Found::none();
    if let Some(agent) = AGENTS.iter().find(|known| **known == agent) {
        add(agent, path, &mut all);
    }
    match all.1.into_iter().next() {
        Some(error) => Err(error),
        None => Ok(all.0.into_iter().next()),
    }
}

/// The session that an agent knows by this id, in its own folders. Of several files, one that something was said in.
pub fn locate(agent: &str, native: &str, roots: &Roots) -> Option<Found> {
    let newest = find_native(agent, roots, native)?;
    let is_it = |one: &Found| {
        let opened = open(one, None).ok().flatten();
        opened.is_some_and(|transcript| transcript.head().native == native)
    };
    // A resume leaves files of Gemini's that only have a header, beside the one with the messages.
    if agent != "gemini" || is_it(&newest) {
        return Some(newest);
    }
    let short = native.get(..8).unwrap_or(native);
    let has_name = |one: &Found| one.path.to_string_lossy().contains(short);
    let all = find(agent, roots).0.into_iter();
    Some(all.filter(has_name).find(is_it).unwrap_or(newest))
}
