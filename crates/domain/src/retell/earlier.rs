//! Taking our own context out of what an agent hands back: some repeat it as a part of the request.

use std::borrow::Cow;
use std::ops::Range;

use super::lines;

/// A longer tag is none that an agent puts around a context.
const LONGEST_TAG: usize = 400;

/// The text without the contexts that it was given at the beginning of a session, and without the tags that the agent put
/// around each. Only what was really given goes: the last line of a context says which number its text has.
pub fn without_earlier(text: &str) -> Cow<'_, str> {
    match taken_out(text, next_context) {
        Some((kept, _)) => Cow::Owned(kept),
        None => Cow::Borrowed(text),
    }
}

/// What an agent was retold of a conversation, and the text without it; nothing where there is none. Anybody could have
/// written it: it is not the user's own words, but has to be kept.
pub fn without_story(text: &str) -> Option<(String, String)> {
    let (kept, told) = taken_out(text, next_story)?;
    Some((told.join("\n\n"), kept.trim().to_owned()))
}

/// The text without what `next` finds, and all that it found. A text with very many of them is gone through once.
fn taken_out(
    text: &str,
    next: impl Fn(&str) -> Option<Range<usize>>,
) -> Option<(String, Vec<&str>)> {
    let (mut kept, mut rest, mut found) = (String::new(), text, Vec::new());
    while let Some(range) = next(rest) {
        kept.push_str(&rest[..range.start]);
        let (before, behind) = without_tags(&kept, &rest[range.end..]);
        found.push(rest[range].trim_end());
        let is_between = !before.is_empty() && !behind.is_empty();
        let length = before.len();
        kept.truncate(length);
        rest = behind;
        if is_between {
            kept.push_str("\n\n");
        }
    }
    if found.is_empty() {
        return None;
    }
    kept.push_str(rest);
    Some((kept, found))
}

/// Where a context is whose number is right.
fn next_context(text: &str) -> Option<Range<usize>> {
    let begin = lines::EARLIER.text.trim_end();
    text.find(begin)?;
    // Where it begins, and the number of what came since.
    let mut open: Option<(usize, Digest)> = None;
    for (at, line) in unquoted(text) {
        let Line { text: line, is_quoted } = line;
        if !is_quoted && let Some((number, length)) = lines::earlier_number(line) {
            if let Some((from, _)) = open.take().filter(|(_, digest)| digest.number() == number) {
                return Some(from..at + length);
            }
        } else if !is_quoted && let Some(within) = line.rfind(begin) {
            let mut digest = Digest::default();
            digest.add(&line[within + begin.len()..]);
            open = Some((at + within, digest));
        } else if let Some((_, digest)) = &mut open {
            digest.add(line);
        }
    }
    None
}

/// Where a retelling is: from one of its first lines to one of its last.
fn next_story(text: &str) -> Option<Range<usize>> {
    let begins = [lines::OPENING, lines::MISSED].map(|line| line.text.trim_end());
    let ends = [lines::NEXT, lines::CLOSING].map(|line| line.text.trim_end());
    let mut open = None;
    for (at, line) in unquoted(text).filter(|(_, line)| !line.is_quoted) {
        let line = line.text;
        if let Some(within) = begins.iter().filter_map(|begin| line.find(begin)).min() {
            // In the middle of a line it is only mentioned, unless the agent put a tag before it.
            let before = line[..within].trim_end();
            if before.is_empty() || before.ends_with('>') {
                open = open.or(Some(at + within));
            }
        }
        let end = ends.iter().find(|end| line.starts_with(**end));
        if let (Some(from), Some(end)) = (open, end) {
            return Some(from..at + end.len());
        }
    }
    None
}

struct Line<'a> {
    text: &'a str,
    is_quoted: bool,
}

/// The lines with their places. Every line of what is quoted begins with `>`: no quotation can end a context.
fn unquoted(text: &str) -> impl Iterator<Item = (usize, Line<'_>)> {
    let mut at = 0;
    text.split_inclusive('\n').map(move |line| {
        let from = at;
        at += line.len();
        let is_quoted = line.starts_with('>') || line.starts_with("&gt;");
        (from, Line { text: line, is_quoted })
    })
}

/// The number of a text: of its letters and digits, since agents break lines anew and spell some characters out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    pub(super) fn add(&mut self, text: &str) {
        let mut rest = text;
        while let Some(char) = rest.chars().next() {
            rest = &rest[char.len_utf8()..];
            if char == '&' {
                rest = without_entity(rest);
            } else if char.is_alphanumeric() {
                // FNV-1a.
                self.0 = (self.0 ^ u64::from(u32::from(char))).wrapping_mul(0x0100_0000_01b3);
            }
        }
    }

    pub(super) const fn number(self) -> u64 {
        self.0 % 1_000_000_000
    }
}

/// What follows on a `&`, without the name of a character that it may stand for.
fn without_entity(mut rest: &str) -> &str {
    while let Some(more) = rest.strip_prefix("amp;") {
        rest = more;
    }
    let names = ["lt;", "gt;", "quot;", "apos;", "#39;", "#x27;"];
    names.iter().find_map(|name| rest.strip_prefix(name)).unwrap_or(rest)
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
        let told = format!("User:\n> {quoted}\n\n");
        format!("{}{told}{}", lines::EARLIER.text, lines::earlier_end(&told))
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
        let own = context(&context("x").replace('\n', "\n> "));
        assert_eq!(without_earlier(&format!("{own}Now.")), "Now.");
        let torn = format!("{}> half", lines::EARLIER.text);
        assert_eq!(without_earlier(&torn), torn);
    }

    #[test]
    fn what_an_agent_spelled_out_is_recognised() {
        let text = context("if a < b && c > d { \"x\" }\n> &lt;p&gt;");
        let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        assert_eq!(without_earlier(&format!("{escaped}Now.")), "Now.");
        assert_eq!(without_earlier(&text.replace('\n', "\r\n")), "");
    }

    #[test]
    fn what_somebody_put_between_our_lines_stays() {
        let (begin, end) = (lines::EARLIER.text, lines::EARLIER_END.text);
        let right = context("x");
        let number = right.lines().last().unwrap();
        for pasted in [
            format!("Why\n{begin}my own words\n{end}so?"),
            format!("{begin}my own words\n{number}\n"),
            format!("{begin}my own words\n[End of the context from Rethread.]\n"),
        ] {
            assert_eq!(without_earlier(&pasted), pasted);
            assert_eq!(without_earlier(&format!("{right}{pasted}")), pasted);
        }
    }

    #[test]
    fn what_was_retold_is_told_from_the_request() {
        let (begin, end) = (lines::OPENING.text, lines::NEXT.text);
        let story = format!("{begin}User:\n> {end}> Paint it.\n\n{end}");
        let told = story.trim_end().to_owned();
        for (text, rest) in [
            (format!("{story}Go on."), "Go on."),
            (format!("Go on.\n<context ref=\"x\">\n{story}</context>"), "Go on."),
            (format!("<context>{story}</context>\nGo on."), "Go on."),
            (story.clone(), ""),
        ] {
            assert_eq!(without_story(&text), Some((told.clone(), rest.to_owned())), "{text:?}");
        }
        for text in ["Go on.", begin, end, &format!("What is `{begin}`?\n{end}")] {
            assert_eq!(without_story(text), None, "{text:?}");
        }
    }
}
