//! `rethread search`

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::process::ExitCode;

use rethread_domain::SessionId;
use rethread_domain::id::SessionRef;
use rethread_domain::quote::one_line;
use rethread_domain::search::{Cursor, Filter, Found, Hit, Place};
use rethread_domain::wording::counted;
use rethread_domain::{Role, Status};
use rethread_engine::views::FoundView;
use rethread_engine::{Engine, Search};

use super::{moment, positive, project_filter};
use crate::cli::App;
use crate::error::bad_cursor;
use crate::output::{self, time};

/// Find what was said
///
/// Looks through messages, titles and summaries. Words are found in any form (`running` finds `run`), names such as
/// better-sqlite3, getUserName or C++ whole and by their parts; "words in quotation marks" as they stand; `migrat*`
/// by their beginning, the last word without the star too. Words that begin with - go after `--`. What looks like a
/// secret is masked, and cannot be found.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to look for
    #[arg(required = true, value_name = "WORDS")]
    words: Vec<String>,
    /// Only in this session
    #[arg(long, value_name = "ID")]
    session: Option<SessionRef>,
    /// Only in those of this user
    #[arg(long)]
    user: Option<String>,
    /// Only in those about this folder
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
    /// Only in those held with this agent
    #[arg(long)]
    agent: Option<String>,
    /// Only in those of this kind
    #[arg(long)]
    kind: Option<String>,
    /// Only in those with this status
    #[arg(long)]
    status: Option<Status>,
    /// Only what this role said: user, assistant, system or tool
    #[arg(long)]
    role: Option<Role>,
    /// Only since then (2026-11-15 or 2026-11-15T21:38:00Z)
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only until then
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Show at most this many
    #[arg(long, short = 'n', default_value_t = 20, allow_negative_numbers = true)]
    limit: i64,
    /// Go on where another search ended. With --json this also says whether and where there is more: give it without a
    /// token the first time
    #[arg(long, value_name = "TOKEN", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    cursor: Option<String>,
}

impl Args {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        let limit = positive("results", self.limit)?;
        let session = match &self.session {
            Some(reference) => Some(app.session(reference).await?),
            None => None,
        };
        let folder = self.project.as_deref().map(project_filter);
        let filter = Filter {
            session,
            user: self.user,
            project: folder,
            agent: self.agent,
            kind: self.kind,
            status: self.status,
            role: self.role,
            since: self.since.as_deref().map(|text| moment(text, "T00:00:00Z")).transpose()?,
            until: self
                .until
                .as_deref()
                .map(|text| moment(text, "T23:59:59.999999Z"))
                .transpose()?,
        };
        let after =
            self.cursor.as_deref().filter(|token| !token.is_empty()).map(place).transpose()?;
        let search = Search { after, ..Engine::sought(&self.words.join(" "), filter, limit)? };
        let found = app.engine.search(search).await?;
        let origins = if app.json { Origins::new() } else { origins(app, &found).await? };
        show(app, &found, &origins, self.cursor.is_some());
        Ok(ExitCode::SUCCESS)
    }
}

/// Searches all sessions, within a conversation.
pub(crate) async fn here(app: &App, words: &str) -> anyhow::Result<()> {
    let found = app.engine.search(Engine::sought(words, Filter::default(), 10)?).await?;
    let origins = origins(app, &found).await?;
    show(app, &found, &origins, false);
    Ok(())
}

/// The agents that sessions were imported from.
type Origins = HashMap<SessionId, String>;

async fn origins(app: &App, found: &Found) -> anyhow::Result<Origins> {
    let mut origins = Origins::new();
    let sessions: HashSet<SessionId> = found.hits.iter().map(|hit| hit.session).collect();
    for id in sessions {
        if let Some(agent) = app.engine.imported_from(id).await? {
            origins.insert(id, agent);
        }
    }
    Ok(origins)
}

/// Shows what was found; where somebody pages through it, with where it goes on.
fn show(app: &App, found: &Found, origins: &Origins, is_paged: bool) {
    let view = FoundView::from(found);
    if app.json && is_paged {
        output::json(&view);
    } else if app.json {
        output::json(&view.items);
    } else if found.hits.is_empty() {
        output::note(format_args!("Nothing found."));
    } else {
        let lines: String = found.hits.iter().map(|hit| render(hit, origins)).collect();
        output::data(&lines);
    }
    if found.damaged > 0 {
        let damaged = counted(found.damaged, "damaged message");
        output::note(format_args!(
            "Not searched: {damaged}, which `rethread doctor` names; `rethread doctor --repair` mends what it can."
        ));
    }
    if found.is_partial {
        output::note(format_args!(
            "Only a part was searched: the rest would have taken too much work. More words or filters narrow it down."
        ));
    }
    let is_of_use = !app.json && (found.is_partial || is_paged);
    if let Some(next) = view.next.filter(|_| is_of_use) {
        output::note(format_args!("It goes on with --cursor={next}"));
    }
}

/// Where a search goes on.
fn place(token: &str) -> anyhow::Result<Cursor> {
    let hint = "give the token that the search before ended with, as it is";
    token.parse().map_err(|_| bad_cursor(token, hint).into())
}

/// A find: where it is, and what stands there.
fn render(hit: &Hit, origins: &Origins) -> String {
    let place = match &hit.place {
        Place::Message { seq, role, at } => format!("#{seq} {role}, {}", time::minute(*at)),
        Place::Title => "title".to_owned(),
        Place::Summary => "summary".to_owned(),
    };
    let title = one_line(hit.title.as_deref().unwrap_or("-"), 60);
    let excerpt = output::shown(&hit.excerpt, false);
    let excerpt = if output::is_terminal() { highlight(&excerpt) } else { excerpt };
    let from =
        origins.get(&hit.session).map(|agent| format!("  imported from {}", one_line(agent, 30)));
    let (id, from) = (output::bold(&hit.session.short()), from.unwrap_or_default());
    format!("{id}  {title}  {place}{from}\n    {excerpt}\n")
}

/// Every other `**` begins, the next ends a find.
fn highlight(excerpt: &str) -> String {
    let parts = excerpt.split("**").enumerate();
    parts.map(|(at, part)| if at % 2 == 1 { output::bold(part) } else { part.to_owned() }).collect()
}
