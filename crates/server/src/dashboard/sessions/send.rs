//! The form that sends a prompt: its choice of agents, and its draft.

use rethread_domain::Session;
use rethread_engine::program::AgentInfo;

use crate::problem::Problem;
use crate::state::App;
use crate::turns::TurnState;

/// An agent that can be chosen.
pub(super) struct Choice {
    pub(super) name: String,
    pub(super) is_chosen: bool,
    pub(super) is_installed: bool,
}

/// The agents that can continue a session.
pub(super) struct Speakers {
    /// The session's agent: the one that answered last, or else the one it was started with.
    pub(super) last: Option<String>,
    known: Vec<AgentInfo>,
}

impl Speakers {
    pub(super) async fn of(app: &App, session: &Session) -> Result<Self, Problem> {
        let last = app.engine.agent_of(session, None).await?;
        Ok(Self { last, known: app.program.agents()? })
    }

    /// The preselected agent: the session's own if it is installed, or else the first that is.
    fn usual(&self) -> Option<&str> {
        let mut installed = self.known.iter().filter(|agent| agent.is_installed);
        let last = installed.clone().find(|agent| Some(&agent.name) == self.last.as_ref());
        last.or_else(|| installed.next()).map(|agent| agent.name.as_str())
    }

    /// The command that resumes the session in a terminal; it names another agent if the session's own is not installed.
    pub(super) fn resume(&self, session: &Session) -> String {
        let command = format!("rethread resume {}", session.id.short());
        match self.usual() {
            Some(usual) if self.last.as_deref() != Some(usual) => {
                format!("{command} --with {usual}")
            }
            _ => command,
        }
    }

    /// The installed agents, and the session's own.
    pub(super) fn choices(&self, chosen: Option<&str>) -> Vec<Choice> {
        let is_installed =
            |name: &&str| self.known.iter().any(|agent| agent.is_installed && agent.name == **name);
        let chosen = chosen.filter(is_installed).or_else(|| self.usual());
        let all = self.known.iter().map(|agent| Choice {
            name: agent.name.clone(),
            is_chosen: chosen == Some(&agent.name),
            is_installed: agent.is_installed,
        });
        let own = |choice: &Choice| self.last.as_ref() == Some(&choice.name);
        all.filter(|choice| choice.is_installed || own(choice)).collect()
    }

    /// How to install the session's agent, or another one.
    pub(super) fn install(&self) -> Option<&str> {
        let own = self.known.iter().find(|agent| Some(&agent.name) == self.last.as_ref());
        let mut all = own.into_iter().chain(&self.known);
        all.find_map(|agent| agent.install.as_deref())
    }
}

/// The content of the form: a prompt that could not be sent is kept.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) text: String,
    pub(super) agent: Option<String>,
    /// Why it was not sent, and what to do.
    pub(super) trouble: Option<String>,
    pub(super) hint: Option<String>,
}

impl Draft {
    /// The prompt of the last turn, if it was not recorded and nothing has happened since.
    pub(super) fn left(app: &App, session: &Session) -> Self {
        let is_resting = app.turns.running_in(session.id).is_empty();
        let last = app.turns.last_in(session.id).filter(|_| is_resting);
        let Some((turn, text)) =
            last.and_then(|turn| turn.unrecorded_prompt().map(|text| (turn, text)))
        else {
            return Self::default();
        };
        let trouble = match turn.state() {
            TurnState::Failed(problem) => app.clean(&problem.detail),
            _ => "it was cancelled".to_owned(),
        };
        Self { text, agent: Some(turn.agent.clone()), trouble: Some(trouble), hint: None }
    }

    /// A prompt that has just been refused.
    pub(super) fn refused(text: String, agent: Option<String>, problem: &Problem) -> Self {
        let (trouble, hint) = (Some(problem.detail.clone()), problem.hint.clone());
        Self { text, agent, trouble, hint }
    }
}
