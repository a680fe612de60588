//! What every page has around it: its title, the way to the others, who is logged in, and what was just done.

use askama::Template;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};

use rethread_domain::feed::Kind;

use super::assets;
use crate::access::Caller;
use crate::problem::Problem;

/// An entry of the navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nav {
    Sessions,
    Workflows,
    Agents,
    Usage,
    None,
}

/// An entry with where it leads.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) path: &'static str,
    pub(crate) is_active: bool,
}

/// Who is logged in.
pub(crate) struct Visitor {
    pub(crate) user: String,
    pub(crate) role: Option<&'static str>,
}

/// What surrounds a page. Pages have it as their field `frame`; `base.html` reads it.
pub(crate) struct Frame {
    pub(crate) title: String,
    pub(crate) nav: Nav,
    pub(crate) who: Option<Visitor>,
    /// Whether forms that change something are shown.
    pub(crate) may_write: bool,
    /// What was just done, in words: see [`notice_text`].
    pub(crate) notice: Option<&'static str>,
    /// The newest event when the page was made: the script goes on from there. See [`Frame::live`].
    pub(crate) after: Option<u64>,
    /// What the tabs of one login share: they follow events together.
    pub(crate) login: String,
}

impl Frame {
    pub(crate) fn new(title: impl Into<String>, nav: Nav, caller: &Caller) -> Self {
        let role = Some(caller.token.role.as_str());
        let who = Some(Visitor { user: caller.user().to_owned(), role });
        Self {
            title: title.into(),
            nav,
            who,
            may_write: caller.may_write(),
            notice: None,
            after: None,
            login: caller.token.id.to_string(),
        }
    }

    /// For somebody who is not logged in, or of whom only the name is known.
    pub(crate) fn bare(title: impl Into<String>, user: Option<String>) -> Self {
        let who = user.map(|user| Visitor { user, role: None });
        Self {
            title: title.into(),
            nav: Nav::None,
            who,
            may_write: false,
            notice: None,
            after: None,
            login: String::new(),
        }
    }

    /// The same, with a notice of what was just done.
    #[must_use]
    pub(crate) fn notice(self, code: Option<&str>) -> Self {
        Self { notice: code.and_then(notice_text), ..self }
    }

    /// The same, kept up to date by the script. Ask for the newest event before anything is read, so that nothing falls
    /// between the two.
    #[must_use]
    pub(crate) fn live(self, after: u64) -> Self {
        Self { after: Some(after), ..self }
    }

    /// What the script listens for.
    #[expect(clippy::unused_self, reason = "templates reach it through the frame")]
    pub(crate) fn kinds(&self) -> String {
        let all: Vec<&str> = Kind::ALL.iter().map(|kind| kind.as_str()).collect();
        all.join(" ")
    }

    pub(crate) fn entries(&self) -> [Entry; 4] {
        let all = [
            ("Sessions", "/", Nav::Sessions),
            ("Workflows", "/workflows", Nav::Workflows),
            ("Agents", "/agents", Nav::Agents),
            ("Usage", "/usage", Nav::Usage),
        ];
        all.map(|(name, path, nav)| Entry { name, path, is_active: nav == self.nav })
    }

    #[expect(clippy::unused_self, reason = "templates reach it through the frame")]
    pub(crate) fn style(&self) -> &'static str {
        assets::style()
    }

    #[expect(clippy::unused_self, reason = "templates reach it through the frame")]
    pub(crate) fn script(&self) -> &'static str {
        assets::script()
    }

    #[expect(clippy::unused_self, reason = "templates reach it through the frame")]
    pub(crate) fn worker(&self) -> &'static str {
        assets::worker()
    }

    #[expect(clippy::unused_self, reason = "templates reach it through the frame")]
    pub(crate) fn icon(&self) -> &'static str {
        assets::icon()
    }
}

/// What a redirect says was done, in words. Only these are shown: nobody else's link puts words on our pages.
const TOLD: &[(&str, &str)] = &[
    ("paused", "Paused."),
    ("pausing", "Pause requested; it takes effect when the running task is done."),
    ("resumed", "It goes on."),
    ("completed", "Completed."),
    ("activated", "Active again."),
    ("archived", "Archived."),
    ("unarchived", "Back from the archive."),
    ("renamed", "Renamed."),
    ("forked", "Forked: this is the new session."),
    ("deleted", "Deleted. It can be brought back for 30 days."),
    ("undeleted", "Brought back."),
    ("sent", "Sent. The answer will appear below."),
    ("cancelled", "Cancelled."),
    ("answered", "Answered. The agent goes on."),
    ("too-late", "Too late: the question was answered, or the turn is over."),
    ("approved", "Approved."),
    ("rejected", "Rejected."),
    ("retried", "Retrying."),
    ("skipped", "Skipped."),
    ("started", "Started."),
];

fn notice_text(code: &str) -> Option<&'static str> {
    TOLD.iter().find(|(known, _)| *known == code).map(|(_, words)| *words)
}

/// A page, or a part of one, as an answer.
pub(crate) fn page(template: &impl Template) -> Result<Response, Problem> {
    let text = template.render();
    let text = text.map_err(|_| Problem::new("internal", "the page cannot be written"))?;
    Ok(Html(text).into_response())
}

/// Back to a page of ours after something was done.
pub(crate) fn back(place: &str) -> Result<Response, Problem> {
    let place = HeaderValue::from_str(place)
        .map_err(|_| Problem::new("internal", "an address is not one"))?;
    Ok((StatusCode::SEE_OTHER, [(header::LOCATION, place)]).into_response())
}
