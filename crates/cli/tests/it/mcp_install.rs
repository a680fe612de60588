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
        } else {
            let entry = &serde_json::from_str::<Value>(&written).unwrap()[place]["rethread"];
            let command =
                if *client == "opencode" { json!([PROGRAM, "mcp"]) } else { json!(PROGRAM) };
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
