//! Having an agent write the plan.

use std::sync::Arc;
use std::time::Duration;

use rethread_domain::session::Beginning;
use rethread_domain::workflow::{TaskSpec, Workflow, brief, plan};
use tokio::sync::{mpsc, watch};

use super::crew::Crew;
use super::drive::Report;
use crate::agents::Talk;
use crate::{Engine, Result};

/// A plan that cannot be used is asked for once more, with what is wrong.
const TRIES: usize = 2;

pub(super) struct Planning {
    pub(super) engine: Engine,
    pub(super) crew: Arc<dyn Crew>,
    pub(super) workflow: Workflow,
    pub(super) stop: watch::Receiver<bool>,
    pub(super) reports: mpsc::UnboundedSender<Report>,
}

impl Planning {
    /// The tasks, or why there are none.
    pub(super) async fn run(self) -> std::result::Result<Vec<TaskSpec>, String> {
        let mut stop = self.stop.clone();
        let is_stopped = async { stop.wait_for(|is_asked| *is_asked).await.is_ok() };
        let mut talk = tokio::select! {
            talk = self.open() => talk.map_err(|error| error.to_string())?,
            _ = is_stopped => return Err("it was asked to stop".to_owned()),
        };
        let planned = self.plan(&mut talk).await;
        drop(talk.end().await);
        planned
    }

    async fn open(&self) -> Result<Talk> {
        let charter = &self.workflow.charter;
        let beginning = Beginning {
            user: charter.user.clone(),
            project: charter.worktree.clone(),
            kind: "plan".to_owned(),
            title: Some(rethread_domain::quote::one_line(&format!("Plan: {}", charter.title), 120)),
            agent: Some(charter.agent.clone()),
            model: None,
            command: None,
            prompt_hash: None,
            tools: self.crew.tools(),
            forked_from: None,
            parent: None,
        };
        let session = self.engine.start(beginning).await?;
        let options = self.crew.options(&self.workflow.charter, &session, &charter.agent).await?;
        Talk::open(&self.engine, options).await
    }

    async fn plan(&self, talk: &mut Talk) -> std::result::Result<Vec<TaskSpec>, String> {
        let mut prompt = brief::plan_brief(&self.workflow);
        let mut wrong = String::new();
        for _ in 0..TRIES {
            let answer = self.say(talk, &prompt).await?;
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

    async fn say(&self, talk: &mut Talk, prompt: &str) -> std::result::Result<String, String> {
        let mut stop = self.stop.clone();
        let reports = self.reports.clone();
        let mut view = |update: &rethread_domain::turn::Update| {
            let update = update.clone();
            drop(reports.send(Report::Update { task: "plan".to_owned(), update }));
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
