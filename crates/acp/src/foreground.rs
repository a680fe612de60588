//! The prompt that an agent works on, as version 2 has it: it is accepted at once, and is over when the agent is idle again.

use tokio::sync::oneshot;

use crate::second::{self, State};

/// Told of the state that has ended a prompt. It is dropped where that will never come.
pub(crate) type Waits = Box<dyn FnOnce(String) + Send>;

/// Whoever waits is told over a channel.
pub(crate) fn over(waits: oneshot::Sender<String>) -> Waits {
    // They may have gone.
    Box::new(move |state| drop(waits.send(state)))
}

/// What has become of a prompt so far.
#[derive(Default)]
pub(crate) struct Foreground {
    is_accepted: bool,
    /// Whether the agent has begun to work since the prompt was sent: before, it may still tell that it was idle.
    is_running: bool,
    /// The state that has ended it, where nobody waits for that yet.
    ended: Option<String>,
    waits: Option<Waits>,
}

/// What an update of a turn tells of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Ended,
    GoesOn,
}

impl Foreground {
    /// The agent has answered the request.
    pub(crate) fn accepted(&mut self, waits: Waits) {
        self.is_accepted = true;
        match self.ended.take() {
            Some(ended) => waits(ended),
            None => self.waits = Some(waits),
        }
    }

    pub(crate) const fn is_accepted(&self) -> bool {
        self.is_accepted
    }

    /// Nobody hears of it any more.
    pub(crate) fn leave(&mut self) {
        self.waits = None;
    }

    pub(crate) fn told(&mut self, update: &str) -> Told {
        match second::state(update) {
            Some(State::Running) => self.is_running = true,
            Some(State::Idle) if self.is_running || self.is_accepted => {
                match self.waits.take() {
                    Some(waits) => waits(update.to_owned()),
                    None => self.ended = Some(update.to_owned()),
                }
                return Told::Ended;
            }
            _ => (),
        }
        Told::GoesOn
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    const RUNNING: &str = r#"{"sessionUpdate":"state_update","state":"running"}"#;
    const IDLE: &str = r#"{"sessionUpdate":"state_update","state":"idle"}"#;

    fn waits() -> (Waits, Receiver<String>) {
        let (tell, told) = channel();
        (Box::new(move |state| tell.send(state).unwrap()), told)
    }

    #[test]
    fn a_prompt_is_over_when_the_agent_is_idle_again() {
        let mut prompt = Foreground::default();
        // It was idle before.
        assert_eq!(prompt.told(IDLE), Told::GoesOn);
        let (tell, told) = waits();
        prompt.accepted(tell);
        assert_eq!(prompt.told(RUNNING), Told::GoesOn);
        assert!(told.try_recv().is_err());
        assert_eq!(prompt.told(IDLE), Told::Ended);
        assert_eq!(told.try_recv().unwrap(), IDLE);
    }

    #[test]
    fn it_may_be_over_before_it_is_accepted() {
        let mut prompt = Foreground::default();
        assert_eq!(prompt.told(RUNNING), Told::GoesOn);
        assert_eq!(prompt.told(IDLE), Told::Ended);
        let (tell, told) = waits();
        prompt.accepted(tell);
        assert_eq!(told.try_recv().unwrap(), IDLE);
    }
}
