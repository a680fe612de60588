//! `rethread search`

use std::path::PathBuf;
use std::process::ExitCode;

use jiff::Timestamp;
use rethread_domain::id::SessionRef;
use rethread_domain::quote::one_line;
use rethread_domain::search::{Filter, Hit, Place};
use rethread_domain::{Role, Status};
use serde_json::{Value, json};

use super::{positive, project_filter};
use crate::cli::App;
use crate::error::BadInput;
use crate::output::{self, time};

/// Find what was said
///
/// Looks through messages, titles and summaries. Words are found in any form (`running` finds `run`), names such as
/// better-sqlite3, getUserName or C++ whole and by their parts; "words in quotation marks" as they stand; `migrat*`
/// by their beginning. Words that begin with - go after `--`.
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
    /// At most so many
    #[arg(long, short = 'n', default_value_t = 20, allow_negative_numbers = true)]
    limit: i64,
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
        let hits = app.engine.search(&self.words.join(" "), &filter, limit).await?;
        if app.json {
            output::json(&hits.iter().map(view).collect::<Vec<_>>());
        } else if hits.is_empty() {
            output::note(format_args!("Nothing found."));
        } else {
            let lines: String = hits.iter().map(render).collect();
            output::data(&lines);
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A time, or a day, which is completed to a time.
fn moment(text: &str, rest: &str) -> anyhow::Result<Timestamp> {
    let whole = if text.len() == 10 { format!("{text}{rest}") } else { text.to_owned() };
    whole.parse().map_err(|_| {
        BadInput::new(
            format!("not a time: {text:?}"),
            "for instance 2026-11-15 or 2026-11-15T21:38:00Z",
        )
        .into()
    })
}

fn view(hit: &Hit) -> Value {
    let mut row = json!({
        "session_id": hit.session,
        "title": hit.title,
        "kind": match hit.place {
            Place::Message { .. } => "message",
            Place::Title => "title",
            Place::Summary => "summary",
        },
        "excerpt": hit.excerpt,
        "score": hit.score,
    });
    if let (Place::Message { seq, role, at }, Some(fields)) = (&hit.place, row.as_object_mut()) {
        fields.insert("seq".into(), (*seq).into());
        fields.insert("role".into(), role.as_str().into());
        fields.insert("timestamp".into(), at.to_string().into());
    }
    row
}

fn render(hit: &Hit) -> String {
    let place = match &hit.place {
        Place::Message { seq, role, at } => format!("#{seq} {role}, {}", time::minute(*at)),
        Place::Title => "title".to_owned(),
        Place::Summary => "summary".to_owned(),
    };
    let title = one_line(hit.title.as_deref().unwrap_or("-"), 60);
    let excerpt = output::shown(&hit.excerpt, false);
    let excerpt = if output::is_terminal() { highlight(&excerpt) } else { excerpt };
    format!("{}  {title}  {place}\n    {excerpt}\n", output::bold(&hit.session.short()))
}

/// Every other `**` begins, the next ends a find.
fn highlight(excerpt: &str) -> String {
    let parts = excerpt.split("**").enumerate();
    parts.map(|(at, part)| if at % 2 == 1 { output::bold(part) } else { part.to_owned() }).collect()
}
