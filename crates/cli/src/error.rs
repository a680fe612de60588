//! Errors for people and programs: what is wrong, what to do next, and the exit code.

mod workflow;

use std::process::ExitCode;

use rethread_domain::id::Invalid;
use rethread_domain::session::Refusal;
use rethread_domain::{Status, quote};
use rethread_engine::Error;
use rethread_engine::agents::Trouble;
use rethread_engine::entry::BadEntry;
use rethread_engine::program::Fault;
use rethread_store as store;
use serde_json::json;

use crate::output;

/// Refused, or not there.
const REFUSED: u8 = 1;
const BAD_INPUT: u8 = 2;
/// Ended by Ctrl-C, as shells say it.
const CANCELLED: u8 = 130;
pub(crate) const OUR_FAULT: u8 = 70;
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
    pub(crate) candidates: Vec<serde_json::Value>,
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

/// A fault of ours is always noted; anything else where nobody may be there to read it.
fn log(code: &str, failure: &anyhow::Error) {
    let error: &(dyn std::error::Error + 'static) = failure.as_ref();
    if code == "internal" {
        tracing::error!(error, code, "internal error");
    } else if !output::is_error_terminal() {
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
    let source = std::error::Error::source(refused);
    if let Some(invalid) = source.and_then(|source| source.downcast_ref::<Invalid>()) {
        return report(&Error::from(invalid.clone()).into(), json);
    }
    // What was typed is in it, whatever that was.
    let text = quote::safe(&refused.render().to_string());
    let lines: Vec<String> = text.lines().map(|line| line.chars().take(LINE).collect()).collect();
    if json {
        // Up to the first empty line: what follows is about how to do it right.
        let said: Vec<&str> =
            lines.iter().map(|line| line.trim()).take_while(|line| !line.is_empty()).collect();
        let said = said.join(" ");
        let said = said.strip_prefix("error: ").unwrap_or(&said);
        print("usage", said, Some("`rethread help` shows what can be said"), true);
    } else {
        output::note(format_args!("{}", lines.join("\n").trim_end()));
    }
    ExitCode::from(BAD_INPUT)
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
        return Report { code: "bad_input", exit: BAD_INPUT, hint: bad.hint.clone() };
    }
    if let Some(refused) = failure.downcast_ref::<Refused>() {
        return Report { code: refused.code, exit: REFUSED, hint: refused.hint.clone() };
    }
    match failure.downcast_ref::<Fault>() {
        Some(Fault::Engine(error)) => return by_engine(error),
        Some(Fault::Refused { code, hint, .. }) => {
            let exit = if *code == "bad_input" { BAD_INPUT } else { REFUSED };
            return Report { code, exit, hint: hint.clone() };
        }
        None => (),
    }
    if failure.is::<Several>() {
        let hint = Some("give an id: `rethread resume ID`".to_owned());
        return Report { code: "ambiguous", exit: REFUSED, hint };
    }
    if let Some(Cancelled { agent, is_recorded }) = failure.downcast_ref::<Cancelled>() {
        let report = by_trouble(agent, &Trouble::Cancelled, *is_recorded);
        return Report { exit: CANCELLED, ..report };
    }
    if let Some(NotRecorded(error)) = failure.downcast_ref::<NotRecorded>() {
        return match error {
            Error::Agent { agent, trouble } => by_trouble(agent, trouble, false),
            error => by_engine(error),
        };
    }
    if let Some(error) = failure.downcast_ref::<Error>() {
        return by_engine(error);
    }
    if let Some(error) = failure.downcast_ref::<store::Error>() {
        return by_store(error);
    }
    if let Some(error) = failure.downcast_ref::<std::io::Error>() {
        let full = error.kind() == std::io::ErrorKind::StorageFull;
        let (code, hint) = if full {
            ("storage_full", "free some space and try again")
        } else {
            ("io", "check that it is there and that you may use it")
        };
        return Report { code, exit: REFUSED, hint: Some(hint.to_owned()) };
    }
    Report { code: "internal", exit: OUR_FAULT, hint: None }
}

fn by_engine(error: &Error) -> Report {
    let found = |code, exit, hint: &str| Report { code, exit, hint: Some(hint.to_owned()) };
    match error {
        Error::NotFound(_) => {
            found("session_not_found", REFUSED, "`rethread list` shows what there is")
        }
        Error::Ambiguous { .. } => found("ambiguous_id", REFUSED, "give more of the id"),
        Error::NoMessage(..) => found(
            "message_not_found",
            REFUSED,
            "`rethread show ID --all` shows every message with its number",
        ),
        Error::Refused(refusal) => by_refusal(*refusal),
        Error::Limit(_) => found("limit_not_positive", BAD_INPUT, "limits begin at 1"),
        Error::Invalid(Invalid::Session(_)) => {
            found("bad_id", BAD_INPUT, "`rethread list` shows the ids of sessions")
        }
        Error::Invalid(Invalid::Name { .. }) => {
            found("bad_name", BAD_INPUT, "give one that has only what is allowed")
        }
        Error::Entry(BadEntry::TooLong(..)) => {
            found("bad_input", BAD_INPUT, "the setting record.max_message_bytes allows longer ones")
        }
        Error::Entry(_) => {
            found("bad_input", BAD_INPUT, "`rethread record --help` shows what a line looks like")
        }
        Error::Import { .. } => found(
            "bad_input",
            BAD_INPUT,
            "`rethread import` reads what `rethread export` writes; nothing of the session was taken in",
        ),
        Error::IdTaken { .. } => {
            found("id_taken", BAD_INPUT, "a new message needs an id of its own, or none")
        }
        Error::Agent { agent, trouble } => by_trouble(agent, trouble, true),
        Error::Unanswered { .. }
        | Error::Busy { .. }
        | Error::NotResumable { .. }
        | Error::Interrupted
        | Error::Elsewhere(_)
        | Error::Taken => by_talk(error),
        Error::Settings(_) => {
            found("bad_settings", BAD_INPUT, "`rethread config show` shows what is set")
        }
        Error::Plan(_)
        | Error::NoWorkflow(_)
        | Error::AmbiguousWorkflow { .. }
        | Error::NoSnapshot { .. }
        | Error::Workflow(_)
        | Error::WorkflowBusy(_) => workflow::by_engine(error),
        Error::NoToken(_) => {
            found("token_not_found", REFUSED, "`rethread token list` shows what there is")
        }
        Error::KeyReused => found("key_reused", REFUSED, "each request needs a key of its own"),
        Error::Folder(_) => {
            found("folder", REFUSED, "`rethread doctor` looks through the folders of a workspace")
        }
        Error::Store(error) => by_store(error),
    }
}

/// Talking that came to nothing.
fn by_talk(error: &Error) -> Report {
    let found = |code, exit, hint: &str| Report { code, exit, hint: Some(hint.to_owned()) };
    match error {
        Error::Unanswered { outcome, resets_at: Some(at), .. } => found(
            outcome,
            REFUSED,
            &format!(
                "the limit is lifted at {at}; until then another agent can go on: `rethread continue --with AGENT`"
            ),
        ),
        Error::Unanswered { outcome, .. } => found(
            outcome,
            REFUSED,
            "what was said is kept; try again, or go on with another agent: `rethread continue --with AGENT`",
        ),
        Error::Busy { session, .. } => {
            let id = session.short();
            let hint = format!(
                "`rethread send {id} PROMPT`, without other options, lets that process send it; `rethread stop {id}` ends it"
            );
            found("conversation_busy", REFUSED, &hint)
        }
        Error::NotResumable { .. } => found(
            "not_resumable",
            REFUSED,
            "--policy auto tells it the story so far in a new session",
        ),
        Error::Interrupted => found(
            "interrupted",
            REFUSED,
            "what had been said is kept; `rethread resume ID` takes it up again",
        ),
        Error::Taken => {
            found("taken", REFUSED, "Ctrl-C there cancels it; so does `rethread stop ID`")
        }
        _ => found("elsewhere", REFUSED, "the process that has the conversation open says more"),
    }
}

/// What an agent's trouble asks of the user. What was said before stays; `is_recorded` tells whether this request does.
fn by_trouble(agent: &str, trouble: &Trouble, is_recorded: bool) -> Report {
    let kept = if is_recorded { "what was said is kept" } else { "nothing of this was recorded" };
    let hint = match trouble {
        Trouble::NotInstalled { program } => how_to_install(agent, program),
        Trouble::CannotStart { .. } => "check the command in `rethread config show`".to_owned(),
        Trouble::FolderGone(_) => "bring the folder back; the session itself is kept".to_owned(),
        Trouble::TimedOut { .. } => format!("{kept}; the settings under [talk] allow more time"),
        Trouble::WrongVersion(_) => "another version of the agent may speak version 1".to_owned(),
        Trouble::LineTooLong(_) => "the setting talk.max_line_bytes allows longer ones".to_owned(),
        Trouble::Nonsense { what, .. } if what == "initialize" => {
            "check its command in `rethread config show`: some agents speak ACP only with an \
             argument such as --acp"
                .to_owned()
        }
        Trouble::Silent(_) => {
            "the session is kept; the setting talk.answer_seconds gives the agent more time"
                .to_owned()
        }
        Trouble::TurnTooLarge(_) => {
            "what was said so far is kept; the setting talk.max_turn_bytes allows more".to_owned()
        }
        Trouble::Nonsense { .. } | Trouble::Refused { .. } if is_recorded => format!(
            "{kept}; try again, or go on with another agent: `rethread continue --with AGENT`"
        ),
        Trouble::Nonsense { .. } | Trouble::Refused { .. } => {
            format!("{kept}; try again, or with another agent")
        }
        Trouble::SessionGone(_) => {
            "--policy auto tells it the story so far in a new session".to_owned()
        }
        Trouble::NeedsLogin(_) => "start the agent by itself once and log in there".to_owned(),
        Trouble::Unsupported(_) => {
            "choose one that it has, do without, or use an agent that can do it".to_owned()
        }
        Trouble::NotTaken { .. } => {
            "set it in the agent itself, or do without; `--permissions agent` claims nothing of it"
                .to_owned()
        }
        Trouble::Ended { .. } | Trouble::Cancelled if is_recorded => {
            format!("{kept}; `rethread continue` takes it up again")
        }
        Trouble::Cancelled => format!("{kept}; ask again"),
        Trouble::Ended { .. } => {
            format!("{kept}; `rethread agents {agent} --probe` tries whether it starts")
        }
    };
    Report { code: trouble.name(), exit: REFUSED, hint: Some(hint) }
}

/// How to get an agent that is known, or where to look for a mistake.
fn how_to_install(agent: &str, program: &str) -> String {
    let known = rethread_acp::entries(&toml::Table::new()).ok();
    let entry = known.and_then(|mut known| known.remove(agent));
    let own = entry.filter(|entry| entry.command.first().is_some_and(|own| own == program));
    match own.and_then(|entry| entry.install) {
        Some(install) => format!(
            "to install it: {install}; to go on in another: --with AGENT (`rethread agents` lists them)"
        ),
        None => "check the command in `rethread config show`".to_owned(),
    }
}

fn by_refusal(refusal: Refusal) -> Report {
    let (code, hint) = match refusal {
        Refusal::Archived(id) => {
            ("session_archived", format!("`rethread unarchive {}` brings it back", id.short()))
        }
        Refusal::Completed(id) => (
            "session_completed",
            format!("`rethread activate --yes {}` takes it up again", id.short()),
        ),
        Refusal::Deleted(id) => {
            ("session_deleted", format!("`rethread undelete {}` brings it back", id.short()))
        }
        Refusal::Already(id, Status::Paused) => {
            ("refused", format!("`rethread activate {}` takes it up again", id.short()))
        }
        Refusal::Already(id, _) => {
            ("refused", format!("`rethread show {}` shows how it stands", id.short()))
        }
        Refusal::NotArchived(_) => {
            ("refused", "`rethread list --status archived` shows those that are".to_owned())
        }
        Refusal::NotDeleted(_) => {
            ("refused", "`rethread list --deleted` shows those that are".to_owned())
        }
    };
    Report { code, exit: REFUSED, hint: Some(hint) }
}

fn by_store(error: &store::Error) -> Report {
    use store::Error as E;
    let (code, exit, hint) = match error {
        E::BadUrl(_) => {
            ("bad_store_url", BAD_INPUT, "for instance `--store sqlite:/home/me/sessions.db`")
        }
        E::NotAStore { .. } => {
            ("not_a_store", REFUSED, "give another file with `--store sqlite:PATH`")
        }
        E::Newer { .. } => (
            "store_newer",
            REFUSED,
            "use the newer rethread that made it; the store was not touched",
        ),
        E::ReadOnly(_) => (
            "store_read_only",
            REFUSED,
            "reading and searching work; to write, make the file and its folder writable",
        ),
        E::Full => (
            "storage_full",
            REFUSED,
            "everything acknowledged is kept; free some space and try again",
        ),
        E::Busy => (
            "store_locked",
            REFUSED,
            "another process has been writing for long; try again when it has ended",
        ),
        E::Damaged(_) => (
            "store_damaged",
            REFUSED,
            "`rethread doctor` looks closer; `rethread restore` brings back a backup",
        ),
        E::CannotOpen(_) => (
            "store_not_open",
            REFUSED,
            "check that the folder exists and that you may read and write it",
        ),
        E::Conflict(_) | E::LostClaim(_) => {
            ("conflict", REFUSED, "somebody else works on this session; try again")
        }
        E::Exists(_) => ("session_exists", REFUSED, "delete it for good first to take it in again"),
        E::BadLog(..) => (
            "bad_input",
            BAD_INPUT,
            "`rethread import` reads what `rethread export` writes; nothing of the session was taken in",
        ),
        E::IdReserved(_) => ("bad_input", BAD_INPUT, "leave the id away: the store gives one"),
        E::NotFound(_)
        | E::NoMessage(..)
        | E::NoWorkflow(_)
        | E::Refused(_)
        | E::NoToken(_)
        | E::IdTaken { .. } => {
            return by_engine(&Error::from(error.clone()));
        }
        E::Failed(_) | E::Interrupted => ("internal", OUR_FAULT, "`rethread doctor` looks closer"),
        _ => return workflow::by_store(error),
    };
    Report { code, exit, hint: Some(hint.to_owned()) }
}
