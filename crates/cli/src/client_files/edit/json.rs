//! JSON, with comments or without.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstNode, CstObject, CstObjectProp, CstRootNode};
use serde_json::Value;

use super::Problem;

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

/// The text without the entries of a table of which `is_ours` holds, by their name and value, and without the table if it is
/// empty then.
pub(crate) fn remove_json_entries(
    text: &str,
    name: &str,
    is_ours: &dyn Fn(&str, &Value) -> bool,
) -> Result<String, Problem> {
    let (mark, root) = parse(text)?;
    let table = root.object_value();
    let Some(own) = table.as_ref().and_then(|table| last(table, name)) else {
        return Ok(text.to_owned());
    };
    let Some(entries) = own.object_value() else { return Ok(text.to_owned()) };
    let is_own = |entry: &CstObjectProp| {
        let (name, value) = (entry.decoded_name(), entry.to_serde_value());
        name.zip(value).is_some_and(|(name, value)| is_ours(&name, &value))
    };
    let ours: Vec<CstObjectProp> = entries.properties().into_iter().filter(is_own).collect();
    if ours.is_empty() {
        return Ok(text.to_owned());
    }
    ours.into_iter().for_each(CstObjectProp::remove);
    if entries.properties().is_empty() {
        own.remove();
    }
    Ok(format!("{mark}{root}"))
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
    fn entries_of_a_table_are_taken_out_by_name_and_value() {
        let is_ours = |name: &str, value: &Value| name.ends_with("(R)") && value["command"] == "r";
        for (text, expected) in [
            (
                "{\n  // mine\n  \"servers\": {\n    \"A\": {}, // a\n    \"B (R)\": {\"command\": \"r\"}\n  }\n}\n",
                "{\n  // mine\n  \"servers\": {\n    \"A\": {} // a\n  }\n}\n",
            ),
            ("{\"a\": 1, \"servers\": {\"B (R)\": {\"command\": \"r\"}}}", "{\"a\": 1}"),
            (
                "{\"servers\": {\"B (R)\": {\"command\": \"mine\"}}}",
                "{\"servers\": {\"B (R)\": {\"command\": \"mine\"}}}",
            ),
            ("{\"servers\": []}", "{\"servers\": []}"),
        ] {
            assert_eq!(remove_json_entries(text, "servers", &is_ours).unwrap(), expected);
        }
        assert!(remove_json_entries("{", "servers", &is_ours).is_err());
    }
}
