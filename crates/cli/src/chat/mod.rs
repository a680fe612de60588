//! A conversation in the terminal: lines in, answers out, until one of both ends it.

mod ask;
mod view;

use std::io::IsTerminal;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use rethread_domain::opening::Settings;
use rethread_domain::session::Move;
use rethread_engine::agents::{Answer, Asked, OpenOptions, Talk};
use rethread_engine::{Engine, Error};
use tokio::sync::mpsc;
use tokio::time::Instant;

pub(crate) use ask::Person;
pub(crate) use view::View;

use crate::cli::App;
use crate::config;
use crate::output;
use crate::terminal::editor::{Editor, Input};

/// How often is looked for what other processes ask.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const COMMANDS: &[&str] = &["/help", "/stop", "/complete", "/resume", "/model", "/mode"];
const HELP: &str = "/stop       save, pause and leave (also Ctrl-D)
/complete   save, mark as completed and leave
/resume     save, pause, and pick another session
/model M    use another model, now and after every resume
/mode M     use another mode of the agent
Ctrl-C      cancel the running turn";

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

/// Reads lines on a thread of its own, one each time it is asked to.
struct Lines {
    wanted: Sender<()>,
    typed: mpsc::UnboundedReceiver<std::io::Result<Input>>,
    /// Typed while something else was done.
    early: Option<std::io::Result<Input>>,
}

impl Lines {
    fn open() -> anyhow::Result<Self> {
        let history = config::data_folder()?.join("history");
        let (wanted, asked) = channel::<()>();
        let (send, typed) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            let mut editor = match Editor::open(&history, COMMANDS) {
                Ok(editor) => editor,
                Err(error) => return drop(send.send(Err(error))),
            };
            while asked.recv().is_ok() {
                if send.send(editor.read("> ")).is_err() {
                    return;
                }
            }
        });
        Ok(Self { wanted, typed, early: None })
    }

    async fn next(&mut self) -> Option<std::io::Result<Input>> {
        match self.early.take() {
            Some(line) => Some(line),
            None => self.typed.recv().await,
        }
    }

    /// Waits for a Ctrl-C that the editor takes. A line that is typed meanwhile is kept.
    async fn interrupted(&mut self) {
        while self.early.is_none() {
            match self.typed.recv().await {
                Some(Ok(Input::Interrupted)) => {
                    self.want();
                    return;
                }
                Some(line) => self.early = Some(line),
                None => break,
            }
        }
        std::future::pending::<()>().await;
    }

    fn want(&self) {
        // The thread is there as long as this is.
        let _ = self.wanted.send(());
    }
}

/// Talks until the person leaves. Saves and pauses the session at the end.
pub(crate) async fn talk(app: &App, options: OpenOptions, person: &Person) -> anyhow::Result<Left> {
    let session = options.session;
    let mut talk = open(&app.engine, options).await?;
    let mut view = View::new(false);
    if let Some(opening) = talk.opening() {
        view.opened(opening);
    }
    let mut lines = Lines::open()?;
    if std::io::stdin().is_terminal() {
        output::note(format_args!(
            "{}",
            output::dim("/help shows what can be typed beside messages")
        ));
    }
    let outcome = converse(app, &mut talk, person, &mut lines, &mut view).await;
    let ended = talk.end().await;
    let left = outcome?;
    ended?;
    let asked = if left == Left::Completed { Move::Complete } else { Move::Pause };
    if left != Left::Ended {
        match app.engine.settle_as(session, asked).await {
            // Nothing was said, or somebody else was quicker.
            Err(Error::Refused(_)) => (),
            outcome => drop(outcome?),
        }
    }
    Ok(left)
}

/// Opens, unless the person cancels it meanwhile.
async fn open(engine: &Engine, options: OpenOptions) -> anyhow::Result<Talk> {
    let agent = options.agent.clone();
    tokio::select! {
        opened = Talk::open(engine, options) => Ok(opened?),
        _ = tokio::signal::ctrl_c() => {
            Err(Error::Agent { agent, trouble: rethread_engine::agents::Trouble::Cancelled }.into())
        }
    }
}

async fn converse(
    app: &App,
    talk: &mut Talk,
    person: &Person,
    lines: &mut Lines,
    view: &mut View,
) -> anyhow::Result<Left> {
    let quiet = Duration::try_from(app.config.idle()).unwrap_or(Duration::MAX);
    let mut until = Instant::now() + quiet;
    lines.want();
    loop {
        tokio::select! {
            line = lines.next() => {
                let Some(line) = line else { return Ok(Left::Stopped) };
                match line? {
                    Input::End => return Ok(Left::Stopped),
                    Input::Interrupted => (),
                    Input::Line(line) => {
                        if let Some(left) = typed(talk, line.trim(), view).await? {
                            return Ok(left);
                        }
                    }
                }
                until = Instant::now() + quiet;
                lines.want();
            }
            () = tokio::time::sleep(LOOK_EVERY) => match talk.asked().await? {
                Some(Asked::Prompt { no, prompt }) => {
                    view.note(&format!("another process asks: {prompt}"));
                    person.set_typing(true);
                    let outcome = say(talk, &prompt, view, lines.interrupted()).await;
                    person.set_typing(false);
                    app.engine.reply(no, &outcome).await?;
                    until = Instant::now() + quiet;
                }
                Some(Asked::Pause) => return Ok(Left::Stopped),
                Some(Asked::Complete) => return Ok(Left::Completed),
                None if talk.is_over().await? => return Ok(Left::Ended),
                None if Instant::now() >= until => return Ok(Left::Idle),
                None => (),
            },
        }
    }
}

/// Does what was typed; gives whether that was the last of it.
async fn typed(talk: &mut Talk, line: &str, view: &mut View) -> anyhow::Result<Option<Left>> {
    let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
    let rest = rest.trim();
    match command {
        "" => (),
        "/help" => output::note(format_args!("{HELP}")),
        "/stop" | "/quit" | "/exit" => return Ok(Some(Left::Stopped)),
        "/complete" => return Ok(Some(Left::Completed)),
        "/resume" => return Ok(Some(Left::Resume)),
        "/model" | "/mode" if rest.is_empty() => view.note(&format!("{command} what?")),
        "/model" | "/mode" => {
            let name = Some(rest.to_owned());
            let settings = if command == "/model" {
                Settings { model: name, ..Settings::default() }
            } else {
                Settings { mode: name, ..Settings::default() }
            };
            match talk.set(&settings).await {
                Ok(()) => view.note(&format!("{} is {rest}", &command[1..])),
                Err(error) => view.note(&error.to_string()),
            }
        }
        _ => match say(talk, line, view, std::future::pending()).await {
            Ok(_) => (),
            // The conversation goes on: the agent is started again with the next message.
            Err(error @ Error::Agent { .. }) => view.note(&format!("error: {error}")),
            Err(error) => return Err(error.into()),
        },
    }
    Ok(None)
}

/// One turn; Ctrl-C cancels it, as a signal or as the editor takes it.
async fn say(
    talk: &mut Talk,
    prompt: &str,
    view: &mut View,
    interrupted: impl Future<Output = ()>,
) -> rethread_engine::Result<Answer> {
    let canceller = talk.canceller();
    let before = talk.opening().cloned();
    let answer = {
        let mut show = |update: &rethread_domain::turn::Update| view.update(update);
        let turn = talk.send(prompt, &mut show);
        tokio::pin!(turn, interrupted);
        let mut is_interrupted = false;
        loop {
            tokio::select! {
                answer = &mut turn => break answer,
                _ = tokio::signal::ctrl_c() => (),
                () = &mut interrupted, if !is_interrupted => is_interrupted = true,
            }
            canceller.cancel();
        }
    };
    view.end_line();
    if let Some(opening) = talk.opening().filter(|opening| Some(*opening) != before.as_ref()) {
        view.opened(opening);
    }
    if let Ok(Answer { stop, .. }) = &answer
        && stop != "end_turn"
    {
        view.note(stop);
    }
    answer
}

/// One request and its answer, for a person or for a program.
pub(crate) async fn once(app: &App, options: &OpenOptions, prompt: &str) -> anyhow::Result<Answer> {
    let mut view = View::new(app.json);
    let outcome = {
        let mut show = |progress: rethread_engine::agents::Progress<'_>| view.progress(&progress);
        let sent = app.engine.send(options, prompt, &mut show);
        tokio::pin!(sent);
        tokio::select! {
            answer = &mut sent => answer,
            // What was said so far is kept, and marked as interrupted.
            _ = tokio::signal::ctrl_c() => Err(Error::Agent {
                agent: options.agent.clone(),
                trouble: rethread_engine::agents::Trouble::Cancelled,
            }),
        }
    };
    view.end_line();
    let answer = outcome?;
    if app.json {
        output::json(&answer);
    } else if answer.stop != "end_turn" {
        view.note(&answer.stop);
    }
    Ok(answer)
}
