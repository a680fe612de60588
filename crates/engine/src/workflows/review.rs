//! Reviews of a task by another agent, in a session of its own.

use std::path::Path;

use rethread_domain::Session;
use rethread_domain::session::{Beginning, Move};
use rethread_workflow as workflow;
use rethread_workflow::{Feedback, brief, extract};
use rethread_workspace as workspace;

use super::drive::Report;
use super::task::{Attempt, Stopped};
use crate::Result;

/// The longest diff that a reviewer is shown.
const MOST_DIFF: usize = 60_000;
/// Sent to a reviewer whose answer could not be parsed.
const AGAIN: &str = "Your answer could not be read. Answer with the JSON object alone: \
    {\"approved\": true or false, \"severity\": \"none\", \"minor\", \"major\" or \"critical\", \"comments\": [\"…\"]}";

impl Attempt {
    /// Asks the reviewer; `Err` says why there is no review.
    pub(super) async fn review(
        &mut self,
        reviewer: &str,
    ) -> std::result::Result<Feedback, Stopped> {
        let session = self.begin_review(reviewer).await.map_err(|error| self.failed(&error))?;
        let id = session.id;
        let on = self.task.spec.id.clone();
        self.report(Report::Became(workflow::Event::SessionBegan { on, session: id }));
        // The reviewer's session and its context use are not those of the task.
        let (own, watch) =
            (std::mem::replace(&mut self.session, session), std::mem::take(&mut self.watch));
        let asked = self.ask_reviewer(reviewer).await;
        self.session = own;
        let review = std::mem::replace(&mut self.watch, watch);
        self.watch.take_beside(&review);
        let settled = self.engine.settle_as(id, Move::Complete).await;
        drop(settled);
        let (approved, severity, comments) = asked?;
        Ok(Feedback {
            id: workflow::SnapshotId::generate().to_string(),
            at: self.engine.clock.now(),
            task: self.task.spec.id.clone(),
            reviewer: reviewer.to_owned(),
            approved,
            severity,
            comments,
            addressed: approved,
            session: Some(id),
        })
    }

    async fn begin_review(&self, reviewer: &str) -> Result<Session> {
        let beginning = Beginning {
            kind: "review".to_owned(),
            title: Some(format!("Review of {}", self.title())),
            agent: Some(reviewer.to_owned()),
            ..self.session.beginning(None)
        };
        self.engine.start_titled(beginning).await
    }

    async fn ask_reviewer(
        &mut self,
        reviewer: &str,
    ) -> std::result::Result<(bool, workflow::Severity, Vec<String>), Stopped> {
        let folder = Path::new(&self.workflow.charter.worktree);
        let start = self.commit_at_start.as_deref();
        let diff = start.and_then(|start| workspace::diff(folder, start, MOST_DIFF));
        let prompt = brief::review_brief(&self.workflow, &self.task, diff.as_deref().unwrap_or(""));
        let options =
            self.crew.options(&self.workflow.charter, &self.session, reviewer, None).await;
        let options = options.map_err(|error| self.failed(&error))?;
        let mut talk = self.opened(options).await?;
        let mut outcome = self.say(&mut talk, &prompt).await;
        let mut read = outcome.as_ref().map(|answer| extract::review_from(&answer.answer));
        if let Ok(Err(_)) = read {
            outcome = self.say(&mut talk, AGAIN).await;
            read = outcome.as_ref().map(|answer| extract::review_from(&answer.answer));
        }
        let read = match read {
            Ok(Ok(review)) => Ok(review),
            Ok(Err(why)) => Err(Stopped::Failed(format!("the review cannot be understood: {why}"))),
            Err(stopped) => Err(stopped.clone()),
        };
        talk.end().await.map_err(|error| self.failed(&error))?;
        read
    }
}
