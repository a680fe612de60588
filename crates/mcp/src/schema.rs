//! The input schemas of tools, in a form that every client accepts.

use std::sync::Arc;

use rmcp::handler::server::tool::schema_for_input;
use rmcp::model::JsonObject;
use schemars::JsonSchema;
use serde_json::{Map, Value};

/// The schema of a tool's arguments. Some clients require `properties` even if empty, and warn about each `format` that JSON
/// Schema does not define, such as `uint32`.
pub(crate) fn of<T: JsonSchema + 'static>() -> Arc<JsonObject> {
    // All of our argument types are objects.
    let derived = schema_for_input::<T>().unwrap_or_default();
    let mut schema = Arc::unwrap_or_clone(derived);
    schema.entry("properties").or_insert_with(|| Map::new().into());
    schema.values_mut().for_each(without_number_formats);
    Arc::new(schema)
}

fn without_number_formats(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            // A property may itself be called "format": its schema is an object.
            if fields.get("format").is_some_and(Value::is_string) {
                fields.shift_remove("format");
            }
            fields.values_mut().for_each(without_number_formats);
        }
        Value::Array(items) => items.iter_mut().for_each(without_number_formats),
        _ => (),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: &Value, tool: &str) {
        match value {
            Value::Object(fields) => {
                assert!(!fields.get("format").is_some_and(Value::is_string), "{tool}: {value}");
                fields.values().for_each(|one| check(one, tool));
            }
            Value::Array(items) => items.iter().for_each(|one| check(one, tool)),
            _ => (),
        }
    }

    #[test]
    fn every_tool_has_properties_and_no_format_that_clients_do_not_know() {
        let tools = crate::tools::list();
        assert!(tools.len() >= 20);
        for tool in tools {
            let schema = Value::Object(tool.input_schema.as_ref().clone());
            assert!(schema["properties"].is_object(), "{}: {schema}", tool.name);
            assert_eq!(schema["type"], "object", "{}", tool.name);
            check(&schema, &tool.name);
            // What numbers may be is still said.
            if tool.name == "list_sessions" {
                assert_eq!(schema["properties"]["limit"]["minimum"], 0, "{schema}");
            }
        }
    }
}
