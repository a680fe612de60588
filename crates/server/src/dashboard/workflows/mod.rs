//! The workflow pages: the list, a single workflow with its tasks and runs, its snapshots, and their forms.

mod actions;
mod compare;
mod describe;
mod list;
mod log;
mod messages;
mod runs;
mod show;
mod snapshot;
mod start;
mod streaming;

use crate::access::{READ, Routes, WRITE};

pub(super) fn router() -> Routes {
    Routes::default()
        .get(READ, "/workflows", list::page)
        .post(WRITE, "/workflows", actions::start)
        .get(READ, "/workflows/results", list::results)
        .get(READ, "/workflows/{id}", show::page)
        .get(READ, "/workflows/{id}/board", show::board)
        .get(READ, "/workflows/{id}/log", show::log)
        .get(READ, "/workflows/{id}/now", streaming::part)
        .get(READ, "/workflows/{id}/compare", compare::page)
        .get(READ, "/workflows/{id}/snapshots/{snapshot}", snapshot::page)
        .post(WRITE, "/workflows/{id}/pause", actions::pause)
        .post(WRITE, "/workflows/{id}/resume", actions::resume)
        .post(WRITE, "/workflows/{id}/{what}", actions::say)
}
