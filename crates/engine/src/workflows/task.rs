//! One attempt at a task: a fresh session of an agent, its check, and its review.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use rethread_domain::Session;
use rethread_domain::session::{Beginning, Move};
use rethread_workflow::{
    BriefLimits, Ended, Event, Expect, Feedback, Measure, OnFull, Outcome, Phase, Snapshot, Task,
    TestState, Trigger, Verify, Workflow, brief, verdict,
};
use tokio::sync::{mpsc, watch};

use super::crew::Crew;
use super::drive::Report;
use super::limit::limit_in;
use super::port::ExitReason;
use super::trouble;
use super::usage::Watch;
use crate::agents::{Answer, OpenOptions, Talk, USAGE_LIMIT};
use crate::{Engine, Error, Logged as _};

/// Sent to an agent that continues because another session was full.
const GO_ON: &str = "The context of the session that this was said in was full before the task was done. Look at what \
    is already there, and go on with the task.";

/// Why an attempt was not completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stopped {
    /// On request.
    Asked,
    /// It has to be repeated, and the workflow pauses until then.
    Parked {
        trigger: Trigger,
        why: String,
        until: Option<Timestamp>,
    },
    /// Trouble that passes, by then if that is known.
    Passing {
        why: String,
        over: Option<Timestamp>,
        /// Whether it is a usage limit.
        is_limit: bool,
    },
    /// Its context is full, and its turn did not end.
    Full,
    Failed(String),
}

/// The outcome of an attempt.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) ended: Ended,
    /// Why the workflow is to pause, if it is.
    pub(super) pause: Option<(Trigger, String, Option<Timestamp>)>,
}

pub(super) struct Attempt {
    pub(super) engine: Engine,
    pub(super) crew: Arc<dyn Crew>,
    pub(super) workflow: Workflow,
    pub(super) task: Task,
    /// The number of the attempt.
    pub(super) number: u32,
    pub(super) agent: String,
    pub(super) session: Session,
    pub(super) resumed: Option<Arc<Snapshot>>,
    /// What was completed on this project before.
    pub(super) earlier: Arc<Vec<Workflow>>,
    pub(super) commit_at_start: Option<String>,
    pub(super) reports: mpsc::UnboundedSender<Report>,
    /// Becomes true when it is to stop.
    pub(super) stop: watch::Receiver<bool>,
    pub(super) watch: Watch,
    pub(super) deadline: Instant,
    pub(super) tests: Option<TestState>,
}

impl Attempt {
    pub(super) fn title(&self) -> String {
        format!("{}: {}", self.task.spec.id, self.task.spec.title)
    }

    pub(super) fn failed(&self, error: &Error) -> Stopped {
        let text = error.to_string();
        if let Error::Unanswered { outcome: USAGE_LIMIT, resets_at, .. } = error {
            return Stopped::Passing { why: text, over: *resets_at, is_limit: true };
        }
        match limit_in(&text, self.engine.clock.now()) {
            Some(over) => {
                let why = format!("a usage limit is reached: {text}");
                Stopped::Passing { why, over, is_limit: true }
            }
            None if trouble::passes(error) => {
                Stopped::Passing { why: text, over: None, is_limit: false }
            }
            None => Stopped::Failed(text),
        }
    }

    /// Runs it to its end, whatever that is.
    #[tracing::instrument(
        name = "task",
        skip_all,
        fields(
            workflow = %self.workflow.id,
            task = self.task.spec.id,
            attempt = self.number,
            session = %self.session.id
        )
    )]
    pub(super) async fn run(mut self) -> Done {
        tracing::info!("task begun");
        let outcome = self.work().await;
        let session = self.session.id;
        let asked = if outcome.is_ok() { Move::Complete } else { Move::Pause };
        self.engine.settle_if_fit(session, asked).await;
        match self.engine.extracted(session, &self.task.spec.id, self.crew.as_ref()).await {
            Ok((events, note)) => {
                for event in events {
                    self.report(Report::Became(event));
                }
                if let Some(note) = note {
                    self.report(Report::Note(note));
                }
            }
            Err(error) => self.report(Report::Note(error.to_string())),
        }
        let done = self.done(outcome);
        tracing::info!(outcome = ?done.ended.outcome, "task ended");
        done
    }

    fn done(self, outcome: Result<(), Stopped>) -> Done {
        let used = self.watch.used();
        let limits = &self.workflow.charter.limits;
        let is_full = used.measure != Measure::Estimated
            && limits.on_full == OnFull::Pause
            && used.context_use().is_some_and(|share| share > limits.context);
        let mut pause = is_full.then(|| {
            let share = used.context_use().unwrap_or(1.0) * 100.0;
            let task = &self.task.spec.id;
            (Trigger::Exhaustion, format!("the context of task {task} was {share:.0} % full"), None)
        });
        let outcome = match outcome {
            // Only the agent says that it is done, which is not enough if it was refused something.
            Ok(()) if self.is_unproven() => {
                Outcome::Refused { what: self.watch.refused().to_vec() }
            }
            Ok(()) => Outcome::Completed,
            Err(Stopped::Failed(why)) => Outcome::Failed { why },
            Err(Stopped::Full) => {
                let why = format!("the context of task {} is full", self.task.spec.id);
                pause = Some((Trigger::Exhaustion, why.clone(), None));
                Outcome::Interrupted { why }
            }
            Err(Stopped::Passing { why, over, is_limit }) => {
                let now = self.engine.clock.now();
                match self.workflow.put_off_until(&self.task, over, now) {
                    Some(until) => Outcome::PutOff { why, until },
                    None if is_limit => {
                        pause = Some((Trigger::Exhaustion, why.clone(), over));
                        Outcome::Interrupted { why }
                    }
                    None => Outcome::Failed { why },
                }
            }
            Err(Stopped::Asked) => Outcome::Interrupted { why: "it was asked to stop".to_owned() },
            Err(Stopped::Parked { trigger, why, until }) => {
                pause = Some((trigger, why.clone(), until));
                Outcome::Interrupted { why }
            }
        };
        let (task, attempt) = (self.task.spec.id, self.number);
        Done { ended: Ended { task, attempt, outcome, used, tests: self.tests }, pause }
    }

    /// Whether the agent was refused something, and neither a check nor a review shows that the work is done.
    fn is_unproven(&self) -> bool {
        let spec = &self.task.spec;
        !self.watch.refused().is_empty() && spec.verify.is_none() && spec.review.is_none()
    }

    pub(super) fn report(&self, report: Report) {
        // The driver only goes away together with this.
        drop(self.reports.send(report));
    }

    async fn work(&mut self) -> Result<(), Stopped> {
        let mut talk = self.open().await?;
        let prompt = self.brief().await;
        let outcome = self.rounds(&mut talk, prompt).await;
        talk.end().await.or_log("a conversation was not ended in good order");
        outcome
    }

    async fn brief(&self) -> String {
        let tokens = self.crew.brief_tokens();
        let (workflow, task) = (&self.workflow, &self.task);
        let mut said = self.engine.background(workflow, task, self.session.id, tokens).await;
        let wanted = format!("{}\n{}", task.spec.title, task.spec.body);
        said.extend(brief::learnt(&self.earlier, &wanted, self.crew.lesson_tokens()));
        let (resumed, limits) = (self.resumed.as_deref(), BriefLimits { tokens });
        brief::task_brief(workflow, &task.spec.id, resumed, &said, limits)
    }

    async fn open(&self) -> Result<Talk, Stopped> {
        let (charter, spec) = (&self.workflow.charter, Some(&self.task.spec));
        let options = self.crew.options(charter, &self.session, &self.agent, spec).await;
        let options = options.map_err(|error| self.failed(&error))?;
        self.opened(options).await
    }

    /// Opens a conversation unless asked to stop meanwhile: some agents take long to start.
    pub(super) async fn opened(&self, options: OpenOptions) -> Result<Talk, Stopped> {
        let mut stop = self.stop.clone();
        let is_stopped = async { stop.wait_for(|is_asked| *is_asked).await.is_ok() };
        tokio::select! {
            talk = Talk::open(&self.engine, options) => talk.map_err(|error| self.failed(&error)),
            _ = is_stopped => Err(Stopped::Asked),
        }
    }

    /// Prompts, checks and reviews, as often as is allowed.
    async fn rounds(&mut self, talk: &mut Talk, mut prompt: String) -> Result<(), Stopped> {
        let rounds = self.workflow.charter.limits.rounds;
        let mut open: Vec<Feedback> = Vec::new();
        for round in 0..=rounds {
            self.make_room(talk).await?;
            match self.say(talk, &prompt).await {
                Err(Stopped::Full) if self.workflow.charter.limits.on_full == OnFull::Continue => {
                    self.move_on(talk).await.map_err(|error| self.failed(&error))?;
                    self.say(talk, GO_ON).await?;
                }
                said => drop(said?),
            }
            let wrong = match self.check().await? {
                Some(wrong) => {
                    let tests = self.tests.clone().unwrap_or_default();
                    Some((brief::fix_brief(&self.task, &tests), wrong))
                }
                None => self.reviewed(&mut open).await?,
            };
            let Some((next, wrong)) = wrong else { return Ok(()) };
            if round == rounds {
                return Err(Stopped::Failed(wrong));
            }
            prompt = next;
        }
        Ok(())
    }

    /// The review, if there is to be one: the next prompt, and what is wrong.
    async fn reviewed(
        &mut self,
        open: &mut Vec<Feedback>,
    ) -> Result<Option<(String, String)>, Stopped> {
        let Some(reviewer) = self.task.spec.review.clone() else { return Ok(None) };
        let feedback = self.review(&reviewer).await?;
        self.report(Report::Became(Event::Reviewed(feedback.clone())));
        if feedback.approved {
            for earlier in open.drain(..) {
                self.report(Report::Became(Event::Addressed { feedback: earlier.id }));
            }
            return Ok(None);
        }
        let comments = feedback.comments.join("; ");
        let wrong =
            format!("{reviewer} does not approve it ({}): {comments}", feedback.severity.as_str());
        let next = brief::address_brief(&self.task, &feedback);
        open.push(feedback);
        Ok(Some((next, wrong)))
    }

    /// Leaves a session that is nearly full for a fresh one, which gets a retelling, if the settings want that.
    async fn make_room(&mut self, talk: &mut Talk) -> Result<(), Stopped> {
        let limits = &self.workflow.charter.limits;
        let is_full = self.watch.context_use().is_some_and(|share| share > limits.context);
        if !is_full || limits.on_full != OnFull::Continue {
            return Ok(());
        }
        self.move_on(talk).await.map_err(|error| self.failed(&error))
    }

    /// Continues in a fork: no agent has a native session for it, so it is retold.
    async fn move_on(&mut self, talk: &mut Talk) -> crate::Result<()> {
        let fork = self.engine.fork(self.session.id, None).await?;
        let (charter, spec) = (&self.workflow.charter, Some(&self.task.spec));
        let options = self.crew.options(charter, &fork, &self.agent, spec).await?;
        let left = std::mem::replace(talk, Talk::open(&self.engine, options).await?);
        left.end().await?;
        self.engine.settle_if_fit(self.session.id, Move::Complete).await;
        self.report(Report::Became(Event::TaskMoved {
            task: self.task.spec.id.clone(),
            attempt: self.number,
            session: fork.id,
        }));
        self.session = fork;
        self.watch.forget_context();
        Ok(())
    }

    /// One turn, which ends early on request or on a timeout.
    pub(super) async fn say(&mut self, talk: &mut Talk, prompt: &str) -> Result<Answer, Stopped> {
        let begun = Instant::now();
        let before = self.engine.counted(self.session.id).await;
        let (watch, reports) = (&mut self.watch, self.reports.clone());
        let id = self.task.spec.id.clone();
        let mut view = |update: &rethread_domain::turn::Update| {
            watch.see(update);
            // The driver only goes away together with this.
            drop(reports.send(Report::Update { task: id.clone(), update: update.clone() }));
        };
        let mut stop = self.stop.clone();
        let stopped = async {
            let asked = stop.wait_for(|is_asked| *is_asked);
            tokio::select! {
                _ = asked => Stopped::Asked,
                () = tokio::time::sleep_until(self.deadline.into()) => {
                    let most = self.workflow.seconds_for(&self.task);
                    Stopped::Failed(format!("it took longer than {most} seconds"))
                }
            }
        };
        let outcome = talk.say_until(prompt, stopped, &mut view).await;
        let counted = self.engine.counted(self.session.id).await.saturating_sub(before);
        self.watch.turn_ended(begun.elapsed(), counted);
        self.warn();
        self.judged(outcome?)
    }

    fn judged(&self, outcome: crate::Result<Answer>) -> Result<Answer, Stopped> {
        let answer = outcome.map_err(|error| self.failed(&error))?;
        if let Some(failure) = answer.failure() {
            return Err(self.failed(&failure));
        }
        match answer.stop.as_str() {
            "end_turn" => Ok(answer),
            "cancelled" => {
                let why = format!("session {} was stopped", self.session.id.short());
                Err(Stopped::Parked { trigger: Trigger::Pause, why, until: None })
            }
            "max_tokens" => Err(Stopped::Full),
            other => Err(Stopped::Failed(format!("{} ended its turn with {other}", self.agent))),
        }
    }

    fn warn(&self) {
        let share = self.watch.used().context_use();
        if let Some(context_use) = share.filter(|share| *share >= self.workflow.charter.limits.warn)
        {
            let task = self.task.spec.id.clone();
            self.report(Report::Became(Event::Warned { task, context_use }));
        }
    }

    /// Runs the check; returns what is wrong.
    async fn check(&mut self) -> Result<Option<String>, Stopped> {
        let Some(verify) = &self.task.spec.verify else { return Ok(None) };
        let command = match verify {
            Verify::Named(name) => self.crew.command(name).ok_or_else(|| {
                Stopped::Failed(format!(
                    "there is no command {name:?} under [workflow.commands] in your settings"
                ))
            })?,
            Verify::Text(text) => text.clone(),
        };
        let folder = Path::new(&self.workflow.charter.worktree).to_path_buf();
        let limit = self.deadline.saturating_duration_since(Instant::now());
        let ran = self.crew.checker().check(&command, &folder, limit, self.stop.clone()).await;
        if ran.over == ExitReason::Stopped {
            return Err(Stopped::Asked);
        }
        let mut tests = verdict::read(&ran.output, ran.code, &command);
        tests.at = Some(self.engine.clock.now());
        let wrong = self.wrong(&ran.over, ran.code, &tests);
        self.tests = Some(tests);
        Ok(wrong)
    }

    fn wrong(&self, over: &ExitReason, code: Option<i32>, tests: &TestState) -> Option<String> {
        let command = tests.command.as_deref().unwrap_or("the check");
        match over {
            ExitReason::TimedOut => return Some(format!("`{command}` did not end in time")),
            ExitReason::CannotStart(why) => {
                return Some(format!("`{command}` cannot be run: {why}"));
            }
            // Exit codes of shells for a program that is missing or not executable.
            ExitReason::Finished if matches!(code, Some(126 | 127)) => {
                return Some(format!("`{command}` cannot be run: {}", tests.output.trim()));
            }
            ExitReason::Finished | ExitReason::Stopped => (),
        }
        match (self.task.spec.expect, tests.phase) {
            (Expect::Green, Phase::Green | Phase::Refactor) | (Expect::Red, Phase::Red) => None,
            (Expect::Red, _) => {
                Some(format!("`{command}` passes, but should fail until a later task"))
            }
            (Expect::Green, _) if tests.failing.is_empty() => Some(format!("`{command}` fails")),
            (Expect::Green, _) => Some(format!("`{command}` fails: {}", tests.failing.join(", "))),
        }
    }
}

/// The beginning of the session for an attempt.
pub(super) fn beginning_of(
    workflow: &Workflow,
    task: &Task,
    agent: &str,
    tools: Vec<String>,
) -> Beginning {
    Beginning {
        kind: "task".to_owned(),
        title: Some(title_of(task)),
        agent: Some(agent.to_owned()),
        tools,
        ..Beginning::new(workflow.charter.user.clone(), workflow.charter.worktree.clone())
    }
}

fn title_of(task: &Task) -> String {
    let title = format!("{}: {}", task.spec.id, task.spec.title);
    rethread_domain::quote::one_line(&title, 120)
}
