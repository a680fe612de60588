//! `rethread resume --native`: a conversation goes on in the agent's own program.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rethread_acp::{Entry, NativeProgram};
use rethread_domain::native::Way;
use rethread_domain::quote::one_line;
use rethread_domain::shell;
use rethread_domain::{Session, SessionId};
use rethread_engine::handover::{HandedOver, HandoverRequest, NativeAgent, NativeState};
use rethread_engine::imports::ImportOptions;
use serde_json::json;

use crate::agents::How;
use crate::cli::App;
use crate::config;
use crate::error::Refused;
use crate::{output, replace};

/// How the agent's own program is started.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct NativeStart {
    /// Go on in the agent's own program instead of this one
    ///
    /// The program is started in the session's folder, with its own session where that holds the whole conversation. Otherwise
    /// the conversation is written for it as a new session of its own; where that is not possible, its first prompt tells the
    /// story so far. Nothing of the agent's is changed. What is said there is taken in at the next look at the session.
    #[arg(long)]
    native: bool,
    /// Prepare everything, and print the command with its folder instead of running it
    ///
    /// A native session that has to be written for the agent is written.
    #[arg(long, requires = "native")]
    print: bool,
    /// With --native: more arguments for the agent's own program
    #[arg(last = true, value_name = "ARGS", requires = "native")]
    passed_on: Vec<String>,
}

impl NativeStart {
    pub(crate) const fn is_asked(&self) -> bool {
        self.native
    }

    pub(crate) async fn run(
        self,
        app: &App,
        session: Session,
        agent: &str,
        how: &How,
        prompt: Option<&str>,
    ) -> anyhow::Result<ExitCode> {
        how.refuse_for_native()?;
        let entry = app.agent(agent)?;
        let Some(program) = app.native_program(&entry)? else { return Err(none(agent).into()) };
        let session = app.in_its_folder(session).await?;
        let request = app.handover(&session, agent, how.conversation()).await?;
        let handed = app.engine.hand_over(&request, &program).await?;
        let words = program.words(&handed.start, prompt, &request.aside)?;
        let Some(mut words) = words else {
            let message = format!(
                "{agent} cannot be started in this way: its own program takes no first prompt"
            );
            let hint = Some(format!(
                "`rethread resume {} --with {agent}` goes on in this window",
                session.id.short()
            ));
            return Err(Refused { code: "no_native_program", message, hint }.into());
        };
        words.extend(self.passed_on);
        let folder = PathBuf::from(&session.project);
        if self.print {
            print(app, &session, &handed, &words, &folder);
            return Ok(ExitCode::SUCCESS);
        }
        for note in &handed.notes {
            output::note(format_args!("note: {}", output::shown(note, false)));
        }
        replace::later(program.command(&words, &folder));
        Ok(ExitCode::SUCCESS)
    }
}

/// `rethread doctor SESSION`: says how the native session stands, and what a native resume would do.
pub(super) async fn examine(
    app: &App,
    id: SessionId,
    with: Option<&str>,
) -> anyhow::Result<ExitCode> {
    let session = app.engine.session(id).await?;
    if let Some(agent) = with {
        app.agent(agent)?; // An agent that nobody knows has no native session that could be looked at.
    }
    let choice = How::default().choice(with)?;
    let agent = app.engine.chosen_agent(&session, &choice).await?;
    let program = app.agent(&agent).and_then(|entry| app.native_program(&entry));
    let is_folder_gone = !Path::new(&session.project).is_dir();
    let moved = if is_folder_gone {
        app.engine.moved_to(&session, &std::env::current_dir()?).await?
    } else {
        Vec::new()
    };
    let request = app.handover(&session, &agent, None).await?;
    let native = program.as_ref().ok().and_then(Option::as_ref).filter(|_| !is_folder_gone);
    let state =
        app.engine.native_state(&request, native.map(|native| native as &dyn NativeAgent)).await?;
    let mut problems: Vec<String> =
        state.problems.iter().map(|problem| problem.describe(&agent)).collect();
    let mut does = match state.way {
        Way::Resume => format!("{agent} would take up its own session"),
        Way::Write if state.native.is_some() => {
            format!("a new session would be written for {agent}; its own would stay as it is")
        }
        Way::Write => format!("a session would be written for {agent}"),
        Way::Tell => format!("{agent} would be started with the story so far as its first prompt"),
    };
    match &program {
        Ok(Some(_)) => (),
        Ok(None) => does = format!("nothing: no program of {agent}'s own is known"),
        Err(error) => {
            problems.push(format!("{error:#}"));
            does = format!("nothing: {agent}'s own program cannot be started");
        }
    }
    if is_folder_gone {
        problems.push(format!("its folder {} is gone", session.project));
        does = match moved.as_slice() {
            [to] => format!("the session would be re-homed to {}, then {does}", to.display()),
            _ => "nothing: `rethread rehome OLD NEW` has to say where its folder is".to_owned(),
        };
    }
    let is_well = problems.is_empty();
    if app.json {
        output::json(&json!({
            "session_id": id, "agent": agent, "native": state.native, "path": state.path, "folder": session.project,
            "moved_to": moved, "problems": problems, "details": state.problems, "way": state.way, "resume": does, "ok": is_well,
        }));
    } else {
        show(&session, &state, &problems, &does);
    }
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn show(session: &Session, state: &NativeState, problems: &[String], does: &str) {
    let line = |name: &str, value: &str| {
        output::data(&format!("{name:<12}{}\n", output::shown(value, false)));
    };
    line("Session", &super::named(session));
    line("Agent", &state.agent);
    line("Native", state.native.as_deref().unwrap_or("none"));
    if let Some(path) = &state.path {
        line("File", &path.display().to_string());
    }
    for problem in problems {
        line("Problem", problem);
    }
    if problems.is_empty() {
        line("Check", "everything is in order");
    }
    line("Resume", does);
}

fn none(agent: &str) -> Refused {
    Refused {
        code: "no_native_program",
        message: format!("no program of {agent}'s own is known that could be started"),
        hint: Some(format!(
            "`agents.{agent}.native` in the settings names it; without --native, {agent} goes on in this window"
        )),
    }
}

fn print(app: &App, session: &Session, handed: &HandedOver, words: &[String], folder: &Path) {
    if app.json {
        output::json(&json!({
            "session_id": session.id, "folder": folder, "command": words, "written": handed.written, "notes": handed.notes,
        }));
        return;
    }
    for note in &handed.notes {
        output::note(format_args!("note: {}", output::shown(note, false)));
    }
    let quoted: Vec<String> = words.iter().map(|word| shell::word(word)).collect();
    let folder = quoted_path(folder);
    output::data(&format!("cd {folder} && {}\n", quoted.join(" ")));
}

fn quoted_path(path: &Path) -> String {
    shell::word(&path.to_string_lossy())
}

impl App {
    /// The agent's own program, if one is known; fails if it is not installed.
    pub(crate) fn native_program(&self, entry: &Entry) -> anyhow::Result<Option<NativeProgram>> {
        let (environment, withheld) = self.config.environment();
        NativeProgram::find(entry, &environment, &withheld).map_err(|trouble| {
            let agent = entry.name.clone();
            rethread_engine::Error::Agent { agent, trouble }.into()
        })
    }

    /// What handing a conversation over needs to know.
    pub(crate) async fn handover(
        &self,
        session: &Session,
        agent: &str,
        conversation: Option<&str>,
    ) -> anyhow::Result<HandoverRequest> {
        let conversation = self.engine.selected_conversation(session.id, conversation).await?;
        Ok(HandoverRequest {
            session: session.id,
            conversation,
            agent: agent.to_owned(),
            imports: self.own_sessions(session)?,
            limits: self.config.limits(),
            margin: self.config.margin(Some(agent)),
            aside: config::data_folder()?.join("handover"),
        })
    }

    /// How the sessions that agents keep themselves are read for a session of ours.
    fn own_sessions(&self, session: &Session) -> anyhow::Result<ImportOptions> {
        self.config.import_options(session.user.clone())
    }

    /// Takes in what was said in a session in an agent's own program. What cannot be read is no reason to fail.
    pub(crate) async fn catch_up(&self, id: SessionId) -> anyhow::Result<()> {
        let session = self.engine.session(id).await?;
        let report = self.engine.import_for(id, &self.own_sessions(&session)?).await?;
        for trouble in &report.troubles {
            let (path, why) = (one_line(&trouble.path, 300), one_line(&trouble.why, 300));
            output::note(format_args!("warning: {path}: {why}"));
        }
        Ok(())
    }

    /// The session with a folder that is there: one that was moved is found by its repository.
    pub(crate) async fn in_its_folder(&self, session: Session) -> anyhow::Result<Session> {
        if Path::new(&session.project).is_dir() {
            return Ok(session);
        }
        let gone = one_line(&session.project, 300);
        let old = shell::word(&gone);
        let found = self.engine.moved_to(&session, &std::env::current_dir()?).await?;
        let [to] = found.as_slice() else {
            let places: Vec<String> = found.iter().map(|it| it.display().to_string()).collect();
            let (message, hint) = if places.is_empty() {
                (
                    format!("the folder {gone} is gone"),
                    format!("`rethread rehome {old} NEW` says where it is now"),
                )
            } else {
                let places = places.join(", ");
                (
                    format!(
                        "the folder {gone} is gone, and its repository is in several places: {places}"
                    ),
                    format!("`rethread rehome {old} NEW` says which one is meant"),
                )
            };
            return Err(Refused { code: "folder_gone", message, hint: Some(hint) }.into());
        };
        self.engine.rehome(&session.project, &to.to_string_lossy()).await?;
        output::note(format_args!(
            "note: {gone} is now {}: its sessions are about that folder from now on",
            to.display()
        ));
        Ok(self.engine.session(session.id).await?)
    }
}
