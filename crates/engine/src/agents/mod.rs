//! Agents: opening the right conversation in three tiers, and talking to it.

pub(crate) mod choose;
mod gate;
mod held;
mod meant;
mod open;
mod port;
mod runner;
mod send;
mod talk;
mod tell;
mod turns;

pub use choose::KIND_COMMAND;
pub use gate::{Asker, Consent, Nobody, Rules};
pub use open::OpenOptions;
pub use port::{
    Abilities, Act, Agent, Block, Choice, Deed, Desk, Door, Ended, Launcher, Opened, Opt, Question,
    Replayed, Settings, Trouble,
};
pub use runner::{Place, Runner, TurnRequest, WhenBusy};
pub use send::{Answer, Progress};
pub use talk::{Asked, Talk};
pub use tell::Told;
