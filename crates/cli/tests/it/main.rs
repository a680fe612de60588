//! The program as people and other programs meet it: one file for each command or promise.
#![allow(clippy::unwrap_used, clippy::expect_used)] // Tests may panic.

#[macro_use]
mod env;
mod chat;
mod live;
mod reference;

mod agents_asked;
mod agents_bad;
mod agents_find;
mod agents_keys;
mod agents_may;
mod agents_odd;
mod agents_terminal;
mod agents_tiers;
mod agents_told;
mod backup;
mod bad_input;
mod bad_store;
mod config;
mod context;
mod crash;
mod crash_points;
mod delete;
mod disk_full;
mod doctor;
mod exchange;
mod file_modes;
mod first_steps;
mod fork;
mod hostile_ids;
mod json_errors;
mod list;
mod long_texts;
mod manual;
mod once_wrong;
mod processes;
mod prune;
mod purge;
mod record;
mod rename;
mod search;
mod show;
mod status;
mod talk_kills;
mod terminal;
mod tour;
mod workspace_clones;
mod workspace_hostile;
mod workspace_kills;
mod workspace_repository;
mod workspace_secrets;
mod workspace_sessions;
