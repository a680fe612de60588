//! Compares an agent's replay with the conversation: is it the same one, and how much of it does it hold?

use rethread_domain::message::{Extras, NewMessage};
use rethread_domain::opening::Watermark;
use rethread_domain::price::Price;
use rethread_domain::replay::{self, Expected, Match, Request, Said};
use rethread_domain::{Message, Role, Seq, SessionId};
use rethread_store::{Append, Order, Span};

use super::attached::Attached;
use super::open::OpenOptions;
use super::tell::NativeContents;
use crate::{Engine, Result};

/// Marks messages that were said in the agent's own program, with the id of its session.
pub(crate) const TAKEN_IN: &str = "taken_in";
/// How many messages of the session are searched for requests that a replay has to contain.
const LOOKED_THROUGH: u32 = 400;

/// What an agent's native session holds, judged by its replay.
#[derive(Debug, Clone, Default)]
pub(super) struct ReplayContents {
    pub(super) held: NativeContents,
    /// What was said there but is not recorded here.
    pub(super) more: Vec<Said>,
    /// Whether the replay shows the whole conversation.
    pub(super) is_certain: bool,
}

impl Engine {
    /// What the replayed session holds; `None` if it is another conversation.
    pub(super) async fn seen(
        &self,
        options: &OpenOptions,
        watermark: &Watermark,
        said: &[Said],
        reuses_ids: bool,
    ) -> Result<Option<ReplayContents>> {
        let assumed =
            ReplayContents { held: NativeContents::of(watermark), ..ReplayContents::default() };
        let messages = self.newest(options.session, &options.conversation).await?;
        let ours = requests(&messages, watermark);
        let is_comparable = ours.iter().any(|request| !request.text.is_empty());
        if !is_comparable || !said.iter().any(|one| one.is_user) {
            return Ok(Some(assumed));
        }
        let expected = Expected { in_doubt: watermark.in_doubt, reuses_ids };
        let Some(found) = replay::compare(said, &ours, expected) else { return Ok(None) };
        let upto = upto(&messages, &ours, watermark, &found);
        let held = assumed.held;
        let held = if upto == held.upto { held } else { held.moved(&messages, upto) };
        let held = held.with_taken_in(&messages, &watermark.native, found.newest);
        let more = unrecorded(found.more, &messages, watermark);
        Ok(Some(ReplayContents { held, more, is_certain: true }))
    }

    /// The newest messages of a conversation, in order.
    async fn newest(&self, session: SessionId, conversation: &str) -> Result<Vec<Message>> {
        let span = Span { from: 1, to: Seq::MAX, order: Order::NewestFirst, limit: LOOKED_THROUGH };
        let mut messages = self.store.heads(session, span).await?;
        messages.retain(|message| message.conversation == conversation);
        messages.reverse();
        Ok(messages)
    }

    /// Records, once, what was said in the agent's own program, in the native session of that id.
    pub(super) async fn take_in_native(
        &self,
        session: SessionId,
        attached: &mut Attached,
        native: &str,
        more: Vec<Said>,
    ) -> Result<()> {
        if more.is_empty() {
            return Ok(());
        }
        let now = self.clock.now();
        let (conversation, agent) = (&attached.opening.conversation, &attached.opening.agent);
        let message = |said: Said| {
            let agent = Some(agent.clone()).filter(|_| !said.is_user);
            let mut extras = Extras { agent, ..Extras::default() };
            extras.other.insert(TAKEN_IN.to_owned(), native.into());
            NewMessage {
                id: None,
                role: if said.is_user { Role::User } else { Role::Assistant },
                content: said.text,
                at: now,
                conversation: conversation.clone(),
                extras,
                price: Price::default(),
            }
        };
        let messages = self.prepared(more.into_iter().map(message).collect());
        let append = Append { at: Some(now), ..Append::new(session, messages) };
        self.store.append(append).await?;
        self.follow_on(session).await;
        let messages = self.newest(session, conversation).await?;
        let held = std::mem::take(&mut attached.held);
        attached.held = held.with_taken_in(&messages, &attached.native, Seq::MAX);
        Ok(())
    }
}

/// What was said in the agent's own program. A request of ours may be in the replay beyond the watermark, if its turn failed: it
/// is already recorded.
fn unrecorded(more: Vec<Said>, messages: &[Message], watermark: &Watermark) -> Vec<Said> {
    let ours = messages.iter().filter(|one| one.role == Role::User && one.seq > watermark.upto);
    let ours: Vec<&str> = ours.map(|message| message.body.head().trim()).collect();
    let mut is_ours = false;
    more.into_iter()
        .filter(|said| {
            if said.is_user {
                is_ours = ours.iter().any(|text| !text.is_empty() && said.text.contains(text));
            }
            !is_ours
        })
        .collect()
}

fn is_taken_in(message: &Message, native: &str) -> bool {
    message.extras.other.get(TAKEN_IN).and_then(|from| from.as_str()) == Some(native)
}

/// The requests that the native session should hold, with the beginnings of their answers.
fn requests(messages: &[Message], watermark: &Watermark) -> Vec<Request> {
    let is_held = |message: &Message| {
        watermark.has(message.seq)
            || watermark.in_doubt == Some(message.seq)
            || is_taken_in(message, &watermark.native)
    };
    let mut requests: Vec<Request> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        if message.role != Role::User || !is_held(message) {
            continue;
        }
        let after = messages[at + 1..].iter().take_while(|next| next.role != Role::User);
        let answer = after.into_iter().find(|next| next.role == Role::Assistant);
        requests.push(Request {
            seq: message.seq,
            text: comparable(message).unwrap_or_default(),
            answer: answer.and_then(comparable),
        });
    }
    requests
}

/// The text, if the agent has the same one: not if secrets were masked.
fn comparable(message: &Message) -> Option<String> {
    let is_whole = message.purged_at.is_none() && message.extras.secrets.is_empty();
    is_whole.then(|| message.body.head().to_owned()).filter(|text| !text.contains("[redacted"))
}

/// Up to which message the session holds the conversation, judged by the newest request in it.
fn upto(messages: &[Message], ours: &[Request], watermark: &Watermark, found: &Match) -> Seq {
    let before = |seq: Seq| {
        let before = messages.iter().rev().find(|message| message.seq < seq);
        before.map_or(0, |message| message.seq).min(watermark.upto)
    };
    let is_compared =
        |seq: Seq| ours.iter().any(|request| request.seq == seq && !request.text.is_empty());
    let next = ours.iter().find(|request| request.seq > found.newest && !request.text.is_empty());
    if let Some(next) = next {
        return before(next.seq);
    }
    match watermark.in_doubt {
        Some(doubtful) if doubtful == found.newest => (),
        Some(doubtful) if found.has_doubtful => return watermark.upto.max(doubtful),
        Some(doubtful) if is_compared(doubtful) => return before(doubtful),
        _ => return watermark.upto,
    }
    // The request is there. Is the part of the answer before the interruption there too?
    let after = messages.iter().filter(|message| message.seq > found.newest);
    let answer: Vec<&Message> = after.take_while(|message| message.role != Role::User).collect();
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let replayed = plain(&found.answer);
    let texts = answer.iter().filter(|message| message.role == Role::Assistant);
    let mut texts = texts.map(|message| plain(message.body.head())).filter(|text| !text.is_empty());
    match (answer.last(), texts.next()) {
        (Some(last), Some(first)) if replayed.contains(&first) => {
            if texts.all(|text| replayed.contains(&text)) { last.seq } else { found.newest }
        }
        _ => found.newest,
    }
}

impl NativeContents {
    pub(super) fn of(watermark: &Watermark) -> Self {
        let beyond = watermark.beyond.clone();
        Self { upto: watermark.upto, beyond, messages: watermark.messages }
    }

    /// Adds what was recorded from the session itself, up to the request `newest` and its answer, which the watermark does not
    /// cover before the next turn.
    fn with_taken_in(mut self, messages: &[Message], native: &str, newest: Seq) -> Self {
        let after: Vec<&Message> = messages.iter().filter(|one| one.seq > self.upto).collect();
        let is_new = |one: &Message| is_taken_in(one, native) && !self.is_beyond(one.seq);
        let Some(last) = after.iter().rposition(|one| one.seq <= newest && is_new(one)) else {
            return self;
        };
        // An answer belongs to its request, which is the newest.
        let is_answer = |one: &&&Message| one.role != Role::User && is_taken_in(one, native);
        let last = last + after[last + 1..].iter().take_while(is_answer).count();
        let count = after[..=last].iter().filter(|one| is_new(one)).count();
        self.messages += u32::try_from(count).unwrap_or(0);
        let is_held = |(at, one): (usize, &Message)| {
            at <= last && is_taken_in(one, native) || self.is_beyond(one.seq)
        };
        let held: Vec<bool> =
            after.iter().enumerate().map(|(at, one)| is_held((at, one))).collect();
        let mut runs: Vec<(Seq, Seq)> = Vec::new();
        for run in
            (0..after.len()).collect::<Vec<_>>().chunk_by(|one, next| held[*one] == held[*next])
        {
            if let (Some(first), Some(last)) = (run.first(), run.last())
                && held[*first]
            {
                runs.push((after[*first].seq, after[*last].seq));
            }
        }
        // Only where all messages in between are known to be looked at.
        let is_joined = messages.len() > after.len() || self.upto == 0;
        if is_joined && held.first() == Some(&true) {
            self.upto = runs.remove(0).1;
        }
        self.beyond = runs;
        self
    }

    /// Moves the watermark to another message of the conversation.
    fn moved(self, messages: &[Message], upto: Seq) -> Self {
        let count = |first: Seq, last: Seq| {
            let between = messages.iter().filter(|one| one.seq > first && one.seq <= last);
            u32::try_from(between.count()).unwrap_or(u32::MAX)
        };
        let beyond: u32 =
            self.beyond.iter().map(|(first, last)| count(first.saturating_sub(1), *last)).sum();
        let known = self.messages.saturating_sub(beyond);
        let known = if upto > self.upto {
            known + count(self.upto, upto)
        } else {
            known.saturating_sub(count(upto, self.upto))
        };
        Self { upto, beyond: Vec::new(), messages: known }
    }
}
