//! `rethread acp --install` and `--uninstall`

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::env::{Output, PROGRAM, TestEnv};

/// The editors, and the file that each reads.
const EDITORS: &[(&str, &str)] = &[
    ("zed", "home/.config/zed/settings.json"),
    ("jetbrains", "home/.jetbrains/acp.json"),
    ("neovim", "home/.config/nvim/lua/rethread.lua"),
    ("emacs", "home/.emacs.d/rethread.el"),
    ("toad", "home/.local/bin/rethread-toad"),
];
const SETTINGS: &[(&str, &str)] = &[EDITORS[0], EDITORS[1]];
const OWN_FILES: &[(&str, &str)] = &[EDITORS[2], EDITORS[3], EDITORS[4]];

/// As users are: without a store of its own in the environment, and with these agents alone.
fn acp(env: &TestEnv, agents: &[&str], args: &[&str]) -> Output {
    let programs = env.path("programs");
    drop(fs::remove_dir_all(&programs));
    fs::create_dir(&programs).unwrap();
    for program in agents {
        let path = programs.join(program);
        fs::write(&path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = env.command(["acp"]);
    command.args(args).env_remove("RETHREAD_STORE").env("PATH", &programs);
    env.finish(command, b"")
}

const AGENTS: &[&str] = &["claude-agent-acp", "codex-acp"];

fn install(env: &TestEnv, editor: &str) -> Output {
    acp(env, AGENTS, &["--install", editor, "--yes"]).succeeded()
}

fn uninstall(env: &TestEnv, editor: &str) -> Output {
    acp(env, &[], &["--uninstall", editor, "--yes"]).succeeded()
}

/// A file of an editor that has been used here.
fn file(env: &TestEnv, path: &str, text: &str) -> PathBuf {
    let path = env.path(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn installed_agents_come_into_each_editor_once_and_go_without_a_trace() {
    let env = TestEnv::new();
    for (editor, path) in EDITORS {
        let path = env.path(path);
        let printed = acp(&env, AGENTS, &["--install", editor, "--print"]).succeeded();
        assert!(printed.text().contains("Claude Code (Rethread)"), "{editor}: {printed}");
        assert!(!path.exists(), "{editor}");
        install(&env, editor);
        let written = read(&path);
        for part in ["Claude Code (Rethread)", "Codex (Rethread)", PROGRAM] {
            assert!(written.contains(part), "{editor}: {written}");
        }
        assert!(!written.contains("Gemini"), "{editor}: it is not installed");
        let again = install(&env, editor);
        assert!(again.stderr.contains("nothing to do") && again.text().is_empty(), "{again}");
        assert_eq!(read(&path), written, "{editor}");
        uninstall(&env, editor);
        assert!(!path.exists(), "{editor}: there was no file before");
    }
    for folder in ["home/.jetbrains", "home/.emacs.d", "home/.config/nvim"] {
        assert!(!env.path(folder).exists(), "{folder} was made for the file");
    }
}

#[test]
fn settings_get_the_entries_that_the_editors_read() {
    let env = TestEnv::new();
    for (editor, path) in SETTINGS {
        install(&env, editor);
        let written: Value = serde_json::from_str(&read(&env.path(path))).unwrap();
        let mut entry = json!({"command": PROGRAM, "args": ["acp", "claude"], "env": {}});
        if *editor == "zed" {
            entry["type"] = json!("custom");
        }
        assert_eq!(written["agent_servers"]["Claude Code (Rethread)"], entry, "{editor}");
        assert_eq!(written["agent_servers"].as_object().unwrap().len(), 2, "{editor}");
    }
}

#[test]
fn what_is_there_stays_and_comes_back_byte_for_byte() {
    let env = TestEnv::new();
    let before = "// mine\r\n{\r\n\t\"theme\": \"One\", // dark\r\n\t\"agent_servers\": { \"mine\": {\"command\": \"m\"}, },\r\n}\r\n\r\n";
    for (editor, path) in SETTINGS {
        let path = file(&env, path, before);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let shown = install(&env, editor);
        let with = read(&path);
        for kept in
            ["// mine\r\n", "\"theme\": \"One\", // dark\r\n", "\"mine\": {\"command\": \"m\"}"]
        {
            assert!(with.contains(kept), "{editor}: {with}");
        }
        assert!(with.contains("\"Codex (Rethread)\""), "{editor}: {with}");
        assert!(shown.text().contains("+ "), "{shown}");
        assert_eq!(mode(&path), 0o640, "{editor}");
        uninstall(&env, editor);
        assert_eq!(read(&path), before, "{editor}");
        assert_eq!(mode(&path), 0o640, "{editor}");
    }
}

#[test]
fn from_settings_that_have_changed_only_our_entries_go() {
    let env = TestEnv::new();
    for (editor, path) in SETTINGS {
        let path = file(&env, path, "{\n  \"theme\": \"One\" // dark\n}\n");
        install(&env, editor);
        fs::write(&path, read(&path).replace("One", "Two")).unwrap();
        uninstall(&env, editor);
        assert_eq!(read(&path), "{\n  \"theme\": \"Two\" // dark\n}\n", "{editor}");
    }
}

#[test]
fn entries_follow_the_agents_and_the_program_and_keep_what_was_added() {
    let env = TestEnv::new();
    let path = env.path("home/.config/zed/settings.json");
    install(&env, "zed");
    let added = "\"env\": {\"KEY\": \"x\"}, \"default_mode\": \"plan\"";
    let changed = read(&path).replacen("\"env\": {}", added, 1).replace(PROGRAM, "/gone/rethread");
    fs::write(&path, changed).unwrap();
    acp(&env, &["claude-agent-acp", "gemini"], &["--install", "zed", "--yes"]).succeeded();
    let written: Value = serde_json::from_str(&read(&path)).unwrap();
    let agents = written["agent_servers"].as_object().unwrap();
    let names: Vec<&String> = agents.keys().collect();
    assert_eq!(names, ["Claude Code (Rethread)", "Gemini CLI (Rethread)"], "Codex is gone");
    let claude = &agents["Claude Code (Rethread)"];
    assert_eq!(claude["command"], PROGRAM);
    assert_eq!((&claude["env"]["KEY"], &claude["default_mode"]), (&json!("x"), &json!("plan")));
    uninstall(&env, "zed");
    assert!(!path.exists() || read(&path).trim() == "{}", "{}", read(&path));
}

#[test]
fn an_entry_of_somebody_else_under_our_name_is_left_alone() {
    let env = TestEnv::new();
    let before = r#"{"agent_servers": {"Codex (Rethread)": {"type": "custom", "command": "m"}}}"#;
    let path = file(&env, "home/.config/zed/settings.json", before);
    install(&env, "zed");
    let written: Value = serde_json::from_str(&read(&path)).unwrap();
    assert_eq!(written["agent_servers"]["Codex (Rethread)"]["command"], "m");
    fs::write(&path, format!("{}\n", read(&path))).unwrap();
    uninstall(&env, "zed");
    let left: Value = serde_json::from_str(&read(&path)).unwrap();
    assert_eq!(left, serde_json::from_str::<Value>(before).unwrap());
}

#[test]
fn what_cannot_be_understood_is_refused_and_left_alone() {
    let env = TestEnv::new();
    for (editor, path) in SETTINGS {
        for broken in ["{\n  \"agent_servers\": ", "[]", "{\"agent_servers\": 7}", "{} {}"] {
            let path = file(&env, path, broken);
            let refused =
                acp(&env, AGENTS, &["--install", "toad", "--install", editor, "--yes", "--json"]);
            refused.assert_error(2, "bad_input");
            assert!(refused.stderr.contains("is left as it is"), "{refused}");
            assert_eq!(read(&path), broken, "{editor}");
            assert!(!env.path("home/.local/bin/rethread-toad").exists(), "nothing by halves");
        }
    }
}

#[test]
fn our_own_files_never_go_over_those_of_others() {
    let env = TestEnv::new();
    for (editor, path) in OWN_FILES {
        let path = file(&env, path, "mine\n");
        let refused = acp(&env, AGENTS, &["--install", editor, "--yes"]);
        assert_eq!(refused.code, Some(2), "{refused}");
        assert!(refused.stderr.contains("written by somebody else"), "{refused}");
        uninstall(&env, editor);
        assert_eq!(read(&path), "mine\n", "{editor}");
    }
}

#[test]
fn our_own_files_are_written_anew_and_removed_when_they_have_changed() {
    let env = TestEnv::new();
    for (editor, path) in OWN_FILES {
        let path = env.path(path);
        install(&env, editor);
        let written = read(&path);
        fs::write(&path, written.replace("Codex", "Kodex")).unwrap();
        install(&env, editor);
        assert_eq!(read(&path), written, "{editor}");
        fs::write(&path, written.replace("Codex", "Kodex")).unwrap();
        uninstall(&env, editor);
        assert!(!path.exists(), "{editor}");
    }
}

#[test]
fn links_stay_links_and_those_that_lead_nowhere_are_refused() {
    let env = TestEnv::new();
    let dotfiles = file(&env, "dotfiles/settings.json", "{}\n");
    let path = env.path("home/.config/zed/settings.json");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    symlink(&dotfiles, &path).unwrap();
    install(&env, "zed");
    assert!(path.is_symlink() && read(&dotfiles).contains("Codex (Rethread)"));
    uninstall(&env, "zed");
    assert!(path.is_symlink());
    assert_eq!(read(&dotfiles), "{}\n");
    fs::remove_file(&dotfiles).unwrap();
    let refused = acp(&env, AGENTS, &["--install", "zed", "--yes"]);
    assert_eq!(refused.code, Some(2), "{refused}");
    assert!(refused.stderr.contains("a link that leads nowhere"), "{refused}");
    assert!(path.is_symlink() && !dotfiles.exists());
}

#[test]
fn only_a_plain_file_of_a_sane_size_is_read() {
    let env = TestEnv::new();
    for (editor, path) in EDITORS {
        let path = file(&env, path, "");
        fs::remove_file(&path).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        for change in ["--install", "--uninstall"] {
            let refused = acp(&env, AGENTS, &[change, editor, "--yes", "--json"]);
            refused.assert_error(2, "bad_input");
        }
        fs::remove_file(&path).unwrap();
        fs::write(&path, format!("{{}}{}", " ".repeat(5 * 1024 * 1024))).unwrap();
        let refused = acp(&env, AGENTS, &["--install", editor, "--yes"]);
        assert_eq!(refused.code, Some(2), "{refused}");
        assert!(refused.stderr.contains("longer than 4 MiB"), "{refused}");
        assert_eq!(fs::metadata(&path).unwrap().len(), 5 * 1024 * 1024 + 2);
    }
}

#[test]
fn nothing_is_written_without_a_word_and_nothing_is_offered_without_an_agent() {
    let env = TestEnv::new();
    let unasked = acp(&env, AGENTS, &["--install", "zed", "--json"]);
    unasked.assert_error(1, "confirmation_needed");
    let none = acp(&env, &[], &["--install", "zed", "--yes", "--json"]);
    none.assert_error(1, "not_installed");
    assert!(!env.path("home/.config/zed").exists());
    for wrong in [
        &["--install", "ed"][..],
        &["--install", "zed", "--uninstall", "zed"],
        &["claude", "--install", "zed"],
        &["claude", "--yes"],
        &["--yes"],
        &[],
    ] {
        assert_eq!(acp(&env, AGENTS, wrong).code, Some(2));
    }
}

#[test]
fn programs_are_told_what_changed() {
    let env = TestEnv::new();
    let told = |args: &[&str]| {
        let output = acp(&env, AGENTS, &[args, &["--json"]].concat()).succeeded();
        serde_json::from_slice::<Value>(&output.stdout).unwrap()[0].clone()
    };
    let printed = told(&["--install", "zed", "--print"]);
    assert_eq!((&printed["editor"], &printed["would_change"]), (&json!("zed"), &json!(true)));
    assert_eq!(printed["changed"], false);
    assert_eq!(told(&["--install", "zed", "--yes"])["changed"], true);
    assert_eq!(told(&["--install", "zed", "--yes"])["changed"], false);
    assert_eq!(told(&["--uninstall", "zed", "--yes"])["changed"], true);
}

#[test]
fn what_is_left_to_do_by_hand_is_said() {
    let env = TestEnv::new();
    let emacs = env.path("home/.config/emacs");
    fs::create_dir_all(&emacs).unwrap();
    let said = install(&env, "emacs");
    let line = format!("(load {:?})", emacs.join("rethread.el"));
    assert!(said.stderr.contains(&line), "{said}");
    let said = install(&env, "neovim");
    assert!(said.stderr.contains("acp = require(\"rethread\").codecompanion"), "{said}");
    assert!(said.stderr.contains("acp_providers = require(\"rethread\").avante"), "{said}");
    let said = install(&env, "toad");
    assert!(said.stderr.contains("`rethread-toad claude [FOLDER]`"), "{said}");
    assert!(said.stderr.contains("is not on your PATH"), "{said}");
}

#[test]
fn a_store_that_was_named_and_agents_of_ones_own_are_offered_as_they_are() {
    let env = TestEnv::new();
    env.set("agents.mine", "command = [\"codex-acp\", \"--mine\"]");
    let store = "sqlite:/a folder/it's.db";
    let args = ["--install", "zed", "--install", "neovim", "--install", "emacs", "--yes"];
    acp(&env, AGENTS, &[&args[..], &["--store", store]].concat()).succeeded();
    let zed: Value =
        serde_json::from_str(&read(&env.path("home/.config/zed/settings.json"))).unwrap();
    let own = &zed["agent_servers"]["mine (Rethread)"];
    assert_eq!(own["args"], json!(["--store", store, "acp", "mine"]));
    let lua = read(&env.path("home/.config/nvim/lua/rethread.lua"));
    let command = format!("{{ {PROGRAM:?}, \"--store\", {store:?}, \"acp\", \"mine\" }}");
    assert!(lua.contains(&command), "{lua}");
    let elisp = read(&env.path("home/.emacs.d/rethread.el"));
    let command = format!("{PROGRAM:?} \"--store\" {store:?} \"acp\" \"mine\"");
    assert!(elisp.contains(&command), "{elisp}");
}

#[test]
fn toad_is_started_with_the_agent_that_is_named() {
    let env = TestEnv::new();
    let args = ["--install", "toad", "--yes", "--store", "sqlite:/a folder/it's.db"];
    acp(&env, AGENTS, &args).succeeded();
    let script = env.path("home/.local/bin/rethread-toad");
    assert_eq!(mode(&script), 0o755);
    // What Toad is given, word for word; and the command as the shell in it takes it apart.
    let toad = env.path("programs/toad");
    let shows = "#!/bin/sh\nprintf '%s\\n' \"$@\"\neval \"printf '[%s]' $2\"\n";
    fs::write(&toad, shows).unwrap();
    fs::set_permissions(&toad, fs::Permissions::from_mode(0o755)).unwrap();
    let run = |args: &[&str]| {
        let mut command = std::process::Command::new(&script);
        command.args(args).env("PATH", format!("{}:/usr/bin:/bin", env.path("programs").display()));
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, said) = run(&["codex", "/some where"]);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(code, Some(0));
    assert_eq!(lines[0], "acp");
    assert_eq!(
        lines[2..7],
        ["--title", "Codex (Rethread)", "--project-dir", "/some where", "/some where"]
    );
    assert_eq!(lines[7], format!("[{PROGRAM}][--store][sqlite:/a folder/it's.db][acp][codex]"));
    assert_eq!(run(&["gemini"]).0, Some(2));
    assert_eq!(run(&[]).0, Some(2));
}
