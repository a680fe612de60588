//! `rethread resume`, `rethread continue` and `rethread send`

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use rethread_domain::id::SessionRef;
use rethread_domain::quote::one_line;
use rethread_domain::search::{Answer, Filter, Place};
use rethread_domain::session::Move;
use rethread_domain::{Seq, Session, SessionId, Status};
use rethread_engine::agents::{TurnRequest, WhenBusy};
use rethread_engine::{Error, Search};
use rethread_store::{ListFilter, Span};

use super::choice::{self, Only};
use super::native::NativeStart;
use super::{leave, newest_here, project, refuse_excluded};
use crate::agents::How;
use crate::chat::{self, Left, Person};
use crate::cli::App;
use crate::error::Refused;
use crate::output;

/// The last messages that are shown before the prompt.
const SHOWN: u32 = 4;
/// The most sessions that words may mean.
const MOST: u32 = 20;

/// Take a session up again, in its agent or another
///
/// Without arguments a list to pick from. WORDS are looked for in titles and summaries first, in the text where those
/// give nothing: one match is resumed, several ask. One line says how the conversation was opened: in the agent's own
/// session, or told the story so far, and why.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session: its id, its number in the list, its folder, or words of it
    #[arg(value_name = "ID|WORDS")]
    target: Option<String>,
    /// What to ask; without it, a conversation
    prompt: Option<String>,
    /// The agent that goes on with it [default: the one it was held with]
    #[arg(long, value_name = "AGENT")]
    with: Option<String>,
    /// Go on from this message, in a fork
    #[arg(long, value_name = "SEQ")]
    from: Option<Seq>,
    #[command(flatten)]
    native: NativeStart,
    #[command(flatten)]
    only: Only,
    /// List what can be resumed
    #[arg(long, conflicts_with_all = ["prompt", "with", "from"])]
    list: bool,
    /// Even if it was completed
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    how: How,
}

/// Go on with the most recent session of this folder
///
/// In a repository or a workspace a folder without sessions stands for the nearest one above it that has some.
#[derive(Debug, clap::Args)]
pub(crate) struct Continue {
    /// What to ask; without it, a conversation
    prompt: Option<String>,
    /// The agent that goes on with it [default: the one it was held with]
    #[arg(long, value_name = "AGENT")]
    with: Option<String>,
    /// The folder [default: the current one]
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
    /// Even if it was completed
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    how: How,
}

/// Send a message to a session, running or not
///
/// A process that has the conversation open sends it, with the agent and the settings that it has; otherwise the agent
/// is started and the conversation is resumed first.
#[derive(Debug, clap::Args)]
pub(crate) struct Send {
    /// The session
    #[arg(value_name = "ID")]
    session: SessionRef,
    /// What to say
    prompt: String,
    /// The agent [default: the one it was held with]
    #[arg(long, value_name = "AGENT")]
    with: Option<String>,
    #[command(flatten)]
    how: How,
}

impl Args {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        if self.list {
            return choice::list(app, self.target.as_deref(), &self.only).await;
        }
        let Some(session) = find(app, self.target.as_deref(), &self.only).await? else {
            return Ok(ExitCode::SUCCESS);
        };
        let Self { prompt, with, from, yes, how, native, .. } = self;
        let native = native.is_asked().then_some(native);
        let going = Going { prompt, with, yes, how, native };
        let Some(seq) = from else { return Box::pin(going.on(app, session)).await };
        refuse_foreign(app, &session)?;
        let fork = app.engine.fork(session.id, Some(seq)).await?;
        let outcome = Box::pin(going.on(app, fork.clone())).await;
        if outcome.is_err() && app.engine.session(fork.id).await?.last_seq == fork.last_seq {
            // Nothing was said in it.
            app.engine.erase(fork.id).await?;
        }
        outcome
    }
}

impl Continue {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        let folder = project(self.project.as_deref())?;
        let user = app.config.user(None)?;
        let newest = match self.project {
            None => newest_here(app, 1).await?,
            Some(_) => {
                let filter = ListFilter {
                    user: Some(user.clone()),
                    project: Some(folder.to_string_lossy().into_owned()),
                    limit: 1,
                    ..ListFilter::default()
                };
                app.engine.list(&filter).await?
            }
        };
        let Some(session) = newest.into_iter().next() else {
            return Err(Refused {
                code: "session_not_found",
                message: format!("there is no session of {user} in {}", folder.display()),
                hint: Some(format!(
                    "`rethread run AGENT` starts a session; `rethread list --user {user}` shows those of {user}, `rethread list` all there are"
                )),
            }
            .into());
        };
        if folder != Path::new(&session.project) {
            let (named, project) = (super::named(&session), one_line(&session.project, 200));
            output::note(format_args!("Going on with {named} in {project}."));
        }
        let Self { prompt, with, yes, how, .. } = self;
        Box::pin(Going { prompt, with, yes, how, native: None }.on(app, session)).await
    }
}

impl Send {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        let id = app.session(&self.session).await?;
        let session = app.engine.session(id).await?;
        session.accepts_messages().map_err(Error::from)?;
        let Self { prompt, with, how, .. } = self;
        Box::pin(
            Going { prompt: Some(prompt), with, yes: false, how, native: None }.on(app, session),
        )
        .await
    }
}

/// Lets the user pick a session and goes on with it.
pub(crate) async fn pick(app: &App) -> anyhow::Result<ExitCode> {
    let Some(session) = find(app, None, &Only::default()).await? else {
        return Ok(ExitCode::SUCCESS);
    };
    let how = How::default();
    let going = Going { prompt: None, with: None, yes: false, how, native: None };
    Box::pin(going.on(app, session)).await
}

fn nothing(message: &str) -> anyhow::Error {
    Refused {
        code: "session_not_found",
        message: message.to_owned(),
        hint: Some(
            "`rethread run AGENT` starts a session; `rethread list` shows all there are".into(),
        ),
    }
    .into()
}

/// Refuses sessions of others, and of folders that are set not to be recorded.
fn refuse_foreign(app: &App, session: &Session) -> anyhow::Result<()> {
    if session.user != app.config.user(None)? {
        return Err(Refused {
            code: "session_not_found",
            message: format!("session {} belongs to another user", session.id.short()),
            hint: Some("RETHREAD_USER and the setting user.name say who you are".into()),
        }
        .into());
    }
    refuse_excluded(app, Path::new(&session.project))
}

/// Going on with a session.
struct Going {
    prompt: Option<String>,
    with: Option<String>,
    yes: bool,
    how: How,
    /// In the agent's own program.
    native: Option<NativeStart>,
}

impl Going {
    async fn on(self, app: &App, session: Session) -> anyhow::Result<ExitCode> {
        refuse_foreign(app, &session)?;
        session.can_resume().map_err(Error::from)?;
        app.catch_up(session.id).await?;
        if session.status() == Status::Completed {
            if !self.yes
                && !choice::confirm(&format!(
                    "{} is completed. Take it up again?",
                    super::named(&session)
                ))?
            {
                return Err(
                    Error::from(rethread_domain::session::Refusal::Completed(session.id)).into()
                );
            }
            app.engine.shift(session.id, Move::Reopen).await?;
        }
        let choice = self.how.choice(self.with.as_deref())?;
        let agent = app.engine.chosen_agent(&session, &choice).await?;
        if let Some(native) = self.native {
            return native.run(app, session, &agent, &self.how, self.prompt.as_deref()).await;
        }
        let person = Arc::new(Person::new(app.json));
        app.tell_differences(&session, self.how.model.as_deref());
        let options = app.options(&session, &agent, &self.how, person.clone()).await?;
        if let Some(prompt) = self.prompt {
            // Whoever has it open has its own agent and settings.
            let only_here = self.with.is_some() || self.how.is_particular();
            let when_busy = if only_here { WhenBusy::Refuse } else { WhenBusy::Delegate };
            chat::once(app, &TurnRequest { options, prompt, when_busy }).await?;
            return Ok(ExitCode::SUCCESS);
        }
        let over = chat::talk(app, options, &person, &self.how).await?;
        leave(app, over.session, over.left).await?;
        if over.left == Left::Resume {
            return Box::pin(pick(app)).await;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The session with a number in the list. More digits than two are those of an id.
async fn numbered(app: &App, text: &str) -> anyhow::Result<Option<Session>> {
    match text.parse() {
        Ok(number) if text.len() <= 2 => choice::by_number(app, number).await,
        Ok(_) | Err(_) => Ok(None),
    }
}

/// The session that is meant; `None` where the user picked none.
async fn find(app: &App, target: Option<&str>, only: &Only) -> anyhow::Result<Option<Session>> {
    let Some(text) = target else { return choice::from_all(app, only).await };
    if let Some(session) = numbered(app, text).await? {
        return Ok(Some(session));
    }
    if let [one] = app.engine.session_in(text).await?.as_slice() {
        return Ok(Some(app.engine.session(*one).await?));
    }
    if let Ok(reference) = text.parse::<SessionRef>() {
        match app.engine.resolve(&reference).await {
            Ok(id) => return Ok(Some(app.engine.session(id).await?)),
            Err(Error::NotFound(_)) => (),
            Err(error) => return Err(error.into()),
        }
    }
    let found = by_words(app, text).await?;
    match found.as_slice() {
        [] => Err(nothing(&format!("nothing was found for {:?}", one_line(text, 60)))),
        [one] => Ok(Some(one.clone())),
        _ => choice::among(app, found, text).await,
    }
}

/// The sessions that words may mean: by title and summary, by their text where those give nothing.
pub(super) async fn by_words(app: &App, words: &str) -> anyhow::Result<Vec<Session>> {
    let filter = Filter { user: Some(app.config.user(None)?), ..Filter::default() };
    let mut hits = app.engine.search(Search::new(words, filter, 200)).await?.hits;
    // Who gave a whole word does not mean those that only begin with it.
    if hits.iter().any(|hit| hit.answer == Answer::Words) {
        hits.retain(|hit| hit.answer != Answer::Beginning);
    }
    let is_label = |place: &Place| matches!(place, Place::Title | Place::Summary);
    let labels = hits.iter().any(|hit| is_label(&hit.place));
    let mut ids: Vec<SessionId> = Vec::new();
    for hit in hits.iter().filter(|hit| !labels || is_label(&hit.place)) {
        if !ids.contains(&hit.session) && ids.len() < MOST as usize {
            ids.push(hit.session);
        }
    }
    let mut found = Vec::new();
    for id in ids {
        let session = app.engine.session(id).await?;
        if session.can_resume().is_ok() {
            found.push(session);
        }
    }
    Ok(found)
}

/// Where it stopped, so that the next message follows on.
pub(crate) async fn show_end(app: &App, id: SessionId) -> anyhow::Result<()> {
    let session = app.engine.session(id).await?;
    if session.last_seq == 0 {
        return Ok(());
    }
    let mut last = app.engine.messages(session.id, Span::newest(SHOWN)).await?;
    last.reverse();
    output::note(format_args!("{}", output::bold(&super::named(&session))));
    for message in last {
        let text = message.body.head();
        let start = text.floor_char_boundary(600);
        let dots = if start < text.len() { " …" } else { "" };
        output::note(format_args!(
            "{}: {}{dots}",
            message.role.label(),
            output::shown(&text[..start], false)
        ));
    }
    Ok(())
}
