//! What of a session that is read anew is known already, and where it took another way. Pure.

use std::collections::{HashSet, VecDeque};

use rethread_domain::message::{Body, NewMessage};
use rethread_domain::{Message, Role, Seq, conversation};
use rethread_import::{PASSING, UNANSWERED};

use crate::agents::RequestId;

/// Stands in the id of a message that takes the place of an earlier one, which said less.
pub(super) const REVISED: &str = "+revised-";

/// Begins the id of a message that a hook handed over before the agent wrote it down itself.
pub(super) const HOOKED: &str = "hook-";

/// A message that was imported before, or handed over by a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) seq: Seq,
    pub(super) id: String,
    pub(super) role: Role,
    pub(super) bytes: u64,
    pub(super) head: String,
    pub(super) is_purged: bool,
}

impl Stored {
    /// Whether the agent's own session need not have it.
    fn is_passing(&self) -> bool {
        let is_passing = self.id.ends_with(UNANSWERED) || self.id.ends_with(PASSING);
        is_passing || self.id.contains(REVISED) || self.is_hooked()
    }

    fn is_hooked(&self) -> bool {
        self.id.starts_with(HOOKED)
    }

    /// Whether the agent has now written down what its hook handed over.
    fn is_handed_over(&self, message: &NewMessage) -> bool {
        let is_cut = self.head.len() as u64 != self.bytes;
        self.is_hooked()
            && self.role == message.role
            && (self.is_purged || is_same_text(&self.head, is_cut, &message.content))
    }

    fn revises(&self, id: &str) -> bool {
        self.id.strip_prefix(id).is_some_and(|rest| rest.starts_with(REVISED))
    }
}

/// Whether two texts say the same: agents break lines anew, and put quotes around what they are given. Of the first there
/// may be only the beginning.
pub(super) fn is_same_text(one: &str, is_cut: bool, other: &str) -> bool {
    fn words(text: &str) -> impl Iterator<Item = &str> {
        text.trim().trim_matches('"').split_whitespace()
    }
    if !is_cut {
        return words(one).eq(words(other));
    }
    // The last word may be cut off.
    let known = words(one).count().saturating_sub(1);
    words(one).take(known).eq(words(other).take(known))
}

/// What is to be done with a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    /// It is there.
    Known,
    /// It comes after all that is there.
    Add,
    /// It is the last one that is there, and says more now.
    Revise,
    /// From here on the agent has another conversation than it had: it forks after this message.
    Fork(Seq),
}

/// The conversation as it is here, while the agent's own is read beside it.
#[derive(Debug, Default)]
pub(super) struct Merge {
    stored: Vec<Stored>,
    ids: HashSet<String>,
    at: usize,
    /// What hooks handed over and was not seen in the agent's own session yet, though it comes before what is read now.
    handed_over: VecDeque<Stored>,
    /// The newest message that a hook handed over and the agent has written down by now.
    pub(super) confirmed: Option<Seq>,
    /// Requests that Rethread itself has recorded, and sent to the agent.
    own: Vec<(Seq, String)>,
    is_own_turn: bool,
    /// Whether messages of Rethread's own are among those of the conversation.
    pub(super) has_own: bool,
}

impl Merge {
    pub(super) fn hear(&mut self, message: Message) {
        let Some(id) = message.given_id.clone().filter(|id| !RequestId::is_one(id)) else {
            if message.conversation == conversation::DEFAULT {
                self.has_own = true;
                let text = message.body.head().trim().to_owned();
                if message.role == Role::User && !text.is_empty() {
                    self.own.push((message.seq, text));
                }
            }
            return;
        };
        self.ids.insert(id.clone());
        if message.conversation == conversation::DEFAULT {
            self.stored.push(Stored {
                seq: message.seq,
                id,
                role: message.role,
                bytes: message.body.bytes(),
                is_purged: message.purged_at.is_some(),
                head: match message.body {
                    Body::Whole(text) => text,
                    Body::Ends { head, .. } => head,
                },
            });
        }
    }

    /// Only what comes at the end of the conversation is given.
    pub(super) fn skip_to_end(&mut self) {
        self.at = self.stored.len();
        self.handed_over = self.stored.iter().filter(|one| one.is_hooked()).cloned().collect();
    }

    /// The newest message that both have.
    pub(super) fn common(&self) -> Option<Seq> {
        self.at.checked_sub(1).and_then(|last| self.stored.get(last)).map(|one| one.seq)
    }

    /// Whether messages are here that the agent does not have any more.
    pub(super) fn is_longer(&self) -> bool {
        self.stored[self.at.min(self.stored.len())..].iter().any(|one| !one.is_passing())
    }

    pub(super) fn next(&mut self, message: &NewMessage) -> Next {
        let id = message.id.as_deref().unwrap_or_default();
        if message.conversation != conversation::DEFAULT {
            return if self.ids.contains(id) { Next::Known } else { Next::Add };
        }
        // Calls that had no result when they were imported are only told as such until they have one.
        while let Some(one) =
            self.stored.get(self.at).filter(|one| one.id != id && one.is_passing())
        {
            let confirmed = Some(one.seq).filter(|_| one.is_handed_over(message));
            self.at += 1;
            if confirmed.is_some() {
                self.confirmed = confirmed;
                return Next::Known;
            }
            // The agent may write down something else before it.
            if let Some(hooked) = self.stored.get(self.at - 1).filter(|one| one.is_hooked()) {
                self.handed_over.push_back(hooked.clone());
            }
        }
        let Some(one) = self.stored.get(self.at) else { return self.after(message, id) };
        if one.id != id {
            let (before, after) = (one.seq, self.common().unwrap_or(0));
            let is_known = self.is_own(message, before) || self.confirm(message);
            return if is_known { Next::Known } else { Next::Fork(after) };
        }
        let mut latest = one;
        self.is_own_turn = false;
        self.at += 1;
        while let Some(next) = self.stored.get(self.at).filter(|next| next.revises(id)) {
            latest = next;
            self.at += 1;
        }
        let text = &message.content;
        let is_same =
            latest.is_purged || latest.bytes == text.len() as u64 && text.starts_with(&latest.head);
        if is_same || self.at < self.stored.len() { Next::Known } else { Next::Revise }
    }

    /// What comes after all that was imported: new, unless Rethread has written it down itself.
    fn after(&mut self, message: &NewMessage, id: &str) -> Next {
        if self.is_own(message, Seq::MAX) || self.ids.contains(id) {
            return Next::Known;
        }
        if self.confirm(message) { Next::Known } else { Next::Add }
    }

    /// Whether the message belongs to a turn that Rethread has recorded itself, before the given message.
    fn is_own(&mut self, message: &NewMessage, before: Seq) -> bool {
        if message.role == Role::User {
            let text = message.content.as_str();
            let is_it = |(seq, own): &(Seq, String)| *seq < before && text.contains(own.as_str());
            let own = self.own.iter().position(is_it);
            self.is_own_turn = own.is_some();
            if let Some(own) = own {
                self.own.drain(..=own);
            }
        }
        self.is_own_turn
    }

    /// Whether a hook has handed this message over before.
    fn confirm(&mut self, message: &NewMessage) -> bool {
        let handed_over = self.handed_over.iter().position(|one| one.is_handed_over(message));
        let Some(known) = handed_over else { return false };
        self.confirmed = self.handed_over.drain(..=known).next_back().map(|one| one.seq);
        true
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use rethread_domain::message::Extras;
    use rethread_domain::price::Price;

    use super::*;

    fn new(id: &str, role: Role, text: &str) -> NewMessage {
        NewMessage {
            id: Some(id.to_owned()),
            role,
            content: text.to_owned(),
            at: Timestamp::UNIX_EPOCH,
            conversation: "main".to_owned(),
            extras: Extras::default(),
            price: Price::default(),
        }
    }

    fn stored(seq: Seq, id: Option<&str>, role: Role, text: &str) -> Message {
        Message {
            seq,
            given_id: id.map(str::to_owned),
            role,
            at: Timestamp::UNIX_EPOCH,
            conversation: "main".to_owned(),
            body: Body::Whole(text.to_owned()),
            extras: Extras::default(),
            price: Price::default(),
            purged_at: None,
        }
    }

    fn merge(all: &[(Option<&str>, Role, &str)]) -> Merge {
        let mut merge = Merge::default();
        for (seq, (id, role, text)) in (1..).zip(all) {
            merge.hear(stored(seq, *id, *role, text));
        }
        merge
    }

    #[test]
    fn what_is_there_is_known_and_the_rest_is_new() {
        let mut merge =
            merge(&[(Some("a"), Role::User, "one"), (Some("b"), Role::Assistant, "two")]);
        assert_eq!(merge.next(&new("a", Role::User, "one")), Next::Known);
        assert_eq!(merge.next(&new("b", Role::Assistant, "two")), Next::Known);
        assert_eq!(merge.next(&new("c", Role::User, "three")), Next::Add);
    }

    #[test]
    fn another_way_forks_where_it_leaves() {
        let mut merge =
            merge(&[(Some("a"), Role::User, "one"), (Some("b"), Role::Assistant, "two")]);
        assert_eq!(merge.next(&new("a", Role::User, "one")), Next::Known);
        assert_eq!(merge.next(&new("x", Role::Assistant, "other")), Next::Fork(1));
        assert!(merge.is_longer());
    }

    #[test]
    fn a_call_that_has_its_result_now_does_not_fork() {
        let asked = format!("c{UNANSWERED}");
        let mut merge = merge(&[(Some("a"), Role::User, "one"), (Some(&asked), Role::Tool, "sh")]);
        assert_eq!(merge.next(&new("a", Role::User, "one")), Next::Known);
        assert_eq!(merge.next(&new("c", Role::Tool, "sh\ndone")), Next::Add);
        assert!(!merge.is_longer());
    }

    #[test]
    fn an_answer_that_went_on_is_revised() {
        let mut merge =
            merge(&[(Some("a"), Role::User, "one"), (Some("b"), Role::Assistant, "tw")]);
        assert_eq!(merge.next(&new("a", Role::User, "changed")), Next::Known);
        assert_eq!(merge.next(&new("b", Role::Assistant, "two")), Next::Revise);
    }

    #[test]
    fn what_was_revised_goes_on() {
        let known =
            [(Some("b"), Role::Assistant, "tw"), (Some("b+revised-1"), Role::Assistant, "two")];
        let mut same = merge(&known);
        assert_eq!(same.next(&new("b", Role::Assistant, "two")), Next::Known);
        assert_eq!(same.next(&new("c", Role::User, "three")), Next::Add);
        let mut more = merge(&known);
        assert_eq!(more.next(&new("b", Role::Assistant, "two and more")), Next::Revise);
    }

    #[test]
    fn what_a_hook_handed_over_is_not_taken_in_again() {
        let known = [
            (Some("a"), Role::User, "one"),
            (Some("b"), Role::Assistant, "two"),
            (Some("hook-1"), Role::User, "three  words\nhere"),
        ];
        // Read as a whole, and from where it was left.
        let mut whole = merge(&known);
        assert_eq!(whole.next(&new("a", Role::User, "one")), Next::Known);
        assert_eq!(whole.next(&new("b", Role::Assistant, "two")), Next::Known);
        let mut rest = merge(&known[2..]);
        rest.skip_to_end();
        for mut merge in [whole, rest] {
            assert_eq!(merge.next(&new("c", Role::User, "\"three words here\"")), Next::Known);
            assert!(merge.confirmed.is_some());
            assert_eq!(merge.next(&new("d", Role::Assistant, "four")), Next::Add);
            assert_eq!(merge.next(&new("e", Role::User, "three words here")), Next::Add);
            assert!(!merge.is_longer());
        }
    }

    #[test]
    fn what_a_hook_handed_over_is_recognised_behind_something_else() {
        // A note comes first in the agent's own session; it was not there when the hook was called.
        let mut first = merge(&[(Some("hook-1"), Role::User, "one")]);
        assert_eq!(first.next(&new("n", Role::System, "note")), Next::Add);
        assert_eq!(first.next(&new("a", Role::User, "one")), Next::Known);
        assert_eq!(first.confirmed, Some(1));
        assert_eq!(first.next(&new("b", Role::Assistant, "two")), Next::Add);
        // Read anew, it is not taken for another conversation.
        let mut again = merge(&[
            (Some("hook-1"), Role::User, "one"),
            (Some("n"), Role::System, "note"),
            (Some("b"), Role::Assistant, "two"),
        ]);
        assert_eq!(again.next(&new("n", Role::System, "note")), Next::Known);
        assert_eq!(again.next(&new("a", Role::User, "one")), Next::Known);
        assert_eq!(again.next(&new("b", Role::Assistant, "two")), Next::Known);
        assert_eq!(again.next(&new("c", Role::User, "one")), Next::Add);
    }

    #[test]
    fn what_only_a_hook_heard_stays_and_the_rest_follows() {
        let known = [
            (Some("a"), Role::User, "one"),
            (Some("hook-1"), Role::User, "never written down"),
            (Some("hook-2"), Role::User, "again"),
        ];
        let mut merge = merge(&known);
        assert_eq!(merge.next(&new("a", Role::User, "one")), Next::Known);
        assert_eq!(merge.next(&new("b", Role::User, "again")), Next::Known);
        assert_eq!(merge.next(&new("c", Role::Assistant, "again")), Next::Add);
        // What was said is not taken for what was asked.
        let mut other = super::tests::merge(&known[1..]);
        assert_eq!(other.next(&new("b", Role::Assistant, "again")), Next::Add);
    }

    #[test]
    fn a_turn_that_rethread_recorded_is_not_taken_in_again() {
        let mut merge = merge(&[
            (Some("a"), Role::User, "one"),
            (None, Role::User, "asked here"),
            (None, Role::Assistant, "answered here"),
        ]);
        assert_eq!(merge.next(&new("a", Role::User, "one")), Next::Known);
        assert_eq!(merge.next(&new("p", Role::User, "history\nasked here")), Next::Known);
        assert_eq!(merge.next(&new("q", Role::Assistant, "answered here")), Next::Known);
        assert_eq!(merge.next(&new("r", Role::User, "asked there")), Next::Add);
        assert_eq!(merge.next(&new("s", Role::Assistant, "answered there")), Next::Add);
    }
    #[test]
    fn a_turn_that_rethread_recorded_is_known_by_whatever_door_it_came() {
        let request = RequestId::new(uuid::Uuid::from_u128(7)).to_string();
        let known = [
            (Some("a"), Role::User, "one"),
            (Some("b"), Role::Assistant, "two"),
            (Some(request.as_str()), Role::User, "asked in the browser"),
            (None, Role::Assistant, "answered here"),
            (Some("r"), Role::User, "asked there"),
            (Some("s"), Role::Assistant, "answered there"),
        ];
        let native = [
            ("p", Role::User, "asked in the browser"),
            ("q", Role::Assistant, "answered here"),
            ("r", Role::User, "asked there"),
            ("s", Role::Assistant, "answered there"),
        ];
        // Read as a whole, and from where it was left.
        let mut whole = merge(&known);
        assert_eq!(whole.next(&new("a", Role::User, "one")), Next::Known);
        assert_eq!(whole.next(&new("b", Role::Assistant, "two")), Next::Known);
        let mut rest = merge(&known[2..4]);
        rest.skip_to_end();
        for (mut merge, known) in [(whole, 4), (rest, 2)] {
            assert!(merge.has_own);
            for (at, (id, role, text)) in native.iter().enumerate() {
                let expected = if at < known { Next::Known } else { Next::Add };
                assert_eq!(merge.next(&new(id, *role, text)), expected, "{id}");
            }
        }
    }
}
