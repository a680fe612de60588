//! What it takes to open a conversation: what the settings say of its agent, and what was asked for.

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
use crate::program::{AgentSetup, Fault, Fitting, Program};

/// How the command of a kind of session begins.
pub const KIND_COMMAND: &str = "/workspace.";

/// Who is to go on with a session, and how.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// Without it: whoever was last talked to.
    pub agent: Option<String>,
    /// Without it: the one that was last spoken in. `new` begins another.
    pub conversation: Option<String>,
    pub model: Option<String>,
    pub policy: Option<Policy>,
    pub consent: Option<Consent>,
    /// In place of the one of the settings.
    pub system_prompt: Option<String>,
    /// Only these tools, unless it is empty.
    pub allowed: Vec<String>,
    pub disallowed: Vec<String>,
    /// Whether it is for a task of a workflow.
    pub for_workflow: bool,
}

/// The prompt that a session goes on with.
#[derive(Debug, Default)]
struct Instructions {
    prompt: Option<String>,
    /// The command and the hash of its prompt, where the prompt is not the one of before.
    changed: Option<(String, String)>,
}

impl Engine {
    /// The agent that goes on with a session, unless another is asked for.
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

    /// Everything that opens a conversation of a session; and whether the agent itself is told which tools it has to do
    /// without.
    pub async fn open_options(
        &self,
        program: &dyn Program,
        session: &Session,
        choice: &Choice,
        asker: Arc<dyn Asker>,
    ) -> Result<(OpenOptions, bool), Fault> {
        // The tokenizer takes a moment to load: it does so while the agent starts.
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
        let fitting = Fitting { allowed, disallowed, for_workflow: choice.for_workflow };
        let setup = program.agent(&agent, session, choice.consent, fitting)?;
        let AgentSetup { mut rules, defaults, limits, margin, max_turn_bytes, .. } = setup;
        if !allowed.is_empty() {
            rules.allowed.clone_from(allowed);
            rules.only_allowed = true;
        }
        rules.disallowed.extend(disallowed.iter().cloned());
        let named = choice.conversation.as_deref();
        let conversation = self.meant_conversation(session.id, named).await?;
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
            system_prompt: prompt.filter(|text| !text.trim().is_empty()),
            changed_prompt: changed,
            defaults,
            settings: Settings { model: choice.model.clone(), ..Settings::default() },
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

    /// The prompt of the command that a session was started with, in its current version. What changed is said.
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
