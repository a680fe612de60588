//! The document as it is sent, with the forms of texts and the ends of numbers: what the domain checks, in the words of
//! JSON Schema, so that a client can know before it asks.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use utoipa::openapi::OpenApi;

/// A text that may stand somewhere: a regular expression that all readers of it agree on, and the longest in characters.
/// The domain counts bytes: a text of other characters may end sooner.
struct Form(&'static str, u32);

/// A session's id, or the beginning of it or of its short form.
const SESSION: Form = Form(
    "^([0-9a-fA-F]{1,12}|[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12})$",
    36,
);
const UUID: Form = Form("^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$", 36);
const TOKEN: Form = Form("^[0-9a-f]{16}$", 16);
const KEY: Form = Form("^[!-~]+$", 200);
const CURSOR: Form =
    Form("^[0-9]{1,16}\\.[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$", 53);
const KIND: Form = Form("^[a-z][a-z0-9-]*$", 32);
/// The name of an agent or a model: no two dots follow each other.
const AGENT: Form = Form("^[A-Za-z0-9](\\.?[A-Za-z0-9_:@+/ ()\\[\\]-])*\\.?$", 128);
const MESSAGE: Form = Form("^[A-Za-z0-9_](\\.?[A-Za-z0-9_:@+=/#-])*\\.?$", 256);
/// Something that can be seen, and no NUL.
const TITLE: Form = Form("^[^\\u0000]*[^\\s\\u0000-\\u001f\\u007f-\\u009f][^\\u0000]*$", 500);
const SAID: Form = Form("[^\\s\\u0000-\\u001f\\u007f-\\u009f]", 1 << 20);
/// One line, without marks that nobody sees.
const NAME: Form = Form(
    "^[^-.\\s\\u0000-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069]\
     [^\\u0000-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069]*$",
    128,
);
/// The same without slashes.
const USER: Form = Form(
    "^[^-./\\\\\\s\\u0000-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069]\
     [^/\\\\\\u0000-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069]*$",
    128,
);
/// The same without two dots that follow each other.
const CONVERSATION: Form = Form(
    "^[^-./\\\\\\s\\u0000-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069]\
     (\\.?[^./\\\\\\u0000-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069])*\\.?$",
    200,
);
const STATUSES: Form = Form(
    "^(pending|in_progress|blocked|paused|completed|failed|cancelled)\
     (,(pending|in_progress|blocked|paused|completed|failed|cancelled))*$",
    200,
);

/// Fields of what is sent to us.
const FIELDS: &[(&str, &str, Form)] = &[
    ("Begun", "kind", KIND),
    ("Begun", "title", TITLE),
    ("Begun", "agent", AGENT),
    ("Begun", "model", AGENT),
    ("Renamed", "title", TITLE),
    ("NewMessage", "id", MESSAGE),
    ("NewMessage", "conversation", CONVERSATION),
    ("NewMessage", "agent", AGENT),
    ("NewMessage", "model", AGENT),
    ("Prompt", "prompt", SAID),
    ("Prompt", "agent", AGENT),
    ("Prompt", "conversation", CONVERSATION),
    ("Prompt", "model", AGENT),
    ("Made", "name", NAME),
    ("Made", "user", USER),
];

/// Parameters: a part of the path of those who have it, where it stands, and its name.
const PARAMETERS: &[(&str, &str, &str, Form)] = &[
    ("/sessions/{id}", "path", "id", SESSION),
    ("/turns/{id}", "path", "id", UUID),
    ("/tokens/{id}", "path", "id", TOKEN),
    ("/search", "query", "session", SESSION),
    ("", "query", "cursor", CURSOR),
    ("/workflows", "query", "status", STATUSES),
    ("", "header", "Idempotency-Key", KEY),
];

/// The text of the document.
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

impl Form {
    fn write(&self, schema: &mut Map<String, Value>) {
        schema.insert("pattern".to_owned(), self.0.into());
        schema.insert("minLength".to_owned(), 1.into());
        schema.insert("maxLength".to_owned(), self.1.into());
    }
}

/// Names of operations are those of their functions, which several subjects have: the subject goes before.
fn name_apart(operation: &mut Value) {
    let tag = operation["tags"][0].as_str();
    let names = tag.zip(operation["operationId"].as_str());
    if let Some(name) = names.map(|(tag, name)| format!("{tag}_{name}")) {
        operation["operationId"] = name.into();
    }
}

/// References to the schemas of which every field is optional.
fn without_needs(schemas: &Value) -> BTreeSet<String> {
    let named = schemas.as_object().into_iter().flatten();
    let optional = named.filter(|(_, schema)| {
        schema["type"] == "object" && schema["required"].as_array().is_none_or(Vec::is_empty)
    });
    optional.map(|(name, _)| format!("#/components/schemas/{name}")).collect()
}

/// Where every field of a body is optional, so is the body: see `extract::Json`.
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
    // What may be left out is left out: there is no null behind a question mark.
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|one| one != "null");
        if let [one] = types.as_slice() {
            let one = one.clone();
            schema.insert("type".to_owned(), one);
        }
    }
    let is_it = |known: &&(&str, &str, &str, Form)| {
        path.contains(known.0) && known.1 == place && known.2 == name
    };
    if let Some((.., form)) = PARAMETERS.iter().find(is_it) {
        form.write(schema);
    }
}

/// Whole numbers that begin at 0 or 1 end where their type does.
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
                // The formats are of numbers with a sign: their ends are others.
                fields.remove("format");
                fields.entry("maximum").or_insert(most);
            }
            fields.values_mut().for_each(end_numbers);
        }
        Value::Array(items) => items.iter_mut().for_each(end_numbers),
        _ => (),
    }
}
