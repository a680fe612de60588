//! What the tests stand on: processes with settings of their own, repositories, and a look at all that is in one.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rethread_workspace::{Committed, Hurdle, commit};
use tempfile::TempDir;

const MARK: &str = "RETHREAD_ISOLATED";

/// What a hook's environment tells of another repository; none of it may reach ours.
const OF_A_HOOK: [(&str, &str); 8] = [
    ("GIT_DIR", "/nonexistent/repository"),
    ("GIT_WORK_TREE", "/nonexistent/tree"),
    ("GIT_INDEX_FILE", "/nonexistent/index"),
    ("GIT_OBJECT_DIRECTORY", "/nonexistent/objects"),
    ("GIT_PREFIX", "nonexistent/"),
    ("GIT_CONFIG_PARAMETERS", "'user.name=somebody else'"),
    ("GIT_EXTERNAL_DIFF", "/nonexistent/diff"),
    ("GIT_AUTHOR_DATE", "@1 +0000"),
];

/// Tests, each in a process of its own: with a home, settings of git, and the environment of somebody's hook.
macro_rules! isolated {
    ($($(#[$meta:meta])* fn $name:ident() $body:block)*) => {$(
        $(#[$meta])*
        #[test]
        fn $name() {
            let name = concat!(module_path!(), "::", stringify!($name));
            crate::ground::isolated(name, &[], || $body);
        }
    )*};
}

pub(crate) fn isolated(name: &str, more: &[(&str, &str)], test: impl FnOnce()) {
    if env::var_os(MARK).is_some() {
        return test();
    }
    let (_, name) = name.split_once("::").unwrap();
    let home = tempfile::tempdir().unwrap();
    let settings = home.path().join("gitconfig");
    let own = "[user]\n\tname = anna\n\temail = anna@example.org\n[init]\n\tdefaultBranch = main\n";
    fs::write(&settings, own).unwrap();
    let mut process = Command::new(env::current_exe().unwrap());
    process.args(["--exact", name, "--nocapture"]).env(MARK, "1").envs(OF_A_HOOK);
    process.env("HOME", home.path()).env("XDG_CONFIG_HOME", home.path().join("config"));
    process.env("GIT_CONFIG_GLOBAL", settings).env("GIT_CONFIG_NOSYSTEM", "1");
    for (key, value) in more {
        process.env(key, value);
    }
    let output = process.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

/// The user's own settings.
pub(crate) fn set(key: &str, value: &str) {
    git(Path::new("/"), &["config", "--global", key, value]);
}

pub(crate) fn try_git(folder: &Path, arguments: &[&str]) -> Output {
    let mut git = Command::new("git");
    for (name, _) in OF_A_HOOK {
        git.env_remove(name);
    }
    git.arg("-C").arg(folder).args(arguments).output().unwrap()
}

pub(crate) fn git_bytes(folder: &Path, arguments: &[&str]) -> Vec<u8> {
    let output = try_git(folder, arguments);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?}: {complaint}");
    output.stdout
}

pub(crate) fn git(folder: &Path, arguments: &[&str]) -> String {
    String::from_utf8(git_bytes(folder, arguments)).unwrap().trim().to_owned()
}

/// A repository with one commit, and a folder for a session.
pub(crate) struct Ground {
    _dir: TempDir,
    pub(crate) top: PathBuf,
    pub(crate) folder: PathBuf,
}

pub(crate) const FOLDER: &str = "conversations/2026-11-16/001-chat-x";

impl Ground {
    pub(crate) fn new() -> Self {
        let ground = Self::unborn(&[]);
        ground.write("README.md", "first\nsecond\nthird\n");
        ground.write("src/main.rs", "fn main() {}\n");
        git(&ground.top, &["add", "."]);
        git(&ground.top, &["commit", "-q", "-m", "first"]);
        ground
    }

    pub(crate) fn unborn(options: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap().join("project");
        fs::create_dir(&top).unwrap();
        git(&top, &[&["init", "-q"], options].concat());
        let folder = top.join(FOLDER);
        Self { _dir: dir, top, folder }
    }

    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        git(&self.top, arguments)
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        write(&self.top.join(path), text);
    }

    /// What a session leaves in its folder.
    pub(crate) fn talk(&self, text: &str) {
        write(&self.folder.join(".session/session.json"), "{}\n");
        write(&self.folder.join(".session/messages.jsonl"), text);
        write(&self.folder.join("chat.md"), "# x\n");
    }

    pub(crate) fn commit(&self) -> Result<Option<Committed>, Hurdle> {
        commit(&self.folder, &[], "x")
    }

    pub(crate) fn hook(&self, name: &str, script: &str) {
        let path = self.top.join(".git/hooks").join(name);
        write(&path, &format!("#!/bin/sh\n{script}\n"));
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// What a commit took in, against the one before.
    pub(crate) fn taken(&self, commit: &str) -> Vec<String> {
        let asked = ["diff-tree", "-r", "-z", "--root", "--no-commit-id", "--name-only", commit];
        let told = git_bytes(&self.top, &asked);
        let paths = told.split(|byte| *byte == 0).filter(|path| !path.is_empty());
        paths.map(|path| String::from_utf8_lossy(path).into_owned()).collect()
    }
}

pub(crate) fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// All of a repository that is the user's.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// Mode, id and stage of each path.
    pub(crate) index: Vec<String>,
    /// Which are only announced, and the like.
    flags: Vec<String>,
    staged: String,
    unstaged: String,
    /// Other branches, tags and the stash.
    references: String,
    files: BTreeMap<PathBuf, (u32, Vec<u8>)>,
    /// Locks and temporary files of git.
    leftovers: Vec<String>,
}

/// Everything, the folder of the session included.
pub(crate) fn everything(top: &Path) -> State {
    look(top, &[], |_| true)
}

/// Everything but the folder of the session.
pub(crate) fn the_rest(top: &Path) -> State {
    look(top, &[":(exclude)conversations"], |path| !path.starts_with("conversations/"))
}

fn look(top: &Path, scope: &[&str], wanted: impl Fn(&str) -> bool) -> State {
    let list = |arguments: &[&str], end: char| -> Vec<String> {
        let told = git_bytes(top, arguments);
        String::from_utf8_lossy(&told).split(end).map(str::to_owned).collect()
    };
    let path = |record: &String| record.split_once('\t').is_some_and(|(_, path)| wanted(path));
    let mut flags = Vec::new();
    for line in list(&["ls-files", "--debug"], '\n') {
        match line.split_once("flags: ") {
            Some((_, value)) => flags.push(value.to_owned()),
            None if !line.starts_with("  ") => flags.push(line),
            None => (),
        }
    }
    let flags = flags
        .chunks(2)
        .filter(|entry| wanted(entry[0].trim_start_matches('"')))
        .map(|entry| entry.join(" "));
    let difference = |cached: &[&str]| {
        let asked = [&["diff", "--no-renames", "--binary"], cached, &["--", "."], scope].concat();
        String::from_utf8_lossy(&git_bytes(top, &asked)).into_owned()
    };
    let mut files = BTreeMap::new();
    read(top, top, &mut files);
    let branch = format!("refs/heads/{}", git(top, &["branch", "--show-current"]));
    let references = git(top, &["for-each-ref", "--format=%(refname) %(objectname)"]);
    let others = references.lines().filter(|line| !line.starts_with(&format!("{branch} ")));
    State {
        index: list(&["ls-files", "--stage", "-z"], '\0').into_iter().filter(path).collect(),
        flags: flags.collect(),
        staged: difference(&["--cached"]),
        unstaged: difference(&[]),
        references: others.collect::<Vec<_>>().join("\n"),
        files,
        leftovers: leftovers(&PathBuf::from(git(top, &["rev-parse", "--absolute-git-dir"]))),
    }
}

fn read(top: &Path, folder: &Path, files: &mut BTreeMap<PathBuf, (u32, Vec<u8>)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let metadata = fs::symlink_metadata(&path).unwrap();
        let inside = path.strip_prefix(top).unwrap().to_owned();
        if metadata.is_symlink() {
            let target = fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec();
            files.insert(inside, (0, target));
        } else if metadata.is_file() {
            files.insert(inside, (metadata.permissions().mode(), fs::read(&path).unwrap()));
        } else if metadata.is_dir() && !path.ends_with(".git") {
            read(top, &path, files);
        }
    }
}

fn leftovers(repository: &Path) -> Vec<String> {
    let names = fs::read_dir(repository).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.retain(|name| name.contains("lock") || name.contains("next-index"));
    names
}
