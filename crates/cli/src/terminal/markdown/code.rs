//! Colours for code: words of the language, texts, numbers, remarks; and diffs. By the line, without a grammar: what a reader
//! looks for is coloured in some two hundred lines, where a grammar for each language would take megabytes.

use anstyle::{AnsiColor, Style};

use super::super::styled::{DIM, Line, colour};

/// How a language is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    /// Words, texts and numbers, with what begins a remark.
    Code {
        remark: &'static str,
    },
    Diff,
    /// As it stands.
    Text,
}

impl Language {
    /// By its name after the fence.
    pub(crate) fn named(name: &str) -> Self {
        let name = name.split([' ', ',', '{']).next().unwrap_or_default().to_lowercase();
        match name.as_str() {
            "" | "text" | "txt" | "plain" | "output" | "console" | "markdown" | "md" => Self::Text,
            "diff" | "patch" => Self::Diff,
            "python" | "py" | "ruby" | "rb" | "sh" | "bash" | "zsh" | "shell" | "fish" | "yaml"
            | "yml" | "toml" | "perl" | "r" | "make" | "makefile" | "dockerfile" | "elixir"
            | "nix" => Self::Code { remark: "#" },
            "sql" | "lua" | "haskell" | "hs" | "ada" | "elm" => Self::Code { remark: "--" },
            "lisp" | "clojure" | "scheme" | "ini" | "asm" => Self::Code { remark: ";" },
            _ => Self::Code { remark: "//" },
        }
    }
}

/// Words that many languages have.
const WORDS: &[&str] = &[
    "abstract",
    "and",
    "as",
    "async",
    "await",
    "begin",
    "bool",
    "boolean",
    "break",
    "case",
    "catch",
    "char",
    "class",
    "const",
    "continue",
    "crate",
    "create",
    "def",
    "default",
    "defer",
    "delete",
    "do",
    "done",
    "drop",
    "dyn",
    "echo",
    "elif",
    "else",
    "elsif",
    "end",
    "enum",
    "esac",
    "except",
    "export",
    "extends",
    "extern",
    "false",
    "fi",
    "final",
    "finally",
    "float",
    "fn",
    "for",
    "from",
    "func",
    "function",
    "go",
    "if",
    "impl",
    "implements",
    "import",
    "in",
    "insert",
    "instanceof",
    "int",
    "interface",
    "into",
    "is",
    "join",
    "lambda",
    "let",
    "local",
    "loop",
    "match",
    "mod",
    "module",
    "move",
    "mut",
    "new",
    "nil",
    "None",
    "not",
    "null",
    "of",
    "on",
    "or",
    "package",
    "pass",
    "private",
    "protected",
    "pub",
    "public",
    "raise",
    "ref",
    "return",
    "select",
    "self",
    "Self",
    "static",
    "str",
    "string",
    "struct",
    "super",
    "switch",
    "table",
    "then",
    "this",
    "throw",
    "trait",
    "true",
    "True",
    "False",
    "try",
    "type",
    "typeof",
    "union",
    "unsafe",
    "update",
    "use",
    "using",
    "values",
    "var",
    "void",
    "where",
    "while",
    "with",
    "yield",
    "SELECT",
    "FROM",
    "WHERE",
    "INSERT",
    "INTO",
    "VALUES",
    "UPDATE",
    "SET",
    "DELETE",
    "CREATE",
    "TABLE",
    "INDEX",
    "JOIN",
    "LEFT",
    "INNER",
    "ON",
    "AND",
    "OR",
    "NOT",
    "NULL",
    "ORDER",
    "GROUP",
    "BY",
    "LIMIT",
    "AS",
    "PRIMARY",
    "KEY",
];

/// A longer line is not looked at closely.
const LONGEST: usize = 2000;

/// A line of code with its colours.
pub(crate) fn coloured(line: &str, language: Language) -> Line {
    match language {
        Language::Text => Line::plain(line),
        Language::Diff => changed(line),
        Language::Code { .. } if line.len() > LONGEST => Line::plain(line),
        Language::Code { remark } => code(line, remark),
    }
}

/// A line of a diff.
pub(crate) fn changed(line: &str) -> Line {
    let style = if line.starts_with('+') {
        colour(AnsiColor::Green)
    } else if line.starts_with('-') {
        colour(AnsiColor::Red)
    } else if line.starts_with("@@") {
        colour(AnsiColor::Cyan)
    } else if line.starts_with(' ') || line.is_empty() {
        Style::new()
    } else {
        DIM
    };
    Line::new(line, style)
}

fn code(line: &str, remark: &str) -> Line {
    let mut out = Line::default();
    let mut rest = line;
    let mut is_after_space = true;
    while let Some(first) = rest.chars().next() {
        let begins_remark = rest.starts_with(remark) && (remark != "#" || is_after_space);
        let (length, style) = if begins_remark {
            (rest.len(), DIM)
        } else if matches!(first, '"' | '\'' | '`') {
            match text_end(rest, first) {
                Some(end) => (end, colour(AnsiColor::Green)),
                None => (first.len_utf8(), Style::new()),
            }
        } else if first.is_ascii_digit() {
            let is_number = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '_';
            (span(rest, is_number), colour(AnsiColor::Yellow))
        } else if is_word(first) {
            let length = span(rest, is_word);
            let is_known = WORDS.contains(&&rest[..length]);
            (length, if is_known { colour(AnsiColor::Magenta) } else { Style::new() })
        } else {
            let is_other =
                |c: char| !is_word(c) && !matches!(c, '"' | '\'' | '`' | '#' | '/' | '-' | ';');
            (span(rest, is_other).max(first.len_utf8()), Style::new())
        };
        let (part, after) = rest.split_at(length);
        is_after_space = part.ends_with(char::is_whitespace);
        out.push(part, style);
        rest = after;
    }
    out
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn span(text: &str, fits: impl Fn(char) -> bool) -> usize {
    text.find(|c| !fits(c)).unwrap_or(text.len())
}

/// Where a text in quotation marks ends, which it does on this line. After a single mark that may be a lifetime or an
/// apostrophe, it has to end soon.
fn text_end(text: &str, mark: char) -> Option<usize> {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if c == mark => return Some(at + c.len_utf8()),
            _ => (),
        }
    }
    None
}
