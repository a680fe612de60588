//! Markdown for a terminal: headings, lists, tables, quotations, code with colours. Wrapped at words.

mod code;
mod stream;
mod table;

use anstyle::{AnsiColor, Style};
use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

pub(crate) use self::code::{Language, changed as changed_line, coloured};
pub(crate) use self::stream::{Piece, Stream};
use super::styled::{BOLD, DIM, Line, Span, colour};

/// What of markdown is read.
const READ: Options =
    Options::ENABLE_TABLES.union(Options::ENABLE_STRIKETHROUGH).union(Options::ENABLE_TASKLISTS);
/// The widest rule.
const RULE: usize = 40;
/// Deeper lists are indented no further.
const DEEPEST: usize = 8;

/// The lines of a text, none wider than `columns`. Where there are no colours, headings keep their marks.
pub(crate) fn lines(text: &str, columns: usize, is_coloured: bool) -> Vec<Line> {
    let mut page = Page::new(columns, is_coloured);
    for event in Parser::new_ext(text, READ) {
        page.event(event);
    }
    page.end_line();
    while page.lines.last().is_some_and(Line::is_empty) {
        page.lines.pop();
    }
    page.lines
}

/// A list that is open: the number of the next item, if it has numbers.
type List = Option<u64>;

struct Page {
    columns: usize,
    is_coloured: bool,
    lines: Vec<Line>,
    /// What was written of the line that is open.
    line: Line,
    styles: Vec<Style>,
    lists: Vec<List>,
    /// What stands before each line: of quotations and lists.
    indents: Vec<Line>,
    /// What stands before the next line alone: the mark of an item.
    mark: Option<Line>,
    code: Option<Language>,
    table: Option<table::Table>,
    link: Option<(String, usize)>,
    /// Whether something has ended that an empty line follows.
    is_apart: bool,
}

impl Page {
    fn new(columns: usize, is_coloured: bool) -> Self {
        Self {
            columns,
            is_coloured,
            lines: Vec::new(),
            line: Line::default(),
            styles: Vec::new(),
            lists: Vec::new(),
            indents: Vec::new(),
            mark: None,
            code: None,
            table: None,
            link: None,
            is_apart: false,
        }
    }

    fn style(&self) -> Style {
        let both = |all: Style, one: &Style| {
            Style::new()
                .effects(all.get_effects() | one.get_effects())
                .fg_color(one.get_fg_color().or(all.get_fg_color()))
        };
        self.styles.iter().fold(Style::new(), both)
    }

    fn indent(&self) -> Line {
        Line(self.indents.iter().take(DEEPEST).flat_map(|indent| indent.0.clone()).collect())
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text)
            | Event::Html(text)
            | Event::InlineHtml(text)
            | Event::InlineMath(text)
            | Event::DisplayMath(text) => self.text(&text),
            Event::Code(code) => self.inline(&code, colour(AnsiColor::Cyan)),
            Event::SoftBreak | Event::HardBreak => match &mut self.table {
                Some(table) => table.text(" ", Style::new()),
                None => self.end_line(),
            },
            Event::Rule => {
                self.begin_block();
                let room = self.columns.saturating_sub(self.indent().width());
                self.line.push(&"─".repeat(room.min(RULE)), DIM);
                self.end_line();
                self.is_apart = true;
            }
            Event::TaskListMarker(is_done) => {
                self.inline(if is_done { "☑ " } else { "☐ " }, Style::new());
            }
            Event::FootnoteReference(name) => self.inline(&format!("[{name}]"), DIM),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.begin_block(),
            Tag::Heading { level, .. } => {
                self.begin_block();
                let style = BOLD | anstyle::Effects::BOLD;
                let style = if level <= HeadingLevel::H2 {
                    style.fg_color(colour(AnsiColor::Blue).get_fg_color())
                } else {
                    style
                };
                self.styles.push(style);
                if !self.is_coloured {
                    self.inline(&format!("{} ", "#".repeat(level as usize)), Style::new());
                }
            }
            Tag::BlockQuote(_) => {
                self.begin_block();
                self.indents.push(Line::new("│ ", DIM));
                self.styles.push(DIM);
            }
            Tag::CodeBlock(kind) => {
                self.begin_block();
                let language = match &kind {
                    CodeBlockKind::Fenced(name) => Language::named(name),
                    CodeBlockKind::Indented => Language::named(""),
                };
                self.code = Some(language);
                self.indents.push(Line::plain("  "));
            }
            Tag::List(first) => {
                if self.lists.is_empty() {
                    self.begin_block();
                }
                self.end_line();
                self.lists.push(first);
            }
            Tag::Item => self.item(),
            Tag::Table(_) => {
                self.begin_block();
                self.table = Some(table::Table::default());
            }
            Tag::TableRow => self.with_table(table::Table::row),
            Tag::TableCell => self.with_table(table::Table::cell),
            Tag::Emphasis => self.styles.push(Style::new().italic()),
            Tag::Strong => self.styles.push(BOLD),
            Tag::Strikethrough => self.styles.push(Style::new().strikethrough()),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.link = Some((dest_url.to_string(), self.line.bare().len()));
                self.styles.push(Style::new().underline());
            }
            _ => (),
        }
    }

    fn item(&mut self) {
        self.end_line();
        self.is_apart = false;
        let mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number += 1;
                format!("{}. ", *number - 1)
            }
            _ => "• ".to_owned(),
        };
        let wide = Line::plain(&mark).width();
        let before = self.indent().and(&mark, DIM);
        self.indents.push(Line::plain(&" ".repeat(wide)));
        self.mark = Some(before);
    }

    fn with_table(&mut self, change: fn(&mut table::Table)) {
        if let Some(table) = &mut self.table {
            change(table);
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph => {
                self.end_line();
                self.is_apart = true;
            }
            TagEnd::HtmlBlock => self.end_line(),
            TagEnd::Heading(_) => {
                self.styles.pop();
                self.end_line();
                self.is_apart = true;
            }
            TagEnd::BlockQuote(_) => {
                self.end_line();
                self.styles.pop();
                self.indents.pop();
                self.is_apart = true;
            }
            TagEnd::CodeBlock => {
                self.code = None;
                self.indents.pop();
                self.is_apart = true;
            }
            TagEnd::Item => {
                self.end_line();
                self.indents.pop();
                self.mark = None;
            }
            TagEnd::List(_) => {
                self.lists.pop();
                self.is_apart = self.lists.is_empty();
            }
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    let indent = self.indent();
                    let room = self.columns.saturating_sub(indent.width());
                    for line in table.lines(room) {
                        self.lines.push(Line([indent.0.clone(), line.0].concat()));
                    }
                }
                self.is_apart = true;
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => drop(self.styles.pop()),
            TagEnd::Link | TagEnd::Image => self.end_link(),
            _ => (),
        }
    }

    /// The address of a link, unless it is its text.
    fn end_link(&mut self) {
        self.styles.pop();
        let Some((address, from)) = self.link.take() else { return };
        let is_same = self
            .line
            .bare()
            .get(from..)
            .is_some_and(|text| address.ends_with(text) && !text.is_empty());
        if !is_same && !address.is_empty() {
            self.inline(&format!(" ({address})"), DIM);
        }
    }

    /// An empty line between this and what came before.
    fn begin_block(&mut self) {
        self.end_line();
        if std::mem::take(&mut self.is_apart) && !self.lines.is_empty() && self.mark.is_none() {
            self.lines.push(Line(self.quotations()));
        }
    }

    /// What of the indentation is seen on an empty line.
    fn quotations(&self) -> Vec<Span> {
        let seen = self.indents.iter().rposition(|indent| !indent.bare().trim().is_empty());
        let seen = self.indents.iter().take(seen.map_or(0, |last| last + 1));
        seen.flat_map(|indent| indent.0.clone()).collect()
    }

    fn text(&mut self, text: &str) {
        if let Some(language) = self.code {
            for line in text.lines() {
                self.line = coloured(line, language);
                self.end_line();
            }
            return;
        }
        for (at, line) in text.split('\n').enumerate() {
            if at > 0 {
                self.end_line();
            }
            self.inline(line, Style::new());
        }
    }

    fn inline(&mut self, text: &str, style: Style) {
        let all = self.style();
        let style = Style::new()
            .effects(all.get_effects() | style.get_effects())
            .fg_color(style.get_fg_color().or(all.get_fg_color()));
        match &mut self.table {
            Some(table) => table.text(text, style),
            None => self.line.push(text, style),
        }
    }

    fn end_line(&mut self) {
        if self.line.is_empty()
            && (self.code.is_none() || self.lines.is_empty())
            && self.mark.is_none()
        {
            self.line = Line::default();
            return;
        }
        let indent = self.indent();
        let first = self.mark.take().unwrap_or_else(|| indent.clone());
        let line = Line([first.0, std::mem::take(&mut self.line).0].concat());
        self.lines.extend(line.wrapped(self.columns, &indent));
    }
}

#[cfg(test)]
mod tests;
