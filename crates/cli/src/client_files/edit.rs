//! Changing some places in a file that others wrote: JSON, with comments or without, and TOML.
//!
//! Everything else stays as it is, comments, order and white space included.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstNode, CstObject, CstObjectProp, CstRootNode};
use serde_json::Value;

/// Why a file is left alone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Problem {
    #[error("{0}")]
    Syntax(String),
    #[error("{0:?} is not a table")]
    NotATable(String),
    #[error("{0:?} is not a list")]
    NotAList(String),
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
pub(crate) fn set_json(text: &str, path: &[&str], value: &Value) -> Result<String, Problem> {
    let (mark, root) = parse(text)?;
    let Some((name, tables)) = path.split_last() else { return Err(whole()) };
    let table = table_at(&root, tables)?;
    match last(&table, name) {
        Some(known) if known.to_serde_value().as_ref() == Some(value) => (),
        Some(known) => known.set_value(input(value)),
        None => {
            table.append(name, input(value));
        }
    }
    Ok(format!("{mark}{root}"))
}

/// The text with one more item in the list at a place in it.
pub(crate) fn add_json(text: &str, path: &[&str], item: &Value) -> Result<String, Problem> {
    let (mark, root) = parse(text)?;
    let Some((name, tables)) = path.split_last() else { return Err(whole()) };
    let table = table_at(&root, tables)?;
    match last(&table, name) {
        Some(known) => {
            let list = known.array_value().ok_or_else(|| Problem::NotAList((*name).to_owned()))?;
            list.append(input(item));
        }
        None => {
            table.append(name, CstInputValue::Array(vec![input(item)]));
        }
    }
    Ok(format!("{mark}{root}"))
}

/// The text without the items of the lists in a table of which `is_ours` holds, and without what is empty then.
pub(crate) fn remove_json(
    text: &str,
    name: &str,
    is_ours: &dyn Fn(&Value) -> bool,
) -> Result<String, Problem> {
    let (mark, root) = parse(text)?;
    let table = root.object_value();
    let Some(own) = table.as_ref().and_then(|table| last(table, name)) else {
        return Ok(text.to_owned());
    };
    let Some(lists) = own.object_value() else { return Ok(text.to_owned()) };
    let mut has_removed = false;
    for list in lists.properties() {
        let Some(items) = list.array_value() else { continue };
        let all = items.elements();
        let is_own = |item: &CstNode| item.to_serde_value().is_some_and(|value| is_ours(&value));
        let ours: Vec<CstNode> = all.iter().filter(|item| is_own(item)).cloned().collect();
        has_removed |= !ours.is_empty();
        if !ours.is_empty() && ours.len() == all.len() {
            list.remove();
        } else {
            ours.into_iter().for_each(CstNode::remove);
        }
    }
    if has_removed && lists.properties().is_empty() {
        own.remove();
    }
    Ok(if has_removed { format!("{mark}{root}") } else { text.to_owned() })
}

/// What a file of JSON holds, with comments or without.
pub(crate) fn json_value(text: &str) -> Result<Value, Problem> {
    let (_, root) = parse(text)?;
    Ok(root.to_serde_value().unwrap_or_default())
}

/// Refuses what a strict JSON parser does not accept: comments and trailing commas, for example. An empty file is accepted.
pub(crate) fn check_strict_json(text: &str) -> Result<(), Problem> {
    let text = text.trim_start_matches('\u{feff}');
    if text.trim().is_empty() {
        return Ok(());
    }
    let parsed = serde_json::from_str::<serde::de::IgnoredAny>(text);
    parsed.map(drop).map_err(|error| Problem::Syntax(error.to_string()))
}

/// What a file of TOML holds.
pub(crate) fn toml_as_json(text: &str) -> Result<Value, Problem> {
    let table: toml::Table =
        text.parse().map_err(|error: toml::de::Error| Problem::Syntax(error.to_string()))?;
    serde_json::to_value(table).map_err(|error| Problem::Syntax(error.to_string()))
}

/// The mark at the beginning of some files, and what the text says.
fn parse(text: &str) -> Result<(&'static str, CstRootNode), Problem> {
    const MARK: &str = "\u{feff}";
    let (mark, text) = text.strip_prefix(MARK).map_or(("", text), |rest| (MARK, rest));
    let text = if text.trim().is_empty() { "" } else { text };
    let root =
        CstRootNode::parse(text, &SYNTAX).map_err(|error| Problem::Syntax(error.to_string()))?;
    Ok((mark, root))
}

fn whole() -> Problem {
    Problem::NotATable("the whole file".to_owned())
}

/// The table at a place, made where there is none.
fn table_at(root: &CstRootNode, path: &[&str]) -> Result<CstObject, Problem> {
    let mut table = root.object_value_or_create().ok_or_else(whole)?;
    for name in path {
        let not_a_table = || Problem::NotATable((*name).to_owned());
        table = match last(&table, name) {
            Some(inner) => inner.object_value().ok_or_else(not_a_table)?,
            None => table.object_value_or_set(name),
        };
    }
    Ok(table)
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
pub(crate) fn set_toml(text: &str, path: &[&str], value: &Value) -> Result<String, Problem> {
    let mut document = parse_toml(text)?;
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

/// The text with one more table in a list of tables (`[[name]]`).
pub(crate) fn add_toml(text: &str, name: &str, item: &Value) -> Result<String, Problem> {
    let mut document = parse_toml(text)?;
    let place = document
        .entry(name)
        .or_insert_with(|| toml_edit::Item::ArrayOfTables(toml_edit::ArrayOfTables::new()));
    let list = place.as_array_of_tables_mut().ok_or_else(|| Problem::NotAList(name.to_owned()))?;
    let mut table = toml_edit::Table::new();
    for (name, value) in item.as_object().into_iter().flatten() {
        table.insert(name, toml_edit::Item::Value(toml_value(value)));
    }
    list.push(table);
    Ok(document.to_string())
}

/// The text without the tables of a list of which `is_ours` holds, by one of their texts.
pub(crate) fn remove_toml(
    text: &str,
    name: &str,
    field: &str,
    is_ours: &dyn Fn(&str) -> bool,
) -> Result<String, Problem> {
    let mut document = parse_toml(text)?;
    let Some(list) = document.get_mut(name).and_then(|item| item.as_array_of_tables_mut()) else {
        return Ok(text.to_owned());
    };
    let before = list.len();
    let value = |table: &toml_edit::Table| table.get(field)?.as_str().map(str::to_owned);
    list.retain(|table| !value(table).is_some_and(|value| is_ours(&value)));
    let after = list.len();
    if after == before {
        return Ok(text.to_owned());
    }
    if after == 0 {
        document.remove(name);
    }
    Ok(document.to_string())
}

fn parse_toml(text: &str) -> Result<toml_edit::DocumentMut, Problem> {
    text.parse().map_err(|error: toml_edit::TomlError| Problem::Syntax(error.to_string()))
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
        Value::Number(number) if number.is_i64() => number.as_i64().unwrap_or(0).into(),
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

    #[test]
    fn what_is_added_to_a_list_can_be_taken_out_again() {
        let ours = json!({"command": "rethread hook"});
        let is_ours = |item: &Value| *item == ours;
        for (text, expected) in [
            ("{\n  \"hooks\": {\n    \"Stop\": [{\"command\": \"mine\"}] // so\n  }\n}\n", None),
            ("{\n  // first\n  \"model\": \"x\"\n}\n", None),
            ("{\"hooks\": {\"Start\": []}}", Some("{\"hooks\": {\"Start\": []}}")),
        ] {
            let added = add_json(text, &["hooks", "Stop"], &ours).unwrap();
            let root = CstRootNode::parse(&added, &SYNTAX).unwrap().to_serde_value().unwrap();
            let stop = root["hooks"]["Stop"].as_array().unwrap();
            assert_eq!(stop.last(), Some(&ours), "{added}");
            let removed = remove_json(&added, "hooks", &is_ours).unwrap();
            let parsed = |text: &str| CstRootNode::parse(text, &SYNTAX).unwrap().to_serde_value();
            assert_eq!(parsed(&removed), parsed(expected.unwrap_or(text)), "{removed}");
            assert_eq!(remove_json(&removed, "hooks", &is_ours).unwrap(), removed);
        }
        for refused in ["{\"hooks\": []}", "{\"hooks\": {\"Stop\": 7}}", "[]", "{"] {
            assert!(add_json(refused, &["hooks", "Stop"], &ours).is_err(), "{refused}");
        }
    }

    #[test]
    fn tables_are_added_to_a_list_and_taken_out_again() {
        let text =
            "# mine\nmodel = \"x\"\n\n[[hooks]] # first\nevent = \"Stop\"\ncommand = \"mine\"\n";
        let ours = json!({"event": "Stop", "command": "rethread hook", "timeout": 10});
        let added = add_toml(text, "hooks", &ours).unwrap();
        assert_eq!(
            added,
            format!(
                "{text}\n[[hooks]]\nevent = \"Stop\"\ncommand = \"rethread hook\"\ntimeout = 10\n"
            )
        );
        let is_ours = |command: &str| command.starts_with("rethread");
        assert_eq!(remove_toml(&added, "hooks", "command", &is_ours).unwrap(), text);
        assert_eq!(remove_toml(text, "hooks", "command", &is_ours).unwrap(), text);
        let alone = add_toml("a = 1\n", "hooks", &ours).unwrap();
        assert_eq!(remove_toml(&alone, "hooks", "command", &is_ours).unwrap(), "a = 1\n");
        assert!(add_toml("hooks = 1", "hooks", &ours).is_err());
        assert!(add_toml("a = ", "hooks", &ours).is_err());
    }
}
