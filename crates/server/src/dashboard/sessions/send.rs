//! The form that sends a message: whom it can go to, and what stands in it.

use rethread_domain::Session;
use rethread_engine::program::AgentInfo;

use crate::problem::Problem;
use crate::state::App;
use crate::turns::Stands;

/// An agent to talk to.
pub(super) struct Choice {
    pub(super) name: String,
    pub(super) is_chosen: bool,
    pub(super) is_installed: bool,
}

/// Who can go on with a session.
pub(super) struct Speakers {
    /// Who spoke last, or whom it was begun with: who goes on where nobody says otherwise.
    pub(super) last: Option<String>,
    known: Vec<AgentInfo>,
}

impl Speakers {
    pub(super) async fn of(app: &App, session: &Session) -> Result<Self, Problem> {
        let last = app.engine.agent_of(session, None).await?;
        Ok(Self { last, known: app.program.agents()? })
    }

    /// Who is offered: who would go on in a terminal, or the first that is installed.
    fn usual(&self) -> Option<&str> {
        let mut installed = self.known.iter().filter(|agent| agent.is_installed);
        let last = installed.clone().find(|agent| Some(&agent.name) == self.last.as_ref());
        last.or_else(|| installed.next()).map(|agent| agent.name.as_str())
    }

    /// The command that takes the session up in a terminal; it names an agent where the session's own cannot.
    pub(super) fn resume(&self, session: &Session) -> String {
        let command = format!("rethread resume {}", session.id.short());
        match self.usual() {
            Some(usual) if self.last.as_deref() != Some(usual) => {
                format!("{command} --with {usual}")
            }
            _ => command,
        }
    }

    /// Those that are installed, and the session's own.
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

    /// How to get the session's agent, or another one.
    pub(super) fn install(&self) -> Option<&str> {
        let own = self.known.iter().find(|agent| Some(&agent.name) == self.last.as_ref());
        let mut all = own.into_iter().chain(&self.known);
        all.find_map(|agent| agent.install.as_deref())
    }
}

/// What stands in the form: what could not be sent is kept.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) text: String,
    pub(super) agent: Option<String>,
    /// Why it was not sent, and what to do about it.
    pub(super) trouble: Option<String>,
    pub(super) hint: Option<String>,
}

impl Draft {
    /// What was to be said last, where the session does not have it and nobody went on.
    pub(super) fn left(app: &App, session: &Session) -> Self {
        let is_resting = app.turns.running_in(session.id).is_empty();
        let last = app.turns.last_in(session.id).filter(|_| is_resting);
        let Some((turn, text)) = last.and_then(|turn| turn.unsaid().map(|text| (turn, text)))
        else {
            return Self::default();
        };
        let trouble = match turn.stands() {
            Stands::Failed(problem) => app.clean(&problem.detail),
            _ => "it was cancelled".to_owned(),
        };
        Self { text, agent: Some(turn.agent.clone()), trouble: Some(trouble), hint: None }
    }

    /// What was refused just now.
    pub(super) fn refused(text: String, agent: Option<String>, problem: &Problem) -> Self {
        let (trouble, hint) = (Some(problem.detail.clone()), problem.hint.clone());
        Self { text, agent, trouble, hint }
    }
}
