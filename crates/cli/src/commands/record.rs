//! `rethread record`

use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rethread_domain::id::SessionRef;
use rethread_domain::message::{NewMessage, Role};
use rethread_domain::session::{Beginning, Move};
use rethread_domain::{Session, conversation::TitleFrom};
use rethread_engine::{Error, Recorder, entry};
use rethread_store::Appended;
use rustix::event::{PollFd, PollFlags};

use super::{project, refuse_excluded};
use crate::cli::App;
use crate::error::BadInput;
use crate::output;

/// How often others are listened to while nothing is said.
const IDLE: Duration = Duration::from_millis(100);
/// Lines that wait to be written; past them the writer of the pipe waits.
const QUEUE: usize = 1024;
/// So many bytes are read without a thread, where they are there at once.
const AT_HAND: usize = 1 << 16;
/// The most bytes of them.
const MOST_WAITING: usize = 16 << 20;
/// The most lines, and bytes, that are written in one go.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 4 << 20;

/// Record a conversation from standard input
///
/// Reads one JSON object a line: {"role": "user", "content": "…"}, and optionally "timestamp" (RFC 3339),
/// "conversation" (a name; a new name opens a new conversation), "agent", "model", "tool_calls", "usage"
/// {"input_tokens", "output_tokens", "cost_usd"} and "id" (the same id twice is one message). Other fields are kept
/// as they came.
///
/// Prints the id of the session first: of a new one when its first message is kept, or at once with --ack. With --ack it
/// prints {"seq":N} after each message is durable: from then on neither a crash nor a power failure loses it. A line that
/// is not valid ends the recording with exit code 2; all before it is kept, and where there is none, no session is.
#[expect(clippy::doc_markdown, reason = "this is the help, where names stand as they are typed")]
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Go on with this session instead of starting one
    #[arg(long, value_name = "ID")]
    session: Option<SessionRef>,
    /// Whom a new session belongs to [default: RETHREAD_USER, or the login name]
    #[arg(long)]
    user: Option<String>,
    /// The folder that a new session is about [default: the current one]
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
    /// What a new session is: brainstorm, debug, plan, chat, … [default: chat]
    #[arg(long)]
    kind: Option<String>,
    /// The title [default: cut from the first request]
    #[arg(long)]
    title: Option<String>,
    /// The agent that speaks where a line names none
    #[arg(long)]
    agent: Option<String>,
    /// Confirm each message when it is durable
    #[arg(long)]
    ack: bool,
}

/// A line with its number, and its share of what may wait.
struct Line {
    number: u64,
    bytes: Vec<u8>,
    _waiting: Waiting,
}

/// Bytes that wait to be written; past a bound the reader of standard input waits.
struct Waiting {
    sum: Arc<(Mutex<usize>, Condvar)>,
    bytes: usize,
}

impl Waiting {
    fn new(sum: &Arc<(Mutex<usize>, Condvar)>, bytes: usize) -> Self {
        let (held, freed) = &**sum;
        let held = held.lock().unwrap_or_else(PoisonError::into_inner);
        // A line that is longer than all that may wait is let in by itself.
        let full = |held: &mut usize| *held > 0 && *held + bytes > MOST_WAITING;
        let mut held = freed.wait_while(held, full).unwrap_or_else(PoisonError::into_inner);
        *held += bytes;
        Self { sum: sum.clone(), bytes }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let (held, freed) = &*self.sum;
        *held.lock().unwrap_or_else(PoisonError::into_inner) -= self.bytes;
        freed.notify_one();
    }
}

/// What comes from standard input.
enum Input {
    Line(Line),
    TooLong(u64),
    Failed(std::io::Error),
}

impl Args {
    /// Whether somebody waits for each message to be durable.
    pub(crate) const fn confirms(&self) -> bool {
        self.ack
    }

    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        let is_new = self.session.is_none();
        let session = self.open(app).await?;
        let recorder = Recorder::open(&app.engine, session.id, app.config.pruning()).await?;
        let mut unsaid = Some(format!("{}\n", session.id));
        // A program that waits for acknowledgements may wait for the id before it says anything.
        let is_read = match unsaid.take_if(|_| self.ack || !is_new) {
            Some(id) => output::try_write(id.as_bytes()).is_ok(),
            None => true,
        };
        let other_agent = self.agent.filter(|agent| session.agent.as_ref() != Some(agent));
        let mut recording = Recording {
            app,
            recorder,
            unsaid,
            ack: self.ack && is_read,
            other_agent,
            messages: 0,
            heard: Instant::now(),
            is_paused: false,
        };
        let lines = read_lines(app.config.record.max_message_bytes);
        let outcome = recording.run(&lines).await;
        let messages = recording.messages;
        let finished = recording.recorder.finish().await;
        if messages == 0 && is_new && outcome.is_err() {
            // Nothing was said, by nobody: nothing stays.
            app.engine.erase_if_empty(session.id).await?;
        }
        outcome?;
        if let Err(error) = finished {
            output::note(format_args!(
                "warning: all messages are kept, but not yet summed up: {error}"
            ));
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The session to go on with, or a new one.
    async fn open(&self, app: &App) -> anyhow::Result<Session> {
        let Some(reference) = &self.session else { return self.start(app).await };
        let id = app.session(reference).await?;
        let session = app.engine.session(id).await?;
        session.accepts_messages().map_err(Error::from)?;
        refuse_excluded(app, Path::new(&session.project))?;
        let folder = self.project.as_deref().map(|folder| project(Some(folder))).transpose()?;
        let folder = folder.as_ref().and_then(|folder| folder.to_str());
        for (what, given, is) in [
            ("user", self.user.as_deref(), &session.user),
            ("project", folder, &session.project),
            ("kind", self.kind.as_deref(), &session.kind),
        ] {
            if given.is_some_and(|given| given != is) {
                let message =
                    format!("session {id} already has the {what} {is:?}, which cannot be changed");
                return Err(BadInput::new(message, format!("omit --{what}")).into());
            }
        }
        if let Some(agent) = &self.agent {
            rethread_domain::id::check_agent("agent", agent).map_err(Error::from)?;
        }
        match &self.title {
            Some(title) => Ok(app.engine.retitle(id, title, TitleFrom::Agent).await?),
            None => Ok(session),
        }
    }

    async fn start(&self, app: &App) -> anyhow::Result<Session> {
        let folder = project(self.project.as_deref())?;
        refuse_excluded(app, &folder)?;
        let beginning = Beginning {
            kind: self.kind.clone().unwrap_or_else(|| "chat".to_owned()),
            title: self.title.clone(),
            agent: self.agent.clone(),
            ..Beginning::new(
                app.config.user(self.user.as_deref())?,
                folder.to_string_lossy().into_owned(),
            )
        };
        Ok(app.engine.start(beginning).await?)
    }
}

struct Recording<'a> {
    app: &'a App,
    recorder: Recorder,
    /// The id of a new session, until there is something in it.
    unsaid: Option<String>,
    ack: bool,
    /// Speaks where a line names no agent and the session's own is another.
    other_agent: Option<String>,
    messages: u64,
    /// When something was said last, and whether the session was paused since.
    heard: Instant,
    is_paused: bool,
}

impl Recording<'_> {
    async fn run(&mut self, lines: &Receiver<Input>) -> anyhow::Result<()> {
        loop {
            match lines.recv_timeout(IDLE) {
                Ok(first) => self.take(first, lines).await?,
                Err(RecvTimeoutError::Timeout) => self.idle().await?,
                Err(RecvTimeoutError::Disconnected) if self.messages == 0 => {
                    let hint = "`rethread record --help` shows what a line looks like";
                    return Err(BadInput::new(
                        "there was nothing to record: standard input is empty",
                        hint,
                    )
                    .into());
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }

    async fn idle(&mut self) -> anyhow::Result<()> {
        self.pause_if_quiet().await?;
        match self.recorder.idle().await {
            // The index can follow later.
            Ok(_) => Ok(()),
            Err(error) if error.is_for_now() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// After long without a word the session is paused; the next message takes it up again.
    async fn pause_if_quiet(&mut self) -> anyhow::Result<()> {
        let idle = self.app.config.idle();
        let is_quiet = i64::try_from(self.heard.elapsed().as_secs())
            .is_ok_and(|quiet| quiet >= idle.as_secs());
        if self.is_paused || self.messages == 0 || !is_quiet {
            return Ok(());
        }
        self.is_paused = true;
        match self.app.engine.settle_as(self.recorder.session(), Move::Pause).await {
            Ok(session) => output::note(format_args!(
                "note: paused {}: nothing was said for {}",
                super::named(&session),
                output::time::length(idle)
            )),
            // Somebody else has paused it, or it cannot be written to now.
            Err(Error::Refused(_)) => (),
            Err(error) if error.is_for_now() => (),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Writes all lines that are there, in one go. The first bad one ends it, when those before are written.
    async fn take(&mut self, first: Input, lines: &Receiver<Input>) -> anyhow::Result<()> {
        let mut batch: Vec<(u64, NewMessage)> = Vec::new();
        let mut bytes = 0;
        let mut next = Some(first);
        let mut bad = None;
        while let Some(input) = next {
            match self.understand(input) {
                Ok(Some((number, message))) => {
                    bytes += message.content.len();
                    batch.push((number, message));
                }
                Ok(None) => (),
                Err(error) => {
                    bad = Some(error);
                    break;
                }
            }
            let full = batch.len() >= BATCH || bytes >= BATCH_BYTES;
            next = if full { None } else { lines.try_recv().ok() };
        }
        self.write(batch).await?;
        bad.map_or(Ok(()), Err)
    }

    fn understand(&self, input: Input) -> anyhow::Result<Option<(u64, NewMessage)>> {
        let most = self.app.config.record.max_message_bytes;
        let line = match input {
            Input::Line(line) => line,
            Input::TooLong(number) => {
                let error = format!("line {number}: the message has more than {most} bytes");
                return Err(BadInput::new(
                    error,
                    "the setting record.max_message_bytes allows longer ones",
                )
                .into());
            }
            Input::Failed(error) => return Err(anyhow::Error::new(error).context("standard input")),
        };
        if line.bytes.trim_ascii().is_empty() {
            return Ok(None);
        }
        let mut message =
            entry::parse(&line.bytes, self.app.engine.clock().now(), most).map_err(|error| {
                anyhow::Error::new(Error::from(error)).context(format!("line {}", line.number))
            })?;
        if matches!(message.role, Role::Assistant | Role::Tool) && message.extras.agent.is_none() {
            message.extras.agent.clone_from(&self.other_agent);
        }
        Ok(Some((line.number, message)))
    }

    async fn write(&mut self, batch: Vec<(u64, NewMessage)>) -> anyhow::Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        let messages: Vec<NewMessage> = batch.iter().map(|(_, message)| message.clone()).collect();
        match self.recorder.record(messages).await {
            Ok(written) => self.acknowledge(&written),
            Err(error) if matches!(error.code(), "id_taken" | "bad_input") => {
                // One of them is refused: those before it are written all the same.
                for (number, message) in batch {
                    let written = self.recorder.record(vec![message]).await;
                    let written = written.map_err(|error| {
                        anyhow::Error::new(error).context(format!("line {number}"))
                    })?;
                    self.acknowledge(&written);
                }
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn acknowledge(&mut self, written: &[Appended]) {
        self.messages += written.len() as u64;
        if let Some(id) = self.unsaid.take_if(|_| !written.is_empty()) {
            // Recording goes on when nobody reads it.
            drop(output::try_write(id.as_bytes()));
        }
        (self.heard, self.is_paused) = (Instant::now(), false);
        if self.ack {
            let lines: Vec<String> =
                written.iter().map(|one| format!("{{\"seq\":{}}}\n", one.seq)).collect();
            // Recording goes on when nobody reads the acknowledgements any more.
            self.ack = output::try_write(lines.concat().as_bytes()).is_ok();
        }
    }
}

/// Reads standard input: what is there at once, or else on a thread of its own, so that others can be listened to while it
/// is silent.
fn read_lines(most: u64) -> Receiver<Input> {
    let (send, receive) = sync_channel(QUEUE);
    // Every byte of a message may be written as up to six, and some more go around it.
    let longest = most.saturating_mul(6).saturating_add(1 << 20);
    match at_hand() {
        Ok((begun, true)) if begun.split(|byte| *byte == b'\n').count() < QUEUE => {
            send_lines(begun.as_slice(), longest, &send);
        }
        Ok((begun, _)) => {
            let rest = std::io::BufReader::with_capacity(1 << 16, std::io::stdin());
            let input = std::io::Cursor::new(begun).chain(rest);
            std::thread::spawn(move || send_lines(input, longest, &send));
        }
        // The receiver waits for nothing else.
        Err(error) => drop(send.send(Input::Failed(error))),
    }
    receive
}

/// What can be read without waiting, and whether that is all: what a program has piped into us before it waits, or a short
/// file.
fn at_hand() -> std::io::Result<(Vec<u8>, bool)> {
    let stdin = std::io::stdin();
    let mut begun = Vec::new();
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    while begun.len() < AT_HAND {
        let mut asked = [PollFd::new(&stdin, PollFlags::IN)];
        if rustix::event::poll(&mut asked, Some(&now))? == 0 {
            break;
        }
        let mut part = [0; 4096];
        match rustix::io::read(&stdin, &mut part)? {
            0 => return Ok((begun, true)),
            read => begun.extend_from_slice(&part[..read]),
        }
    }
    Ok((begun, false))
}

fn send_lines(mut input: impl BufRead, longest: u64, send: &SyncSender<Input>) {
    let sum = Arc::default();
    for number in 1.. {
        let mut bytes = Vec::new();
        let next = match (&mut input).take(longest + 1).read_until(b'\n', &mut bytes) {
            Ok(0) => return,
            Ok(read) if read as u64 > longest => Input::TooLong(number),
            Ok(read) => Input::Line(Line { number, bytes, _waiting: Waiting::new(&sum, read) }),
            Err(error) => Input::Failed(error),
        };
        let is_last = !matches!(next, Input::Line(_));
        if send.send(next).is_err() || is_last {
            return;
        }
    }
}
