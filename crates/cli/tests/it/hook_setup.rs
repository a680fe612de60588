//! `rethread hook install`, `uninstall` and `status`

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::Value;

use crate::env::{PROGRAM, TestEnv};

/// The agents, where each keeps its hooks, and one of its events.
const AGENTS: &[(&str, &str, &str)] = &[
    ("claude", "home/.claude/settings.json", "UserPromptSubmit"),
    ("codex", "home/.codex/hooks.json", "UserPromptSubmit"),
    ("gemini", "home/.gemini/settings.json", "BeforeAgent"),
    ("qwen", "home/.qwen/settings.json", "UserPromptSubmit"),
    ("copilot", "home/.copilot/settings.json", "userPromptSubmitted"),
    ("kimi", "home/.kimi-code/config.toml", "UserPromptSubmit"),
];

/// The file of an agent that has been used here.
fn file(env: &TestEnv, path: &str) -> PathBuf {
    let path = env.path(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    path
}

fn state(env: &TestEnv, agent: &str) -> Value {
    env.json(["hook", "status", agent])[0].clone()
}

#[test]
fn hooks_come_into_each_agents_own_file_and_go_without_a_trace() {
    let env = TestEnv::new();
    for (agent, path, event) in AGENTS {
        let path = file(&env, path);
        assert_eq!(state(&env, agent)["state"], "off", "{agent}");
        let printed = env.run(["hook", "install", agent, "--print"]).succeeded();
        assert!(printed.text().contains(PROGRAM) && !path.exists(), "{agent}: {printed}");
        env.run(["hook", "install", agent, "--yes"]).succeeded();
        let written = fs::read_to_string(&path).unwrap();
        assert!(written.contains(&format!(" hook run {agent} {event}")), "{agent}: {written}");
        assert_eq!(state(&env, agent)["state"], "installed", "{agent}");
        let again = env.run(["hook", "install", agent, "--yes"]).succeeded();
        assert!(again.stderr.contains("nothing to do"), "{agent}: {again}");
        assert_eq!(fs::read_to_string(&path).unwrap(), written, "{agent}");
        env.run(["hook", "uninstall", agent, "--yes"]).succeeded();
        assert!(!path.exists(), "{agent}: there was no file before");
        assert_eq!(state(&env, agent)["state"], "off", "{agent}");
    }
}

#[test]
fn what_is_there_stays_and_comes_back_byte_for_byte() {
    let env = TestEnv::new();
    let path = file(&env, "home/.gemini/settings.json");
    let before = "// mine\r\n{\r\n\t\"hooks\": { \"Stop\": [ {\"hooks\": [{\"type\": \"command\", \"command\": \"say done\"}]} ], },\r\n\t\"model\": \"opus\", // best\r\n}\r\n\r\n";
    fs::write(&path, before).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    env.run(["hook", "install", "gemini", "--yes"]).succeeded();
    let with = fs::read_to_string(&path).unwrap();
    for kept in ["// mine\r\n", "say done", "\"model\": \"opus\", // best\r\n"] {
        assert!(with.contains(kept), "{with}");
    }
    assert!(with.contains("hook run gemini BeforeAgent"), "{with}");
    env.run(["hook", "uninstall", "gemini", "--yes"]).succeeded();
    assert_eq!(fs::read_to_string(&path).unwrap(), before);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
}

#[test]
fn from_a_file_that_has_changed_only_our_entries_go() {
    let env = TestEnv::new();
    let path = file(&env, "home/.claude/settings.json");
    fs::write(&path, "{\n  \"model\": \"opus\"\n}\n").unwrap();
    env.run(["hook", "install", "claude", "--yes"]).succeeded();
    let changed = fs::read_to_string(&path).unwrap().replace("opus", "sonnet");
    fs::write(&path, changed).unwrap();
    env.run(["hook", "uninstall", "claude", "--yes"]).succeeded();
    let left: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(left, serde_json::json!({"model": "sonnet"}));

    let path = file(&env, "home/.kimi-code/config.toml");
    let mine = "[[hooks]] # mine\nevent = \"Stop\"\ncommand = \"say done\"\n";
    fs::write(&path, mine).unwrap();
    env.run(["hook", "install", "kimi", "--yes"]).succeeded();
    let changed = format!("# new\n{}", fs::read_to_string(&path).unwrap());
    fs::write(&path, changed).unwrap();
    env.run(["hook", "uninstall", "kimi", "--yes"]).succeeded();
    assert_eq!(fs::read_to_string(&path).unwrap(), format!("# new\n{mine}"));
}

#[test]
fn what_cannot_be_understood_is_refused_and_left_alone() {
    let env = TestEnv::new();
    let claude = file(&env, "home/.claude/settings.json");
    let gemini = file(&env, "home/.gemini/settings.json");
    for broken in
        ["{\n  \"hooks\": ", "[]", "{\"hooks\": []}", "{\"hooks\": {\"Stop\": {}}}", "{} {}"]
    {
        fs::write(&claude, broken).unwrap();
        let refused = env.run(["hook", "install", "gemini", "claude", "--yes"]);
        assert_eq!(refused.code, Some(2), "{refused}");
        assert!(refused.stderr.contains("is left as it is"), "{refused}");
        assert_eq!(fs::read_to_string(&claude).unwrap(), broken);
        assert!(!gemini.exists(), "nothing is done by halves");
    }
    let kimi = file(&env, "home/.kimi-code/config.toml");
    fs::write(&kimi, "hooks = 7\n").unwrap();
    assert_eq!(env.run(["hook", "install", "kimi", "--yes"]).code, Some(2));
    assert_eq!(fs::read_to_string(&kimi).unwrap(), "hooks = 7\n");
}

#[test]
fn agents_without_hooks_or_that_are_not_there_are_named() {
    let env = TestEnv::new();
    let mut command = env.command(["hook", "install", "claude", "--yes", "--json"]);
    command.env("PATH", env.path("project"));
    let missing = env.finish(command, b"");
    missing.assert_error(1, "not_installed");
    assert!(missing.stderr.contains("Claude Code is not installed"), "{missing}");
    let without = env.run(["hook", "install", "fast-agent", "--yes"]);
    assert_eq!(without.code, Some(2));
    assert!(without.stderr.contains("fast-agent has no hooks"), "{without}");
    for args in [
        &["hook", "install", "emacs", "--yes", "--json"][..],
        &["hook", "status", "emacs", "--json"],
    ] {
        let unknown = env.run(args);
        unknown.assert_error(1, "unknown_agent");
        assert!(unknown.stderr.contains("no agent is called emacs"), "{unknown}");
    }
    file(&env, "home/.claude/settings.json");
    let unasked = env.run(["hook", "install", "claude", "--json"]);
    unasked.assert_error(1, "confirmation_needed");
    assert!(!env.path("home/.claude/settings.json").exists());
}

#[test]
fn trust_in_codex_is_its_users_to_give() {
    let env = TestEnv::new();
    let hooks = file(&env, "home/.codex/hooks.json");
    let settings = env.path("home/.codex/config.toml");
    fs::write(&settings, "model = \"x\"\n").unwrap();
    let installed = env.run(["hook", "install", "codex", "--yes"]).succeeded();
    assert!(installed.stderr.contains("/hooks"), "{installed}");
    assert_eq!(fs::read_to_string(&settings).unwrap(), "model = \"x\"\n");
    assert!(state(&env, "codex")["note"].as_str().unwrap().contains("/hooks"));
    let events = [
        "session_start",
        "user_prompt_submit",
        "post_tool_use",
        "pre_compact",
        "stop",
        "session_end",
    ];
    let mut trusted = String::new();
    for event in events {
        trusted += &format!(
            "[hooks.state.\"{}:{event}:0:0\"]\ntrusted_hash = \"sha256:0\"\n",
            hooks.display()
        );
    }
    fs::write(&settings, trusted).unwrap();
    assert_eq!(state(&env, "codex")["note"], "");
}

#[test]
fn goose_gets_a_plugin_of_its_own_which_goes_whole() {
    let env = TestEnv::new();
    fs::create_dir_all(env.path("home/.config/goose")).unwrap();
    env.run(["hook", "install", "goose", "--yes"]).succeeded();
    let folder = env.path("home/.agents/plugins/rethread");
    let hooks = fs::read_to_string(folder.join("hooks/hooks.json")).unwrap();
    assert!(hooks.contains(" hook run goose UserPromptSubmit"), "{hooks}");
    assert!(fs::read_to_string(folder.join("plugin.json")).unwrap().contains("\"rethread\""));
    env.run(["hook", "uninstall", "goose", "--yes"]).succeeded();
    assert!(!folder.exists());
}

#[test]
fn plugins_are_files_of_their_own_and_never_over_others() {
    let env = TestEnv::new();
    for (agent, path) in [
        ("opencode", "home/.config/opencode/plugin/rethread.js"),
        ("kilo", "home/.config/kilo/plugin/rethread.js"),
        ("pi", "home/.pi/agent/extensions/rethread.ts"),
    ] {
        let path = file(&env, path);
        fs::remove_dir(path.parent().unwrap()).unwrap();
        env.run(["hook", "install", agent, "--yes"]).succeeded();
        let written = fs::read_to_string(&path).unwrap();
        assert!(written.contains(PROGRAM) && written.contains("\"stream\""), "{agent}: {written}");
        assert_eq!(state(&env, agent)["state"], "installed", "{agent}");
        env.run(["hook", "uninstall", agent, "--yes"]).succeeded();
        assert!(!path.parent().unwrap().exists(), "{agent}");
        let path = file(&env, path.strip_prefix(env.root()).unwrap().to_str().unwrap());
        fs::write(&path, "// mine\n").unwrap();
        assert_eq!(env.run(["hook", "install", agent, "--yes"]).code, Some(2), "{agent}");
        env.run(["hook", "uninstall", agent, "--yes"]).succeeded();
        assert_eq!(fs::read_to_string(&path).unwrap(), "// mine\n");
    }
}

#[test]
fn folders_that_were_there_before_stay() {
    let env = TestEnv::new();
    for (agent, path) in [
        ("opencode", "home/.config/opencode/plugin/rethread.js"),
        ("pi", "home/.pi/agent/extensions/rethread.ts"),
    ] {
        let path = file(&env, path);
        env.run(["hook", "install", agent, "--yes"]).succeeded();
        env.run(["hook", "install", agent, "--yes"]).succeeded();
        env.run(["hook", "uninstall", agent, "--yes"]).succeeded();
        assert!(!path.exists() && path.parent().unwrap().is_dir(), "{agent}");
    }
    fs::create_dir_all(env.path("home/.config/goose")).unwrap();
    env.run(["hook", "install", "goose", "--yes"]).succeeded();
    env.run(["hook", "uninstall", "goose", "--yes"]).succeeded();
    assert!(!env.path("home/.agents").exists(), "this one was made for it");
}

#[test]
fn a_link_that_leads_nowhere_stays_a_link() {
    let env = TestEnv::new();
    let path = file(&env, "home/.claude/settings.json");
    std::os::unix::fs::symlink(env.path("gone/settings.json"), &path).unwrap();
    let refused = env.run(["hook", "install", "claude", "--yes"]);
    assert_eq!(refused.code, Some(2), "{refused}");
    assert!(refused.stderr.contains("a link that leads nowhere"), "{refused}");
    assert!(path.is_symlink());
}

#[test]
fn a_program_that_was_moved_takes_the_place_of_the_old_one() {
    let env = TestEnv::new();
    let path = file(&env, "home/.claude/settings.json");
    env.run(["hook", "install", "claude", "--yes"]).succeeded();
    let old = fs::read_to_string(&path).unwrap().replace(PROGRAM, "/gone/rethread");
    fs::write(&path, &old).unwrap();
    env.run(["hook", "install", "claude", "--yes"]).succeeded();
    let new = fs::read_to_string(&path).unwrap();
    assert!(!new.contains("/gone/") && new.matches("hook run claude").count() == 7, "{new}");
}

#[test]
fn a_program_that_is_gone_is_reported_by_status() {
    let env = TestEnv::new();
    let own_files = [
        ("goose", "home/.agents/plugins/rethread/hooks/hooks.json"),
        ("opencode", "home/.config/opencode/plugin/rethread.js"),
        ("pi", "home/.pi/agent/extensions/rethread.ts"),
    ];
    fs::create_dir_all(env.path("home/.config/goose")).unwrap();
    let files = AGENTS.iter().map(|(agent, path, _)| (*agent, *path)).chain(own_files);
    for (agent, path) in files {
        let path = file(&env, path);
        env.run(["hook", "install", agent, "--yes"]).succeeded();
        assert_eq!(state(&env, agent)["state"], "installed", "{agent}");
        let gone = fs::read_to_string(&path).unwrap().replace(PROGRAM, "/gone/rethread");
        fs::write(&path, gone).unwrap();
        let found = state(&env, agent);
        assert_eq!(found["state"], "program_missing", "{agent}: {found}");
        let note = found["note"].as_str().unwrap();
        assert!(note.contains("/gone/rethread does not exist"), "{agent}: {note}");
        assert!(note.contains(&format!("rethread hook install {agent}")), "{agent}: {note}");
        env.run(["hook", "install", agent, "--yes"]).succeeded();
        assert_eq!(state(&env, agent)["state"], "installed", "{agent}");
    }
}

#[test]
fn hooks_that_a_setting_of_the_agent_switches_off_are_not_called_installed() {
    let env = TestEnv::new();
    for (agent, path, off, on) in [
        ("claude", ".claude", r#""disableAllHooks": true"#, r#""disableAllHooks": false"#),
        ("qwen", ".qwen", r#""disableAllHooks": true"#, r#""disableAllHooks": false"#),
        (
            "gemini",
            ".gemini",
            r#""hooksConfig": {"enabled": false}"#,
            r#""hooksConfig": {"enabled": true}"#,
        ),
    ] {
        let path = file(&env, &format!("home/{path}/settings.json"));
        fs::write(&path, format!("{{{off}}}\n")).unwrap();
        let installed = env.run(["hook", "install", agent, "--yes"]).succeeded();
        assert!(
            installed.stderr.contains(&format!("runs no hook while its settings have {off}")),
            "{installed}"
        );
        let found = state(&env, agent);
        assert_eq!(found["state"], "switched_off", "{agent}: {found}");
        assert!(found["note"].as_str().unwrap().contains(off), "{agent}: {found}");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace(off, on)).unwrap();
        assert_eq!(state(&env, agent)["state"], "installed", "{agent}");
    }
}

#[test]
fn comments_are_refused_where_the_agent_reads_strict_json() {
    let env = TestEnv::new();
    for (agent, path) in
        [("claude", "home/.claude/settings.json"), ("codex", "home/.codex/hooks.json")]
    {
        let path = file(&env, path);
        for invalid in ["// mine\n{}\n", "{\"a\": 1,}\n"] {
            fs::write(&path, invalid).unwrap();
            let refused = env.run(["hook", "install", agent, "--yes"]);
            assert_eq!(refused.code, Some(2), "{refused}");
            assert!(refused.stderr.contains("strict JSON, without comments"), "{refused}");
            assert_eq!(fs::read_to_string(&path).unwrap(), invalid);
            assert_eq!(state(&env, agent)["state"], "unreadable");
        }
    }
}

#[test]
fn print_says_for_programs_whether_something_would_change() {
    let env = TestEnv::new();
    let path = file(&env, "home/.claude/settings.json");
    let printed = |command: &str| env.json(["hook", command, "claude", "--print"])[0].clone();
    assert_eq!(printed("install")["would_change"], true);
    assert_eq!(printed("uninstall")["would_change"], false);
    assert!(!path.exists());
    env.run(["hook", "install", "claude", "--yes"]).succeeded();
    assert_eq!(printed("install")["would_change"], false);
    assert_eq!(printed("uninstall")["would_change"], true);
    assert_eq!(printed("uninstall")["changed"], false);
}

#[test]
fn messages_say_what_was_done_and_what_was_not() {
    let env = TestEnv::new();
    let path = file(&env, "home/.claude/settings.json");
    let unasked = env.run(["hook", "install", "claude"]);
    assert_eq!(unasked.code, Some(1), "{unasked}");
    for part in ["nothing was changed", "no terminal to ask on", "`--yes` installs the hooks"] {
        assert!(unasked.stderr.contains(part), "{unasked}");
    }
    assert!(!path.exists());
    let installed = env.run(["hook", "install", "claude", "--yes"]).succeeded();
    assert!(installed.stderr.contains("the hooks are installed"), "{installed}");
    let removed = env.run(["hook", "uninstall", "claude", "--yes"]).succeeded();
    assert!(removed.stderr.contains("the hooks were removed"), "{removed}");
}

#[test]
fn a_new_plugin_is_one_line_unless_it_is_asked_for() {
    let env = TestEnv::new();
    fs::create_dir_all(env.path("home/.config/opencode")).unwrap();
    let printed = env.run(["hook", "install", "opencode", "--print"]).succeeded();
    let lines = printed.text().lines().count() - 1;
    assert!(lines > 50, "{printed}");
    let installed = env.run(["hook", "install", "opencode", "--yes"]).succeeded();
    let path = env.path("home/.config/opencode/plugin/rethread.js");
    assert_eq!(installed.text(), format!("new file {}, {lines} lines\n", path.display()));
    let removed = env.run(["hook", "uninstall", "opencode", "--yes"]).succeeded();
    assert_eq!(removed.text(), format!("remove file {}, {lines} lines\n", path.display()));
}

#[test]
fn status_names_its_columns_and_agents_that_are_not_installed() {
    let env = TestEnv::new();
    let status = |json: &str| {
        let mut command = env.command(["hook", "status", "claude"]);
        command.env("PATH", env.path("project"));
        if !json.is_empty() {
            command.arg(json);
        }
        env.finish(command, b"").succeeded()
    };
    let table = status("");
    let mut lines = table.text().lines();
    let heading: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    assert_eq!(heading, ["AGENT", "HOOKS", "FILE", "NOTE"]);
    assert!(lines.next().unwrap().contains(" agent not installed "), "{table}");
    let rows: Value = serde_json::from_slice(&status("--json").stdout).unwrap();
    assert_eq!(rows[0]["state"], "not_installed");
}

#[test]
fn only_a_plain_file_of_a_sane_size_is_read() {
    let env = TestEnv::new();
    let path = file(&env, "home/.claude/settings.json");
    let is_made = std::process::Command::new("mkfifo").arg(&path).status().unwrap().success();
    assert!(is_made);
    for change in ["install", "uninstall"] {
        let command =
            env.command_by(&["timeout", "20"], ["hook", change, "claude", "--yes", "--json"]);
        env.finish(command, b"").assert_error(2, "bad_input");
    }
    fs::remove_file(&path).unwrap();
    fs::write(&path, format!("{{}}{}", " ".repeat(5 * 1024 * 1024))).unwrap();
    let refused = env.run(["hook", "install", "claude", "--yes"]);
    assert_eq!(refused.code, Some(2), "{refused}");
    assert!(refused.stderr.contains("longer than 4 MiB"), "{refused}");
    assert_eq!(fs::metadata(&path).unwrap().len(), 5 * 1024 * 1024 + 2);
}

#[test]
fn what_a_killed_installation_left_is_taken_away() {
    let env = TestEnv::new();
    let path = file(&env, "home/.claude/settings.json");
    let folder = path.parent().unwrap();
    // No process has such a number: it is beyond what the system gives.
    let dead = folder.join("settings.json.rethread-999999999.part");
    let living = folder.join(format!("settings.json.rethread-{}.part", std::process::id()));
    let others = folder.join("settings.json.rethread-mine.part");
    for change in ["install", "install", "uninstall"] {
        for leftover in [&dead, &living, &others] {
            fs::write(leftover, "{}").unwrap();
        }
        env.run(["hook", change, "claude", "--print"]).succeeded();
        assert!(dead.exists(), "{change} --print changes nothing");
        env.run(["hook", change, "claude", "--yes"]).succeeded();
        assert!(!dead.exists() && living.exists() && others.exists(), "{change}");
    }
}
