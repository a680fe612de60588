//! Has an agent write the plan.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rethread_domain::SessionId;
use rethread_domain::session::Beginning;
use rethread_workflow::{Event, TaskSpec, Used, Workflow, brief, plan};
use tokio::sync::{mpsc, watch};

use super::crew::Crew;
use super::drive::{Driver, Finished, Report};
use super::usage::Watch;
use crate::agents::Talk;
use crate::{Engine, Logged as _, Result};

/// After an unusable plan the agent is asked once more, with what is wrong.
const TRIES: usize = 2;
/// The task id that stands for planning.
pub(super) const PLANNING: &str = "plan";

pub(super) struct Planning {
    pub(super) engine: Engine,
    pub(super) crew: Arc<dyn Crew>,
    pub(super) workflow: Workflow,
    /// What was completed on this project before.
    pub(super) earlier: Arc<Vec<Workflow>>,
    pub(super) stop: watch::Receiver<bool>,
    pub(super) reports: mpsc::UnboundedSender<Report>,
    pub(super) watch: Watch,
}

impl Driver<'_> {
    /// What was completed on this project before.
    pub(super) async fn earlier(&mut self) -> Arc<Vec<Workflow>> {
        if let Some(known) = &self.earlier {
            return Arc::clone(known);
        }
        let is_wanted = self.crew.lesson_tokens() > 0;
        let found = if is_wanted {
            self.engine.earlier_workflows(&self.workflow).await
        } else {
            Vec::new()
        };
        Arc::clone(self.earlier.insert(Arc::new(found)))
    }

    pub(super) async fn start_planning(&mut self) {
        let earlier = self.earlier().await;
        let (stop, stopped) = watch::channel(false);
        self.stops.insert(String::new(), stop);
        self.is_planning = true;
        let planning = Planning {
            engine: self.engine.clone(),
            crew: Arc::clone(&self.crew),
            workflow: self.workflow.clone(),
            earlier,
            stop: stopped,
            reports: self.sender.clone(),
            watch: Watch::default(),
        };
        self.work.push(Box::pin(async {
            let (planned, used) = planning.run().await;
            Finished::Plan(planned, used)
        }));
    }
}

impl Planning {
    /// The tasks, or why there are none; and what was used.
    pub(super) async fn run(mut self) -> (std::result::Result<Vec<TaskSpec>, String>, Used) {
        (self.planned().await, self.watch.used())
    }

    async fn planned(&mut self) -> std::result::Result<Vec<TaskSpec>, String> {
        let mut stop = self.stop.clone();
        let is_stopped = async { stop.wait_for(|is_asked| *is_asked).await.is_ok() };
        let (session, mut talk) = tokio::select! {
            talk = self.open() => talk.map_err(|error| error.to_string())?,
            _ = is_stopped => return Err("it was asked to stop".to_owned()),
        };
        let planned = self.plan(session, &mut talk).await;
        talk.end().await.or_log("a conversation was not ended in good order");
        planned
    }

    async fn open(&self) -> Result<(SessionId, Talk)> {
        let charter = &self.workflow.charter;
        let beginning = Beginning {
            kind: "plan".to_owned(),
            title: Some(rethread_domain::quote::one_line(&format!("Plan: {}", charter.title), 120)),
            agent: Some(charter.agent.clone()),
            tools: self.crew.tools(),
            ..Beginning::new(charter.user.clone(), charter.worktree.clone())
        };
        let session = self.engine.start_titled(beginning).await?;
        let began = Event::SessionBegan { on: PLANNING.to_owned(), session: session.id };
        // The driver only goes away together with this.
        drop(self.reports.send(Report::Became(began)));
        let options = self.crew.options(charter, &session, &charter.agent, None).await?;
        Ok((session.id, Talk::open(&self.engine, options).await?))
    }

    async fn plan(
        &mut self,
        session: SessionId,
        talk: &mut Talk,
    ) -> std::result::Result<Vec<TaskSpec>, String> {
        let issue = &self.workflow.charter.issue;
        let wanted = format!("{}\n{}", issue.title, issue.text);
        let learnt = brief::learnt(&self.earlier, &wanted, self.crew.lesson_tokens());
        let mut prompt = brief::plan_brief(&self.workflow, &learnt);
        let mut wrong = String::new();
        for _ in 0..TRIES {
            let (begun, before) = (Instant::now(), self.engine.counted(session).await);
            let answer = self.say(talk, &prompt).await;
            let counted = self.engine.counted(session).await.saturating_sub(before);
            self.watch.turn_ended(begun.elapsed(), counted);
            let answer = answer?;
            match plan::from_agent(&answer) {
                Ok(plan) => return Ok(plan.tasks),
                Err(problems) => {
                    let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
                    wrong = told.join("; ");
                    prompt =
                        format!("This plan cannot be used: {wrong}. Write it again, all of it.");
                }
            }
        }
        Err(format!("the agent's plan cannot be used: {wrong}"))
    }

    async fn say(&mut self, talk: &mut Talk, prompt: &str) -> std::result::Result<String, String> {
        let mut stop = self.stop.clone();
        let (watch, reports) = (&mut self.watch, self.reports.clone());
        let mut view = |update: &rethread_domain::turn::Update| {
            watch.see(update);
            let update = update.clone();
            // The driver only goes away together with this.
            drop(reports.send(Report::Update { task: PLANNING.to_owned(), update }));
        };
        let is_stopped = async { stop.wait_for(|is_asked| *is_asked).await.is_ok() };
        let most = Duration::from_secs(self.workflow.charter.limits.task_seconds);
        let stopped = async {
            tokio::select! {
                _ = is_stopped => "it was asked to stop",
                () = tokio::time::sleep(most) => "it took too long",
            }
        };
        let answer = talk.say_until(prompt, stopped, &mut view).await?;
        let answer = answer.map_err(|error| error.to_string())?;
        if answer.stop == "end_turn" {
            Ok(answer.answer)
        } else {
            Err(format!("it ended with {}", answer.stop))
        }
    }
}
