//! HTML in a plan. A block that continues over blank lines, such as a comment or a script, hides its content. An unterminated one would
//! hide the rest of the plan with its tasks: here it ends with its line.

use super::line;
use super::scan::APART;

/// Tags that begin such a block, with what ends it.
const TAGS: [(&str, &str); 4] = [
    ("pre", "</pre>"),
    ("style", "</style>"),
    ("script", "</script>"),
    ("textarea", "</textarea>"),
];
/// Other beginnings.
const MARKS: [(&str, &str); 3] = [("!--", "-->"), ("?", "?>"), ("![CDATA[", "]]>")];
/// What ends a declaration.
const DECLARED: &str = ">";

/// Lower-cases closing tags: the parser only knows them so, although any case is valid. The length does not change.
pub(super) fn lowered(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (n, part) in text.split("</").enumerate() {
        if n > 0 {
            out.push_str("</");
        }
        let name = part.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(part.len());
        let (name, rest) = part.split_at(if n > 0 { name } else { 0 });
        out.push_str(&name.to_ascii_lowercase());
        out.push_str(rest);
    }
    out
}

/// The lines that would begin an unterminated block if the parser saw a beginning in them; in order.
pub(super) fn unended(text: &str, from: usize) -> Vec<usize> {
    let mut ends = Ends::of(text);
    let mut found = Vec::new();
    let mut at = from;
    while at < text.len() {
        let line = text.get(at..line::words_end(text, at)).unwrap_or_default();
        let words = line.trim_start_matches(' ');
        if line.len() - words.len() < 4
            && let Some(end) = words.strip_prefix('<').and_then(end_of)
            && !words.contains(end)
            && !ends.is_ended(end, at)
        {
            found.push(at);
        }
        at = line::end(text, at);
    }
    found
}

/// What ends the block that begins with this, after its `<`; `None` if it ends at a blank line, like other HTML.
fn end_of(words: &str) -> Option<&'static str> {
    let is_tag = |name: &str| {
        let begins = words.get(..name.len()).is_some_and(|word| word.eq_ignore_ascii_case(name));
        let rest = words.get(name.len()..).unwrap_or_default();
        begins && (rest.is_empty() || rest.starts_with(['>', ' ', '\t', '\u{b}', '\u{c}']))
    };
    let tag = TAGS.iter().find(|(name, _)| is_tag(name));
    let known = tag.or_else(|| MARKS.iter().find(|(mark, _)| words.starts_with(mark)));
    let is_declared = words.starts_with('!')
        && words.get(1..).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic()));
    known.map(|(_, end)| *end).or_else(|| is_declared.then_some(DECLARED))
}

/// Positions of terminators, searched from the first line to the last.
struct Ends {
    text: String,
    /// The next of each kind, as far as was looked.
    next: Vec<(&'static str, Option<usize>)>,
}

impl Ends {
    fn of(text: &str) -> Self {
        let ends = TAGS.iter().chain(&MARKS).map(|(_, end)| *end).chain([DECLARED]);
        // Our own separators between lists end nothing.
        let text = text.replace(APART, &" ".repeat(APART.len()));
        let next = ends.map(|end| (end, text.find(end))).collect();
        Self { text, next }
    }

    /// Whether the block that begins here is terminated. A terminator in a heading belongs to the heading.
    fn is_ended(&mut self, end: &str, from: usize) -> bool {
        let Some((_, next)) = self.next.iter_mut().find(|(known, _)| *known == end) else {
            return false;
        };
        if next.is_some_and(|place| place < from) {
            let found = self.text.get(from..).and_then(|rest| rest.find(end));
            *next = found.map(|place| place + from);
        }
        next.is_some_and(|place| {
            let line = self.text.get(line::start(&self.text, place)..place);
            !line.unwrap_or_default().trim_start_matches(' ').starts_with('#')
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_without_an_end_are_found() {
        for text in [
            "<script>\nx",
            "  <ScRiPt\nx",
            "<!--\nx\n<!-- -->",
            "<?é\nx",
            "<?",
            "<!DOCTYPE\n",
            "<![CDATA[",
        ] {
            assert_eq!(unended(text, 0), [0], "{text}");
        }
        for text in
            ["<script>\n</script>", "<!-- a\n\nb -->", "<div>", "<prefix>", "    <pre>", "a <pre>"]
        {
            assert_eq!(unended(text, 0), [0; 0], "{text}");
        }
        assert_eq!(unended("<?\nx\n\n<!-- -->\n <!--", 0), [0, 15]);
        assert_eq!(lowered("<PRE>\n\n</PRE> </B"), "<PRE>\n\n</pre> </b");
    }
}
