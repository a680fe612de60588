//! What it takes to open a conversation: an agent's entry, and what the user says on the command line.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use rethread_acp::{AcpLauncher, Entry, Kept, Shell, ToolServer};
use rethread_domain::Session;
use rethread_domain::opening::{Policy, Settings};
use rethread_engine::agents::{AgentError, Asker, Consent, Holds, OpenOptions, OwnSessions, Rules};
use rethread_engine::imports::{AGENTS, AgentFolders};
use rethread_engine::program::{AgentInfo, AgentNeeds, AgentSetup, Choice};
use rethread_engine::workflows::consent_of;
use rethread_store::StoreUrl;

use crate::cli::App;
use crate::config::{self, Config};
use crate::error::{BadInput, Refused};
use crate::output;

/// The name of Rethread's own MCP server.
const SERVER: &str = "rethread";

/// How to talk to an agent.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct How {
    /// The model, by the agent's own name for it
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// The mode, by the agent's own name for it
    #[arg(long)]
    mode: Option<String>,
    /// A file that is told once in each new session of the agent
    #[arg(long, value_name = "FILE")]
    system_prompt: Option<PathBuf>,
    /// The conversation of the session, or `new`
    #[arg(long, value_name = "NAME|new")]
    conversation: Option<String>,
    /// auto, required (fail rather than retell) or off (always new, told nothing)
    #[arg(long)]
    policy: Option<Policy>,
    /// How the agent's permission questions are answered: ask, allow, deny, or agent (as it is set up itself)
    #[arg(long, value_name = "RULE")]
    permissions: Option<String>,
}

impl How {
    /// What was said, as the use cases take it.
    pub(crate) fn choice(&self, agent: Option<&str>) -> anyhow::Result<Choice> {
        let read = |file: &PathBuf| {
            std::fs::read_to_string(file).map_err(|error| {
                let why = format!("the system prompt {} cannot be read: {error}", file.display());
                BadInput::new(why, "give a file with --system-prompt FILE")
            })
        };
        Ok(Choice {
            agent: agent.map(str::to_owned),
            conversation: self.conversation.clone(),
            model: self.model.clone(),
            mode: self.mode.clone(),
            policy: self.policy,
            consent: consent_of(self.permissions.as_deref())?,
            system_prompt: self.system_prompt.as_ref().map(read).transpose()?,
            ..Choice::default()
        })
    }

    /// The same, for another agent: it has other models and modes.
    pub(crate) fn for_another_agent(&self) -> Self {
        Self { model: None, mode: None, ..self.clone() }
    }

    /// Refuses what only Rethread's own window can do.
    pub(crate) fn refuse_for_native(&self) -> anyhow::Result<()> {
        if self.is_particular() {
            let what = "--model, --mode, --system-prompt, --policy and --permissions are for Rethread's own window";
            let hint = "give the agent's own flags after --, as in `rethread resume ID --native -- --model NAME`";
            return Err(BadInput::new(what, hint).into());
        }
        Ok(())
    }

    pub(crate) fn conversation(&self) -> Option<&str> {
        self.conversation.as_deref()
    }

    /// Whether anything was said of how to talk, beside in which conversation.
    pub(crate) fn is_particular(&self) -> bool {
        self.model.is_some()
            || self.mode.is_some()
            || self.system_prompt.is_some()
            || self.policy.is_some()
            || self.permissions.is_some()
    }
}

/// Where an agent keeps its own sessions, by its environment, if their format is known.
fn own_sessions(entry: &Entry) -> anyhow::Result<Option<OwnSessions>> {
    if !AGENTS.contains(&entry.name.as_str()) {
        return Ok(None);
    }
    let mut roots = config::agent_folders()?;
    if let Some(home) = entry.env.get("HOME") {
        roots.home = PathBuf::from(home);
    }
    let own = entry.env.iter().filter(|(name, _)| AgentFolders::VARIABLES.contains(&name.as_str()));
    roots.variables.extend(own.map(|(name, value)| (name.clone(), value.clone())));
    Ok(Some(OwnSessions { agent: entry.name.clone(), roots }))
}

/// The agents whose programs are here.
pub(crate) fn installed(config: &Config) -> anyhow::Result<Vec<Entry>> {
    let (environment, withheld) = config.environment();
    let all = config.agents()?.into_values().filter(|entry| {
        let (entry, environment, withheld) = (entry.clone(), environment.clone(), withheld.clone());
        AcpLauncher { entry, environment, withheld, ..AcpLauncher::default() }.program().is_ok()
    });
    Ok(all.collect())
}

impl App {
    /// The entry of an agent.
    pub(crate) fn agent(&self, name: &str) -> anyhow::Result<Entry> {
        let mut all = self.config.agents()?;
        let near = rethread_domain::near::near(name, all.keys());
        all.remove(name).ok_or_else(|| {
            Refused {
                code: "unknown_agent",
                message: format!(
                    "there is no agent {:?}",
                    name.chars().take(80).collect::<String>()
                ),
                hint: Some(near.map_or_else(
                    || "`rethread agents` lists them; three lines in the settings add one".into(),
                    |near| format!("did you mean `{near}`? `rethread agents` lists all"),
                )),
            }
            .into()
        })
    }

    pub(crate) fn launcher(&self, entry: Entry) -> anyhow::Result<AcpLauncher> {
        let (environment, withheld) = self.config.environment();
        let program = std::env::current_exe()?;
        let servers = self.config.tools().iter().map(|(name, tool)| ToolServer {
            name: name.clone(),
            command: tool.command.clone(),
            env: tool.env.clone(),
        });
        // The user's own come first; one that was added for the occasion does not take their names.
        let added = entry.servers.iter().filter(|one| !self.config.tools().contains_key(&one.name));
        let servers = servers.chain(added.cloned()).collect();
        let entry = Entry { servers, ..entry };
        let mut protected = vec![config::data_folder()?, config::folder()?];
        if let Some(store) = self.url.file() {
            protected.push(std::path::absolute(store)?);
        }
        Ok(AcpLauncher {
            protected,
            entry,
            guard: Some(vec![program.into_os_string(), OsString::from("guard")]),
            environment,
            withheld,
            limits: self.config.agent_limits(),
        })
    }

    /// What runs the checks of workflows.
    pub(crate) fn shell(&self) -> anyhow::Result<Shell> {
        let (environment, withheld) = self.config.environment();
        let program = std::env::current_exe()?;
        Ok(Shell {
            guard: Some(vec![program.into_os_string(), OsString::from("guard")]),
            environment,
            withheld,
        })
    }

    /// The rule for permissions, with what has to be set in the agent so that it is kept. A rule that cannot be kept is
    /// refused; where it is only the default, the user is told once.
    pub(crate) fn kept(
        &self,
        entry: &mut Entry,
        asked: Option<Consent>,
    ) -> anyhow::Result<(Consent, Holds)> {
        let consent = match asked {
            Some(consent) => consent,
            None => self.config.consent(entry.permissions.as_deref())?,
        };
        let is_default = asked.is_none() && entry.permissions.is_none() && consent == Consent::Ask;
        let name = entry.name.clone();
        let kept = entry.keeps(consent);
        if kept == Kept::Yes {
            let holds = entry.hold(consent).map_err(|why| Refused {
                code: "permissions_not_kept",
                message: why,
                hint: Some("`--permissions agent` runs it as it is set up itself".to_owned()),
            })?;
            return Ok((consent, holds));
        }
        let why = match kept {
            Kept::No => format!("{name} acts without asking, and cannot be told to ask"),
            _ => format!("Rethread does not know whether {name} asks before acting"),
        };
        if is_default || (consent == Consent::Ask && kept == Kept::Unknown) {
            if config::is_news(&format!("permissions of {name}")) {
                output::note(format_args!(
                    "Note: {why}. You will see any question it asks; `rethread agents` shows which rules can be enforced."
                ));
            }
            return Ok((consent, Holds::default()));
        }
        Err(Refused {
            code: "permissions_not_kept",
            message: format!("`--permissions {}` cannot be enforced: {why}", consent.name()),
            hint: Some(format!(
                "`--permissions agent` runs it as it is set up itself; `agents.{name}.hold` in the settings says how \
                 the rule can be enforced, if you know"
            )),
        }
        .into())
    }

    /// Everything that an open needs.
    pub(crate) async fn options(
        &self,
        session: &Session,
        agent: &str,
        how: &How,
        asker: Arc<dyn Asker>,
    ) -> anyhow::Result<OpenOptions> {
        let choice = how.choice(Some(agent))?;
        let program = self.program();
        Ok(self.engine.open_options(program.as_ref(), session, &choice, asker).await?.0)
    }

    pub(crate) fn listed(&self) -> anyhow::Result<Vec<AgentInfo>> {
        let agents = self.config.agents()?.into_values().map(|entry| {
            let (name, install) = (entry.name.clone(), entry.install.clone());
            let unrestrictable = entry.unrestrictable().map(str::to_owned);
            let program = self.launcher(entry)?.program();
            let is_installed = !matches!(program, Err(AgentError::NotInstalled { .. }));
            Ok(AgentInfo { name, is_installed, install, unrestrictable })
        });
        agents.collect()
    }

    /// An agent as the settings have it, for a session.
    pub(crate) fn set_up(
        &self,
        mut entry: Entry,
        session: &Session,
        consent: Option<Consent>,
        needs: AgentNeeds<'_>,
    ) -> anyhow::Result<AgentSetup> {
        let config = &self.config;
        let is_restricted = entry.restrict_tools(needs.allowed, needs.disallowed);
        if needs.for_workflow && self.offers_server() {
            entry.servers.push(self.server(session)?);
        }
        entry.env.extend(config::lineage_of(session));
        let (consent, holds) = self.kept(&mut entry, consent)?;
        Ok(AgentSetup {
            own_sessions: own_sessions(&entry)?,
            system_prompt: entry.system_prompt.clone(),
            defaults: Settings {
                model: entry.model.clone(),
                mode: entry.mode.clone(),
                options: entry.options.clone(),
            },
            rules: Rules {
                consent,
                allowed: entry.allowed_tools.clone(),
                disallowed: entry.disallowed_tools.clone(),
                only_allowed: false,
            },
            holds,
            policy: config.policy(None)?,
            limits: config.limits(),
            margin: config.margin(Some(&entry.name)),
            max_turn_bytes: config.talk.max_turn_bytes,
            pruning: config.pruning(),
            is_restricted,
            launcher: Arc::new(self.launcher(entry)?),
        })
    }

    /// Whether agents of workflows are given Rethread's own server: not where the user's own has its name.
    fn offers_server(&self) -> bool {
        self.config.workflow.mcp && !self.config.tools().contains_key(SERVER)
    }

    /// The MCP servers that agents of workflows are given, by name.
    pub(crate) fn tools(&self) -> Vec<String> {
        let own = Some(SERVER.to_owned()).filter(|_| self.offers_server());
        self.config.tools().keys().cloned().chain(own).collect()
    }

    /// This very program on the same store. Not all agents hand on their environment: it is told where it belongs.
    fn server(&self, session: &Session) -> anyhow::Result<ToolServer> {
        let program = std::env::current_exe()?.to_string_lossy().into_owned();
        let mut command = vec![program];
        let mut env: BTreeMap<String, String> = config::lineage_of(session).into_iter().collect();
        match &self.url {
            StoreUrl::Sqlite(path) => {
                let store = StoreUrl::Sqlite(std::path::absolute(path)?).to_string();
                command.extend(["--store".to_owned(), store]);
            }
            // Others can read command lines.
            url @ StoreUrl::Postgres(_) => {
                env.insert(config::STORE_VARIABLE.to_owned(), url.with_password());
            }
        }
        command.extend(["mcp", "--project", &session.project].map(str::to_owned));
        Ok(ToolServer { name: SERVER.to_owned(), command, env })
    }
}
