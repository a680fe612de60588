//! The picker, from keys to screen.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt::Debug;
use std::io::Write;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::super::pty;
use super::*;

fn rows() -> Vec<Row> {
    let row = |id: &str, title: &str, summary: &str, status: &str, when: &str, messages| Row {
        id: id.to_owned(),
        title: title.to_owned(),
        summary: summary.to_owned(),
        status: status.to_owned(),
        kind: "recorded".to_owned(),
        when: when.to_owned(),
        messages,
        tokens: u64::from(messages) * 1234,
        cost: "$0.42".to_owned(),
        agents: "claude".to_owned(),
        project: "shop".to_owned(),
    };
    vec![
        row("1", "Fix the login page", "the cookie had no path", "active", "2 min ago", 12),
        row("2", "Release notes", "version two", "paused", "3 h ago", 140),
        row("3", "Größe der Tabelle 日本語", "", "completed", "2 weeks ago", 1),
    ]
}

fn preview(id: &str) -> Preview {
    // One word is drawn in one go: the tests on a terminal wait for it.
    let lines = ["user: where is it?", "agent: in the\n\tcookie", "user: carry-on with"];
    Preview { lines: lines.iter().map(|&line| line.to_owned()).chain([id.to_owned()]).collect() }
}

/// The screen after everything slow was done.
fn screen(mut state: State, width: u16, height: u16) -> Terminal<TestBackend> {
    if let Some(words) = state.unsought() {
        state.found(words, &["2".to_owned()]);
    }
    if let Some(id) = state.unseen() {
        state.seen(id.clone(), &preview(&id));
    }
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| view::render(frame, &mut state)).unwrap();
    terminal
}

/// Compares the text of the whole screen; each line without the spaces at its end.
#[track_caller]
fn check(state: State, (width, height): (u16, u16), expected: &str) {
    let terminal = screen(state, width, height);
    let buffer = terminal.backend().buffer();
    let lines: Vec<String> = buffer
        .content()
        .chunks(width.into())
        .map(|cells| {
            let mut line = String::new();
            let mut covered = 0;
            for cell in cells {
                if covered == 0 {
                    line.push_str(cell.symbol());
                    covered = super::super::text::width(cell.symbol());
                }
                covered = covered.saturating_sub(1);
            }
            line.trim_end().to_owned()
        })
        .collect();
    let expected: Vec<&str> = expected.trim_matches('\n').lines().map(str::trim_end).collect();
    assert_eq!(lines, expected, "\n{}\n", lines.join("\n"));
}

fn typed(text: &str) -> State {
    let mut state = State::new(rows());
    state.press(keys::Key::Type(text.to_owned()));
    state
}

#[test]
fn wide() {
    check(
        State::new(rows()),
        (110, 14),
        "
3 sessions
>
› Fix the login page  the cook…   12  active     2 min ago   │ Fix the login page
  Release notes  version two     140  paused     3 h ago     │ active · recorded · 2 min ago
  Größe der Tabelle 日本語         1  completed  2 weeks ago │ 12 messages · 14,808 tokens · $0.42
                                                             │ claude · shop
                                                             │ the cookie had no path
                                                             │
                                                             │ user: where is it?
                                                             │ agent: in the
                                                             │     cookie
                                                             │ user: carry-on with
                                                             │ 1
Enter choose  Esc leave  ↑↓ move  PgUp/PgDn page  Ctrl-U clear
",
    );
}

#[test]
fn narrow() {
    check(
        State::new(rows()),
        (70, 16),
        "
3 sessions
>
› Fix the login page  the cookie had no …   12  active     2 min ago
  Release notes  version two               140  paused     3 h ago
  Größe der Tabelle 日本語                   1  completed  2 weeks ago




──────────────────────────────────────────────────────────────────────
active · 2 min ago · 12 messages · 14,808 tokens · $0.42 · claude
…
    cookie
user: carry-on with
1
Enter choose  Esc leave  ↑↓ move  PgUp/PgDn page  Ctrl-U clear
",
    );
}

#[test]
fn small() {
    check(
        State::new(rows()),
        (40, 10),
        "
3 sessions
>
› Fix the login page         2 min ago
  Release notes  version t…  3 h ago
  Größe der Tabelle 日本語   2 weeks ago

────────────────────────────────────────
active · 2 min ago · 12 messages · 14,8…
1
Enter choose  Esc leave  ↑↓ move
",
    );
}

#[test]
fn filtered() {
    check(
        typed("login"),
        (60, 12),
        "
2 of 3 sessions · 1 by text
> login
› Fix the login page  the cookie ha…   12  active  2 min ago
  Release notes  version two          140  paused  3 h ago



────────────────────────────────────────────────────────────
active · 2 min ago · 12 messages · 14,808 tokens · $0.42 · …
user: carry-on with
1
Enter choose  Esc leave  ↑↓ move  PgUp/PgDn page
",
    );
}

#[test]
fn nothing_fits() {
    let mut state = typed("zebra");
    state.found("zebra".to_owned(), &[]);
    check(
        state,
        (40, 8),
        "
0 of 3 sessions
> zebra
  No session fits these words.




Enter choose  Esc leave  ↑↓ move
",
    );
}

#[test]
fn no_sessions() {
    check(
        State::new(Vec::new()),
        (40, 8),
        "
0 sessions
>
  There are no sessions yet.




Enter choose  Esc leave  ↑↓ move
",
    );
}

#[test]
fn the_selected_line_is_reversed_and_the_cursor_is_where_one_types() {
    let mut state = typed("log");
    state.found("log".to_owned(), &["2".to_owned()]);
    state.press(keys::Key::Down);
    let mut terminal = screen(state, 60, 12);
    let buffer = terminal.backend().buffer();
    let reversed =
        |x: u16, y: u16| buffer[(x, y)].modifier.contains(ratatui::style::Modifier::REVERSED);
    assert!((0..60).all(|x| reversed(x, 3)));
    assert!((0..12).filter(|y| *y != 3).all(|y| (0..60).all(|x| !reversed(x, y))));
    terminal.backend_mut().assert_cursor_position((5, 1));
}

#[test]
fn no_size_is_too_small_or_too_large() {
    let hostile = Row {
        title: "👩‍👩‍👧\u{1b}[2J\u{202e}日本".repeat(40),
        summary: "a\u{300}\u{301}".repeat(500),
        when: "日本".repeat(30),
        status: "\u{0}".repeat(30),
        ..Row::default()
    };
    for width in (0..30).chain([39, 40, 41, 99, 100, 101, 200, 300]) {
        for height in (0..12).chain([24, 60, 100]) {
            let rows = [vec![hostile.clone()], rows(), vec![hostile.clone(); 4]].concat();
            for text in ["", "a", &"long ".repeat(50)] {
                let mut state = State::new(rows.clone());
                state.press(keys::Key::Type(text.to_owned()));
                let terminal = screen(state, width, height);
                let cells = terminal.backend().buffer().content();
                let unsafe_ones = cells.iter().flat_map(|cell| cell.symbol().chars());
                assert!(!unsafe_ones.into_iter().any(super::super::text::is_unsafe));
            }
        }
    }
}

/// Events that come in bursts: within one, the next is waiting.
struct Script(VecDeque<Vec<Event>>);

impl Events for Script {
    fn waiting(&mut self, time: Duration) -> io::Result<bool> {
        if self.0.front().is_some_and(Vec::is_empty) && time.is_zero() {
            self.0.pop_front();
            return Ok(false);
        }
        Ok(self.0.front().is_some_and(|burst| !burst.is_empty()) && time.is_zero())
    }

    fn next(&mut self) -> io::Result<Event> {
        let burst = self.0.front_mut().ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(burst.remove(0))
    }
}

fn press(code: KeyCode) -> Event {
    Event::Key(KeyEvent::new(code, KeyModifiers::NONE))
}

/// Plays bursts of keys; gives the outcome and what was asked, in order.
fn play(bursts: &[&[KeyCode]]) -> (Result<Option<String>, String>, Vec<String>) {
    let events = bursts.iter().map(|burst| burst.iter().copied().map(press).collect());
    let asked = RefCell::new(Vec::new());
    let outcome = run(
        State::new(rows()),
        &mut Script(events.collect()),
        |state| {
            state.fit(10);
            Ok(())
        },
        |words| {
            asked.borrow_mut().push(format!("find {words}"));
            vec!["3".to_owned()]
        },
        |id| {
            asked.borrow_mut().push(format!("preview {id}"));
            preview(id)
        },
    );
    (outcome.map_err(|error| error.kind().to_string()), asked.into_inner())
}

fn check_play(bursts: &[&[KeyCode]], expected: Option<&str>, asked: &[&str]) {
    let (outcome, questions) = play(bursts);
    assert_eq!(
        (outcome, questions),
        (Ok(expected.map(str::to_owned)), asked.iter().map(|&q| q.to_owned()).collect())
    );
}

#[test]
fn nothing_slow_is_done_while_keys_are_waiting() {
    use KeyCode::{Char, Down, Enter, Esc};
    check_play(&[&[Esc]], None, &["preview 1"]);
    check_play(&[&[Down, Down, Down], &[Enter]], Some("3"), &["preview 1", "preview 3"]);
    let (n, o) = (Char('n'), Char('o'));
    check_play(
        &[&[n, o], &[Char(' ')], &[Down], &[Down], &[Enter]],
        Some("3"),
        &["preview 1", "find no", "preview 2", "preview 3"],
    );
}

#[test]
fn an_error_of_the_terminal_ends_it() {
    assert_eq!(play(&[]).0, Err("unexpected end of file".to_owned()));
}

fn say(what: impl Debug) {
    drop(writeln!(io::stdout(), "<{what:?}>"));
}

/// Says what was picked.
#[test]
#[ignore = "a scene that other tests play"]
fn scene() {
    if pty::is_scene() {
        say(pick(rows(), |_| vec!["2".to_owned()], preview).map_err(|error| error.to_string()));
    }
}

#[test]
#[ignore = "a scene that other tests play"]
fn scene_of_a_panic() {
    if pty::is_scene() {
        drop(pick(rows(), |_| panic!("on purpose"), preview));
    }
}

/// The program ends when it panics, without undoing anything.
#[test]
#[ignore = "a scene that other tests play"]
fn scene_of_an_end() {
    if pty::is_scene() {
        std::panic::set_hook(Box::new(|_| {
            say("it broke");
            std::process::exit(1);
        }));
        drop(pick(rows(), |_| panic!("on purpose"), preview));
    }
}

/// Plays a scene: waits for each text, then types the keys.
fn check_scene(name: &str, steps: &[(&str, &str)], expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let mut session = pty::play(module_path!(), name, folder.path());
    pty::wait_for(&mut session, "\u{1b}[?1049h");
    for (text, keys) in steps {
        pty::answer(&mut session, text, keys);
    }
    pty::wait_for(&mut session, "\u{1b}[?1049l");
    pty::wait_for(&mut session, expected);
    let rest = pty::finish(session);
    assert!(!rest.contains("\u{1b}[?1049l"), "left twice: {rest:?}");
}

#[test]
fn a_session_is_picked_on_a_terminal() {
    check_scene("scene", &[("carry-on", "\r")], "<Ok(Some(\"1\"))>");
    check_scene("scene", &[("carry-on", "\u{1b}[B\u{e}\r")], "<Ok(Some(\"3\"))>");
    check_scene("scene", &[("carry-on", "Tabel"), ("1 by text", "\r")], "<Ok(Some(\"3\"))>");
    let steps = [("carry-on", "\u{1b}[200~zebra\r\u{1b}[201~"), ("1 by text", "\r")];
    check_scene("scene", &steps, "<Ok(Some(\"2\"))>");
}

#[test]
fn one_can_leave_without_picking() {
    check_scene("scene", &[("carry-on", "\u{3}")], "<Ok(None)>");
    check_scene("scene", &[("carry-on", "\u{1b}")], "<Ok(None)>");
}

#[test]
fn a_panic_leaves_the_terminal_as_it_was() {
    check_scene("scene_of_a_panic", &[("carry-on", "x")], "on purpose");
    check_scene("scene_of_an_end", &[("carry-on", "x")], "<\"it broke\">");
}

#[test]
fn without_a_terminal_there_is_an_error() {
    let (_, module) = module_path!().split_once("::").unwrap();
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args([&format!("{module}::scene"), "--exact", "--ignored", "--nocapture"]);
    let output = command.env(pty::VARIABLE, "1").output().unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    assert!(output.contains("<Err(\"choosing from a list needs a terminal\")>"), "{output}");
}
