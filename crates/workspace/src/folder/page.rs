//! `<kind>.md`: a session for people to read. Between two markers it is ours, around them it is theirs.

use std::ops::Range;

/// The largest page that is read, in bytes.
pub(super) const LARGEST: u64 = 16 << 20;

const BEGIN: &str = "<!-- rethread: begin -->";
const END: &str = "<!-- rethread: end -->";

/// Characters that change how the text around them is read, or are not seen.
const HIDDEN: [char; 12] = [
    '\u{200e}', '\u{200f}', '\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}', '\u{202e}', '\u{2066}',
    '\u{2067}', '\u{2068}', '\u{2069}', '\u{feff}',
];

/// What the page of a session says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    pub title: String,
    pub summary: Option<String>,
    pub decisions: Vec<String>,
    pub status: String,
    /// How to take the session up again.
    pub resume: String,
}

impl Page {
    /// The page with our part in it; `None` where it is somebody's own.
    pub(super) fn render(&self, before: Option<&[u8]>) -> Option<Vec<u8>> {
        let part = self.part();
        let Some(before) = before else { return Some(format!("{part}\n").into_bytes()) };
        let ours = find_part(before)?;
        Some([&before[..ours.start], part.as_bytes(), &before[ours.end..]].concat())
    }

    fn part(&self) -> String {
        let mut text = format!("{BEGIN}\n# {}\n\n", one_line(&self.title));
        text.push_str(&format!("Status: {}\n", one_line(&self.status)));
        if let Some(summary) = self.summary.as_deref().filter(|summary| !summary.trim().is_empty())
        {
            text.push_str(&format!("\n## Summary\n\n{}\n", lines(summary)));
        }
        if !self.decisions.is_empty() {
            text.push_str("\n## Decisions\n\n");
            for decision in &self.decisions {
                text.push_str(&format!("- {}\n", one_line(decision)));
            }
        }
        text.push_str(&format!("\n## Resume\n\n{}\n{END}", lines(&self.resume)));
        text
    }
}

/// Where our part is, from marker to marker. Each has to stand on a line of its own, once.
fn find_part(page: &[u8]) -> Option<Range<usize>> {
    let mut begins = Vec::new();
    let mut ends = Vec::new();
    let mut start = 0;
    for line in page.split_inclusive(|byte| *byte == b'\n') {
        let text = line.trim_ascii_end();
        if text == BEGIN.as_bytes() {
            begins.push(start);
        } else if text == END.as_bytes() {
            ends.push(start + text.len());
        }
        start += line.len();
    }
    match (&begins[..], &ends[..]) {
        ([begin], [end]) if begin < end => Some(*begin..*end),
        _ => None,
    }
}

/// Whether there is nothing but our part.
pub(super) fn is_all_ours(page: &[u8]) -> bool {
    find_part(page).is_some_and(|ours| {
        let around = [&page[..ours.start], &page[ours.end..]];
        around.iter().all(|part| part.trim_ascii().is_empty())
    })
}

fn lines(text: &str) -> String {
    let lines = text.trim().lines().map(|line| harmless(line.trim()));
    lines.collect::<Vec<_>>().join("\n")
}

fn one_line(text: &str) -> String {
    harmless(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Makes stored text into text only: it cannot end our part, hide something, or become a heading or a block of code
/// that swallows what people wrote below.
fn harmless(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let is_block = ["#", "=", ">", "```", "~~~", "---", "***", "___"];
    let is_underline = !line.is_empty() && line.bytes().all(|byte| byte == b'-');
    if is_underline || is_block.iter().any(|start| line.starts_with(start)) {
        text.push('\\');
    }
    let mut before = ' ';
    for letter in line.chars() {
        match letter {
            '<' => text.push_str("&lt;"),
            '>' if before == '-' => text.push_str("&gt;"),
            '[' if before == '!' => text.push_str("\\["),
            '\t' => text.push(' '),
            letter if letter.is_control() || HIDDEN.contains(&letter) => text.push('\u{fffd}'),
            letter => text.push(letter),
        }
        before = letter;
    }
    text
}
