//! Choosing among sessions: a picker on a terminal, a list elsewhere.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use futures::executor::block_on;
use rethread_domain::quote::one_line;
use rethread_domain::{Session, SessionId, Status};
use rethread_engine::Engine;
use rethread_engine::views::SessionView;
use rethread_store::{ListFilter, Span};

use super::resume::by_words;
use super::show::mark;
use crate::cli::App;
use crate::error::{Refused, Several};
use crate::output::table::{self, Narrow};
use crate::output::{self, time};
use crate::terminal::picker::{Preview, Row, pick};

/// The most sessions to pick from; words find the others.
const MOST: u32 = 500;
/// The last messages in a preview.
const PREVIEWED: u32 = 6;

/// Which sessions are meant.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Only {
    /// Only those of this kind
    #[arg(long)]
    kind: Option<String>,
    /// Only those with this status: active, paused or completed
    #[arg(long)]
    status: Option<Status>,
}

impl Only {
    fn fits(&self, session: &Session) -> bool {
        self.kind.as_ref().is_none_or(|kind| session.kind == *kind)
            && self.status.is_none_or(|status| session.status() == status)
    }

    fn is_something(&self) -> bool {
        self.kind.is_some() || self.status.is_some()
    }
}

/// The session with this number in the list.
pub(super) async fn by_number(app: &App, number: usize) -> anyhow::Result<Option<Session>> {
    Ok(resumable(app).await?.into_iter().nth(number.saturating_sub(1)).filter(|_| number > 0))
}

pub(super) async fn resumable(app: &App) -> anyhow::Result<Vec<Session>> {
    let user = Some(app.config.user(None)?);
    Ok(app.engine.list(&ListFilter { user, limit: MOST, ..ListFilter::default() }).await?)
}

/// `resume --list`: what can be resumed, the most recent first.
pub(super) async fn list(app: &App, words: Option<&str>, only: &Only) -> anyhow::Result<ExitCode> {
    let mut sessions = match words {
        Some(words) => by_words(app, words).await?,
        None => resumable(app).await?,
    };
    sessions.retain(|session| only.fits(session));
    if app.json {
        output::json(&sessions.iter().map(SessionView::from).collect::<Vec<_>>());
    } else if sessions.is_empty() && (words.is_some() || only.is_something()) {
        output::note(format_args!("No such session can be resumed; `rethread list` shows all."));
    } else if sessions.is_empty() {
        output::note(format_args!(
            "Nothing can be resumed. `rethread run AGENT` starts a session."
        ));
    } else {
        output::data(&numbered(&sessions, app));
    }
    Ok(ExitCode::SUCCESS)
}

fn numbered(sessions: &[Session], app: &App) -> String {
    let now = app.engine.clock().now();
    let rows = (1..).zip(sessions).map(|(number, session): (u32, _)| {
        let text = |text: Option<&String>, chars| one_line(text.map_or("", String::as_str), chars);
        vec![
            number.to_string(),
            session.id.short(),
            match &session.imported_from {
                Some(agent) => format!("{}, from {agent}", session.kind),
                None => session.kind.clone(),
            },
            text(session.title.as_ref(), 40),
            time::ago(session.last_active_at, now),
            session.status().to_string(),
            text(session.summary.as_ref(), 40),
        ]
    });
    let headings = ["", "ID", "KIND", "TITLE", "LAST ACTIVE", "STATUS", "SUMMARY"];
    let narrow = Narrow { cut: &["SUMMARY", "TITLE"], left_out: &["SUMMARY", "STATUS", "KIND"] };
    table::fitted(&headings, rows.collect(), narrow)
}

/// Any session, by the picker.
pub(super) async fn from_all(app: &App, only: &Only) -> anyhow::Result<Option<Session>> {
    let mut sessions = resumable(app).await?;
    sessions.retain(|session| only.fits(session));
    if sessions.is_empty() {
        return Err(Refused {
            code: "session_not_found",
            message: "there is nothing to resume yet".into(),
            hint: Some("`rethread run AGENT` starts a session".into()),
        }
        .into());
    }
    among(app, sessions, "").await
}

/// One of several, by the picker where there is a terminal.
pub(super) async fn among(
    app: &App,
    sessions: Vec<Session>,
    words: &str,
) -> anyhow::Result<Option<Session>> {
    if app.json || !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        let meant = if words.is_empty() {
            "several sessions could be meant".to_owned()
        } else {
            format!("{words:?} could mean several sessions")
        };
        if app.json {
            let candidates = sessions.iter().map(SessionView::from).collect();
            return Err(Several { message: meant, candidates }.into());
        }
        output::note(format_args!("{}", numbered(&sessions, app).trim_end()));
        return Err(Refused {
            code: "ambiguous",
            message: meant,
            hint: Some("give an id: `rethread resume ID`".into()),
        }
        .into());
    }
    let mut rows = Vec::with_capacity(sessions.len());
    for session in &sessions {
        rows.push(row(app, session).await?);
    }
    let find = |words: &str| found(app, words);
    let preview = |id: &str| preview(&app.engine, id);
    let Some(id) = pick(rows, find, preview)? else {
        return Ok(None);
    };
    Ok(sessions.into_iter().find(|session| session.id.to_string() == id))
}

async fn row(app: &App, session: &Session) -> anyhow::Result<Row> {
    let agents = app.engine.preview(session.id).await?.metadata.recent_agents;
    let cost = rethread_domain::context::Costs::from(session.counters).total_cost_usd;
    let names = agents.iter().map(|agent| agent.name.as_str()).collect::<Vec<_>>().join(", ");
    Ok(Row {
        id: session.id.to_string(),
        title: session.title.clone().unwrap_or_default(),
        summary: session.summary.clone().unwrap_or_default(),
        status: session.status().to_string(),
        kind: session.kind.clone(),
        when: time::ago(session.last_active_at, app.engine.clock().now()),
        messages: session.last_seq,
        tokens: session.counters.tokens,
        cost: if cost > 0.0 { format!("${cost:.2}") } else { String::new() },
        agents: match &session.imported_from {
            Some(agent) => format!("{names}, from {agent}"),
            None => names,
        },
        project: session.project.clone(),
    })
}

/// The sessions whose text has the words. Reads run on this thread, so nothing has to be waited for.
fn found(app: &App, words: &str) -> Vec<String> {
    let found = block_on(by_words(app, words)).unwrap_or_default();
    found.iter().map(|session| session.id.to_string()).collect()
}

fn preview(engine: &Engine, id: &str) -> Preview {
    let Ok(id) = id.parse::<SessionId>() else { return Preview { lines: Vec::new() } };
    let mut last = block_on(engine.messages(id, Span::newest(PREVIEWED))).unwrap_or_default();
    last.reverse();
    let mut lines = Vec::new();
    for message in last {
        let head = message.body.head();
        lines.push(format!("{}{}:", message.role.label(), mark(&message)));
        lines.extend(head[..head.floor_char_boundary(1_000)].lines().map(str::to_owned));
        lines.push(String::new());
    }
    Preview { lines }
}

/// Whether there is somebody to ask.
pub(crate) fn is_asked() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks a question that is answered with yes or no; without a terminal the answer is no.
pub(crate) fn confirm(question: &str) -> anyhow::Result<bool> {
    if !is_asked() {
        return Ok(false);
    }
    write!(std::io::stderr(), "{question} [y/N] ")?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
