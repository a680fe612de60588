//! `rethread workflow logs`

use std::collections::BTreeMap;
use std::process::ExitCode;

use rethread_domain::quote::one_line;
use rethread_domain::workflow::{Event, EventRecord, Status, WorkflowId};
use rethread_domain::{Seq, SessionId};
use rethread_store::Span;
use serde_json::json;

use super::{Which, told};
use crate::cli::App;
use crate::output::{self, time};

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
            // Asked first: what is written until then is shown.
            let status = app.engine.workflow(id).await?.status;
            log.catch_up().await?;
            if !self.follow || status != Status::InProgress {
                return Ok(ExitCode::SUCCESS);
            }
            log.saying().await?;
            changes.next().await;
        }
    }
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
            if let Event::TaskBegan { task, session, .. } | Event::TaskMoved { task, session, .. } =
                &record.event
            {
                self.sessions.insert(*session, (task.clone(), 0));
            }
        }
        self.said().await
    }

    fn event(&self, record: &EventRecord) {
        if self.app.json {
            output::json_line(record);
        } else if let Some(line) = told::event(&record.event) {
            output::data(&format!("{} {line}\n", time::minute(record.at)));
        }
    }

    /// Shows what agents say in turns that are under way: whole lines, as they come.
    async fn saying(&mut self) -> anyhow::Result<()> {
        if self.is_bare {
            return Ok(());
        }
        for (session, (task, _)) in &self.sessions {
            let shown = self.shown.entry(*session).or_default();
            let Some(text) = self.app.engine.saying(*session).await? else {
                *shown = 0;
                continue;
            };
            let new = text.get(*shown..).unwrap_or_default();
            let Some(end) = new.rfind('\n').map(|at| at + 1) else { continue };
            for line in new[..end].lines().filter(|line| !line.trim().is_empty()) {
                if self.app.json {
                    let line = json!({ "what": "saying", "task": task, "session": session, "content": line });
                    output::json_line(&line);
                } else {
                    output::data(&format!("      {task} … {}\n", one_line(line, 160)));
                }
            }
            *shown += end;
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
                            &json!({ "what": "said", "task": task, "session": session, "seq": message.seq, "role": message.role, "at": message.at, "content": text }),
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
