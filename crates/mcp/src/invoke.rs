//! `invoke_agent`: finds or creates the session, and runs one turn in it, up to its output files.

use std::sync::Arc;

use rethread_domain::Session;
use rethread_domain::quote::{cut_line, one_line};
use rethread_domain::session::Beginning;
use rethread_engine::agents::{
    AgentError, Answer, Nobody, OpenOptions, Progress, QueueHead, TurnRequest, WhenBusy,
    check_prompt,
};
use rethread_engine::program::{Choice, may_record};
use rethread_engine::views::OpeningView;
use rethread_engine::{Error, ListFilter, Logged as _};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::error::Failure;
use crate::jobs::{Job, Outcome};
use crate::restrict::Restriction;
use crate::server::{LEFT, ServerState};
use crate::streams::BEHIND;
use crate::views::Invocation;
use crate::watch::{Stop, Watch};

/// How many recent sessions are searched for one of the agent.
const MOST_RECENT: u32 = 50;

/// Which agent to invoke with what, and in which session.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct InvokeArgs {
    /// The agent: one of `list_agents`
    agent_name: String,
    /// What to ask or tell it
    prompt: String,
    /// Continue this session: the sessionId of an earlier invocation
    continue_session_id: Option<String>,
    /// Continue the most recent session of this agent in this project
    #[serde(rename = "continue")]
    go_on: Option<bool>,
    /// Only these tools: kinds (read, edit, execute, fetch, …), names (Bash, Write, …), `mcp__SERVER__TOOL` or `title:TEXT`
    allowed_tools: Option<Vec<String>>,
    /// None of these tools
    disallowed_tools: Option<Vec<String>>,
    /// How often the agent may continue with the results of its tools
    #[schemars(range(min = 1))]
    max_turns: Option<u32>,
    /// The folder that a new session works in; by default the server's
    cwd: Option<String>,
    /// Confirms that the session was held with another agent
    agent_change: Option<bool>,
}

impl InvokeArgs {
    fn check(&self, state: &ServerState) -> Result<Restriction, Failure> {
        check_prompt(&self.prompt)?;
        let most = state.limits.prompt_bytes;
        if self.prompt.len() > most {
            return Err(Failure::new(
                format!("The prompt has {} bytes; at most {most} are allowed", self.prompt.len()),
                "put the long part into a file and name it in the prompt; the setting mcp.max_prompt_bytes allows more",
            ));
        }
        if self.max_turns == Some(0) {
            return Err(Failure::new("maxTurns is 0", "give at least 1, or omit it"));
        }
        if self.continue_session_id.is_some() && self.go_on == Some(true) {
            return Err(Failure::new(
                "continueSessionId and continue are both given",
                "give one: the id of a session, or continue for the most recent one of the agent",
            ));
        }
        state.may_go_deeper()?;
        let (allowed, disallowed) = (self.allowed_tools.clone(), self.disallowed_tools.clone());
        Restriction::parse(&list(allowed), &list(disallowed))
    }
}

fn list(tools: Option<Vec<String>>) -> Vec<String> {
    tools.unwrap_or_default()
}

/// A turn to run.
struct Run {
    state: Arc<ServerState>,
    job: Arc<Job>,
    session: Session,
    is_new: bool,
    choice: Choice,
    max_turns: Option<u32>,
    restriction: Restriction,
    /// The tools, as the caller named them.
    named: (Vec<String>, Vec<String>),
    prompt: String,
}

impl ServerState {
    /// Checks the arguments and starts the invocation.
    pub(crate) async fn invoke(self: &Arc<Self>, args: InvokeArgs) -> Result<Arc<Job>, Failure> {
        let restriction = args.check(self)?;
        self.jobs.may_begin()?;
        let agent = self.known_agent(&args.agent_name, &restriction)?;
        let found = self.continued(&args, &agent).await?;
        let is_new = found.is_none();
        let session = match found {
            Some(session) => session,
            None => self.begin(&args, &agent).await?,
        };
        let job = Job::new(session.id, &agent, !is_new);
        let (allowed, disallowed) = restriction.lists();
        let choice = Choice { agent: Some(agent), allowed, disallowed, ..Choice::default() };
        let state = Arc::clone(self);
        let run = Run {
            state,
            job: Arc::clone(&job),
            session,
            is_new,
            choice,
            max_turns: args.max_turns,
            restriction,
            named: (list(args.allowed_tools), list(args.disallowed_tools)),
            prompt: args.prompt,
        };
        self.jobs.start(&job, run.take_turn());
        Ok(job)
    }

    fn known_agent(&self, name: &str, restriction: &Restriction) -> Result<String, Failure> {
        let all = self.program.agents()?;
        let Some(agent) = all.iter().find(|agent| agent.name == name) else {
            let what = format!("There is no agent {:?}", one_line(name, 60));
            return Err(Failure::new(what, "list_agents lists the agents"));
        };
        if !agent.is_installed {
            let install = agent.install.as_deref().unwrap_or("its command is in the settings");
            let what = format!("The agent {name} is not installed");
            return Err(Failure::new(what, format!("to install it: {install}")));
        }
        if let Some(why) = agent.unrestrictable.as_ref().filter(|_| !restriction.is_empty()) {
            let what = format!("{name} cannot be kept from using tools: {why}");
            return Err(Failure::new(what, "invoke it without restrictions, or another agent"));
        }
        Ok(agent.name.clone())
    }

    /// The session to continue, if one is requested.
    async fn continued(&self, args: &InvokeArgs, agent: &str) -> Result<Option<Session>, Failure> {
        let session = if let Some(given) = &args.continue_session_id {
            self.session(given).await?
        } else if args.go_on == Some(true) {
            self.most_recent(args, agent).await?
        } else {
            return Ok(None);
        };
        session.accepts_messages()?;
        if args.cwd.is_some()
            && self.project(args.cwd.as_deref())? != std::path::Path::new(&session.project)
        {
            return Err(Failure::new(
                format!("Session {} works in {}", session.id, session.project),
                "omit cwd to go on with it",
            ));
        }
        let held = self.engine.agent_of(&session, None).await?;
        match held.filter(|held| held != agent) {
            Some(held) if args.agent_change != Some(true) => Err(Failure::new(
                format!(
                    "Session {} was held with {}, not {agent}",
                    session.id,
                    one_line(&held, 60)
                ),
                "give that agent, or agentChange: true if the change is meant: the new one is told the story so far",
            )),
            _ => Ok(Some(session)),
        }
    }

    async fn most_recent(&self, args: &InvokeArgs, agent: &str) -> Result<Session, Failure> {
        let project = self.project(args.cwd.as_deref())?.to_string_lossy().into_owned();
        let filter = ListFilter {
            user: Some(self.caller.user.clone()),
            project: Some(project),
            agent: Some(agent.to_owned()).filter(|_| args.agent_change != Some(true)),
            limit: MOST_RECENT,
            ..ListFilter::default()
        };
        for session in self.engine.list(&filter).await? {
            if session.accepts_messages().is_err() {
                continue;
            }
            let held = self.engine.agent_of(&session, None).await?;
            if args.agent_change == Some(true) || held.as_deref() == Some(agent) {
                return Ok(session);
            }
        }
        Err(Failure::new(
            format!("There is no session of {agent} in this project to go on with"),
            "omit continue to start one; list_sessions shows the others",
        ))
    }

    async fn begin(&self, args: &InvokeArgs, agent: &str) -> Result<Session, Failure> {
        let folder = self.project(args.cwd.as_deref())?;
        may_record(self.program.as_ref(), &folder)?;
        let beginning = Beginning {
            agent: Some(agent.to_owned()),
            ..self.beginning(folder.to_string_lossy().into_owned())
        };
        Ok(self.engine.start(beginning).await?)
    }
}

impl Run {
    async fn take_turn(self) -> Outcome {
        let runner = &self.state.jobs.runner;
        let outcome = match runner.wait_in_queue(self.session.id, &self.job.cancelled).await {
            Some(place) => self.talk(&place).await,
            None => Err(self.cancelled_early()),
        };
        if self.is_new {
            // Nothing was said, so the session is removed.
            self.state.engine.erase_if_empty(self.session.id).await.or_log(LEFT);
        }
        outcome
    }

    async fn talk(&self, place: &QueueHead<'_>) -> Outcome {
        let (state, id) = (&self.state, self.session.id);
        let program = state.program.as_ref();
        let opening =
            state.engine.open_options(program, &self.session, &self.choice, Arc::new(Nobody));
        let (options, is_native) = Box::pin(opening).await?;
        let log = state.streams.log(id).or_log("the log of a session cannot be written");
        let means = (state.engine.clock(), state.engine.redactor().clone());
        let cancel = self.job.cancelled.clone();
        let mut watch = Watch::new(self.restriction.clone(), self.max_turns, means, log, cancel);
        watch.note("PROMPT", &self.prompt);
        self.note_restriction(&mut watch, is_native);
        let following = state.streams.follow(&state.engine, id).await;
        let answer = self.send(place, options, &mut watch).await;
        drop(following);
        let stop = watch.finish();
        let outcome = self.outcome_of(answer, stop);
        self.file(&mut watch, &outcome).await;
        outcome
    }

    fn note_restriction(&self, watch: &mut Watch, is_native: bool) {
        let (allowed, disallowed) = &self.named;
        if self.restriction.is_empty() {
            watch.note("TOOLS", "allowed: 0 (all); disallowed: 0 (none)");
            return;
        }
        let names = |tools: &[String], none: &str| {
            if tools.is_empty() { none.to_owned() } else { tools.join(", ") }
        };
        let native = if is_native { "told to the agent itself, " } else { "" };
        let text = format!(
            "allowed: {} ({}); disallowed: {} ({}); {native}held where permissions are answered, and by watching",
            allowed.len(),
            names(allowed, "all"),
            disallowed.len(),
            names(disallowed, "none"),
        );
        watch.note("TOOLS", &text);
    }

    fn cancelled_early(&self) -> Failure {
        Failure::new("Cancelled before it began", "invoke_agent starts it again")
            .in_session(self.session.id)
    }

    /// Sends the prompt: here or, if there are no restrictions to enforce, through the process that has the conversation open.
    async fn send(
        &self,
        place: &QueueHead<'_>,
        options: OpenOptions,
        watch: &mut Watch,
    ) -> Result<Answer, Error> {
        let is_free = self.restriction.is_empty() && self.max_turns.is_none();
        let when_busy = if is_free { WhenBusy::Delegate } else { WhenBusy::Wait };
        let request = TurnRequest { options, prompt: self.prompt.clone(), when_busy };
        let mut view = |progress: Progress<'_>| {
            match progress {
                Progress::Opened(opening) => watch.opened(opening),
                Progress::Elsewhere => {
                    watch.note("ELSEWHERE", "another process has it open and sends it");
                }
                Progress::Waiting => {
                    "another process has the conversation open".clone_into(&mut watch.now);
                }
                Progress::Update(update) => watch.take(update),
                Progress::Recorded(_) => (),
            }
            self.job.note(&watch.now);
        };
        place.run(&request, &self.job.cancelled, &mut view).await
    }

    fn outcome_of(&self, answer: Result<Answer, Error>, stop: Option<Stop>) -> Outcome {
        let id = self.session.id;
        if let Some(Stop::Forbidden(tool)) = stop {
            let what =
                format!("The agent used {}, which this invocation forbids", one_line(&tool, 80));
            let hint = "the turn was cancelled; session.log shows what it did; go on without the restriction if the tool is needed";
            return Err(Failure::new(what, hint).in_session(id));
        }
        let answer = match answer {
            Ok(answer) => answer,
            Err(Error::Agent { trouble: AgentError::Cancelled, .. }) => {
                return Err(self.cancelled_early());
            }
            Err(error) => return Err(Failure::from(error).in_session(id)),
        };
        let stop_reason = match stop {
            Some(Stop::TooManyTurns(_)) => "max_turns".to_owned(),
            _ => answer.stop,
        };
        let status = match (stop_reason.as_str(), &answer.error) {
            ("cancelled", _) => "cancelled",
            (_, Some(_)) => "failed",
            _ => "completed",
        };
        Ok(Invocation {
            status: status.to_owned(),
            session_id: id.to_string(),
            agent_name: answer.agent,
            answer: Some(self.state.clean(&answer.answer)),
            stop_reason: Some(stop_reason),
            outcome: Some(answer.outcome),
            error: answer.error.map(|error| self.state.clean(&error)),
            resets_at: answer.resets_at.map(|at| at.to_string()),
            is_session_continuation: !self.is_new,
            opened: Some(OpeningView::from(&answer.opened)),
            handle: None,
            progress: None,
            message_count: Some(answer.upto),
            output_folder: self.state.streams.folder(id).display().to_string(),
        })
    }

    /// Updates the output files. If that fails, the store still has everything.
    async fn file(&self, watch: &mut Watch, outcome: &Outcome) {
        let (state, id) = (&self.state, self.session.id);
        let (ended, text) = match outcome {
            Ok(invoked) => {
                (invoked.stop_reason.clone().unwrap_or_default(), invoked.answer.clone())
            }
            Err(failure) => ("failed".to_owned(), Some(failure.to_string())),
        };
        state.streams.sync(&state.engine, id).await.or_log(BEHIND);
        if let Ok(session) = state.engine.session(id).await {
            let last = text.map(|text| cut_line(&state.clean(&text), 500));
            let more = json!({
                "lastOutcome": ended,
                "lastAnswer": last,
                "isSessionContinuation": !self.is_new,
                "parentSessionId": session.parent,
            });
            state.streams.sum_up(&state.engine, &session, more).or_log(BEHIND);
        }
        let folder = state.streams.folder(id);
        let files =
            format!("conversation.json, session.log and summary.json are in {}", folder.display());
        watch.note("END", &format!("{ended}; {files}"));
    }
}

impl Job {
    /// The state of a running invocation.
    pub(crate) fn running(&self, state: &ServerState) -> Invocation {
        Invocation {
            status: "running".to_owned(),
            session_id: self.session.to_string(),
            agent_name: self.agent.clone(),
            answer: None,
            stop_reason: None,
            outcome: None,
            error: None,
            resets_at: None,
            is_session_continuation: self.is_continuation,
            opened: None,
            handle: Some(self.handle.clone()),
            progress: Some(self.phase.borrow().now.clone()).filter(|now| !now.is_empty()),
            message_count: None,
            output_folder: state.streams.folder(self.session).display().to_string(),
        }
    }
}
