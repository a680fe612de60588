//! Events of a workflow in words.

use super::event::{Event, Outcome, Question};
use super::record::{Feedback, TestState};
use rethread_domain::quote::{cut_line, one_line};
use rethread_domain::wording::counted;

impl Event {
    /// What happened, in one line; `None` if it is of no interest by itself.
    pub fn describe(&self) -> Option<String> {
        Some(match self {
            Self::Created(charter) => format!("created: {}", one_line(&charter.title, 100)),
            Self::Planned { tasks } => format!("plan: {}", counted(tasks.len(), "task")),
            Self::Began { .. } => "started".to_owned(),
            Self::Reviewed(feedback) => reviewed(feedback),
            Self::Decided(decision) => {
                format!("decided ({}): {}", decision.kind.as_str(), one_line(&decision.what, 200))
            }
            Self::Erred(error) => {
                format!("error ({}): {}", error.resolution.as_str(), one_line(&error.message, 200))
            }
            Self::PauseAsked { reason, now, .. } => {
                let when = if *now { "at once" } else { "when the running task is done" };
                format!("pausing {when}: {}", one_line(reason, 200))
            }
            Self::Paused(mark) => {
                format!("paused ({}): {}", mark.trigger.as_str(), one_line(&mark.reason, 200))
            }
            Self::Resumed { .. } => "resumed".to_owned(),
            Self::Parked { until } => {
                format!("the limit is lifted at {}", until.strftime("%Y-%m-%d %H:%M UTC"))
            }
            // In full: what is approved has to be seen.
            Self::Asked(question @ Question::Command { .. }) => {
                format!("waits: {}", question.describe())
            }
            Self::Asked(question) => format!("waits: {}", cut_line(&question.describe(), 300)),
            Self::Answered { question, yes, why, by } => {
                answered(question, *yes, why.as_deref(), by.as_deref())
            }
            Self::Completed => "completed".to_owned(),
            Self::Failed { why } => format!("failed: {}", one_line(why, 200)),
            Self::Cancelled { why } => format!("cancelled: {}", one_line(why, 200)),
            Self::Purged { session, message } => {
                format!(
                    "message {message} of session {} was purged, and what quoted it",
                    session.short()
                )
            }
            Self::Addressed { .. }
            | Self::Blocked
            | Self::Unblocked
            | Self::Closed(_)
            | Self::Spent { .. }
            | Self::SessionBegan { .. }
            | Self::Abandoned { .. }
            | Self::Unknown(_) => {
                return None;
            }
            of_task => return of_task.told_of_task(),
        })
    }

    fn told_of_task(&self) -> Option<String> {
        Some(match self {
            Self::TaskBegan { task, attempt, session, agent } => {
                let again =
                    if *attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
                format!("task {task}: {agent} starts in session {}{again}", session.short())
            }
            Self::TaskMoved { task, session, .. } => {
                format!("task {task}: goes on in session {}", session.short())
            }
            Self::TaskEnded(ended) => match &ended.outcome {
                Outcome::Completed => {
                    format!("task {}: done{}", ended.task, tests(ended.tests.as_ref()))
                }
                Outcome::Failed { why } => {
                    format!("task {}: failed: {}", ended.task, one_line(why, 300))
                }
                Outcome::Refused { what } => {
                    let what = one_line(&what.join("; "), 300);
                    format!("task {}: its agent was not allowed to: {what}", ended.task)
                }
                Outcome::Interrupted { why } => {
                    format!("task {}: interrupted: {}", ended.task, one_line(why, 200))
                }
                Outcome::PutOff { why, until } => format!(
                    "task {}: put off until {}: {}",
                    ended.task,
                    until.strftime("%Y-%m-%d %H:%M:%S UTC"),
                    one_line(why, 200)
                ),
            },
            Self::TaskSkipped { task } => format!("task {task}: skipped"),
            Self::TaskRetried { task, agent: None, .. } => format!("retrying task {task}"),
            Self::TaskRetried { task, agent: Some(agent), .. } => {
                format!("retrying task {task} with {agent}")
            }
            Self::TaskMarked { task, state } => {
                format!("task {task}: {} by hand, in the plan", state.as_str().replace('_', " "))
            }
            Self::Rewound { tasks, .. } => {
                format!("to be done again: {}", one_line(&tasks.join(", "), 300))
            }
            Self::Warned { task, context_use } => {
                format!("warning: the context of task {task} is {:.0} % full", context_use * 100.0)
            }
            _ => return None,
        })
    }
}

fn answered(question: &Question, yes: bool, why: Option<&str>, by: Option<&str>) -> String {
    let mut told = String::new();
    if let Question::Gate { task, .. } = question {
        told.push_str(&format!("task {task}: "));
    }
    told.push_str(if yes { "approved" } else { "rejected" });
    if let Some(by) = by {
        told.push_str(&format!(" by {}", one_line(by, 80)));
    }
    if let Some(why) = why.filter(|why| !why.trim().is_empty()) {
        told.push_str(&format!(": {}", one_line(why, 200)));
    }
    told
}

fn reviewed(feedback: &Feedback) -> String {
    let verdict = if feedback.approved { "approves" } else { "does not approve" };
    let comments = one_line(&feedback.comments.join("; "), 200);
    let severity = feedback.severity.as_str();
    format!("task {}: {} {verdict} ({severity}) {comments}", feedback.task, feedback.reviewer)
}

fn tests(tests: Option<&TestState>) -> String {
    match tests {
        None => String::new(),
        Some(tests) if tests.failing.is_empty() => format!(" ({})", tests.phase.as_str()),
        Some(tests) => format!(" ({}: {} failing)", tests.phase.as_str(), tests.failing.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{at, decision};
    use super::*;

    #[test]
    fn events_are_told_in_a_line() {
        let parked = Event::Parked { until: at(0) };
        for (event, told) in [
            (Event::Planned { tasks: Vec::new() }, Some("plan: 0 tasks")),
            (Event::Decided(decision(1)), Some("decided (library): Use library 1")),
            (Event::TaskSkipped { task: "T1".into() }, Some("task T1: skipped")),
            (Event::Cancelled { why: "two\nlines".into() }, Some("cancelled: two lines")),
            (
                Event::Warned { task: "T1".into(), context_use: 0.7 },
                Some("warning: the context of task T1 is 70 % full"),
            ),
            (parked, Some("the limit is lifted at 2027-01-15 08:00 UTC")),
            (Event::Blocked, None),
        ] {
            assert_eq!(event.describe().as_deref(), told);
        }
    }

    #[test]
    fn a_command_is_told_whole_and_cannot_play_tricks() {
        let command = format!("{}\u{1b}[2J", "x".repeat(400));
        let told = Event::Asked(Question::Command { command }).describe().unwrap();
        assert!(told.contains(&"x".repeat(400)) && !told.contains('\u{1b}'));
    }

    #[test]
    fn commands_that_differ_are_told_differently() {
        let told = |command: &str| Question::Command { command: command.to_owned() }.describe();
        let all =
            ["a b", "a\u{202e}b", "a\u{241b}202e;b", "a\nb", "a\r\nb", "a\rb", "a\u{241b}d;b"];
        for (n, one) in all.iter().enumerate() {
            let unsafe_one = told(one).chars().find(|c| rethread_domain::quote::is_unsafe(*c));
            assert_eq!(unsafe_one, None, "{one:?}");
            for other in &all[n + 1..] {
                assert_ne!(told(one), told(other), "{one:?} {other:?}");
            }
        }
    }
}
