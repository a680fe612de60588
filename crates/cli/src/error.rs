//! Errors for people and programs: what is wrong, what to do next, and the exit code.

use std::process::ExitCode;

use clap::CommandFactory as _;
use rethread_domain::id::Invalid;
use rethread_domain::quote;
use rethread_domain::wording::plain;
use rethread_engine::Error;
use rethread_engine::agents::AgentError;
use rethread_engine::codes::Code;
use rethread_engine::program::Fault;
use rethread_engine::views::SessionView;
use serde_json::json;

use crate::{diagnostics, output};

/// The longest line of an error about the command line.
const LINE: usize = 300;

/// Input that a command cannot use.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct BadInput {
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

/// A request that a command does not carry out.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Refused {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

/// That a list cannot go on from there.
pub(crate) fn bad_cursor(token: &str, hint: &str) -> Refused {
    let message = format!("not a cursor: {token:?}");
    Refused { code: "bad_cursor", message, hint: Some(hint.to_owned()) }
}

/// What went wrong before a request was written down: there is nothing to take up again.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct NotRecorded(pub(crate) Error);

/// The person does not want it any more.
#[derive(Debug, thiserror::Error)]
#[error("{agent}: cancelled")]
pub(crate) struct Cancelled {
    pub(crate) agent: String,
    /// Whether the request was written down before.
    pub(crate) is_recorded: bool,
}

/// Words that may mean several sessions, for a program, which cannot be asked.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Several {
    pub(crate) message: String,
    pub(crate) candidates: Vec<SessionView>,
}

impl BadInput {
    pub(crate) fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: Some(hint.into()) }
    }
}

/// An error as it is reported.
struct Report {
    code: &'static str,
    exit: u8,
    hint: Option<String>,
}

impl Report {
    /// As the table says; with a hint of its own, or the usual one.
    fn new(code: &str, hint: Option<String>) -> Self {
        let row = Code::of(code);
        Self { code: row.name, exit: row.exit, hint: hint.or_else(|| row.hint()) }
    }
}

/// Prints an error with its causes and a hint, and picks the exit code.
pub(crate) fn report(failure: &anyhow::Error, json: bool) -> ExitCode {
    ExitCode::from(tell(failure, json))
}

/// Prints an error with its causes and a hint; gives the exit code that it would mean.
pub(crate) fn tell(failure: &anyhow::Error, json: bool) -> u8 {
    let report = classify(failure);
    let message = format!("{failure:#}");
    log(report.code, failure);
    if let Some(several) = failure.downcast_ref::<Several>() {
        let (code, hint) = (report.code, report.hint);
        let candidates = &several.candidates;
        output::note(format_args!(
            "{}",
            json!({"error": {"code": code, "message": message, "hint": hint, "candidates": candidates}})
        ));
    } else {
        print(report.code, &message, report.hint.as_deref(), json);
    }
    report.exit
}

/// A fault of ours is always noted; anything else where nobody may be there to read it, and it is not told there anyway.
fn log(code: &str, failure: &anyhow::Error) {
    let error: &(dyn std::error::Error + 'static) = failure.as_ref();
    if code == "internal" {
        tracing::error!(error, code, "internal error");
    } else if !output::is_error_terminal() && !diagnostics::is_shown() {
        tracing::warn!(error, code, "the command failed");
    }
}

/// A command line that is not understood; help and version come this way too.
pub(crate) fn usage(refused: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind;
    if matches!(refused.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        output::data(&refused.render().to_string());
        return ExitCode::SUCCESS;
    }
    let json = std::env::args_os().any(|argument| argument == "--json");
    if let Some(help) = help_instead(refused).filter(|_| !json) {
        output::note(format_args!("{}", help.trim_end()));
        return ExitCode::from(Code::of("usage").exit);
    }
    let source = std::error::Error::source(refused);
    if let Some(invalid) = source.and_then(|source| source.downcast_ref::<Invalid>()) {
        return report(&Error::from(invalid.clone()).into(), json);
    }
    // What was typed is in it, whatever that was.
    let text = quote::safe(&plain(&refused.render().to_string()));
    let lines: Vec<String> = text.lines().map(|line| line.chars().take(LINE).collect()).collect();
    if json {
        // Up to the first empty line: what follows is about how to do it right.
        let said = lines.iter().map(|line| line.trim()).take_while(|line| !line.is_empty());
        // The names of all commands would be the second line.
        let most = if refused.kind() == ErrorKind::MissingSubcommand { 1 } else { usize::MAX };
        let said: Vec<&str> = said.take(most).collect();
        let said = said.join(" ");
        let said = said.strip_prefix("error: ").unwrap_or(&said);
        print("usage", said, Code::of("usage").hint().as_deref(), true);
    } else {
        output::note(format_args!("{}", lines.join("\n").trim_end()));
    }
    ExitCode::from(Code::of("usage").exit)
}

/// Where no command is given: what can be given, whole, in place of an error.
fn help_instead(refused: &clap::Error) -> Option<String> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    match refused.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => Some(refused.render().to_string()),
        ErrorKind::MissingSubcommand => {
            let Some(ContextValue::String(given)) = refused.get(ContextKind::InvalidSubcommand)
            else {
                return None;
            };
            let mut all = crate::cli::Cli::command();
            all.build();
            let mut words = given.split(' ').skip(1);
            let command =
                words.try_fold(&mut all, |command, word| command.find_subcommand_mut(word));
            command.map(|command| command.render_help().to_string())
        }
        _ => None,
    }
}

fn print(code: &str, message: &str, hint: Option<&str>, json: bool) {
    if json {
        output::note(format_args!(
            "{}",
            json!({"error": {"code": code, "message": message, "hint": hint}})
        ));
        return;
    }
    output::note(format_args!("error: {}", quote::safe(message)));
    if let Some(hint) = hint {
        output::note(format_args!("hint: {hint}"));
    }
}

/// What it is called for programs, and what to do next.
pub(crate) fn code_and_hint(failure: &anyhow::Error) -> (&'static str, Option<String>) {
    let report = classify(failure);
    (report.code, report.hint)
}

fn classify(failure: &anyhow::Error) -> Report {
    if let Some(bad) = failure.downcast_ref::<BadInput>() {
        return Report::new("bad_input", bad.hint.clone());
    }
    if let Some(refused) = failure.downcast_ref::<Refused>() {
        return Report::new(refused.code, refused.hint.clone());
    }
    match failure.downcast_ref::<Fault>() {
        Some(Fault::Engine(error)) => return by_engine(error, true),
        Some(Fault::Refused { code, hint, .. }) => return Report::new(code, hint.clone()),
        None => (),
    }
    if failure.is::<Several>() {
        return Report::new("ambiguous", None);
    }
    if let Some(Cancelled { agent, is_recorded }) = failure.downcast_ref::<Cancelled>() {
        return by_trouble(agent, &AgentError::Cancelled, *is_recorded);
    }
    if let Some(NotRecorded(error)) = failure.downcast_ref::<NotRecorded>() {
        return by_engine(error, false);
    }
    if let Some(error) = failure.downcast_ref::<Error>() {
        return by_engine(error, true);
    }
    if let Some(error) = failure.downcast_ref::<std::io::Error>() {
        return match error.kind() {
            std::io::ErrorKind::StorageFull => {
                Report::new("storage_full", Some("free some space and try again".to_owned()))
            }
            _ => Report::new("io", None),
        };
    }
    Report::new("internal", None)
}

fn by_engine(error: &Error, is_recorded: bool) -> Report {
    match error {
        Error::Agent { agent, trouble } => by_trouble(agent, trouble, is_recorded),
        error => Report::new(error.code(), error.hint()),
    }
}

fn by_trouble(agent: &str, trouble: &AgentError, is_recorded: bool) -> Report {
    let hint = match trouble {
        AgentError::NotInstalled { program } => how_to_install(agent, program),
        other => other.hint(agent, is_recorded),
    };
    Report::new(trouble.code(), Some(hint))
}

/// How to get an agent that is known, or where to look for a mistake.
fn how_to_install(agent: &str, program: &str) -> String {
    let known = rethread_acp::entries(&toml::Table::new()).ok();
    let entry = known.and_then(|mut known| known.remove(agent));
    let own = entry.filter(|entry| entry.command.first().is_some_and(|own| own == program));
    match own.and_then(|entry| entry.install) {
        Some(install) => format!(
            "to install it: {install}; or use another agent: `rethread agents` lists those that are installed"
        ),
        None => "check the command in `rethread config show`".to_owned(),
    }
}
