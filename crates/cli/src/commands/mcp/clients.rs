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
}

/// How a configuration file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Syntax {
    /// With comments or without.
    Json,
    Toml,
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
            Self::Claude => home.join(".claude.json"),
            Self::Codex => home.join(".codex/config.toml"),
            Self::Gemini => home.join(".gemini/settings.json"),
            Self::Opencode => {
                let commented = config.join("opencode/opencode.jsonc");
                if commented.exists() { commented } else { config.join("opencode/opencode.json") }
            }
            Self::Zed => config.join("zed/settings.json"),
            Self::Vscode => code_folder(home, config).join("User/mcp.json"),
            Self::Cursor => home.join(".cursor/mcp.json"),
        }
    }

    pub(super) const fn syntax(self) -> Syntax {
        match self {
            Self::Codex => Syntax::Toml,
            _ => Syntax::Json,
        }
    }

    /// Where in the file the server stands.
    pub(super) const fn path(self) -> [&'static str; 2] {
        let name = "rethread";
        match self {
            Self::Claude | Self::Gemini | Self::Cursor => ["mcpServers", name],
            Self::Codex => ["mcp_servers", name],
            Self::Opencode => ["mcp", name],
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
            Self::Codex | Self::Gemini | Self::Cursor | Self::Zed => {
                json!({"command": program, "args": args})
            }
            Self::Opencode => {
                let command: Vec<&String> = std::iter::once(program).chain(args).collect();
                json!({"type": "local", "command": command, "enabled": true})
            }
        }
    }
}

fn code_folder(home: &Path, config: &Path) -> PathBuf {
    if cfg!(target_os = "macos") {
        home.join("Library/Application Support/Code")
    } else {
        config.join("Code")
    }
}
