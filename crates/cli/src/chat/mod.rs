//! A conversation in the terminal: lines in, answers out, until one of both ends it.

mod ask;
mod lines;
mod once;
mod rest;
mod slash;
mod stops;
mod view;

use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rethread_domain::SessionId;
use rethread_domain::opening::{Opening, Settings};
use rethread_domain::session::Move;
use rethread_engine::agents::{AgentError, Answer, OpenOptions, ProcessRequest, Progress, Talk};
use rethread_engine::views::AnswerView;
use rethread_engine::{Engine, Error};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(crate) use ask::Person;
pub(crate) use once::once;
pub(crate) use view::View;

use self::lines::Lines;
use self::rest::Rest;
use self::stops::{Stop, Stops};
use crate::cli::App;
use crate::commands;
use crate::error::{self, Cancelled, NotRecorded};
use crate::output;
use crate::terminal::editor::Input;

/// How often is checked, whatever happens in the store, whether the person is still there.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// An agent that takes longer to start is spoken of.
const PATIENCE: Duration = Duration::from_secs(1);

/// How a conversation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    /// By its person, or by another process that asked.
    Stopped,
    Completed,
    /// To go on with another session.
    Resume,
    /// Nothing happened for long.
    Idle,
    /// Somebody else ended the session meanwhile.
    Ended,
}

/// Talks until the person leaves. Saves and pauses the session at the end.
///
/// At a terminal a session that was idle is paused in place: the prompt stays, and the next line takes it up again.
pub(crate) async fn talk(
    app: &App,
    mut options: OpenOptions,
    person: &Person,
) -> anyhow::Result<Left> {
    let mut lines = Lines::open(slash::COMPLETED, app.json)?;
    let mut line = None;
    let outcome = loop {
        let outcome = sit(app, options.clone(), person, &mut lines, line.take()).await;
        if !matches!(outcome, Ok(Left::Idle)) || !lines.handle.is_drawn() {
            break outcome;
        }
        // The agent has been told of it.
        options.changed_prompt = None;
        match rest::rest(app, &options, &mut lines).await {
            Ok(Rest::Line(typed)) => line = Some(typed),
            Ok(Rest::Over(left)) => break Ok(left),
            Err(error) => break Err(error),
        }
    };
    // Whatever ended it, the editor may be waiting for a key that will not come.
    lines.handle.give_back();
    outcome
}

/// Talks until the person leaves or is idle. A `line` that was typed already takes the session up again.
async fn sit(
    app: &App,
    options: OpenOptions,
    person: &Person,
    lines: &mut Lines,
    line: Option<String>,
) -> anyhow::Result<Left> {
    let (session, agent) = (options.session, options.agent.clone());
    let talk = open(&app.engine, options).await?;
    let mut chat = Chat { app, talk, person, view: View::new(app.json), agent };
    let is_new_to_person = std::io::stdin().is_terminal() && line.is_none();
    if is_new_to_person && !app.json {
        commands::resume::show_end(app, session).await?;
    }
    chat.tell_opening(None);
    if is_new_to_person {
        let help = "/help shows what can be typed beside messages";
        output::note(format_args!("{}", output::dim(help)));
    }
    let outcome = chat.converse(lines, line).await;
    let ended = chat.talk.end().await;
    let left = outcome?;
    ended?;
    settle(app, session, left).await?;
    Ok(left)
}

/// Gives the session the status that it was left with.
async fn settle(app: &App, session: SessionId, left: Left) -> anyhow::Result<()> {
    let asked = if left == Left::Completed { Move::Complete } else { Move::Pause };
    if left != Left::Ended {
        match app.engine.settle_as(session, asked).await {
            // Nothing was said, or somebody else was quicker.
            Err(Error::Refused(_)) => (),
            outcome => drop(outcome?),
        }
    }
    Ok(())
}

/// Opens, unless the person cancels it meanwhile.
async fn open(engine: &Engine, options: OpenOptions) -> anyhow::Result<Talk> {
    let agent = options.agent.clone();
    tokio::select! {
        opened = patiently(&agent, Talk::open(engine, options), || true) => {
            opened.map_err(|error| NotRecorded(error).into())
        }
        _ = tokio::signal::ctrl_c() => Err(Cancelled { agent: agent.clone(), is_recorded: false }.into()),
    }
}

/// Waits for what begins with a start of the agent, and says so if that takes long.
async fn patiently<T>(
    agent: &str,
    work: impl Future<Output = T>,
    is_starting: impl Fn() -> bool,
) -> T {
    let mut work = Box::pin(work);
    tokio::select! {
        done = &mut work => return done,
        () = tokio::time::sleep(PATIENCE) => (),
    }
    if is_starting() && std::io::stderr().is_terminal() {
        let told = format!("[starting {agent} …]");
        output::note(format_args!("{}", output::dim(&told)));
    }
    work.await
}

/// A conversation that is open.
struct Chat<'a> {
    app: &'a App,
    talk: Talk,
    person: &'a Person,
    view: View,
    agent: String,
}

/// What came of a turn, and whether the person leaves after it.
struct Said {
    outcome: rethread_engine::Result<Answer>,
    is_left: bool,
}

impl Chat<'_> {
    async fn converse(&mut self, lines: &mut Lines, first: Option<String>) -> anyhow::Result<Left> {
        if let Some(line) = first
            && let Some(left) = self.typed(&line).await?
        {
            return Ok(left);
        }
        let quiet = Duration::try_from(self.app.config.idle()).unwrap_or(Duration::MAX);
        let mut until = Instant::now() + quiet;
        let mut changes = self.app.engine.changes();
        lines.want();
        loop {
            tokio::select! {
                line = lines.next() => {
                    let Some(line) = line else { return Ok(Left::Stopped) };
                    match line? {
                        Input::End => return Ok(Left::Stopped),
                        Input::Interrupted => (),
                        Input::Line(line) => {
                            if let Some(left) = self.typed(&line).await? {
                                return Ok(left);
                            }
                        }
                    }
                    until = Instant::now() + quiet;
                    lines.want();
                }
                () = changes.within(LOOK_EVERY) => match self.talk.asked().await? {
                    Some(ProcessRequest::Prompt { no, prompt }) => {
                        self.answer_other(no, &prompt, lines).await?;
                        until = Instant::now() + quiet;
                    }
                    Some(ProcessRequest::Pause) => return Ok(Left::Stopped),
                    Some(ProcessRequest::Complete) => return Ok(Left::Completed),
                    None if self.talk.is_over().await? => return Ok(Left::Ended),
                    // Somebody is there.
                    None if lines.handle.has_text() => until = Instant::now() + quiet,
                    None if Instant::now() >= until => return Ok(Left::Idle),
                    None => (),
                },
            }
        }
    }

    /// Sends what another process asks, while the person may be typing.
    async fn answer_other(
        &mut self,
        no: u64,
        prompt: &str,
        lines: &mut Lines,
    ) -> anyhow::Result<()> {
        self.view.set_above(Some(lines.handle.clone()));
        self.view.note(&format!("another process asks: {prompt}"));
        self.person.set_typing(true);
        let said = self.say(prompt, Stops::Editor(lines)).await;
        self.person.set_typing(false);
        self.view.set_above(None);
        Ok(self.app.engine.reply(no, &said.outcome).await?)
    }

    /// Does what was typed; gives whether that was the last of it.
    async fn typed(&mut self, line: &str) -> anyhow::Result<Option<Left>> {
        let line = match self.app.expand(line.trim_end()) {
            Ok(line) => line,
            Err(why) => {
                self.tell_unsent(slash::split(line).0, &why);
                return Ok(None);
            }
        };
        let (command, rest) = slash::split(&line);
        if let Some(left) = slash::leaves(command) {
            return Ok(Some(left));
        }
        match command {
            "/help" => output::note(format_args!("{}", slash::HELP)),
            "/model" | "/mode" if rest.is_empty() => self.view.note(&format!("{command} what?")),
            "/model" => {
                let model = Some(rest.to_owned());
                self.set("model", rest, Settings { model, ..Settings::default() }).await?;
            }
            "/mode" => {
                let mode = Some(rest.to_owned());
                self.set("mode", rest, Settings { mode, ..Settings::default() }).await?;
            }
            _ if line.trim().is_empty() => (),
            _ => {
                if let Some(meant) = slash::near(command) {
                    self.tell_unsent(command, &format!("Did you mean {meant}?"));
                    return Ok(None);
                }
                let said = self.say(line.trim(), Stops::Terminal).await;
                match said.outcome {
                    Ok(answer) => {
                        if self.app.json {
                            output::json_line(&AnswerView::from(&answer));
                        } else if let Some(failure) = answer.failure() {
                            self.view.note(&format!("error: {failure}"));
                        }
                    }
                    Err(error) => self.tell(error)?,
                }
                return Ok(said.is_left.then_some(Left::Stopped));
            }
        }
        Ok(None)
    }

    fn tell_unsent(&mut self, command: &str, why: &str) {
        let command = rethread_domain::quote::one_line(command, 40);
        self.view.note(&format!(
            "{command} was not sent. {why} With a space before it, it goes to the agent"
        ));
    }

    async fn set(&mut self, what: &str, name: &str, settings: Settings) -> anyhow::Result<()> {
        match self.talk.set(&settings).await {
            Ok(()) => self.view.note(&format!("{what} is {name}")),
            Err(error) => self.tell(error)?,
        }
        Ok(())
    }

    /// Tells what went wrong with the agent: the conversation goes on, and the agent is started again with the next
    /// message. All else ends it.
    fn tell(&mut self, error: Error) -> anyhow::Result<()> {
        if !matches!(error, Error::Agent { .. }) {
            return Err(error.into());
        }
        if self.app.json {
            error::tell(&error.into(), true);
        } else {
            self.view.note(&format!("error: {error}"));
        }
        Ok(())
    }

    fn tell_opening(&mut self, before: Option<&Opening>) {
        if let Some(opening) = self.talk.opening().filter(|opening| Some(*opening) != before) {
            self.view.opened(opening);
        }
    }

    /// One turn; Ctrl-C cancels it, Ctrl-D leaves as well.
    async fn say(&mut self, prompt: &str, mut stops: Stops<'_>) -> Said {
        let before = self.talk.opening().cloned();
        let ready = tokio::select! {
            ready = patiently(&self.agent, self.talk.ready(), || true) => ready,
            stop = stops.next() => {
                let (agent, trouble) = (self.agent.clone(), AgentError::Cancelled);
                let outcome = Err(Error::Agent { agent, trouble });
                return Said { outcome, is_left: stop == Stop::Leave };
            }
        };
        if let Err(error) = ready {
            return Said { outcome: Err(error), is_left: false };
        }
        self.tell_opening(before.as_ref());
        let cancel = CancellationToken::new();
        let mut stopped = None;
        let outcome = {
            // Whoever shows the answer and whoever cancels it take turns.
            let view = Mutex::new(&mut self.view);
            let view = || view.lock().unwrap_or_else(PoisonError::into_inner);
            let mut show = |progress: Progress<'_>| view().progress(&progress);
            let turn = self.talk.say(prompt, &cancel, &mut show);
            tokio::pin!(turn);
            loop {
                let stop = tokio::select! {
                    outcome = &mut turn => break outcome,
                    stop = stops.next() => stop,
                };
                if stopped.is_none() {
                    view().note("cancelling …");
                }
                stopped = stopped.max(Some(stop));
                cancel.cancel();
            }
        };
        self.view.end_line();
        if let Ok(Answer { stop, .. }) = &outcome
            && stop != "end_turn"
        {
            self.view.note(stop);
        }
        // It may have been the answer to the last question.
        Said { outcome, is_left: stopped == Some(Stop::Leave) || ask::is_left() }
    }
}
