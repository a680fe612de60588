//! Several processes that commit to one repository at once.

use std::env;
use std::process::{Command, Stdio};

use rethread_workspace::{Hurdle, commit};

use crate::ground::{Ground, the_rest, write};

const TURNS: usize = 12;

isolated! {
    fn two_processes_break_nothing() {
        if let Some(folder) = env::var_os("RETHREAD_FOLDER") {
            return take_turns(std::path::Path::new(&folder));
        }
        let ground = Ground::new();
        ground.write("README.md", "staged\n");
        ground.git(&["add", "README.md"]);
        ground.write("README.md", "dirty\n");
        let before = the_rest(&ground.top);
        let folders = ["conversations/a", "conversations/b"].map(|path| ground.top.join(path));
        let children = folders.clone().map(|folder| {
            Command::new(env::current_exe().unwrap())
                .args(["--exact", "concurrent::two_processes_break_nothing", "--nocapture"])
                .env("RETHREAD_FOLDER", folder)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        });
        for child in children {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        for folder in &folders {
            drop(commit(folder, &[], "the last").unwrap());
        }
        let log = ground.git(&["log", "--format=%s", "HEAD"]);
        let commits = log.lines().filter(|line| line.starts_with("session ")).count();
        assert!(commits >= 2, "{log}");
        assert_eq!(ground.git(&["status", "--porcelain", "conversations"]), "");
        ground.git(&["fsck", "--strict"]);
        let left_out = |state: &crate::ground::State| state.index.clone();
        assert_eq!(left_out(&the_rest(&ground.top)), left_out(&before));
        assert_eq!(ground.git(&["status", "--porcelain"]), "MM README.md");
    }
}

/// Either it is committed, or it is said that another was quicker.
fn take_turns(folder: &std::path::Path) {
    for turn in 0..TURNS {
        write(&folder.join(".session/messages.jsonl"), &"line\n".repeat(turn + 1));
        write(&folder.join(format!("{turn}.md")), "new\n");
        match commit(folder, &[], &format!("turn {turn}")) {
            Ok(Some(_)) | Err(Hurdle::Locked) => (),
            other => panic!("turn {turn}: {other:?}"),
        }
    }
}
