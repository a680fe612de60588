//! What a commit of a session's folder takes in, and what it says.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use rethread_workspace::{Changed, Committed, Hurdle, changed, commit, hurdle};

use crate::ground::{FOLDER, Ground, git, set, the_rest, write};

fn of(paths: &[&str]) -> Vec<String> {
    paths.iter().map(|path| format!("{FOLDER}/{path}")).collect()
}

fn all_of_it() -> Vec<String> {
    of(&[".session/messages.jsonl", ".session/session.json", "chat.md"])
}

isolated! {
    fn saved_then_update_then_nothing() {
        let ground = Ground::new();
        ground.talk("one\n");
        assert_eq!(hurdle(&ground.folder), None);
        assert_eq!(changed(&ground.folder), Ok(Changed::More));
        let first = commit(&ground.folder, &[], "API design").unwrap().unwrap();
        let id = ground.git(&["rev-parse", "HEAD"]);
        assert_eq!(first, Committed { id, message: "session saved: API design".to_owned() });
        assert_eq!(ground.taken(&first.id), all_of_it());
        assert_eq!(ground.git(&["log", "-1", "--format=%B"]), "session saved: API design");
        assert_eq!(ground.git(&["log", "-1", "--format=%an <%ae>"]), "anna <anna@example.org>");
        assert_ne!(ground.git(&["log", "-1", "--format=%at"]), "1", "the date of another commit");

        ground.talk("one\ntwo\n");
        assert_eq!(changed(&ground.folder), Ok(Changed::OnlySession));
        let second = commit(&ground.folder, &[], "API design").unwrap().unwrap();
        assert_eq!(second.message, "session update: API design");
        assert_eq!(ground.taken(&second.id), of(&[".session/messages.jsonl"]));

        assert_eq!(changed(&ground.folder), Ok(Changed::Nothing));
        assert_eq!(commit(&ground.folder, &[], "API design"), Ok(None));
        assert_eq!(ground.git(&["rev-parse", "HEAD"]), second.id);
        assert_eq!(ground.git(&["status", "--porcelain"]), "");
    }

    fn a_file_that_is_gone_is_gone_from_the_commit() {
        let ground = Ground::new();
        ground.talk("one\n");
        ground.commit().unwrap().unwrap();
        fs::remove_file(ground.folder.join("chat.md")).unwrap();
        assert_eq!(changed(&ground.folder), Ok(Changed::More));
        let second = ground.commit().unwrap().unwrap();
        assert_eq!(second.message, "session saved: x");
        assert_eq!(ground.git(&["show", "--format=", "--name-status"]), format!("D\t{FOLDER}/chat.md"));
        fs::remove_dir_all(ground.folder.join(".session")).unwrap();
        assert_eq!(ground.commit().unwrap().unwrap().message, "session update: x");
        assert_eq!(ground.commit(), Ok(None));
        assert_eq!(ground.git(&["status", "--porcelain"]), "");
    }

    fn a_branch_without_a_commit_gets_its_first() {
        let ground = Ground::unborn(&[]);
        ground.write("mine.rs", "staged");
        ground.git(&["add", "mine.rs"]);
        ground.talk("one\n");
        let before = the_rest(&ground.top);
        assert_eq!(changed(&ground.folder), Ok(Changed::More));
        let first = ground.commit().unwrap().unwrap();
        assert_eq!(ground.taken(&first.id), all_of_it());
        assert_eq!(the_rest(&ground.top), before);
        assert_eq!(ground.commit(), Ok(None));
    }

    fn a_repository_with_longer_ids_works() {
        let ground = Ground::unborn(&["--object-format=sha256"]);
        ground.talk("one\n");
        assert_eq!(ground.commit().unwrap().unwrap().id.len(), 64);
        ground.talk("two\n");
        assert_eq!(changed(&ground.folder), Ok(Changed::OnlySession));
        ground.commit().unwrap().unwrap();
        assert_eq!(ground.commit(), Ok(None));
    }

    fn references_in_tables_work() {
        let ground = Ground::unborn(&["--ref-format=reftable"]);
        ground.talk("one\n");
        assert_eq!(hurdle(&ground.folder), None);
        ground.commit().unwrap().unwrap();
        assert_eq!(ground.commit(), Ok(None));
    }

    fn worktrees_and_submodules_work() {
        let ground = Ground::new();
        let tree = ground.top.with_file_name("tree");
        ground.git(&["worktree", "add", "-q", "-b", "side", tree.to_str().unwrap()]);
        set("protocol.file.allow", "always");
        ground.git(&["submodule", "add", "-q", ground.top.to_str().unwrap(), "inner"]);
        ground.git(&["commit", "-q", "-m", "with a submodule"]);
        for top in [tree, ground.top.join("inner")] {
            write(&top.join("conversations/a/.session/messages.jsonl"), "one\n");
            write(&top.join("README.md"), "dirty");
            let before = the_rest(&top);
            let made = commit(&top.join("conversations/a"), &[], "x").unwrap().unwrap();
            assert_eq!(git(&top, &["rev-parse", "HEAD"]), made.id);
            assert_eq!(the_rest(&top), before);
            assert_eq!(commit(&top.join("conversations/a"), &[], "x"), Ok(None));
        }
    }

    fn files_that_come_along_are_committed_when_they_changed() {
        let ground = Ground::new();
        let also = [".gitattributes", ".rethread/kinds/chat.md", "README.md", ".rethread/none", "src"];
        let mut also: Vec<PathBuf> = also.iter().map(|path| ground.top.join(path)).collect();
        also.push(ground.top.with_file_name("outside"));
        write(also.last().unwrap(), "not of this repository");
        ground.write(".gitattributes", "*.jsonl merge=union\n");
        ground.write(".rethread/kinds/chat.md", "prompt");
        ground.write(".rethread/not-asked-for", "x");
        ground.talk("one\n");
        let made = commit(&ground.folder, &also, "x").unwrap().unwrap();
        let along = [".gitattributes", ".rethread/kinds/chat.md"].map(str::to_owned);
        assert_eq!(ground.taken(&made.id), [along.to_vec(), all_of_it()].concat());
        assert_eq!(commit(&ground.folder, &also, "x"), Ok(None));

        ground.write(".gitattributes", "* text\n");
        let made = commit(&ground.folder, &also, "x").unwrap().unwrap();
        assert_eq!(made.message, "session saved: x", "more than the session changed");
        assert_eq!(ground.taken(&made.id), [".gitattributes"]);
    }

    fn a_file_of_which_another_version_is_staged_does_not_come_along() {
        let ground = Ground::new();
        ground.talk("one\n");
        ground.write("README.md", "staged\n");
        ground.git(&["add", "README.md"]);
        ground.write("README.md", "staged\nand on the disk\n");
        let before = the_rest(&ground.top);
        let made = commit(&ground.folder, &[ground.top.join("README.md")], "x").unwrap().unwrap();
        assert_eq!(ground.taken(&made.id), all_of_it());
        assert_eq!(the_rest(&ground.top), before);
    }

    fn line_endings_and_filters_are_those_of_the_user() {
        let ground = Ground::new();
        set("core.autocrlf", "true");
        set("filter.upper.clean", "tr a-z A-Z");
        set("filter.upper.smudge", "tr A-Z a-z");
        ground.write(".git/info/attributes", "*.upper filter=upper\n");
        ground.talk("one\n");
        write(&ground.folder.join("chat.md"), "# x\r\n");
        write(&ground.folder.join("a.upper"), "secret");
        ground.commit().unwrap().unwrap();
        assert_eq!(ground.git(&["show", &format!("HEAD:{FOLDER}/a.upper")]), "SECRET");
        assert_eq!(ground.git(&["cat-file", "-s", &format!("HEAD:{FOLDER}/chat.md")]), "4");
        assert_eq!(ground.commit(), Ok(None), "what filters do is no change");
        ground.talk("one\ntwo\n");
        write(&ground.folder.join("chat.md"), "# x\r\n");
        assert_eq!(ground.commit().unwrap().unwrap().message, "session update: x");
    }

    fn links_modes_pipes_and_inner_repositories() {
        let ground = Ground::new();
        ground.talk("one\n");
        symlink("/etc/passwd", ground.folder.join("link")).unwrap();
        symlink("/etc", ground.folder.join("links")).unwrap();
        write(&ground.folder.join("inner/x"), "x");
        git(&ground.folder.join("inner"), &["init", "-q"]);
        let pipe = ground.folder.join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let made = ground.commit().unwrap().unwrap();
        assert_eq!(ground.taken(&made.id), [all_of_it(), of(&["link", "links"])].concat());
        assert_eq!(changed(&ground.folder), Ok(Changed::Nothing));

        fs::set_permissions(ground.folder.join("chat.md"), fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(changed(&ground.folder), Ok(Changed::More));
        ground.git(&["config", "core.fileMode", "false"]);
        assert_eq!(changed(&ground.folder), Ok(Changed::Nothing), "the bit means nothing here");
        fs::remove_file(ground.folder.join("link")).unwrap();
        symlink("/etc/shadow", ground.folder.join("link")).unwrap();
        let made = ground.commit().unwrap().unwrap();
        assert_eq!(ground.taken(&made.id), of(&["link"]));
    }

    fn a_sparse_checkout_loses_nothing() {
        let ground = Ground::new();
        ground.talk("one\n");
        ground.commit().unwrap().unwrap();
        ground.git(&["sparse-checkout", "set", "src"]);
        fs::create_dir_all(&ground.folder).unwrap();
        assert_eq!(changed(&ground.folder), Ok(Changed::Nothing), "left off the disk by git");
        write(&ground.folder.join("new.md"), "new");
        let made = ground.commit().unwrap().unwrap();
        assert_eq!(ground.taken(&made.id), of(&["new.md"]));
    }

    fn what_rules_hide_besides_the_session_is_left_out() {
        let ground = Ground::new();
        ground.write(".gitignore", "*.log\n*~\n");
        ground.talk("one\n");
        write(&ground.folder.join("big.log"), "x");
        write(&ground.folder.join(".session/session.json~"), "x");
        let made = ground.commit().unwrap().unwrap();
        assert_eq!(ground.taken(&made.id), all_of_it());
        assert_eq!(ground.commit(), Ok(None));
    }

    fn a_rule_that_came_later_hides_nothing_that_git_knows() {
        let ground = Ground::new();
        ground.talk("one\n");
        ground.commit().unwrap().unwrap();
        ground.write(".gitignore", ".session/\n");
        ground.talk("two\n");
        assert_eq!(ground.commit().unwrap().unwrap().message, "session update: x");
        write(&ground.folder.join(".session/new.jsonl"), "x");
        assert!(matches!(ground.commit(), Err(Hurdle::Ignored(_))));
    }

    fn a_session_at_the_top_of_a_repository_works() {
        let ground = Ground::new();
        ground.write(".session/messages.jsonl", "one\n");
        let made = commit(&ground.top, &[ground.top.join("README.md")], "x").unwrap().unwrap();
        assert_eq!(made.message, "session update: x");
        assert_eq!(ground.taken(&made.id), [".session/messages.jsonl"]);
        assert_eq!(commit(&ground.top, &[], "x"), Ok(None));
    }

    fn no_setting_of_the_user_eats_the_message() {
        let ground = Ground::new();
        for (key, value) in [
            ("core.commentChar", "s"),
            ("commit.cleanup", "strip"),
            ("commit.verbose", "true"),
            ("commit.status", "true"),
            ("core.editor", "false"),
            ("color.ui", "always"),
            ("diff.relative", "true"),
            ("diff.noprefix", "true"),
            ("status.renames", "copies"),
            ("core.quotePath", "true"),
        ] {
            set(key, value);
        }
        ground.talk("one\n");
        commit(&ground.folder, &[], "# --amend\n\nsecond").unwrap().unwrap();
        assert_eq!(ground.git(&["log", "-1", "--format=%B"]), "session saved: # --amend second");
        ground.talk("two\n");
        assert_eq!(ground.commit().unwrap().unwrap().message, "session update: x");
        assert_eq!(ground.commit(), Ok(None));
    }

    fn hundreds_of_files_are_one_commit() {
        let ground = Ground::new();
        ground.talk("one\n");
        for number in 0..800 {
            let name = format!("{}/{number}.md", "deep/".repeat(number % 7 + 1));
            write(&ground.folder.join(name), &format!("{number}\n"));
        }
        let made = ground.commit().unwrap().unwrap();
        assert_eq!(ground.taken(&made.id).len(), 803);
        assert_eq!(changed(&ground.folder), Ok(Changed::Nothing));
    }
}
