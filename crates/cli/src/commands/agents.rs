//! `rethread agents`

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::UNIX_EPOCH;

use rethread_acp::{AcpLauncher, Entry, Kept};
use rethread_domain::wording::counted;
use rethread_engine::agents::{Abilities, AgentError, Consent};
use rethread_engine::views::AgentView;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::choice::confirm;
use crate::cli::App;
use crate::config;
use crate::error::Refused;
use crate::output::{self, table};

/// Show the agents: which are installed, and what they can do
///
/// Each installed agent is started once to ask what it can do; the answer is kept until its program changes. PERMISSIONS
/// lists the rules that can be enforced with it; a question mark means that this is not known.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only this one
    agent: Option<String>,
    /// Ask again
    #[arg(long)]
    probe: bool,
    /// Only whether they are installed: none is started
    #[arg(long, conflicts_with = "probe")]
    quick: bool,
    /// Forget what was allowed or refused for good in this folder
    #[arg(long)]
    forget_permissions: bool,
}

/// What is known of an agent, and of which program.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Known {
    program: String,
    changed: u64,
    abilities: Abilities,
}

enum State {
    Missing,
    /// Its own program is here; what speaks the protocol for it is not.
    WithoutAdapter,
    Installed,
    Known(Abilities),
    Broken(AgentError),
}

impl Args {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        if self.forget_permissions {
            let folder = super::project(None)?;
            let count = app.engine.ungrant(&folder.to_string_lossy()).await?;
            if app.json {
                output::json(&json!({"project": folder, "forgotten": count}));
            } else if count == 0 {
                output::note(format_args!("Nothing to forget in {}.", folder.display()));
            } else {
                let answers = counted(count, "permission answer");
                output::note(format_args!("Forgot {answers} in {}.", folder.display()));
            }
            return Ok(ExitCode::SUCCESS);
        }
        let mut entries = app.config.agents()?;
        if let Some(name) = &self.agent {
            let entry = app.agent(name)?;
            entries = BTreeMap::from([(name.clone(), entry)]);
        }
        let cache = config::data_folder()?.join("agents.json");
        let mut known: BTreeMap<String, Known> = std::fs::read(&cache)
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default();
        // All at once: each takes a second or two to start.
        let looked = entries.into_iter().map(async |(name, entry)| {
            let launcher = app.launcher(entry.clone())?;
            let (mut state, found) = self.look(&launcher, &name, &known).await;
            if matches!(state, State::Missing) && matches!(app.native_program(&entry), Ok(Some(_)))
            {
                state = State::WithoutAdapter;
            }
            anyhow::Ok((name, entry, state, found))
        });
        let mut states = Vec::new();
        let looked = futures::future::try_join_all(looked.collect::<Vec<_>>()).await?;
        for (name, entry, state, found) in looked {
            if let Some(found) = found {
                known.insert(name.clone(), found);
            }
            states.push((name, entry, state));
        }
        // Only saves time: where it cannot be kept, agents are asked again.
        drop(config::replace(&cache, &serde_json::to_string_pretty(&known)?));
        if app.json {
            output::json(&states.iter().map(view).collect::<Vec<_>>());
            return Ok(ExitCode::SUCCESS);
        }
        output::data(&render(&states));
        for (name, entry, _) in
            states.iter().filter(|(_, _, state)| matches!(state, State::WithoutAdapter))
        {
            offer(name, entry)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn look(
        &self,
        launcher: &AcpLauncher,
        name: &str,
        known: &BTreeMap<String, Known>,
    ) -> (State, Option<Known>) {
        let program = match launcher.program() {
            Ok(program) => program,
            Err(AgentError::NotInstalled { .. }) => return (State::Missing, None),
            Err(trouble) => return (State::Broken(trouble), None),
        };
        let changed = std::fs::metadata(&program)
            .and_then(|file| file.modified())
            .map_or(0, |at| at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()));
        let program = program.display().to_string();
        let fresh =
            known.get(name).filter(|known| known.program == program && known.changed == changed);
        if let Some(known) = fresh.filter(|_| !self.probe) {
            return (State::Known(known.abilities.clone()), None);
        }
        if self.quick {
            return (State::Installed, None);
        }
        output::note(format_args!("{}", output::dim(&format!("asking {name} …"))));
        match rethread_acp::probe(launcher, &std::env::temp_dir()).await {
            Ok(abilities) => {
                let found = Known { program, changed, abilities: abilities.clone() };
                (State::Known(abilities), Some(found))
            }
            Err(trouble) => (State::Broken(trouble), None),
        }
    }
}

/// Offers to install what speaks the protocol for an agent that is here: where somebody can be asked, and one command does it.
fn offer(name: &str, entry: &Entry) -> anyhow::Result<()> {
    let Some(install) = entry.install.as_deref().filter(|how| how.starts_with("npm install -g "))
    else {
        return Ok(());
    };
    if install.contains(',')
        || !confirm(&format!("Install the adapter of {name} now ({install})?"))?
    {
        return Ok(());
    }
    let status = std::process::Command::new("sh").args(["-c", install]).status()?;
    if status.success() {
        output::note(format_args!("Installed. `rethread run {name}` talks to it."));
        return Ok(());
    }
    Err(Refused {
        code: "not_installed",
        message: format!("`{install}` failed ({status})"),
        hint: Some("what it says above may tell why".to_owned()),
    }
    .into())
}

fn view((name, entry, state): &(String, Entry, State)) -> serde_json::Value {
    let (abilities, error) = match state {
        State::Known(abilities) => (Some(abilities), None),
        State::Broken(trouble) => (None, Some(trouble.to_string())),
        State::Missing | State::WithoutAdapter | State::Installed => (None, None),
    };
    let view = AgentView {
        name: name.clone(),
        is_installed: !matches!(state, State::Missing | State::WithoutAdapter),
        is_restrictable: entry.unrestrictable().is_none(),
        install: entry.install.clone(),
    };
    let mut value = json!(view);
    value["command"] = json!(entry.command);
    value["abilities"] = json!(abilities);
    value["permissions"] = permissions(entry).map(|(rule, kept)| (rule, json!(kept))).collect();
    value["error"] = json!(error);
    value
}

fn render(states: &[(String, Entry, State)]) -> String {
    let rows = states.iter().map(|(name, entry, state)| {
        let (version, can) = match state {
            State::Missing => {
                let install = entry.install.as_deref().map(|how| format!(": {how}"));
                (String::new(), format!("not installed{}", install.unwrap_or_default()))
            }
            State::WithoutAdapter => {
                let install = entry.install.as_deref().map(|how| format!(": {how}"));
                let what = format!("{name} is installed, its ACP adapter is not");
                (String::new(), format!("{what}{}", install.unwrap_or_default()))
            }
            State::Installed => (String::new(), "installed".to_owned()),
            State::Known(abilities) => {
                (abilities.version.clone().unwrap_or_default(), can(abilities))
            }
            State::Broken(trouble) => {
                (String::new(), format!("error: {}", output::shown(&trouble.to_string(), false)))
            }
        };
        vec![name.clone(), version, rules(entry), can]
    });
    table::folded(&["AGENT", "VERSION", "PERMISSIONS", "CAN"], rows.collect())
}

/// Which rules for permissions can be kept.
fn permissions(entry: &Entry) -> impl Iterator<Item = (String, Kept)> {
    let rules = Consent::ALL.into_iter().filter(|(_, rule)| *rule != Consent::Agent);
    rules.map(|(name, rule)| (name.to_owned(), entry.keeps(rule)))
}

fn rules(entry: &Entry) -> String {
    let told = permissions(entry).filter_map(|(name, kept)| match kept {
        Kept::Yes => Some(name),
        Kept::Unknown => Some(format!("{name}?")),
        Kept::No => None,
    });
    told.collect::<Vec<_>>().join(", ")
}

fn can(abilities: &Abilities) -> String {
    let all = [
        (abilities.resume, "resume"),
        (abilities.load, "load"),
        (abilities.list, "list"),
        (abilities.embedded, "documents"),
    ];
    let can: Vec<&str> = all.iter().filter(|(can, _)| *can).map(|(_, what)| *what).collect();
    if can.is_empty() { "talk".to_owned() } else { can.join(", ") }
}
