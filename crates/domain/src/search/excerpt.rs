//! The text around a find, as it is shown.

use std::ops::Range;

use super::Query;
use crate::mask;
use crate::terms::{self, Firsts};

/// About `width` characters around the densest finds, on one line, each find between `**`. The words of a mask were not
/// said by anybody: they are shown where nothing else was found, but never marked.
pub fn excerpt(query: &Query, text: &str, width: usize) -> String {
    let masks = mask::places(text);
    let is_masked = |at: usize| mask::is_in(&masks, at);
    let mut finds = finds(query, text, |at| !is_masked(at));
    let has_words = !finds.is_empty();
    if !has_words {
        finds = self::finds(query, text, is_masked);
    }
    let best = densest(&finds, width);
    let start = finds.get(best).map_or(0, |find| find.start.saturating_sub(width / 4));
    let start = text.floor_char_boundary(start);
    let start = if start == 0 {
        0
    } else {
        start + text[start..].find(' ').map_or(0, |at| at + 1).min(width / 8)
    };
    let start =
        text.floor_char_boundary(start.min(finds.get(best).map_or(start, |find| find.start)));
    let mut end = text.ceil_char_boundary((start + width).min(text.len()));
    if let Some(find) = finds.get(best) {
        end = end.max(find.end.min(find.start + 4 * width).max(find.start));
        end = text.ceil_char_boundary(end);
    }
    let mut out = String::with_capacity(end - start + 16);
    let mut at = start;
    let shown = |find: &&Range<usize>| has_words && find.start >= start && find.end <= end;
    for find in finds.iter().filter(shown) {
        push_flat(&mut out, &text[at..find.start]);
        out.push_str("**");
        push_flat(&mut out, &text[find.clone()]);
        out.push_str("**");
        at = find.end;
    }
    push_flat(&mut out, &text[at..end]);
    let before = if start > 0 { "…" } else { "" };
    let after = if end < text.len() { "…" } else { "" };
    format!("{before}{}{after}", out.trim())
}

/// The places of what is asked for, as far as they are `wanted` by where they begin.
fn finds(query: &Query, text: &str, wanted: impl Fn(usize) -> bool) -> Vec<Range<usize>> {
    finds_among(query, text, &query.firsts(), wanted)
}

fn finds_among(
    query: &Query,
    text: &str,
    firsts: &Firsts,
    wanted: impl Fn(usize) -> bool,
) -> Vec<Range<usize>> {
    let mut finds: Vec<Range<usize>> = Vec::new();
    terms::each_among(text, firsts, |term, place| {
        if wanted(place.start) && query.wants(term, &text[place.clone()]) {
            // A name comes after its parts, and takes all of them in.
            let mut find = place;
            while let Some(last) =
                finds.pop_if(|last| find.start <= last.end || is_joint(&text[last.end..find.start]))
            {
                find = last.start.min(find.start)..last.end.max(find.end);
            }
            finds.push(find);
        }
    });
    finds.truncate(2000);
    finds
}

/// Whether only signs inside a name stand between two finds.
fn is_joint(gap: &str) -> bool {
    gap.len() <= 2 && !gap.contains(char::is_whitespace)
}

fn densest(finds: &[Range<usize>], width: usize) -> usize {
    let near = |at: usize| {
        finds[at..].iter().take_while(|find| find.start < finds[at].start + width).count()
    };
    (0..finds.len()).max_by_key(|at| (near(*at), std::cmp::Reverse(*at))).unwrap_or(0)
}

/// White space becomes single spaces.
fn push_flat(out: &mut String, text: &str) {
    for (number, word) in text.split(char::is_whitespace).enumerate() {
        if number > 0 && !out.ends_with(' ') {
            out.push(' ');
        }
        out.push_str(word);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_passed_over_was_not_asked_for(
            typed in prop::collection::vec("(run|ran|went|getUserName|handler_12|handler|C\\+\\+|src/main\\.rs|数据库|the|ha\\*)", 1..4),
            said in prop::collection::vec("(running|ran|go|eat|get_user|getUserName|Handler_12|12|C\\+\\+|main\\.rs|库|The|x|[a-z]{1,5})", 0..30),
        ) {
            let (query, text) = (Query::parse(&typed.join(" ")), said.join(" "));
            let all = finds_among(&query, &text, &[true; 256], |_| true);
            prop_assert_eq!(finds(&query, &text, |_| true), all, "{:?} in {:?}", typed, text);
        }
    }
}
