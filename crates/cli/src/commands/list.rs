//! `rethread list`

use std::path::PathBuf;
use std::process::ExitCode;

use jiff::Timestamp;
use rethread_domain::quote::one_line;
use rethread_domain::{Session, SessionId, Status};
use rethread_engine::cursor;
use rethread_engine::views::SessionView;
use rethread_store::ListFilter;
use serde_json::json;

use super::{positive, project_filter};
use crate::cli::App;
use crate::error::bad_cursor;
use crate::output::table::{self, Narrow};
use crate::output::{self, time};

const NONE: &str =
    "No sessions yet. `rethread run AGENT` starts one; `rethread import` brings in those you have.";

/// List sessions, the most recent first
///
/// Those of all users of the store; `resume` and `continue` go on with your own.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only those of this user
    #[arg(long)]
    user: Option<String>,
    /// Only those about this folder
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
    /// Only those of this kind
    #[arg(long)]
    kind: Option<String>,
    /// Only those held with this agent
    #[arg(long)]
    agent: Option<String>,
    /// Only those with this status: active, paused, completed or archived
    #[arg(long)]
    status: Option<Status>,
    /// Archived ones too
    #[arg(long)]
    all: bool,
    /// Only deleted ones, which can still be brought back
    #[arg(long)]
    deleted: bool,
    /// Show at most this many
    #[arg(long, short = 'n', allow_negative_numbers = true)]
    limit: Option<i64>,
    /// Continue where another list ended. With --json this also says whether and where there is more: give it without a
    /// token the first time
    #[arg(long, value_name = "TOKEN", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    cursor: Option<String>,
}

impl Args {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        let folder = self.project.as_deref().map(project_filter);
        let is_filtered = self.user.is_some()
            || self.project.is_some()
            || self.kind.is_some()
            || self.agent.is_some()
            || self.status.is_some()
            || self.deleted;
        let limit =
            self.limit.map_or(Ok(app.config.list.limit), |limit| positive("sessions", limit))?;
        let token = self.cursor.as_deref().filter(|token| !token.is_empty());
        let filter = ListFilter {
            user: self.user,
            project: folder,
            kind: self.kind,
            agent: self.agent,
            parent: None,
            status: self.status,
            archived: self.all,
            deleted: self.deleted,
            before: token.map(position).transpose()?,
            limit: limit.saturating_add(1),
        };
        let mut sessions = app.engine.list(&filter).await?;
        let has_more = sessions.len() > limit as usize;
        sessions.truncate(limit as usize);
        let next = sessions.last().filter(|_| has_more).map(cursor::of_session);
        if app.json {
            let items: Vec<SessionView> = sessions.iter().map(SessionView::from).collect();
            if self.cursor.is_some() {
                output::json(&json!({ "items": items, "next": next }));
            } else {
                output::json(&items);
            }
        } else if sessions.is_empty() {
            output::note(format_args!("{}", if is_filtered { "No sessions match." } else { NONE }));
        } else {
            output::data(&render(&sessions, app));
        }
        if let Some(next) = next.filter(|_| !app.json) {
            output::note(format_args!("There are more: --cursor={next}"));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The position that a token stands for.
fn position(token: &str) -> anyhow::Result<(Timestamp, SessionId)> {
    let hint = "give the token with which the previous list ended, as it is";
    cursor::decode(token).ok_or_else(|| bad_cursor(token, hint).into())
}

fn render(sessions: &[Session], app: &App) -> String {
    let now = app.engine.clock().now();
    // Whose they are is told unless all are one's own.
    let own = app.config.user(None).unwrap_or_else(|_| sessions[0].user.clone());
    let has_others = sessions.iter().any(|session| session.user != own);
    let mut headings =
        vec!["ID", "TITLE", "STATUS", "KIND", "AGENT", "MESSAGES", "TOKENS", "LAST ACTIVE"];
    let has_imported = sessions.iter().any(|session| session.imported_from.is_some());
    if has_imported {
        headings.push("IMPORTED FROM");
    }
    if has_others {
        headings.push("USER");
    }
    let rows = sessions.iter().map(|session| {
        let mut row = vec![
            session.id.short(),
            one_line(session.title.as_deref().unwrap_or("-"), 44),
            session.status().to_string(),
            session.kind.clone(),
            one_line(session.speaker().unwrap_or("-"), 16),
            session.last_seq.to_string(),
            session.counters.tokens.to_string(),
            time::ago(session.last_active_at, now),
        ];
        if has_imported {
            row.push(one_line(session.imported_from.as_deref().unwrap_or("-"), 16));
        }
        if has_others {
            row.push(one_line(&session.user, 20));
        }
        row
    });
    let narrow = Narrow { cut: &["TITLE"], left_out: &["TOKENS", "KIND", "MESSAGES"] };
    table::fitted(&headings, rows.collect(), narrow)
}
