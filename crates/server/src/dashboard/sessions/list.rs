//! The list of sessions with its search: the first page that a visitor sees.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use rethread_domain::search::{Clause, Filter, Query};
use rethread_domain::{Session, SessionId, Status};
use rethread_engine::views::HitView;
use rethread_engine::{ListFilter, Search, Stop};
use serde::Deserialize;

use crate::access::Caller;
use crate::cursor;
use crate::dashboard::frame::{self, Frame, Nav};
use crate::dashboard::humanize::{self, some};
use crate::extract::{Disconnect, QueryParams};
use crate::problem::Problem;
use crate::routes::sessions::scope;
use crate::state::App;

/// The filters. Browsers submit empty fields too: an empty field means no filter.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default)]
pub(super) struct Filters {
    q: String,
    status: String,
    agent: String,
    kind: String,
    project: String,
    user: String,
    archived: Option<String>,
    deleted: Option<String>,
    cursor: String,
    notice: Option<String>,
}

impl Filters {
    fn status(&self) -> Result<Option<Status>, Problem> {
        let parsed = some(&self.status).map(|text| text.parse()).transpose();
        parsed.map_err(|why: String| Problem::new("bad_input", rethread_domain::quote::safe(&why)))
    }

    fn is_filtered(&self) -> bool {
        let texts = [&self.status, &self.agent, &self.kind, &self.project, &self.user];
        texts.into_iter().any(|text| !text.trim().is_empty())
            || self.archived.is_some()
            || self.deleted.is_some()
    }

    /// The filters as a query string, with another cursor.
    fn query(&self, cursor: &str) -> String {
        humanize::query(&[
            ("q", &self.q),
            ("status", &self.status),
            ("agent", &self.agent),
            ("kind", &self.kind),
            ("project", &self.project),
            ("user", &self.user),
            ("archived", self.archived.as_deref().unwrap_or_default()),
            ("deleted", self.deleted.as_deref().unwrap_or_default()),
            ("cursor", cursor),
        ])
    }
}

/// A session in the list.
pub(super) struct Row {
    pub(super) id: String,
    pub(super) short: String,
    pub(super) title: String,
    pub(super) status: &'static str,
    pub(super) kind: String,
    pub(super) agent: Option<String>,
    pub(super) user: String,
    pub(super) project: String,
    pub(super) project_name: String,
    pub(super) at: String,
    pub(super) ago: String,
    pub(super) messages: String,
    pub(super) tokens: String,
}

impl Row {
    pub(super) fn of(app: &App, session: &Session) -> Self {
        let now = app.engine.clock().now();
        Self {
            id: session.id.to_string(),
            short: session.id.short(),
            title: title(app, session),
            status: status(session),
            kind: session.kind.clone(),
            agent: app.clean_some(session.speaker()),
            user: session.user.clone(),
            project: session.project.clone(),
            project_name: humanize::last_part(&session.project).to_owned(),
            at: session.last_active_at.to_string(),
            ago: humanize::ago(session.last_active_at, now),
            messages: humanize::grouped(session.last_seq.into()),
            tokens: humanize::short(session.counters.tokens),
        }
    }
}

pub(super) fn title(app: &App, session: &Session) -> String {
    let title = app.clean_some(session.title.as_deref());
    title.filter(|title| !title.trim().is_empty()).unwrap_or_else(|| "Untitled".to_owned())
}

pub(super) fn status(session: &Session) -> &'static str {
    if session.deleted_at.is_some() { "deleted" } else { session.status().as_str() }
}

/// A search result, with an excerpt.
struct Find {
    place: String,
    title: String,
    short: String,
    what: String,
    at: Option<(String, String)>,
    parts: Vec<(String, bool)>,
}

impl Find {
    fn of(app: &App, wanted: &[Query], hit: HitView) -> Self {
        let now = app.engine.clock().now();
        let id = hit.session_id;
        let anchor = hit.seq.map(|seq| format!("?at={seq}#m{seq}")).unwrap_or_default();
        let what = match (hit.role.as_deref(), hit.seq) {
            (Some(role), Some(seq)) => format!("{role}, message {seq}"),
            _ => hit.kind,
        };
        Self {
            place: format!("/sessions/{id}{anchor}"),
            title: hit.title.unwrap_or_else(|| "Untitled".to_owned()),
            short: id.parse::<SessionId>().map(|id| id.short()).unwrap_or_default(),
            what,
            at: hit.timestamp.map(|at| (at.to_string(), humanize::ago(at, now))),
            parts: parts(&hit.excerpt, wanted),
        }
    }
}

/// The words of the query, each by itself.
fn wanted(q: &str) -> Vec<Query> {
    let query = Query::parse(q);
    let clauses = query.clauses.into_iter().chain(query.begun);
    let each = clauses.flat_map(|Clause { terms, prefix, .. }| {
        let last = terms.len();
        (1..).zip(terms).map(move |(at, term)| {
            let terms = vec![term];
            let clause = Clause { asked: terms.clone(), terms, prefix: prefix && at == last };
            Query { clauses: vec![clause], ..Query::default() }
        })
    });
    each.collect()
}

/// Excerpts mark matches with `**`, which the text may contain too: only what matches the query is highlighted.
fn parts(excerpt: &str, wanted: &[Query]) -> Vec<(String, bool)> {
    let parts = excerpt.split("**").filter(|part| !part.is_empty());
    let told = parts.map(|part| {
        let is_find = wanted.iter().any(|word| word.matches(part));
        // The text itself may have asterisks beside our marks.
        let part = if is_find { part.trim_matches('*') } else { part };
        (part.to_owned(), is_find)
    });
    told.collect()
}

/// How to get started, where there are no sessions yet.
struct Begin {
    agent: String,
    /// How to install the agent, if none is installed.
    install: Option<String>,
}

/// The agent to suggest where nothing speaks for another.
const WELL_KNOWN: &str = "claude";

impl Begin {
    /// Suggests the workflow agent or else the first of the installed agents; if none is installed, one that can be.
    fn of(app: &App) -> Result<Option<Self>, Problem> {
        let usual = app.program.workflows()?.agent;
        let mut agents = app.program.agents()?;
        let is_any = agents.iter().any(|agent| agent.is_installed);
        agents.retain(|agent| agent.is_installed == is_any && (is_any || agent.install.is_some()));
        // The sort is stable: equals keep their order.
        agents.sort_by_key(|agent| {
            (Some(&agent.name) != usual.as_ref(), !is_any && agent.name != WELL_KNOWN)
        });
        Ok(agents
            .into_iter()
            .next()
            .map(|agent| Self { install: agent.install.filter(|_| !is_any), agent: agent.name }))
    }
}

/// The results: sessions, or matches within them.
#[derive(Template)]
#[template(path = "sessions/results.html")]
struct Results {
    q: String,
    rows: Vec<Row>,
    finds: Vec<Find>,
    /// The cursor of the next page.
    older: Option<String>,
    is_first: bool,
    is_filtered: bool,
    is_admin: bool,
    /// Set where there are no sessions at all.
    begin: Option<Begin>,
    /// Advice where the search was cut short.
    partial: Option<&'static str>,
}

#[derive(Template)]
#[template(path = "sessions/list.html")]
struct List {
    frame: Frame,
    filters: Filters,
    agents: Vec<String>,
    statuses: [&'static str; 4],
    fragment: String,
    results: Results,
}

async fn found(
    app: &App,
    caller: &Caller,
    filters: &Filters,
    stop: Stop,
) -> Result<Results, Problem> {
    let mut results = Results {
        q: filters.q.trim().to_owned(),
        rows: Vec::new(),
        finds: Vec::new(),
        older: None,
        is_first: filters.cursor.is_empty(),
        is_filtered: filters.is_filtered(),
        is_admin: caller.is_admin(),
        begin: None,
        partial: None,
    };
    if results.q.is_empty() {
        (results.rows, results.older) = listed(app, caller, filters).await?;
        if results.rows.is_empty() {
            results.begin = Begin::of(app)?;
        }
    } else {
        let is_partial;
        (results.finds, results.older, is_partial) = sought(app, caller, filters, stop).await?;
        results.partial = is_partial.then_some("give more words or filters");
    }
    Ok(results)
}

async fn listed(
    app: &App,
    caller: &Caller,
    filters: &Filters,
) -> Result<(Vec<Row>, Option<String>), Problem> {
    app.keep_up().await;
    let filter = ListFilter {
        user: scope(caller, some(&filters.user)),
        project: some(&filters.project),
        kind: some(&filters.kind),
        agent: some(&filters.agent),
        status: filters.status()?,
        archived: filters.archived.is_some(),
        deleted: filters.deleted.is_some(),
        before: some(&filters.cursor).as_deref().map(cursor::decode::<SessionId>).transpose()?,
        limit: cursor::USUAL + 1,
        ..ListFilter::default()
    };
    let mut found = app.engine.list(&filter).await?;
    let is_more = found.len() > cursor::USUAL as usize;
    found.truncate(cursor::USUAL as usize);
    let last = found.last().filter(|_| is_more);
    let older = last.map(|last| format!("/?{}", filters.query(&cursor::of_session(last))));
    Ok((found.iter().map(|session| Row::of(app, session)).collect(), older))
}

/// The matches, the cursor of the next page, and whether the search was cut short.
async fn sought(
    app: &App,
    caller: &Caller,
    filters: &Filters,
    stop: Stop,
) -> Result<(Vec<Find>, Option<String>, bool), Problem> {
    let filter = Filter {
        user: scope(caller, some(&filters.user)),
        project: some(&filters.project),
        agent: some(&filters.agent),
        kind: some(&filters.kind),
        status: filters.status()?,
        ..Filter::default()
    };
    // A cursor of the list may still be in the address when somebody starts to search.
    let after = filters.cursor.parse().ok();
    let search = Search { after, stop, ..Search::new(filters.q.trim(), filter, cursor::USUAL) };
    let found = crate::routes::search::view(app, &app.engine.search(search).await?)?;
    let wanted = wanted(filters.q.trim());
    let finds = found.items.into_iter().map(|view| Find::of(app, &wanted, view)).collect();
    Ok((finds, found.next.map(|next| format!("/?{}", filters.query(&next))), found.partial))
}

pub(super) async fn page(
    State(app): State<App>,
    caller: Caller,
    Disconnect(stop): Disconnect,
    QueryParams(filters): QueryParams<Filters>,
) -> Result<Response, Problem> {
    let after = app.engine.feed_head().await?;
    let results = found(&app, &caller, &filters, stop).await?;
    let mut agents: Vec<String> =
        app.program.agents()?.into_iter().map(|agent| agent.name).collect();
    if !filters.agent.is_empty() && !agents.contains(&filters.agent) {
        agents.push(filters.agent.clone());
    }
    let frame = Frame::new("Sessions", Nav::Sessions, &caller).notice(filters.notice.as_deref());
    frame::page(&List {
        frame: frame.live(after),
        fragment: format!("/search/results?{}", filters.query(&filters.cursor)),
        agents,
        statuses: Status::ALL.map(Status::as_str),
        results,
        filters,
    })
}

/// The results alone, for the script.
pub(super) async fn results(
    State(app): State<App>,
    caller: Caller,
    Disconnect(stop): Disconnect,
    QueryParams(filters): QueryParams<Filters>,
) -> Result<Response, Problem> {
    frame::page(&found(&app, &caller, &filters, stop).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_are_marked_and_the_rest_is_not() {
        let marked = |excerpt: &str, q: &str| {
            let told = parts(excerpt, &wanted(q)).into_iter();
            told.filter(|(_, is_find)| *is_find).map(|(part, _)| part).collect::<Vec<_>>()
        };
        assert_eq!(marked("the **cookie** has no **path**", "cookie path"), ["cookie", "path"]);
        assert_eq!(marked("**bold** and ****cookies****", "cookie"), ["cookies"]);
        assert_eq!(marked("an **odd ** and **migration**", "migr*"), ["migration"]);
        assert_eq!(parts("none", &wanted("cookie")), [("none".to_owned(), false)]);
    }

    #[test]
    fn an_address_keeps_what_was_asked() {
        let filters =
            Filters { q: "a&b".into(), archived: Some("on".into()), ..Filters::default() };
        assert_eq!(filters.query("1.x"), "q=a%26b&archived=on&cursor=1.x");
    }
}
