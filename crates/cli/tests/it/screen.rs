//! A terminal as a person sees it: the program runs on one, and what it writes is drawn on a screen in memory.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::env::TestEnv;

/// Longer than anything may take on a busy machine.
const WATCHDOG: Duration = Duration::from_mins(1);
const ROWS: usize = 48;

/// What is drawn: rows of cells, a cursor, and the rows that went out at the top.
#[derive(Debug)]
pub(crate) struct Screen {
    columns: usize,
    rows: usize,
    cells: Vec<Vec<Cell>>,
    cursor: (usize, usize),
    style: String,
    gone: VecDeque<String>,
    /// Whether the window of a conversation is open.
    is_window: bool,
    /// What came and is no whole character or sequence.
    rest: Vec<u8>,
    pub(crate) copied: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Cell {
    text: String,
    style: String,
}

impl Cell {
    fn empty() -> Self {
        Self { text: " ".into(), style: String::new() }
    }
}

/// How many columns a character takes: enough for what the tests write.
fn wide(c: char) -> usize {
    match u32::from(c) {
        0x300..=0x36f | 0x200b..=0x200d | 0xfe00..=0xfe0f => 0,
        0x1100..=0x115f
        | 0x2e80..=0xa4cf
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xff00..=0xff60
        | 0x1f300..=0x1faff => 2,
        _ => 1,
    }
}

impl Screen {
    fn new(columns: usize, rows: usize) -> Self {
        Self {
            columns,
            rows,
            cells: vec![vec![Cell::empty(); columns]; rows],
            cursor: (0, 0),
            style: String::new(),
            gone: VecDeque::new(),
            is_window: false,
            rest: Vec::new(),
            copied: Vec::new(),
        }
    }

    /// As many terminals do: rows are cut or filled up.
    fn resize(&mut self, columns: usize, rows: usize) {
        for row in &mut self.cells {
            row.resize(columns, Cell::empty());
        }
        while self.cells.len() > rows {
            let row = self.cells.remove(0);
            self.gone.push_back(text(&row));
            self.cursor.0 = self.cursor.0.saturating_sub(1);
        }
        self.cells.resize(rows, vec![Cell::empty(); columns]);
        (self.columns, self.rows) = (columns, rows);
        self.cursor.1 = self.cursor.1.min(columns - 1);
    }

    fn take(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        loop {
            let all = std::mem::take(&mut self.rest);
            let valid = match std::str::from_utf8(&all) {
                Ok(text) => text,
                Err(error) => std::str::from_utf8(&all[..error.valid_up_to()]).unwrap(),
            };
            let used = self.step(valid);
            self.rest = all[used..].to_vec();
            if used == 0 {
                return;
            }
        }
    }

    /// Does one thing; gives how many bytes it was, none where more has to come.
    fn step(&mut self, text: &str) -> usize {
        let Some(first) = text.chars().next() else { return 0 };
        match first {
            '\u{1b}' => return self.sequence(text),
            '\r' => self.cursor.1 = 0,
            '\n' => self.line_feed(),
            '\u{7}' => (),
            c => {
                assert!(!c.is_control(), "{:?} reached the terminal", u32::from(c));
                self.put(c);
            }
        }
        first.len_utf8()
    }

    fn sequence(&mut self, text: &str) -> usize {
        if let Some(rest) = text.strip_prefix("\u{1b}]52;c;") {
            let Some(end) = rest.find('\u{7}') else { return 0 };
            self.copied.push(rest[..end].to_owned());
            return text.len() - rest.len() + end + 1;
        }
        let Some(body) = text.strip_prefix("\u{1b}[") else {
            assert!(text.len() < 2, "a sequence that is not ours: {text:?}");
            return 0;
        };
        let Some(end) = body.find(|c: char| c.is_ascii_alphabetic()) else { return 0 };
        let (arguments, last) = (&body[..end], body.as_bytes()[end]);
        let count = arguments.parse().unwrap_or(1);
        match last {
            b'A' => self.cursor.0 = self.cursor.0.saturating_sub(count),
            b'B' => self.cursor.0 = (self.cursor.0 + count).min(self.rows - 1),
            b'C' => self.cursor.1 = (self.cursor.1 + count).min(self.columns - 1),
            b'H' => self.cursor = (0, 0),
            b'K' => self.erase(self.cursor.0, self.cursor.1),
            b'J' => {
                let from = if arguments == "2" { (0, 0) } else { self.cursor };
                self.erase(from.0, from.1);
                for row in from.0 + 1..self.rows {
                    self.erase(row, 0);
                }
            }
            b'm' => {
                self.style = if arguments == "0" {
                    String::new()
                } else {
                    format!("{};{arguments}", self.style)
                }
            }
            b'h' | b'l' => {
                assert_eq!(arguments, "?2004");
                self.is_window = last == b'h';
            }
            other => panic!("a sequence that is not ours: {arguments}{}", char::from(other)),
        }
        2 + end + 1
    }

    fn erase(&mut self, row: usize, from: usize) {
        for cell in self.cells[row].iter_mut().skip(from) {
            *cell = Cell::empty();
        }
    }

    fn line_feed(&mut self) {
        if self.cursor.0 + 1 < self.rows {
            self.cursor.0 += 1;
            return;
        }
        let row = self.cells.remove(0);
        self.gone.push_back(text(&row));
        self.cells.push(vec![Cell::empty(); self.columns]);
    }

    fn put(&mut self, c: char) {
        let wide = wide(c);
        let (row, column) = self.cursor;
        if wide == 0 {
            self.cells[row][column.saturating_sub(1)].text.push(c);
            return;
        }
        if column + wide > self.columns {
            // A window breaks its lines itself; what is printed after it goes on in the next one.
            assert!(!self.is_window, "beyond the edge at {c:?}:\n{}", self.text());
            self.line_feed();
            self.cursor.1 = 0;
            return self.put(c);
        }
        self.cells[row][column] = Cell { text: c.into(), style: self.style.clone() };
        if wide == 2 {
            self.cells[row][column + 1] = Cell { text: String::new(), style: self.style.clone() };
        }
        self.cursor.1 += wide;
    }

    /// What is seen, without empty rows at the end.
    pub(crate) fn text(&self) -> String {
        let rows: Vec<String> = self.cells.iter().map(|row| text(row)).collect();
        rows.join("\n").trim_end().to_owned()
    }

    /// What is seen, and what went out at the top.
    pub(crate) fn all(&self) -> String {
        let gone: Vec<&str> = self.gone.iter().map(String::as_str).collect();
        gone.join("\n") + "\n" + &self.text()
    }

    /// What is seen, without what is said only where the machine is slow.
    pub(crate) fn steady_text(&self) -> String {
        self.text().replace("[starting ref …]\n", "")
    }

    /// Whether nothing goes on any more: the last line, how things stand, is drawn.
    pub(crate) fn is_at_rest(&self) -> bool {
        let text = self.text();
        let last = text.lines().last().unwrap_or_default();
        let is_drawn = last.starts_with("ref · ") || last.starts_with("other · ");
        is_drawn && !text.contains("Esc stops it")
    }

    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    /// The styles of the first row that has this text, where it begins.
    pub(crate) fn style_of(&self, found: &str) -> String {
        let row = self.cells.iter().find(|row| text(row).contains(found));
        let row = row.unwrap_or_else(|| panic!("no {found:?}:\n{}", self.text()));
        let at = text(row).find(found).unwrap();
        let mut before = 0;
        let cell = row.iter().find(|cell| {
            let is_here = before >= at;
            before += cell.text.len();
            is_here
        });
        cell.unwrap().style.clone()
    }
}

fn text(row: &[Cell]) -> String {
    let row: String = row.iter().map(|cell| cell.text.as_str()).collect();
    row.trim_end().to_owned()
}

/// The program on a terminal with a screen.
pub(crate) struct Seen {
    child: Child,
    terminal: OwnedFd,
    wrote: Receiver<Vec<u8>>,
    pub(crate) screen: Screen,
    /// All that was written, in the pieces in which it came.
    pub(crate) pieces: Vec<Vec<u8>>,
}

impl Seen {
    pub(crate) fn start(env: &TestEnv, args: &[&str], columns: usize) -> Self {
        Self::start_with(env, args, columns, &[("TERM", "xterm-256color")])
    }

    pub(crate) fn start_with(
        env: &TestEnv,
        args: &[&str],
        columns: usize,
        variables: &[(&str, &str)],
    ) -> Self {
        let (terminal, other) = pair(columns, ROWS);
        let mut command = env.command_by(&["setsid", "-c", "-w"], args);
        command.envs(variables.iter().copied());
        let stream = || Stdio::from(other.try_clone().unwrap());
        command.stdin(stream()).stdout(stream()).stderr(stream());
        let child = command.spawn().expect("this test needs setsid, of util-linux");
        drop((command, other));
        let (send, wrote) = channel();
        let mut reader = std::fs::File::from(terminal.try_clone().unwrap());
        std::thread::spawn(move || {
            let mut bytes = vec![0; 65_536];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                if send.send(bytes[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, terminal, wrote, screen: Screen::new(columns, ROWS), pieces: Vec::new() }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        let mut terminal = std::fs::File::from(self.terminal.try_clone().unwrap());
        terminal.write_all(keys.as_bytes()).unwrap();
    }

    /// The window of the terminal gets another width.
    pub(crate) fn resize(&mut self, columns: usize) {
        self.screen.resize(columns, self.screen.rows);
        set_size(&self.terminal, columns, self.screen.rows);
    }

    /// Takes what comes until it is so.
    #[track_caller]
    pub(crate) fn until(&mut self, what: &str, is_so: impl Fn(&Screen) -> bool) {
        let end = Instant::now() + WATCHDOG;
        while !is_so(&self.screen) {
            let left = end.saturating_duration_since(Instant::now());
            match self.wrote.recv_timeout(left) {
                Ok(bytes) => {
                    self.screen.take(&bytes);
                    self.pieces.push(bytes);
                }
                Err(why) => panic!("{what}: {why}; on the screen is\n{}", self.screen.text()),
            }
        }
    }

    #[track_caller]
    pub(crate) fn until_seen(&mut self, text: &str) {
        self.until(text, |screen| screen.text().contains(text));
    }

    #[track_caller]
    pub(crate) fn until_gone(&mut self, text: &str) {
        self.until(&format!("{text} is gone"), |screen| !screen.text().contains(text));
    }

    /// Types a line, and waits until its answer is there and nothing goes on any more.
    #[track_caller]
    pub(crate) fn say(&mut self, line: &str, answer: &str) {
        self.press(&format!("{line}\r"));
        self.until(answer, |screen| screen.text().contains(answer) && screen.is_at_rest());
    }

    /// Leaves, and waits for the end.
    #[track_caller]
    pub(crate) fn leave(mut self) -> Screen {
        self.press("\u{4}");
        while let Ok(bytes) = self.wrote.recv_timeout(WATCHDOG) {
            self.screen.take(&bytes);
        }
        assert!(self.child.wait().unwrap().success(), "{}", self.screen.text());
        std::mem::replace(&mut self.screen, Screen::new(1, 1))
    }
}

impl Drop for Seen {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Both ends of a new terminal.
fn pair(columns: usize, rows: usize) -> (OwnedFd, OwnedFd) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    set_size(&terminal, columns, rows);
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY;
    let other = rustix::fs::open(name, flags, rustix::fs::Mode::empty()).unwrap();
    (terminal, other)
}

fn set_size(terminal: &OwnedFd, columns: usize, rows: usize) {
    let number = |size: usize| u16::try_from(size).unwrap();
    let size = rustix::termios::Winsize {
        ws_row: number(rows),
        ws_col: number(columns),
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    rustix::termios::tcsetwinsize(terminal, size).unwrap();
}
