//! What a turn has to come to, by what is known before it.

use super::marks::trouble;
use super::steps::{Ending, Expected, Kind, Turn};
use super::{History, Open};
use crate::scripted::{End, Outcome};
use rethread_domain::opening::Policy;

impl History {
    /// How the conversation has to be opened, or why it cannot be, and whether the own session of the agent is
    /// forgotten over that.
    fn expect_open(
        &self,
        turn: &Turn,
        policy: Policy,
    ) -> Result<(&'static str, Option<&'static str>), (&'static str, bool)> {
        let (conversation, agent) = (turn.conversation, turn.agent);
        let watermark = self.watermark(conversation, agent);
        let own = self.conversation(conversation);
        let is_said = own.as_ref().is_some_and(|own| own.messages > 0);
        let (mut why, mut is_rejected) = (None, false);
        if turn.launch_fails {
            return Err(("cannot_start", false));
        }
        if policy == Policy::Off {
            why = Some("policy");
        } else if let Some(watermark) = watermark {
            let can = &self.agents[agent].abilities;
            let is_known = self.agents[agent].state().natives.contains_key(&watermark.native);
            let mut ways = [
                ("resumed", can.resume, &turn.doors.resume),
                ("loaded", can.load, &turn.doors.load),
            ];
            let begun = self.begun(conversation).map(|begun| begun.what);
            let is_left = begun.is_some_and(|begun| {
                let native = begun.watermark.map(|watermark| watermark.native);
                native.as_ref() == Some(&watermark.native) && begun.keeps_request != Some(false)
            });
            let state = self.agents[agent].state();
            let native = state.natives.get(&watermark.native);
            let is_as_left = can.list && watermark.left_at.is_some();
            let is_as_left = is_as_left && native.is_some_and(|native| !native.is_changed);
            drop(state);
            if is_left || watermark.in_doubt.is_some() || !is_as_left {
                // What it holds is looked at.
                ways.reverse();
            }
            if !can.resume && !can.load {
                why = Some("unable");
            }
            for (how, _, outcome) in ways.into_iter().filter(|(_, can, _)| *can) {
                why = Some(match (trouble(outcome), outcome) {
                    (Some(name @ ("needs_login" | "cancelled")), _) => {
                        return Err((name, false));
                    }
                    (Some(name), _) => name,
                    (None, _) if !is_known => "session_gone",
                    (None, Outcome::Hollow) if how == "loaded" => "hollow",
                    (None, Outcome::Mixed) if how == "loaded" => "mixed_up",
                    (None, _) => return Ok((how, why)),
                });
                is_rejected |= matches!(why, Some("session_gone" | "hollow" | "mixed_up"));
            }
        } else {
            let begun = self.begun(conversation).map(|begun| begun.what.agent);
            let running = begun.or(own.and_then(|own| own.running));
            let was_here = running.as_deref() == Some(self.agents[agent].name);
            why = Some(if was_here { "first_turn" } else { "other_agent" });
        }
        match (trouble(&turn.doors.new), is_said, policy) {
            (_, true, Policy::Required) => Err(("not_resumable", false)),
            (Some(name), _, _) => Err((name, is_rejected)),
            (None, false, _) => Ok(("fresh", None)),
            (None, true, Policy::Off) => Ok(("untold", why)),
            (None, true, Policy::Auto) => Ok(("retold", why)),
        }
    }

    pub(super) fn expect(&self, turn: &Turn, policy: Policy, open: Option<&Open>) -> Expected {
        let mut opened = None;
        let mut is_lost = false;
        match open.filter(|open| !open.is_left) {
            None => match self.expect_open(turn, policy) {
                Ok(how) => opened = Some(how),
                Err((why, forgets)) => {
                    return Expected { opened: None, end: Ending::NotOpened { why, forgets } };
                }
            },
            Some(open) => {
                let state = self.agents[turn.agent].state();
                is_lost =
                    open.native.as_ref().is_some_and(|native| !state.natives.contains_key(native));
            }
        }
        let is_answered = turn.acts.iter().any(|kind| !matches!(kind, Kind::Title | Kind::Pause));
        let forgets = matches!(turn.end, End::Forgets | End::Denies) && !is_answered;
        if !is_lost && !forgets {
            return Expected { opened, end: Ending::of(&turn.end) };
        }
        // Told anew, once.
        let why = match (trouble(&turn.doors.new), policy) {
            _ if turn.launch_fails => Some("cannot_start"),
            (_, Policy::Required) => Some("not_resumable"),
            (trouble, _) => trouble,
        };
        if let Some(why) = why {
            return Expected { opened: None, end: Ending::Interrupted(why) };
        }
        let how = if policy == Policy::Off { "untold" } else { "retold" };
        let end = if is_lost { Ending::of(&turn.end) } else { Ending::Stopped("end_turn") };
        Expected { opened: Some((how, Some("session_gone"))), end }
    }
}
