//! Pages about workflows: the list, one workflow with its tasks and runs, its snapshots, and what can be done with them.

mod act;
mod compare;
mod describe;
mod list;
mod log;
mod now;
mod runs;
mod show;
mod snapshot;
mod speech;
mod start;

use crate::access::{READ, Routes, WRITE};

pub(super) fn router() -> Routes {
    Routes::default()
        .get(READ, "/workflows", list::page)
        .post(WRITE, "/workflows", act::start)
        .get(READ, "/workflows/results", list::results)
        .get(READ, "/workflows/{id}", show::page)
        .get(READ, "/workflows/{id}/board", show::board)
        .get(READ, "/workflows/{id}/log", show::log)
        .get(READ, "/workflows/{id}/now", now::part)
        .get(READ, "/workflows/{id}/compare", compare::page)
        .get(READ, "/workflows/{id}/snapshots/{snapshot}", snapshot::page)
        .post(WRITE, "/workflows/{id}/pause", act::pause)
        .post(WRITE, "/workflows/{id}/resume", act::resume)
        .post(WRITE, "/workflows/{id}/{what}", act::say)
}
