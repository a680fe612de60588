//! What may happen, at random, and what a turn has to come to.

use crate::scripted::{Doors, End, Outcome};
use proptest::prelude::*;
use rethread_domain::opening::Policy;
use rethread_engine::Error;
use rethread_engine::agents::{AgentError, Answer};
use std::time::Duration;

#[derive(Debug, Clone)]
pub(super) enum Step {
    Turn(Box<Turn>),
    /// The conversation is left as it should be.
    End {
        conversation: usize,
    },
    /// The process is killed between two turns.
    Crash,
    /// The agent of a conversation dies between two turns.
    Dies {
        agent: usize,
    },
    /// The agent loses its own session of a conversation.
    Loses {
        conversation: usize,
        agent: usize,
    },
    /// Somebody talks in the agent's own session of a conversation, in the agent's own program.
    Natively {
        conversation: usize,
        agent: usize,
    },
    /// Somebody else wants the conversation, too.
    Second {
        conversation: usize,
    },
    Tidy,
    /// Somebody else records something in the conversation.
    Record {
        conversation: usize,
    },
}

#[derive(Debug, Clone)]
pub(super) struct Turn {
    pub(super) conversation: usize,
    pub(super) agent: usize,
    pub(super) policy: Policy,
    pub(super) doors: Doors,
    pub(super) launch_fails: bool,
    pub(super) acts: Vec<Kind>,
    pub(super) end: End,
    /// The process is killed after so many things that it did.
    pub(super) crash: Option<u32>,
    /// Somebody else records something in the conversation before it is written to so often.
    pub(super) meanwhile: Option<u32>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Say,
    Think,
    Tool,
    Title,
    Pause,
}

pub(super) fn refused(what: &str) -> AgentError {
    AgentError::Refused { what: what.into(), code: -32603, message: "no".into() }
}

pub(super) fn outcome() -> impl Strategy<Value = Outcome> {
    let timed_out = AgentError::TimedOut { what: "session".into(), after: Duration::from_secs(1) };
    let nonsense = AgentError::Nonsense { what: "session".into(), why: "no JSON".into() };
    prop_oneof![
        12 => Just(Outcome::Fine),
        2 => Just(Outcome::AgentError(AgentError::SessionGone("lost".into()))),
        1 => Just(Outcome::AgentError(refused("session"))),
        1 => Just(Outcome::AgentError(timed_out)),
        1 => Just(Outcome::AgentError(nonsense)),
        1 => Just(Outcome::AgentError(AgentError::Unsupported("session".into()))),
        1 => Just(Outcome::AgentError(AgentError::NeedsLogin("log in".into()))),
        1 => Just(Outcome::AgentError(AgentError::Cancelled)),
        1 => Just(Outcome::Dies),
        1 => Just(Outcome::Hollow),
        1 => Just(Outcome::Mixed),
    ]
}

pub(super) fn new_outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        20 => Just(Outcome::Fine),
        1 => Just(Outcome::AgentError(refused("session/new"))),
        1 => Just(Outcome::Dies),
    ]
}

pub(super) fn turn() -> impl Strategy<Value = Turn> {
    let policy =
        prop_oneof![8 => Just(Policy::Auto), 1 => Just(Policy::Required), 1 => Just(Policy::Off)];
    let kind = prop_oneof![
        5 => Just(Kind::Say),
        1 => Just(Kind::Think),
        2 => Just(Kind::Tool),
        1 => Just(Kind::Title),
        3 => Just(Kind::Pause),
    ];
    let end = prop_oneof![
        10 => Just(End::Stop),
        1 => Just(End::Cancelled),
        1 => Just(End::AgentError(refused("session/prompt"))),
        2 => Just(End::Forgets),
        1 => Just(End::Denies),
        3 => Just(End::Dies),
    ];
    let crash = prop_oneof![3 => Just(None), 1 => (0..90_u32).prop_map(Some)];
    let doors = (outcome(), outcome(), new_outcome());
    let who = (
        prop_oneof![3 => Just(0_usize), 1 => Just(1)],
        prop_oneof![2 => Just(0_usize), 1 => Just(1)],
    );
    let acts = prop::collection::vec(kind, 0..6);
    let meanwhile = prop_oneof![5 => Just(None), 1 => (0..3_u32).prop_map(Some)];
    let what = (acts, end, crash, meanwhile);
    (who, policy, doors, prop::bool::weighted(0.03), what).prop_map(
        |((conversation, agent), policy, doors, launch_fails, what)| {
            let (resume, load, new) = doors;
            let doors = Doors { resume, load, new };
            let (acts, end, crash, meanwhile) = what;
            Turn { conversation, agent, policy, doors, launch_fails, acts, end, crash, meanwhile }
        },
    )
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => turn().prop_map(|turn| Step::Turn(Box::new(turn))),
        2 => (0..2_usize).prop_map(|conversation| Step::End { conversation }),
        1 => Just(Step::Crash),
        1 => (0..2_usize).prop_map(|agent| Step::Dies { agent }),
        1 => (0..2_usize, 0..2_usize)
            .prop_map(|(conversation, agent)| Step::Loses { conversation, agent }),
        2 => (0..2_usize, 0..2_usize)
            .prop_map(|(conversation, agent)| Step::Natively { conversation, agent }),
        1 => (0..2_usize).prop_map(|conversation| Step::Second { conversation }),
        1 => Just(Step::Tidy),
        1 => (0..2_usize).prop_map(|conversation| Step::Record { conversation }),
    ]
}

pub(super) fn ability() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "resume load list keeps",
        "resume load list",
        "resume load keeps",
        "resume load",
        "resume keeps",
        "load keeps",
        "load",
        "none",
    ])
}

/// What a turn has to come to.
#[derive(Debug)]
pub(super) struct Expected {
    /// How the conversation is opened, where it is.
    pub(super) opened: Option<(&'static str, Option<&'static str>)>,
    pub(super) end: Ending,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// By the agent's word.
    Stopped(&'static str),
    /// By the agent's refusal.
    Failed(&'static str),
    /// Nobody is there any more who could end it.
    Interrupted(&'static str),
    /// It did not begin, and the own session of the agent is forgotten or not.
    NotOpened { why: &'static str, forgets: bool },
}

impl Ending {
    pub(super) fn of(end: &End) -> Self {
        match end {
            End::Stop => Self::Stopped("end_turn"),
            End::Cancelled => Self::Stopped("cancelled"),
            End::AgentError(trouble) => Self::Failed(trouble.name()),
            End::Forgets | End::Denies => Self::Failed("session_gone"),
            End::Dies => Self::Interrupted("agent_ended"),
        }
    }

    /// Whether the agent is not there afterwards: what it has of a turn that it did not end, nobody knows.
    pub(super) fn leaves(self) -> bool {
        !matches!(self, Self::Stopped(_))
    }

    pub(super) fn check(self, outcome: &Result<Answer, Error>) {
        let (Self::Stopped(expected)
        | Self::Failed(expected)
        | Self::Interrupted(expected)
        | Self::NotOpened { why: expected, .. }) = self;
        let found = match outcome {
            Ok(answer) => &answer.stop,
            Err(Error::Agent { trouble, .. }) => trouble.name(),
            Err(Error::NotResumable { .. }) => "not_resumable",
            Err(error) => panic!("{error}"),
        };
        assert_eq!(found, expected);
    }
}
