//! TOML.

use serde_json::Value;

use super::Problem;

/// What a file of TOML holds.
pub(crate) fn toml_as_json(text: &str) -> Result<Value, Problem> {
    let table: ::toml::Table =
        text.parse().map_err(|error: ::toml::de::Error| Problem::Syntax(error.to_string()))?;
    serde_json::to_value(table).map_err(|error| Problem::Syntax(error.to_string()))
}

/// The text with a table at a place in it, field by field.
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
    set_fields(table, value);
    Ok(document.to_string())
}

fn set_fields(table: &mut dyn toml_edit::TableLike, value: &Value) {
    for (name, value) in value.as_object().into_iter().flatten() {
        let new = toml_value(value);
        let same =
            table.get(name).and_then(|old| old.as_value()).is_some_and(|old| is_same(old, &new));
        if !same {
            table.insert(name, toml_edit::Item::Value(new));
        }
    }
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

/// The text with a table in a list of tables (`[[list]]`), which is the one that has the same value in one field.
pub(crate) fn set_toml_in_list(
    text: &str,
    list: &str,
    field: &str,
    value: &Value,
) -> Result<String, Problem> {
    let mut document = parse_toml(text)?;
    let place = document.get_mut(list);
    if place.as_ref().and_then(|item| item.as_array()).is_some_and(toml_edit::Array::is_empty) {
        // `list = []`: the same as none.
        document.remove(list);
    }
    let known = document.get_mut(list).and_then(|item| item.as_array_of_tables_mut());
    let own = value[field].as_str();
    let is_own =
        |table: &&mut toml_edit::Table| table.get(field).and_then(|item| item.as_str()) == own;
    match known.and_then(|list| list.iter_mut().find(is_own)) {
        Some(table) => {
            set_fields(table, value);
            Ok(document.to_string())
        }
        None => add_toml(&document.to_string(), list, value),
    }
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

    #[test]
    fn a_table_of_a_list_is_known_by_one_of_its_fields() {
        let ours = json!({"name": "r", "command": "/r", "args": ["mcp"]});
        let other = "model = \"x\" # so\n\n[[servers]] # mine\nname = \"o\"\n";
        let written =
            format!("{other}\n[[servers]]\nname = \"r\"\ncommand = \"/r\"\nargs = [\"mcp\"]\n");
        let set = |text: &str| set_toml_in_list(text, "servers", "name", &ours);
        assert_eq!(set(other).unwrap(), written);
        assert_eq!(set(&written).unwrap(), written);
        let old = written.replace("/r", "/old/r").replace("args", "timeout = 9 # long\nargs");
        let new = written.replace("args", "timeout = 9 # long\nargs");
        assert_eq!(set(&old).unwrap(), new, "what was added stays");
        assert_eq!(
            set("servers = []\na = 1\n").unwrap(),
            "a = 1\n\n[[servers]]\nname = \"r\"\ncommand = \"/r\"\nargs = [\"mcp\"]\n"
        );
        for refused in ["servers = 7\n", "servers = [{name = \"o\"}]\n", "servers = "] {
            assert!(set(refused).is_err(), "{refused}");
        }
    }
}
