//! Writes a conversation as a native session of an agent, checks it, and remembers that the agent holds it.

use std::path::{Path, PathBuf};

use rethread_domain::opening::Watermark;
use rethread_domain::wording::counted;
use rethread_domain::{Fact, Message, Session, SessionId, tokens};
use rethread_import::write::{self, Draft, Way};
use rethread_import::{self as import, Cursor, Found};
use rethread_store::{Import, Span};

use super::{HandoverRequest, NativeAgent};
use crate::{ContextOptions, Engine, Error, Result};

/// So many tokens a native session may have: an agent that loads more would have to compact it at once.
const MOST_TOKENS: u64 = 120_000;
/// Of these, so many for what is retold of the part that does not fit.
const RETOLD_TOKENS: u32 = 24_000;
const PAGE: u32 = 200;
/// What a tool call costs beside its text.
const FRAME_TOKENS: u64 = 40;

/// The part of a conversation that is written.
struct Part {
    messages: Vec<Message>,
    /// What is retold of what came before.
    retold: Option<String>,
}

impl Engine {
    /// Writes the conversation for the agent; returns the native id and the file.
    pub(super) async fn write_native(
        &self,
        request: &HandoverRequest,
        session: &Session,
        agent: &dyn NativeAgent,
        notes: &mut Vec<String>,
    ) -> Result<(String, PathBuf)> {
        let part = self.part(request, notes).await?;
        let mut composed = write::compose(&part.messages);
        if composed.entries.is_empty() {
            return Err(not_written(request, "nothing was said in this conversation yet"));
        }
        if let Some(text) = part.retold {
            let at = composed.entries[0].at;
            composed.entries.insert(0, write::Entry { at, what: write::What::User(text) });
        }
        let left_out = composed.left_out.describe();
        if !left_out.is_empty() {
            notes.push(format!("left out: {}", left_out.join("; ")));
        }
        let name = request.agent.as_str();
        let draft = self.draft(request, session, composed.entries)?;
        let failed = |error: import::Error| not_written(request, &error.to_string());
        let placed = write::place(name, &draft, &request.imports.roots, &request.aside);
        let placed = placed.map_err(failed)?;
        let (native, found) = match (write::way(name), placed.found) {
            (Some(Way::Import), _) => {
                let imported =
                    self.import_there(request, session, agent, &placed.path, &draft).await;
                // The agent has its own copy now, or does not want one.
                drop(std::fs::remove_file(&placed.path));
                imported?
            }
            (_, Some(found)) => (draft.id.clone(), found),
            (_, None) => return Err(not_written(request, "the file is not where it was put")),
        };
        let discard = || {
            if write::way(name) == Some(Way::File) {
                // It is ours, and nobody has seen it yet.
                drop(std::fs::remove_file(&placed.path));
            }
        };
        let check = write::read_back(&found, &draft.entries).inspect_err(|_| discard());
        let check = check.map_err(failed)?;
        if let Some(difference) = check.difference {
            discard();
            let why = format!("what was written for {name} reads back differently: {difference}");
            return Err(not_written(request, &why));
        }
        // At once: whoever imports meanwhile would take it for a session of its own.
        let cursor = check.cursor.unwrap_or_else(|| Cursor::after_copy(check.messages));
        self.remember_place(request, session, &found, &native, Some(cursor)).await?;
        self.hold_all(request, &native).await?;
        if let Some(Ok(listed)) = agent.list(Path::new(&session.project)).await
            && !listed.contains(&native)
        {
            notes.push(format!("{name}'s own list does not show the new session {native}"));
        }
        notes.push(format!(
            "written for {name} as {native}, with {}",
            counted(u32::try_from(draft.entries.len()).unwrap_or(u32::MAX), "message")
        ));
        Ok((native, found.path))
    }

    /// The session as it is to be written.
    fn draft(
        &self,
        request: &HandoverRequest,
        session: &Session,
        entries: Vec<write::Entry>,
    ) -> Result<Draft> {
        let (name, now) = (request.agent.as_str(), self.clock.now());
        let needs_model = matches!(name, "opencode" | "kilo");
        let model = needs_model.then(|| write::model_of_opencode(name, &request.imports.roots));
        if model == Some(None) {
            let why = format!(
                "{name} has not been used here yet, and a session of it has to name a model"
            );
            return Err(not_written(request, &why));
        }
        let title = session.title.as_deref().map(|title| self.masked_text(title));
        Ok(Draft {
            id: write::native_id(name, &SessionId::generate().to_string(), now),
            folder: session.project.clone(),
            branch: session.repository.as_ref().and_then(|repository| repository.branch.clone()),
            title,
            model: model.flatten(),
            now,
            entries,
        })
    }

    /// Has the agent import the file, and finds what became of it.
    async fn import_there(
        &self,
        request: &HandoverRequest,
        session: &Session,
        agent: &dyn NativeAgent,
        file: &Path,
        draft: &Draft,
    ) -> Result<(String, Found)> {
        let name = request.agent.as_str();
        let roots = &request.imports.roots;
        let before: Vec<String> =
            import::find(name, roots).0.into_iter().map(|one| one.native).collect();
        let printed = agent.import(file, Path::new(&session.project)).await;
        let printed = printed.map_err(|error| {
            not_written(request, &format!("{name} did not import the session: {error}"))
        })?;
        // The id that was asked for, or the one that the agent gave and printed.
        let after = import::find(name, roots).0;
        let new = after.into_iter().filter(|one| !before.contains(&one.native));
        let is_it = |one: &Found| one.native == draft.id || printed.contains(&one.native);
        let found = new.into_iter().find(is_it);
        let found = found.ok_or_else(|| {
            not_written(request, &format!("{name} imported the session, but does not have it"))
        })?;
        Ok((found.native.clone(), found))
    }

    /// The messages that fit: all of them, those since the last compaction, or the newest, with a retelling of the others.
    async fn part(&self, request: &HandoverRequest, notes: &mut Vec<String>) -> Result<Part> {
        let mut messages = self.whole_conversation(request).await?;
        let cost = |messages: &[Message]| messages.iter().map(cost_of).sum::<u64>();
        if cost(&messages) <= MOST_TOKENS {
            return Ok(Part { messages, retold: None });
        }
        let compacted = messages
            .iter()
            .rposition(|one| one.extras.other.get(import::COMPACTED).is_some_and(|it| it == true));
        if let Some(from) = compacted.filter(|from| cost(&messages[*from..]) <= MOST_TOKENS) {
            notes.push(format!(
                "{} before the last compaction are left out: its summary stands in their place",
                counted(u32::try_from(from).unwrap_or(u32::MAX), "message")
            ));
            return Ok(Part { messages: messages.split_off(from), retold: None });
        }
        let room = MOST_TOKENS - u64::from(RETOLD_TOKENS);
        let from = newest_within(&messages, room);
        let newest = messages.split_off(from);
        let limits = rethread_domain::context::Limits { tokens: RETOLD_TOKENS, ..request.limits };
        let options =
            ContextOptions { limits, margin: request.margin, ..ContextOptions::default() };
        let told = self.context(request.session, &options).await?.context;
        notes.push(format!(
            "{} older than what fits are retold in short",
            counted(u32::try_from(from).unwrap_or(u32::MAX), "message")
        ));
        Ok(Part { messages: newest, retold: Some(told) })
    }

    /// Every message of the conversation, whole and without secrets.
    async fn whole_conversation(&self, request: &HandoverRequest) -> Result<Vec<Message>> {
        let mut all = Vec::new();
        let mut from = 1;
        loop {
            let page = self.store.messages(request.session, Span::after(from, PAGE)).await?;
            let Some(last) = page.last().map(|message| message.seq) else { return Ok(all) };
            for mut message in page {
                if message.conversation == request.conversation {
                    self.mask_whole(request.session, &mut message).await?;
                    all.push(message);
                }
            }
            from = last + 1;
        }
    }

    /// Remembers where a native session stands now, so that only what is said in it from here on is imported.
    pub(super) async fn mark_place(
        &self,
        request: &HandoverRequest,
        session: &Session,
        found: &Found,
    ) -> Result<()> {
        let known = self.store.imports().await?;
        let source = found.source.display().to_string();
        let is_known = known
            .iter()
            .any(|row| row.source == source && row.native == found.native && row.session.is_some());
        if is_known {
            return Ok(());
        }
        // What Rethread itself recorded there has no row: it begins at its end.
        let failed = |error: import::Error| not_written(request, &error.to_string());
        let Some(mut transcript) = import::open(found, None).map_err(failed)? else {
            return Ok(());
        };
        let native = transcript.head().native.clone();
        let mut count = 0;
        while let Ok(Some(_)) = transcript.next() {
            count += 1;
        }
        let cursor = transcript.cursor().unwrap_or_else(|| Cursor::after_copy(count));
        self.remember_place(request, session, found, &native, Some(cursor)).await
    }

    async fn remember_place(
        &self,
        request: &HandoverRequest,
        session: &Session,
        found: &Found,
        native: &str,
        cursor: Option<Cursor>,
    ) -> Result<()> {
        tracing::info!(session = %session.id, agent = request.agent, native, "handed over");
        let cursor = cursor.and_then(|cursor| serde_json::to_string(&cursor).ok());
        let import = Import {
            source: found.source.display().to_string(),
            native: found.native.clone(),
            agent: found.agent.to_owned(),
            session: Some(session.id),
            stamp: found.stamp.clone(),
            cursor,
            seq: session.last_seq,
            gone_at: None,
        };
        Ok(self.store.set_import(import).await?)
    }

    /// From now on the agent's own session holds all of the conversation.
    async fn hold_all(&self, request: &HandoverRequest, native: &str) -> Result<()> {
        let (id, name) = (request.session, request.conversation.as_str());
        let conversations = self.store.conversations(id).await?;
        let own = conversations.into_iter().find(|one| one.name == name);
        let (upto, messages) = own.map_or((0, 0), |own| (own.last_seq, own.messages));
        let before = self.store.watermark(id, name, &request.agent).await?;
        let settings = before.map(|before| before.settings).unwrap_or_default();
        let held = Fact::Holds(Watermark {
            native: native.to_owned(),
            upto,
            messages,
            settings,
            left_at: Some(self.clock.now()),
            ..Watermark::nothing(name, &request.agent)
        });
        self.change(id, |_| Ok(held.clone())).await?;
        Ok(())
    }
}

fn not_written(request: &HandoverRequest, why: &str) -> Error {
    Error::NotWritten { agent: request.agent.clone(), why: why.to_owned() }
}

fn cost_of(message: &Message) -> u64 {
    let text = message.price.tokens.unwrap_or_else(|| tokens::count(message.body.head()));
    let calls = message.extras.tool_calls.as_ref().map_or(0, |calls| calls.to_string().len() / 3);
    u64::from(text) + calls as u64 + FRAME_TOKENS
}

/// Where the newest messages begin that fit, at a request if there is one among them.
fn newest_within(messages: &[Message], room: u64) -> usize {
    let mut left = room;
    let mut from = messages.len();
    for (at, message) in messages.iter().enumerate().rev() {
        match left.checked_sub(cost_of(message)) {
            Some(rest) => left = rest,
            None => break,
        }
        from = at;
    }
    let is_request = |message: &Message| message.role == rethread_domain::Role::User;
    messages[from..].iter().position(is_request).map_or(from, |at| from + at)
}
