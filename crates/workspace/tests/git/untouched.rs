//! Whatever the user has staged, changed or hidden away stays as it was, whether a commit comes about or not.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rethread_workspace::{Changed, Hurdle, changed};

use crate::ground::{FOLDER, Ground, everything, git_bytes, the_rest, write};

/// A repository in the middle of somebody's work, of every kind there is.
fn busy() -> Ground {
    let ground = Ground::new();
    for name in ["moved.rs", "deleted.rs", "removed.rs", "mode.rs", "dirty.rs", "untracked.rs"] {
        ground.write(name, &format!("{name}\n").repeat(20));
    }
    ground.git(&["add", "."]);
    ground.git(&["commit", "-q", "-m", "second"]);
    ground.git(&["branch", "other"]);
    ground.git(&["tag", "a-tag"]);
    ground.write("README.md", "in the stash\n");
    ground.git(&["stash", "-q"]);

    ground.write("README.md", "first, staged\nsecond\nthird\n");
    ground.git(&["add", "README.md"]);
    ground.write("README.md", "first, staged\nsecond\nthird, not staged\n");
    ground.git(&["mv", "moved.rs", "src/moved.rs"]);
    ground.git(&["rm", "-q", "deleted.rs"]);
    ground.git(&["rm", "-q", "--cached", "untracked.rs"]);
    fs::remove_file(ground.top.join("removed.rs")).unwrap();
    let mode = ground.top.join("mode.rs");
    fs::set_permissions(mode, fs::Permissions::from_mode(0o755)).unwrap();
    ground.write("dirty.rs", "dirty\n");
    ground.write("new.rs", "new, staged\n");
    ground.git(&["add", "new.rs"]);
    ground.write("announced.rs", "announced\n");
    ground.git(&["add", "--intent-to-add", "announced.rs"]);
    ground.write("unknown.rs", "unknown\n");
    ground.write("conversations.md", "beside, by name\n");
    ground.write("conversations/other.md", "beside, by place\n");
    ground.git(&["update-index", "--assume-unchanged", "src/main.rs"]);
    ground.talk("one\n");
    ground
}

isolated! {
    fn by_a_commit() {
        let ground = busy();
        ground.write(".git/COMMIT_EDITMSG", "what I want to say\n");
        let before = the_rest(&ground.top);
        let parent = ground.git(&["rev-parse", "HEAD"]);
        let made = ground.commit().unwrap().unwrap();
        assert_eq!(the_rest(&ground.top), before);
        assert_eq!(ground.taken(&made.id).len(), 3, "{:?}", ground.taken(&made.id));
        assert_eq!(ground.git(&["rev-parse", "HEAD^"]), parent);
        assert_eq!(ground.git(&["status", "--porcelain", "--", FOLDER]), "");
        let untracked = ground.git(&["status", "--porcelain", "conversations"]);
        assert_eq!(untracked, "?? conversations/other.md");
        let draft = fs::read_to_string(ground.top.join(".git/COMMIT_EDITMSG")).unwrap();
        assert_eq!(draft, "what I want to say\n");
        ground.talk("two\n");
        let before = the_rest(&ground.top);
        ground.commit().unwrap().unwrap();
        assert_eq!(the_rest(&ground.top), before);
    }

    fn by_a_commit_when_an_empty_file_of_ours_is_only_announced() {
        let ground = Ground::new();
        ground.talk("one\n");
        let empty = format!("{FOLDER}/notes.md");
        ground.write(&empty, "");
        ground.commit().unwrap().unwrap();
        ground.git(&["rm", "-q", "--cached", &empty]);
        ground.git(&["add", "--intent-to-add", &empty]);
        assert_eq!(changed(&ground.folder), Ok(Changed::Nothing));
        assert_eq!(ground.commit(), Ok(None));
        ground.talk("two\n");
        let made = ground.commit().unwrap().unwrap();
        assert_eq!(ground.taken(&made.id), [format!("{FOLDER}/.session/messages.jsonl")]);
        assert_eq!(changed(&ground.folder), Ok(Changed::Nothing));
    }

    fn by_a_hook_that_refuses() {
        let ground = busy();
        for (hook, script) in [
            ("pre-commit", "echo 'checks failed' >&2; exit 1"),
            ("commit-msg", "echo 'checks failed'; exit 3"),
            ("prepare-commit-msg", "echo 'checks failed' >&2; kill -9 $$"),
            ("commit-msg", "echo 'checks failed' >&2; : > \"$1\""),
            ("reference-transaction", "[ $1 = prepared ] || exit 0; echo 'checks failed' >&2; exit 1"),
        ] {
            ground.hook(hook, script);
            let before = everything(&ground.top);
            let tip = ground.git(&["rev-parse", "HEAD"]);
            let Err(Hurdle::Hook(words)) = ground.commit() else { panic!("{hook} did not refuse") };
            assert!(words.contains("checks failed"), "{words}");
            assert_eq!(everything(&ground.top), before, "{hook}");
            assert_eq!(ground.git(&["rev-parse", "HEAD"]), tip);
            fs::remove_file(ground.top.join(".git/hooks").join(hook)).unwrap();
        }
        let before = the_rest(&ground.top);
        ground.commit().unwrap().unwrap();
        assert_eq!(the_rest(&ground.top), before);
    }

    fn in_the_folder_itself_by_a_hook_that_refuses() {
        let ground = busy();
        for name in ["staged.md", "half.md", "gone.md", "forgotten.md"] {
            write(&ground.folder.join(name), "first\n");
        }
        ground.commit().unwrap().unwrap();
        let path = |name: &str| format!("{FOLDER}/{name}");
        for name in ["staged.md", "half.md", "added.md", "announced.md"] {
            write(&ground.folder.join(name), "second\n");
        }
        ground.git(&["add", &path("staged.md"), &path("half.md"), &path("added.md")]);
        ground.git(&["add", "--intent-to-add", &path("announced.md")]);
        ground.git(&["rm", "-q", &path("gone.md")]);
        ground.git(&["rm", "-q", "--cached", &path("forgotten.md")]);
        write(&ground.folder.join("forgotten.md"), "third\n");
        write(&ground.folder.join("half.md"), "third\n");
        write(&ground.folder.join("new.md"), "new\n");
        ground.hook("pre-commit", "exit 1");
        let before = everything(&ground.top);
        let rest = the_rest(&ground.top);
        assert!(matches!(ground.commit(), Err(Hurdle::Hook(_))));
        assert_eq!(everything(&ground.top), before);

        fs::remove_file(ground.top.join(".git/hooks/pre-commit")).unwrap();
        let made = ground.commit().unwrap().unwrap();
        assert_eq!(ground.taken(&made.id).len(), 7, "{:?}", ground.taken(&made.id));
        assert_eq!(the_rest(&ground.top), rest);
        assert_eq!(git_bytes(&ground.top, &["status", "--porcelain", "--", FOLDER]), b"");
    }

    fn by_a_hook_that_looks_at_what_is_committed() {
        let ground = busy();
        ground.hook("pre-commit", "git diff --cached --name-only -- 'c*/*' > ../seen");
        let before = the_rest(&ground.top);
        ground.commit().unwrap().unwrap();
        assert_eq!(the_rest(&ground.top), before);
        let seen = fs::read_to_string(ground.top.with_file_name("seen")).unwrap();
        assert_eq!(seen.lines().count(), 3, "{seen}");
        assert!(seen.lines().all(|path| path.starts_with(FOLDER)), "{seen}");
    }
}
