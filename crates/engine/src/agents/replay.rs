//! Whose conversation an agent's own session is, and what it holds of it, by what it replays.

use rethread_domain::message::{Extras, NewMessage};
use rethread_domain::opening::Watermark;
use rethread_domain::price::Price;
use rethread_domain::replay::{self, Expected, Match, Request, Said};
use rethread_domain::{Message, Role, Seq, SessionId};
use rethread_store::{Append, Order, Span};

use super::open::{Attached, OpenOptions};
use super::tell::Held;
use crate::{Engine, Result};

/// The mark on messages that were said in an agent's own program: the id of its session.
const TAKEN_IN: &str = "taken_in";
/// Messages of the session in which requests are looked for that a replay has to contain.
const LOOKED_THROUGH: u32 = 400;

/// What an agent's own session holds, by its replay.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    pub(super) held: Held,
    /// What was said there and not here.
    pub(super) more: Vec<Said>,
    /// Whether the replay showed it.
    pub(super) is_certain: bool,
    /// Whether it will be told something that it holds.
    pub(super) repeats: bool,
}

impl Engine {
    /// What the session holds that was replayed; `None` where it is another conversation's.
    pub(super) async fn seen(
        &self,
        options: &OpenOptions,
        watermark: &Watermark,
        said: &[Said],
        reuses_ids: bool,
    ) -> Result<Option<Seen>> {
        let assumed = Seen { held: Held::of(watermark), ..Seen::default() };
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
        let (held, repeats) = held.with_taken_in(&messages, &watermark.native, found.newest);
        let more = unrecorded(found.more, &messages, watermark);
        Ok(Some(Seen { held, more, is_certain: true, repeats }))
    }

    /// The newest messages of a conversation, in their order.
    async fn newest(&self, session: SessionId, conversation: &str) -> Result<Vec<Message>> {
        let span = Span { from: 1, to: Seq::MAX, order: Order::NewestFirst, limit: LOOKED_THROUGH };
        let mut messages = self.store.heads(session, span).await?;
        messages.retain(|message| message.conversation == conversation);
        messages.reverse();
        Ok(messages)
    }

    /// Takes in what was said in the agent's own program, once.
    pub(super) async fn take_in_native(
        &self,
        session: SessionId,
        attached: &mut Attached,
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
            extras.other.insert(TAKEN_IN.to_owned(), attached.native.clone().into());
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
        let (held, repeats) = attached.held.with_taken_in(&messages, &attached.native, Seq::MAX);
        attached.held = held;
        attached.may_repeat |= repeats;
        Ok(())
    }
}

/// What was said in the agent's own program. A request of ours can be there as well without being counted as held, where its
/// turn failed: it is in the conversation already.
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

/// The requests that the agent's own session should hold, with the beginnings of their answers.
fn requests(messages: &[Message], watermark: &Watermark) -> Vec<Request> {
    let is_held = |message: &Message| {
        let beyond =
            watermark.beyond.is_some_and(|(first, last)| (first..=last).contains(&message.seq));
        message.seq <= watermark.upto
            || beyond
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

/// The text as the agent has it, too: not where secrets were taken out.
fn comparable(message: &Message) -> Option<String> {
    let is_whole = message.purged_at.is_none() && message.extras.secrets.is_empty();
    is_whole.then(|| message.body.head().to_owned()).filter(|text| !text.contains("[redacted"))
}

/// Up to which message the session holds the conversation, by the newest request that it has.
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
    // The request is there. Is what came of it until it was interrupted?
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

impl Held {
    pub(super) fn of(watermark: &Watermark) -> Self {
        Self { upto: watermark.upto, beyond: watermark.beyond, messages: watermark.messages }
    }

    /// The same with what was taken in from the session itself: the watermark does not know of it before the next turn.
    /// Gives also whether some of what it holds will be told again, because others said something in between more than
    /// once.
    fn with_taken_in(self, messages: &[Message], native: &str, newest: Seq) -> (Self, bool) {
        let after: Vec<&Message> = messages.iter().filter(|one| one.seq > self.upto).collect();
        let is_own = |one: &Message| one.seq <= newest && is_taken_in(one, native);
        let is_new = |one: &Message| is_own(one) && !self.is_beyond(one.seq);
        let Some(last) = after.iter().rposition(|one| is_new(one)) else { return (self, false) };
        // An answer belongs to its request, which is the newest.
        let is_answer = |one: &&&Message| one.role != Role::User && is_taken_in(one, native);
        let last = last + after[last + 1..].iter().take_while(is_answer).count();
        let is_held = |one: &Message| is_taken_in(one, native) || self.is_beyond(one.seq);
        let run = after[..=last].iter().rev().take_while(|one| is_held(one)).count();
        let (others, run) = after[..=last].split_at(last + 1 - run);
        let is_uncounted = |one: &&&Message| is_taken_in(one, native) && !self.is_beyond(one.seq);
        let count = after[..=last].iter().filter(is_uncounted).count();
        let messages = self.messages + u32::try_from(count).unwrap_or(0);
        let last = after[last].seq;
        if others.is_empty() {
            return (Self { upto: last, beyond: None, messages }, false);
        }
        let repeats = others.iter().any(|one| is_held(one));
        (Self { upto: self.upto, beyond: Some((run[0].seq, last)), messages }, repeats)
    }

    /// The same with the watermark at another message of the conversation.
    fn moved(self, messages: &[Message], upto: Seq) -> Self {
        let count = |first: Seq, last: Seq| {
            let between = messages.iter().filter(|one| one.seq > first && one.seq <= last);
            u32::try_from(between.count()).unwrap_or(u32::MAX)
        };
        let beyond = self.beyond.map_or(0, |(first, last)| count(first.saturating_sub(1), last));
        let known = self.messages.saturating_sub(beyond);
        let known = if upto > self.upto {
            known + count(self.upto, upto)
        } else {
            known.saturating_sub(count(upto, self.upto))
        };
        Self { upto, beyond: None, messages: known }
    }
}
