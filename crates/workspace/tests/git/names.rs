//! Names that mean something to a command line, a pattern or a terminal.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rethread_workspace::{Changed, Hurdle, changed, commit, hurdle};

use crate::ground::{Ground, git, git_bytes, the_rest, write};

const HOSTILE: [&[u8]; 20] = [
    b"-rf",
    b"--amend",
    b"a b",
    b" ",
    "🦀 déjà".as_bytes(),
    b"*",
    b"?",
    b"[a]",
    b":(top)x",
    b":!x",
    b":^x",
    b"\"quoted\"",
    b"\"",
    b"back\\slash",
    b"line\nend",
    b"carriage\r",
    b"tab\t",
    b"escape\x1b[31m",
    b"not utf-8 \xff\xfe",
    b"#",
];

isolated! {
    fn files_may_have_any_name() {
        let ground = Ground::new();
        ground.talk("one\n");
        for name in HOSTILE {
            fs::write(ground.folder.join(OsStr::from_bytes(name)), name).unwrap();
        }
        ground.write("dirty \"beside\" *", "x");
        let before = the_rest(&ground.top);
        let made = ground.commit().unwrap().unwrap();
        assert_eq!(ground.taken(&made.id).len(), HOSTILE.len() + 3);
        assert_eq!(the_rest(&ground.top), before);
        assert_eq!(changed(&ground.folder), Ok(Changed::Nothing), "the ids are those of git");
        for name in HOSTILE {
            fs::write(ground.folder.join(OsStr::from_bytes(name)), "more").unwrap();
        }
        let before = the_rest(&ground.top);
        ground.hook("pre-commit", "exit 1");
        assert!(matches!(ground.commit(), Err(Hurdle::Hook(_))));
        fs::remove_file(ground.top.join(".git/hooks/pre-commit")).unwrap();
        let made = ground.commit().unwrap().unwrap();
        assert_eq!(ground.taken(&made.id).len(), HOSTILE.len());
        assert_eq!(the_rest(&ground.top), before);
    }

    fn folders_may_have_any_name() {
        let ground = Ground::new();
        for name in HOSTILE {
            for file in [".session/messages.jsonl", "x.md"] {
                let folder = ground.top.join("conversations").join(OsStr::from_bytes(name));
                write(&folder.join(file), "one\n");
            }
        }
        for name in HOSTILE {
            let folder = ground.top.join("conversations").join(OsStr::from_bytes(name));
            let shown = String::from_utf8_lossy(name);
            assert_eq!(hurdle(&folder), None, "{shown}");
            let made = commit(&folder, &[], &shown).unwrap().unwrap();
            assert_eq!(ground.taken(&made.id).len(), 2, "{shown}");
            assert_eq!(commit(&folder, &[], "x"), Ok(None), "{shown}");
        }
        assert_eq!(ground.git(&["status", "--porcelain"]), "");
    }

    fn a_repository_may_have_any_name() {
        let dir = tempfile::tempdir().unwrap();
        for name in HOSTILE {
            // Git itself takes off what ends a line when it writes the top of a tree.
            let name = [name, b"."].concat();
            let top = dir.path().join(OsString::from_vec(name.clone()));
            fs::create_dir(&top).unwrap();
            git(&top, &["init", "-q"]);
            write(&top.join("a/.session/x"), "one\n");
            let made = commit(&top.join("a"), &[top.join("a/.session/x")], "x").unwrap().unwrap();
            assert_eq!(made.message, "session update: x");
            assert_eq!(git_bytes(&top, &["status", "--porcelain"]), b"");
        }
    }

    fn branches_may_have_any_name() {
        let ground = Ground::new();
        for (number, branch) in ["x';id;'", "\"", "$(x)", "🦀", "@home", "-"].iter().enumerate() {
            let reference = format!("refs/heads/{branch}");
            ground.git(&["symbolic-ref", "HEAD", &reference]);
            ground.git(&["update-ref", &reference, "main"]);
            ground.talk(&number.to_string());
            let made = ground.commit().unwrap().unwrap();
            assert_eq!(ground.git(&["rev-parse", &reference]), made.id);
            ground.git(&["symbolic-ref", "HEAD", "refs/heads/main"]);
            ground.git(&["reset", "-q"]);
        }
    }
}
