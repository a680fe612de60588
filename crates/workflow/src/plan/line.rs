//! Lines of a text as markdown sees them: they end with LF, CRLF or CR.

/// Where the lines of a text begin.
pub(super) struct Lines(Vec<usize>);

impl Lines {
    pub(super) fn of(text: &str) -> Self {
        let mut starts = vec![0];
        let mut at = 0;
        while at < text.len() {
            at = end(text, at);
            starts.push(at);
        }
        Self(starts)
    }

    /// The number of the line that holds this byte, from 1.
    pub(super) fn number(&self, offset: usize) -> usize {
        self.0.partition_point(|start| *start <= offset).max(1)
    }
}

const fn is_end(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

/// Where the line of this byte begins.
pub(super) fn start(text: &str, at: usize) -> usize {
    let before = text.as_bytes().get(..at).unwrap_or_default();
    before.iter().rposition(|byte| is_end(*byte)).map_or(0, |found| found + 1)
}

/// Where the words of the line of this byte end, without the line's end.
pub(super) fn words_end(text: &str, at: usize) -> usize {
    let after = text.as_bytes().get(at..).unwrap_or_default();
    after.iter().position(|byte| is_end(*byte)).map_or(text.len(), |found| at + found)
}

/// Where the next line begins.
pub(super) fn end(text: &str, at: usize) -> usize {
    let words = words_end(text, at);
    let rest = text.get(words..).unwrap_or_default();
    words + if rest.starts_with("\r\n") { 2 } else { usize::from(!rest.is_empty()) }
}

/// How lines end here; where the line has no end, as they do elsewhere in the text.
pub(super) fn ending(text: &str, at: usize) -> &'static str {
    let own = text.get(words_end(text, at)..end(text, at)).unwrap_or_default();
    match own {
        "\r\n" => "\r\n",
        "\r" => "\r",
        "" if text.contains("\r\n") => "\r\n",
        "" if text.contains('\r') && !text.contains('\n') => "\r",
        _ => "\n",
    }
}

/// Whether there is nothing to see on the line that begins here.
pub(super) fn is_blank(text: &str, at: usize) -> bool {
    text.get(at..words_end(text, at)).is_none_or(|line| line.trim().is_empty())
}

/// The column of a byte, tabs counted as markdown does.
pub(super) fn column(text: &str, from: usize, at: usize) -> usize {
    let before = text.get(from..at).unwrap_or_default();
    before.chars().fold(0, |column, c| if c == '\t' { column / 4 * 4 + 4 } else { column + 1 })
}

/// Without blank lines around it, its first line's indentation kept.
pub(super) fn without_blank_ends(text: &str) -> &str {
    let text = text.trim_end();
    let mut at = 0;
    while at < text.len() && is_blank(text, at) {
        at = end(text, at);
    }
    text.get(at..).unwrap_or_default()
}
