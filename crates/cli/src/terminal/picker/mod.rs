//! The picker: a full screen to find a session and choose it.
//!
//! [`state`] decides, [`view`] draws, [`screen`] holds the terminal; here they are put together. What takes
//! long, the search in the text of sessions and the preview, waits until nobody types.

mod filter;
mod keys;
mod screen;
mod state;
mod view;

#[cfg(test)]
mod tests;

use std::io;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event};

use self::screen::Screen;
use self::state::{Outcome, State};

/// How long no key must come before something slow is done.
const QUIET: Duration = Duration::from_millis(40);

/// A session as it is listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) summary: String,
    pub(crate) status: String,
    pub(crate) kind: String,
    pub(crate) when: String,
    pub(crate) messages: u32,
    pub(crate) tokens: u64,
    pub(crate) cost: String,
    pub(crate) agents: String,
    pub(crate) project: String,
}

/// Where a session stopped: its last messages, the last one at the end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Preview {
    pub(crate) lines: Vec<String>,
}

/// Lets the user choose one of `rows`; gives its id, or `None` when the user leaves.
///
/// `find` gives the ids of the sessions whose text has the words, best first. `preview` is asked once for
/// each session that the user stays on.
pub(crate) fn pick(
    rows: Vec<Row>,
    find: impl FnMut(&str) -> Vec<String>,
    preview: impl FnMut(&str) -> Preview,
) -> io::Result<Option<String>> {
    let mut screen = Screen::open()?;
    run(State::new(rows), &mut Keyboard, |state| screen.draw(state), find, preview)
}

/// Where events come from.
trait Events {
    /// Whether one comes within `time`.
    fn waiting(&mut self, time: Duration) -> io::Result<bool>;

    /// Waits for the next one.
    fn next(&mut self) -> io::Result<Event>;
}

struct Keyboard;

impl Events for Keyboard {
    fn waiting(&mut self, time: Duration) -> io::Result<bool> {
        event::poll(time)
    }

    fn next(&mut self) -> io::Result<Event> {
        event::read()
    }
}

fn run(
    mut state: State,
    events: &mut impl Events,
    mut draw: impl FnMut(&mut State) -> io::Result<()>,
    mut find: impl FnMut(&str) -> Vec<String>,
    mut preview: impl FnMut(&str) -> Preview,
) -> io::Result<Option<String>> {
    loop {
        draw(&mut state)?;
        if state.is_waiting() && !events.waiting(QUIET)? {
            if let Some(words) = state.unsought() {
                let ids = find(&words);
                state.found(words, &ids);
            } else if let Some(id) = state.unseen() {
                let preview = preview(&id);
                state.seen(id, &preview);
            }
            continue;
        }
        match take_keys(&mut state, events)? {
            Some(Outcome::Picked(id)) => return Ok(Some(id)),
            Some(Outcome::Left) => return Ok(None),
            None => (),
        }
    }
}

/// Waits for an event, and takes all that have come with it.
fn take_keys(state: &mut State, events: &mut impl Events) -> io::Result<Option<Outcome>> {
    loop {
        let key = keys::read(&events.next()?);
        let outcome = key.and_then(|key| state.press(key));
        if outcome.is_some() || !events.waiting(Duration::ZERO)? {
            return Ok(outcome);
        }
    }
}
