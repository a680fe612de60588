//! Protected paths: files that decide what is run or who has access. Those of the repository itself, our settings, the store and what
//! lies beside it. Writing them, or reading ours, needs an answer for exactly that file.

use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rethread_domain::consent::Intent;

const REPOSITORY: &str =
    "it belongs to the repository itself: what is written there may be run by git";
const OURS: &str =
    "it belongs to Rethread: it holds what was said, what is run, or who may come in";

const GIT: &str = ".git";
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
        Self { own: own.iter().map(|path| real(path)).collect(), repository: Vec::new() }
    }

    /// Protects what the `.git` of a project leads to as well: it is a file in worktrees, in submodules, and where the folder of
    /// the repository lies elsewhere.
    pub(crate) fn with_repository_of(mut self, project: &Path) -> Self {
        let project = real(project);
        let Some((top, git)) = project
            .ancestors()
            .map(|folder| (folder, folder.join(GIT)))
            .find(|(_, git)| git.symlink_metadata().is_ok())
        else {
            return self;
        };
        let folder = match pointer(&git, "gitdir:") {
            Some(folder) => real(&top.join(folder)),
            None => real(&git),
        };
        // What all worktrees share, hooks and settings for instance, lies in the folder of the first.
        if let Some(common) = pointer(&folder.join("commondir"), "") {
            self.repository.push(real(&folder.join(common)));
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
            "edit" | "delete" | "move" => Access::Write,
            _ => Access::Read,
        };
        // What is removed or moved is a link itself, not what it leads to.
        let keeps_last = matches!(intent.kind.as_str(), "delete" | "move");
        for path in &mut intent.paths {
            let named = root.join(&*path);
            let found = match (named.parent(), named.file_name()) {
                (Some(parent), Some(name)) if keeps_last => real(parent).join(name),
                _ => real(&named),
            };
            if let Some(why) = self.why(&found, access) {
                intent.guarded.push(format!("{path}: {why}"));
            }
            let inside = found.strip_prefix(root).unwrap_or(&found);
            let inside = if inside == Path::new("") { Path::new(".") } else { inside };
            let found = inside.to_string_lossy();
            if *path != found {
                intent.warnings.push(format!("the agent calls {found} {path}"));
                *path = found.into_owned();
            }
        }
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

/// A path without links, as far as it exists.
pub(crate) fn real(path: &Path) -> PathBuf {
    let mut rest = Vec::new();
    let mut at = path;
    loop {
        if let Ok(found) = at.canonicalize() {
            return rest.iter().rev().fold(found, |path, name| path.join(name));
        }
        match (at.parent(), at.file_name()) {
            (Some(parent), Some(name)) => {
                rest.push(name.to_owned());
                at = parent;
            }
            _ => return path.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_runs_and_what_is_ours_is_warded() {
        let home = tempfile::TempDir::new().unwrap();
        let at = |name: &str| real(&home.path().join(name));
        std::fs::create_dir(at("data")).unwrap();
        std::fs::write(at("store.db"), "").unwrap();
        std::os::unix::fs::symlink(at(".git"), at("link")).unwrap();
        std::fs::create_dir(at(".git")).unwrap();
        let ward = ProtectedPaths::new(&[at("data"), at("store.db")]);
        for (name, read, write) in [
            ("src/a.rs", false, false),
            (".git/config", false, true),
            (".GIT/hooks/pre-commit", false, true),
            ("sub/.git", false, true),
            ("link/config", false, true),
            (".gitignore", false, false),
            ("store.db", true, true),
            ("store.db.token", true, true),
            ("store.db-wal", true, true),
            ("data/agents.json", true, true),
            ("database", false, false),
        ] {
            let path = at(name);
            assert_eq!(ward.why(&path, Access::Read).is_some(), read, "{name}");
            assert_eq!(ward.why(&path, Access::Write).is_some(), write, "{name}");
        }
    }

    #[test]
    fn the_folder_of_the_repository_is_warded_under_any_name() {
        let home = tempfile::TempDir::new().unwrap();
        let at = |name: &str| real(&home.path().join(name));
        for folder in ["p/meta/worktrees/w", "p/src", "p/w"] {
            std::fs::create_dir_all(at(folder)).unwrap();
        }
        std::fs::write(at("p/.git"), format!("gitdir: {}\n", at("p/meta").display())).unwrap();
        std::fs::write(at("p/w/.git"), "gitdir: ../meta/worktrees/w\n").unwrap();
        std::fs::write(at("p/meta/worktrees/w/commondir"), "../..\n").unwrap();
        for project in ["p", "p/src", "p/w"] {
            let ward = ProtectedPaths::default().with_repository_of(&at(project));
            for (name, is_warded) in [
                ("p/meta/hooks/post-commit", true),
                ("p/meta/config", true),
                ("p/meta/worktrees/w/HEAD", true),
                ("p/metadata", false),
                ("p/src/a.rs", false),
            ] {
                let path = at(name);
                assert_eq!(ward.why(&path, Access::Write).is_some(), is_warded, "{project} {name}");
                assert_eq!(ward.why(&path, Access::Read), None, "{project} {name}");
            }
        }
        let ward = ProtectedPaths::default().with_repository_of(&at("p"));
        for (line, count) in [("echo x > meta/hooks/post-commit", 1), ("cat src/meta", 0)] {
            let mut intent = Intent { command: Some(line.into()), ..Intent::default() };
            ward.note(&mut intent, &at("p"));
            assert_eq!(intent.warnings.len(), count, "{line}");
        }
        // What leads nowhere protects nothing else.
        std::fs::write(at("p/.git"), "gitdir:\n").unwrap();
        let ward = ProtectedPaths::default().with_repository_of(&at("p"));
        assert_eq!(ward.why(&at("p/src/a.rs"), Access::Write), None);
    }

    #[test]
    fn a_file_is_judged_by_its_real_path() {
        let project = tempfile::TempDir::new().unwrap();
        let root = project.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("src")).unwrap();
        std::fs::create_dir(root.join("secrets")).unwrap();
        std::fs::write(root.join("secrets/key"), "").unwrap();
        std::os::unix::fs::symlink("../secrets", root.join("src/link")).unwrap();
        std::os::unix::fs::symlink("../secrets/key", root.join("src/key")).unwrap();
        std::os::unix::fs::symlink("/etc", root.join("src/outside")).unwrap();
        let noted = |kind: &str, path: &str| {
            let paths = vec![path.to_owned()];
            let mut intent = Intent { kind: kind.into(), paths, ..Intent::default() };
            ProtectedPaths::default().note(&mut intent, &root);
            assert_eq!(intent.warnings.len(), usize::from(intent.paths[0] != path));
            intent.paths.remove(0)
        };
        for (path, found) in [
            ("src/a.rs", "src/a.rs"),
            ("src/new/a.rs", "src/new/a.rs"),
            ("src/../secrets/key", "secrets/key"),
            ("src/link/key", "secrets/key"),
            ("src/link/new", "secrets/new"),
            ("src/key", "secrets/key"),
            ("src/outside/passwd", "/etc/passwd"),
            ("src/..", "."),
        ] {
            assert_eq!(noted("edit", path), found, "{path}");
            assert_eq!(noted("read", path), found, "{path}");
        }
        assert_eq!(noted("delete", "src/key"), "src/key");
        assert_eq!(noted("delete", "src/link/key"), "secrets/key");
    }

    #[test]
    fn a_command_that_names_them_says_so() {
        let ward = ProtectedPaths::new(&[PathBuf::from("/home/anna/store.db")]);
        let warned = |line: &str| {
            let mut intent = Intent { command: Some(line.into()), ..Intent::default() };
            ward.note(&mut intent, Path::new("/p"));
            intent.warnings.len()
        };
        assert_eq!(warned("echo x > .git/hooks/pre-commit"), 1);
        assert_eq!(warned("git config core.hooksPath x"), 1);
        assert_eq!(warned("cat /home/anna/store.db.token"), 1);
        assert_eq!(warned("git commit -m x"), 0);
    }
}
