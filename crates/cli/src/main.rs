//! `rethread`: the program. Puts the parts together.

mod cli;
mod commands;
mod config;
mod error;
mod output;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(refused) => return error::usage(&refused),
    };
    let json = cli.json;
    // A panic is our fault, and says so.
    std::panic::set_hook(Box::new(|panic| {
        output::note(format_args!("error: this is a bug in rethread: {panic}"));
        std::process::exit(error::OUR_FAULT.into());
    }));
    match futures::executor::block_on(cli.run()) {
        Ok(code) => code,
        Err(failure) => error::report(&failure, json),
    }
}
