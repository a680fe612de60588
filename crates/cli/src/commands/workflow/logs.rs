//! `rethread workflow logs`

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use rethread_domain::quote::one_line;
use rethread_domain::{Seq, SessionId};
use rethread_engine::workflows::LiveText;
use rethread_store::Span;
use rethread_workflow::{Event, EventRecord, Status, Workflow, WorkflowId};
use serde_json::json;

use super::{Which, render};
use crate::cli::App;
use crate::output::{self, time};

/// How long a look at what agents say waits at most.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// From so many bytes on a line is shown before it is whole.
const LONG_LINE: usize = 80;
/// Messages that are read at once.
const PAGE: u32 = 100;

/// Show what happened in a workflow, and what its agents said
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
    /// Go on while it runs
    #[arg(long, short)]
    follow: bool,
    /// Only what happened, without what was said
    #[arg(long)]
    events: bool,
}

impl Args {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        let id = self.which.find(app, &[]).await?;
        let mut log = Log {
            app,
            id,
            seen: 0,
            sessions: BTreeMap::new(),
            is_bare: self.events,
            shown: BTreeMap::new(),
        };
        let mut changes = app.engine.changes();
        loop {
            // Read first: what is written until then is shown.
            let workflow = app.engine.workflow(id).await?;
            log.catch_up().await?;
            if !self.follow || workflow.status() != Status::InProgress {
                return Ok(ExitCode::SUCCESS);
            }
            log.saying(&workflow).await?;
            changes.within(LOOK_EVERY).await;
        }
    }
}

/// How much of what is being said is shown as it stands: whole lines, and of a long one whole words.
fn ready(text: &str) -> usize {
    let lines = text.rfind('\n').map_or(0, |at| at + 1);
    let rest = &text[lines..];
    if rest.len() < LONG_LINE { lines } else { lines + rest.rfind(' ').map_or(0, |at| at + 1) }
}

struct Log<'a> {
    app: &'a App,
    id: WorkflowId,
    seen: u32,
    /// Up to which message of each session all was shown, with its task.
    sessions: BTreeMap<SessionId, (String, Seq)>,
    is_bare: bool,
    /// How much of the turn that is under way was shown of each session.
    shown: BTreeMap<SessionId, usize>,
}

impl Log<'_> {
    async fn catch_up(&mut self) -> anyhow::Result<()> {
        for record in self.app.engine.workflow_events(self.id, self.seen).await? {
            // What was said in a task comes before its end.
            if matches!(record.event, Event::TaskEnded(_) | Event::Paused(_)) {
                self.said().await?;
            }
            self.seen = record.no;
            self.event(&record);
            if let Event::TaskBegan { task: on, session, .. }
            | Event::TaskMoved { task: on, session, .. }
            | Event::SessionBegan { on, session } = &record.event
            {
                self.sessions.insert(*session, (on.clone(), 0));
            }
        }
        self.said().await
    }

    fn event(&self, record: &EventRecord) {
        if self.app.json {
            output::json_line(record);
        } else if let Some(line) = render::event(&record.event) {
            output::data(&format!("{} {line}\n", time::minute(record.at)));
        }
    }

    /// Shows what agents say in turns that are under way, as it comes.
    async fn saying(&mut self, workflow: &Workflow) -> anyhow::Result<()> {
        if self.is_bare {
            return Ok(());
        }
        let all = self.app.engine.live_texts(workflow).await?;
        self.shown.retain(|session, _| all.iter().any(|saying| saying.session == *session));
        for LiveText { on, session, text } in &all {
            let shown = self.shown.entry(*session).or_default();
            // Another turn begins anew.
            let new = text.get(*shown..).unwrap_or_else(|| {
                *shown = 0;
                text
            });
            let new = &new[..ready(new)];
            for line in new.lines().filter(|line| !line.trim().is_empty()) {
                if self.app.json {
                    let line = json!({ "what": "saying", "task": on, "session_id": session, "content": line });
                    output::json_line(&line);
                } else {
                    output::data(&format!("      {on} … {}\n", one_line(line, 160)));
                }
            }
            *shown += new.len();
        }
        Ok(())
    }

    async fn said(&mut self) -> anyhow::Result<()> {
        if self.is_bare {
            return Ok(());
        }
        for (session, (task, upto)) in &mut self.sessions {
            loop {
                let messages =
                    self.app.engine.messages(*session, Span::after(*upto + 1, PAGE)).await?;
                let Some(last) = messages.last() else { break };
                let next = last.seq;
                for message in &messages {
                    let text = message.body.head();
                    if self.app.json {
                        output::json_line(
                            &json!({ "what": "said", "task": task, "session_id": session, "seq": message.seq, "role": message.role, "timestamp": message.at, "content": text }),
                        );
                    } else {
                        output::data(&format!(
                            "{} {task} {}: {}\n",
                            time::minute(message.at),
                            message.role,
                            one_line(text, 160)
                        ));
                    }
                }
                *upto = next;
            }
        }
        Ok(())
    }
}
