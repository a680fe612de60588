//! `rethread`: the program. Puts the parts together.

mod agents;
mod chat;
mod cli;
mod client_files;
mod commands;
mod config;
mod diagnostics;
mod error;
mod host;
mod model;
mod notices;
mod output;
mod replace;
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
    if cli::is_version_asked() {
        output::data(concat!("rethread ", env!("CARGO_PKG_VERSION"), "\n"));
        return ExitCode::SUCCESS;
    }
    // An agent that calls its hook must not be stopped by it: what goes wrong is only noted in the log.
    let is_hook = cli::is_hook_called();
    if is_hook && config::is_driven() {
        // We drive the agent ourselves, and record it already.
        return ExitCode::SUCCESS;
    }
    let cli = match cli::Cli::quickly().map_or_else(cli::Cli::try_parse, Ok) {
        Ok(cli) => cli,
        Err(_) if is_hook => return ExitCode::SUCCESS,
        Err(refused) => return error::usage(&refused),
    };
    let json = cli.shared.json;
    // A panic is our fault, and says so.
    std::panic::set_hook(Box::new(move |panic| {
        tracing::error!(%panic, "panic");
        diagnostics::flush();
        if is_hook {
            std::process::exit(0);
        }
        output::note(format_args!("error: this is a bug in rethread: {panic}"));
        std::process::exit(rethread_engine::codes::Code::of("internal").exit.into());
    }));
    let config = cli.is_quick().then(config::Config::load);
    let runtime = match runtime(&cli, config.as_ref()) {
        Ok(runtime) => runtime,
        Err(_) if is_hook => return ExitCode::SUCCESS,
        Err(failure) => return error::report(&failure.into(), json),
    };
    let outcome = runtime.block_on(cli.run(config));
    // A thread that waits for a line that nobody will type is not waited for.
    runtime.shutdown_background();
    let code = match outcome {
        Ok(code) => code,
        Err(failure) => error::report(&failure, json),
    };
    diagnostics::flush();
    replace::now().map_or(code, |failure| error::report(&failure, json))
}

/// What a command runs on: all cores for a server; nothing to wait for sockets and programs with where there are none.
fn runtime(
    cli: &cli::Cli,
    config: Option<&anyhow::Result<config::Config>>,
) -> std::io::Result<tokio::runtime::Runtime> {
    use tokio::runtime::Builder;
    if cli.is_server() {
        return Builder::new_multi_thread().enable_all().build();
    }
    match config {
        None if cli.is_hook() => Builder::new_current_thread().enable_time().build(),
        Some(Ok(config)) if !config.has_model() => {
            Builder::new_current_thread().enable_time().build()
        }
        _ => Builder::new_current_thread().enable_all().build(),
    }
}
