//! A conversation in the terminal: lines in, answers out, until one of both ends it.

mod act;
mod ask;
mod complete;
mod files;
mod lines;
mod once;
mod question;
mod rest;
mod slash;
mod stops;
mod tools;
mod view;

use std::io::IsTerminal;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rethread_domain::SessionId;
use rethread_domain::opening::Opening;
use rethread_domain::session::Move;
use rethread_engine::agents::{
    AgentError, Answer, Offered, OpenOptions, ProcessRequest, Progress, Talk,
};
use rethread_engine::views::AnswerView;
use rethread_engine::{Engine, Error};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(crate) use ask::Person;
pub(crate) use once::once;
pub(crate) use view::View;

use self::lines::Lines;
use self::rest::Rest;
use self::stops::Wish;
use crate::agents::How;
use crate::cli::App;
use crate::commands;
use crate::error::{self, Cancelled, NotRecorded};
use crate::output;
use crate::terminal::window::{Event, Status};

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
    /// To go on with another agent, or in a fork.
    Elsewhere,
    /// Nothing happened for long.
    Idle,
    /// Somebody else ended the session meanwhile.
    Ended,
}

/// How a conversation was left, and in which session: it may have become another one.
#[derive(Debug)]
pub(crate) struct Over {
    pub(crate) left: Left,
    pub(crate) session: SessionId,
}

/// Talks until the person leaves. Saves and pauses the session at the end.
///
/// At a terminal a session that was idle is paused in place: the prompt stays, and the next line takes it up again.
pub(crate) async fn talk(
    app: &App,
    mut options: OpenOptions,
    person: &Person,
    how: &How,
) -> anyhow::Result<Over> {
    let mut lines = Lines::open(app.json)?;
    person.set_window(lines.window().cloned());
    let (mut line, mut is_new) = (None, true);
    let outcome = loop {
        let is_new = std::mem::take(&mut is_new);
        let sat = sit(app, options.clone(), person, &mut lines, line.take(), is_new);
        let (left, next) = match sat.await {
            Ok(sat) => sat,
            Err(error) => break Err(error),
        };
        // The agent has been told of it.
        options.changed_prompt = None;
        if let Some(next) = next {
            match another(app, &options, next, how).await {
                Ok(changed) => options = changed,
                Err(error) => break Err(error),
            }
        } else if left == Left::Idle && lines.window().is_some() {
            match rest::rest(app, &options, &mut lines).await {
                Ok(Rest::Line(typed)) => line = Some(typed),
                Ok(Rest::Over(left)) => break Ok(left),
                Err(error) => break Err(error),
            }
        } else {
            break Ok(left);
        }
    };
    person.set_window(None);
    Ok(Over { left: outcome?, session: options.session })
}

/// What it takes to go on with another agent, or in another session.
async fn another(
    app: &App,
    options: &OpenOptions,
    next: Next,
    how: &How,
) -> anyhow::Result<OpenOptions> {
    let (id, agent, how) = match next {
        Next::Agent(agent) => (options.session, agent, how.for_another_agent()),
        Next::Session(id) => (id, options.agent.clone(), how.clone()),
    };
    let session = app.engine.session(id).await?;
    app.options(&session, &agent, &how, Arc::clone(&options.asker)).await
}

/// Talks until the person leaves, goes on elsewhere or is idle. A `line` that was typed already takes the session up again.
async fn sit(
    app: &App,
    options: OpenOptions,
    person: &Person,
    lines: &mut Lines,
    line: Option<String>,
    is_new: bool,
) -> anyhow::Result<(Left, Option<Next>)> {
    let (session, agent) = (options.session, options.agent.clone());
    let project = app.engine.session(session).await?.project;
    let mut view = View::new(app.json, lines.window(), &project);
    view.set_status(|status| *status = Status { agent: agent.clone(), ..Status::default() });
    if let Some(line) = &line {
        view.typed(line);
    }
    view.set_busy(Some(&format!("starting {agent}")));
    let opened = open(&app.engine, options, lines, &mut view).await;
    view.set_busy(None);
    let talk = opened?;
    let (next, ran) = (None, Vec::new());
    let mut chat = Chat { app, talk, person, view, agent, session, project, next, ran };
    let is_new_to_person = std::io::stdin().is_terminal() && is_new;
    if is_new_to_person && !app.json {
        commands::resume::show_end(app, session).await?;
    }
    chat.tell_opening(None);
    if is_new_to_person {
        let help = "/help shows what can be typed beside messages";
        output::note(format_args!("{}", output::dim(help)));
    }
    let outcome = chat.converse(lines, line).await;
    let next = chat.next.take();
    let ended = chat.talk.end().await;
    let left = outcome?;
    ended?;
    settle(app, session, left).await?;
    Ok((left, next))
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
async fn open(
    engine: &Engine,
    options: OpenOptions,
    lines: &mut Lines,
    view: &mut View,
) -> anyhow::Result<Talk> {
    let agent = options.agent.clone();
    let mut opened = pin!(patiently(&agent, Talk::open(engine, options), || true));
    loop {
        tokio::select! {
            opened = &mut opened => return opened.map_err(|error| NotRecorded(error).into()),
            wish = lines.wish() => match wish {
                Wish::Open => view.open(),
                Wish::Cancel | Wish::Leave => {
                    return Err(Cancelled { agent: agent.clone(), is_recorded: false }.into());
                }
            },
        }
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
    session: SessionId,
    project: String,
    /// Where it goes on when it is left.
    next: Option<Next>,
    /// Commands that the person ran, with their output: told with the next message.
    ran: Vec<String>,
}

/// Where a conversation goes on.
#[derive(Debug)]
enum Next {
    Agent(String),
    Session(SessionId),
}

/// What came of a turn, and whether the person leaves after it.
struct Said {
    outcome: rethread_engine::Result<Answer>,
    is_left: bool,
}

impl Chat<'_> {
    async fn converse(&mut self, lines: &mut Lines, first: Option<String>) -> anyhow::Result<Left> {
        self.tell_offers(lines);
        if let Some(line) = first
            && let Some(left) = self.typed(&line, lines).await?
        {
            return Ok(left);
        }
        let quiet = Duration::try_from(self.app.config.idle()).unwrap_or(Duration::MAX);
        let mut until = Instant::now() + quiet;
        let mut changes = self.app.engine.changes();
        loop {
            tokio::select! {
                event = lines.next() => {
                    if let Some(left) = self.wanted(event?, lines).await? {
                        return Ok(left);
                    }
                    until = Instant::now() + quiet;
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
                    None if lines.has_text() => until = Instant::now() + quiet,
                    None if Instant::now() >= until => return Ok(Left::Idle),
                    None => (),
                },
            }
        }
    }

    async fn wanted(&mut self, event: Event, lines: &mut Lines) -> anyhow::Result<Option<Left>> {
        match event {
            Event::End => return Ok(Some(Left::Stopped)),
            Event::Interrupted | Event::Stop => (),
            Event::Open => self.view.open(),
            Event::NextMode => self.next_mode().await?,
            Event::Line(line) => {
                self.view.typed(&line);
                return self.typed(&line, lines).await;
            }
        }
        Ok(None)
    }

    /// What the agent offers; the mode in use, as it said last.
    fn offered(&self) -> Offered {
        let offered = self.talk.offered();
        let mode = self.view.mode().map(str::to_owned).or(offered.mode);
        Offered { mode, ..offered }
    }

    /// What stands in the last line, and what Tab completes.
    fn tell_offers(&self, lines: &Lines) {
        let offered = self.offered();
        let branch = self.app.engine.branch(Path::new(&self.project));
        self.view.set_status(|status| {
            (status.model, status.mode) = (offered.model.clone(), offered.mode.clone());
            status.branch = branch;
        });
        lines.set_completer(complete::completer(&self.project, self.app, offered));
    }

    /// Sends what another process asks, while the person may be typing.
    async fn answer_other(
        &mut self,
        no: u64,
        prompt: &str,
        lines: &mut Lines,
    ) -> anyhow::Result<()> {
        self.view.note(&format!("another process asks: {prompt}"));
        self.person.set_typing(true);
        let said = self.say(prompt, lines).await;
        self.person.set_typing(false);
        Ok(self.app.engine.reply(no, &said.outcome).await?)
    }

    /// Does what was typed; gives whether that was the last of it.
    async fn typed(&mut self, line: &str, lines: &mut Lines) -> anyhow::Result<Option<Left>> {
        let command = line.strip_prefix('!').filter(|_| lines.window().is_some());
        if let Some(command) = command {
            self.run(command.trim(), lines).await?;
            return Ok(None);
        }
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
        if let Some(left) = self.act(command, rest, lines).await? {
            return Ok(left);
        }
        if line.trim().is_empty() {
            return Ok(None);
        }
        if let Some(meant) = slash::near(command)
            && !self.talk.offered().commands.iter().any(|own| command[1..] == own.id)
        {
            self.tell_unsent(command, &format!("Did you mean {meant}?"));
            return Ok(None);
        }
        let prompt = self.prompt(line.trim(), lines);
        let said = self.say(&prompt, lines).await;
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
        self.tell_offers(lines);
        Ok(said.is_left.then_some(Left::Stopped))
    }

    fn tell_unsent(&mut self, command: &str, why: &str) {
        let command = rethread_domain::quote::one_line(command, 40);
        self.view.note(&format!(
            "{command} was not sent. {why} With a space before it, it goes to the agent"
        ));
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

    /// One turn; Escape or Ctrl-C cancels it, Ctrl-D leaves as well.
    async fn say(&mut self, prompt: &str, lines: &mut Lines) -> Said {
        let before = self.talk.opening().cloned();
        self.view.begin(&self.agent);
        let ready = {
            let mut ready = pin!(patiently(&self.agent, self.talk.ready(), || true));
            loop {
                tokio::select! {
                    ready = &mut ready => break Ok(ready),
                    wish = lines.wish() => match wish {
                        Wish::Open => self.view.open(),
                        stop => break Err(stop),
                    },
                }
            }
        };
        match ready {
            Ok(Ok(())) => self.tell_opening(before.as_ref()),
            Ok(Err(error)) => {
                self.view.end_turn();
                return Said { outcome: Err(error), is_left: false };
            }
            Err(stop) => {
                self.view.end_turn();
                let (agent, trouble) = (self.agent.clone(), AgentError::Cancelled);
                let outcome = Err(Error::Agent { agent, trouble });
                return Said { outcome, is_left: stop == Wish::Leave };
            }
        }
        let cancel = CancellationToken::new();
        let mut stopped = None;
        let outcome = {
            // Whoever shows the answer and whoever cancels it take turns.
            let view = Mutex::new(&mut self.view);
            let view = || view.lock().unwrap_or_else(PoisonError::into_inner);
            let mut show = |progress: Progress<'_>| view().progress(&progress);
            let mut turn = pin!(self.talk.say(prompt, &cancel, &mut show));
            loop {
                let wish = tokio::select! {
                    outcome = &mut turn => break outcome,
                    wish = lines.wish() => wish,
                };
                if wish == Wish::Open {
                    view().open();
                    continue;
                }
                if stopped.is_none() {
                    view().note("cancelling …");
                }
                stopped = stopped.max(Some(wish));
                cancel.cancel();
            }
        };
        self.view.end_turn();
        if let Ok(Answer { stop, .. }) = &outcome
            && stop != "end_turn"
        {
            self.view.note(stop);
        }
        // It may have been the answer to the last question.
        Said { outcome, is_left: stopped == Some(Wish::Leave) || ask::is_left() }
    }
}
