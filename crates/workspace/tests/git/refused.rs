//! Commits that do not come about for other reasons than a hook.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rethread_workspace::Hurdle;

use crate::ground::{Ground, everything, set, the_rest, write};

/// A program in the place of the user's own for signing.
fn signer(ground: &Ground, script: &str) {
    let path = ground.top.with_file_name("signer");
    write(&path, &format!("#!/bin/sh\n{script}\n"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    set("gpg.program", path.to_str().unwrap());
    set("commit.gpgSign", "true");
}

isolated! {
    fn signing_fails() {
        let ground = Ground::new();
        ground.talk("one\n");
        signer(&ground, "echo 'no secret key' >&2; exit 2");
        let before = everything(&ground.top);
        let Err(Hurdle::Failed(why)) = ground.commit() else { panic!("it was committed") };
        assert!(why.contains("sign"), "{why}");
        assert_eq!(everything(&ground.top), before);
    }

    fn signing_works_as_the_user_has_set_it_up() {
        let ground = Ground::new();
        ground.talk("one\n");
        signer(&ground, "cat > /dev/null; echo '[GNUPG:] SIG_CREATED ' >&2; echo signed by anna");
        let made = ground.commit().unwrap().unwrap();
        let commit = ground.git(&["cat-file", "commit", &made.id]);
        assert!(commit.contains("gpgsig signed by anna"), "{commit}");
    }

    fn a_filter_that_must_work_and_does_not() {
        let ground = Ground::new();
        ground.talk("one\n");
        set("filter.broken.clean", "false");
        set("filter.broken.required", "true");
        ground.write(".git/info/attributes", "*.jsonl filter=broken\n");
        let before = everything_but_unstaged(&ground);
        assert!(matches!(ground.commit(), Err(Hurdle::Failed(_))));
        assert_eq!(everything_but_unstaged(&ground), before);
    }

    fn a_hook_sees_neither_an_editor_nor_our_input() {
        let ground = Ground::new();
        ground.talk("one\n");
        set("core.editor", "touch ../editor; false");
        ground.hook("pre-commit", "cat > ../input; git var GIT_EDITOR > ../which");
        let before = the_rest(&ground.top);
        ground.commit().unwrap().unwrap();
        assert_eq!(the_rest(&ground.top), before);
        let beside = |name: &str| ground.top.with_file_name(name);
        assert!(!beside("editor").exists());
        assert_eq!(fs::read(beside("input")).unwrap(), b"");
        assert_eq!(fs::read(beside("which")).unwrap(), b":\n");
    }

    fn a_program_that_a_hook_leaves_behind_is_not_waited_for() {
        let ground = Ground::new();
        ground.talk("one\n");
        ground.hook("post-commit", "sleep 20 &");
        let started = std::time::Instant::now();
        ground.commit().unwrap().unwrap();
        assert!(started.elapsed().as_secs() < 15);
    }
}

/// Git cannot tell a difference where a filter fails; the index and the disk can be compared.
fn everything_but_unstaged(ground: &Ground) -> (String, String) {
    (ground.git(&["ls-files", "--stage"]), ground.git(&["diff", "--cached"]))
}
