//! Renders the Markdown of messages as safe HTML. All tags are ours: HTML in the text is shown as text.

use pulldown_cmark::{Event, LinkType, Options, Parser, Tag};

/// Beyond this nesting depth, text is rendered without further block elements: browsers handle very deep trees badly.
const DEEPEST: usize = 16;

/// Renders untrusted text as HTML that cannot run or load anything.
pub(crate) fn html(text: &str) -> String {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut writer = Writer { out: String::with_capacity(text.len() * 5 / 4), ..Writer::default() };
    for event in Parser::new_ext(text, options) {
        writer.take(event);
    }
    writer.out
}

/// Escapes a text for use in an element and in a quoted attribute.
pub(crate) fn escape(text: &str, out: &mut String) {
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\0' => out.push('\u{fffd}'),
            _ => out.push(letter),
        }
    }
}

/// The target of a link, if it is allowed: `http`, `https` or `mailto`.
fn address(kind: LinkType, given: &str) -> Option<String> {
    let given = given.trim();
    let full = if kind == LinkType::Email { format!("mailto:{given}") } else { given.to_owned() };
    let is_plain = !full.chars().any(|letter| letter.is_control() || letter.is_whitespace());
    let scheme = full.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
    let is_known = matches!(scheme.as_deref(), Some("http" | "https" | "mailto"));
    (is_plain && is_known).then_some(full)
}

#[derive(Default)]
struct Writer {
    out: String,
    /// The closing tag of each open element.
    open: Vec<&'static str>,
    /// Whether a link is open: links do not nest.
    links: usize,
    is_head: bool,
}

impl Writer {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(&tag),
            Event::End(_) => self.end(),
            Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.out.push_str("<code>");
                escape(&text, &mut self.out);
                self.out.push_str("</code>");
            }
            Event::Text(text)
            | Event::Html(text)
            | Event::InlineHtml(text)
            | Event::FootnoteReference(text) => escape(&text, &mut self.out),
            // Line breaks in messages are meant, so they are kept.
            Event::SoftBreak | Event::HardBreak => self.out.push_str("<br>\n"),
            Event::Rule => self.out.push_str("<hr>\n"),
            Event::TaskListMarker(is_done) => {
                self.out.push_str(if is_done { "☑ " } else { "☐ " });
            }
        }
    }

    fn start(&mut self, tag: &Tag<'_>) {
        let is_deep = self.open.len() >= DEEPEST;
        let close = if is_deep { "" } else { self.begin(tag) };
        self.links += usize::from(close == "</a>");
        self.open.push(close);
    }

    fn end(&mut self) {
        let close = self.open.pop().unwrap_or_default();
        self.links -= usize::from(close == "</a>");
        if close == "</tr>" {
            self.is_head = false;
        }
        self.out.push_str(close);
        if !matches!(close, "</a>" | "</em>" | "</strong>" | "</del>" | "") {
            self.out.push('\n');
        }
    }

    /// Opens a tag and returns the tag that closes it.
    fn begin(&mut self, tag: &Tag<'_>) -> &'static str {
        let (open, close) = match tag {
            Tag::Paragraph | Tag::HtmlBlock => ("<p>", "</p>"),
            // The page itself uses the first two levels of headings.
            Tag::Heading { level, .. } => match *level as usize {
                1 => ("<h3>", "</h3>"),
                2 => ("<h4>", "</h4>"),
                3 => ("<h5>", "</h5>"),
                _ => ("<h6>", "</h6>"),
            },
            Tag::BlockQuote(_) => ("<blockquote>", "</blockquote>"),
            // There is no syntax highlighting, so the language is not needed.
            Tag::CodeBlock(_) => ("<pre><code>", "</code></pre>"),
            Tag::List(Some(1)) => ("<ol>", "</ol>"),
            Tag::List(Some(first)) => {
                self.out.push_str(&format!("<ol start=\"{}\">", (*first).min(999_999_999)));
                return "</ol>";
            }
            Tag::List(None) => ("<ul>", "</ul>"),
            Tag::Item => ("<li>", "</li>"),
            Tag::Table(_) => ("<table>", "</table>"),
            Tag::TableHead => {
                self.is_head = true;
                ("<tr>", "</tr>")
            }
            Tag::TableRow => ("<tr>", "</tr>"),
            Tag::TableCell if self.is_head => ("<th>", "</th>"),
            Tag::TableCell => ("<td>", "</td>"),
            Tag::Emphasis => ("<em>", "</em>"),
            Tag::Strong => ("<strong>", "</strong>"),
            Tag::Strikethrough => ("<del>", "</del>"),
            Tag::Link { link_type, dest_url, .. } => return self.link(*link_type, dest_url, ""),
            Tag::Image { link_type, dest_url, .. } => {
                return self.link(*link_type, dest_url, "Image: ");
            }
            _ => ("", ""),
        };
        self.out.push_str(open);
        close
    }

    /// Images become links: nothing is fetched from other hosts unless the reader clicks.
    fn link(&mut self, kind: LinkType, to: &str, before: &str) -> &'static str {
        let to = address(kind, to).filter(|_| self.links == 0);
        let Some(to) = to else {
            self.out.push_str(before);
            return "";
        };
        self.out.push_str("<a href=\"");
        escape(&to, &mut self.out);
        self.out.push_str("\" rel=\"noopener noreferrer nofollow\">");
        self.out.push_str(before);
        "</a>"
    }
}

#[cfg(test)]
mod tests;
