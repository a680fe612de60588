//! The blocks of a Markdown text, as far as tasks and their fields need them.

use std::collections::BTreeSet;
use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag};

use super::{field, html, line};

/// A block at the top of the text, or one in an item of a list there.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) range: Range<usize>,
    pub(super) kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    Heading(u8),
    /// A list: whether it has bullets, and its items.
    List(bool, Vec<Item>),
    Paragraph,
    Html,
    Other,
}

#[derive(Debug)]
pub(super) struct Item {
    pub(super) range: Range<usize>,
    pub(super) mark: Option<(Range<usize>, bool)>,
    pub(super) blocks: Vec<Block>,
}

/// The blocks of the text, as deep as tasks and their fields can be. Unterminated HTML is one line, see [`html`]: nothing is open
/// after it, and the rest is parsed as a text of its own.
pub(super) fn blocks(text: &str, base: usize) -> Vec<Block> {
    let text = html::lowered(text);
    let mut unended: &[usize] = &html::unended(&text, base);
    let (mut found, mut from) = (Vec::new(), base);
    while let Some(nth) = first_seen(&text, from, unended) {
        let at = unended.get(nth).copied().unwrap_or(text.len());
        let next = line::end(&text, at);
        found.extend(parsed(text.get(from..at).unwrap_or_default(), from));
        found.push(Block { range: at..next, kind: Kind::Other });
        (from, unended) = (next, unended.get(nth + 1..).unwrap_or_default());
    }
    found.extend(parsed(text.get(from..).unwrap_or_default(), from));
    found
}

/// Which of these lines is the first that the parser takes for the beginning of HTML at the top level: others are in code, in other
/// HTML or in a list. The text is parsed as far as needed, or twice that: every line about once.
fn first_seen(text: &str, from: usize, lines: &[usize]) -> Option<usize> {
    let mut count = 1;
    while let Some(last) = lines.get(..count.min(lines.len()))?.last() {
        let part = parsed(text.get(from..line::end(text, *last)).unwrap_or_default(), from);
        let starts: BTreeSet<usize> = part
            .iter()
            .filter(|block| matches!(block.kind, Kind::Html))
            .map(|block| begins(text, block))
            .collect();
        let seen = lines.iter().take(count).position(|line| starts.contains(line));
        if seen.is_some() || count >= lines.len() {
            return seen;
        }
        count *= 2;
    }
    None
}

/// The blocks of a text that begins at `base`, as the parser sees them.
pub(super) fn parsed(text: &str, base: usize) -> Vec<Block> {
    let parser = Parser::new_ext(text, Options::ENABLE_TASKLISTS);
    let mut found: Vec<Block> = Vec::new();
    let mut depth = 0_usize;
    for (event, range) in parser.into_offset_iter() {
        let range = range.start + base..range.end + base;
        match event {
            Event::Start(tag) => {
                place(&mut found, depth, &tag, range);
                depth += 1;
            }
            Event::End(_) => depth = depth.saturating_sub(1),
            Event::TaskListMarker(is_checked) if depth == 2 || depth == 3 => {
                let Some(item) = last_item(&mut found) else { continue };
                let is_own = depth == 2
                    || matches!(item.blocks.as_slice(), [Block { kind: Kind::Paragraph, .. }]);
                if is_own && item.mark.is_none() {
                    item.mark = Some((range, is_checked));
                }
            }
            Event::Rule if depth == 0 => {
                found.push(Block { range, kind: Kind::Other });
            }
            Event::Rule if depth == 2 => {
                if let Some(item) = last_item(&mut found) {
                    item.blocks.push(Block { range, kind: Kind::Other });
                }
            }
            _ => (),
        }
    }
    found
}

/// Puts a block where it belongs.
fn place(found: &mut Vec<Block>, depth: usize, tag: &Tag<'_>, range: Range<usize>) {
    let kind = match tag {
        Tag::Heading { level, .. } => Kind::Heading(*level as u8),
        Tag::List(number) => Kind::List(number.is_none(), Vec::new()),
        Tag::Paragraph => Kind::Paragraph,
        Tag::HtmlBlock => Kind::Html,
        Tag::Item | Tag::BlockQuote(_) | Tag::CodeBlock(_) => Kind::Other,
        _ => return,
    };
    let item = || Item { range: range.clone(), mark: None, blocks: Vec::new() };
    match depth {
        0 => found.push(Block { range, kind }),
        1 => {
            if let Some(Block { kind: Kind::List(_, items), .. }) = found.last_mut() {
                items.push(item());
            }
        }
        2 => {
            if let Some(last) = last_item(found) {
                last.blocks.push(Block { range, kind });
            }
        }
        3 => {
            if let Some(Block { kind: Kind::List(_, items), .. }) =
                last_item(found).and_then(|last| last.blocks.last_mut())
            {
                items.push(item());
            }
        }
        _ => (),
    }
}

fn last_item(found: &mut [Block]) -> Option<&mut Item> {
    match &mut found.last_mut()?.kind {
        Kind::List(_, items) => items.last_mut(),
        _ => None,
    }
}

/// Where the line of a block begins.
pub(super) fn begins(text: &str, block: &Block) -> usize {
    line::start(text, field::trimmed(text, block.range.clone()).start)
}
