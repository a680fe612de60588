//! The lines at the bottom of a terminal that change: what is typed, what goes on, how things stand. What is done with goes
//! above them, and stays there as in any terminal.
//!
//! Only lines that have changed are written again, so that a slow line to the terminal carries little.

/// What stands there now. Pure: gives what has to be written.
#[derive(Debug, Default)]
pub(crate) struct Live {
    lines: Vec<String>,
    /// The line and the column of the cursor, counted from the first of the lines.
    cursor: (usize, usize),
}

const ERASE_TO_LINE_END: &str = "\x1b[K";
const ERASE_BELOW: &str = "\x1b[J";

impl Live {
    /// Shows these lines in place of those that stand there. None may be wider than the terminal.
    pub(crate) fn show(&mut self, lines: Vec<String>, cursor: (usize, usize)) -> String {
        let mut out = String::new();
        let mut row = self.cursor.0;
        let mut is_moved = false;
        let was_empty = self.lines.is_empty();
        for (at, line) in lines.iter().enumerate() {
            if self.lines.get(at) == Some(line) {
                continue;
            }
            let is_new = at >= self.lines.len();
            if is_new && at > 0 {
                move_to(&mut out, row, at - 1);
                out.push_str("\r\n");
            } else {
                move_to(&mut out, row, at);
                if !(is_new && was_empty && at == 0) {
                    out.push('\r');
                }
            }
            out.push_str(line);
            out.push_str(ERASE_TO_LINE_END);
            row = at;
            is_moved = true;
        }
        if lines.len() < self.lines.len() {
            move_to(&mut out, row, lines.len());
            out.push('\r');
            out.push_str(ERASE_BELOW);
            row = lines.len();
            is_moved = true;
        }
        if is_moved || cursor != self.cursor {
            move_to(&mut out, row, cursor.0);
            out.push('\r');
            if cursor.1 > 0 {
                out.push_str(&format!("\x1b[{}C", cursor.1));
            }
        }
        self.lines = lines;
        self.cursor = cursor;
        out
    }

    /// Puts lines above, for good, and shows the others below.
    pub(crate) fn above(
        &mut self,
        above: &[String],
        lines: Vec<String>,
        cursor: (usize, usize),
    ) -> String {
        if above.is_empty() {
            return self.show(lines, cursor);
        }
        let mut out = self.clear();
        for line in above {
            out.push_str(line);
            out.push_str("\r\n");
        }
        out + &self.show(lines, cursor)
    }

    /// Takes all of it away. The cursor stands where it began.
    pub(crate) fn clear(&mut self) -> String {
        let mut out = String::new();
        if !self.lines.is_empty() {
            move_to(&mut out, self.cursor.0, 0);
            out.push('\r');
            out.push_str(ERASE_BELOW);
        }
        *self = Self::default();
        out
    }
}

fn move_to(out: &mut String, from: usize, to: usize) {
    match from.abs_diff(to) {
        0 => (),
        up if to < from => out.push_str(&format!("\x1b[{up}A")),
        down => out.push_str(&format!("\x1b[{down}B")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.split('|').map(str::to_owned).collect()
    }

    #[test]
    fn only_what_changed_is_written() {
        let mut live = Live::default();
        assert_eq!(
            live.show(lines("> |status"), (0, 2)),
            "> \x1b[K\r\nstatus\x1b[K\x1b[1A\r\x1b[2C"
        );
        assert_eq!(live.show(lines("> |status"), (0, 2)), "");
        assert_eq!(live.show(lines("> |later"), (0, 2)), "\x1b[1B\rlater\x1b[K\x1b[1A\r\x1b[2C");
        assert_eq!(live.show(lines("> a|later"), (0, 3)), "\r> a\x1b[K\r\x1b[3C");
        assert_eq!(live.show(lines("> a|later"), (0, 2)), "\r\x1b[2C");
    }

    #[test]
    fn lines_come_and_go() {
        let mut live = Live::default();
        live.show(lines("a|b|c"), (1, 0));
        assert_eq!(live.show(lines("a"), (0, 1)), "\r\x1b[J\x1b[1A\r\x1b[1C");
        assert_eq!(live.show(lines("a|b"), (0, 1)), "\r\nb\x1b[K\x1b[1A\r\x1b[1C");
        assert_eq!(live.clear(), "\r\x1b[J");
        assert_eq!(live.clear(), "");
    }

    #[test]
    fn what_goes_above_is_written_once() {
        let mut live = Live::default();
        live.show(lines("> |status"), (0, 2));
        let out = live.above(&lines("said"), lines("> |status"), (0, 2));
        assert_eq!(out, "\r\x1b[Jsaid\r\n> \x1b[K\r\nstatus\x1b[K\x1b[1A\r\x1b[2C");
    }
}
