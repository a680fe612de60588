//! Taking in one session of another agent.

use rethread_domain::conversation::{DEFAULT, TitleFrom};
use rethread_domain::message::NewMessage;
use rethread_domain::opening::{Settings, Watermark};
use rethread_domain::wording::counted;
use rethread_domain::{Fact, Seq, Session, SessionId, Status, id};
use rethread_import::{self as import, Cursor, Found, Head, Transcript, UNANSWERED};
use rethread_store::{self as store, Append, Appended, Import, Span};

use super::begin::began;
use super::merge::{Merge, Next, REVISED};
use super::story::take_out_story;
use super::{ImportOptions, ImportReport, Known, session_id, why_of};
use crate::agents::{TAKEN_IN, is_ours};
use crate::{Engine, Result};

/// So much is written at once.
const BATCH_MESSAGES: usize = 256;
const BATCH_BYTES: usize = 4 * 1024 * 1024;
const PAGE: u32 = 500;
/// The longest title.
const TITLE_BYTES: usize = 500;

/// What there is here of a session that is to be read.
pub(super) enum Here {
    Nothing,
    Session(Box<Session>),
    /// Not to be touched.
    PutAway,
}

/// One session on its way in.
struct Intake<'a> {
    engine: &'a Engine,
    options: &'a ImportOptions,
    found: &'a Found,
    head: Head,
    /// The session here, once there is one.
    session: Option<SessionId>,
    seq: Seq,
    merge: Merge,
    batch: Vec<NewMessage>,
    batch_bytes: usize,
    added: u64,
    is_forked: bool,
    /// Whether a tool call was passed over that may still be answered.
    is_waiting: bool,
}

impl Engine {
    pub(super) async fn import_one(
        &self,
        options: &ImportOptions,
        known: &Known,
        found: &Found,
        report: &mut ImportReport,
    ) -> Result<()> {
        let row = known.row(found);
        report.tally(found.agent).found += 1;
        if options.since.is_some_and(|since| found.changed_at < since) {
            report.tally(found.agent).older += 1;
            return Ok(());
        }
        if let Some(row) = row.filter(|row| row.stamp == found.stamp && row.gone_at.is_none()) {
            // Who names a file wants to know why it does not come in. Of all others the file's state has to be enough.
            let is_named = !options.paths.is_empty();
            let is_put_away = match row.session.filter(|_| is_named) {
                Some(id) => matches!(self.what_is_here(id, Some(row)).await?, Here::PutAway),
                None => false,
            };
            let tally = report.tally(found.agent);
            *(if is_put_away { &mut tally.put_away } else { &mut tally.unchanged }) += 1;
            return Ok(());
        }
        let cursor = row.and_then(|row| serde_json::from_str(row.cursor.as_deref()?).ok());
        let opened = import::open(found, cursor.as_ref());
        let mut transcript = match opened {
            Ok(Some(transcript)) => transcript,
            Ok(None) => {
                report.tally(found.agent).empty += 1;
                // What was imported before it was emptied stays.
                let (session, seq) = row.map_or((None, 0), |row| (row.session, row.seq));
                let stamp = found.stamp.clone();
                return self.remember_import(options, found, stamp, session, None, seq).await;
            }
            Err(error) => {
                report.tally(found.agent).failed += 1;
                report.trouble(&found.source, None, why_of(&error));
                return Ok(());
            }
        };
        self.take_in_one(options, known, found, transcript.as_mut(), report).await
    }

    /// Takes in what is new of a session that is open.
    async fn take_in_one(
        &self,
        options: &ImportOptions,
        known: &Known,
        found: &Found,
        transcript: &mut dyn Transcript,
        report: &mut ImportReport,
    ) -> Result<()> {
        let row = known.row(found);
        let head = transcript.head().clone();
        if options.excludes(head.folder.as_deref()) {
            // Not remembered: once the folder is recorded again, its sessions are imported whole.
            report.tally(found.agent).excluded += 1;
            return Ok(());
        }
        let own_id = session_id(found.agent, &head.native, &head.instance);
        let id = row.and_then(|row| row.session).or(known.live).unwrap_or(own_id);
        if known.is_recorded(found.agent, &head.native, id) {
            report.tally(found.agent).recorded += 1;
            let stamp = found.stamp.clone();
            return self.remember_import(options, found, stamp, None, None, 0).await;
        }
        let session = match self.what_is_here(id, row).await? {
            Here::PutAway => {
                report.tally(found.agent).put_away += 1;
                return Ok(());
            }
            Here::Nothing => None,
            Here::Session(session) => Some(session),
        };
        let merge = self.merge_with(session.as_deref(), transcript.is_continued(), row).await?;
        let mut intake = Intake {
            engine: self,
            options,
            found,
            head,
            session: session.as_ref().map(|session| session.id),
            seq: row.map_or(0, |row| row.seq),
            merge,
            batch: Vec::new(),
            batch_bytes: 0,
            added: 0,
            is_forked: false,
            is_waiting: false,
        };
        if let Err(error) = intake.read(transcript).await? {
            report.trouble(&found.source, None, error.to_string());
        }
        for unread in transcript.unread() {
            report.trouble(&found.source, unread.at, unread.why);
        }
        intake.end(transcript.cursor(), session.as_deref(), report).await
    }

    /// Remembers how far a session was read.
    async fn remember_import(
        &self,
        options: &ImportOptions,
        found: &Found,
        stamp: String,
        session: Option<SessionId>,
        cursor: Option<String>,
        seq: Seq,
    ) -> Result<()> {
        if options.dry_run {
            return Ok(());
        }
        let import = Import {
            source: found.source.display().to_string(),
            native: found.native.clone(),
            agent: found.agent.to_owned(),
            session,
            stamp,
            cursor,
            seq,
            gone_at: None,
        };
        Ok(self.store.set_import(import).await?)
    }

    pub(super) async fn what_is_here(&self, id: SessionId, row: Option<&Import>) -> Result<Here> {
        match self.store.session(id).await {
            Ok(session) if session.accepts_messages().is_ok() => {
                Ok(Here::Session(Box::new(session)))
            }
            Ok(_) => Ok(Here::PutAway),
            // Somebody has deleted it for good.
            Err(store::Error::NotFound(_)) if row.is_some_and(|row| row.session == Some(id)) => {
                Ok(Here::PutAway)
            }
            Err(store::Error::NotFound(_)) if self.store.is_buried(&id.to_string()).await? => {
                Ok(Here::PutAway)
            }
            Err(store::Error::NotFound(_)) => Ok(Here::Nothing),
            Err(error) => Err(error.into()),
        }
    }

    /// What is here already, as far as it has to be compared.
    async fn merge_with(
        &self,
        session: Option<&Session>,
        is_continued: bool,
        row: Option<&Import>,
    ) -> Result<Merge> {
        let Some(session) = session else { return Ok(Merge::default()) };
        let known = row.filter(|_| is_continued).map_or(0, |row| row.seq);
        let mut merge = self.merge_from(session, known + 1).await?;
        if is_continued {
            merge.skip_to_end();
        }
        Ok(merge)
    }

    async fn merge_from(&self, session: &Session, mut from: Seq) -> Result<Merge> {
        let mut merge = Merge::default();
        loop {
            let page = self.store.heads(session.id, Span::after(from, PAGE)).await?;
            let Some(last) = page.last().map(|message| message.seq) else { break };
            for message in page {
                merge.hear(message);
            }
            from = last + 1;
        }
        Ok(merge)
    }
}

impl Intake<'_> {
    /// Reads to the end. What goes wrong with the file ends it: what was read until then is kept.
    async fn read(&mut self, transcript: &mut dyn Transcript) -> Result<std::io::Result<()>> {
        loop {
            let message = match transcript.next() {
                Ok(Some(message)) => message,
                Ok(None) => break,
                Err(error) => {
                    self.write(Vec::new(), false).await?;
                    return Ok(Err(error));
                }
            };
            self.hear(message).await?;
            if self.batch.len() >= BATCH_MESSAGES || self.batch_bytes >= BATCH_BYTES {
                self.write(Vec::new(), false).await?;
            }
        }
        Ok(Ok(()))
    }

    async fn hear(&mut self, mut message: NewMessage) -> Result<()> {
        // While the session goes on, the result of a call is about to come.
        if self.options.is_live && message.id.as_ref().is_some_and(|id| id.ends_with(UNANSWERED)) {
            self.is_waiting = true;
            return Ok(());
        }
        let most = usize::try_from(self.options.most_bytes).unwrap_or(usize::MAX);
        if message.content.len() > most {
            let left = message.content.len() - message.content.floor_char_boundary(most);
            message.content.truncate(message.content.floor_char_boundary(most));
            message.extras.other.insert("cut".to_owned(), counted_bytes(left).into());
        }
        let told = take_out_story(&mut message);
        self.engine.prepare(&mut message);
        match self.merge.next(&message) {
            Next::Known => return Ok(()),
            Next::Revise => {
                let id = message.id.take().unwrap_or_default();
                let digest = import::digest_of(&[&message.content]);
                message.extras.other.insert("replaces".to_owned(), id.as_str().into());
                message.id = Some(format!("{id}{REVISED}{}", &digest[..8]));
            }
            Next::Fork(after) if self.fork(&message, after).await? => {
                if self.merge.next(&message) == Next::Known {
                    return Ok(());
                }
            }
            Next::Add | Next::Fork(_) => (),
        }
        if let Some(mut told) = told {
            self.engine.prepare(&mut told);
            self.add(told);
        }
        self.add(message);
        Ok(())
    }

    fn add(&mut self, mut message: NewMessage) {
        if self.merge.has_own && message.conversation == DEFAULT {
            message.extras.other.insert(TAKEN_IN.to_owned(), self.head.native.as_str().into());
        }
        self.added += 1;
        self.batch_bytes += message.content.len();
        self.batch.push(message);
    }

    /// The agent has gone back and taken another way: what it left stays here as it is. Says whether that way is known: what
    /// comes is compared with it then.
    async fn fork(&mut self, message: &NewMessage, after: Seq) -> Result<bool> {
        self.is_forked = true;
        self.merge = Merge::default();
        let first = message.id.as_deref().unwrap_or_default();
        let new = session_id(self.found.agent, &self.head.native, first);
        let before = self.session.replace(new);
        let store = &self.engine.store;
        match store.session(new).await {
            Ok(known) => {
                self.merge = self.engine.merge_from(&known, after + 1).await?;
                return Ok(true);
            }
            Err(store::Error::NotFound(_)) => (),
            Err(error) => return Err(error.into()),
        }
        let Some(before) = before.filter(|_| !self.options.dry_run) else { return Ok(false) };
        if after == 0 {
            self.session = None;
            first.clone_into(&mut self.head.instance);
        } else {
            store.fork(before, after, new, self.engine.clock.now()).await?;
            let facts = began(self.found.agent, &self.head);
            store.append(Append { facts, ..Append::new(new, Vec::new()) }).await?;
        }
        // Its own session is the new one's now.
        let forgot =
            Fact::Forgot { conversation: DEFAULT.to_owned(), agent: self.found.agent.to_owned() };
        self.engine.change_alone(before, |_| Ok(forgot.clone())).await?;
        Ok(false)
    }

    /// Writes down what was read, with what became true at its end.
    async fn write(&mut self, facts: Vec<Fact>, is_end: bool) -> Result<()> {
        let messages = std::mem::take(&mut self.batch);
        self.batch_bytes = 0;
        if self.options.dry_run || messages.is_empty() && facts.is_empty() && !is_end {
            return Ok(());
        }
        let mut all = Vec::new();
        let session = match self.session {
            Some(session) => session,
            None => {
                let (agent, head) = (self.found.agent, &self.head);
                all = began(agent, head);
                let started = self.engine.start_imported(self.options, agent, head).await?;
                *self.session.insert(started)
            }
        };
        all.extend(facts);
        let is_held = is_end && !self.merge.has_own && self.is_resumable();
        let holds = is_held.then(|| self.watermark());
        let append = Append { facts: all, holds, ..Append::new(session, messages) };
        match self.engine.store.append(append.clone()).await {
            Ok(written) => {
                self.wrote(&written);
                Ok(())
            }
            Err(store::Error::IdTaken { .. } | store::Error::IdReserved(_)) => {
                self.write_one_by_one(append).await
            }
            Err(error) => Err(error.into()),
        }
    }

    /// What was there already is not counted.
    fn wrote(&mut self, written: &[Appended]) {
        self.seq = written.iter().map(|one| one.seq).fold(self.seq, Seq::max);
        self.added -= written.iter().filter(|one| !one.is_new).count() as u64;
    }

    /// Where an id is taken by something else, that message is left as it is, and the others come in.
    async fn write_one_by_one(&mut self, append: Append) -> Result<()> {
        let Append { session, messages, facts, holds, .. } = append;
        for message in messages {
            match self.engine.store.append(Append::new(session, vec![message])).await {
                Ok(written) => self.wrote(&written),
                Err(store::Error::IdTaken { .. } | store::Error::IdReserved(_)) => self.added -= 1,
                Err(error) => return Err(error.into()),
            }
        }
        let append = Append { facts, holds, ..Append::new(session, Vec::new()) };
        self.engine.store.append(append).await?;
        Ok(())
    }

    /// Whether the agent takes it up by its id: some do not for what their own agents did for them.
    fn is_resumable(&self) -> bool {
        let is_child = self.head.parent.is_some();
        // aider has no ids, and speaks no protocol that it could be asked by.
        self.found.agent != "aider"
            && (!is_child || matches!(self.found.agent, "codex" | "opencode" | "kilo" | "goose"))
    }

    /// The agent's own session holds all of it.
    fn watermark(&self) -> Watermark {
        let left_at = self.found.changed_at;
        // Agents tell the time of a change in seconds, at times rounded.
        let left_at =
            Some(left_at.saturating_add(jiff::SignedDuration::from_secs(1)).unwrap_or(left_at));
        let settings = Settings::default();
        let nothing = Watermark::nothing(DEFAULT, self.found.agent);
        Watermark { native: self.head.native.clone(), left_at, settings, ..nothing }
    }

    /// A title that the session does not have yet, and may take.
    fn title(&self, session: Option<&Session>) -> Option<Fact> {
        let (title, from) = self.head.title.as_ref()?;
        let title = &title[..title.floor_char_boundary(TITLE_BYTES)];
        id::check_title(title).ok().filter(|()| !is_ours(title, None))?;
        let title = self.engine.prepared_text(title);
        let known = session.map_or(TitleFrom::Nobody, |session| session.title_from);
        let is_known = session.and_then(|session| session.title.as_ref()) == Some(&title);
        (!is_known && *from >= known).then_some(Fact::Titled { title, from: *from })
    }

    async fn end(
        mut self,
        cursor: Option<Cursor>,
        session: Option<&Session>,
        report: &mut ImportReport,
    ) -> Result<()> {
        let agent = self.found.agent;
        let mut title = self.title(session.filter(|_| !self.is_forked));
        if let (Some(Fact::Titled { from, .. }), Some(known)) = (&title, session)
            && !self.is_forked
            && *from < TitleFrom::Person
            && known.title.is_some()
            && !self.engine.store.began_in(known.id, agent, &self.head.native).await?
        {
            // The story went on there: what it is called there says what was said last, not what it is about.
            title = None;
        }
        if self.added > 0 || self.merge.confirmed.is_some() {
            let mut facts: Vec<Fact> = title.into_iter().collect();
            if !self.options.is_live {
                facts.push(Fact::Moved { to: Status::Paused });
            }
            self.write(facts, true).await?;
        } else if let (Some(title), Some(known)) =
            (title, session.filter(|_| !self.options.dry_run))
        {
            self.engine.change_alone(known.id, |_| Ok(title.clone())).await?;
        }
        self.hold_less().await?;
        let tally = report.tally(agent);
        tally.messages += self.added;
        match (self.added, session) {
            (0, None) => tally.empty += 1,
            (0, Some(_)) => tally.unchanged += 1,
            (_, None) => tally.new += 1,
            (_, Some(_)) => tally.grown += 1,
        }
        tally.forked += u64::from(self.is_forked);
        if let Some(session) = self.session.filter(|_| self.added > 0) {
            report.sessions.push(session.to_string());
        }
        let cursor = cursor.and_then(|cursor| serde_json::to_string(&cursor).ok());
        // Whoever looks next, when nobody goes on with it, is told of the call.
        let waiting = if self.is_waiting { "+asked" } else { "" };
        let stamp = format!("{}{waiting}", self.found.stamp);
        let seq = self.seq.max(self.merge.confirmed.unwrap_or(0));
        let (options, found, session) = (self.options, self.found, self.session);
        self.engine.remember_import(options, found, stamp, session, cursor, seq).await
    }

    /// The agent has less than it had: what is missing there has to be told to it again.
    async fn hold_less(&self) -> Result<()> {
        let (Some(session), Some(upto)) = (self.session, self.merge.common()) else {
            return Ok(());
        };
        if !self.merge.is_longer() || self.merge.has_own || self.options.dry_run {
            return Ok(());
        }
        let held = self.engine.store.watermark(session, DEFAULT, self.found.agent).await?;
        if let Some(held) = held.filter(|held| held.upto > upto) {
            let messages = held.messages.saturating_sub(held.upto - upto);
            let less = Fact::Holds(Watermark { upto, messages, ..held });
            self.engine.change_alone(session, |_| Ok(less.clone())).await?;
        }
        Ok(())
    }
}

fn counted_bytes(bytes: usize) -> String {
    format!("{} more", counted(u32::try_from(bytes).unwrap_or(u32::MAX), "byte"))
}
