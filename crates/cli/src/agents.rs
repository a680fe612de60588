//! What it takes to open a conversation: an agent's entry, and what the user says on the command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use rethread_acp::{AcpLauncher, Entry, Kept, Shell, ToolServer};
use rethread_domain::opening::{Policy, Settings};
use rethread_domain::{Session, tokens};
use rethread_engine::agents::{Asker, Consent, Holds, OpenOptions, Rules};
use rethread_store::StoreUrl;

use crate::cli::App;
use crate::config;
use crate::error::{BadInput, Refused};
use crate::output;

/// How to talk to an agent.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct How {
    /// The model, by the agent's own name for it
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// A file that is told once in each new session of the agent
    #[arg(long, value_name = "FILE")]
    system_prompt: Option<PathBuf>,
    /// The conversation of the session, or `new`
    #[arg(long, value_name = "NAME|new")]
    conversation: Option<String>,
    /// auto, required (fail rather than retell) or off (always new, told nothing)
    #[arg(long)]
    policy: Option<Policy>,
    /// What the agent may do without being allowed to: ask, allow, deny, or agent (as it is set up itself)
    #[arg(long, value_name = "RULE")]
    permissions: Option<String>,
}

impl How {
    /// As a workflow talks to its agents.
    pub(crate) fn for_workflow(permissions: Option<String>) -> Self {
        Self { permissions, ..Self::default() }
    }

    /// As a door was asked to.
    pub(crate) fn for_door(model: Option<String>, conversation: Option<String>) -> Self {
        Self { model, conversation, ..Self::default() }
    }

    /// Whether anything was said of how to talk, beside in which conversation.
    pub(crate) fn is_particular(&self) -> bool {
        self.model.is_some()
            || self.system_prompt.is_some()
            || self.policy.is_some()
            || self.permissions.is_some()
    }
}

impl App {
    /// The entry of an agent.
    pub(crate) fn agent(&self, name: &str) -> anyhow::Result<Entry> {
        let mut all = self.config.agents()?;
        let near = crate::output::near::near(name, all.keys());
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
        let StoreUrl::Sqlite(store) = &self.url;
        Ok(AcpLauncher {
            warded: vec![config::data_folder()?, std::path::absolute(store)?],
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

    /// The agent that goes on with a session, unless another is asked for.
    pub(crate) async fn agent_of(
        &self,
        session: &Session,
        how: &How,
        asked: Option<&str>,
    ) -> anyhow::Result<String> {
        if let Some(name) = asked {
            return Ok(name.to_owned());
        }
        let agent = self.engine.agent_of(session, how.conversation.as_deref()).await?;
        agent.ok_or_else(|| {
            BadInput::new(
                format!("session {} has no agent yet", session.id.short()),
                "say which one goes on with it: --with AGENT",
            )
            .into()
        })
    }

    /// The rule for permissions, with what has to be set in the agent so that it is kept. A rule that cannot be kept is
    /// refused; where it is only the default, the user is told once.
    fn kept(&self, entry: &mut Entry, how: &How) -> anyhow::Result<(Consent, Holds)> {
        let asked = how.permissions.as_deref().or(entry.permissions.as_deref());
        let bad = |error: anyhow::Error| {
            BadInput::new(error.to_string(), "one of ask, allow, deny, agent")
        };
        let consent = self.config.consent(asked).map_err(bad)?;
        let (name, is_default) = (entry.name.clone(), asked.is_none() && consent == Consent::Ask);
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
            _ => format!("it is not known whether {name} asks before it acts"),
        };
        if is_default || (consent == Consent::Ask && kept == Kept::Unknown) {
            if crate::config::is_news(&format!("permissions of {name}")) {
                output::note(format_args!(
                    "Note: {why}. What it asks is put to you; `rethread agents` shows what can be kept."
                ));
            }
            return Ok((consent, Holds::default()));
        }
        Err(Refused {
            code: "permissions_not_kept",
            message: format!("`--permissions {}` cannot be kept: {why}", consent.name()),
            hint: Some(format!(
                "`--permissions agent` runs it as it is set up itself; `agents.{name}.hold` in the settings says how \
                 the rule is kept, if you know"
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
        let entry = self.agent(agent)?;
        self.options_of(session, entry, how, asker).await
    }

    /// The same, for an agent's entry that was changed for the occasion.
    pub(crate) async fn options_of(
        &self,
        session: &Session,
        mut entry: Entry,
        how: &How,
        asker: Arc<dyn Asker>,
    ) -> anyhow::Result<OpenOptions> {
        let dropped = self.engine.drop_grants_by_title(&entry.name).await?;
        if dropped > 0 {
            output::note(format_args!(
                "{dropped} lasting answers about {} were bound to what it calls its tools, not to what these do. They are \
                 dropped: you will be asked again.",
                entry.name
            ));
        }
        // The tokenizer takes a moment to load: it does so while the agent starts.
        std::thread::spawn(|| tokens::count(""));
        entry.env.extend(config::lineage_of(session));
        let agent = entry.name.clone();
        let named = how.conversation.as_deref();
        let conversation = self.engine.meant_conversation(session.id, named).await?;
        let instructions = self.instructions(session);
        let system_prompt = match &how.system_prompt {
            Some(file) => Some(std::fs::read_to_string(file).map_err(|error| {
                let why = format!("the system prompt {} cannot be read: {error}", file.display());
                BadInput::new(why, "give a file with --system-prompt FILE")
            })?),
            None => instructions.prompt.or_else(|| entry.system_prompt.clone()),
        };
        let (consent, holds) = self.kept(&mut entry, how)?;
        let rules = Rules {
            consent,
            allowed: entry.allowed_tools.clone(),
            disallowed: entry.disallowed_tools.clone(),
            only_allowed: false,
        };
        Ok(OpenOptions {
            session: session.id,
            conversation,
            margin: self.config.margin(Some(&agent)),
            agent,
            system_prompt: system_prompt.filter(|text| !text.trim().is_empty()),
            changed_prompt: instructions.changed.filter(|_| how.system_prompt.is_none()),
            defaults: Settings {
                model: entry.model.clone(),
                mode: entry.mode.clone(),
                options: entry.options.clone(),
            },
            settings: Settings { model: how.model.clone(), ..Settings::default() },
            holds,
            policy: self.config.policy(how.policy)?,
            limits: self.config.limits(),
            max_turn_bytes: self.config.talk.max_turn_bytes,
            rules,
            asker,
            pruning: self.config.pruning(),
            request_id: None,
            launcher: Arc::new(self.launcher(entry)?),
        })
    }
}
