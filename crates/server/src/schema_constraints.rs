//! Adds constraints to the `OpenAPI` document: patterns and lengths of texts and ranges of numbers, so that clients know
//! before sending what the domain will accept.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use utoipa::openapi::OpenApi;

/// A constraint on a text: a regular expression in the syntax that all dialects share, and the maximum length in characters.
/// The domain counts bytes, so a text of non-ASCII characters may have to be shorter.
struct TextConstraint(&'static str, u32);

/// A session's id, or a prefix of it or of its short form.
const SESSION: TextConstraint = TextConstraint(
    "^([0-9a-fA-F]{4,12}|[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12})$",
    36,
);
const UUID: TextConstraint =
    TextConstraint("^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$", 36);
const TOKEN: TextConstraint = TextConstraint("^[0-9a-f]{16}$", 16);
const KEY: TextConstraint = TextConstraint("^[!-~]+$", 200);
const CURSOR: TextConstraint = TextConstraint(
    "^[0-9]{1,16}\\.[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
    53,
);
const KIND: TextConstraint = TextConstraint("^[a-z][a-z0-9-]*$", 32);
/// The name of an agent or a model: no two consecutive dots.
const AGENT: TextConstraint =
    TextConstraint("^[A-Za-z0-9](\\.?[A-Za-z0-9_:@+/ ()\\[\\]-])*\\.?$", 128);
const MESSAGE: TextConstraint = TextConstraint("^[A-Za-z0-9_](\\.?[A-Za-z0-9_:@+=/#-])*\\.?$", 256);
/// At least one visible character, and no NUL.
const TITLE: TextConstraint =
    TextConstraint("^[^\\u0000]*[^\\s\\u0000-\\u001f\\u007f-\\u009f][^\\u0000]*$", 500);
const SAID: TextConstraint = TextConstraint("[^\\s\\u0000-\\u001f\\u007f-\\u009f]", 1 << 20);
/// One line, without invisible characters.
const NAME: TextConstraint = TextConstraint(
    "^[^-.\\s\\u0000-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069]\
     [^\\u0000-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069]*$",
    128,
);
/// The same, without slashes.
const USER: TextConstraint = TextConstraint(
    "^[^-./\\\\\\s\\u0000-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069]\
     [^/\\\\\\u0000-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069]*$",
    128,
);
/// The same, without two consecutive dots.
const CONVERSATION: TextConstraint = TextConstraint(
    "^[^-./\\\\\\s\\u0000-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069]\
     (\\.?[^./\\\\\\u0000-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069])*\\.?$",
    200,
);
const STATUSES: TextConstraint = TextConstraint(
    "^(pending|in_progress|blocked|paused|completed|failed|cancelled)\
     (,(pending|in_progress|blocked|paused|completed|failed|cancelled))*$",
    200,
);

/// Fields of request bodies: schema, field, constraint.
const FIELDS: &[(&str, &str, TextConstraint)] = &[
    ("CreateSession", "kind", KIND),
    ("CreateSession", "title", TITLE),
    ("CreateSession", "agent", AGENT),
    ("CreateSession", "model", AGENT),
    ("RenameSession", "title", TITLE),
    ("NewMessage", "id", MESSAGE),
    ("NewMessage", "conversation", CONVERSATION),
    ("NewMessage", "agent", AGENT),
    ("NewMessage", "model", AGENT),
    ("SendPrompt", "prompt", SAID),
    ("SendPrompt", "agent", AGENT),
    ("SendPrompt", "conversation", CONVERSATION),
    ("SendPrompt", "model", AGENT),
    ("CreateToken", "name", NAME),
    ("CreateToken", "user", USER),
];

/// Parameters: the beginning of the path, the location, the name, and the constraint.
const PARAMETERS: &[(&str, &str, &str, TextConstraint)] = &[
    ("/sessions/{id}", "path", "id", SESSION),
    ("/turns/{id}", "path", "id", UUID),
    ("/tokens/{id}", "path", "id", TOKEN),
    ("/search", "query", "session", SESSION),
    ("", "query", "cursor", CURSOR),
    ("/workflows", "query", "status", STATUSES),
    ("", "header", "Idempotency-Key", KEY),
];

/// The document as JSON.
pub(crate) fn text(document: &OpenApi) -> String {
    let mut value = serde_json::to_value(document).unwrap_or_default();
    let without_needs = without_needs(&value["components"]["schemas"]);
    if let Some(paths) = value["paths"].as_object_mut() {
        for (path, item) in paths {
            for operation in item.as_object_mut().into_iter().flat_map(|item| item.values_mut()) {
                name_apart(operation);
                may_lack_body(operation, &without_needs);
                let parameters = operation.get_mut("parameters").and_then(Value::as_array_mut);
                parameters.into_iter().flatten().for_each(|given| parameter(path, given));
            }
        }
    }
    for (schema, field, form) in FIELDS {
        let at = format!("/components/schemas/{schema}/properties/{field}");
        if let Some(schema) = value.pointer_mut(&at).and_then(Value::as_object_mut) {
            form.write(schema);
        }
    }
    end_numbers(&mut value);
    value.to_string()
}

impl TextConstraint {
    fn write(&self, schema: &mut Map<String, Value>) {
        schema.insert("pattern".to_owned(), self.0.into());
        schema.insert("minLength".to_owned(), 1.into());
        schema.insert("maxLength".to_owned(), self.1.into());
    }
}

/// Operation ids are made from function names, which several subjects share: the subject is put before them.
fn name_apart(operation: &mut Value) {
    let tag = operation["tags"][0].as_str();
    let names = tag.zip(operation["operationId"].as_str());
    if let Some(name) = names.map(|(tag, name)| format!("{tag}_{name}")) {
        operation["operationId"] = name.into();
    }
}

/// References to the schemas that have no required fields.
fn without_needs(schemas: &Value) -> BTreeSet<String> {
    let named = schemas.as_object().into_iter().flatten();
    let optional = named.filter(|(_, schema)| {
        schema["type"] == "object" && schema["required"].as_array().is_none_or(Vec::is_empty)
    });
    optional.map(|(name, _)| format!("#/components/schemas/{name}")).collect()
}

/// If every field of a body is optional, so is the body: see `extract::Json`.
fn may_lack_body(operation: &mut Value, without_needs: &BTreeSet<String>) {
    let Some(body) = operation.get_mut("requestBody") else { return };
    let schema = body.pointer("/content/application~1json/schema/$ref").and_then(Value::as_str);
    if schema.is_some_and(|schema| without_needs.contains(schema)) {
        body["required"] = false.into();
    }
}

fn parameter(path: &str, given: &mut Value) {
    let text = |field: &str| given[field].as_str().unwrap_or_default().to_owned();
    let (place, name) = (text("in"), text("name"));
    let Some(schema) = given.get_mut("schema").and_then(Value::as_object_mut) else { return };
    // Optional parameters are omitted: a query string has no null.
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|one| one != "null");
        if let [one] = types.as_slice() {
            let one = one.clone();
            schema.insert("type".to_owned(), one);
        }
    }
    let is_it = |known: &&(&str, &str, &str, TextConstraint)| {
        path.contains(known.0) && known.1 == place && known.2 == name
    };
    if let Some((.., form)) = PARAMETERS.iter().find(is_it) {
        form.write(schema);
    }
}

/// Gives integers that start at 0 or 1 the maximum of their type.
fn end_numbers(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let most = match fields.get("format").and_then(Value::as_str) {
                Some("int32") => Some(Value::from(u32::MAX)),
                Some("int64") => Some(Value::from(u64::MAX)),
                _ => None,
            };
            if let Some(most) = most
                && fields.get("minimum").is_some_and(|least| least.as_f64() >= Some(0.0))
            {
                // The declared formats are of signed integers, whose maximum differs.
                fields.remove("format");
                fields.entry("maximum").or_insert(most);
            }
            fields.values_mut().for_each(end_numbers);
        }
        Value::Array(items) => items.iter_mut().for_each(end_numbers),
        _ => (),
    }
}
