//! Protected paths: files that decide what is run or who has access. Those of the repository itself, our settings, the store and what
//! lies beside it. Writing them, or reading ours, needs an answer for exactly that file.

use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rethread_domain::consent::Intent;
use rethread_engine::program::without_links;

const REPOSITORY: &str =
    "it belongs to the repository itself: what is written there may be run by git";
const OURS: &str =
    "it belongs to Rethread: it holds what was said, what is run, or who may come in";

const GIT: &str = ".git";
/// How many arguments are looked at for files that they name.
const MOST_MENTIONED: usize = 256;
/// A longer file is no pointer of git's.
const LONGEST_POINTER: u64 = 8_192;

/// What is protected, besides every `.git`.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProtectedPaths {
    /// Folders with all of their content; files with all names that begin like theirs.
    own: Vec<PathBuf>,
    /// The folders of the repository where they have other names, as after `git init --separate-git-dir`.
    repository: Vec<PathBuf>,
}

/// What is done to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

impl ProtectedPaths {
    pub(crate) fn new(own: &[PathBuf]) -> Self {
        Self { own: own.iter().map(|path| without_links(path)).collect(), repository: Vec::new() }
    }

    /// Protects what the `.git` of a project leads to as well: it is a file in worktrees, in submodules, and where the folder of
    /// the repository lies elsewhere.
    pub(crate) fn with_repository_of(mut self, project: &Path) -> Self {
        let project = without_links(project);
        let Some((top, git)) = project
            .ancestors()
            .map(|folder| (folder, folder.join(GIT)))
            .find(|(_, git)| git.symlink_metadata().is_ok())
        else {
            return self;
        };
        let folder = match pointer(&git, "gitdir:") {
            Some(folder) => without_links(&top.join(folder)),
            None => without_links(&git),
        };
        // What all worktrees share, hooks and settings for instance, lies in the folder of the first.
        if let Some(common) = pointer(&folder.join("commondir"), "") {
            self.repository.push(without_links(&folder.join(common)));
        }
        self.repository.push(folder);
        self
    }

    /// Why a file, by its path without links, needs an answer of its own.
    pub(crate) fn why(&self, path: &Path, access: Access) -> Option<&'static str> {
        let is_git = |name: &std::ffi::OsStr| name.eq_ignore_ascii_case(GIT);
        let is_inside = |folder: &PathBuf| path.starts_with(folder);
        if access == Access::Write
            && (path.iter().any(is_git) || self.repository.iter().any(is_inside))
        {
            return Some(REPOSITORY);
        }
        self.own.iter().any(|own| belongs(path, own)).then_some(OURS)
    }

    /// Whether an open file is one of ours under another name.
    pub(crate) fn is_ours(&self, file: &File) -> bool {
        let Ok(known) = file.metadata() else { return true };
        known.nlink() > 1
            && self.files().any(|own| {
                own.symlink_metadata()
                    .is_ok_and(|own| (own.dev(), own.ino()) == (known.dev(), known.ino()))
            })
    }

    fn files(&self) -> impl Iterator<Item = PathBuf> {
        let folders = self
            .own
            .iter()
            .filter_map(|own| if own.is_dir() { Some(own.as_path()) } else { own.parent() });
        let entries = folders.filter_map(|folder| folder.read_dir().ok()).flatten().flatten();
        entries
            .map(|entry| entry.path())
            .filter(|path| self.own.iter().any(|own| belongs(path, own)))
    }

    /// Names the files of an intent by their real paths, so that no rule and no answer can be got round by `..` or a link, and
    /// notes which of them are protected.
    pub(crate) fn note(&self, intent: &mut Intent, root: &Path) {
        let access = match intent.kind.as_str() {
            "read" | "search" => Access::Read,
            // Tools of other servers say no more than that they are another kind; what is fetched may go into a file.
            _ => Access::Write,
        };
        // What is removed or moved is a link itself, not what it leads to.
        let keeps_last = matches!(intent.kind.as_str(), "delete" | "move");
        for path in &mut intent.paths {
            let named = root.join(at_home(path));
            let found = match (named.parent(), named.file_name()) {
                (Some(parent), Some(name)) if keeps_last => without_links(parent).join(name),
                _ => without_links(&named),
            };
            let covers = || self.covers(&found, &intent.kind, root);
            if let Some(why) = self.why(&found, access).or_else(covers) {
                intent.guarded.push(format!("{path}: {why}"));
            }
            let is_linked = |file: &std::fs::Metadata| file.is_file() && file.nlink() > 1;
            let is_linked = !keeps_last && found.symlink_metadata().as_ref().is_ok_and(is_linked);
            if let Some(found) = elsewhere(path, &found, root) {
                intent.warnings.push(format!("the agent calls {found} {path}"));
                *path = found;
            }
            if is_linked {
                intent.linked.push(path.clone());
            }
        }
        self.note_mentioned(intent, access, root);
        if let Some(folder) = &mut intent.folder
            && let Some(found) =
                elsewhere(folder, &without_links(&root.join(at_home(folder))), root)
        {
            intent.warnings.push(format!("the agent calls {found} {folder}"));
            *folder = found;
        }
        self.warn_of_command(intent, root);
    }

    /// Looks at the arguments that may name a file although they are not called so. One that is protected is a file of the
    /// intent; of the others, those remain that are places.
    fn note_mentioned(&self, intent: &mut Intent, access: Access, root: &Path) {
        let mentioned = std::mem::take(&mut intent.mentioned);
        if mentioned.len() > MOST_MENTIONED {
            intent.guarded.push("it has too many arguments to look through".to_owned());
        }
        for text in mentioned.into_iter().take(MOST_MENTIONED) {
            let named = root.join(at_home(before_pattern(&text)));
            let found = without_links(&named);
            if !text.contains('/') && found.symlink_metadata().is_err() {
                continue;
            }
            let name = elsewhere(&text, &found, root).unwrap_or_else(|| text.clone());
            // What is looked for may well be a slash or two dots.
            let is_folder = !matches!(text.as_str(), "/" | "..");
            let covers = || self.covers(&found, &intent.kind, root).filter(|_| is_folder);
            if let Some(why) = self.why(&found, access).or_else(covers)
                && !intent.paths.contains(&name)
            {
                intent.guarded.push(format!("{name}: {why}"));
                intent.paths.push(name.clone());
            }
            intent.mentioned.extend([text, name]);
        }
    }

    /// Why a folder needs an answer of its own for what is in it: it is taken away with it, or looked through from outside of the
    /// project.
    fn covers(&self, folder: &Path, kind: &str, root: &Path) -> Option<&'static str> {
        let is_above = |protected: &&PathBuf| protected.starts_with(folder);
        let is_outside = !folder.starts_with(root);
        match kind {
            "delete" | "move" => {
                let has_repository = self.repository.iter().any(|one| is_above(&one))
                    || folder.join(GIT).symlink_metadata().is_ok();
                let has_ours = self.own.iter().any(|own| is_above(&own));
                has_ours.then_some(OURS).or_else(|| has_repository.then_some(REPOSITORY))
            }
            _ if is_outside => self.own.iter().find(is_above).map(|_| OURS),
            _ => None,
        }
    }

    fn warn_of_command(&self, intent: &mut Intent, root: &Path) {
        let Some(command) = &intent.command else { return };
        let line = command.to_lowercase();
        let names = |folder: &PathBuf| {
            let inside = folder.strip_prefix(root).unwrap_or(folder);
            command.contains(&format!("{}/", inside.display()))
        };
        let names_repository = self.repository.iter().any(names);
        if line.contains(".git/") || line.contains("hookspath") || names_repository {
            intent
                .warnings
                .push("the command names files of the repository itself (.git)".to_owned());
        }
        if self.own.iter().any(|own| command.contains(&*own.to_string_lossy())) {
            intent.warnings.push("the command names files of Rethread itself".to_owned());
        }
    }
}

/// The part of a path before the first name that stands for several.
fn before_pattern(path: &str) -> &str {
    let Some(at) = path.find(['*', '?', '[', '{']) else { return path };
    path[..at].rfind('/').map_or("", |slash| &path[..=slash])
}

/// What a path is called from the folder of the project on, if the agent calls it something else.
fn elsewhere(called: &str, found: &Path, root: &Path) -> Option<String> {
    let inside = found.strip_prefix(root).unwrap_or(found);
    let inside = if inside == Path::new("") { Path::new(".") } else { inside };
    let mut found = inside.to_string_lossy().into_owned();
    if found.starts_with('~') {
        // A name in the project, and not the home of the user.
        found.insert_str(0, "./");
    }
    (called != found).then_some(found)
}

/// The path that a small file of git's holds after a word.
fn pointer(file: &Path, word: &str) -> Option<PathBuf> {
    let known = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let text = (known.len() <= LONGEST_POINTER).then(|| std::fs::read(file).ok()).flatten()?;
    let path = text.strip_prefix(word.as_bytes())?.trim_ascii();
    (!path.is_empty()).then(|| PathBuf::from(std::ffi::OsStr::from_bytes(path)))
}

fn belongs(path: &Path, own: &Path) -> bool {
    if path.starts_with(own) {
        return true;
    }
    let Some(name) = own.file_name().filter(|_| !own.is_dir()) else { return false };
    let begins = |path: &Path| {
        let beside = path.parent() == own.parent();
        beside
            && path
                .file_name()
                .is_some_and(|one| one.as_encoded_bytes().starts_with(name.as_encoded_bytes()))
    };
    path.ancestors().any(begins)
}

/// A path as the tools of some agents read it: `~` is the home of the user.
fn at_home(path: &str) -> PathBuf {
    let rest = path.strip_prefix('~').filter(|rest| rest.is_empty() || rest.starts_with('/'));
    match (rest, std::env::home_dir()) {
        (Some(rest), Some(home)) => home.join(rest.trim_start_matches('/')),
        _ => PathBuf::from(path),
    }
}

#[cfg(test)]
mod tests;
