//! Use cases of sessions: start, find, change, fork, delete.

use std::ops::Range;
use std::path::Path;

use jiff::SignedDuration;
use rethread_domain::consent::EXACTLY;
use rethread_domain::conversation::TitleFrom;
use rethread_domain::id::{self, SessionRef};
use rethread_domain::quote::one_line;
use rethread_domain::search::{Filter, Found};
use rethread_domain::session::{Beginning, FactRecord, Move, Refusal};
use rethread_domain::{Conversation, Fact, Message, Seq, Session, SessionId};
use rethread_store::{self as store, Command, Health, ListFilter, Repaired, Search, Span, Usage};

use crate::{Engine, Error, Logged as _, Result, folders};

/// How long a deleted session can be restored.
const KEPT_FOR: SignedDuration = SignedDuration::from_hours(30 * 24);
/// How long the process that drives a session has to carry out a request.
const ANSWER_WITHIN: std::time::Duration = std::time::Duration::from_secs(5);
/// How many candidates of an ambiguous id are shown.
const SHOWN: usize = 5;
/// How many messages a search adds to the index at once, and how often: the rest waits for the next one.
const CATCH: u32 = 500;
const CATCHES: usize = 40;
/// How often to check that the process that drives a session is alive.
const CHECK_EVERY: std::time::Duration = std::time::Duration::from_millis(50);

/// The result of checking the store.
#[derive(Debug, Clone)]
pub struct Checked {
    pub health: Health,
    pub usage: Usage,
}

impl Engine {
    pub async fn start(&self, beginning: Beginning) -> Result<Session> {
        self.start_new(SessionId::generate(), beginning).await
    }

    pub(crate) async fn start_new(&self, id: SessionId, beginning: Beginning) -> Result<Session> {
        let title = beginning.title.as_deref().map(|title| self.prepared_text(title));
        let mut beginning = Beginning { title, ..beginning };
        self.forget_known_names(&mut beginning);
        id::check_user(&beginning.user)?;
        id::check_kind(&beginning.kind)?;
        for (what, name) in [("agent", &beginning.agent), ("model", &beginning.model)] {
            name.as_deref().map_or(Ok(()), |name| id::check_agent(what, name))?;
        }
        beginning.title.as_deref().map_or(Ok(()), id::check_title)?;
        let session = self.store.start(id, beginning, self.clock.now()).await?;
        self.await_home(&session).await?;
        Ok(session)
    }

    /// The one session that an id prefix stands for.
    pub async fn resolve(&self, reference: &SessionRef) -> Result<SessionId> {
        self.resolve_of(reference, None).await
    }

    /// The one session, of a user or of all, that an id prefix stands for.
    pub async fn resolve_of(
        &self,
        reference: &SessionRef,
        user: Option<&str>,
    ) -> Result<SessionId> {
        let given = reference.as_str();
        match self.store.resolve(reference, user).await?.as_slice() {
            [] => Err(Error::NotFound(given.to_owned())),
            [one] => Ok(*one),
            several => Err(self.ambiguous(given, several).await?),
        }
    }

    /// The error for an ambiguous id: the first candidates with their titles, and how many more there are.
    async fn ambiguous(&self, given: &str, several: &[SessionId]) -> Result<Error> {
        let mut candidates = Vec::new();
        for id in several.iter().take(SHOWN) {
            let title = self.store.session(*id).await?.title;
            let title = title.map(|title| format!(" ({})", one_line(&title, 40)));
            candidates.push(format!("{}{}", id.short(), title.unwrap_or_default()));
        }
        let more = several.len().saturating_sub(SHOWN);
        Ok(Error::Ambiguous { given: given.to_owned(), candidates, more })
    }

    pub async fn session(&self, id: SessionId) -> Result<Session> {
        Ok(self.with_speaker(self.store.session(id).await?).await)
    }

    pub async fn list(&self, filter: &ListFilter) -> Result<Vec<Session>> {
        let mut sessions = Vec::new();
        for session in self.store.list(filter).await? {
            sessions.push(self.with_speaker(session).await);
        }
        Ok(sessions)
    }

    /// The sessions that this one's agent started, most recent first.
    pub async fn children(&self, id: SessionId) -> Result<Vec<Session>> {
        let parent = Some(id);
        let filter = ListFilter { parent, archived: true, limit: 1_000, ..ListFilter::default() };
        self.list(&filter).await
    }

    pub async fn conversations(&self, id: SessionId) -> Result<Vec<Conversation>> {
        Ok(self.store.conversations(id).await?)
    }

    pub async fn messages(&self, id: SessionId, span: Span) -> Result<Vec<Message>> {
        Ok(self.store.messages(id, span).await?)
    }

    /// The same, but only both ends of long texts.
    pub async fn heads(&self, id: SessionId, span: Span) -> Result<Vec<Message>> {
        Ok(self.store.heads(id, span).await?)
    }

    pub async fn facts(&self, id: SessionId) -> Result<Vec<FactRecord>> {
        Ok(self.store.facts(id).await?)
    }

    /// The openings after one of these messages, with their numbers in the log.
    pub async fn attached(
        &self,
        id: SessionId,
        after: Range<Seq>,
    ) -> Result<Vec<(u32, FactRecord)>> {
        Ok(self.store.attached(id, after).await?)
    }

    /// Parses a query; fails if it has no words.
    pub fn sought(words: &str, filter: Filter, limit: u32) -> Result<Search> {
        if id::is_blank(words) {
            return Err(Error::Empty("query"));
        }
        Ok(Search::new(words, filter, limit))
    }

    /// Searches, without secrets. The index catches up first if the store can be written to, as far as one search may wait for
    /// it; what it still lacks is searched directly.
    pub async fn search(&self, search: Search) -> Result<Found> {
        for _ in 0..CATCHES {
            match self.store.index(CATCH).await {
                Ok(left) if left > 0 && !search.stop.is_stopped() => (),
                Err(error) if !error.is_for_now() => return Err(error.into()),
                Ok(_) | Err(_) => break,
            }
        }
        let search = Search { redactor: self.redactor.clone(), ..search };
        Ok(self.store.search(&search).await?)
    }

    /// Changes the status. If a process drives the session, the change is requested from it.
    pub async fn shift(&self, id: SessionId, asked: Move) -> Result<Session> {
        let command = match asked {
            Move::Pause => Some(Command::Pause),
            Move::Complete => Some(Command::Complete),
            Move::Activate | Move::Reopen | Move::Archive | Move::Unarchive => None,
        };
        let session = self.store.session(id).await?;
        let wanted = session.decide(asked)?;
        if let Some(command) = command
            && self.store.is_claimed(id).await?
        {
            self.store.ask(id, command, self.clock.now()).await?;
            if let Some(session) = self.answered(id, wanted).await? {
                return Ok(session);
            }
            // No reply: the request must be withdrawn, so that it is not carried out later when it no longer fits.
            self.store.take_asked(id).await?;
        }
        if command.is_some() {
            return match self.settle_as(id, asked).await {
                // That process has done it meanwhile.
                Err(Error::Refused(Refusal::Already(..))) => self.session(id).await,
                outcome => outcome,
            };
        }
        self.change(id, |session| Ok(Fact::Moved { to: session.decide(asked)? })).await
    }

    /// Changes the status of a session that the caller itself drives.
    pub async fn settle_as(&self, id: SessionId, asked: Move) -> Result<Session> {
        let session =
            self.change(id, |session| Ok(Fact::Moved { to: session.decide(asked)? })).await?;
        self.sum_up(session).await
    }

    /// The same at the end of work whose outcome does not depend on it. A session that somebody else has archived or deleted
    /// meanwhile is left unchanged.
    pub async fn settle_if_fit(&self, id: SessionId, asked: Move) {
        match self.settle_as(id, asked).await {
            Err(Error::Refused(_)) => (),
            outcome => drop(outcome.or_log("the status of a session could not be changed")),
        }
    }

    /// How conversations have been opened so far: of one user, or of all.
    pub async fn openings(&self, user: Option<&str>) -> Result<Vec<store::OpeningCount>> {
        Ok(self.store.openings(user).await?)
    }

    pub async fn grants(&self) -> Result<Vec<store::Grant>> {
        Ok(self.store.grants().await?)
    }

    /// Drops lasting answers about an agent that are bound to a title instead of to what will be done; returns how many there
    /// were.
    pub async fn drop_grants_by_title(&self, agent: &str) -> Result<u32> {
        let is_old =
            |grant: &store::Grant| grant.agent == agent && !grant.what.starts_with(EXACTLY);
        if !self.grants().await?.iter().any(is_old) {
            return Ok(0);
        }
        Ok(self.store.ungrant_unlike(agent, EXACTLY).await?)
    }

    /// Drops all lasting answers in a project; returns how many there were.
    pub async fn ungrant(&self, project: &str) -> Result<u32> {
        Ok(self.store.ungrant(project).await?)
    }

    /// The last request to processes that drive the session: it is not meant for a later one.
    pub(crate) async fn last_asked(&self, id: SessionId) -> Result<u64> {
        Ok(self.store.asked_since(id, 0).await?.last().map_or(0, |(no, _)| *no))
    }

    /// Waits until the process that drives the session has carried out a request; `None` if there is none.
    async fn answered(
        &self,
        id: SessionId,
        wanted: rethread_domain::Status,
    ) -> Result<Option<Session>> {
        let deadline = std::time::Instant::now() + ANSWER_WITHIN;
        let mut changes = self.changes();
        while std::time::Instant::now() < deadline {
            let session = self.store.session(id).await?;
            if session.status() == wanted {
                return Ok(Some(session));
            }
            if !self.store.is_claimed(id).await? {
                break;
            }
            // The driver may be a task of this very process.
            changes.within(CHECK_EVERY).await;
        }
        Ok(None)
    }

    /// Sets the title. A title from a person is never replaced by an agent's.
    pub async fn retitle(&self, id: SessionId, title: &str, from: TitleFrom) -> Result<Session> {
        let title = self.prepared_text(title);
        id::check_title(&title)?;
        let fact = Fact::Titled { title, from };
        self.change(id, |session| refuse_deleted(session).map(|()| fact.clone())).await
    }

    /// Keeps the title that a person gave a session at its beginning, whatever the agent calls it.
    pub async fn keep_title(&self, session: Session, title: Option<&str>) -> Result<Session> {
        match title {
            Some(title) if session.title_from < TitleFrom::Person => {
                self.retitle(session.id, title, TitleFrom::Person).await
            }
            _ => Ok(session),
        }
    }

    /// Starts a session whose title stays, whatever the agent calls it.
    pub(crate) async fn start_titled(&self, beginning: Beginning) -> Result<Session> {
        let title = beginning.title.clone();
        let session = self.start(beginning).await?;
        self.keep_title(session, title.as_deref()).await
    }

    /// The number of the message that has this id of its writer.
    pub async fn message_by_id(&self, id: SessionId, message: &str) -> Result<Option<Seq>> {
        Ok(self.store.message_by_id(id, message).await?)
    }

    /// A new session that continues from the end, or from message `at`.
    pub async fn fork(&self, id: SessionId, at: Option<Seq>) -> Result<Session> {
        self.fork_new(SessionId::generate(), id, at).await
    }

    pub(crate) async fn fork_new(
        &self,
        new: SessionId,
        id: SessionId,
        at: Option<Seq>,
    ) -> Result<Session> {
        let source = self.store.session(id).await?;
        source.can_resume()?;
        let at = at.unwrap_or(source.last_seq);
        if at == 0 && source.last_seq > 0 || at > source.last_seq {
            return Err(Error::NoMessage(id, at));
        }
        let fork = self.store.fork(id, at, new, self.clock.now()).await?;
        Ok(self.with_speaker(fork).await)
    }

    /// Deletes a session: hidden at once, with its folder; erased after 30 days.
    pub async fn delete(&self, id: SessionId) -> Result<Session> {
        refuse_deleted(&self.store.session(id).await?)?;
        // Changes that somebody else made in its folder are imported first, so that they can be restored.
        self.follow_on(id).await;
        let session = self
            .change_alone(id, |session| refuse_deleted(session).map(|()| Fact::Deleted))
            .await?;
        self.remove_folder(&session, false).await;
        self.forget_files_of(id);
        self.erase_old().await?;
        Ok(session)
    }

    /// Removes a session without messages.
    pub async fn erase_if_empty(&self, id: SessionId) -> Result<()> {
        self.store.erase_if_empty(id).await?;
        if matches!(self.store.session(id).await, Err(store::Error::NotFound(_))) {
            self.forget_files_of(id);
        }
        Ok(())
    }

    /// Removes the files that a session is kept in because an agent invoked it. What stays is said later.
    fn forget_files_of(&self, id: SessionId) {
        let troubles: Vec<String> = self.forget_files(id).into_iter().collect();
        self.note(folders::FolderReport { troubles, ..folders::FolderReport::default() });
    }

    /// Removes a session for good, at once, with its folder. Folders that come by git do not bring it back.
    pub async fn erase(&self, id: SessionId) -> Result<()> {
        let session = self.store.session(id).await?;
        self.bury(&session).await?;
        self.bury_natives(id).await?;
        self.remove_folder(&session, true).await;
        self.forget_files_of(id);
        Ok(self.store.erase(id).await?)
    }

    pub async fn undelete(&self, id: SessionId) -> Result<Session> {
        self.change(id, |session| match session.deleted_at {
            Some(_) => Ok(Fact::Undeleted),
            None => Err(Refusal::NotDeleted(id)),
        })
        .await
    }

    /// Removes for good what was deleted long enough ago. Mostly there is nothing, which costs a look at an index.
    pub async fn erase_old(&self) -> Result<u32> {
        let before = self.clock.now() - KEPT_FOR;
        let old = self.store.deleted_before(before).await?;
        if old.is_empty() {
            return Ok(0);
        }
        for id in old {
            let session = self.store.session(id).await?;
            self.bury(&session).await?;
            self.bury_natives(id).await?;
            self.remove_folder(&session, true).await;
            self.forget_files_of(id);
        }
        Ok(self.store.erase_deleted(before).await?)
    }

    pub async fn backup(&self, to: &Path) -> Result<()> {
        Ok(self.store.backup(to).await?)
    }

    pub async fn check(&self) -> Result<Checked> {
        let health = self.store.check().await?;
        let usage = match self.store.usage().await {
            // What is damaged cannot be counted.
            Err(_) if !health.damage.is_empty() => Usage::default(),
            usage => usage?,
        };
        Ok(Checked { health, usage })
    }

    /// Mends records that are damaged: from their folders, from a backup, from the log, or by setting them aside.
    pub async fn repair(&self, backup: Option<&Path>) -> Result<Repaired> {
        let mut mended = self.mend_from_folders().await?;
        let mut repaired = self.store.repair(backup, self.clock.now()).await?;
        if !mended.is_empty() && repaired.is_empty() {
            // What was damaged may be missing in the index.
            self.store.rebuild().await?;
        }
        mended.append(&mut repaired.restored);
        Ok(Repaired { restored: mended, ..repaired })
    }

    pub async fn rebuild(&self) -> Result<()> {
        Ok(self.store.rebuild().await?)
    }

    pub async fn compact(&self) -> Result<()> {
        self.erase_old().await?;
        Ok(self.store.compact().await?)
    }

    /// Reads, decides and adds the fact; the folder follows. Starts over when somebody else was quicker.
    pub(crate) async fn change(
        &self,
        id: SessionId,
        decide: impl Fn(&Session) -> std::result::Result<Fact, Refusal>,
    ) -> Result<Session> {
        let changed = self.change_alone(id, decide).await?;
        self.follow_on(id).await;
        Ok(changed)
    }

    /// The same, where the folder follows later.
    pub(crate) async fn change_alone(
        &self,
        id: SessionId,
        decide: impl Fn(&Session) -> std::result::Result<Fact, Refusal>,
    ) -> Result<Session> {
        self.change_alone_at(id, self.clock.now(), decide).await
    }

    /// The same, of something that happened at another time.
    pub(crate) async fn change_alone_at(
        &self,
        id: SessionId,
        at: jiff::Timestamp,
        decide: impl Fn(&Session) -> std::result::Result<Fact, Refusal>,
    ) -> Result<Session> {
        loop {
            let session = self.store.session(id).await?;
            let fact = decide(&session)?;
            match self.store.change(&session, fact, at).await {
                Err(store::Error::Conflict(_)) => (),
                outcome => return Ok(self.with_speaker(outcome?).await),
            }
        }
    }
}

fn refuse_deleted(session: &Session) -> std::result::Result<(), Refusal> {
    match session.deleted_at {
        Some(_) => Err(Refusal::Deleted(session.id)),
        None => Ok(()),
    }
}
