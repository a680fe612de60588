//! Puts the options of an opening together, from the settings of the agent and the choices of the caller.

use std::path::Path;
use std::sync::Arc;

use rethread_domain::opening::Policy;
use rethread_domain::{Session, tokens};
use rethread_workspace::Workspace;

use super::gate::Asker;
use super::open::OpenOptions;
use super::port::Settings;
use super::rules::Consent;
use crate::Engine;
use crate::program::{AgentNeeds, AgentSetup, Fault, Program};

/// The prefix of the command that starts a session of some kind.
pub const KIND_COMMAND: &str = "/workspace.";

/// The option that says how hard a model thinks. Agents call it differently.
pub const EFFORT: &str = "effort";

/// Which agent continues a session, and how.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// By default the agent that answered last.
    pub agent: Option<String>,
    /// By default the most recent conversation. `new` starts another one.
    pub conversation: Option<String>,
    pub model: Option<String>,
    /// How hard the model is to think, in the agent's words.
    pub effort: Option<String>,
    pub mode: Option<String>,
    pub policy: Option<Policy>,
    pub consent: Option<Consent>,
    /// Instead of the rule in the settings.
    pub system_prompt: Option<String>,
    /// Only these tools; all if it is empty.
    pub allowed: Vec<String>,
    pub disallowed: Vec<String>,
    /// Whether it is for a task of a workflow.
    pub for_workflow: bool,
}

/// The prompt of a kind of session.
#[derive(Debug, Default)]
struct Instructions {
    prompt: Option<String>,
    /// The command and the hash of its prompt, if the prompt has changed.
    changed: Option<(String, String)>,
}

impl Engine {
    /// The agent that continues a session, unless another one is chosen.
    pub async fn chosen_agent(&self, session: &Session, choice: &Choice) -> Result<String, Fault> {
        if let Some(name) = &choice.agent {
            return Ok(name.clone());
        }
        let agent = self.agent_of(session, choice.conversation.as_deref()).await?;
        agent.ok_or_else(|| {
            Fault::bad_input(
                format!("session {} has no agent yet", session.id.short()),
                "say which one goes on with it: --with AGENT",
            )
        })
    }

    /// Everything that is needed to open a conversation of a session; and whether the agent itself enforces the tool
    /// restrictions.
    pub async fn open_options(
        &self,
        program: &dyn Program,
        session: &Session,
        choice: &Choice,
        asker: Arc<dyn Asker>,
    ) -> Result<(OpenOptions, bool), Fault> {
        // Loads the tokenizer while the agent starts.
        std::thread::spawn(|| tokens::count(""));
        let agent = self.chosen_agent(session, choice).await?;
        let dropped = self.drop_grants_by_title(&agent).await?;
        if dropped > 0 {
            program.note(&format!(
                "{dropped} lasting answers about {agent} were bound to what it calls its tools, not to what these do. They \
                 are dropped: you will be asked again."
            ));
        }
        let (allowed, disallowed) = (&choice.allowed, &choice.disallowed);
        let needs = AgentNeeds { allowed, disallowed, for_workflow: choice.for_workflow };
        let setup = program.agent(&agent, session, choice.consent, needs)?;
        let AgentSetup { mut rules, defaults, limits, margin, max_turn_bytes, .. } = setup;
        if !allowed.is_empty() {
            rules.allowed.clone_from(allowed);
            rules.only_allowed = true;
        }
        rules.disallowed.extend(disallowed.iter().cloned());
        let named = choice.conversation.as_deref();
        let conversation = self.selected_conversation(session.id, named).await?;
        let instructions = self.instructions(program, session);
        let (prompt, changed) = match &choice.system_prompt {
            Some(prompt) => (Some(prompt.clone()), None),
            None => (instructions.prompt.or(setup.system_prompt), instructions.changed),
        };
        let options = OpenOptions {
            session: session.id,
            conversation,
            agent,
            launcher: setup.launcher,
            own_sessions: setup.own_sessions,
            system_prompt: prompt.filter(|text| !text.trim().is_empty()),
            changed_prompt: changed,
            defaults,
            settings: Settings {
                model: choice.model.clone(),
                mode: choice.mode.clone(),
                options: choice
                    .effort
                    .iter()
                    .map(|wanted| (EFFORT.to_owned(), wanted.clone()))
                    .collect(),
            },
            holds: setup.holds,
            policy: choice.policy.unwrap_or(setup.policy),
            limits,
            max_turn_bytes,
            margin,
            rules,
            asker,
            pruning: setup.pruning,
            request_id: None,
        };
        Ok((options, setup.is_restricted))
    }

    /// The current prompt of the command that the session was started with. Changes are reported.
    fn instructions(&self, program: &dyn Program, session: &Session) -> Instructions {
        let Some(command) = &session.command else { return Instructions::default() };
        let Some(name) = command.strip_prefix(KIND_COMMAND) else {
            return Instructions::default();
        };
        let project = Path::new(&session.project);
        let own = self.workspace().filter(|own| project.starts_with(own.root()));
        let kind = match own {
            Some(own) => own.kind(name),
            None => Workspace::find(project)
                .and_then(|found| found.map_or(Ok(None), |found| found.kind(name))),
        };
        let Ok(Some(kind)) = kind else {
            program.note(&format!(
                "{command} is not there any more: the session goes on without its prompt"
            ));
            return Instructions::default();
        };
        let changed = session.prompt_hash.as_ref().is_some_and(|hash| *hash != kind.hash);
        if changed {
            program.note(&format!(
                "the prompt of {command} has changed since: the current version is used"
            ));
        }
        let changed = changed.then(|| (command.clone(), kind.hash.clone()));
        Instructions { prompt: Some(kind.prompt), changed }
    }
}
