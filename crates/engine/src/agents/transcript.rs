//! What an agent's native session holds by its file on the disk, where no replay shows it.

use rethread_domain::conversation::DEFAULT;
use rethread_domain::opening::{Policy, Watermark};
use rethread_domain::replay::{Excerpt, Said};
use rethread_domain::{Role, message};
use rethread_import::{self as import, COMPACTED, Found, Roots};

use super::open::OpenOptions;
use crate::{Engine, Logged as _};

/// A larger file is not read: opening a conversation must not take minutes.
const LARGEST_FILE: u64 = 256 * 1024 * 1024;

/// Where an agent keeps its own sessions.
#[derive(Debug, Clone)]
pub struct OwnSessions {
    /// The agent whose format they have, by the name that the importer knows it by.
    pub agent: String,
    pub roots: Roots,
}

impl Engine {
    /// What was said in a native session, by its file, if that has changed since the last turn in it or if a turn in it was
    /// interrupted. `None` if there is nothing to look at.
    pub(super) async fn read_transcript(
        &self,
        options: &OpenOptions,
        watermark: Option<&Watermark>,
    ) -> Option<Vec<Said>> {
        let own = options.own_sessions.clone().filter(|_| options.policy != Policy::Off)?;
        let watermark = watermark.cloned()?;
        let read = tokio::task::spawn_blocking(move || {
            let found = import::find_native(&own.agent, &own.roots, &watermark.native)?;
            let is_as_left = watermark.is_as_we_left_it(Some(found.changed_at));
            let is_needed = watermark.in_doubt.is_some() || !is_as_left;
            if is_needed { said_in(&found, &watermark.native) } else { None }
        });
        read.await.or_log("an agent's own session could not be read").flatten()
    }
}

/// The messages of a file, if it is the session with this id.
fn said_in(found: &Found, native: &str) -> Option<Vec<Said>> {
    let size = std::fs::metadata(&found.path).map_or(0, |file| file.len());
    if found.native.is_empty() && size > LARGEST_FILE {
        let path = found.path.display();
        tracing::warn!(%path, size, "too large to be looked through for what was said in it");
        return None;
    }
    let opened = import::open(found, None).or_log("an agent's own session could not be read");
    let mut transcript =
        opened.flatten().filter(|transcript| transcript.head().native == native)?;
    let mut kept = Excerpt::default();
    loop {
        match transcript.next() {
            Ok(Some(message)) => {
                if let Some(said) = said(message) {
                    kept.push(said);
                }
            }
            Ok(None) => return Some(kept.finish()),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "an agent's own session could not be read to its end");
                return None;
            }
        }
    }
}

/// What a replay would show of a message.
fn said(message: message::NewMessage) -> Option<Said> {
    let is_shown = message.conversation == DEFAULT && !message.extras.other.contains_key(COMPACTED);
    let is_user = match message.role {
        Role::User => true,
        Role::Assistant => false,
        Role::System | Role::Tool => return None,
    };
    let text = message.content;
    (is_shown && !text.trim().is_empty()).then_some(Said { is_user, text })
}
