//! `rethread completions`, `man`

use std::path::PathBuf;
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::output;

/// Print completions for a shell
///
/// For instance: `rethread completions bash > ~/.local/share/bash-completion/completions/rethread`
#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

/// Print the manual page, or write one for each command
#[derive(Debug, clap::Args)]
pub(crate) struct Man {
    /// The folder to write them to
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Completions {
    pub(crate) fn run(self) -> ExitCode {
        let mut out = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "rethread", &mut out);
        output::write(&out);
        ExitCode::SUCCESS
    }
}

impl Man {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let Some(folder) = self.out else {
            let mut out = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut out)?;
            output::write(&out);
            return Ok(ExitCode::SUCCESS);
        };
        std::fs::create_dir_all(&folder)?;
        clap_mangen::generate_to(Cli::command(), &folder)?;
        output::note(format_args!("Wrote the manual pages to {}.", folder.display()));
        Ok(ExitCode::SUCCESS)
    }
}
