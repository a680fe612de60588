//! Makes a folder a workspace.

use std::path::PathBuf;

use super::kind::KINDS;
use super::{CommitPolicy, LARGEST_SETTINGS, OURS, SETTINGS, Workspace, lock, settings, wish};
use crate::beneath::{Access, Directory, Place};
use crate::error::Error;
use crate::folder::read_whole;

const DEFAULT_SETTINGS: &str = include_str!("workspace.toml");

const DEFAULT_KINDS: [(&str, &str); 7] = [
    ("brainstorm.md", include_str!("../kinds/brainstorm.md")),
    ("chat.md", include_str!("../kinds/chat.md")),
    ("debug.md", include_str!("../kinds/debug.md")),
    ("learn.md", include_str!("../kinds/learn.md")),
    ("meeting.md", include_str!("../kinds/meeting.md")),
    ("plan.md", include_str!("../kinds/plan.md")),
    ("review.md", include_str!("../kinds/review.md")),
];

const ATTRIBUTES: &str = ".gitattributes";
/// Two clones that went on with one session both keep what they said; and git changes no line end. Our part of the
/// page is written anew after a merge.
const MERGE_RULES: [&str; 2] =
    ["conversations/**/.session/* merge=union -text", "conversations/*/*/*.md merge=union"];
const LARGEST_ATTRIBUTES: u64 = 16 << 20;

/// A folder that was made a workspace.
#[derive(Debug)]
pub struct Made {
    pub workspace: Workspace,
    /// What was created or changed, below the root; empty where all was there.
    pub created: Vec<PathBuf>,
}

pub(super) fn init(root: &Directory, commit: Option<CommitPolicy>) -> Result<Vec<PathBuf>, Error> {
    let ours = root.make(OURS)?;
    lock(&ours)?;
    let mut created = Vec::new();
    let kinds = ours.make(KINDS)?;
    for (name, prompt) in DEFAULT_KINDS {
        if add(&kinds, name, prompt)? {
            created.push([OURS, KINDS, name].iter().collect());
        }
    }
    if add_rules(root)? {
        created.push(PathBuf::from(ATTRIBUTES));
    }
    // Last, because it is what makes the folder a workspace.
    let mut changed = add(&ours, SETTINGS, DEFAULT_SETTINGS)?;
    if let Some(wish) = commit {
        changed |= set(&ours, wish)?;
    }
    if changed {
        created.push([OURS, SETTINGS].iter().collect());
    }
    root.sync()?;
    Ok(created)
}

/// Creates a file, unless there is one; whether it did.
fn add(place: &Directory, name: &str, text: &str) -> Result<bool, Error> {
    if place.plain(name)?.is_some() {
        return Ok(false);
    }
    place.replace_with(name, Access::Private, Place::OnlyIfFree, text.as_bytes())?;
    Ok(true)
}

/// Changes the one setting and nothing else in the file; whether it was another.
fn set(ours: &Directory, wanted: CommitPolicy) -> Result<bool, Error> {
    let path = ours.shown(SETTINGS);
    let bytes = read_whole(ours, SETTINGS, LARGEST_SETTINGS)?.unwrap_or_default();
    let mut document = settings(&bytes, &path)?;
    if document.contains_key("commit") && wish(&document, &path).is_ok_and(|wish| wish == wanted) {
        return Ok(false);
    }
    match document.get_mut("commit").and_then(toml_edit::Item::as_value_mut) {
        Some(value) => {
            // What stands around the value, such as a comment behind it, stays.
            let around = value.decor().clone();
            *value = wanted.as_str().into();
            *value.decor_mut() = around;
        }
        None => document["commit"] = toml_edit::value(wanted.as_str()),
    }
    let text = document.to_string();
    ours.replace_with(SETTINGS, Access::AsItWas, Place::Replace, text.as_bytes())?;
    Ok(true)
}

/// Adds the rules by which git merges sessions; whether any was missing.
fn add_rules(root: &Directory) -> Result<bool, Error> {
    let mut bytes = read_whole(root, ATTRIBUTES, LARGEST_ATTRIBUTES)?.unwrap_or_default();
    let mut is_changed = false;
    for rule in MERGE_RULES {
        let is_line = |line: &[u8]| line.trim_ascii() == rule.as_bytes();
        if bytes.split(|byte| *byte == b'\n').any(is_line) {
            continue;
        }
        if bytes.last().is_some_and(|last| *last != b'\n') {
            bytes.push(b'\n');
        }
        bytes.extend_from_slice(rule.as_bytes());
        bytes.push(b'\n');
        is_changed = true;
    }
    if is_changed {
        root.replace_with(ATTRIBUTES, Access::AsItWas, Place::Replace, &bytes)?;
    }
    Ok(is_changed)
}
