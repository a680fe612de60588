//! What was deleted or purged in a workspace is gone from its folders, and nothing brings it back.

use std::fs;

use serde_json::json;

use crate::env::{TestEnv, jsonl, user};
use crate::workspace_sessions::{folders, git, lines, only_folder, workspace};

/// A workspace with one session of two messages, committed.
fn committed() -> (TestEnv, String) {
    let env = workspace();
    let id = env.record(["--title", "Talk"], &[user("the first thing"), user("the second thing")]);
    git(&env, &["add", "--all"]);
    git(&env, &["commit", "--quiet", "-m", "all"]);
    (env, id)
}

#[test]
fn a_deleted_session_takes_its_folder_along_and_comes_back_with_it() {
    let (env, id) = committed();
    let folder = only_folder(&env);
    let before = fs::read_to_string(folder.join(".session/messages.jsonl")).unwrap();
    fs::write(folder.join("mine.txt"), "my own").unwrap();
    let told = env.run(["delete", &id]).succeeded();
    assert!(told.stderr.contains("and so is its folder"), "{told}");
    assert!(told.stderr.contains("Git still has its folder"), "{told}");
    assert!(told.stderr.contains("mine.txt is not ours: it stays"), "{told}");
    assert!(!folder.join(".session").exists() && !folder.join("chat.md").exists());
    fs::remove_file(folder.join("mine.txt")).unwrap();
    // Whatever puts the folder back, the session stays deleted.
    git(&env, &["checkout", "--", "."]);
    for _ in 0..2 {
        assert_eq!(env.json(["list", "--all"]), json!([]));
    }
    let checked = env.run(["doctor"]).succeeded();
    assert!(checked.text().contains("its session was deleted here"), "{checked}");
    fs::remove_dir_all(&folder).unwrap();
    env.run(["undelete", &id]).succeeded();
    assert_eq!(fs::read_to_string(folder.join(".session/messages.jsonl")).unwrap(), before);
    assert_eq!(env.messages(&id).len(), 2);
    env.assert_sound();
}

#[test]
fn for_good_is_asked_where_git_has_the_folder_and_the_folder_does_not_bring_it_back() {
    let (env, id) = committed();
    let folder = only_folder(&env);
    let refused = env.run(["delete", "--permanently", &id, "--json"]);
    refused.assert_error(1, "confirmation_needed");
    assert!(folder.join(".session/messages.jsonl").exists());
    let told = env.run(["delete", "--permanently", "--yes", &id]).succeeded();
    assert!(told.stderr.contains("is gone for good, and so is its folder"), "{told}");
    assert!(!folder.exists());
    git(&env, &["checkout", "--", "."]);
    assert!(folder.exists());
    for _ in 0..2 {
        assert_eq!(env.json(["list", "--all"]), json!([]));
    }
    let checked = env.run(["doctor"]).succeeded();
    assert!(checked.text().contains("its session was deleted here"), "{checked}");
    env.fails(&["undelete", &id], "session_not_found");
}

#[test]
fn where_git_does_not_have_the_folder_nothing_is_asked() {
    let env = workspace();
    let id = env.record(["--title", "Talk"], &[user("the first thing")]);
    let told = env.run(["delete", "--permanently", &id]).succeeded();
    assert!(!told.stderr.contains("Git"), "{told}");
    assert_eq!(fs::read_dir(env.path("project/conversations")).unwrap().count(), 0);
}

#[test]
fn a_purged_text_leaves_the_folder_and_its_name_and_an_old_file_does_not_bring_it_back() {
    let env = workspace();
    let id = env.record::<&str>([], &[user("Heron is the passkey of staging"), user("fine")]);
    env.run(["pause", &id]).succeeded();
    let folder = only_folder(&env);
    assert!(folder.display().to_string().contains("heron"), "{}", folder.display());
    git(&env, &["add", "--all"]);
    git(&env, &["commit", "--quiet", "-m", "all"]);
    let old = fs::read(folder.join(".session/messages.jsonl")).unwrap();
    let told = env.run(["purge", &id, "1"]).succeeded();
    assert!(told.stderr.contains("Git still has it in earlier commits"), "{told}");
    let folder = only_folder(&env);
    let is_clean = |env: &TestEnv| {
        for (path, _) in env.tree() {
            if !path.starts_with("project/conversations") {
                continue;
            }
            let shown = path.display().to_string().to_lowercase();
            assert!(!shown.contains("heron"), "{shown}");
            let text = fs::read_to_string(env.root().join(&path)).unwrap_or_default();
            assert!(!text.to_lowercase().contains("heron"), "{shown}: {text}");
        }
    };
    is_clean(&env);
    // Somebody gets the old file from git.
    fs::write(folder.join(".session/messages.jsonl"), old).unwrap();
    env.run(["list"]).succeeded();
    is_clean(&env);
    assert_eq!(lines(&folder).len(), 2);
    assert!(lines(&folder)[0]["purged_at"].is_string());
    assert_eq!(env.messages(&id)[0]["content"], "");
    assert_eq!(env.json(["search", "heron"]), json!([]));
    env.assert_sound();
}

#[test]
fn what_an_agent_keeps_of_a_purged_text_is_said() {
    let env = workspace();
    env.agent("ref", &["--resume"]);
    env.run(["run", "ref", "say: the passkey is heron-42", "--topic", "Keys"]).succeeded();
    let id = env.only();
    let told = env.run(["purge", &id, "1"]).succeeded();
    assert!(told.stderr.contains("ref still has it in its own session"), "{told}");
    let json = env.json(["purge", &id, "2"]);
    assert_eq!(json["held_by"][0]["agent"], "ref", "{json}");
    assert_eq!(json["in_git"], false);
}

#[test]
fn a_session_that_is_imported_again_is_wanted_back() {
    let (env, id) = committed();
    let exported = env.data(["export", &id]);
    env.run(["delete", "--permanently", "--yes", &id]).succeeded();
    env.feed(["import", "-"], exported).succeeded();
    env.feed(["record", "--session", &id], jsonl(&[user("again")])).succeeded();
    assert_eq!(env.messages(&id).len(), 3);
    assert_eq!(folders(&env).len(), 1);
    env.assert_sound();
}

/// Whether a word is in the name or the bytes of any file of ours.
fn is_anywhere(env: &TestEnv, word: &str) -> Option<String> {
    let has = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).to_lowercase();
        text.contains(word)
    };
    env.tree().into_iter().map(|(path, _)| path).find_map(|path| {
        let bytes = fs::read(env.root().join(&path)).unwrap_or_default();
        let name = path.display().to_string();
        (!name.contains(".git/") && (has(name.as_bytes()) || has(&bytes))).then_some(name)
    })
}

/// Purges a message with a program that dies at a point; gives whether it died.
fn purge_dying_at(point: &str) -> bool {
    let env = workspace();
    let id = env.record::<&str>([], &[user("Heron is the passkey of staging"), user("fine")]);
    env.run(["fork", &id]).succeeded();
    env.run(["pause", &id]).succeeded();
    let stream = env.path("home/.local/share/rethread/output_streams").join(&id);
    fs::create_dir_all(&stream).unwrap();
    fs::write(stream.join("session.log"), "Heron is the passkey of staging").unwrap();
    let mut command = env.command(["purge", &id, "1"]);
    let ended = command.env("CRASH_AT", point).output().unwrap();
    let died = ended.status.code().is_none();
    assert!(died || ended.status.success(), "{point}: {ended:?}");
    // Any command does.
    let next = env.run(["list"]).succeeded();
    if env.messages(&id)[0]["purged_at"].is_null() {
        assert!(died, "{point}");
    } else {
        assert_eq!(is_anywhere(&env, "heron"), None, "{point}: {next}");
        let again = env.run(["list"]).succeeded();
        assert!(!again.stderr.contains("cut off"), "{point}: told twice: {again}");
    }
    env.assert_sound();
    died
}

#[test]
fn a_purge_that_is_killed_at_any_step_is_finished_by_the_next_command() {
    for point in ["batch.committed", "batch.begun", "batch.applied", "purge.done", "purge.folded"] {
        let deaths = (1..20).take_while(|time| purge_dying_at(&format!("{point}:{time}"))).count();
        assert!(deaths > 0, "no purge comes to {point}");
    }
}
