//! What other processes do in these tests: this program, started again in a role.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rethread_workspace::{Card, CommitPolicy, Error, FolderPath, Line, Page, Workspace};
use rustix::fs::Mode;
use rustix::process::umask;

use crate::{card, line};

/// This program in a role, in a workspace.
pub(crate) fn role(name: &str, root: &Path, detail: &str) -> Command {
    role_by(&[], name, root, detail)
}

/// As [`role`], by another program that starts it.
pub(crate) fn role_by(program: &[&str], name: &str, root: &Path, detail: &str) -> Command {
    let own = std::env::current_exe().unwrap();
    role_of(&[program, &[own.to_str().unwrap()]].concat(), name, root, detail)
}

/// As [`role`], by a whole command line.
pub(crate) fn role_of(program: &[&str], name: &str, root: &Path, detail: &str) -> Command {
    let mut command = Command::new(program[0]);
    command.args(&program[1..]);
    command.args(["--exact", "roles::play", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env("WORKSPACE_ROLE", name).env("WORKSPACE_ROOT", root).env("WORKSPACE_DETAIL", detail);
    command
}

#[test]
#[ignore = "other tests start it"]
fn play() {
    let text = |name: &str| std::env::var_os(name).map(|text| text.into_string().unwrap());
    let Some(role) = text("WORKSPACE_ROLE") else { return };
    let root = PathBuf::from(text("WORKSPACE_ROOT").unwrap());
    let detail = text("WORKSPACE_DETAIL").unwrap();
    match role.as_str() {
        "append" => append(&root, &detail),
        "cards" => cards(&root, &detail, 1_000_000),
        "two cards" => cards(&root, &detail, 2),
        "create" => create(&root),
        "open umask" => open_umask(&root),
        "read only" => read_only(&root),
        "gigabyte" => say(&crate::writing::gigabyte().to_string()),
        _ => panic!("{role}"),
    }
}

/// Says a word to whoever started us, at once.
fn say(word: &str) {
    let mut output = std::io::stdout();
    writeln!(output, "say {word}").unwrap();
    output.flush().unwrap();
}

/// What a process in a role said.
pub(crate) fn said(output: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(output);
    // A word that was cut off by a kill was not said.
    let whole = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    // The test harness writes in front of the first one.
    whole.filter_map(|line| line.split_once("say ")).map(|(_, word)| word.to_owned()).collect()
}

fn append(root: &Path, detail: &str) {
    let (path, writer) = detail.split_once(' ').unwrap();
    let path: FolderPath = path.parse().unwrap();
    let workspace = Workspace::open(root).unwrap();
    for number in 0..200 {
        let id = format!("{writer}-{number}");
        // Mostly small, sometimes large enough to be killed while it is written.
        let content = "x".repeat(if number % 9 == 8 { 2 << 20 } else { number * 7 });
        let line = Line { id: id.clone(), content, ..line(number) };
        // On a busy machine others may have it for longer than anybody waits.
        let locked = loop {
            match workspace.folder(&path).unwrap().unwrap().lock() {
                Err(Error::Busy(_)) => (),
                locked => break locked.unwrap(),
            }
        };
        locked.append(&[line], false).unwrap();
        drop(locked);
        say(&id);
    }
}

fn cards(root: &Path, path: &str, count: usize) {
    let path: FolderPath = path.parse().unwrap();
    let workspace = Workspace::open(root).unwrap();
    let locked = workspace.folder(&path).unwrap().unwrap().lock().unwrap();
    for number in 1..=count {
        let mut card = card();
        card.summary = Some(format!("{number} ").repeat(3_000));
        locked.write_card(&card).unwrap();
        say(&number.to_string());
    }
}

fn create(root: &Path) {
    let workspace = Workspace::open(root).unwrap();
    for number in 0..50 {
        let topic = format!("{} {number}", std::process::id());
        say(workspace.create("2026-11-16", "chat", &topic).unwrap().as_str());
    }
}

fn open_umask(root: &Path) {
    umask(Mode::empty());
    let made = Workspace::init(root, Some(CommitPolicy::Auto)).unwrap();
    let path = made.workspace.create("2026-11-16", "chat", "x").unwrap();
    let locked = made.workspace.folder(&path).unwrap().unwrap().lock().unwrap();
    locked.append(&[line(1)], true).unwrap();
    locked.write_card(&card()).unwrap();
    locked.write_page("chat", &Page::default()).unwrap();
    locked.keep_aside(b"x").unwrap();
    locked.replace_log(&mut std::iter::empty()).unwrap();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let expected = if metadata.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(metadata.mode() & 0o777, expected, "{}", path.display());
            say(&path.display().to_string());
            if metadata.is_dir() {
                folders.push(path);
            }
        }
    }
}

/// Without the right to write: each attempt is refused with an error of its own, and reading goes on.
fn read_only(root: &Path) {
    let workspace = Workspace::open(root).unwrap();
    let refused = workspace.create("2026-11-16", "chat", "x").unwrap_err();
    assert!(matches!(refused, Error::ReadOnly(_)), "{refused:?}");
    let path = workspace.scan().unwrap().remove(0).path;
    let locked = workspace.folder(&path).unwrap().unwrap().lock().unwrap();
    let refused = [
        locked.append(&[line(9)], true).unwrap_err(),
        locked.write_card(&Card { title: None, ..card() }).unwrap_err(),
        locked.write_page("brainstorm", &Page::default()).unwrap_err(),
        locked.keep_aside(b"x").unwrap_err(),
        locked.replace_log(&mut std::iter::empty()).unwrap_err(),
    ];
    for error in refused {
        assert!(matches!(error, Error::ReadOnly(_)), "{error:?}");
    }
    let mut count = 0;
    locked.read(0, &mut |_| count += 1).unwrap();
    say(&count.to_string());
}
