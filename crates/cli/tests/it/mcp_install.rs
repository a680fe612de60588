//! `rethread mcp install`

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::env::{PROGRAM, TestEnv};

const CLIENTS: &[(&str, &str, &str)] = &[
    ("claude", "home/.claude.json", "mcpServers"),
    ("codex", "home/.codex/config.toml", ""),
    ("gemini", "home/.gemini/settings.json", "mcpServers"),
    ("opencode", "home/.config/opencode/opencode.json", "mcp"),
    ("zed", "home/.config/zed/settings.json", "context_servers"),
    ("vscode", "home/.config/Code/User/mcp.json", "servers"),
    ("cursor", "home/.cursor/mcp.json", "mcpServers"),
    ("copilot", "home/.copilot/mcp-config.json", "mcpServers"),
    ("qwen", "home/.qwen/settings.json", "mcpServers"),
    ("kimi", "home/.kimi-code/mcp.json", "mcpServers"),
    ("goose", "home/.agents/plugins/rethread/.mcp.json", "mcpServers"),
    ("vibe", "home/.vibe/config.toml", "list"),
    ("cline", "home/.cline/data/settings/cline_mcp_settings.json", "mcpServers"),
    ("kilo", "home/.config/kilo/kilo.json", "mcp"),
];

/// Without a store of its own in the environment, as users are.
fn install(env: &TestEnv, args: &[&str]) -> crate::env::Output {
    let mut command = env.command(["mcp", "install", "--client"]);
    command.args(args).env_remove("RETHREAD_STORE");
    env.finish(command, b"")
}

#[test]
fn every_client_gets_its_own_configuration_once() {
    let env = TestEnv::new();
    for (client, file, place) in CLIENTS {
        let path = env.path(file);
        let printed = install(&env, &[client, "--print"]).succeeded();
        assert!(printed.text().contains(PROGRAM) && !path.exists(), "{client}: {printed}");
        install(&env, &[client]).succeeded();
        let written = std::fs::read_to_string(&path).unwrap();
        if place.is_empty() {
            assert_eq!(
                written,
                format!("[mcp_servers.rethread]\ncommand = {PROGRAM:?}\nargs = [\"mcp\"]\n")
            );
        } else if *place == "list" {
            assert_eq!(
                written,
                format!(
                    "[[mcp_servers]]\nname = \"rethread\"\ntransport = \"stdio\"\ncommand = {PROGRAM:?}\nargs = [\"mcp\"]\n"
                )
            );
        } else {
            let entry = &serde_json::from_str::<Value>(&written).unwrap()[place]["rethread"];
            let is_whole = matches!(*client, "opencode" | "kilo");
            let command = if is_whole { json!([PROGRAM, "mcp"]) } else { json!(PROGRAM) };
            let entry = if *client == "cline" { &entry["transport"] } else { entry };
            assert_eq!(entry["command"], command, "{client}: {written}");
        }
        let again = install(&env, &[client]).succeeded();
        assert!(again.stderr.contains("already has it"), "{again}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), written);
    }
}

#[test]
fn what_is_there_stays_and_a_copy_is_kept() {
    let env = TestEnv::new();
    let path = env.path("home/.config/zed/settings.json");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let before = "// mine\n{\n    \"theme\": \"One\", // dark\n    \"context_servers\": {\n        \"other\": {\"command\": \"o\"},\n    },\n}\n";
    std::fs::write(&path, before).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let output = install(&env, &["zed"]).succeeded();
    let after = std::fs::read_to_string(&path).unwrap();
    let kept = before.trim_end_matches("    },\n}\n");
    assert!(after.starts_with(kept) && after.ends_with("},\n    },\n}\n"), "{after}");
    assert!(output.text().lines().skip(1).all(|line| line.starts_with("+ ")), "{output}");
    let copy = env.path("home/.config/zed/settings.json.rethread.bak");
    assert_eq!(std::fs::read_to_string(copy).unwrap(), before);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
}

#[test]
fn what_cannot_be_understood_is_left_alone() {
    let env = TestEnv::new();
    let path = env.path("home/.cursor/mcp.json");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    for broken in ["{\n  \"mcpServers\": ", "[]", "{\"mcpServers\": 7}", "{} {}"] {
        std::fs::write(&path, broken).unwrap();
        let output = install(&env, &["cursor"]);
        assert_eq!(output.code, Some(2), "{output}");
        assert!(
            output.stderr.contains("is left as it is")
                && output.stderr.contains("hint: correct the file"),
            "{output}"
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), broken);
    }
    assert_eq!(install(&env, &["emacs"]).code, Some(2));
}

#[test]
fn a_store_that_was_named_is_named_to_the_client() {
    let env = TestEnv::new();
    let output = env.run(["mcp", "install", "--client", "gemini", "--print"]).succeeded();
    assert!(output.text().contains("\"--store\""), "{output}");
}

#[test]
fn comments_are_refused_where_the_client_reads_strict_json() {
    let env = TestEnv::new();
    for (client, file, _) in CLIENTS {
        if !["kimi", "goose", "cline"].contains(client) {
            continue;
        }
        let path = env.path(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let commented = "{\n  // mine\n  \"mcpServers\": {}\n}\n";
        std::fs::write(&path, commented).unwrap();
        let refused = install(&env, &[client]);
        assert_eq!(refused.code, Some(2), "{client}: {refused}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), commented, "{client}");
    }
}

#[test]
fn folders_that_the_clients_are_told_of_are_used() {
    let env = TestEnv::new();
    for (client, variable, file) in [
        ("claude", "CLAUDE_CONFIG_DIR", ".claude.json"),
        ("codex", "CODEX_HOME", "config.toml"),
        ("gemini", "GEMINI_CLI_HOME", ".gemini/settings.json"),
        ("copilot", "COPILOT_HOME", "mcp-config.json"),
        ("qwen", "QWEN_HOME", "settings.json"),
        ("kimi", "KIMI_CODE_HOME", "mcp.json"),
        ("vibe", "VIBE_HOME", "config.toml"),
        ("cline", "CLINE_DATA_DIR", "settings/cline_mcp_settings.json"),
    ] {
        let folder = env.path(client);
        let mut command = env.command(["mcp", "install", "--client", client]);
        command.env(variable, &folder);
        env.finish(command, b"").succeeded();
        assert!(folder.join(file).is_file(), "{client}");
    }
}

#[test]
fn servers_that_a_client_has_in_a_list_stay() {
    let env = TestEnv::new();
    let path = env.path("home/.vibe/config.toml");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let before = "active_model = \"x\" # best\n\n[[mcp_servers]] # mine\nname = \"other\"\ntransport = \"stdio\"\ncommand = \"o\"\n";
    std::fs::write(&path, before).unwrap();
    install(&env, &["vibe"]).succeeded();
    let after = std::fs::read_to_string(&path).unwrap();
    assert!(after.starts_with(before) && after.contains("name = \"rethread\""), "{after}");
}
