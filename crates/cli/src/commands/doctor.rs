//! `rethread doctor`

use std::path::PathBuf;
use std::process::ExitCode;

use rethread_domain::id::SessionRef;
use rethread_domain::opening;
use rethread_domain::quote::one_line;
use rethread_domain::wording::counted;
use rethread_engine::Checked;
use rethread_engine::Logged as _;
use rethread_engine::folders::FolderHealth;
use rethread_engine::views::StoreView;
use rethread_store::{OpeningCount, Repaired};
use serde::Serialize;
use serde_json::json;

use super::native;
use crate::cli::App;
use crate::output::{self, table};
use crate::workspace;

/// As much of a path as is shown: all of it, on most systems.
const PATH_CHARS: usize = 4096;

/// Check the store, and mend what can be mended
///
/// Looks for damage in the file, checks every record against its checksum, compares everything that is derived (counters,
/// titles, summaries, the search index) with the log, and shows what the store holds and how conversations were opened in
/// agents. Exit code 1 when something is wrong.
///
/// With a session: what is wrong with the native session that its agent keeps of it (an unanswered tool call, a torn line, a lost
/// folder, messages that it never got), and what `rethread resume SESSION --native` would do about it. Nothing is changed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Look at the native session of this session only
    #[arg(value_name = "SESSION", conflicts_with_all = ["rebuild", "repair", "compact"])]
    session: Option<SessionRef>,
    /// The agent whose native session is meant [default: the one it was held with]
    #[arg(long, value_name = "AGENT", requires = "session")]
    with: Option<String>,
    /// Make counters, views and the search index anew from the log
    #[arg(long)]
    rebuild: bool,
    /// Mend damaged records and damaged logs of session folders; what was damaged is kept aside
    ///
    /// A record that does not match its checksum is brought back from the backup that --from names, made anew from the
    /// log, or set aside in the store with a mark in its place.
    #[arg(long)]
    repair: bool,
    /// A backup to bring damaged records back from
    #[arg(long, value_name = "BACKUP", requires = "repair")]
    from: Option<PathBuf>,
    /// Give unused space back; what was deleted more than 30 days ago goes
    #[arg(long)]
    compact: bool,
}

impl Args {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        if let Some(session) = &self.session {
            let id = app.session(session).await?;
            return native::examine(app, id, self.with.as_deref()).await;
        }
        if self.rebuild {
            output::note(format_args!("Rebuilding from the log …"));
            app.engine.rebuild().await?;
        }
        if self.compact {
            output::note(format_args!("Compacting …"));
            app.engine.compact().await?;
        }
        let repaired = if self.repair {
            app.engine.repair(self.from.as_deref()).await?
        } else {
            Repaired::default()
        };
        let checked = app.engine.check().await?;
        let openings = app.engine.openings(None).await;
        let openings = openings.or_log("openings cannot be counted").unwrap_or_default();
        if !checked.health.damage.is_empty() && self.repair {
            output::note(format_args!("The store is damaged: folders are left as they are."));
        }
        let repair = self.repair && checked.health.damage.is_empty();
        let mut folders = match checked.health.damage.as_slice() {
            [] => app.engine.check_folders(&app.config.user(None)?, repair).await?,
            _ => Vec::new(),
        };
        folders.extend(workspace::unusable());
        let is_well = checked.health.damage.is_empty()
            && checked.health.records.is_empty()
            && checked.health.drift.is_empty()
            && checked.health.damaged_logs.is_empty()
            && folders.iter().all(|one| one.troubles.is_empty() || one.is_repaired);
        if app.json {
            output::json(&DoctorView {
                store: app.url.to_string(),
                sqlite: rethread_store::sqlite_version(),
                checked: StoreView::from(&checked),
                openings: &openings,
                folders: folders.iter().map(folder_view).collect(),
                repaired: &repaired,
                ok: is_well,
            });
        } else {
            output::data(&mended(&repaired));
            output::data(&render(&checked, app));
            output::data(&housed(&folders));
            output::data(&opened(&openings));
        }
        Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// What `doctor --json` prints.
#[derive(Debug, Serialize)]
struct DoctorView<'a> {
    store: String,
    sqlite: &'static str,
    #[serde(flatten)]
    checked: StoreView,
    openings: &'a [OpeningCount],
    folders: Vec<serde_json::Value>,
    repaired: &'a Repaired,
    ok: bool,
}

fn render(checked: &Checked, app: &App) -> String {
    let usage = checked.usage;
    let mut out = String::new();
    let mut line = |name: &str, value: String| out.push_str(&format!("{name:<12}{value}\n"));
    line(
        "Store",
        match app.url.file() {
            Some(_) => {
                let version = rethread_store::sqlite_version();
                format!("{} (schema {}, SQLite {version})", app.url, usage.schema)
            }
            None => format!("{} (schema {})", app.url, usage.schema),
        },
    );
    let deleted = match usage.deleted_sessions {
        0 => String::new(),
        count => format!(", and {count} deleted"),
    };
    line("Sessions", format!("{}{deleted}", usage.sessions));
    line("Messages", usage.messages.to_string());
    let sizes = [
        ("file", usage.file_bytes),
        ("write-ahead log", usage.wal_bytes),
        ("unused", usage.free_bytes),
    ];
    let sizes = sizes.map(|(what, bytes)| format!("{what} {}", size(bytes)));
    line("Disk", sizes.join(", "));
    line("Long texts", size(usage.blob_bytes));
    line(
        "Index",
        match checked.health.unindexed {
            0 => "up to date".to_owned(),
            lag => format!("{} behind; the next search catches up", counted(lag, "message")),
        },
    );
    let records = checked.health.records.iter();
    let records = records.map(|record| format!("{record} does not match its checksum"));
    let logs = checked.health.damaged_logs.iter().cloned();
    let damage = checked.health.damage.iter().cloned().chain(logs);
    let problems: Vec<String> =
        damage.chain(records).chain(checked.health.drift.iter().cloned()).collect();
    if problems.is_empty() {
        line("Check", "everything is in order".to_owned());
    }
    for problem in problems {
        line("Problem", output::shown(&problem, false));
    }
    if !checked.health.records.is_empty() {
        out.push_str(
            "`rethread doctor --repair` brings damaged records back from the session's folder or, with `--from BACKUP`, from a \
             backup; otherwise they are made anew from the log or set aside.\n",
        );
    }
    if !checked.health.drift.is_empty() {
        out.push_str("`rethread doctor --rebuild` makes these anew from the log.\n");
    }
    out
}

/// What became of damaged records.
fn mended(repaired: &Repaired) -> String {
    let groups = [
        ("Restored", &repaired.restored),
        ("Rebuilt", &repaired.rebuilt),
        ("Set aside", &repaired.set_aside),
    ];
    let mut out = String::new();
    for (what, records) in groups {
        for record in records {
            out.push_str(&format!("{what:<12}{}\n", output::shown(&record.to_string(), false)));
        }
    }
    out
}

fn folder_view(folder: &FolderHealth) -> serde_json::Value {
    json!({
        "path": folder.path,
        "troubles": folder.troubles,
        "kept_aside": folder.aside,
        "repaired": folder.is_repaired,
        "deleted_here": folder.is_deleted_here,
    })
}

/// What is wrong with the folders of the workspace.
fn housed(folders: &[FolderHealth]) -> String {
    if folders.is_empty() {
        return String::new();
    }
    let mut out = String::new();
    let mut line = |name: &str, value: &str| {
        out.push_str(&format!("{name:<12}{}\n", output::shown(value, false)));
    };
    let ill: Vec<&FolderHealth> = folders.iter().filter(|one| !one.troubles.is_empty()).collect();
    let sound = folders.iter().filter(|one| !one.is_deleted_here).count();
    if ill.is_empty() && sound > 0 {
        line("Folders", &format!("{sound}, all as they should be"));
    }
    for folder in &ill {
        for trouble in &folder.troubles {
            // Whose trouble it is, where that does not say so itself.
            let path = one_line(&folder.path, PATH_CHARS);
            let is_named = trouble.contains(&folder.path) || trouble.contains(&path);
            let named = format!("{path}: {trouble}");
            line("Folder", if is_named { trouble } else { &named });
        }
        for aside in &folder.aside {
            line("Kept", &one_line(&aside.display().to_string(), PATH_CHARS));
        }
        if folder.is_repaired {
            line("Repaired", &one_line(&folder.path, PATH_CHARS));
        }
    }
    for folder in folders.iter().filter(|one| one.is_deleted_here) {
        let told = format!(
            "{}: its session was deleted here, so it is left alone; `git rm -r` removes it",
            one_line(&folder.path, PATH_CHARS)
        );
        line("Folder", &told);
    }
    if ill.iter().any(|folder| !folder.is_repaired) {
        out.push_str("`rethread doctor --repair` writes damaged logs anew, as far as the messages are known here.\n");
    }
    out
}

/// How conversations were opened in agents, and why not better.
fn opened(openings: &[OpeningCount]) -> String {
    if openings.is_empty() {
        return String::new();
    }
    let rows = openings.iter().map(|one| {
        vec![
            one.agent.clone(),
            one.how.to_string(),
            one.why.as_deref().map_or_else(String::new, |why| opening::reason(why).to_owned()),
            one.count.to_string(),
            format!("{} ms", one.median_ms),
            format!("{} ms", one.most_ms),
        ]
    });
    let headings = ["AGENT", "OPENED", "BECAUSE", "TIMES", "MEDIAN", "LONGEST"];
    format!("\n{}", table::render(&headings, rows.collect()))
}

fn size(bytes: u64) -> String {
    match bytes {
        0..10_240 => format!("{bytes} B"),
        10_240..10_485_760 => format!("{} KiB", bytes / 1024),
        _ => format!("{} MiB", bytes / 1_048_576),
    }
}
