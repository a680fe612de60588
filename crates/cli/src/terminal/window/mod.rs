//! The window of a conversation: what was said goes up and stays, as in any terminal; below it stand what is still being
//! written, what goes on, what is typed, and how things stand. Everything that is printed while it is open goes through it.

mod draw;

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rethread_engine::Logged as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Duration;

use super::history::{self, History};
use super::keys::Key;
use super::line_editor::{Completions, LineEditor, Typed};
use super::live::Live;
use super::markdown::{Piece, Stream};
use super::styled::Line;
use super::typing::Typing;
use crate::output;

pub(crate) use self::draw::Status;

/// How often what goes on is drawn anew.
const TICK: Duration = Duration::from_millis(250);
/// Of what was said, so much is drawn again when the width changes.
const KEPT: usize = 400;

/// What a person wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    Line(String),
    /// Ctrl-C: what was typed is thrown away, or the turn is cancelled.
    Interrupted,
    /// Escape.
    Stop,
    /// Shift-Tab.
    NextMode,
    /// Ctrl-O.
    Open,
    /// Ctrl-D where nothing is typed, or the terminal is gone.
    End,
}

/// A question, and what was typed as its answer.
#[derive(Debug, Default)]
struct Question {
    options: Vec<String>,
    prompt: String,
    editor: LineEditor,
    answer: Option<tokio::sync::oneshot::Sender<Option<String>>>,
}

/// What completes what is typed.
pub(crate) type Completer = Box<dyn Fn(&str, usize) -> Completions + Send>;

struct State {
    live: Live,
    size: (usize, usize),
    is_coloured: bool,
    editor: LineEditor,
    history: Option<History>,
    completer: Completer,
    /// What was said, the last of it.
    said: VecDeque<Piece>,
    /// The answer that comes.
    stream: Stream,
    /// Tools that run.
    running: Vec<(String, Line)>,
    /// What goes on, since when.
    busy: Option<(String, Instant)>,
    queued: Vec<String>,
    question: Option<Question>,
    status: Status,
    /// Whether the last of what was said was a line of its own kind, that text after it is set off from.
    last: Kind,
    is_closed: bool,
}

/// What was shown last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Nothing,
    Note,
    Text,
    Tool,
    Plan,
    Typed,
}

/// For whoever shows something.
#[derive(Clone)]
pub(crate) struct Window {
    state: Arc<Mutex<State>>,
}

impl std::fmt::Debug for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Window")
    }
}

/// Who has it: takes the keys.
pub(crate) struct Keyboard {
    pub(crate) window: Window,
    typing: Typing,
    resized: Signal,
    /// Somebody ends the program: what was said is saved, as when its person leaves.
    ended: Signal,
    ticks: tokio::time::Interval,
}

impl Keyboard {
    /// Opens it. `history` is the file that keeps what is typed.
    pub(crate) fn open(history: &Path) -> io::Result<Self> {
        let typing = Typing::begin()?;
        let history = History::open(history).or_log("the history of what was typed cannot be read");
        let entries = history.as_ref().map(|history| history.entries().to_vec());
        let state = State {
            live: Live::default(),
            size: size(),
            is_coloured: output::is_coloured(),
            editor: LineEditor::new(entries.unwrap_or_default()),
            history,
            completer: Box::new(|_, at| (at, Vec::new())),
            said: VecDeque::new(),
            stream: Stream::default(),
            running: Vec::new(),
            busy: None,
            queued: Vec::new(),
            question: None,
            status: Status::default(),
            last: Kind::Nothing,
            is_closed: false,
        };
        let window = Window { state: Arc::new(Mutex::new(state)) };
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let resized = signal(SignalKind::window_change())?;
        let ended = signal(SignalKind::terminate())?;
        let printing = window.clone();
        output::divert(Some(Box::new(move |text| printing.print(text))));
        window.redraw();
        Ok(Self { window, typing, resized, ended, ticks })
    }

    /// Waits for what the person wants next. Nothing is lost when this is dropped before.
    pub(crate) async fn next(&mut self) -> Event {
        loop {
            let is_busy = self.window.state().busy.is_some();
            tokio::select! {
                biased;
                key = self.typing.keys.recv() => {
                    let key = key.unwrap_or(Key::Gone);
                    if key == Key::Ctrl('z') {
                        self.suspend();
                    } else if let Some(event) = self.window.state().key(key) {
                        return event;
                    }
                }
                _ = self.ended.recv() => return Event::End,
                _ = self.resized.recv() => self.window.state().resize(),
                _ = self.ticks.tick(), if is_busy => self.window.redraw(),
            }
        }
    }

    fn suspend(&mut self) {
        self.window.state().hide();
        self.typing.suspend().or_log("the program could not be stopped");
        self.window.state().resize();
    }

    /// Whether something was typed that was not sent.
    pub(crate) fn has_text(&self) -> bool {
        !self.window.state().editor.is_empty()
    }

    pub(crate) fn set_completer(&self, completer: Completer) {
        self.window.state().completer = completer;
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        output::divert(None);
        let mut state = self.window.state();
        state.end_text();
        state.hide();
        state.is_closed = true;
    }
}

impl Window {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn redraw(&self) {
        self.state().draw(&[]);
    }

    /// Lines of ours that are safe, with our own styles.
    pub(crate) fn print(&self, text: &str) {
        let mut state = self.state();
        let pieces = state.set_off(Kind::Note);
        let lines = text.trim_end_matches('\n').split('\n');
        let lines = lines.map(|line| Piece::Line(draw::own_styles(line), 0));
        state.say(pieces.into_iter().chain(lines).collect());
    }

    /// Lines of a kind: those of another kind are set off from them by an empty one.
    pub(crate) fn show(&self, kind: Kind, lines: Vec<Piece>) {
        let mut state = self.state();
        let mut pieces = state.set_off(kind);
        pieces.extend(lines);
        state.say(pieces);
    }

    /// More of the answer.
    pub(crate) fn text(&self, text: &str) {
        let mut state = self.state();
        let mut pieces =
            if state.last == Kind::Text { Vec::new() } else { state.set_off(Kind::Text) };
        pieces.extend(state.stream.take(text));
        state.say(pieces);
    }

    /// The answer is over, or something else comes between.
    pub(crate) fn end_text(&self) {
        self.state().end_text();
    }

    /// What a tool that runs looks like; nothing when it is over.
    pub(crate) fn run(&self, id: &str, line: Option<Line>) {
        let mut state = self.state();
        let place = state.running.iter().position(|(known, _)| known == id);
        match (place, line) {
            (Some(place), Some(line)) => state.running[place].1 = line,
            (Some(place), None) => {
                state.running.remove(place);
            }
            (None, Some(line)) => state.running.push((id.to_owned(), line)),
            (None, None) => return,
        }
        state.draw(&[]);
    }

    /// What goes on; nothing when it is over.
    pub(crate) fn set_busy(&self, doing: Option<&str>) {
        let mut state = self.state();
        let since = state.busy.as_ref().map_or_else(Instant::now, |(_, since)| *since);
        state.busy = doing.map(|doing| (doing.to_owned(), since));
        state.draw(&[]);
    }

    /// Lines that wait until the turn is over.
    pub(crate) fn set_queued(&self, queued: Vec<String>) {
        let mut state = self.state();
        if state.queued != queued {
            state.queued = queued;
            state.draw(&[]);
        }
    }

    pub(crate) fn set_status(&self, change: impl FnOnce(&mut Status)) {
        let mut state = self.state();
        change(&mut state.status);
        state.draw(&[]);
    }

    /// A line that was typed and is taken up now.
    pub(crate) fn typed(&self, line: &str) {
        self.show(Kind::Typed, draw::echo(line));
    }

    /// Asks the terminal to take a text to the clipboard (OSC 52).
    pub(crate) fn copy(&self, text: &str) {
        // Not in the middle of what is being drawn.
        let state = self.state();
        if !state.is_closed {
            write(&format!("\x1b]52;c;{}\x07", base64(text.as_bytes())));
        }
    }

    /// Asks, after `lines` that say what about. Gives what was typed; nothing where the turn is to be cancelled.
    pub(crate) async fn ask(&self, options: Vec<String>, prompt: &str) -> Option<String> {
        let (answer, answered) = tokio::sync::oneshot::channel();
        {
            let mut state = self.state();
            let prompt = prompt.to_owned();
            let editor = LineEditor::default();
            state.question = Some(Question { options, prompt, editor, answer: Some(answer) });
            state.draw(&[]);
        }
        let _asked = Asked(self);
        answered.await.ok().flatten()
    }
}

/// A question that stands until this is dropped, however that comes about.
struct Asked<'a>(&'a Window);

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.question = None;
        state.draw(&[]);
    }
}

impl State {
    fn key(&mut self, key: Key) -> Option<Event> {
        if self.question.is_some() {
            return self.answer(key);
        }
        let completer = std::mem::replace(&mut self.completer, Box::new(|_, at| (at, Vec::new())));
        let typed = self.editor.key(key, &completer);
        self.completer = completer;
        let event = match typed {
            Typed::Line(line) => {
                self.keep(&line);
                Some(Event::Line(line))
            }
            Typed::Interrupted => {
                if self.busy.is_none() {
                    self.editor.clear();
                }
                Some(Event::Interrupted)
            }
            Typed::End => Some(Event::End),
            Typed::Other(Key::Escape) => Some(Event::Stop),
            Typed::Other(Key::BackTab) => Some(Event::NextMode),
            Typed::Other(Key::Ctrl('o')) => Some(Event::Open),
            Typed::Other(Key::Ctrl('l')) => {
                self.repaint();
                None
            }
            Typed::Other(_) | Typed::Edited => None,
        };
        self.draw(&[]);
        event
    }

    /// A key while a question stands.
    fn answer(&mut self, key: Key) -> Option<Event> {
        let question = self.question.as_mut()?;
        let event = match question.editor.key(key, &|_, at| (at, Vec::new())) {
            Typed::Line(line) => {
                if let Some(answer) = question.answer.take() {
                    // Nobody may wait for it any more.
                    drop(answer.send(Some(line)));
                }
                None
            }
            Typed::Interrupted | Typed::Other(Key::Escape) => Some(Event::Stop),
            Typed::End => Some(Event::End),
            Typed::Other(Key::Ctrl('o')) => Some(Event::Open),
            Typed::Other(_) | Typed::Edited => None,
        };
        self.draw(&[]);
        event
    }

    /// Keeps a line in the history. If the file cannot be written the line still counts, and is known until the program ends.
    fn keep(&mut self, line: &str) {
        if line.trim().is_empty() || line.len() > history::ENTRY_BYTES {
            return;
        }
        self.editor.remember(line);
        if let Some(history) = &mut self.history
            && history.add(line)
        {
            history.save().or_log("the history of what was typed could not be written");
        }
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let all = three.iter().fold(0_u32, |all, byte| all << 8 | u32::from(*byte));
        let all = all << (8 * (3 - three.len()));
        for place in 0..4 {
            let digit = usize::try_from(all >> (18 - 6 * place) & 63).unwrap_or(0);
            out.push(if place > three.len() { '=' } else { char::from(DIGITS[digit]) });
        }
    }
    out
}

/// The columns and rows of the terminal.
fn size() -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
    let (columns, rows) = size.map_or((0, 0), |size| (size.ws_col.into(), size.ws_row.into()));
    (if columns == 0 { 80 } else { columns }, if rows == 0 { 24 } else { rows })
}

fn write(text: &str) {
    if !text.is_empty() {
        let mut out = io::stdout().lock();
        // Where the terminal is gone, its keys tell.
        drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_copied_is_encoded() {
        for (text, expected) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("ü🙂", "w7zwn5mC")]
        {
            assert_eq!(base64(text.as_bytes()), expected);
        }
    }
}
