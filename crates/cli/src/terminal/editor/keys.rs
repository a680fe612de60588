//! What keys do beyond plain editing: several lines, completion, and showing what is typed safely.

use std::borrow::Cow;

use rustyline::completion::Completer;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::Validator;
use rustyline::{
    Cmd, ConditionalEventHandler, Context, Event, EventContext, EventHandler, KeyCode, KeyEvent,
    Modifiers, RepeatCount,
};

use super::super::text;
use super::Handle;

/// What the line editor asks while a line is typed.
pub(super) struct Helper {
    commands: Vec<String>,
    /// Told what is on the line.
    handle: Handle,
}

impl Helper {
    pub(super) fn new(commands: &[&str], handle: Handle) -> Self {
        let mut commands: Vec<String> = commands.iter().map(|&name| name.to_owned()).collect();
        commands.sort();
        Self { commands, handle }
    }

    /// The commands that what stands before the cursor can become.
    fn fitting(&self, line: &str, pos: usize) -> Vec<String> {
        let typed = line.get(..pos).unwrap_or_default();
        if !typed.starts_with('/') {
            return Vec::new();
        }
        self.commands.iter().filter(|command| command.starts_with(typed)).cloned().collect()
    }
}

impl rustyline::Helper for Helper {}

impl Hinter for Helper {
    type Hint = String;
}

impl Validator for Helper {}

impl Completer for Helper {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        _context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        if ends_in_backslash(line, pos) {
            return Ok((pos - 1, vec!["\n".to_owned()]));
        }
        Ok((0, self.fitting(line, pos)))
    }
}

impl Highlighter for Helper {
    /// Pasted text and old lines can hold anything: every character that is not safe becomes another one,
    /// only on the screen.
    fn highlight<'l>(&self, line: &'l str, _pos: usize) -> Cow<'l, str> {
        self.handle.has(line);
        if line.chars().any(text::is_unsafe) {
            Cow::Owned(line.chars().map(shown).collect())
        } else {
            Cow::Borrowed(line)
        }
    }

    /// Asked at every change that needs no new drawing.
    fn highlight_char(&self, line: &str, _pos: usize, _kind: CmdKind) -> bool {
        self.handle.has(line);
        line.chars().any(text::is_unsafe)
    }
}

/// The picture of a control character, or a mark for what else is not safe.
fn shown(c: char) -> char {
    match u32::from(c) {
        _ if !text::is_unsafe(c) => c,
        code @ 0..=0x1f => char::from_u32(0x2400 + code).unwrap_or('\u{fffd}'),
        _ => '\u{fffd}',
    }
}

/// Binds the keys that begin another line.
pub(super) fn bind(editor: &mut rustyline::Editor<Helper, MemHistory>) {
    let alt_enter = KeyEvent(KeyCode::Enter, Modifiers::ALT);
    editor.bind_sequence(alt_enter, EventHandler::Simple(Cmd::Newline));
    let enter = KeyEvent(KeyCode::Enter, Modifiers::NONE);
    editor.bind_sequence(enter, EventHandler::Conditional(Box::new(AfterBackslash)));
}

/// Enter after a backslash at the end puts a line end in its place. Of the editor's commands, completion is the one
/// that replaces what is before the cursor and goes on after it.
struct AfterBackslash;

impl ConditionalEventHandler for AfterBackslash {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext) -> Option<Cmd> {
        ends_in_backslash(context.line(), context.pos()).then_some(Cmd::Complete)
    }
}

/// Whether the cursor is at the end, after one backslash. Two stand for themselves.
fn ends_in_backslash(line: &str, pos: usize) -> bool {
    pos == line.len() && line.ends_with('\\') && !line.ends_with("\\\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_completed_at_the_start_only() {
        let helper = Helper::new(&["/quit", "/handoff", "/help"], Handle::default());
        let check = |line: &str, expected: &[&str]| {
            assert_eq!(helper.fitting(line, line.len()), expected, "{line}");
        };
        check("/", &["/handoff", "/help", "/quit"]);
        check("/h", &["/handoff", "/help"]);
        check("/quit", &["/quit"]);
        check("/x", &[]);
        check("", &[]);
        check("say /h", &[]);
        check("/help me", &[]);
    }

    #[test]
    fn what_is_not_safe_is_shown_as_something_else() {
        let helper = Helper::new(&[], Handle::default());
        assert_eq!(helper.highlight("a\u{1b}[2J\u{202e}b\n\tc", 0), "a␛[2J\u{fffd}b\n\tc");
        assert!(matches!(helper.highlight("Grüße", 0), Cow::Borrowed("Grüße")));
    }
}
