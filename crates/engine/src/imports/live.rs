//! Sessions that are going on in an agent's own program: what its hooks hand over, and what they give back.
//!
//! What the agent has written down is imported from there, as far as it is new. What it has not written down yet is kept
//! under an id of its own ([`HOOKED`]), and recognised when the agent's own record of it is read.

use std::collections::{HashMap, HashSet};

use rethread_domain::context::Limits;
use rethread_domain::conversation::DEFAULT;
use rethread_domain::message::{Body, Extras, Message, NewMessage, Role};
use rethread_domain::opening::Underway;
use rethread_domain::price::Price;
use rethread_domain::session::Move;
use rethread_domain::{Session, SessionId};
use rethread_import::hook::{Call, Moment};
use rethread_import::{self as import, Found, Head};
use rethread_store::{self as store, Append, Drive, Import, ListFilter, Order, Span};

use super::begin::began;
use super::merge::{HOOKED, is_same_text};
use super::story::own_words;
use super::take::Here;
use super::{ImportOptions, ImportReport, Known, session_id};
use crate::{ContextOptions, Engine, Error, Result};

/// So many of the last messages say whether a prompt is the first one.
const LOOKED_AT: u32 = 8;
/// So many of the last sessions of a folder are looked at for one that somebody spoke in.
const CANDIDATES: u32 = 8;

/// What an agent is given with the first prompt of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Injection {
    /// For the model.
    pub context: String,
    /// The session that it tells of, and how many tokens it has.
    pub session: SessionId,
    pub tokens: u32,
}

/// What came of a call.
#[derive(Default)]
pub(super) struct Heard {
    /// Nothing where the session is not to be touched.
    pub(super) session: Option<SessionId>,
    pub(super) injection: Option<Injection>,
    /// Of an agent that streams, once its turn is under way: nobody else ends it while this is held.
    pub(super) drive: Option<Drive>,
}

/// A session that a hook speaks of, as it is here.
struct Live {
    id: SessionId,
    is_new: bool,
}

/// What a hook hands over itself.
struct Hooked<'a> {
    role: Role,
    text: &'a str,
    /// Whether the answer is streamed.
    streams: bool,
}

impl Engine {
    /// Takes in what happened in a session of an agent's own. With the first prompt, gives where the last session of the
    /// folder stopped and what of it matters to the prompt, within `inject`.
    pub async fn hear_hook(
        &self,
        call: &Call,
        options: &ImportOptions,
        inject: Option<Limits>,
    ) -> Result<Option<Injection>> {
        Ok(self.hear_hook_of(call, options, inject, false).await?.injection)
    }

    /// The same of an agent that may stream: then a turn is under way from its prompt on. Gives the session too, unless it
    /// is not to be touched.
    pub(super) async fn hear_hook_of(
        &self,
        call: &Call,
        options: &ImportOptions,
        inject: Option<Limits>,
        streams: bool,
    ) -> Result<Heard> {
        let options = &ImportOptions { is_live: call.moment != Moment::End, ..options.clone() };
        let Some((live, is_read)) = self.take_in_live(call, options).await? else {
            return Ok(Heard::default());
        };
        let mut heard = Heard { session: Some(live.id), ..Heard::default() };
        self.take_in_call(call, options, inject, (&live, is_read), streams, &mut heard).await?;
        Ok(heard)
    }

    /// Takes in what the call itself carries.
    async fn take_in_call(
        &self,
        call: &Call,
        options: &ImportOptions,
        inject: Option<Limits>,
        (live, is_read): (&Live, bool),
        streams: bool,
        heard: &mut Heard,
    ) -> Result<()> {
        // Compared as they are in the store, where they may be masked or cut.
        let most = usize::try_from(options.most_bytes).unwrap_or(usize::MAX);
        let stored = |text: &Option<String>| {
            text.as_deref().map(|text| self.prepared_text(&text[..text.floor_char_boundary(most)]))
        };
        let prompt = stored(&call.prompt.as_deref().map(own_words));
        match (call.moment, prompt.as_deref(), stored(&call.answer).as_deref()) {
            // Nobody has said anything yet, beside what was retold.
            (Moment::Prompt, Some(""), _) => Ok(()),
            (Moment::Prompt, Some(prompt), _) => {
                let newest = self.newest_of(live).await?;
                let is_there = newest
                    .first()
                    .is_some_and(|last| !is_hooked(last) && says(last, Role::User, prompt));
                if !is_there {
                    let new = Hooked { role: Role::User, text: prompt, streams };
                    heard.drive = self.keep_hooked(live, call, options, new, &newest).await?;
                }
                let is_first = newest.iter().all(|one| says(one, Role::User, prompt));
                if let Some(limits) = inject.filter(|_| is_first) {
                    heard.injection = self.injection(live.id, call, options, limits).await?;
                }
                Ok(())
            }
            // An agent that keeps no record which can be read says what it answered.
            (Moment::Stop, _, Some(answer)) if !is_read => {
                let newest = self.newest_of(live).await?;
                if !newest.iter().any(|one| says(one, Role::Assistant, answer)) {
                    let new = Hooked { role: Role::Assistant, text: answer, streams: false };
                    self.keep_hooked(live, call, options, new, &newest).await?;
                }
                Ok(())
            }
            (Moment::End, ..) if !live.is_new => match self.settle_as(live.id, Move::Pause).await {
                Ok(_) | Err(Error::Refused(_)) => Ok(()),
                Err(error) => Err(error),
            },
            _ => Ok(()),
        }
    }

    /// Imports what is new in what the agent keeps of the session, and of an agent that it started. Gives the session, and
    /// whether the agent's record of it can be read; nothing where it is not to be touched.
    async fn take_in_live(
        &self,
        call: &Call,
        options: &ImportOptions,
    ) -> Result<Option<(Live, bool)>> {
        let found = located(call, call.transcript.as_deref(), &call.native, options);
        let row = match &found {
            Some(found) => self.import_row(found).await?,
            None => None,
        };
        let Some(mut live) = self.session_of(call, row.as_ref()).await? else { return Ok(None) };
        if let Some(found) = &found
            && let Some(id) = self.import_live(options, found, row, &live).await?
        {
            live = Live { id, is_new: false };
        }
        if let Some(child) = &call.child
            && let Some(found) = located(call, Some(child), "", options)
        {
            let row = self.import_row(&found).await?;
            let own = Live { id: SessionId::generate(), is_new: true };
            self.import_live(options, &found, row, &own).await?;
        }
        Ok(Some((live, found.is_some())))
    }

    async fn import_row(&self, found: &Found) -> Result<Option<Import>> {
        let source = found.source.display().to_string();
        Ok(self.store.import_of(&source, &found.native).await?)
    }

    /// The session here: the one that it was imported into, the one that a hook began, one that holds it already, or a
    /// new one. `None` where it was deleted or put away.
    async fn session_of(&self, call: &Call, row: Option<&Import>) -> Result<Option<Live>> {
        let own = session_id(call.agent, &call.native, "");
        let id = row.and_then(|row| row.session).unwrap_or(own);
        match self.what_is_here(id, row).await? {
            Here::PutAway => return Ok(None),
            Here::Session(_) => return Ok(Some(Live { id, is_new: false })),
            Here::Nothing => (),
        }
        let Some(holder) = self.store.holder_of(call.agent, &call.native).await? else {
            return Ok(Some(Live { id, is_new: true }));
        };
        match self.what_is_here(holder, None).await? {
            Here::Session(_) => Ok(Some(Live { id: holder, is_new: false })),
            Here::PutAway | Here::Nothing => Ok(None),
        }
    }

    /// Imports what is new in one session; gives which of ours it is in then.
    async fn import_live(
        &self,
        options: &ImportOptions,
        found: &Found,
        row: Option<Import>,
        live: &Live,
    ) -> Result<Option<SessionId>> {
        let key = (found.source.display().to_string(), found.native.clone());
        let known = Known {
            rows: row.map(|row| (key, row)).into_iter().collect::<HashMap<_, _>>(),
            held: HashMap::new(),
            opened: HashMap::new(),
            imported: HashSet::new(),
            live: Some(live.id).filter(|_| !live.is_new),
        };
        let mut report = ImportReport::default();
        self.import_one(options, &known, found, &mut report).await?;
        for trouble in &report.troubles {
            let (path, at, why) = (&trouble.path, trouble.at, &trouble.why);
            tracing::warn!(agent = found.agent, path, at, why, "not all of a session can be read");
        }
        Ok(self.import_row(found).await?.and_then(|row| row.session))
    }

    /// The last messages, the newest first.
    async fn newest_of(&self, live: &Live) -> Result<Vec<Message>> {
        if live.is_new {
            return Ok(Vec::new());
        }
        let span = Span { from: 1, to: u32::MAX, order: Order::NewestFirst, limit: LOOKED_AT };
        let mut newest = self.store.heads(live.id, span).await?;
        newest.retain(|message| message.conversation == DEFAULT);
        Ok(newest)
    }

    /// Keeps what the agent has not written down yet. What its own session holds stays as it was: there it may be missing.
    async fn keep_hooked(
        &self,
        live: &Live,
        call: &Call,
        options: &ImportOptions,
        new: Hooked<'_>,
        newest: &[Message],
    ) -> Result<Option<Drive>> {
        let Hooked { role, text, streams } = new;
        let place = newest.first().map_or(0, |last| last.seq).to_string();
        let place = call.prompt_id.as_deref().unwrap_or(&place);
        let digest = import::digest_of(&[call.agent, &call.native, place, role.as_str(), text]);
        let is_answer = role == Role::Assistant;
        let mut message = NewMessage {
            id: Some(format!("{HOOKED}{digest}")),
            role,
            content: text.to_owned(),
            at: self.clock.now(),
            conversation: DEFAULT.to_owned(),
            extras: Extras { agent: is_answer.then(|| call.agent.to_owned()), ..Extras::default() },
            price: Price::default(),
        };
        self.prepare(&mut message);
        let mut append = Append::new(live.id, vec![message]);
        if live.is_new {
            let (native, folder) = (call.native.clone(), call.folder.clone());
            let head = Head { native, folder, ..Head::default() };
            append.session = self.start_imported(options, call.agent, &head).await?;
            append.facts = began(call.agent, &head);
        }
        // Held before the turn is under way: a turn that nobody holds is taken for one that was cut off.
        let drive = if streams { self.store.drive(append.session, DEFAULT).await? } else { None };
        append.begins = drive.is_some().then(|| Underway {
            conversation: DEFAULT.to_owned(),
            agent: call.agent.to_owned(),
            model: None,
            request: 0,
            watermark: None,
            keeps_request: None,
        });
        match self.store.append(append).await {
            // The same hook was called before.
            Ok(_) | Err(store::Error::IdTaken { .. }) => Ok(drive),
            Err(error) => Err(error.into()),
        }
    }

    /// Where the last session of the folder stopped, and what of it matters to the prompt.
    async fn injection(
        &self,
        own: SessionId,
        call: &Call,
        options: &ImportOptions,
        limits: Limits,
    ) -> Result<Option<Injection>> {
        let Some(folder) = call.folder.clone() else { return Ok(None) };
        let user = Some(options.user.clone());
        let filter =
            ListFilter { user, project: Some(folder), limit: CANDIDATES, ..ListFilter::default() };
        let is_told = |session: &Session| {
            session.id != own && session.last_seq > 0 && session.parent.is_none()
        };
        let Some(last) = self.store.list(&filter).await?.into_iter().find(is_told) else {
            return Ok(None);
        };
        let context =
            ContextOptions { limits, prompt: call.prompt.clone(), ..ContextOptions::default() };
        let telling = self.earlier(last.id, &context).await?;
        Ok(Some(Injection { context: telling.text, session: last.id, tokens: telling.tokens }))
    }
}

fn is_hooked(message: &Message) -> bool {
    message.given_id.as_ref().is_some_and(|id| id.starts_with(HOOKED))
}

fn says(message: &Message, role: Role, text: &str) -> bool {
    let (head, is_cut) = match &message.body {
        Body::Whole(head) => (head, false),
        Body::Ends { head, .. } => (head, true),
    };
    message.role == role && is_same_text(head, is_cut, text)
}

/// The agent's own record of a session. What cannot be read is noted: the next hook looks again.
fn located(
    call: &Call,
    path: Option<&std::path::Path>,
    native: &str,
    options: &ImportOptions,
) -> Option<Found> {
    import::find_one(call.agent, path, native, &options.roots).unwrap_or_else(|error| {
        tracing::warn!(agent = call.agent, %error, "the agent's own session cannot be read");
        None
    })
}
