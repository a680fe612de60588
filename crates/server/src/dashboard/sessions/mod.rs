//! The session pages: the list with its search, a single session, and its forms.

mod actions;
mod list;
mod questions;
mod send;
mod show;
mod transcript;

use crate::access::{READ, Routes, WRITE};

pub(super) fn router() -> Routes {
    Routes::default()
        .get(READ, "/", list::page)
        .get(READ, "/search/results", list::results)
        .get(READ, "/sessions/{id}", show::page)
        .get(READ, "/sessions/{id}/head", show::head)
        .get(READ, "/sessions/{id}/talk", show::talk)
        .get(READ, "/sessions/{id}/questions", questions::questions)
        .post(WRITE, "/sessions/{id}/answer", actions::answer)
        .post(WRITE, "/sessions/{id}/rename", actions::rename)
        .post(WRITE, "/sessions/{id}/fork", actions::fork)
        .post(WRITE, "/sessions/{id}/send", actions::send)
        .post(WRITE, "/sessions/{id}/cancel", actions::cancel)
        .post(WRITE, "/sessions/{id}/{what}", actions::act)
}
