//! The message that the user wrote for a commit of their own, which git keeps in one file and overwrites.

use std::fs;
use std::path::PathBuf;

/// Messages are short; a longer file is not copied.
const LONGEST: u64 = 1 << 20;

/// A copy of the user's message, taken before a commit of ours.
#[derive(Debug)]
pub(super) struct Draft {
    file: PathBuf,
    text: Option<Vec<u8>>,
}

impl Draft {
    pub(super) fn keep(file: PathBuf) -> Self {
        let plain = fs::symlink_metadata(&file)
            .is_ok_and(|found| found.is_file() && found.len() <= LONGEST);
        let text = if plain { fs::read(&file).ok() } else { None };
        Self { file, text }
    }

    /// Puts it back if ours is in its place. Someone may be writing another in their editor just now: that one stays.
    /// Nothing depends on the file, so a failure is not worth a word.
    pub(super) fn put_back(self, ours: &str) {
        let Some(text) = self.text else { return };
        if fs::read(&self.file).is_ok_and(|now| now.starts_with(ours.as_bytes())) {
            // Nothing depends on it.
            drop(fs::write(&self.file, text));
        }
    }
}
