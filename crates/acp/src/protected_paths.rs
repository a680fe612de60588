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
            if let Some(why) = self.why(&found, access) {
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
        if let Some(folder) = &mut intent.folder
            && let Some(found) =
                elsewhere(folder, &without_links(&root.join(at_home(folder))), root)
        {
            intent.warnings.push(format!("the agent calls {found} {folder}"));
            *folder = found;
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

/// What a path is called from the folder of the project on, if the agent calls it something else.
fn elsewhere(called: &str, found: &Path, root: &Path) -> Option<String> {
    let inside = found.strip_prefix(root).unwrap_or(found);
    let inside = if inside == Path::new("") { Path::new(".") } else { inside };
    let found = inside.to_string_lossy();
    (called != found).then(|| found.into_owned())
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
mod tests {
    use super::*;

    #[test]
    fn what_git_runs_and_what_is_ours_is_warded() {
        let home = tempfile::TempDir::new().unwrap();
        let at = |name: &str| without_links(&home.path().join(name));
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
        let at = |name: &str| without_links(&home.path().join(name));
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
        // Links to what is not there yet, one of them by way of another, and one that leads to itself.
        std::os::unix::fs::symlink("../.git/hooks/pre-push", root.join("src/notes")).unwrap();
        std::os::unix::fs::symlink("notes", root.join("src/more")).unwrap();
        std::os::unix::fs::symlink("loop", root.join("src/loop")).unwrap();
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
            ("src/notes", ".git/hooks/pre-push"),
            ("src/more", ".git/hooks/pre-push"),
            ("src/loop", "src/loop"),
        ] {
            assert_eq!(noted("edit", path), found, "{path}");
            assert_eq!(noted("read", path), found, "{path}");
        }
        let noted_folder = |folder: &str| {
            let (command, folder) = (Some("./check.sh".to_owned()), Some(folder.to_owned()));
            let mut intent = Intent { command, folder, ..Intent::default() };
            ProtectedPaths::default().note(&mut intent, &root);
            intent.folder.unwrap()
        };
        assert_eq!(noted_folder("src"), "src");
        assert_eq!(noted_folder("src/outside"), "/etc");
        assert_eq!(noted("delete", "src/key"), "src/key");
        assert_eq!(noted("delete", "src/link/key"), "secrets/key");
    }

    #[test]
    fn only_what_reads_is_taken_for_reading() {
        let root = tempfile::TempDir::new().unwrap();
        let root = root.path().canonicalize().unwrap();
        for (kind, is_guarded) in [
            ("read", false),
            ("search", false),
            ("edit", true),
            ("move", true),
            ("fetch", true),
            ("other", true),
        ] {
            let paths = vec![".git/hooks/pre-commit".to_owned()];
            let mut intent = Intent { kind: kind.into(), paths, ..Intent::default() };
            ProtectedPaths::default().note(&mut intent, &root);
            assert_eq!(!intent.guarded.is_empty(), is_guarded, "{kind}");
        }
        let home = std::env::home_dir().unwrap();
        let ours = ProtectedPaths::new(&[home.join("rethread-settings.toml")]);
        let paths = vec!["~/rethread-settings.toml".to_owned()];
        let mut intent = Intent { kind: "read".into(), paths, ..Intent::default() };
        ours.note(&mut intent, &root);
        assert_eq!(intent.guarded.len(), 1);
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

    #[test]
    fn a_file_that_has_another_name_is_noted() {
        let project = tempfile::TempDir::new().unwrap();
        let root = project.path().canonicalize().unwrap();
        std::fs::write(root.join("key"), "").unwrap();
        std::fs::write(root.join("plain"), "").unwrap();
        std::fs::hard_link(root.join("key"), root.join("other")).unwrap();
        std::os::unix::fs::symlink("other", root.join("link")).unwrap();
        for (kind, path, linked) in [
            ("edit", "other", Some("other")),
            ("read", "link", Some("other")),
            ("edit", "plain", None),
            ("edit", "new", None),
            ("edit", ".", None),
            // Only the name goes.
            ("delete", "other", None),
        ] {
            let paths = vec![path.to_owned()];
            let mut intent = Intent { kind: kind.into(), paths, ..Intent::default() };
            ProtectedPaths::default().note(&mut intent, &root);
            assert_eq!(intent.linked.first().map(String::as_str), linked, "{kind} {path}");
        }
    }
}
