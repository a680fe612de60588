//! `rethread`: the program. Puts the parts together.

mod agents;
mod chat;
mod cli;
mod commands;
mod config;
mod diagnostics;
mod error;
mod host;
mod model;
mod notices;
mod output;
mod terminal;
mod workspace;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    if args.next().is_some_and(|first| first == "guard") {
        // Stands between us and each agent: see the acp room.
        return rethread_acp::guard(args);
    }
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(refused) => return error::usage(&refused),
    };
    let json = cli.json;
    // A panic is our fault, and says so.
    std::panic::set_hook(Box::new(|panic| {
        output::note(format_args!("error: this is a bug in rethread: {panic}"));
        tracing::error!(%panic, "panic");
        diagnostics::flush();
        std::process::exit(error::OUR_FAULT.into());
    }));
    let mut builder = if cli.is_server() {
        tokio::runtime::Builder::new_multi_thread()
    } else {
        tokio::runtime::Builder::new_current_thread()
    };
    let runtime = match builder.enable_all().build() {
        Ok(runtime) => runtime,
        Err(failure) => return error::report(&failure.into(), json),
    };
    let outcome = runtime.block_on(cli.run());
    // A thread that waits for a line that nobody will type is not waited for.
    runtime.shutdown_background();
    let code = match outcome {
        Ok(code) => code,
        Err(failure) => error::report(&failure, json),
    };
    diagnostics::flush();
    code
}
