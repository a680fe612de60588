//! `rethread mcp install`

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::clients::{Client, Folders, Start, Syntax};
use super::edit;
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
        let program = std::env::current_exe()?;
        let program = program.to_str().ok_or_else(|| {
            BadInput::new("this program has a name that is not valid UTF-8", "move it elsewhere")
        })?;
        let mut args: Vec<String> = Vec::new();
        if let Some(store) = store.filter(|store| !store.is_empty()) {
            args.extend(["--store".to_owned(), store.to_owned()]);
        }
        args.push("mcp".to_owned());
        let start = Start { program: program.to_owned(), args };
        let (home, config) = config::client_folders()?;
        let file = self.client.file(&Folders { home, config });
        // Where it is a link, what it leads to is changed, and it stays a link.
        let file = std::fs::canonicalize(&file).unwrap_or(file);
        let before = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(unusable(&file, &error)),
        };
        let (path, entry) = (self.client.path(), self.client.entry(&start));
        let changed = match self.client.syntax() {
            Syntax::Json => edit::set_json(&before, &path, &entry),
            Syntax::Toml => edit::set_toml(&before, &path, &entry),
        };
        let after = changed.map_err(|problem| unusable(&file, &problem))?;
        if after == before {
            output::note(format_args!("{} already has it.", file.display()));
            return Ok(ExitCode::SUCCESS);
        }
        output::data(&format!("{}\n{}", file.display(), difference(&before, &after)));
        if self.print {
            return Ok(ExitCode::SUCCESS);
        }
        let copy = keep_copy(&file, &before)?;
        replace(&file, &after)?;
        if let Some(copy) = copy {
            output::note(format_args!("As it was: {}", copy.display()));
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

/// The lines that differ: between those that are the same at both ends.
fn difference(before: &str, after: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let most = old.len().min(new.len()) - head;
    let tail = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count().min(most);
    let mut out = String::new();
    for (sign, lines) in [("-", &old[head..old.len() - tail]), ("+", &new[head..new.len() - tail])]
    {
        for line in lines {
            out.push_str(&format!("{sign} {}\n", output::shown(line, false)));
        }
    }
    out
}

fn keep_copy(file: &Path, before: &str) -> anyhow::Result<Option<PathBuf>> {
    if before.is_empty() {
        return Ok(None);
    }
    let mut name = file.as_os_str().to_owned();
    name.push(".rethread.bak");
    let copy = PathBuf::from(name);
    write(&copy, before, mode(file))?;
    Ok(Some(copy))
}

fn mode(file: &Path) -> u32 {
    std::fs::metadata(file).map_or(0o600, |about| about.permissions().mode() & 0o777)
}

/// As a whole: a crash leaves the old file or the new one.
fn replace(file: &Path, text: &str) -> anyhow::Result<()> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut name = file.as_os_str().to_owned();
    name.push(".rethread.part");
    let half = PathBuf::from(name);
    write(&half, text, mode(file))?;
    Ok(std::fs::rename(&half, file)?)
}

fn write(file: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    // There is one only after a crash; one that stays in the way fails what follows.
    drop(std::fs::remove_file(file));
    let mut out = OpenOptions::new().create_new(true).write(true).mode(mode).open(file)?;
    out.write_all(text.as_bytes())?;
    Ok(out.sync_all()?)
}
