//! How a repository stands, and what is different from a commit.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rethread_workspace::{Names, State, diff, state};

use crate::ground::{FOLDER, Ground, git, write};

fn names(names: &[&str]) -> Names {
    Names { names: names.iter().map(|name| (*name).to_owned()).collect(), more: 0 }
}

fn first(ground: &Ground) -> String {
    ground.git(&["rev-parse", "HEAD"])
}

fn clean(ground: &Ground) -> State {
    let commit = Some(ground.git(&["rev-parse", "HEAD"]));
    State { branch: Some("main".to_owned()), commit, ..State::default() }
}

isolated! {
    fn without_a_repository_there_is_nothing_to_tell() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(state(dir.path(), None), None);
        assert_eq!(state(&dir.path().join("gone"), None), None);
        assert_eq!(diff(dir.path(), &"a".repeat(40), 1000), None);
        git(dir.path(), &["init", "-q", "--bare", "x.git"]);
        assert_eq!(state(&dir.path().join("x.git"), None), None);
    }

    fn a_clean_repository_is_clean() {
        let ground = Ground::new();
        let found = state(&ground.top.join("src"), Some(&first(&ground))).unwrap();
        assert_eq!(found, clean(&ground));
        let text = diff(&ground.top, &first(&ground), 1000).unwrap();
        assert_eq!(text, format!("0 files changed since {}:\n", &first(&ground)[..12]));
    }

    fn every_kind_of_change_is_found() {
        let ground = Ground::new();
        let since = first(&ground);
        ground.write("lib.rs", "one\ntwo\n");
        ground.write("old.rs", "old\n");
        ground.git(&["add", "."]);
        ground.git(&["commit", "-q", "-m", "second"]);
        ground.write(".gitignore", "target/\n");
        ground.write("target/big/x.o", "x");
        ground.write("new file.rs", "new\n");
        ground.write("staged.rs", "staged\n");
        ground.git(&["add", "staged.rs"]);
        ground.write("README.md", "changed\n");
        fs::remove_file(ground.top.join("old.rs")).unwrap();
        ground.talk("one\n");
        let found = state(&ground.top, Some(&since)).unwrap();
        let uncommitted = [".gitignore", "README.md", "new file.rs", "old.rs", "staged.rs"];
        assert_eq!(found.uncommitted, names(&uncommitted));
        assert_eq!(found.staged, names(&["staged.rs"]));
        let modified = [".gitignore", "README.md", "lib.rs", "new file.rs", "old.rs", "staged.rs"];
        assert_eq!(found.modified_since, names(&modified));
        assert_eq!(found.summary.unwrap(), "5 uncommitted files: 3 new, 1 changed, 1 deleted");
        assert_eq!(state(&ground.top, None).unwrap().modified_since, names(&uncommitted));
        let text = diff(&ground.top, &since, 10_000).unwrap();
        let told = "2 files changed since ";
        assert!(text.starts_with(told), "{text}");
        for part in ["  +2 -0 lib.rs\n", "\n5 files uncommitted:\n  .gitignore\n", "\n+++ b/lib.rs\n", "+two\n"] {
            assert!(text.contains(part), "{part} is missing:\n{text}");
        }
        assert!(!text.contains("chat.md") && !text.contains(".session"), "{text}");
    }

    fn files_of_sessions_do_not_count_even_when_committed() {
        let ground = Ground::new();
        let since = first(&ground);
        ground.talk("one\n");
        ground.write(&format!("{FOLDER}/work.rs"), "work\n");
        ground.git(&["add", "."]);
        assert_eq!(state(&ground.top, None).unwrap().staged, names(&[&format!("{FOLDER}/work.rs")]));
        ground.git(&["commit", "-q", "-m", "second"]);
        ground.talk("two\n");
        let found = state(&ground.folder, Some(&since)).unwrap();
        assert_eq!(found.modified_since, names(&[&format!("{FOLDER}/work.rs")]));
        assert_eq!((found.uncommitted, found.summary), (Names::default(), None));
        let text = diff(&ground.top, &since, 10_000).unwrap();
        assert!(text.contains("work.rs") && !text.contains("chat.md") && !text.contains(".session"), "{text}");
    }

    fn before_the_first_commit() {
        let ground = Ground::unborn(&[]);
        ground.write("a.rs", "a");
        ground.write("b.rs", "b");
        ground.git(&["add", "a.rs"]);
        let found = state(&ground.top, None).unwrap();
        assert_eq!((found.branch.as_deref(), found.commit), (Some("main"), None));
        assert_eq!((found.staged, found.uncommitted), (names(&["a.rs"]), names(&["a.rs", "b.rs"])));
        assert!(state(&ground.top, Some(&"a".repeat(40))).unwrap().since_is_lost);
        assert_eq!(diff(&ground.top, &"a".repeat(40), 1000), None);
    }

    fn detached_and_in_worktrees() {
        let ground = Ground::new();
        let since = first(&ground);
        let other = ground.top.with_file_name("other");
        ground.git(&["worktree", "add", "-q", "-b", "side/x", other.to_str().unwrap()]);
        write(&other.join("side.rs"), "x\n");
        git(&other, &["add", "."]);
        git(&other, &["commit", "-q", "-m", "side"]);
        write(&other.join("more.rs"), "x\n");
        let found = state(&other, Some(&since)).unwrap();
        assert_eq!(found.branch.as_deref(), Some("side/x"));
        assert_eq!(found.modified_since, names(&["more.rs", "side.rs"]));
        assert_eq!(state(&ground.top, Some(&since)).unwrap(), clean(&ground));
        git(&other, &["checkout", "-q", "--detach"]);
        let found = state(&other, None).unwrap();
        assert_eq!((found.branch, found.commit), (None, Some(git(&other, &["rev-parse", "HEAD"]))));
    }

    fn submodules_and_repositories_within_are_not_looked_into() {
        let ground = Ground::new();
        let inner = Ground::new();
        let asked = ["-c", "protocol.file.allow=always", "submodule", "add", "-q"];
        ground.git(&[&asked[..], &[inner.top.to_str().unwrap(), "inner"]].concat());
        ground.git(&["commit", "-q", "-m", "submodule"]);
        let since = first(&ground);
        write(&ground.top.join("inner/new.rs"), "x");
        git(&ground.top, &["init", "-q", "stray"]);
        write(&ground.top.join("stray/x.rs"), "x");
        assert_eq!(state(&ground.top, Some(&since)).unwrap(), clean(&ground));
        git(&ground.top.join("inner"), &["add", "."]);
        git(&ground.top.join("inner"), &["commit", "-q", "-m", "more"]);
        assert_eq!(state(&ground.top, None).unwrap().uncommitted, names(&["inner"]));
        ground.git(&["commit", "-q", "-a", "-m", "moved"]);
        assert_eq!(state(&ground.top, Some(&since)).unwrap().modified_since, names(&["inner"]));
        let text = diff(&ground.top, &since, 10_000).unwrap();
        assert!(text.contains("+Subproject commit "), "{text}");
        assert_eq!(state(&ground.top.join("inner"), None).unwrap().branch.as_deref(), Some("main"));
    }

    fn a_commit_that_is_gone_is_told() {
        let ground = Ground::new();
        for lost in [&"a".repeat(40), "HEAD", "--output=/tmp/x", ""] {
            let found = state(&ground.top, Some(lost)).unwrap();
            assert_eq!(found, State { since_is_lost: true, ..clean(&ground) }, "{lost}");
            assert_eq!(diff(&ground.top, lost, 1000), None, "{lost}");
        }
    }

    fn odd_names_and_things_are_met() {
        let ground = Ground::new();
        ground.write("-rf", "x");
        ground.write("a\nb", "x");
        ground.write(":(top)x", "x");
        ground.write("ünï.rs", "x");
        symlink("/etc", ground.top.join("link")).unwrap();
        rustix_pipe(&ground.top.join("pipe"));
        // What was a folder leads elsewhere now.
        fs::remove_dir_all(ground.top.join("src")).unwrap();
        let elsewhere = ground.top.with_file_name("elsewhere");
        write(&elsewhere.join("main.rs"), "fn main() {}\n");
        symlink(&elsewhere, ground.top.join("src")).unwrap();
        let found = state(&ground.top, None).unwrap();
        let odd = ["-rf", ":(top)x", "a\nb", "link", "src", "src/main.rs", "ünï.rs"];
        assert_eq!(found.uncommitted, names(&odd));
    }

    fn long_lists_and_patches_are_cut() {
        let ground = Ground::new();
        let since = first(&ground);
        for n in 0..700 {
            ground.write(&format!("many/{n:04}.rs"), "a line\nanother\n");
        }
        assert_eq!(state(&ground.top, None).unwrap().uncommitted.count(), 700);
        ground.git(&["add", "."]);
        let staged = state(&ground.top, None).unwrap().staged;
        assert_eq!((staged.names.len(), staged.more), (500, 200));
        ground.git(&["commit", "-q", "-m", "many"]);
        let text = diff(&ground.top, &since, 5000).unwrap();
        assert!(text.contains("  … and 200 more\n"), "{text}");
        assert!(text.contains(" bytes are left out …]\n"), "{text}");
        let patch = text.split_once("diff --git").unwrap().1;
        assert!(patch.len() < 5100, "{}", patch.len());
    }
}

fn rustix_pipe(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}
