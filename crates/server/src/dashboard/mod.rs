//! The dashboard: pages rendered on the server that work without JavaScript; a small script keeps them live.

mod agents;
mod assets;
mod error_page;
mod form;
mod frame;
mod humanize;
mod login;
mod markdown;
mod reference;
mod sessions;
mod usage;
mod workflows;

use crate::access::Routes;

pub(crate) use error_page::shown;

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
