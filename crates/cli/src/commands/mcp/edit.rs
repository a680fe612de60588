//! Changing one place in a file that others wrote: JSON, with comments or without, and TOML.
//!
//! Everything else stays as it is, comments, order and white space included.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstObjectProp, CstRootNode};
use serde_json::Value;

/// Why a file is left alone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    #[error("{0}")]
    Syntax(String),
    #[error("{0:?} is not a table")]
    NotATable(String),
}

/// JSON with comments and commas at the end, and nothing else that some programs take.
const SYNTAX: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// The text with a value at a place in it.
pub(super) fn set_json(text: &str, path: &[&str], value: &Value) -> Result<String, Problem> {
    const MARK: &str = "\u{feff}";
    let (mark, text) = text.strip_prefix(MARK).map_or(("", text), |rest| (MARK, rest));
    let text = if text.trim().is_empty() { "" } else { text };
    let root =
        CstRootNode::parse(text, &SYNTAX).map_err(|error| Problem::Syntax(error.to_string()))?;
    let not_a_table = |name: &str| Problem::NotATable(name.to_owned());
    let whole = || not_a_table("the whole file");
    let mut table = root.object_value_or_create().ok_or_else(whole)?;
    let Some((name, tables)) = path.split_last() else { return Err(whole()) };
    for name in tables {
        table = match last(&table, name) {
            Some(inner) => inner.object_value().ok_or_else(|| not_a_table(name))?,
            None => table.object_value_or_set(name),
        };
    }
    match last(&table, name) {
        Some(known) if known.to_serde_value().as_ref() == Some(value) => (),
        Some(known) => known.set_value(input(value)),
        None => {
            table.append(name, input(value));
        }
    }
    Ok(format!("{mark}{root}"))
}

/// The last of that name counts, as for everybody who reads JSON.
fn last(table: &CstObject, name: &str) -> Option<CstObjectProp> {
    let is_called = |one: &CstObjectProp| one.decoded_name().as_deref() == Some(name);
    table.properties().into_iter().rev().find(is_called)
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(is_so) => CstInputValue::Bool(*is_so),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(all) => CstInputValue::Array(all.iter().map(input).collect()),
        Value::Object(all) => CstInputValue::Object(
            all.iter().map(|(name, value)| (name.clone(), input(value))).collect(),
        ),
    }
}

/// The same for TOML: a table with its fields.
pub(super) fn set_toml(text: &str, path: &[&str], value: &Value) -> Result<String, Problem> {
    let unusable = |error: toml_edit::TomlError| Problem::Syntax(error.to_string());
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
        let text = changed.trim_start_matches('\u{feff}');
        let root = CstRootNode::parse(text, &SYNTAX).unwrap().to_serde_value().unwrap();
        assert_eq!(root["servers"]["rethread"], value);
        let again = set_json(&changed, &["servers", "rethread"], &value).unwrap();
        assert_eq!(again, changed, "a second time changes nothing");
    }

    const ENTRY: &str =
        "\"rethread\": {\n      \"command\": \"r\",\n      \"args\": [\"mcp\"]\n    }";

    #[test]
    fn an_empty_file_gets_all_of_it() {
        let expected = format!("{{\n  \"servers\": {{\n    {ENTRY}\n  }}\n}}\n");
        check("", &expected);
        check(" \n", &expected);
        check("{}", expected.trim_end());
        check("{\n}\n", &expected);
        check("\u{feff}{}\n", &format!("\u{feff}{expected}"));
        check("{}\r\n", &expected.replace('\n', "\r\n"));
    }

    #[test]
    fn of_two_that_are_called_the_same_the_last_counts() {
        let text = "{\"a\": 1, \"a\": 2}";
        assert_eq!(set_json(text, &["a"], &json!(3)).unwrap(), "{\"a\": 1, \"a\": 3}");
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
            "{\n  \"servers\": { \"rethread\": {\n      \"command\": \"r\",\n      \"args\": [\"mcp\"]\n    } }, \"b\": \"\\\"}\"\n}\n",
        );
    }

    #[test]
    fn what_cannot_be_understood_is_left_alone() {
        let refused =
            |text: &str| set_json(text, &["servers", "x"], &json!(1)).unwrap_err().to_string();
        for (text, expected) in [
            ("{\n  \"a\": \n}", "Unexpected close brace on line 3 column 1"),
            ("{\n  \"a\": 1 \"b\": 2}", "Expected comma on line 2 column 9"),
            ("{} x", "Text cannot contain more than one JSON value on line 1 column 4"),
            ("{ /* ", "Unterminated comment block on line 1 column 3"),
        ] {
            assert_eq!(refused(text), expected);
        }
        assert!(set_json("{a: 1}", &["b"], &json!(1)).is_err());
        assert!(set_json("{'a': 1}", &["b"], &json!(1)).is_err());
        assert_eq!(refused("[]"), "\"the whole file\" is not a table");
        assert_eq!(refused("{\"servers\": []}"), "\"servers\" is not a table");
        assert!(refused(&"[".repeat(100_000)).contains("nesting depth"));
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
