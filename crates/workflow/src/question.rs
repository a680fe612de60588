//! Questions to a person, and what follows from their answers.

use super::decide::Refusal;
use super::event::{Event, Question};
use super::failure::OnFailure;
use super::state::Workflow;
use super::task::{Approval, Task, TaskState};
use rethread_domain::quote::safe;

/// An answer of a person.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// The task that is meant, where several things are asked.
    pub task: Option<String>,
    pub by: Option<String>,
    pub why: Option<String>,
}

impl Question {
    /// The task that it is about.
    pub fn task(&self) -> Option<&str> {
        match self {
            Self::TaskFailed { task, .. }
            | Self::TaskRefused { task, .. }
            | Self::TaskRemoved { task }
            | Self::Gate { task, .. } => Some(task),
            Self::Plan | Self::Command { .. } => None,
        }
    }

    /// The text of the question. Different questions have different texts; invisible and bidirectional characters are spelled out.
    pub fn describe(&self) -> String {
        match self {
            Self::Plan => "is the plan good?".to_owned(),
            Self::TaskFailed { task, why } => safe(&format!("task {task} failed: {why}")),
            Self::TaskRefused { task, refused } => safe(&format!(
                "task {task} ended, but its agent was not allowed to do this: {}; does it count as done?",
                refused.join("; ")
            )),
            Self::TaskRemoved { task } => {
                safe(&format!("task {task} was taken out of the plan while it ran: does it count?"))
            }
            Self::Gate { task, what } => {
                safe(&format!("task {task} waits for your approval: {what}"))
            }
            Self::Command { command } => {
                format!("allow this command of the plan to run? {}", spelled_out(command))
            }
        }
    }
}

impl Workflow {
    /// The question that an answer is for: about this task, or else the first that can be answered so.
    pub fn question_for(&self, task: Option<&str>, yes: bool) -> Option<Question> {
        let Some(task) = task else {
            let can =
                |question: &&Question| !yes || !matches!(question, Question::TaskFailed { .. });
            return self.questions.iter().find(can).or(self.questions.first()).cloned();
        };
        let open = self.questions.iter().find(|question| question.task() == Some(task));
        // Also ahead of time.
        open.cloned().or_else(|| self.task(task)?.gate().filter(|_| yes))
    }

    /// Whether it was asked whether this task may begin.
    pub(super) fn is_asked(&self, task: &Task) -> bool {
        task.gate().is_some_and(|gate| self.questions.contains(&gate))
    }

    pub(super) fn answered(&self, yes: bool, answer: &Answer) -> Result<Vec<Event>, Refusal> {
        if let Some(task) = &answer.task {
            self.known(task)?;
        }
        let Some(question) = self.question_for(answer.task.as_deref(), yes) else {
            return Err(Refusal::WaitsForNothing(self.id));
        };
        let (why, by) = (answer.why.clone(), answer.by.clone());
        let goes_on = |task: &str| {
            self.task(task).is_some_and(|task| self.on_failure(task) == OnFailure::Continue)
        };
        Ok(match &question {
            Question::TaskFailed { task, .. } if yes => {
                let (task, state) = (task.clone(), TaskState::Failed);
                return Err(Refusal::Task { task, state, wanted: "approved; retry or skip it" });
            }
            Question::TaskFailed { why: reason, .. } => {
                vec![Event::Failed { why: why.unwrap_or_else(|| reason.clone()) }]
            }
            Question::TaskRefused { .. } if !yes => {
                vec![Event::Failed { why: why.unwrap_or_else(|| question.describe()) }]
            }
            Question::Command { command } if !yes => {
                let why = why.unwrap_or_else(|| format!("the command was rejected: {command}"));
                vec![Event::Failed { why }]
            }
            Question::Gate { task, .. } if !yes && !goes_on(task) => {
                let told = why.clone().unwrap_or_else(|| format!("task {task} was not approved"));
                vec![Event::Answered { question, yes, why, by }, Event::Failed { why: told }]
            }
            _ => vec![Event::Answered { question, yes, why, by }],
        })
    }

    /// What an answer changes.
    pub(super) fn answer(&mut self, question: &Question, yes: bool, approval: Approval) {
        self.questions.retain(|known| known != question);
        match question {
            Question::Plan if !yes => {
                self.rejection = Some(approval.why.unwrap_or_default());
                self.tasks.clear();
            }
            Question::Plan => self.rejection = None,
            Question::Gate { task, .. } if yes => {
                if let Some(task) = self.task_mut(task) {
                    task.approval = Some(approval);
                }
            }
            Question::Gate { task, .. } => {
                self.set_task(task, TaskState::Failed);
                if let Some(task) = self.task_mut(task) {
                    let why = approval.why.unwrap_or_default();
                    task.note = Some(format!("it was not approved: {why}"));
                }
            }
            Question::TaskRefused { task, .. } if yes => self.set_task(task, TaskState::Completed),
            Question::TaskRemoved { task } if !yes => {
                // Not forgotten: should it come back, its attempts count on.
                self.set_task(task, TaskState::Skipped);
            }
            _ => (),
        }
    }
}

/// A command in full, with normalised line ends: forms submit their own.
fn spelled_out(command: &str) -> String {
    safe(command).replace('\r', "\u{241b}d;")
}
