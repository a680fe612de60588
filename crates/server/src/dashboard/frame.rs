//! The frame around every page: title, navigation, who is logged in, and a notice of what was just done.

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

/// A link of the navigation.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) path: &'static str,
    pub(crate) is_active: bool,
}

/// The user who is logged in.
pub(crate) struct Visitor {
    pub(crate) user: String,
    pub(crate) role: Option<&'static str>,
}

/// The frame of a page. Each page template has it in its field `frame`; `base.html` renders it.
pub(crate) struct Frame {
    pub(crate) title: String,
    pub(crate) nav: Nav,
    pub(crate) who: Option<Visitor>,
    /// Whether to show the forms that change something.
    pub(crate) may_write: bool,
    /// A notice of what was just done: see [`notice_text`].
    pub(crate) notice: Option<&'static str>,
    /// The newest event when the page was rendered: the script follows events from there. See [`Frame::live`].
    pub(crate) after: Option<u64>,
    /// Identifies the login: its tabs share one event stream.
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

    /// For a page without a login, or where only the user's name is known.
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

    /// Adds a notice of what was just done.
    #[must_use]
    pub(crate) fn notice(self, code: Option<&str>) -> Self {
        Self { notice: code.and_then(notice_text), ..self }
    }

    /// Marks the page as kept up to date by the script. Read the newest event before reading anything else, so that no change is
    /// missed in between.
    #[must_use]
    pub(crate) fn live(self, after: u64) -> Self {
        Self { after: Some(after), ..self }
    }

    /// The kinds of events that the script listens for.
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

/// The notices that a redirect may name. Only these are shown, so that a foreign link cannot put words on our pages.
const NOTICES: &[(&str, &str)] = &[
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
    NOTICES.iter().find(|(known, _)| *known == code).map(|(_, words)| *words)
}

/// Renders a page, or a part of one.
pub(crate) fn page(template: &impl Template) -> Result<Response, Problem> {
    let text = template.render();
    let text = text.map_err(|_| Problem::new("internal", "the page cannot be written"))?;
    Ok(Html(text).into_response())
}

/// Redirects to a page after a form was processed.
pub(crate) fn back(place: &str) -> Result<Response, Problem> {
    let place = HeaderValue::from_str(place)
        .map_err(|_| Problem::new("internal", "an address is not one"))?;
    Ok((StatusCode::SEE_OTHER, [(header::LOCATION, place)]).into_response())
}
