//! `rethread export`

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use rethread_domain::SessionId;
use rethread_domain::id::SessionRef;
use rethread_domain::wording::counted;
use rethread_engine::exchange::{Format, Secrets};
use rethread_store::ListFilter;

use crate::cli::App;
use crate::error::BadInput;
use crate::output;

/// Write sessions out, without loss
///
/// As JSON lines (a session, then its facts and messages) or as JSON: `rethread import` reads both. Markdown is for
/// people, and is not read back.
/// What looks like a key, a token or a password is masked, and a note says so.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("which").args(["session", "all"]).required(true))]
pub(crate) struct Args {
    /// The session
    #[arg(value_name = "ID")]
    session: Option<SessionRef>,
    /// Every session that is not deleted
    #[arg(long)]
    all: bool,
    /// How it is written
    #[arg(long, value_enum, default_value_t = Kind::Jsonl)]
    format: Kind,
    /// The file to write to [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write secrets out as they are
    #[arg(long)]
    no_redact: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    Jsonl,
    Json,
    Markdown,
}

impl Args {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        let ids = match &self.session {
            Some(reference) => vec![app.session(reference).await?],
            None => {
                let filter =
                    ListFilter { archived: true, limit: u32::MAX, ..ListFilter::default() };
                app.engine.list(&filter).await?.iter().rev().map(|session| session.id).collect()
            }
        };
        let Some(path) = &self.output else {
            self.write(app, &ids, &mut Pipe).await?;
            return Ok(ExitCode::SUCCESS);
        };
        let mut file = private(path)?;
        let written = self.write(app, &ids, &mut file).await;
        if let Err(error) = written.and_then(|()| Ok(file.sync_all()?)) {
            // Half an export is none.
            drop(std::fs::remove_file(path));
            return Err(error);
        }
        let sessions = counted(ids.len(), "session");
        output::note(format_args!("Wrote {sessions} to {}.", path.display()));
        Ok(ExitCode::SUCCESS)
    }

    async fn write(
        &self,
        app: &App,
        ids: &[SessionId],
        out: &mut (dyn Write + Send),
    ) -> anyhow::Result<()> {
        let mut out = BufWriter::with_capacity(1 << 16, out);
        let format = match self.format {
            Kind::Jsonl => Format::Jsonl,
            Kind::Json => Format::Json,
            Kind::Markdown => Format::Markdown,
        };
        // Several sessions are an array, so that the file is JSON as a whole.
        let (open, comma, close) = match (self.all, format) {
            (true, Format::Json) => ("[", ",", "]\n"),
            _ => ("", "", ""),
        };
        let secrets = if self.no_redact { Secrets::Kept } else { Secrets::Masked };
        let mut masked: BTreeMap<String, u32> = BTreeMap::new();
        out.write_all(open.as_bytes())?;
        for (at, id) in ids.iter().enumerate() {
            if at > 0 {
                out.write_all(comma.as_bytes())?;
            }
            for (what, count) in app.engine.export(*id, format, secrets, &mut out).await? {
                *masked.entry(what).or_default() += count;
            }
        }
        out.write_all(close.as_bytes())?;
        out.flush()?;
        if !masked.is_empty() {
            let masked: Vec<String> =
                masked.iter().map(|(what, count)| format!("{count} × {what}")).collect();
            output::note(format_args!(
                "note: masked: {}; --no-redact writes them unmasked",
                masked.join(", ")
            ));
        }
        Ok(())
    }
}

/// Writes a session to a new file as markdown, with what looks like a secret masked.
pub(crate) async fn to_file(app: &App, id: SessionId, path: &PathBuf) -> anyhow::Result<()> {
    let mut file = private(path)?;
    let written = app.engine.export(id, Format::Markdown, Secrets::Masked, &mut file).await;
    if let Err(error) = written.map_err(anyhow::Error::from).and_then(|_| Ok(file.sync_all()?)) {
        // Half an export is none.
        drop(std::fs::remove_file(path));
        return Err(error);
    }
    Ok(())
}

/// A new file that only its owner can read.
fn private(path: &PathBuf) -> anyhow::Result<std::fs::File> {
    let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match file {
        Ok(file) => {
            file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
            Ok(file)
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            Err(BadInput::new(format!("{} already exists", path.display()), "give a new file")
                .into())
        }
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

/// Standard output, which may stop reading.
struct Pipe;

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        output::write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
