//! Each thing that can stand in the way, found by reading, and met by a commit that then changes nothing.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use rethread_workspace::{Changed, Hurdle, changed, commit, hurdle};

use crate::ground::{FOLDER, Ground, everything, git, isolated, set, try_git, write};

/// Reading tells it and committing meets it; nothing is different afterwards.
fn expect(ground: &Ground, expected: Hurdle) {
    let before = everything(&ground.top);
    let tip = ground.git(&["rev-parse", "HEAD"]);
    assert_eq!(hurdle(&ground.folder), Some(expected.clone()));
    assert_eq!(ground.commit(), Err(expected));
    assert_eq!(everything(&ground.top), before);
    assert_eq!(ground.git(&["rev-parse", "HEAD"]), tip);
}

fn other(what: &str) -> Hurdle {
    Hurdle::Other(what.to_owned())
}

/// Two branches that cannot be merged without a question; ours is checked out.
fn torn() -> Ground {
    let ground = Ground::new();
    ground.git(&["checkout", "-q", "-b", "theirs"]);
    ground.write("README.md", "theirs\n");
    ground.git(&["commit", "-q", "-a", "-m", "theirs"]);
    ground.git(&["checkout", "-q", "main"]);
    ground.write("README.md", "ours\n");
    ground.git(&["commit", "-q", "-a", "-m", "ours"]);
    ground.talk("one\n");
    ground
}

fn fails(ground: &Ground, arguments: &[&str]) {
    assert!(!try_git(&ground.top, arguments).status.success(), "{arguments:?} did not stop");
}

isolated! {
    fn no_repository() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(hurdle(dir.path()), Some(Hurdle::NoRepository));
        assert_eq!(changed(dir.path()), Err(Hurdle::NoRepository));
        assert_eq!(commit(dir.path(), &[], "x"), Err(Hurdle::NoRepository));
        let none = dir.path().join("none");
        assert!(matches!(hurdle(&none), Some(Hurdle::Failed(_))));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    fn bare() {
        let dir = tempfile::tempdir().unwrap();
        git(dir.path(), &["init", "-q", "--bare"]);
        write(&dir.path().join("conversations/a/.session/x"), "x");
        let ground = Ground::new();
        let own = ground.top.join(".git");
        for folder in [dir.path(), &dir.path().join("conversations/a"), own.as_path()] {
            assert_eq!(hurdle(folder), Some(Hurdle::Bare));
            assert_eq!(changed(folder), Err(Hurdle::Bare));
            assert_eq!(commit(folder, &[], "x"), Err(Hurdle::Bare));
        }
    }

    fn detached() {
        let ground = Ground::new();
        ground.talk("one\n");
        ground.git(&["checkout", "-q", "--detach"]);
        expect(&ground, Hurdle::Detached);
        assert_eq!(changed(&ground.folder), Ok(Changed::More), "reading goes on");
    }

    fn merging() {
        let ground = torn();
        fails(&ground, &["merge", "theirs"]);
        expect(&ground, Hurdle::Merging);
        ground.git(&["merge", "--abort"]);
        ground.git(&["merge", "-q", "--no-commit", "--no-ff", "-s", "ours", "theirs"]);
        expect(&ground, Hurdle::Merging);
        ground.git(&["merge", "--abort"]);
        assert_eq!(hurdle(&ground.folder), None);
    }

    fn a_squash_keeps_its_message() {
        let ground = torn();
        ground.git(&["merge", "-q", "--squash", "-s", "ours", "theirs"]);
        expect(&ground, Hurdle::Merging);
        assert!(ground.top.join(".git/SQUASH_MSG").exists());
    }

    fn rebasing() {
        let ground = torn();
        fails(&ground, &["rebase", "theirs"]);
        expect(&ground, Hurdle::Rebasing);
        ground.git(&["rebase", "--abort"]);
        fails(&ground, &["rebase", "--apply", "theirs"]);
        expect(&ground, Hurdle::Rebasing);
    }

    fn picking_reverting_and_applying() {
        let ground = torn();
        fails(&ground, &["cherry-pick", "theirs"]);
        expect(&ground, other("a cherry-pick"));
        ground.git(&["cherry-pick", "--abort"]);
        fails(&ground, &["revert", "--no-edit", "theirs"]);
        expect(&ground, other("a revert"));
        ground.git(&["revert", "--abort"]);
        let patch = ground.git(&["format-patch", "-1", "theirs", "-o", "../patches"]);
        fails(&ground, &["am", &patch]);
        expect(&ground, other("applying patches (git am)"));
        ground.git(&["am", "--abort"]);
        assert_eq!(hurdle(&ground.folder), None);
    }

    fn bisecting() {
        let ground = torn();
        ground.git(&["bisect", "start"]);
        expect(&ground, other("a bisection"));
    }

    fn a_conflict_without_a_merge() {
        let ground = torn();
        ground.write("README.md", "in the stash\n");
        ground.git(&["stash", "-q"]);
        ground.write("README.md", "something else\n");
        ground.git(&["commit", "-q", "-a", "-m", "in between"]);
        fails(&ground, &["stash", "pop"]);
        expect(&ground, other("a conflict"));
    }

    fn locked() {
        let ground = Ground::new();
        ground.talk("one\n");
        let lock = ground.top.join(".git/index.lock");
        fs::write(&lock, "").unwrap();
        let tip = ground.git(&["rev-parse", "HEAD"]);
        assert_eq!(hurdle(&ground.folder), Some(Hurdle::Locked));
        assert_eq!(ground.commit(), Err(Hurdle::Locked));
        assert_eq!(ground.git(&["rev-parse", "HEAD"]), tip);
        assert!(lock.exists(), "the lock is somebody else's");
        fs::remove_file(lock).unwrap();
        ground.commit().unwrap().unwrap();
    }

    fn a_lock_that_goes_away_is_waited_for() {
        let ground = Ground::new();
        ground.talk("one\n");
        let lock = ground.top.join(".git/index.lock");
        fs::write(&lock, "").unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(200));
                fs::remove_file(&lock).unwrap();
            });
            ground.commit().unwrap().unwrap();
        });
    }

    fn ignored() {
        let ground = Ground::new();
        ground.talk("one\n");
        ground.write(".gitignore", "# ours\n\n.session/\n");
        expect(&ground, Hurdle::Ignored(PathBuf::from(".gitignore:3 .session/")));
        assert!(matches!(changed(&ground.folder), Err(Hurdle::Ignored(_))));
        ground.write(".gitignore", "*.jsonl\n!messages.jsonl\n");
        assert_eq!(hurdle(&ground.folder), None, "there is an exception for it");

        ground.write(".gitignore", "");
        ground.write("conversations/.gitignore", "*.jsonl\n");
        let rule = "conversations/.gitignore:1 *.jsonl";
        expect(&ground, Hurdle::Ignored(PathBuf::from(rule)));
        ground.write("conversations/.gitignore", "");

        ground.write(".git/info/exclude", "/conversations\n");
        expect(&ground, Hurdle::Ignored(PathBuf::from(".git/info/exclude:1 /conversations")));
        ground.write(".git/info/exclude", "");

        let own = ground.top.with_file_name("ignored everywhere");
        write(&own, "\n.session\n");
        set("core.excludesFile", own.to_str().unwrap());
        let rule = format!("{}:2 .session", own.display());
        expect(&ground, Hurdle::Ignored(PathBuf::from(rule)));
    }

    fn a_folder_that_is_hidden_without_a_session_in_it() {
        let ground = Ground::new();
        write(&ground.folder.join("chat.md"), "x");
        ground.write(".gitignore", "conversations/*/\n");
        expect(&ground, Hurdle::Ignored(PathBuf::from(".gitignore:1 conversations/*/")));
    }

    fn an_empty_file_of_the_user_that_git_would_drop() {
        let ground = Ground::new();
        ground.write("src/.gitkeep", "");
        ground.git(&["add", "src/.gitkeep"]);
        ground.git(&["commit", "-q", "-m", "second"]);
        ground.git(&["rm", "-q", "--cached", "src/.gitkeep"]);
        ground.talk("one\n");
        assert_eq!(hurdle(&ground.folder), None, "git keeps what is only removed from the index");
        ground.git(&["add", "--intent-to-add", "src/.gitkeep"]);
        expect(&ground, Hurdle::Announced(PathBuf::from("src/.gitkeep")));
        assert_eq!(changed(&ground.folder), Ok(Changed::More), "reading goes on");
        ground.git(&["add", "src/.gitkeep"]);
        let made = ground.commit().unwrap().unwrap();
        assert_eq!(ground.taken(&made.id).len(), 3, "{:?}", ground.taken(&made.id));
    }

    fn no_identity() {
        let ground = Ground::new();
        ground.talk("one\n");
        git(Path::new("/"), &["config", "--global", "--remove-section", "user"]);
        set("user.useConfigOnly", "true");
        expect(&ground, Hurdle::NoIdentity);
        ground.git(&["config", "user.name", "berta"]);
        expect(&ground, Hurdle::NoIdentity);
        ground.git(&["config", "user.email", "berta@example.org"]);
        ground.commit().unwrap().unwrap();
        assert_eq!(ground.git(&["log", "-1", "--format=%an"]), "berta", "the repository's own");
    }

    /// Only the superuser can give files away; for others there is nothing to see here.
    fn a_repository_of_another_user() {
        let ground = Ground::new();
        ground.talk("one\n");
        for path in [&ground.top, &ground.top.join(".git")] {
            if chown(path, Some(12_345), None).is_err() {
                return;
            }
        }
        let Some(Hurdle::Failed(why)) = hurdle(&ground.folder) else { panic!("it was trusted") };
        assert!(why.contains("belongs to another user") && why.contains("safe.directory"), "{why}");
        assert_eq!(ground.commit(), Err(Hurdle::Failed(why.clone())));
        assert_eq!(changed(&ground.folder), Err(Hurdle::Failed(why)));
        set("safe.directory", ground.top.to_str().unwrap());
        assert_eq!(hurdle(&ground.folder), None, "the user trusts it");
        ground.commit().unwrap().unwrap();
    }

    fn a_damaged_repository_is_said_to_be_so() {
        let ground = Ground::new();
        ground.talk("one\n");
        ground.write(".git/config", "[core\n");
        assert!(matches!(hurdle(&ground.folder), Some(Hurdle::Failed(_))));
        ground.write(".git/config", "[core]\n\trepositoryFormatVersion = 0\n");
        ground.write(".git/index", "not an index");
        assert!(matches!(hurdle(&ground.folder), Some(Hurdle::Failed(_))));
        assert!(matches!(ground.commit(), Err(Hurdle::Failed(_))));
        assert_eq!(fs::read(ground.top.join(".git/index")).unwrap(), b"not an index");
    }
}

#[test]
fn git_is_missing() {
    let name = concat!(module_path!(), "::git_is_missing");
    isolated(name, &[("PATH", "/nonexistent")], || {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join(FOLDER);
        write(&folder.join(".session/messages.jsonl"), "one\n");
        assert_eq!(hurdle(&folder), Some(Hurdle::GitMissing));
        assert_eq!(changed(&folder), Err(Hurdle::GitMissing));
        assert_eq!(commit(&folder, &[], "x"), Err(Hurdle::GitMissing));
    });
}

#[test]
fn each_hurdle_says_what_to_do() {
    for hurdle in [
        Hurdle::NoRepository,
        Hurdle::Detached,
        Hurdle::Merging,
        Hurdle::Rebasing,
        other("a revert"),
        Hurdle::NoIdentity,
        Hurdle::Announced(PathBuf::from("src/.gitkeep")),
    ] {
        assert!(hurdle.to_string().contains("`git "), "{hurdle}");
    }
    let rule = Hurdle::Ignored(PathBuf::from(".gitignore:3 .session/"));
    assert!(rule.to_string().contains(".gitignore:3 .session/"), "{rule}");
}
