//! Webhooks, against a real server on this machine that answers by script.

mod setup;

mod delivery;
mod forms;
mod secrets;
mod trouble;
