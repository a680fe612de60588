//! Changes of the project's repository since a session was last active.

use std::path::Path;

use rethread_domain::quote::one_line;
use rethread_domain::search::{Answer, Filter};
use rethread_domain::session::Repository;
use rethread_domain::{Fact, Session, SessionId};
use rethread_store::Search;
use rethread_workspace::{self as workspace, Head};

use crate::{Engine, Error, Result};

/// How many commits are listed; the rest is counted.
const COMMITS: usize = 5;
/// How many changed files are looked for in the session.
const FILES: usize = 40;

impl Engine {
    /// The branch that a folder's repository is on now.
    pub fn branch(&self, project: &Path) -> Option<String> {
        workspace::head(project)?.branch
    }

    /// Records the state of the repository, if it has changed.
    pub(crate) async fn note_repository(&self, id: SessionId) -> Result<()> {
        let session = self.store.session(id).await?;
        let Some(head) = workspace::head(Path::new(&session.project)) else { return Ok(()) };
        let stands = Repository { branch: head.branch, head: head.commit };
        if session.repository.as_ref() == Some(&stands) {
            return Ok(());
        }
        let fact = Fact::Repository(stands);
        match self.change(id, |_| Ok(fact.clone())).await {
            Ok(_) | Err(Error::Refused(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// What has changed since the session was last active, in a few lines; `None` if nothing has.
    pub(crate) async fn repository_since(&self, session: &Session) -> Result<Option<String>> {
        let Some(before) = &session.repository else { return Ok(None) };
        let project = Path::new(&session.project);
        let Some(now) = workspace::head(project) else { return Ok(None) };
        let before = Head { branch: before.branch.clone(), commit: before.head.clone() };
        if before == now {
            return Ok(None);
        }
        let mut lines = Vec::new();
        let branch =
            |branch: Option<&str>| branch.map_or("no branch".to_owned(), |name| one_line(name, 80));
        if before.branch != now.branch {
            let (from, to) = (branch(before.branch.as_deref()), branch(now.branch.as_deref()));
            lines.push(format!("branch: {to} (was {from})"));
        }
        match workspace::changes(project, &before, &now) {
            Some(changes) if !changes.commits.is_empty() => {
                let more = if changes.more { "more than " } else { "" };
                lines.push(format!("commits since then: {more}{}", changes.commits.len()));
                lines.extend(
                    changes.commits.iter().take(COMMITS).map(|commit| one_line(commit, 100)),
                );
                let talked_about = self.talked_about(session, &changes.files).await?;
                if !talked_about.is_empty() {
                    lines.push(format!(
                        "changed files that this session talked about: {}",
                        talked_about.join(", ")
                    ));
                }
            }
            Some(_) => (),
            None => lines.push(format!(
                "now at commit {} (was {})",
                &now.commit[..12],
                &before.commit[..12]
            )),
        }
        Ok((!lines.is_empty()).then(|| lines.join("\n")))
    }

    async fn talked_about(&self, session: &Session, files: &[String]) -> Result<Vec<String>> {
        let filter = Filter { session: Some(session.id), ..Filter::default() };
        let mut found = Vec::new();
        for file in files.iter().take(FILES) {
            let name = file.rsplit('/').next().unwrap_or(file);
            let search = Search::new(name, filter.clone(), 1);
            let hits = self.store.search(&search).await?.hits;
            if hits.iter().any(|hit| hit.answer == Answer::Words) {
                found.push(one_line(file, 120));
            }
        }
        Ok(found)
    }
}
