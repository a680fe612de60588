//! Finds the tasks of a Markdown text, and the position of each part.

use std::ops::Range;

use super::blocks::{Block, Item, Kind, begins, blocks, parsed};
use super::field::{self, Field, Misspelt};
use super::{html, line};

/// The parts of a plan in a text.
#[derive(Debug, Default)]
pub(super) struct Scanned {
    pub(super) title: String,
    pub(super) intro: String,
    /// What holds for all tasks that say nothing else.
    pub(super) fields: Vec<Field>,
    pub(super) tasks: Vec<Found>,
}

/// A task in the text.
#[derive(Debug)]
pub(super) struct Found {
    /// Where it begins.
    pub(super) at: usize,
    /// As written; `None` if it is derived from its position.
    pub(super) id: Option<String>,
    pub(super) title: String,
    pub(super) body: String,
    pub(super) fields: Vec<Field>,
    pub(super) misspelt: Vec<Misspelt>,
    pub(super) place: Place,
    pub(super) insert: Insert,
}

#[derive(Debug)]
pub(super) enum Place {
    Section,
    /// A checklist item; `mark` is what stands between the brackets.
    Item {
        mark: Range<usize>,
        is_checked: bool,
    },
}

/// Where a field can be inserted, and what has to precede it on its line.
#[derive(Debug)]
pub(super) struct Insert {
    pub(super) at: usize,
    pub(super) prefix: String,
    /// What has to follow on lines of their own, so that the next lines keep their meaning.
    pub(super) after: &'static [&'static str],
}

/// Ends a list if the next lines would otherwise become a part of it; not part of a task's text.
pub(super) const APART: &str = "<!-- -->";

/// The tasks of a text, with its title.
pub(super) fn scan(text: &str) -> Scanned {
    let base = front(text);
    let blocks = blocks(text, base);
    let ends_section = |block: &Block| matches!(block.kind, Kind::Heading(level) if level <= 2);
    let mut scanned = Scanned::default();
    let mut title: Option<Range<usize>> = None;
    // From the last to the first: so the end of a section is known at its heading.
    let (mut section_end, mut first_block): (usize, Option<&Block>) = (text.len(), None);
    let mut lists: Vec<&Block> = Vec::new();
    for block in blocks.iter().rev() {
        if !ends_section(block) {
            first_block = Some(block);
            lists.push(block);
            continue;
        }
        let words = heading(text, block);
        let after = lists.drain(..);
        match named(words).filter(|_| matches!(block.kind, Kind::Heading(2))) {
            Some((id, name)) => {
                scanned.tasks.push(section(text, block, section_end, first_block, id, name));
            }
            None => after.for_each(|list| scanned.tasks.extend(items(text, list))),
        }
        if matches!(block.kind, Kind::Heading(1)) {
            words.clone_into(&mut scanned.title);
            title = Some(begins(text, block).max(base)..heading_end(text, block));
        }
        (section_end, first_block) = (begins(text, block), None);
    }
    for list in lists {
        scanned.tasks.extend(items(text, list));
    }
    scanned.tasks.reverse();
    let first = scanned.tasks.first().map_or(text.len(), |task| task.at).max(base);
    let (head, tail) = match title.filter(|title| title.end <= first) {
        Some(title) => (base..title.start, title.end..first),
        None => (base..base, base..first),
    };
    scanned.fields = fields_of_plan(text, &blocks, first);
    let part = |range| line::without_blank_ends(text.get(range).unwrap_or_default());
    let tail = body(text, tail, &scanned.fields);
    let intro = format!("{}\n\n{tail}", part(head));
    intro.trim().clone_into(&mut scanned.intro);
    scanned
}

/// The fields of the plan itself: the first list before the tasks, or the first items of their list, if it says nothing else.
fn fields_of_plan(text: &str, blocks: &[Block], first_task: usize) -> Vec<Field> {
    let is_list = |block: &&Block| matches!(block.kind, Kind::List(true, _));
    let Some(list) = blocks.iter().find(is_list).filter(|list| list.range.start < first_task)
    else {
        return Vec::new();
    };
    let Kind::List(_, items) = &list.kind else { return Vec::new() };
    let own = || items.iter().take_while(|item| item.mark.is_none());
    let mut misspelt = Vec::new();
    let fields = fields_of(text, list, None, &mut misspelt).map(|(fields, _)| fields);
    let end = own().last().map_or(0, |item| item.range.end);
    let mut fields = fields.unwrap_or_default();
    fields.retain(|field| field.value.start < end && field.key.is_of_plan());
    if fields.len() == own().count() { fields } else { Vec::new() }
}

/// Where the Markdown begins: after a byte order mark and front matter.
fn front(text: &str) -> usize {
    let base = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let is = |at: usize, marks: &[&str]| {
        text.get(at..line::words_end(text, at)).is_some_and(|line| marks.contains(&line.trim_end()))
    };
    let marks: (&[&str], &[&str]) = match text.get(base..) {
        Some(rest) if rest.starts_with("---") => (&["---"], &["---", "..."]),
        Some(rest) if rest.starts_with("+++") => (&["+++"], &["+++"]),
        _ => return base,
    };
    if !is(base, marks.0) {
        return base;
    }
    let mut at = line::end(text, base);
    while at < text.len() {
        if is(at, marks.1) {
            return line::end(text, at);
        }
        // Front matter never contains this: the first line was a rule.
        let rest = text.get(at..).unwrap_or_default();
        if rest.starts_with("## ") || rest.starts_with("- [") {
            return base;
        }
        at = line::end(text, at);
    }
    base
}

/// The words of a heading, without its marks.
fn heading<'a>(text: &'a str, block: &Block) -> &'a str {
    let raw = text.get(block.range.clone()).unwrap_or_default().trim();
    if !raw.starts_with('#') {
        // Underlined.
        let under = line::start(raw, raw.len());
        return raw.get(..under).unwrap_or_default().trim();
    }
    let words = raw.trim_start_matches('#').trim();
    let open = words.trim_end_matches('#');
    if open.is_empty() || open.ends_with([' ', '\t']) { open.trim_end() } else { words }
}

/// Where the line after a heading begins.
fn heading_end(text: &str, block: &Block) -> usize {
    let raw = text.get(block.range.clone()).unwrap_or_default();
    line::end(text, block.range.start + raw.trim_end().len())
}

/// The id and the title of a heading that begins a task.
fn named(words: &str) -> Option<(Option<String>, String)> {
    let after = words.get(4..).filter(|_| words.as_bytes()[..4].eq_ignore_ascii_case(b"task"))?;
    if !after.starts_with([' ', '\t', ':', '—', '–']) {
        return None;
    }
    let cuts = [":", "—", "–", " - "];
    let cut = cuts.iter().filter_map(|cut| Some((after.find(cut)?, cut.len()))).min();
    let (id, title) = match cut {
        Some((at, len)) => (after.get(..at)?, after.get(at + len..)?),
        // A number or the like without a title: somebody forgot it.
        None if is_lone_id(after.trim()) => (after, ""),
        None => return None,
    };
    let id = id.trim().trim_matches(['*', '`']);
    Some((Some(id.to_owned()).filter(|id| !id.is_empty()), one_line(title)))
}

fn is_lone_id(words: &str) -> bool {
    super::is_id(words) && words.contains(|c: char| c.is_ascii_digit())
}

fn one_line(text: &str) -> String {
    let lines = text.split(['\n', '\r']).map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<&str>>().join(" ")
}

fn section(
    text: &str,
    block: &Block,
    end: usize,
    first: Option<&Block>,
    id: Option<String>,
    title: String,
) -> Found {
    let at = begins(text, block);
    let begin = heading_end(text, block);
    let mut misspelt = Vec::new();
    let (fields, insert) = match first.and_then(|first| fields_of(text, first, None, &mut misspelt))
    {
        Some(found) => found,
        None => {
            // What follows must not go on with the field's line, not even a heading that is underlined.
            let rest = text.get(begin..).unwrap_or_default();
            let is_heading = begin == end && (rest.starts_with("# ") || rest.starts_with("## "));
            let is_alone = !rest.is_empty() && !is_heading && !line::is_blank(text, begin);
            let after: &[&str] = if is_taken_in(text, begin, 2) {
                &[APART]
            } else if is_alone {
                &[""]
            } else {
                &[]
            };
            (Vec::new(), Insert { at: begin, prefix: "- ".to_owned(), after })
        }
    };
    let body = body(text, begin..end, &fields);
    Found { at, id, title, body, fields, misspelt, place: Place::Section, insert }
}

/// The text without the lines of fields.
fn body(text: &str, part: Range<usize>, fields: &[Field]) -> String {
    let mut kept = String::new();
    let mut from = part.start;
    for item in fields.iter().filter_map(|field| field.item.as_ref()) {
        let at = line::start(text, item.start);
        kept.push_str(text.get(from..at).unwrap_or_default());
        from = line::end(text, item.start).max(from);
    }
    kept.push_str(text.get(from..part.end).unwrap_or_default());
    let apart = kept.trim_start().strip_prefix(APART).filter(|rest| line::is_blank(rest, 0));
    line::without_blank_ends(apart.unwrap_or(&kept)).to_owned()
}

/// Whether what follows is indented so far that a list item would include it.
fn is_taken_in(text: &str, from: usize, column: usize) -> bool {
    let mut at = from;
    while at < text.len() && line::is_blank(text, at) {
        at = line::end(text, at);
    }
    let rest = text.get(at..).unwrap_or_default();
    let words = at + (rest.len() - rest.trim_start_matches([' ', '\t']).len());
    at < text.len() && line::column(text, at, words) >= column
}

/// The fields of a bullet list, and where another one can be inserted. `next` is the block after the list.
fn fields_of(
    text: &str,
    list: &Block,
    next: Option<&Block>,
    wrong: &mut Vec<Misspelt>,
) -> Option<(Vec<Field>, Insert)> {
    let Kind::List(true, items) = &list.kind else { return None };
    let first = trimmed(text, items.first()?).start;
    let start = line::start(text, first);
    let indent = text.get(start..first)?.trim_start_matches('\u{feff}');
    let prefix = format!("{indent}{} ", text.get(first..=first)?);
    let is_followed = next.is_some_and(|next| matches!(next.kind, Kind::List(true, _)));
    let mut fields = Vec::new();
    for item in items {
        let item_range = trimmed(text, item);
        let words = item_range.start + 1..line::words_end(text, item_range.start);
        if words.start > words.end || item.mark.is_some() {
            continue;
        }
        if let Some((key, value)) = field::read(text, words.clone()) {
            let has_more = item_range.end > words.end || items.len() == 1 && is_followed;
            let is_stuck = has_more || !is_apart(text, line::end(text, words.start));
            fields.push(Field { key, value, item: Some(item_range), is_stuck });
        } else {
            wrong.extend(field::misspelt(text, words));
        }
    }
    Some((fields, Insert { at: start, prefix, after: &[] }))
}

/// Whether the line that begins here means the same whatever precedes it.
fn is_apart(text: &str, at: usize) -> bool {
    let line = text.get(at..line::words_end(text, at)).unwrap_or_default().trim();
    let bullet = line.strip_prefix(['-', '*', '+']).and_then(|rest| rest.strip_prefix(' '));
    line.is_empty()
        || bullet.is_some_and(|rest| rest.starts_with(|c: char| c.is_alphanumeric() || c == '['))
}

fn trimmed(text: &str, item: &Item) -> Range<usize> {
    field::trimmed(text, item.range.clone())
}

/// The tasks of a checklist, the last first.
fn items<'a>(text: &'a str, block: &'a Block) -> impl Iterator<Item = Found> + 'a {
    let items = match &block.kind {
        Kind::List(_, items) => items.as_slice(),
        _ => &[],
    };
    items.iter().rev().filter_map(|item| checklist_item(text, item))
}

fn checklist_item(text: &str, item: &Item) -> Option<Found> {
    let (mark, is_checked) = item.mark.clone()?;
    let end = field::trimmed(text, item.range.clone()).end.max(mark.end);
    // The paragraph of the title, where it is one of its own, begins right behind the box.
    let is_title = |block: &Block| {
        let between = text.get(mark.end..block.range.start).unwrap_or_default();
        matches!(block.kind, Kind::Paragraph) && between.trim().is_empty()
    };
    let is_later = |block: &&Block| block.range.start >= mark.end && !is_title(block);
    let later: Vec<&Block> = item.blocks.iter().filter(is_later).collect();
    let next = later.first().map_or(end, |block| begins(text, block));
    let words = field::trimmed(text, mark.end..paragraph_end(text, mark.end, next));
    let mut misspelt = Vec::new();
    let (title_end, mut fields) = match field::in_parenthesis(text, words.clone(), &mut misspelt) {
        Some((at, fields)) => (at, fields),
        None => (words.end, Vec::new()),
    };
    let (id, title) = id_and_title(text.get(words.start..title_end).unwrap_or_default().trim());
    let begin = line::end(text, words.end);
    let nested = later.first();
    let nested =
        nested.and_then(|first| fields_of(text, first, later.get(1).copied(), &mut misspelt));
    let (nested, insert) = nested.unwrap_or_else(|| {
        let from = line::start(text, mark.start);
        let column = line::column(text, from, mark.start);
        let prefix = format!("{}- ", " ".repeat(column));
        let is_taken = begin < end && is_taken_in(text, begin, column + 2);
        let after: &[&str] = if is_taken { &[APART] } else { &[] };
        (Vec::new(), Insert { at: begin, prefix, after })
    });
    let body = if begin < end { dedented(&body(text, begin..end, &nested)) } else { String::new() };
    fields.extend(nested);
    let at = line::start(text, item.range.start);
    let place = Place::Item { mark: mark.start + 1..mark.end - 1, is_checked };
    Some(Found { at, id, title, body, fields, misspelt, place, insert })
}

/// A paragraph ends at a blank line at the latest.
fn paragraph_end(text: &str, from: usize, end: usize) -> usize {
    let mut at = line::end(text, from);
    while at < end && !line::is_blank(text, at) {
        at = line::end(text, at);
    }
    at.min(end).max(from)
}

/// `ID: Title`, `**ID** Title` or only a title.
fn id_and_title(words: &str) -> (Option<String>, String) {
    let bold = words.strip_prefix("**").and_then(|rest| rest.split_once("**"));
    let cut = bold.map(|(id, rest)| (id.trim_end_matches(':'), rest)).or_else(|| {
        let (id, rest) = words.split_once(':')?;
        (rest.is_empty() || rest.starts_with(char::is_whitespace)).then_some((id, rest))
    });
    match cut.filter(|(id, _)| super::is_id(id)) {
        Some((id, rest)) => {
            let rest = rest.trim_start();
            let title = rest.strip_prefix([':', '—', '–']).or_else(|| rest.strip_prefix("- "));
            let title = if bold.is_some() { title.unwrap_or(rest) } else { rest };
            (Some(id.to_owned()), one_line(title))
        }
        None => (None, one_line(words)),
    }
}

/// Without the indentation that all lines share.
fn dedented(text: &str) -> String {
    let indent = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let lines = || text.split_inclusive('\n');
    let shared = lines().filter(|line| !line.trim().is_empty()).map(indent).min().unwrap_or(0);
    lines().map(|line| line.get(shared.min(indent(line))..).unwrap_or_default()).collect()
}

/// Makes a task's text fit into a section: smaller headings, closed fences.
pub(super) fn tamed(text: &str) -> String {
    let mut out = String::new();
    let mut from = 0;
    for block in blocks(text, 0).iter().filter(|block| matches!(block.kind, Kind::Heading(1 | 2))) {
        out.push_str(text.get(from..block.range.start).unwrap_or_default());
        out.push_str(&format!("### {}\n", one_line(heading(text, block))));
        from = heading_end(text, block);
    }
    out.push_str(text.get(from..).unwrap_or_default());
    let is_closed = |text: &str| {
        let probe = format!("{text}\n\n## Task 1: x\n");
        let blocks = parsed(&html::lowered(&probe), 0);
        matches!(blocks.last(), Some(Block { kind: Kind::Heading(2), .. }))
    };
    let fences = ["", "\n```", "\n~~~", "\n``````````", "\n~~~~~~~~~~"];
    let html = ["\n-->", "\n</script>", "\n</style>", "\n</pre>", "\n</textarea>", "\n?>", "\n]]>"];
    let ends = fences.into_iter().chain(html);
    let end = ends.into_iter().find(|end| is_closed(&format!("{out}{end}")));
    out.push_str(end.unwrap_or_default());
    line::without_blank_ends(&out).to_owned()
}

/// Where the title of a plan begins; the beginning of the text where it has none before its tasks.
pub(super) fn title_at(text: &str) -> usize {
    let first = scan(text).tasks.first().map_or(0, |task| task.at);
    let is_title = |block: &&Block| matches!(block.kind, Kind::Heading(1));
    let title = blocks(text, front(text)).iter().find(is_title).map(|block| block.range.start);
    title.filter(|at| *at < first).map_or(0, |at| line::start(text, at))
}
