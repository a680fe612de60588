//! Making a workspace, its settings and its kinds.

use std::fs;
use std::path::{Path, PathBuf};

use rethread_workspace::{CommitPolicy, Error, Workspace};

use crate::Place;

const RULE: &str =
    "conversations/**/.session/* merge=union -text\nconversations/*/*/*.md merge=union\n";

#[test]
fn a_folder_becomes_a_workspace_once() {
    let folder = tempfile::tempdir().unwrap();
    let made = Workspace::init(folder.path(), None).unwrap();
    assert_eq!(made.workspace.commit_policy(), CommitPolicy::Ask);
    assert_eq!(made.created.len(), 9);
    for path in &made.created {
        assert!(folder.path().join(path).is_file(), "{}", path.display());
    }
    let kinds = made.workspace.kinds().unwrap();
    let names: Vec<_> = kinds.iter().map(|kind| kind.name.as_str()).collect();
    assert_eq!(names, ["brainstorm", "chat", "debug", "learn", "meeting", "plan", "review"]);
    assert_eq!(made.workspace.odd().unwrap(), []);
    let again = Workspace::init(folder.path(), None).unwrap();
    assert_eq!(again.created, Vec::<PathBuf>::new());
}

#[test]
fn what_is_there_is_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &[u8]| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write(".rethread/kinds/debug.md", b"mine");
    write(".rethread/workspace.toml", b"# mine\n");
    write(".gitattributes", b"*.png binary\r\n\xff");
    let made = Workspace::init(folder.path(), None).unwrap();
    assert_eq!(made.created.len(), 7, "{:?}", made.created);
    let read = |name: &str| fs::read(folder.path().join(name)).unwrap();
    assert_eq!(read(".rethread/kinds/debug.md"), b"mine");
    assert_eq!(read(".rethread/workspace.toml"), b"# mine\n");
    assert_eq!(read(".gitattributes"), [b"*.png binary\r\n\xff\n", RULE.as_bytes()].concat());
}

#[test]
fn the_wish_is_changed_and_the_comments_stay() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(".rethread/workspace.toml");
    Workspace::init(folder.path(), Some(CommitPolicy::Auto)).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("# What happens") && text.ends_with("commit = \"auto\"\n"), "{text}");
    let own = "# a\n[other] # b\nx = 1\n";
    for (before, after) in [
        ("commit = \"ask\" # mine\nx=1\n", "commit = \"never\" # mine\nx=1\n"),
        ("commit = 7\n", "commit = \"never\"\n"),
        (own, "commit = \"never\"\n# a\n[other] # b\nx = 1\n"),
    ] {
        fs::write(&path, before).unwrap();
        let made = Workspace::init(folder.path(), Some(CommitPolicy::Never)).unwrap();
        assert_eq!(made.workspace.commit_policy(), CommitPolicy::Never);
        assert_eq!(fs::read_to_string(&path).unwrap(), after);
        assert_eq!(made.created, [Path::new(".rethread/workspace.toml")]);
        let again = Workspace::init(folder.path(), Some(CommitPolicy::Never)).unwrap();
        assert_eq!(again.created, Vec::<PathBuf>::new());
    }
}

#[test]
fn settings_that_cannot_be_understood_are_said() {
    let place = Place::new();
    for text in ["commit = \"always\"", "commit = 1", "commit =", "\u{0}", "commit = [\"ask\"]"] {
        fs::write(place.path(".rethread/workspace.toml"), text).unwrap();
        let refused = Workspace::open(&place.path("")).unwrap_err();
        assert!(matches!(refused, Error::BadSetting { .. }), "{refused:?}");
    }
    fs::write(place.path(".rethread/workspace.toml"), "commit = \"auto\"\nlater = 1").unwrap();
    assert_eq!(Workspace::open(&place.path("")).unwrap().commit_policy(), CommitPolicy::Auto);
}

#[test]
fn a_kind_is_a_file_and_its_hash_changes_with_it() {
    let place = Place::new();
    let kind = place.workspace.kind("brainstorm").unwrap().unwrap();
    assert_eq!(
        (kind.command.as_str(), kind.title.as_str()),
        ("/workspace.brainstorm", "Brainstorm")
    );
    assert_eq!(kind.hash, blake3::hash(kind.prompt.as_bytes()).to_hex().to_string());
    let file = place.path(".rethread/kinds/brainstorm.md");
    fs::write(&file, format!("{}\n", kind.prompt)).unwrap();
    assert_ne!(place.workspace.kind("brainstorm").unwrap().unwrap().hash, kind.hash);
    fs::write(place.path(".rethread/kinds/code-review.md"), "no heading").unwrap();
    let own = place.workspace.kind("code-review").unwrap().unwrap();
    assert_eq!((own.title.as_str(), own.prompt.as_str()), ("code-review", "no heading"));
    assert!(place.workspace.kind("missing").unwrap().is_none());
    assert_eq!(place.workspace.kinds().unwrap().len(), 8);
}

#[test]
fn every_kind_that_we_give_is_a_prompt_of_some_length() {
    for kind in Place::new().workspace.kinds().unwrap() {
        let lines = kind.prompt.lines().count();
        assert!((10..=25).contains(&lines), "{}: {lines} lines", kind.name);
        assert!(kind.prompt.contains("`Decision:`"), "{}", kind.name);
        assert!(kind.prompt.ends_with('\n') && kind.prompt.lines().all(|line| line.len() <= 120));
    }
}

#[test]
fn what_is_no_kind_is_told_and_hides_none() {
    let place = Place::new();
    let kinds = place.path(".rethread/kinds");
    fs::write(kinds.join("Upper.md"), "x").unwrap();
    fs::write(kinds.join("resume.md"), "x").unwrap();
    fs::write(kinds.join("empty.md"), " \n").unwrap();
    fs::write(kinds.join("binary.md"), b"\xff").unwrap();
    fs::write(kinds.join("large.md"), "x".repeat((256 << 10) + 1)).unwrap();
    fs::write(kinds.join("notes.txt"), "not looked at").unwrap();
    fs::create_dir(kinds.join("folder.md")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", kinds.join("link.md")).unwrap();
    assert_eq!(place.workspace.kinds().unwrap().len(), 7);
    let odd = place.workspace.odd().unwrap();
    let names: Vec<_> = odd.iter().map(|odd| odd.path.file_name().unwrap().to_owned()).collect();
    let expected =
        ["Upper.md", "binary.md", "empty.md", "folder.md", "large.md", "link.md", "resume.md"];
    assert_eq!(names, expected);
    assert_eq!(odd[3].why, "it is a folder");
    assert_eq!(odd[5].why, "it is a symbolic link");
}
