//! The beginning of a session that came from another agent.

use rethread_domain::session::{Beginning, Repository};
use rethread_domain::{Fact, SessionId, id};
use rethread_import::Head;
use rethread_store as store;

use super::{ImportOptions, session_id};
use crate::{Engine, Result};

const KIND: &str = "chat";

impl Engine {
    /// Begins the session that another agent's becomes here.
    pub(super) async fn start_imported(
        &self,
        options: &ImportOptions,
        agent: &str,
        head: &Head,
    ) -> Result<SessionId> {
        let own = session_id(agent, &head.native, &head.instance);
        let parent = head.parent.as_ref();
        let parent = parent.map(|parent| session_id(agent, parent, &head.parent_instance));
        let is_name = |name: &String| id::check_agent("model", name).is_ok();
        let home = options.roots.home.display().to_string();
        let beginning = Beginning {
            kind: KIND.to_owned(),
            agent: Some(agent.to_owned()),
            model: head.model.clone().filter(is_name),
            parent,
            ..Beginning::new(
                options.user.clone(),
                head.folder.clone().filter(|folder| folder.starts_with('/')).unwrap_or(home),
            )
        };
        id::check_user(&beginning.user)?;
        match self.store.start(own, beginning, self.clock.now()).await {
            // Another import was quicker: ids tell what is there.
            Ok(_) | Err(store::Error::Exists(_)) => Ok(own),
            Err(error) => Err(error.into()),
        }
    }
}

/// What is true of a session that came from elsewhere.
pub(super) fn began(agent: &str, head: &Head) -> Vec<Fact> {
    let (agent, native) = (agent.to_owned(), head.native.clone());
    let origin = crate::folders::origin_of(head.folder.as_deref(), head.remote.as_deref());
    let mut facts = vec![Fact::Imported { agent, native, branch: head.branch.clone(), origin }];
    if let Some(commit) = head.commit.clone() {
        facts.push(Fact::Repository(Repository { branch: head.branch.clone(), head: commit }));
    }
    facts
}
