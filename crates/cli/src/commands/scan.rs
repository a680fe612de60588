//! `rethread scan`

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use rethread_domain::id::SessionRef;
use rethread_store::{ListFilter, Order, Span};
use serde::Serialize;

use crate::cli::App;
use crate::output;

/// Longer files are looked through up to here.
const MOST_BYTES: u64 = 64 << 20;
const PAGE: u32 = 500;

/// Look for secrets in a folder, or in what was recorded
///
/// Keys, tokens and passwords, by their form and by the names before them. Exit code 1 when there are any. Nothing is
/// changed: what is in the store is masked wherever it leaves; `rethread purge` removes a message for good.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A folder or file [default: the workspace, or the current folder]
    #[arg(value_name = "PATH", conflicts_with_all = ["recorded", "session"])]
    path: Option<PathBuf>,
    /// Everything that was recorded
    #[arg(long, conflicts_with = "session")]
    recorded: bool,
    /// One session
    #[arg(long, value_name = "ID")]
    session: Option<SessionRef>,
}

/// A secret, and where it is; never the secret itself.
#[derive(Debug, Serialize)]
struct Found {
    place: String,
    line: usize,
    what: String,
}

impl Args {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        let found = if self.recorded || self.session.is_some() {
            recorded(app, self.session.as_ref()).await?
        } else {
            let here = app.engine.workspace().map_or(Path::new("."), |one| one.root());
            let mut found = Vec::new();
            // Links below are not followed; the one that was asked for is.
            let asked = self.path.as_deref().unwrap_or(here);
            let asked =
                std::fs::canonicalize(asked).with_context(|| asked.display().to_string())?;
            below(app, &asked, &mut found)?;
            found
        };
        if app.json {
            output::json(&found);
        } else {
            for one in &found {
                let place = output::shown(&one.place, false);
                output::data(&format!("{place}:{}: {}\n", one.line, one.what));
            }
            output::note(format_args!("{}", counted(&found)));
        }
        Ok(if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn counted(found: &[Found]) -> String {
    if found.is_empty() {
        return "No secrets found.".to_owned();
    }
    let mut kinds: BTreeMap<&str, u32> = BTreeMap::new();
    for one in found {
        *kinds.entry(&one.what).or_default() += 1;
    }
    let kinds: Vec<String> =
        kinds.iter().map(|(what, count)| format!("{count} × {what}")).collect();
    format!("Secrets found: {}", kinds.join(", "))
}

/// Looks through files. Links are not followed, and what is not text is left out.
fn below(app: &App, path: &Path, found: &mut Vec<Found>) -> anyhow::Result<()> {
    let what = std::fs::symlink_metadata(path)?;
    if what.is_dir() {
        let mut inside: Vec<PathBuf> =
            std::fs::read_dir(path)?.flatten().map(|entry| entry.path()).collect();
        inside.sort();
        for path in inside.iter().filter(|path| !path.ends_with(".git")) {
            below(app, path, found)?;
        }
    } else if what.is_file() {
        let mut bytes = Vec::new();
        std::fs::File::open(path)?.take(MOST_BYTES).read_to_end(&mut bytes)?;
        if !bytes.contains(&0) {
            look(app, &path.display().to_string(), &String::from_utf8_lossy(&bytes), found);
        }
    }
    Ok(())
}

async fn recorded(app: &App, session: Option<&SessionRef>) -> anyhow::Result<Vec<Found>> {
    let mut found = Vec::new();
    let ids = match session {
        Some(reference) => vec![app.session(reference).await?],
        None => {
            let filter = ListFilter { archived: true, limit: u32::MAX, ..ListFilter::default() };
            app.engine.list(&filter).await?.iter().map(|session| session.id).collect()
        }
    };
    for id in ids {
        let title = app.engine.session(id).await?.title.unwrap_or_default();
        look(app, &format!("{} title", id.short()), &title, &mut found);
        let mut from = 1;
        loop {
            let span = Span { from, to: u32::MAX, order: Order::OldestFirst, limit: PAGE };
            let page = app.engine.messages(id, span).await?;
            let Some(last) = page.last().map(|message| message.seq) else { break };
            for message in &page {
                let place = format!("{} message {}", id.short(), message.seq);
                look(app, &place, message.body.head(), &mut found);
                let mut other = message.extras.other.clone();
                let calls = message.extras.tool_calls.clone();
                other.extend(calls.map(|calls| ("tool_calls".to_owned(), calls)));
                let inside = app.engine.redactor().redact_json(&mut other.into());
                found.extend(inside.into_iter().map(|what| Found {
                    place: place.clone(),
                    line: 1,
                    what,
                }));
            }
            from = last + 1;
        }
    }
    Ok(found)
}

fn look(app: &App, place: &str, text: &str, found: &mut Vec<Found>) {
    for one in app.engine.redactor().redact(text).found {
        let line = text[..one.at.start].matches('\n').count() + 1;
        found.push(Found { place: place.to_owned(), line, what: one.what });
    }
}
