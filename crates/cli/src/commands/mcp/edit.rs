//! Changing one place in a file that others wrote: JSON, with comments or without, and TOML.
//!
//! Everything else stays as it is, comments, order and white space included.

use serde_json::{Map, Value};

/// Why a file is left alone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    #[error("line {line}: {what}")]
    Syntax { line: usize, what: &'static str },
    #[error("{0:?} is not a table")]
    NotATable(String),
    #[error("{0}")]
    Toml(String),
}

/// A part of a document, with its place in the text.
#[derive(Debug)]
struct Node {
    start: usize,
    end: usize,
    /// Members in order, where it is an object.
    members: Option<Vec<(String, Node)>>,
    value: Value,
}

impl Node {
    fn member(&self, key: &str) -> Option<&Node> {
        // The last one counts, as for everybody who reads JSON.
        self.members.as_ref()?.iter().rev().find(|(name, _)| name == key).map(|(_, node)| node)
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
}

impl<'a> Parser<'a> {
    fn problem(&self, what: &'static str) -> Problem {
        let before = &self.text[..self.text.floor_char_boundary(self.at)];
        Problem::Syntax { line: before.matches('\n').count() + 1, what }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Passes over white space and comments.
    fn skip(&mut self) -> Result<(), Problem> {
        loop {
            let trimmed = self.rest().trim_start_matches([' ', '\t', '\r', '\n', '\u{feff}']);
            self.at = self.text.len() - trimmed.len();
            if trimmed.starts_with("//") {
                self.at += trimmed.find('\n').unwrap_or(trimmed.len());
            } else if let Some(comment) = trimmed.strip_prefix("/*") {
                let end =
                    comment.find("*/").ok_or_else(|| self.problem("a comment does not end"))?;
                self.at += end + 4;
            } else {
                return Ok(());
            }
        }
    }

    fn takes(&mut self, token: char) -> bool {
        let is_next = self.rest().starts_with(token);
        self.at += usize::from(is_next);
        is_next
    }

    fn node(&mut self) -> Result<Node, Problem> {
        self.depth += 1;
        if self.depth > 100 {
            return Err(self.problem("it is nested too deeply"));
        }
        self.skip()?;
        let start = self.at;
        let (members, value) = match self.rest().chars().next() {
            Some('{') => {
                let members = self.members()?;
                let value = members.iter().map(|(key, node)| (key.clone(), node.value.clone()));
                let value = Value::Object(value.collect::<Map<_, _>>());
                (Some(members), value)
            }
            Some('[') => (None, self.elements()?),
            Some('"') => (None, Value::String(self.string()?)),
            _ => (None, self.scalar()?),
        };
        self.depth -= 1;
        Ok(Node { start, end: self.at, members, value })
    }

    fn members(&mut self) -> Result<Vec<(String, Node)>, Problem> {
        self.takes('{');
        let mut members = Vec::new();
        loop {
            self.skip()?;
            if self.takes('}') {
                return Ok(members);
            }
            let key = self.string()?;
            self.skip()?;
            if !self.takes(':') {
                return Err(self.problem("a colon is missing"));
            }
            members.push((key, self.node()?));
            self.skip()?;
            if !self.takes(',') && !self.rest().starts_with('}') {
                return Err(self.problem("a comma or } is missing"));
            }
        }
    }

    fn elements(&mut self) -> Result<Value, Problem> {
        self.takes('[');
        let mut elements = Vec::new();
        loop {
            self.skip()?;
            if self.takes(']') {
                return Ok(Value::Array(elements));
            }
            elements.push(self.node()?.value);
            self.skip()?;
            if !self.takes(',') && !self.rest().starts_with(']') {
                return Err(self.problem("a comma or ] is missing"));
            }
        }
    }

    fn string(&mut self) -> Result<String, Problem> {
        if !self.rest().starts_with('"') {
            return Err(self.problem("a text in quotation marks is missing"));
        }
        let mut is_escaped = false;
        let end = self.rest()[1..].find(|c| {
            let is_end = c == '"' && !is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            is_end
        });
        let end = end.ok_or_else(|| self.problem("a text does not end"))?;
        let parsed = serde_json::from_str(&self.rest()[..end + 2]);
        let text = parsed.map_err(|_| self.problem("a text is not valid"))?;
        self.at += end + 2;
        Ok(text)
    }

    fn scalar(&mut self) -> Result<Value, Problem> {
        let ends = |c: char| c.is_whitespace() || ",]}/:".contains(c);
        let length = self.rest().find(ends).unwrap_or(self.rest().len());
        let parsed = serde_json::from_str(&self.rest()[..length]);
        let value = parsed.map_err(|_| self.problem("a value is missing or not valid"))?;
        self.at += length;
        Ok(value)
    }
}

fn parse(text: &str) -> Result<Node, Problem> {
    let mut parser = Parser { text, at: 0, depth: 0 };
    let node = parser.node()?;
    parser.skip()?;
    if parser.at < text.len() {
        return Err(parser.problem("something follows the end"));
    }
    Ok(node)
}

/// The text with a value at a place in it.
pub(super) fn set_json(text: &str, path: &[&str], value: &Value) -> Result<String, Problem> {
    if text.trim_start_matches('\u{feff}').trim().is_empty() {
        return Ok(format!("{:#}\n", nested(path, value)));
    }
    let root = parse(text)?;
    let mut node = &root;
    for (depth, key) in path.iter().enumerate() {
        if node.members.is_none() {
            let name = depth.checked_sub(1).map_or("the whole file", |before| path[before]);
            return Err(Problem::NotATable(name.to_owned()));
        }
        match node.member(key) {
            Some(inner) => node = inner,
            None => return Ok(insert(text, node, key, &nested(&path[depth + 1..], value))),
        }
    }
    if node.value == *value {
        return Ok(text.to_owned());
    }
    let indent = indent_of(text, node.start);
    Ok(format!(
        "{}{}{}",
        &text[..node.start],
        shown(value, &indent, &step(text)),
        &text[node.end..]
    ))
}

fn nested(path: &[&str], value: &Value) -> Value {
    path.iter().rev().fold(value.clone(), |inner, key| {
        Value::Object(Map::from_iter([((*key).to_owned(), inner)]))
    })
}

/// Adds a member at the end of an object.
fn insert(text: &str, object: &Node, key: &str, value: &Value) -> String {
    let step = step(text);
    let closing = object.end - 1;
    let outer = indent_of(text, object.start);
    let last = object.members.as_ref().and_then(|members| members.last()).map(|(_, node)| node.end);
    let inner = format!("{outer}{step}");
    let member = format!("\n{inner}{}: {}", Value::from(key), shown(value, &inner, &step));
    let before = text[..closing].trim_end_matches([' ', '\t', '\r', '\n']).len();
    let Some(last) = last else {
        return format!("{}{member}\n{outer}{}", &text[..before], &text[closing..]);
    };
    // A comma may stand there already, after a comment.
    let mut parser = Parser { text, at: last, depth: 0 };
    let has_comma = parser.skip().is_ok() && parser.takes(',');
    let comma = if has_comma { "" } else { "," };
    let (tail, end) = (&text[last..before.max(last)], if has_comma { "," } else { "" });
    format!("{}{comma}{tail}{member}{end}\n{outer}{}", &text[..last], &text[closing..])
}

/// The white space before the line that a place is in.
fn indent_of(text: &str, at: usize) -> String {
    let line = text[..at].rfind('\n').map_or(0, |end| end + 1);
    text[line..].chars().take_while(|c| matches!(c, ' ' | '\t')).collect()
}

/// How much deeper each level is set in.
fn step(text: &str) -> String {
    let indented =
        text.lines().find(|line| line.starts_with([' ', '\t']) && !line.trim().is_empty());
    let found: String =
        indented.unwrap_or("  ").chars().take_while(|c| matches!(c, ' ' | '\t')).collect();
    if found.len() > 8 { "  ".to_owned() } else { found }
}

/// A value over several lines, set in like what is around it.
fn shown(value: &Value, indent: &str, step: &str) -> String {
    let pretty = format!("{value:#}");
    let mut lines = pretty.lines();
    let mut out = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        let depth = (line.len() - line.trim_start().len()) / 2;
        out.push_str(&format!("\n{indent}{}{}", step.repeat(depth), line.trim_start()));
    }
    out
}

/// The same for TOML: a table with its fields.
pub(super) fn set_toml(text: &str, path: &[&str], value: &Value) -> Result<String, Problem> {
    let unusable = |error: toml_edit::TomlError| Problem::Toml(error.to_string());
    let mut document: toml_edit::DocumentMut = text.parse().map_err(unusable)?;
    let mut table: &mut dyn toml_edit::TableLike = document.as_table_mut();
    for (depth, key) in path.iter().enumerate() {
        let is_last = depth + 1 == path.len();
        let place = table.entry(key).or_insert_with(|| {
            let mut new = toml_edit::Table::new();
            new.set_implicit(!is_last);
            toml_edit::Item::Table(new)
        });
        let problem = || Problem::NotATable((*key).to_owned());
        table = place.as_table_like_mut().ok_or_else(problem)?;
    }
    for (name, value) in value.as_object().into_iter().flatten() {
        let new = toml_value(value);
        let same =
            table.get(name).and_then(|old| old.as_value()).is_some_and(|old| is_same(old, &new));
        if !same {
            table.insert(name, toml_edit::Item::Value(new));
        }
    }
    Ok(document.to_string())
}

fn is_same(old: &toml_edit::Value, new: &toml_edit::Value) -> bool {
    let plain =
        |value: &toml_edit::Value| value.clone().decorated("", "").to_string().replace(' ', "");
    plain(old) == plain(new)
}

fn toml_value(value: &Value) -> toml_edit::Value {
    match value {
        Value::Array(all) => all.iter().map(toml_value).collect::<toml_edit::Array>().into(),
        Value::Bool(is_so) => (*is_so).into(),
        Value::String(text) => text.into(),
        other => other.to_string().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(text: &str, expected: &str) {
        let value = json!({"command": "r", "args": ["mcp"]});
        let changed = set_json(text, &["servers", "rethread"], &value).unwrap();
        assert_eq!(changed, expected);
        let root = parse(&changed).unwrap();
        assert_eq!(root.value["servers"]["rethread"], value);
        let again = set_json(&changed, &["servers", "rethread"], &value).unwrap();
        assert_eq!(again, changed, "a second time changes nothing");
    }

    const ENTRY: &str = "\"rethread\": {\n      \"command\": \"r\",\n      \"args\": [\n        \"mcp\"\n      ]\n    }";

    #[test]
    fn an_empty_file_gets_all_of_it() {
        let expected = format!("{{\n  \"servers\": {{\n    {ENTRY}\n  }}\n}}\n");
        check("", &expected);
        check(" \n", &expected);
        check("{}", expected.trim_end());
        check("{\n}\n", &expected);
    }

    #[test]
    fn comments_order_and_commas_stay() {
        check(
            "{\n  // first\n  \"z\": 1, /* { */\n  \"servers\": {\n    \"a\": {} // last\n  },\n  \"b\": [1, 2,],\n}\n",
            &format!(
                "{{\n  // first\n  \"z\": 1, /* {{ */\n  \"servers\": {{\n    \"a\": {{}}, // last\n    {ENTRY}\n  }},\n  \"b\": [1, 2,],\n}}\n"
            ),
        );
        check(
            "{\n  \"a\": 1,\n}",
            &format!("{{\n  \"a\": 1,\n  \"servers\": {{\n    {ENTRY}\n  }},\n}}"),
        );
        check(
            "{\n  \"servers\": { \"rethread\": {\"command\": \"old\"} }, \"b\": \"\\\"}\"\n}\n",
            "{\n  \"servers\": { \"rethread\": {\n    \"command\": \"r\",\n    \"args\": [\n      \"mcp\"\n    ]\n  } }, \"b\": \"\\\"}\"\n}\n",
        );
    }

    #[test]
    fn what_cannot_be_understood_is_left_alone() {
        let refused =
            |text: &str| set_json(text, &["servers", "x"], &json!(1)).unwrap_err().to_string();
        assert_eq!(refused("{\n  \"a\": \n}"), "line 3: a value is missing or not valid");
        assert_eq!(refused("{\n  \"a\": 1 \"b\": 2}"), "line 2: a comma or } is missing");
        assert_eq!(refused("{} x"), "line 1: something follows the end");
        assert_eq!(refused("{ /* "), "line 1: a comment does not end");
        assert_eq!(refused("[]"), "\"the whole file\" is not a table");
        assert_eq!(refused("{\"servers\": []}"), "\"servers\" is not a table");
        assert_eq!(refused(&"[".repeat(100_000)), "line 1: it is nested too deeply");
    }

    #[test]
    fn toml_keeps_its_comments() {
        let text = "# mine\nmodel = \"x\" # so\n\n[mcp_servers.other]\ncommand = \"o\"\n";
        let value = json!({"command": "r", "args": ["mcp"]});
        let changed = set_toml(text, &["mcp_servers", "rethread"], &value).unwrap();
        assert_eq!(
            changed,
            format!("{text}\n[mcp_servers.rethread]\ncommand = \"r\"\nargs = [\"mcp\"]\n")
        );
        assert_eq!(set_toml(&changed, &["mcp_servers", "rethread"], &value).unwrap(), changed);
        assert!(set_toml("a = ", &["x"], &value).is_err());
        assert!(set_toml("mcp_servers = 1", &["mcp_servers", "rethread"], &value).is_err());
    }
}
