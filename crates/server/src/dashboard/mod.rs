//! The pages: HTML made here, readable without a script; a small script of our own keeps them live.

mod agents;
mod assets;
mod frame;
mod login;
mod markdown;
mod posted;
mod reference;
mod sessions;
mod trouble;
mod usage;
mod words;
mod workflows;

use crate::access::Routes;

pub(crate) use trouble::shown;

pub(crate) fn router() -> Routes {
    Routes::default()
        .merge(assets::router())
        .merge(login::router())
        .merge(reference::router())
        .merge(sessions::router())
        .merge(agents::router())
        .merge(usage::router())
        .merge(workflows::router())
}
