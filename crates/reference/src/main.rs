//! `reference-agent`: the reference agent as a program of its own.

use std::process::ExitCode;

use clap::Parser;
use rethread_reference::Flags;

/// A deterministic agent that speaks ACP on its standard input and output
#[derive(Debug, Parser)]
#[command(name = "reference-agent", version, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    flags: Flags,
}

fn main() -> ExitCode {
    rethread_reference::run(Cli::parse().flags)
}
