//! `rethread mcp install`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::clients::{Client, Start, Syntax};
use crate::client_files::{self, edit};
use crate::error::BadInput;
use crate::{config, output};

/// Write a client's configuration, so that it starts this server
///
/// Keeps everything that is in the file, comments included, and a copy of how it was. Shows what changes; with --print
/// it changes nothing.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The client
    #[arg(long, value_enum)]
    client: Client,
    /// Only show what would change
    #[arg(long)]
    print: bool,
}

impl Args {
    pub(super) fn run(self, store: Option<&str>) -> anyhow::Result<ExitCode> {
        let (program, mut args) = client_files::own_command(store)?;
        args.push("mcp".to_owned());
        let start = Start { program, args };
        let folders = config::client_folders()?;
        let file = self.client.file(&folders);
        // Where it is a link, what it leads to is changed, and it stays a link.
        let file = std::fs::canonicalize(&file).unwrap_or(file);
        let before = client_files::read(&file).map_err(|error| unusable(&file, &error))?;
        let before = before.unwrap_or_default();
        let (path, entry) = (self.client.path(), self.client.entry(&start));
        let changed = match self.client.syntax() {
            Syntax::Json => edit::set_json(&before, &path, &entry),
            Syntax::StrictJson => edit::check_strict_json(&before)
                .and_then(|()| edit::set_json(&before, &path, &entry)),
            Syntax::Toml => edit::set_toml(&before, &path, &entry),
            Syntax::TomlList => edit::set_toml_in_list(&before, path[0], "name", &entry),
        };
        let after = changed.map_err(|problem| unusable(&file, &problem))?;
        if after == before {
            output::note(format_args!("{} already has it.", file.display()));
            return Ok(ExitCode::SUCCESS);
        }
        output::data(&format!("{}\n{}", file.display(), client_files::difference(&before, &after)));
        if self.print {
            return Ok(ExitCode::SUCCESS);
        }
        let copy = keep_copy(&file, &before)?;
        client_files::replace(&file, &after)?;
        if let Some(copy) = copy {
            output::note(format_args!("Backup of the old file: {}", copy.display()));
        }
        output::note(format_args!("Written. Restart the client to use it."));
        Ok(ExitCode::SUCCESS)
    }
}

fn unusable(file: &Path, why: &dyn std::fmt::Display) -> anyhow::Error {
    BadInput::new(
        format!("{} is left as it is: {why}", file.display()),
        "correct the file, or add the server by hand: `rethread mcp install --print` shows what is added",
    )
    .into()
}

fn keep_copy(file: &Path, before: &str) -> anyhow::Result<Option<PathBuf>> {
    if before.is_empty() {
        return Ok(None);
    }
    let mut name = file.as_os_str().to_owned();
    name.push(".rethread.bak");
    let copy = PathBuf::from(name);
    client_files::write(&copy, before, client_files::mode(file))?;
    Ok(Some(copy))
}
