//! Where each editor keeps its agents, and what an entry of ours looks like there.

use std::path::{Path, PathBuf};

use rethread_acp::Entry;
use serde_json::{Value, json};

use super::own_files;
use crate::client_files::edit::{self, Problem};
use crate::client_files::plan::{Change, Target};
use crate::config::ClientFolders;
use crate::output;

/// The table of agents in the settings of Zed and of the `JetBrains` programs.
const TABLE: &str = "agent_servers";
/// What the names of our entries end with.
const MARK: &str = " (Rethread)";

/// An editor in which agents can be offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(super) enum Editor {
    Zed,
    Jetbrains,
    Neovim,
    Emacs,
    Toad,
}

/// An agent, as editors show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Offered {
    pub(super) name: String,
    pub(super) title: String,
}

/// What is offered, and how this program is started.
#[derive(Debug)]
pub(super) struct Offer {
    pub(super) program: String,
    pub(super) args: Vec<String>,
    pub(super) agents: Vec<Offered>,
}

/// An editor's configuration, as it is set up here.
pub(super) struct EditorSetup<'a> {
    editor: Editor,
    folders: &'a ClientFolders,
    offer: &'a Offer,
}

impl Offered {
    pub(super) fn new(entry: &Entry) -> Self {
        let title = entry.title.as_ref().unwrap_or(&entry.name);
        Self { name: entry.name.clone(), title: format!("{title}{MARK}") }
    }
}

impl Offer {
    /// The arguments with which an agent is started.
    pub(super) fn args<'a>(&'a self, agent: &'a Offered) -> Vec<&'a str> {
        let own = self.args.iter().map(String::as_str);
        own.chain(["acp", agent.name.as_str()]).collect()
    }

    /// The same, with the program before them.
    pub(super) fn command<'a>(&'a self, agent: &'a Offered) -> Vec<&'a str> {
        std::iter::once(self.program.as_str()).chain(self.args(agent)).collect()
    }
}

impl Editor {
    pub(super) fn setup<'a>(self, folders: &'a ClientFolders, offer: &'a Offer) -> EditorSetup<'a> {
        EditorSetup { editor: self, folders, offer }
    }
}

impl EditorSetup<'_> {
    /// Zed's settings and those of the `JetBrains` programs: a table of agents.
    fn with_agents(&self, text: &str) -> Result<String, Problem> {
        let is_offered = |name: &str| self.offer.agents.iter().any(|agent| agent.title == name);
        let is_over = |name: &str, value: &Value| is_ours(name, value) && !is_offered(name);
        let mut text = edit::remove_json_entries(text, TABLE, &is_over)?;
        for agent in &self.offer.agents {
            let (command, args) = (json!(self.offer.program), json!(self.offer.args(agent)));
            let all = edit::json_value(&text)?;
            let known = all.get(TABLE).and_then(|table| table.get(&agent.title));
            let path = [TABLE, agent.title.as_str()];
            if known.is_some_and(|known| is_ours(&agent.title, known)) {
                // What the user has added to it stays.
                text = edit::set_json(&text, &[path[0], path[1], "command"], &command)?;
                text = edit::set_json(&text, &[path[0], path[1], "args"], &args)?;
            } else if known.is_none() {
                let entry = match self.editor {
                    Editor::Zed => {
                        json!({"type": "custom", "command": command, "args": args, "env": {}})
                    }
                    _ => json!({"command": command, "args": args, "env": {}}),
                };
                text = edit::set_json(&text, &path, &entry)?;
            }
        }
        Ok(text)
    }

    /// What is left to be done by hand, and where the agents are then.
    pub(super) fn tell(&self, change: Change, file: &Path, was_done: bool) {
        let title = self.title();
        if change == Change::Uninstall {
            if !was_done {
                output::note(format_args!("{title}: the entries were removed."));
            }
            return;
        }
        let file = file.display();
        match self.editor {
            Editor::Zed => output::note(format_args!(
                "{title}: the agents are in the menu for new threads of the Agent Panel."
            )),
            Editor::Jetbrains => output::note(format_args!(
                "{title}: the agents are in the AI Chat; restart the IDE if they are not shown."
            )),
            Editor::Neovim => {
                output::note(format_args!("{title}: add the line of your plugin to its setup:"));
                output::note(format_args!(
                    "  CodeCompanion: adapters = {{ acp = require(\"rethread\").codecompanion }},"
                ));
                output::note(format_args!(
                    "  avante: acp_providers = require(\"rethread\").avante,"
                ));
            }
            Editor::Emacs => {
                let file = own_files::elisp_text(&file.to_string());
                output::note(format_args!("{title}: add this line to your init file:"));
                output::note(format_args!("  (load {file})"));
                output::note(format_args!("The agents are then among those of M-x agent-shell."));
            }
            Editor::Toad => {
                let name = self.offer.agents.first().map_or("AGENT", |agent| agent.name.as_str());
                output::note(format_args!(
                    "{title}: start it with an agent by `rethread-toad {name} [FOLDER]`."
                ));
                if !self.folders.has_program("rethread-toad") {
                    output::note(format_args!("note: the folder of {file} is not on your PATH"));
                }
            }
        }
    }
}

/// Whether an entry is one of ours, of whichever program.
fn is_ours(name: &str, entry: &Value) -> bool {
    let args = entry["args"].as_array().map_or(&[][..], Vec::as_slice);
    name.ends_with(MARK) && matches!(args, [.., acp, _] if acp == "acp")
}

impl Target for EditorSetup<'_> {
    fn name(&self) -> &'static str {
        match self.editor {
            Editor::Zed => "zed",
            Editor::Jetbrains => "jetbrains",
            Editor::Neovim => "neovim",
            Editor::Emacs => "emacs",
            Editor::Toad => "toad",
        }
    }

    fn title(&self) -> &'static str {
        match self.editor {
            Editor::Zed => "Zed",
            Editor::Jetbrains => "JetBrains",
            Editor::Neovim => "Neovim",
            Editor::Emacs => "Emacs",
            Editor::Toad => "Toad",
        }
    }

    fn kind(&self) -> &'static str {
        "editor"
    }

    fn kept_in(&self) -> &'static str {
        "editors"
    }

    fn file(&self) -> PathBuf {
        match self.editor {
            Editor::Zed => self.folders.zed_settings(),
            Editor::Jetbrains => self.folders.home.join(".jetbrains/acp.json"),
            Editor::Neovim => self.folders.neovim().join("lua/rethread.lua"),
            Editor::Emacs => self.folders.emacs().join("rethread.el"),
            Editor::Toad => self.folders.home.join(".local/bin/rethread-toad"),
        }
    }

    fn is_own_file(&self) -> bool {
        self.is_own_program()
    }

    fn is_own_program(&self) -> bool {
        matches!(self.editor, Editor::Neovim | Editor::Emacs | Editor::Toad)
    }

    fn mode(&self) -> u32 {
        match self.editor {
            Editor::Toad => 0o755,
            _ => 0o600,
        }
    }

    fn with_entries(&self, _before: &str, now: &str) -> Result<String, Problem> {
        match self.editor {
            Editor::Zed | Editor::Jetbrains => self.with_agents(now),
            Editor::Neovim => Ok(own_files::lua(self.offer)),
            Editor::Emacs => Ok(own_files::elisp(self.offer)),
            Editor::Toad => Ok(own_files::shell(self.offer)),
        }
    }

    fn without_entries(&self, text: &str) -> Result<String, Problem> {
        match self.editor {
            Editor::Zed | Editor::Jetbrains => edit::remove_json_entries(text, TABLE, &is_ours),
            // The file is ours; what others have put in its place is not.
            _ if own_files::is_ours(text) => Ok(String::new()),
            _ => Ok(text.to_owned()),
        }
    }
}
