//! The dashboard in a real Chromium: what people see and do, and what pages that mean harm do not get to do.

mod driver;
pub(crate) mod world;

mod asked;
mod door;
mod hostile;
mod hostile_parts;
mod live;
mod pictures;
mod plain;
mod sending;
mod sessions;
mod strangers;
mod tabs;
mod walk;
mod workflow_pages;
mod workflows;

use crate::site::Site;

pub(crate) use driver::Browser;

/// A browser at a server of its own.
#[derive(Debug)]
pub(crate) struct Visit {
    pub(crate) browser: Browser,
    pub(crate) site: Site,
}

impl Visit {
    /// Logged in as the user of the server.
    pub(crate) fn to(site: Site) -> Self {
        let visit = Self::stranger(site);
        visit.log_in();
        visit
    }

    /// Not logged in.
    pub(crate) fn stranger(site: Site) -> Self {
        Self { browser: Browser::new(), site }
    }

    pub(crate) fn at(&self, path: &str) -> String {
        format!("http://{}{path}", self.site.address)
    }

    #[track_caller]
    pub(crate) fn go(&self, path: &str) {
        self.browser.open(&self.at(path));
    }

    /// The link that logs a browser in once.
    #[track_caller]
    pub(crate) fn link(&self) -> String {
        self.site.env.json(["login"])["url"].as_str().expect("a link").to_owned()
    }

    #[track_caller]
    pub(crate) fn log_in(&self) {
        self.browser.open(&self.link());
        self.until_at("/");
    }

    /// Waits until the browser has got there.
    #[track_caller]
    pub(crate) fn until_at(&self, path: &str) {
        let there =
            format!("return location.pathname === {path:?} && document.readyState === 'complete'");
        self.browser.until(path, &there);
    }
}
