//! Where each client keeps its servers, and what it wants to know of one.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::config::ClientFolders;

/// A client that can be set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Client {
    Claude,
    Codex,
    Gemini,
    Opencode,
    Zed,
    Vscode,
    Cursor,
    Copilot,
    Qwen,
    Kimi,
    Goose,
    Vibe,
    Cline,
    Kilo,
}

/// How a configuration file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Syntax {
    /// With comments or without.
    Json,
    /// Without: the client reads nothing else.
    StrictJson,
    Toml,
    /// A list of tables, each with its name.
    TomlList,
}

/// How this program is started.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) program: String,
    pub(super) args: Vec<String>,
}

impl Client {
    pub(super) fn file(self, folders: &ClientFolders) -> PathBuf {
        let ClientFolders { home, config, .. } = folders;
        match self {
            Self::Claude => folders.set_or("CLAUDE_CONFIG_DIR", "").join(".claude.json"),
            Self::Codex => folders.codex_settings(),
            Self::Gemini => folders.set_or("GEMINI_CLI_HOME", "").join(".gemini/settings.json"),
            Self::Opencode => with_comments(&config.join("opencode"), "opencode"),
            Self::Zed => folders.zed_settings(),
            Self::Vscode => code_folder(home, config).join("User/mcp.json"),
            Self::Cursor => home.join(".cursor/mcp.json"),
            Self::Copilot => folders.set_or("COPILOT_HOME", ".copilot").join("mcp-config.json"),
            Self::Qwen => folders.set_or("QWEN_HOME", ".qwen").join("settings.json"),
            Self::Kimi => folders.set_or("KIMI_CODE_HOME", ".kimi-code").join("mcp.json"),
            // Its own settings are YAML; the servers of a plugin are JSON.
            Self::Goose => home.join(".agents/plugins/rethread/.mcp.json"),
            Self::Vibe => folders.set_or("VIBE_HOME", ".vibe").join("config.toml"),
            Self::Cline => cline_data(folders).join("settings/cline_mcp_settings.json"),
            Self::Kilo => with_comments(&config.join("kilo"), "kilo"),
        }
    }

    pub(super) const fn syntax(self) -> Syntax {
        match self {
            Self::Codex => Syntax::Toml,
            Self::Vibe => Syntax::TomlList,
            Self::Kimi | Self::Goose | Self::Cline => Syntax::StrictJson,
            _ => Syntax::Json,
        }
    }

    /// Where in the file the server stands.
    pub(super) const fn path(self) -> [&'static str; 2] {
        let name = "rethread";
        match self {
            Self::Claude
            | Self::Gemini
            | Self::Cursor
            | Self::Copilot
            | Self::Qwen
            | Self::Kimi
            | Self::Goose
            | Self::Cline => ["mcpServers", name],
            Self::Codex | Self::Vibe => ["mcp_servers", name],
            Self::Opencode | Self::Kilo => ["mcp", name],
            Self::Zed => ["context_servers", name],
            Self::Vscode => ["servers", name],
        }
    }

    pub(super) fn entry(self, start: &Start) -> Value {
        let Start { program, args } = start;
        match self {
            Self::Claude | Self::Vscode => {
                json!({"type": "stdio", "command": program, "args": args})
            }
            Self::Codex
            | Self::Gemini
            | Self::Cursor
            | Self::Zed
            | Self::Qwen
            | Self::Kimi
            | Self::Goose => {
                json!({"command": program, "args": args})
            }
            Self::Copilot => {
                json!({"type": "local", "command": program, "args": args, "tools": ["*"]})
            }
            Self::Vibe => {
                let name = self.path()[1];
                json!({"name": name, "transport": "stdio", "command": program, "args": args})
            }
            Self::Cline => {
                json!({"transport": {"type": "stdio", "command": program, "args": args}})
            }
            Self::Opencode | Self::Kilo => {
                let command: Vec<&String> = std::iter::once(program).chain(args).collect();
                json!({"type": "local", "command": command, "enabled": true})
            }
        }
    }
}

/// The file that may have comments where it is there, and otherwise the plain one.
fn with_comments(folder: &Path, name: &str) -> PathBuf {
    let commented = folder.join(format!("{name}.jsonc"));
    if commented.exists() { commented } else { folder.join(format!("{name}.json")) }
}

fn cline_data(folders: &ClientFolders) -> PathBuf {
    let data = folders.set("CLINE_DATA_DIR");
    data.unwrap_or_else(|| folders.set_or("CLINE_DIR", ".cline").join("data"))
}

fn code_folder(home: &Path, config: &Path) -> PathBuf {
    if cfg!(target_os = "macos") {
        home.join("Library/Application Support/Code")
    } else {
        config.join("Code")
    }
}
