//! Taking our own context out of what an agent hands back: some repeat it as a part of the request.

use std::borrow::Cow;

use super::lines;

/// A longer tag is none that an agent puts around a context.
const LONGEST_TAG: usize = 400;

/// The text without the contexts that it was given at the beginning of a session, and without the tags that the agent put
/// around each.
pub fn without_earlier(text: &str) -> Cow<'_, str> {
    let (begin, end) = (lines::EARLIER.text.trim_end(), lines::EARLIER_END.text.trim_end());
    // What is kept so far, and what has not been looked at: a text with very many contexts is gone through once.
    let (mut kept, mut rest, mut has_any) = (String::new(), text, false);
    while let Some(from) = rest.find(begin) {
        // Every line of what is quoted begins with `>`: no quotation can end it.
        let after = from + begin.len();
        let Some(length) = end_of(&rest[after..], end) else { break };
        has_any = true;
        kept.push_str(&rest[..from]);
        let (before, behind) = without_tags(&kept, &rest[after + length..]);
        let is_between = !before.is_empty() && !behind.is_empty();
        let length = before.len();
        kept.truncate(length);
        rest = behind;
        if is_between {
            kept.push_str("\n\n");
        }
    }
    if !has_any {
        return Cow::Borrowed(text);
    }
    kept.push_str(rest);
    Cow::Owned(kept)
}

/// Where the last line of a context ends: it stands at the beginning of a line.
fn end_of(text: &str, end: &str) -> Option<usize> {
    let mut at = 0;
    loop {
        let found = at + text[at..].find(end)?;
        at = found + end.len();
        if text[..found].ends_with('\n') {
            return Some(at);
        }
    }
}

/// What stands before and after, without a tag such as `<hook_context>` that encloses nothing but the context.
fn without_tags<'a, 'b>(before: &'a str, behind: &'b str) -> (&'a str, &'b str) {
    let (mut before, mut behind) = (before.trim_end(), behind.trim_start());
    while let Some((outside, name)) = opened(before)
        && let Some(after) = closed(behind, name)
    {
        (before, behind) = (outside.trim_end(), after.trim_start());
    }
    (before, behind)
}

/// The tag that a text ends with, and what comes before it.
fn opened(text: &str) -> Option<(&str, &str)> {
    let inside = text.strip_suffix('>')?;
    let from = inside.floor_char_boundary(inside.len().saturating_sub(LONGEST_TAG));
    let at = from + inside[from..].rfind('<')?;
    let (outside, tag) = (&inside[..at], &inside[at + 1..]);
    let name = tag.split(char::is_whitespace).next()?;
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || "_-:".contains(c));
    (is_name && !name.is_empty()).then_some((outside, name))
}

fn closed<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.strip_prefix("</")?.strip_prefix(name)?.strip_prefix('>')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(quoted: &str) -> String {
        format!("{}User:\n> {quoted}\n\n{}", lines::EARLIER.text, lines::EARLIER_END.text)
    }

    #[test]
    fn what_was_injected_is_taken_out_with_its_tags() {
        let context = context("What now?");
        for (text, expected) in [
            ("Fix the till.".to_owned(), "Fix the till."),
            (format!("Fix the till.\n\n<hook_context>{context}</hook_context>"), "Fix the till."),
            (
                format!("<system_reminder id=\"1\">\n{context}</system_reminder>\nFix it."),
                "Fix it.",
            ),
            (format!("Fix it.\n<agent:context>\n\n{context}\n</agent:context>"), "Fix it."),
            (format!("<a><b>{context}</b></a>"), ""),
            (format!("One.\n{context}\nTwo."), "One.\n\nTwo."),
            (format!("{context}{context}Two."), "Two."),
            (format!("a < b >\n{context}</b>"), "a < b >\n\n</b>"),
        ] {
            assert_eq!(without_earlier(&text), expected, "{text:?}");
        }
    }

    #[test]
    fn very_many_contexts_are_gone_through_once() {
        let many = format!("a>\n{}", context("x")).repeat(60_000);
        let left = without_earlier(&many);
        assert_eq!(left.len(), 60_000 * "a>\n\n".len() - 2);
    }

    #[test]
    fn a_quotation_cannot_end_it() {
        let text = context(lines::EARLIER_END.text.trim_end());
        assert_eq!(without_earlier(&format!("{text}Now.")), "Now.");
        let torn = format!("{}> half", lines::EARLIER.text);
        assert_eq!(without_earlier(&torn), torn);
    }
}
