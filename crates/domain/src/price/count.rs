//! Counting a text and its quotation together.
//!
//! A quotation has the lines of the text with `> ` before them. Its tokens are those of its lines: a line of it ends with
//! a line end, and the next begins with `>`, where the tokenizer always cuts. Inside of a line, both are cut at the same
//! places as soon as they were once; so most pieces are counted once for the text, its quotation and all its parts.

use std::ops::Range;

use rethread_tokens::Counter;

/// A text whose quotation has its lines as they stand, counted.
pub(super) struct Counted<'a> {
    text: &'a str,
    counter: Counter,
    /// The tokens of the text itself, up to `at`.
    tokens: usize,
    at: usize,
    /// Where lines begin, and what those before it cost in a quotation.
    lines: Vec<(usize, usize)>,
    /// What the whole quotation costs.
    quoted: usize,
    /// A line as it stands in a quotation, without the sign before it.
    line: String,
}

impl<'a> Counted<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        let mut counted = Self {
            text,
            counter: Counter::new(),
            tokens: 0,
            at: 0,
            lines: Vec::new(),
            quoted: 0,
            line: String::new(),
        };
        let mut start = 0;
        loop {
            counted.lines.push((start, counted.quoted));
            let end = text[start..].find('\n').map(|length| start + length);
            counted.quoted += counted.add(start..end.unwrap_or(text.len()), end.is_none());
            match end {
                Some(end) => start = end + 1,
                None => break,
            }
        }
        while counted.step() {}
        counted
    }

    /// Tokens of the text itself.
    pub(super) fn tokens(&self) -> u32 {
        limited(self.tokens)
    }

    /// Tokens of the text as a quotation.
    pub(super) fn quoted(&self) -> u32 {
        limited(self.quoted)
    }

    /// Tokens of a quotation of its beginning or of its end.
    pub(super) fn part(&mut self, part: Range<usize>) -> u32 {
        let line_of = |at: usize| self.lines.partition_point(|(start, _)| *start <= at) - 1;
        let cost = if part.start == 0 {
            let (start, before) = self.lines[line_of(part.end)];
            before + self.alone(start..part.end, true)
        } else {
            match self.lines.get(line_of(part.start) + 1).copied() {
                Some((next, before)) => {
                    self.alone(part.start..next - 1, false) + self.quoted - before
                }
                None => self.alone(part, true),
            }
        };
        limited(cost)
    }

    /// Counts the next piece of the text itself; gives whether there was one.
    fn step(&mut self) -> bool {
        let Some((length, tokens)) = self.counter.first(&self.text[self.at..]) else {
            return false;
        };
        self.at += length;
        self.tokens += tokens;
        true
    }

    /// Counts a line as it stands in a quotation, and the text itself along with it.
    fn add(&mut self, line: Range<usize>, is_last: bool) -> usize {
        if line.is_empty() {
            return self.alone(line, is_last);
        }
        let mut cost = self.begin(&line, is_last);
        // The place in the line of the quotation, which has a space before that of the text.
        let mut place = 0;
        while place < self.line.len() {
            let here = line.start + place;
            // What both have stands one byte further on in the quotation.
            let is_text_behind = place > 0 && self.at + 1 < here && here <= line.end;
            if is_text_behind && self.step() {
                continue;
            }
            let Some((length, tokens)) = self.counter.first(&self.line[place..]) else { break };
            // A piece that ends before the line does is the same in the text.
            if place > 0 && self.at + 1 == here && here + length <= line.end {
                self.at += length;
                self.tokens += tokens;
            }
            cost += tokens;
            place += length;
        }
        cost
    }

    /// What a line costs in a quotation.
    fn alone(&mut self, line: Range<usize>, is_last: bool) -> usize {
        if line.is_empty() {
            return self.counter.count(if is_last { ">\n\n" } else { ">\n" });
        }
        let sign = self.begin(&line, is_last);
        sign + self.counter.count(&self.line)
    }

    /// Puts a line down as it stands in a quotation, after its sign; gives what the sign costs.
    fn begin(&mut self, line: &Range<usize>, is_last: bool) -> usize {
        self.line.clear();
        self.line.push(' ');
        self.line.push_str(&self.text[line.clone()]);
        self.line.push_str(if is_last { "\n\n" } else { "\n" });
        1
    }
}

fn limited(tokens: usize) -> u32 {
    u32::try_from(tokens).unwrap_or(u32::MAX)
}
