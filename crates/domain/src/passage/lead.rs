//! The line above a passage that says what it belongs to: which file or command, which heading.

use std::ops::Range;

use crate::message::Role;

/// No more bytes of a line than this are shown above a passage.
const MOST: usize = 96;
/// How far above a passage its heading is looked for.
const REACH: usize = 2_400;
/// A line that introduces what follows is no longer than this.
const LONGEST_INTRODUCTION: usize = 160;

/// Where the line is that a passage needs above it; nothing where it begins with one, or there is none.
pub(super) fn of(role: Role, text: &str, passage: &Range<usize>) -> Option<Range<usize>> {
    if text[..passage.start].trim().is_empty() {
        return None;
    }
    if role == Role::Tool {
        // What a tool printed is headed by what was run or read.
        let start = text.len() - text.trim_start().len();
        let line = text[start..].lines().next().unwrap_or_default();
        return Some(shortened(text, start..start + line.len()));
    }
    let first = text[passage.clone()].lines().next().unwrap_or_default();
    if is_heading(first.trim()) {
        return None;
    }
    let reach = text.ceil_char_boundary(passage.start.saturating_sub(REACH));
    let mut end = passage.start;
    for line in text[reach..passage.start].split_inclusive('\n').rev() {
        let start = end - line.len();
        let told = line.trim();
        // The first line within reach may be a part of one.
        let is_whole = start > reach || reach == 0;
        if is_whole && (is_heading(told) || is_introduction(told)) {
            let start = start + (line.len() - line.trim_start().len());
            return Some(shortened(text, start..start + told.len()));
        }
        end = start;
    }
    None
}

fn is_heading(line: &str) -> bool {
    let is_bold = line.strip_prefix("**").is_some_and(|rest| {
        let rest = rest.trim_end_matches([':', '.', ' ']);
        rest.strip_suffix("**").is_some_and(|inner| !inner.is_empty() && !inner.contains("**"))
    });
    is_bold || line.starts_with('#') && line.trim_start_matches('#').starts_with(' ')
}

/// A line that ends with a colon says what the lines after it are.
fn is_introduction(line: &str) -> bool {
    let line = line.trim_end_matches('*');
    let first = line.split(' ').next().unwrap_or_default();
    line.ends_with([':', '：'])
        && (8..=LONGEST_INTRODUCTION).contains(&line.len())
        && !line.ends_with("):")
        && !CODE.contains(&first)
}

/// What a line of code begins with that ends with a colon as well.
const CODE: &[&str] = &[
    "//", "#", "if", "elif", "for", "while", "with", "def", "class", "except", "case", "async",
    "return",
];

/// The beginning of a line that is too long, up to a word.
fn shortened(text: &str, line: Range<usize>) -> Range<usize> {
    if line.len() <= MOST {
        return line;
    }
    let end = text.floor_char_boundary(line.start + MOST);
    let part = &text[line.start..end];
    let near = part.ceil_char_boundary(part.len() / 2);
    let end = part[near..].rfind(' ').map_or(end, |at| line.start + near + at);
    line.start..end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passage::cut;

    fn leads(role: Role, text: &str) -> Vec<Option<&str>> {
        cut(text).iter().map(|range| of(role, text, range).map(|lead| &text[lead])).collect()
    }

    #[test]
    fn what_a_tool_printed_is_headed_by_what_was_run() {
        let text = format!("$ cargo test\n\n{}", "a line that was printed\n".repeat(40));
        let leads = leads(Role::Tool, &text);
        assert!(leads.len() > 2 && leads[0].is_none(), "{leads:?}");
        assert!(leads[1..].iter().all(|lead| *lead == Some("$ cargo test")), "{leads:?}");
    }

    #[test]
    fn a_heading_or_an_introduction_heads_what_follows() {
        let body = "Some words about it, and a few more of them.\n".repeat(20);
        for head in ["## The plan", "**The plan**", "**The plan:**", "This is the plan:"] {
            let text = format!("{head}\n\n{body}");
            let leads = leads(Role::Assistant, &text);
            assert!(leads.len() > 1 && leads[0].is_none(), "{leads:?}");
            assert!(leads[1..].iter().all(|lead| *lead == Some(head)), "{leads:?}");
        }
        assert!(leads(Role::Assistant, &body).iter().all(Option::is_none));
    }

    #[test]
    fn a_passage_that_begins_with_a_heading_has_none_above_it() {
        let body = "Some words about it, and a few more of them.\n".repeat(6);
        let text = format!("## One\n\n{body}\n## Two\n\n{body}");
        assert_eq!(leads(Role::User, &text), [None, None]);
    }

    #[test]
    fn a_long_line_is_shown_up_to_a_word() {
        let line = "ünïcödé words ".repeat(40);
        let text = format!("{line}\n\n{}", "printed\n".repeat(100));
        let leads = leads(Role::Tool, &text);
        let lead = leads[leads.len() - 1].unwrap();
        assert!(lead.len() <= MOST && line.starts_with(lead) && lead.ends_with(['é', 's']));
    }
}
