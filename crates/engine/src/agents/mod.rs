//! Agents: opening the right conversation in three tiers, and talking to it.

mod asked;
pub(crate) mod choose;
mod gate;
mod meant;
mod open;
mod outcome;
mod port;
mod replay;
mod rules;
mod runner;
mod send;
mod talk;
mod tell;
mod turns;
mod watermark;

pub use asked::Asked;
pub use choose::KIND_COMMAND;
pub use gate::{Asker, Nobody};
pub use open::OpenOptions;
pub use outcome::{ANSWERED, MODEL_ERROR, NO_ANSWER, USAGE_LIMIT};
pub use port::{
    Abilities, Act, Agent, Block, Choice, Deed, Desk, Door, Ended, Launcher, Lifted, Opened, Opt,
    Question, Replayed, Settings, Trouble,
};
pub use rules::{Consent, Holds, Rules};
pub use runner::{Place, Runner, TurnRequest, WhenBusy, check_prompt};
pub use send::{Answer, Progress};
pub use talk::Talk;
pub use tell::Handover;
