//! Purges a message: erases it from everything that is ours, and names what is not ours, with how to remove it there.

use std::io::ErrorKind;

use jiff::Timestamp;
use rethread_domain::opening::Watermark;
use rethread_domain::{Fact, Message, Seq, SessionId, quote, summary};
use rethread_store::{Order, Purging, Span};
use rethread_workflow::{Quoted, WorkflowId};

use crate::{Engine, Error, Result};

/// The result of a purge.
#[derive(Debug, Clone, Default)]
pub struct Purge {
    /// When it was purged before: nothing was left to erase from the log.
    pub purged_before: Option<Timestamp>,
    /// Whether the text has left the store's files; a process that reads an older state keeps it there.
    pub has_left_files: bool,
    /// Whether the files are those of a database server.
    pub is_on_server: bool,
    /// Whether git has the session's folder in its history.
    pub is_in_git: bool,
    /// The native sessions of agents that contain it.
    pub held_by: Vec<Watermark>,
    /// Workflows whose issue or plan quotes some of it.
    pub in_workflows: Vec<WorkflowId>,
    /// Our own files that could not be removed, and why.
    pub left: Vec<String>,
}

impl Purge {
    /// Where the text still is, and how to remove it there, in words.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = vec!["Backups and exports made before still have it.".to_owned()];
        if self.is_in_git {
            remarks.push(
                "Git still has it in earlier commits of its folder. Commit the folder as it is now; to take it out of the history, rewrite that (`git filter-repo --replace-text`), push it, and have others clone anew."
                    .to_owned(),
            );
        }
        remarks.extend(self.held_by.iter().map(kept_by));
        remarks.extend(self.in_workflows.iter().map(|id| {
            let id = id.to_string();
            format!("The issue or the plan of workflow {id} has some of it, in its author's words: change the plan's file, or remove the workflow when it is over (`rethread workflow delete {id}`).")
        }));
        remarks.extend(self.left.iter().cloned());
        if self.is_on_server {
            remarks.push(
                "PostgreSQL may have it in its files until they are written over, and in its write-ahead log and its backups for longer."
                    .to_owned(),
            );
        } else if !self.has_left_files {
            remarks.push(
                "warning: another process reads an older state, so the text is still in the file; the next command after that process has ended takes it out"
                    .to_owned(),
            );
        }
        remarks
    }
}

/// That an agent has the text in its native session, and how to remove that.
fn kept_by(watermark: &Watermark) -> String {
    let (agent, native) = (&watermark.agent, quote::one_line(&watermark.native, 200));
    let how = match agent.as_str() {
        "claude" => format!("delete ~/.claude/projects/*/{native}.jsonl"),
        "codex" => format!("delete ~/.codex/sessions/*/*/*/rollout-*-{native}.jsonl"),
        "gemini" => "delete its file below ~/.gemini/tmp/*/chats".to_owned(),
        "opencode" => format!("`opencode session delete {native}`"),
        "goose" => format!("`goose session remove --id {native}`"),
        _ => "delete that session with the agent's own means".to_owned(),
    };
    format!(
        "{agent} still has it in its own session {native}, and will use it when that is resumed: {how}."
    )
}

impl Engine {
    /// Erases the text of one message everywhere: log, index, summaries, titles, forks, folders, workflows, and output
    /// streams.
    pub async fn purge(&self, id: SessionId, seq: Seq) -> Result<Purge> {
        let span = Span { from: seq, to: seq, order: Order::OldestFirst, limit: 1 };
        let said = self.store.messages(id, span).await?.into_iter().next();
        let said = said.ok_or(Error::NoMessage(id, seq))?;
        let text = said.body.head();
        let mut purge = Purge {
            purged_before: said.purged_at,
            is_in_git: self.is_committed(id).await?,
            held_by: self.held_by(id, &said).await?,
            in_workflows: self.ordered_in(id, seq, text).await?,
            ..Purge::default()
        };
        // Whoever else purges does not mind: each step can be done twice.
        let _alone = self.store.purge_alone().await?;
        let renames = match summary::title(text) {
            Some(title) => self.named_after(id, seq, &title).await?,
            None => Vec::new(),
        };
        let purging = Purging { id, seq, renames };
        self.store.begin_purge(purging.clone(), self.clock.now()).await?;
        (purge.has_left_files, purge.left) = self.finish_purge(purging, true).await?;
        purge.is_on_server = !self.store.has_own_files();
        Ok(purge)
    }

    /// Purges the store and the output streams; the caller has the folder at hand. Returns what could not be removed.
    pub(crate) async fn purge_arrived(
        &self,
        id: SessionId,
        seq: Seq,
        at: Timestamp,
    ) -> Result<Vec<String>> {
        let purging = Purging { id, seq, renames: Vec::new() };
        self.store.begin_purge(purging.clone(), at).await?;
        let has_left = self.store.empty_log(true).await? || !self.store.has_own_files();
        let sharers = self.store.sharers(id, seq).await?;
        let left: Vec<String> =
            sharers.into_iter().filter_map(|sharer| self.forget_files(sharer)).collect();
        if has_left && left.is_empty() {
            self.store.end_purge(purging).await?;
        }
        Ok(left)
    }

    /// What a purge does outside of the store's log. Returns whether the text has left the store's files, and what could not be
    /// removed; the purge has ended if nothing is left.
    async fn finish_purge(
        &self,
        purging: Purging,
        is_patient: bool,
    ) -> Result<(bool, Vec<String>)> {
        let mut has_left = self.store.empty_log(is_patient).await?;
        let sharers = self.store.sharers(purging.id, purging.seq).await?;
        let left: Vec<String> =
            sharers.iter().filter_map(|sharer| self.forget_files(*sharer)).collect();
        if self.purge_folders(&sharers, &purging.renames).await? {
            // The folder's former name was in the store.
            has_left = self.store.empty_log(is_patient).await?;
        }
        if (has_left || !self.store.has_own_files()) && left.is_empty() {
            self.store.end_purge(purging).await?;
        }
        Ok((has_left, left))
    }

    /// Finishes purges that were cut off; returns those that are finished now. What cannot be finished now is tried again.
    pub async fn finish_purges(&self) -> Result<Vec<(SessionId, Seq)>> {
        let begun = self.store.purges_begun().await?;
        if begun.is_empty() {
            return Ok(Vec::new());
        }
        let Some(_alone) = self.store.purge_alone().await? else { return Ok(Vec::new()) };
        let mut finished = Vec::new();
        // Somebody may have finished them meanwhile.
        for purging in self.store.purges_begun().await? {
            let (id, seq) = (purging.id, purging.seq);
            match Box::pin(self.finish_purge(purging.clone(), false)).await {
                Ok((has_left, left))
                    if (has_left || !self.store.has_own_files()) && left.is_empty() =>
                {
                    finished.push((id, seq));
                }
                Ok(_) => (),
                // The session was erased since.
                Err(Error::NotFound(_) | Error::NoMessage(..)) => {
                    self.store.end_purge(purging).await?;
                }
                // It must not stand in the way of everything else.
                Err(error) => tracing::warn!(%id, seq, %error, "a purge could not be finished"),
            }
        }
        Ok(finished)
    }

    /// Removes the output stream of a session; returns a message if that fails.
    pub(crate) fn forget_files(&self, id: SessionId) -> Option<String> {
        let folder = self.output_streams.as_ref()?.join(id.to_string());
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Some(format!("{} could not be removed: {error}", folder.display()))
            }
            _ => None,
        }
    }

    /// The native sessions that hold a message: those of its conversation, here and in forks that share it.
    async fn held_by(&self, id: SessionId, said: &Message) -> Result<Vec<Watermark>> {
        let mut held: Vec<Watermark> = Vec::new();
        for sharer in self.store.sharers(id, said.seq).await? {
            for record in self.store.facts(sharer).await? {
                let Fact::Holds(watermark) = record.fact else { continue };
                let is_listed = held
                    .iter()
                    .any(|one| (&one.agent, &one.native) == (&watermark.agent, &watermark.native));
                if watermark.holds(&said.conversation, said.seq) && !is_listed {
                    held.push(watermark);
                }
            }
        }
        Ok(held)
    }

    /// The workflow that a session works for, if the message repeats its order.
    async fn ordered_in(&self, id: SessionId, seq: Seq, text: &str) -> Result<Vec<WorkflowId>> {
        let Some((workflow, _)) = self.store.workflow_of(id).await? else { return Ok(Vec::new()) };
        // A workflow that cannot be read must not prevent a purge.
        let Ok(workflow) = self.store.workflow(workflow).await else { return Ok(Vec::new()) };
        let sessions = [id];
        let quoted = Quoted::new(&sessions, seq, text);
        let issue = [&workflow.charter.issue.title, &workflow.charter.issue.text];
        let plan = workflow.tasks.iter().flat_map(|task| [&task.spec.title, &task.spec.body]);
        let has_some = issue.into_iter().chain(plan).any(|text| quoted.is_in(text));
        Ok(if has_some { vec![workflow.id] } else { Vec::new() })
    }
}
