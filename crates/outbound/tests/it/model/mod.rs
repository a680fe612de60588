//! The client of a model, against a real server on this machine that answers by script.

mod setup;

mod anthropic;
mod openai;
mod refusals;
mod secrets;
mod settings;
mod trouble;
