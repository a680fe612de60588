//! Sessions as an editor sees them: begun in a folder, found by our id or by the agent's own, listed in pages.

use std::path::Path;
use std::sync::Arc;

use rethread_domain::opening::Settings;
use rethread_domain::session::Beginning;
use rethread_domain::{Message, Seq, Session, SessionId};

use crate::agents::{Consent, Holds, Launcher, Nobody, OpenOptions, Rules};
use crate::program::{Choice, Fault, Program, may_record, project_folder};
use crate::{Engine, Error, ListFilter, Order, Result, Span, cursor};

/// How many sessions a page of the list has. Some editors show the first page only.
const PAGE: u32 = 100;
/// How many pages of the store are looked through for one page, where sessions without a message are many.
const MOST_PAGES: usize = 20;
/// How many messages of a history are read at once.
const STRETCH: u32 = 200;

/// A page of sessions.
#[derive(Debug, Default)]
pub struct EditorPage {
    pub sessions: Vec<Session>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
}

impl Engine {
    /// A new session for an editor. It is empty, and not listed, until something is said in it.
    pub async fn begin_for_editor(
        &self,
        program: &dyn Program,
        agent: &str,
        folder: &Path,
    ) -> std::result::Result<Session, Fault> {
        let folder = project_folder(folder)?;
        may_record(program, &folder)?;
        let beginning = Beginning {
            agent: Some(agent.to_owned()),
            ..Beginning::new(program.user()?, folder.to_string_lossy())
        };
        Ok(self.start(beginning).await?)
    }

    /// The session that an editor means: by our whole id, or by the id of the agent's own session that holds it. Sessions of
    /// others and deleted ones are unknown.
    pub async fn session_for_editor(
        &self,
        user: &str,
        agent: &str,
        id: &str,
    ) -> Result<Option<Session>> {
        let own = id.parse::<SessionId>();
        for id in own.into_iter().chain(self.store.holder_of(agent, id).await?) {
            match self.session(id).await {
                Ok(session) if session.user == user && session.deleted_at.is_none() => {
                    return Ok(Some(session));
                }
                Ok(_) | Err(Error::NotFound(_)) => (),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Whether an agent's own session holds a session of ours, or was made for one.
    pub async fn is_held_by(&self, agent: &str, native: &str) -> Result<bool> {
        Ok(self.store.holder_of(agent, native).await?.is_some())
    }

    /// The sessions of a folder, or of all, the most recently active first; those without a message are left out.
    pub async fn sessions_for_editor(
        &self,
        user: &str,
        folder: Option<&str>,
        after: Option<&str>,
    ) -> Result<EditorPage> {
        let mut page = EditorPage::default();
        let mut before = after.and_then(cursor::decode);
        for _ in 0..MOST_PAGES {
            let filter = ListFilter {
                user: Some(user.to_owned()),
                project: folder.map(str::to_owned),
                before,
                limit: PAGE,
                ..ListFilter::default()
            };
            let found = self.list(&filter).await?;
            let is_last = found.len() < PAGE as usize;
            for session in found {
                before = Some((session.last_active_at, session.id));
                page.next = Some(cursor::of_session(&session));
                if session.last_seq > 0 {
                    page.sessions.push(session);
                }
                if page.sessions.len() == PAGE as usize {
                    return Ok(page);
                }
            }
            if is_last {
                page.next = None;
                break;
            }
        }
        Ok(page)
    }

    /// The next messages of a conversation after message `after`, with whole texts, and the last that was looked at; nothing at
    /// the end.
    pub async fn history_after(
        &self,
        id: SessionId,
        conversation: &str,
        after: Seq,
    ) -> Result<Option<(Vec<Message>, Seq)>> {
        let span =
            Span { from: after + 1, to: Seq::MAX, order: Order::OldestFirst, limit: STRETCH };
        let mut messages = self.messages(id, span).await?;
        let Some(last) = messages.last().map(|last| last.seq) else { return Ok(None) };
        messages.retain(|message| message.conversation == conversation);
        Ok(Some((messages, last)))
    }

    /// How an editor's session is opened: the editor answers for permissions, modes and prompts, so nothing of ours is added.
    pub async fn options_for_editor(
        &self,
        program: &dyn Program,
        session: &Session,
        agent: &str,
        launcher: Arc<dyn Launcher>,
    ) -> std::result::Result<OpenOptions, Fault> {
        let choice = Choice {
            agent: Some(agent.to_owned()),
            consent: Some(Consent::Agent),
            ..Choice::default()
        };
        let (options, _) = self.open_options(program, session, &choice, Arc::new(Nobody)).await?;
        Ok(OpenOptions {
            launcher,
            system_prompt: None,
            changed_prompt: None,
            defaults: Settings::default(),
            holds: Holds::default(),
            rules: Rules::default(),
            ..options
        })
    }
}
