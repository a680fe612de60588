//! Agents: opening a conversation in three tiers, and running turns in it.

mod attached;
pub(crate) mod choose;
mod gate;
mod open;
mod outcome;
mod port;
mod process_requests;
mod replay;
mod request_id;
mod rest;
mod rules;
mod runner;
mod selection;
mod send;
mod talk;
mod tell;
mod transcript;
mod turns;
mod watermark;

pub use choose::{EFFORT, KIND_COMMAND};
pub use gate::{Asker, Nobody};
pub use open::OpenOptions;
pub use outcome::{ANSWERED, MODEL_ERROR, NO_ANSWER, USAGE_LIMIT, is_model_error};
pub use port::{
    Abilities, Action, ActionKind, Agent, AgentError, Block, Choice, Ended, Launcher, Lifted,
    Named, Offered, OpenRequest, Opened, PermissionHandler, PermissionOption, Question, Replayed,
    Settings,
};
pub use process_requests::ProcessRequest;
pub(crate) use replay::TAKEN_IN;
pub use request_id::RequestId;
pub use rules::{COMMAND, Consent, Holds, Rules, TITLE};
pub use runner::{QueueHead, Runner, TurnRequest, WhenBusy, check_prompt};
pub use send::{Answer, Progress};
pub use talk::Talk;
pub use tell::Handover;
pub(crate) use tell::is_ours;
pub use transcript::OwnSessions;
