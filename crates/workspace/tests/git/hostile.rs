//! A repository in which everything that can name a program names one that leaves a mark.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use rethread_workspace::{Changed, Head, changed, changes, commit, diff, head, hurdle, state};

use crate::ground::{Ground, git, try_git, write};

const SETTINGS: [&str; 24] = [
    "core.fsmonitor",
    "core.pager",
    "core.editor",
    "core.askPass",
    "core.sshCommand",
    "core.gitProxy",
    "core.alternateRefsCommand",
    "pager.log",
    "pager.diff",
    "pager.config",
    "sequence.editor",
    "diff.external",
    "diff.evil.textconv",
    "diff.evil.command",
    "merge.evil.driver",
    "filter.evil.clean",
    "filter.evil.smudge",
    "gpg.program",
    "gpg.ssh.program",
    "gpg.ssh.defaultKeyCommand",
    "credential.helper",
    "uploadpack.packObjectsHook",
    "interactive.diffFilter",
    "trailer.evil.command",
];
const HOOKS: [&str; 11] = [
    "pre-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "pre-merge-commit",
    "post-checkout",
    "post-rewrite",
    "post-index-change",
    "reference-transaction",
    "pre-auto-gc",
    "fsmonitor-watchman",
];

struct Trap {
    ground: Ground,
    first: Head,
    marks: PathBuf,
}

impl Trap {
    fn set() -> Self {
        let ground = Ground::new();
        let first = head(&ground.top).unwrap();
        ground.write("-rf.rs", "second");
        ground.talk("one\n");
        ground.git(&["add", "."]);
        ground.git(&["commit", "-q", "-m", "second"]);
        let marks = ground.top.with_file_name("marks");
        fs::create_dir(&marks).unwrap();
        let program = ground.top.join("evil.sh");
        let script = format!("#!/bin/sh\ntouch '{}'/\"$1\"\ncat\n", marks.display());
        executable(&program, &script);
        // It must not answer: git would wait for more.
        let silent = ground.top.join("silent.sh");
        executable(&silent, &format!("#!/bin/sh\ntouch '{}/remote'\n", marks.display()));
        ground.git(&["remote", "add", "origin", &format!("ext::{}", silent.display())]);
        for key in SETTINGS {
            ground.git(&["config", key, &format!("{} {key}", program.display())]);
        }
        let hooks = ground.top.join("hooks");
        for hook in HOOKS {
            let script = format!("#!/bin/sh\ntouch '{}/{hook}'\n", marks.display());
            executable(&hooks.join(hook), &script);
        }
        for (key, value) in [
            ("core.hooksPath", hooks.to_str().unwrap()),
            ("log.showSignature", "true"),
            ("core.untrackedCache", "true"),
            ("protocol.ext.allow", "always"),
            ("protocol.allow", "always"),
            ("alias.log", &format!("!{} alias", program.display())),
            ("alias.ls-tree", &format!("!{} alias", program.display())),
            ("include.path", "../included"),
            ("includeIf.gitdir:/.path", "../included"),
        ] {
            ground.git(&["config", key, value]);
        }
        ground.write(
            "included",
            &format!("[core]\n\tfsmonitor = {} core.fsmonitor\n", program.display()),
        );
        ground.write(".git/info/attributes", "* filter=evil diff=evil merge=evil\n");
        ground.write(".gitattributes", "* filter=evil diff=evil merge=evil\n");
        write(&ground.folder.join(".gitattributes"), "* filter=evil diff=evil\n");
        let trap = Self { ground, first, marks };
        trap.marks();
        trap
    }

    /// The programs that were started since the last look.
    fn marks(&self) -> BTreeSet<String> {
        let found: BTreeSet<String> = fs::read_dir(&self.marks)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        for name in &found {
            fs::remove_file(self.marks.join(name)).unwrap();
        }
        found
    }
}

fn executable(path: &std::path::Path, script: &str) {
    write(path, script);
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

isolated! {
    fn reading_executes_nothing() {
        let trap = Trap::set();
        let ground = &trap.ground;
        // Whoever reads carelessly looks into every file again.
        ground.talk("three\n");
        for way in ["as it is", "with a process as filter"] {
            if way != "as it is" {
                let program = ground.top.join("evil.sh");
                let process = format!("{} filter.evil.process", program.display());
                ground.git(&["config", "filter.evil.process", &process]);
                trap.marks();
            }
            let now = head(&ground.folder).unwrap();
            let told = changes(&ground.folder, &trap.first, &now).unwrap();
            assert!(told.files.contains(&"-rf.rs".to_owned()), "{told:?}");
            assert_eq!(hurdle(&ground.folder), None);
            assert_eq!(changed(&ground.folder), Ok(Changed::More));
            let stands = state(&ground.top, Some(&trap.first.commit)).unwrap();
            assert!(stands.modified_since.names.contains(&"-rf.rs".to_owned()), "{stands:?}");
            let text = diff(&ground.top, &trap.first.commit, 10_000).unwrap();
            assert!(text.contains("\n+second\n"), "{text}");
            assert_eq!(trap.marks(), names(&[]), "{way}");
        }
        drop(try_git(&ground.top, &["status"]));
        let careless = trap.marks();
        let set = ["core.fsmonitor", "post-index-change", "filter.evil.process"];
        assert!(set.iter().any(|name| careless.contains(*name)), "no trap is set: {careless:?}");
        drop(try_git(&ground.top, &["diff", "HEAD~1", "HEAD"]));
        let careless = trap.marks();
        let set = ["diff.external", "diff.evil.command", "diff.evil.textconv"];
        assert!(set.iter().any(|name| careless.contains(*name)), "no trap is set: {careless:?}");
    }

    fn reading_fetches_nothing_that_is_missing() {
        let trap = Trap::set();
        let ground = &trap.ground;
        ground.git(&["config", "extensions.partialClone", "origin"]);
        ground.git(&["config", "remote.origin.promisor", "true"]);
        let tree = git(&ground.top, &["rev-parse", "HEAD:conversations"]);
        fs::remove_file(ground.top.join(".git/objects").join(&tree[..2]).join(&tree[2..])).unwrap();
        trap.marks();
        assert_eq!(hurdle(&ground.folder), None);
        assert!(changed(&ground.folder).is_err());
        let now = head(&ground.folder).unwrap();
        assert_eq!(changes(&ground.folder, &trap.first, &now), None);
        assert_eq!(state(&ground.top, Some(&trap.first.commit)), None);
        assert_eq!(diff(&ground.top, &trap.first.commit, 10_000), None);
        assert_eq!(trap.marks(), names(&[]));
        drop(try_git(&ground.top, &["ls-tree", "-r", "HEAD"]));
        assert_eq!(trap.marks(), names(&["remote"]), "the trap is not set");
    }

    /// A commit is by the user's word and with what they have set up: hooks and filters. Nothing else has a part in it.
    fn a_commit_executes_hooks_and_filters_only() {
        let trap = Trap::set();
        let ground = &trap.ground;
        ground.talk("three\n");
        write(&ground.folder.join("new.md"), "new\n");
        trap.marks();
        commit(&ground.folder, &[ground.top.join(".gitattributes")], "x").unwrap().unwrap();
        let started = trap.marks();
        let must = ["pre-commit", "prepare-commit-msg", "commit-msg", "post-commit"];
        assert!(started.is_superset(&names(&must)), "{started:?}");
        let may = ["post-index-change", "reference-transaction", "filter.evil.clean", "core.fsmonitor"];
        let others: Vec<_> = started.difference(&names(&[must, may].concat())).cloned().collect();
        assert_eq!(others, Vec::<String>::new());
    }
}
