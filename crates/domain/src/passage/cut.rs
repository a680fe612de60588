//! Where a text is cut into passages.

use std::ops::Range;

use crate::price::LONGEST_CUT;

/// No passage is shorter, unless the text is.
const LEAST: usize = 120;
/// From here on a passage ends where the text allows it.
const GOOD: usize = 280;
/// No passage is longer, but for a long line and a short rest that is taken along.
const MOST: usize = 400;
/// A line of so many bytes is not cut.
const LONGEST_LINE: usize = 520;

/// How well a passage may begin at a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Edge {
    /// An indented line, which belongs to what is above it.
    Inside,
    Line,
    /// An item of a list.
    Item,
    /// A paragraph, a heading, a code block, a hunk.
    Block,
}

/// The passages of a text, in order. Of a text of which a context reads only both ends, those of the ends.
pub fn cut(text: &str) -> Vec<Range<usize>> {
    let most = if text.trim_end().contains('\n') { MOST } else { LONGEST_LINE };
    if text.len() <= most {
        let whole = (!text.trim().is_empty()).then_some(0..text.len());
        return whole.into_iter().collect();
    }
    if text.len() <= 2 * LONGEST_CUT {
        return cut_part(text, 0);
    }
    let head = text.floor_char_boundary(LONGEST_CUT);
    let tail = text.ceil_char_boundary(text.len() - LONGEST_CUT);
    let mut ranges = cut_part(&text[..head], 0);
    ranges.extend(cut_part(&text[tail..], tail));
    ranges
}

fn cut_part(text: &str, offset: usize) -> Vec<Range<usize>> {
    let points = points(text);
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let Some((first, _)) = points.first() else { return ranges };
    let mut start = *first;
    let mut best: Option<(usize, Edge)> = None;
    let mut next = 1;
    loop {
        let (at, edge) = points.get(next).copied().unwrap_or((text.len(), Edge::Block));
        let length = text[start..at].trim_end().len();
        if length > MOST {
            // Too long with what comes next: it ends at the best place before that.
            let before = best.and_then(|(index, _)| points.get(index)).or(points.get(next - 1));
            let end = before.map_or(at, |point| point.0);
            let (end, index) = match best {
                Some((index, _)) => (end, index),
                None if end > start => (end, next - 1),
                None => (at, next),
            };
            ranges.push(start..start + text[start..end].trim_end().len());
            (start, next, best) = (end, index + 1, None);
            if index >= points.len() {
                break;
            }
            continue;
        }
        if next >= points.len() {
            if length > 0 {
                ranges.push(start..start + length);
            }
            break;
        }
        let is_good =
            length >= GOOD && edge >= Edge::Item || length >= GOOD * 2 / 3 && edge == Edge::Block;
        if is_good {
            ranges.push(start..start + length);
            (start, best) = (at, None);
        } else if length >= LEAST && best.is_none_or(|(_, known)| edge >= known) {
            best = Some((next, edge));
        }
        next += 1;
    }
    join_rest(&mut ranges);
    ranges.into_iter().map(|range| range.start + offset..range.end + offset).collect()
}

/// A short last passage goes with the one before it.
fn join_rest(ranges: &mut Vec<Range<usize>>) {
    if let [.., before, last] = ranges.as_mut_slice()
        && last.len() < LEAST / 2
        && last.end - before.start <= MOST + LEAST
    {
        before.end = last.end;
        ranges.pop();
    }
}

/// The places where a passage may begin.
fn points(text: &str) -> Vec<(usize, Edge)> {
    let mut points = Vec::new();
    let (mut at, mut after_blank, mut in_code) = (0, true, false);
    for line in text.split_inclusive('\n') {
        let is_blank = line.trim().is_empty();
        if !is_blank {
            let is_fence = line.trim_start().starts_with("```");
            points.push((at, edge(line, after_blank, in_code)));
            in_code ^= is_fence;
            points.extend(inside(line).into_iter().map(|inner| (at + inner, Edge::Line)));
        }
        after_blank = is_blank;
        at += line.len();
    }
    points
}

fn edge(line: &str, after_blank: bool, in_code: bool) -> Edge {
    let text = line.trim_start();
    if text.starts_with("@@ ") || text.starts_with("diff --git ") {
        return Edge::Block;
    }
    if in_code {
        // A blank line inside of a code block is no better than an item: better to keep the block together.
        return match (after_blank, line.len() == text.len()) {
            (true, _) => Edge::Item,
            (false, true) => Edge::Line,
            (false, false) => Edge::Inside,
        };
    }
    if after_blank || text.starts_with('#') || text.starts_with("```") {
        return Edge::Block;
    }
    let marker = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_numbered = (1..4).contains(&(text.len() - marker.len()))
        && (marker.starts_with(". ") || marker.starts_with(") "));
    if is_numbered || ["- ", "* ", "+ ", "• "].iter().any(|sign| text.starts_with(sign)) {
        Edge::Item
    } else if line.len() == text.len() {
        Edge::Line
    } else {
        Edge::Inside
    }
}

/// Where a line that is too long for a passage may be cut: after sentences, or words.
fn inside(line: &str) -> Vec<usize> {
    let mut places = Vec::new();
    let mut from = 0;
    while line.len() - from > LONGEST_LINE {
        let part = &line[from..line.floor_char_boundary(from + GOOD)];
        let half = part.ceil_char_boundary(part.len() / 2);
        let after = |sign: &str| part[half..].rfind(sign).map(|at| half + at + sign.len());
        let length = [". ", "; ", ", ", " "].into_iter().find_map(after).unwrap_or(part.len());
        from += length;
        places.push(from);
    }
    places
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parts(text: &str) -> Vec<&str> {
        cut(text).into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn a_short_text_is_one_passage() {
        assert_eq!(parts("Fix it.\n"), ["Fix it.\n"]);
        assert!(parts("\n \n").is_empty());
    }

    #[test]
    fn paragraphs_headings_and_hunks_begin_passages() {
        let body = "Some words about it, and a few more of them.\n".repeat(5);
        for start in ["\nA paragraph.\n", "## A heading\n", "@@ -1,3 +1,4 @@\n", "```\ncode\n"] {
            let text = format!("{body}{start}{body}");
            let parts = parts(&text);
            assert_eq!(parts.len(), 2, "{parts:?}");
            assert!(parts[1].starts_with(start.trim_start()), "{parts:?}");
        }
    }

    #[test]
    fn items_of_a_list_stay_whole() {
        let text = "- an item of the list\n  that goes on in a second line\n".repeat(30);
        assert!(parts(&text).iter().all(|part| part.starts_with("- an item")));
    }

    #[test]
    fn a_long_line_is_cut_after_sentences_or_words() {
        let text = "The build took a while. ".repeat(100);
        assert!(parts(&text).iter().all(|part| part.starts_with("The build")));
        assert_eq!(parts(&"x".repeat(5_000)).concat().len(), 5_000);
    }

    #[test]
    fn of_a_very_long_text_the_ends_are_cut() {
        let text = "A line of the log.\n".repeat(5_000);
        let ranges = cut(&text);
        let middle = LONGEST_CUT..text.len() - LONGEST_CUT;
        assert!(ranges.iter().all(|range| range.end <= middle.start || range.start >= middle.end));
        assert!(ranges.first().is_some_and(|first| first.start == 0));
        assert!(ranges.last().is_some_and(|last| last.end + 1 == text.len()));
    }

    proptest! {
        #[test]
        fn passages_are_whole_and_leave_only_white_space_out(
            lines in prop::collection::vec("[ a-z#`@é\\-\n]{0,300}", 0..30),
        ) {
            let text = lines.join("\n");
            let ranges = cut(&text);
            let mut end = 0;
            for range in &ranges {
                prop_assert!(range.start >= end && range.start < range.end);
                prop_assert!(text[end..range.start].trim().is_empty());
                prop_assert!(ranges.len() == 1 || range.len() <= LONGEST_LINE + LEAST);
                end = range.end;
            }
            prop_assert!(text[end..].trim().is_empty());
        }
    }
}
