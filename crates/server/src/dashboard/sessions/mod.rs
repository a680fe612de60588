//! Pages about sessions: the list with its search, one session with its conversation, and what can be done with it.

mod act;
mod asks;
mod list;
mod send;
mod show;
mod speech;

use crate::access::{READ, Routes, WRITE};

pub(super) fn router() -> Routes {
    Routes::default()
        .get(READ, "/", list::page)
        .get(READ, "/search/results", list::results)
        .get(READ, "/sessions/{id}", show::page)
        .get(READ, "/sessions/{id}/head", show::head)
        .get(READ, "/sessions/{id}/talk", show::talk)
        .get(READ, "/sessions/{id}/questions", asks::questions)
        .post(WRITE, "/sessions/{id}/answer", act::answer)
        .post(WRITE, "/sessions/{id}/rename", act::rename)
        .post(WRITE, "/sessions/{id}/fork", act::fork)
        .post(WRITE, "/sessions/{id}/send", act::send)
        .post(WRITE, "/sessions/{id}/cancel", act::cancel)
        .post(WRITE, "/sessions/{id}/{what}", act::act)
}
