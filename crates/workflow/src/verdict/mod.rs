//! What a check gave: red or green, and which tests fail, read from what the tool printed.

mod names;
#[cfg(test)]
mod tests;

use super::record::{Phase, TestState};
use names::Names;

/// The most failing tests that are named.
pub const MOST_NAMES: usize = 200;
/// The most that is kept of the output, in bytes.
pub const MOST_OUTPUT: usize = 4_000;
/// How much of the raw output is looked at for what is kept: escapes are taken out of it.
const WINDOW: usize = 16 * MOST_OUTPUT;

/// Reads the output of a check that ended with this code; `None` where it was killed.
pub fn read(output: &str, code: Option<i32>, command: &str) -> TestState {
    let names = Names::of(output, code, command);
    let phase = match code {
        _ if !names.failing.is_empty() => Phase::Red,
        Some(0) => Phase::Green,
        Some(_) => Phase::Red,
        None => Phase::Unknown,
    };
    TestState {
        phase,
        failing: names.failing,
        command: Some(command.to_owned()),
        output: kept(output, names.summary),
        ..TestState::default()
    }
}

/// The end of the output; where the summary of failures begins before it, the summary.
fn kept(output: &str, summary: Option<usize>) -> String {
    let from = output.floor_char_boundary(output.len().saturating_sub(WINDOW));
    let end = plain(output.get(from..).unwrap_or_default());
    let end = last_lines(end.trim_end());
    let Some(summary) = summary.and_then(|at| output.get(at..)) else { return end.to_owned() };
    let until = summary.floor_char_boundary(WINDOW);
    let head = plain(summary.get(..until).unwrap_or_default());
    let is_in_end = until == summary.len() && head.trim_end().len() <= MOST_OUTPUT;
    if is_in_end { end.to_owned() } else { first_lines(head.trim_end()).to_owned() }
}

/// As many lines of the end as are kept.
fn last_lines(text: &str) -> &str {
    if text.len() <= MOST_OUTPUT {
        return text;
    }
    let from = text.ceil_char_boundary(text.len() - MOST_OUTPUT);
    let cut = text.get(from..).unwrap_or_default();
    let at_line = cut.split_once('\n').map_or("", |(_, rest)| rest);
    if text[..from].ends_with('\n') || at_line.trim().is_empty() { cut } else { at_line }
}

/// As many lines of the beginning as are kept.
fn first_lines(text: &str) -> &str {
    if text.len() <= MOST_OUTPUT {
        return text;
    }
    let cut = text.get(..text.floor_char_boundary(MOST_OUTPUT)).unwrap_or_default();
    cut.rsplit_once('\n').map_or(cut, |(lines, _)| lines)
}

/// Without escapes for a terminal.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let mut rest = line;
        while let Some((before, after)) = rest.split_once('\u{1b}') {
            out.push_str(before);
            rest = after_escape(after);
        }
        out.push_str(rest);
    }
    out.replace("\r\n", "\n")
}

/// What follows an escape; one that has no end takes no more than its mark.
fn after_escape(text: &str) -> &str {
    let mut chars = text.chars();
    let end = match chars.next() {
        Some('[') => {
            let is_part = |c: &char| matches!(c, ' '..='?');
            let parts = chars.as_str().chars().take_while(is_part).count();
            Some(parts + 2).filter(|end| *end <= 64)
        }
        Some(']') => {
            let end = text.bytes().take(1_024).position(|byte| byte == 7 || byte == 0x1b);
            end.map(|end| end + if text[end..].starts_with("\u{1b}\\") { 2 } else { 1 })
        }
        Some(c) => Some(c.len_utf8()),
        None => None,
    };
    end.and_then(|end| text.get(end..)).unwrap_or(text)
}
