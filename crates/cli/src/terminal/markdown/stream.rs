//! Markdown that is still being written. What has ended is given for good; what has not is shown as it is so far.

use super::super::styled::Line;
use super::{Language, coloured, lines};

/// A longer block is cut, so that it is not read again and again.
const LONGEST_BLOCK: usize = 16 * 1024;

/// What is shown for good, at any width.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// A block of markdown.
    Block(String),
    /// A line within a fence, and how far it is indented.
    Code {
        line: String,
        language: Language,
        indent: usize,
    },
    /// Wrapped at words; further lines are indented so far.
    Line(Line, usize),
    Empty,
}

impl Piece {
    /// The lines of it within so many columns.
    pub(crate) fn lines(&self, columns: usize, is_coloured: bool) -> Vec<Line> {
        match self {
            Self::Block(text) => lines(text, columns, is_coloured),
            Self::Code { line, language, indent } => {
                let before = Line::plain(&" ".repeat(*indent));
                let line = coloured(line, *language);
                Line([before.0.clone(), line.0].concat()).wrapped(columns, &before)
            }
            Self::Line(line, indent) => line.wrapped(columns, &Line::plain(&" ".repeat(*indent))),
            Self::Empty => vec![Line::default()],
        }
    }
}

/// The fence that code stands in.
#[derive(Debug, Clone, Copy)]
struct Fence {
    mark: char,
    length: usize,
    language: Language,
    indent: usize,
}

/// An answer as it comes.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// What has not ended.
    block: String,
    /// What is no whole line.
    line: String,
    fence: Option<Fence>,
    /// Whether the block may go on after an empty line, as a list may.
    is_list: bool,
    has_gap: bool,
    is_begun: bool,
}

impl Stream {
    /// Takes more of it; gives what has ended.
    pub(crate) fn take(&mut self, text: &str) -> Vec<Piece> {
        let mut done = Vec::new();
        for part in text.split_inclusive('\n') {
            self.line.push_str(part);
            if part.ends_with('\n') {
                let line = std::mem::take(&mut self.line);
                self.whole_line(line.trim_end_matches(['\n', '\r']), &mut done);
            } else if self.line.len() > LONGEST_BLOCK {
                let line = std::mem::take(&mut self.line);
                self.whole_line(&line, &mut done);
            }
        }
        done
    }

    /// The end of the answer, or of a part of it: something else comes between.
    pub(crate) fn end(&mut self) -> Vec<Piece> {
        let mut done = Vec::new();
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.whole_line(&line, &mut done);
        }
        self.end_block(&mut done);
        self.fence = None;
        self.is_begun = false;
        done
    }

    /// What has not ended.
    pub(crate) fn rest(&self) -> Vec<Piece> {
        let mut rest = Vec::new();
        if let Some(fence) = self.fence {
            if !self.line.is_empty() && !fence.is_end(&self.line) {
                rest.push(fence.code(&self.line));
            }
            return rest;
        }
        let block = format!("{}{}", self.block, self.line);
        if !block.trim().is_empty() {
            if self.is_begun {
                rest.push(Piece::Empty);
            }
            rest.push(Piece::Block(block));
        }
        rest
    }

    fn whole_line(&mut self, line: &str, done: &mut Vec<Piece>) {
        if let Some(fence) = self.fence {
            if fence.is_end(line) {
                self.fence = None;
            } else {
                done.push(fence.code(line));
            }
            return;
        }
        if let Some(fence) = Fence::begun(line) {
            self.end_block(done);
            self.begin(done);
            self.fence = Some(fence);
            return;
        }
        if line.trim().is_empty() {
            if self.is_list {
                self.has_gap = true;
            } else {
                self.end_block(done);
            }
            return;
        }
        if std::mem::take(&mut self.has_gap) && self.is_list {
            if goes_on(line) {
                self.block.push('\n');
            } else {
                self.end_block(done);
            }
        }
        if self.block.is_empty() {
            self.is_list = is_item(line);
        }
        self.block.push_str(line);
        self.block.push('\n');
        let is_heading = line.starts_with('#') && self.block.lines().count() == 1;
        if is_heading || self.block.len() > LONGEST_BLOCK {
            self.end_block(done);
        }
    }

    fn begin(&mut self, done: &mut Vec<Piece>) {
        if std::mem::replace(&mut self.is_begun, true) {
            done.push(Piece::Empty);
        }
    }

    fn end_block(&mut self, done: &mut Vec<Piece>) {
        let block = std::mem::take(&mut self.block);
        (self.is_list, self.has_gap) = (false, false);
        if !block.trim().is_empty() {
            self.begin(done);
            done.push(Piece::Block(block));
        }
    }
}

/// Whether a line begins an item of a list.
fn is_item(line: &str) -> bool {
    let line = line.trim_start();
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_numbered =
        number.len() < line.len() && (number.starts_with(". ") || number.starts_with(") "));
    is_numbered || ["- ", "* ", "+ "].iter().any(|mark| line.starts_with(mark))
}

/// Whether a line after an empty one still belongs to a list.
fn goes_on(line: &str) -> bool {
    is_item(line) || line.starts_with("  ") || line.starts_with('\t')
}

impl Fence {
    fn begun(line: &str) -> Option<Self> {
        let bare = line.trim_start();
        let mark = bare.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
        let name = bare.trim_start_matches(mark);
        let length = bare.len() - name.len();
        if length < 3 || (mark == '`' && name.contains('`')) {
            return None;
        }
        let indent = (line.len() - bare.len()).min(20) + 2;
        Some(Self { mark, length, language: Language::named(name.trim()), indent })
    }

    fn is_end(&self, line: &str) -> bool {
        let bare = line.trim();
        bare.len() >= self.length && bare.chars().all(|c| c == self.mark)
    }

    fn code(&self, line: &str) -> Piece {
        // What the fence is indented by, its lines are too.
        let most = self.indent - 2;
        let cut = line.chars().take(most).take_while(|c| *c == ' ').count();
        Piece::Code { line: line[cut..].to_owned(), language: self.language, indent: self.indent }
    }
}
