//! What has to be true after each step.

use super::History;
use super::marks::{check_prompt, marks, message_marks, update_marks};
use super::steps::{Ending, Expected};
use crate::world::{is_interrupted, told};
use rethread_domain::Role;
use rethread_domain::message::Message;
use rethread_domain::opening::{How, Watermark};
use rethread_domain::turn::Update;
use rethread_engine::agents::Talk;
use std::collections::BTreeSet;

/// Whether the own session of the agent was not told what had been said before it.
pub(super) fn is_untold(talk: &Talk) -> bool {
    talk.opening().is_some_and(|opening| opening.how == How::Untold)
}

impl History {
    /// How the conversation was opened is as it has to be, and written down.
    pub(super) fn check_opening(&self, talk: &Talk, expected: &Expected, is_asked: bool) {
        assert_eq!(talk.opening().is_none(), expected.end.leaves(), "{:?}", expected.end);
        if is_asked && let Some(opening) = talk.opening() {
            let openings = self.world.openings();
            let own = openings
                .iter()
                .rev()
                .find(|one| one.conversation == opening.conversation && one.agent == opening.agent);
            assert_eq!(own, Some(opening), "how it was opened is written down");
            assert_eq!(told(opening), expected.opened.unwrap_or_else(|| told(opening)));
        }
    }

    /// What the agent's own sessions hold after a turn that came out like this.
    pub(super) fn check_held(
        &self,
        (conversation, agent): (usize, usize),
        expected: &Expected,
        talk: Option<&Talk>,
        held_before: Option<Watermark>,
    ) {
        match expected.end {
            Ending::Stopped(_) if talk.is_some_and(is_untold) => {
                let is_lost = matches!(expected.opened, Some((_, Some("session_gone"))));
                let held = self.watermark(conversation, agent);
                let is_kept = held == held_before || is_lost && held.is_none();
                assert!(is_kept, "it holds nothing: {held:?}, {held_before:?}");
            }
            Ending::Stopped(_) => self.check_holding(conversation, agent),
            Ending::NotOpened { forgets, .. } => {
                let native = |held: Option<Watermark>| held.map(|watermark| watermark.native);
                let held = native(self.watermark(conversation, agent));
                let expected = native(held_before).filter(|_| !forgets);
                assert_eq!(held, expected, "what was rejected is forgotten, and nothing else");
                assert_eq!(told(self.world.openings().last().unwrap()).0, "failed");
            }
            Ending::Failed(_) | Ending::Interrupted(_) => (),
        }
    }

    fn check_holding(&self, conversation: usize, agent: usize) {
        let watermark = self.watermark(conversation, agent).expect("it holds the conversation");
        let own = self.conversation(conversation).unwrap();
        let (held, missed): (Vec<Message>, Vec<Message>) =
            self.log(conversation).into_iter().partition(|message| watermark.has(message.seq));
        assert_eq!(held.len(), watermark.messages as usize);
        // All of it, but for what others said while the turn ran.
        let is_late = |mark: &String| self.meanwhile.contains(mark);
        assert!(missed.iter().flat_map(message_marks).all(|mark| is_late(&mark)), "{missed:?}");
        assert_eq!(
            !watermark.beyond.is_empty(),
            watermark.upto < own.last_seq
                && missed.last().is_some_and(|one| one.seq < own.last_seq)
        );
        assert_eq!(watermark.native, self.agents[agent].last_prompt().native);
    }

    /// What an own session of the agent knows when a request has arrived is the conversation, whole and in order.
    pub(super) fn check_prompts(&mut self, conversation: usize, agent: usize, request: &str) {
        let log = self.log(conversation);
        let prompts = self.agents[agent].state().prompts.clone();
        for prompted in prompts {
            let owner = *self.owners.entry(prompted.native.clone()).or_insert(conversation);
            assert_eq!(owner, conversation, "{} has two conversations", prompted.native);
            check_prompt(&log, &prompted, request, &self.meanwhile);
        }
    }

    /// What was said without us is taken in once, where it was looked at, and with everything that came before the
    /// request.
    pub(super) fn check_natively(
        &mut self,
        conversation: usize,
        expected: &Expected,
        held_before: Option<&Watermark>,
    ) {
        let log: Vec<String> = self.log(conversation).iter().flat_map(message_marks).collect();
        let count = |mark: &String| log.iter().filter(|one| *one == mark).count();
        assert!(self.natively.values().flatten().all(|mark| count(mark) < 2), "taken in twice");
        let agents = &self.agents;
        let is_asked = |native: &String| {
            agents.iter().any(|agent| agent.state().prompts.iter().any(|one| one.native == *native))
        };
        let Some(native) = held_before.map(|held| &held.native).filter(|one| is_asked(one)) else {
            return;
        };
        let Some(said) = self.natively.remove(native) else { return };
        if matches!(expected.opened, Some(("loaded", _))) {
            assert!(said.iter().all(|mark| count(mark) == 1), "{said:?} is not in {log:?}");
        }
    }

    /// What was shown is kept, whatever happens.
    pub(super) fn check_shown(&self, conversation: usize, shown: &[Update]) {
        let mut kept: BTreeSet<String> = BTreeSet::new();
        for message in self.log(conversation) {
            kept.extend(message_marks(&message));
            let thoughts = message.extras.other.get("thoughts").and_then(|text| text.as_str());
            kept.extend(marks(thoughts.unwrap_or_default()));
        }
        if let Some(begun) = self.begun(conversation) {
            let updates: Vec<Update> = begun.updates.into_iter().map(|(_, one)| one).collect();
            kept.extend(update_marks(&updates));
        }
        let lost: Vec<String> =
            update_marks(shown).into_iter().filter(|mark| !kept.contains(mark)).collect();
        assert!(lost.is_empty(), "shown and lost: {lost:?}");
    }

    /// The last message of a turn that nobody ended says so, and no other one.
    pub(super) fn check_turns(&self, conversation: usize) {
        if self.begun(conversation).is_some() {
            return;
        }
        let log: Vec<Message> =
            self.log(conversation).into_iter().filter(|one| one.role != Role::System).collect();
        for turn in log.chunk_by(|_, next| next.role != Role::User) {
            let request = message_marks(&turn[0]).remove(0);
            let marked: Vec<bool> = turn.iter().map(is_interrupted).collect();
            let mut expected = vec![false; marked.len()];
            if self.interrupted.contains(&request) {
                assert!(turn.len() > 1, "{request}: no word of the interruption");
                expected[turn.len() - 1] = true;
            } else if !self.ended.contains(&request) {
                continue;
            }
            assert_eq!(marked, expected, "{request}");
        }
    }
}
