//! The API reference for people, rendered from the `OpenAPI` document.

use askama::Template;
use axum::response::Response;
use rethread_engine::codes::{CODES, Code};
use serde_json::Value;

use super::frame::{Frame, Nav, page};
use crate::access::{Caller, READ, Routes};
use crate::problem::Problem;
use crate::router;

pub(super) fn router() -> Routes {
    Routes::default().get(READ, "/api/docs", reference)
}

/// An operation of the API.
struct Operation {
    method: String,
    path: String,
    summary: String,
    description: String,
    parameters: Vec<Field>,
    body: Vec<Field>,
    answers: Vec<String>,
}

/// A parameter, or a field of a body.
struct Field {
    name: String,
    kind: String,
    place: String,
    is_required: bool,
    description: String,
}

struct Group {
    name: String,
    operations: Vec<Operation>,
}

#[derive(Template)]
#[template(path = "reference.html")]
struct Page {
    frame: Frame,
    groups: Vec<Group>,
    problems: &'static [Code],
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

/// The type of a schema, in a word or two.
fn kind(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return name.to_owned();
    }
    for choice in ["oneOf", "anyOf"] {
        if let Some(all) = schema[choice].as_array() {
            let kinds: Vec<String> = all.iter().map(kind).filter(|kind| kind != "null").collect();
            return kinds.join(" or ");
        }
    }
    if let Some(all) = schema["enum"].as_array() {
        let words: Vec<&str> = all.iter().filter_map(Value::as_str).collect();
        return words.join(" | ");
    }
    let named = match &schema["type"] {
        Value::String(one) => one.clone(),
        Value::Array(several) => {
            let kinds: Vec<&str> =
                several.iter().filter_map(Value::as_str).filter(|kind| *kind != "null").collect();
            kinds.join(" or ")
        }
        _ => "anything".to_owned(),
    };
    match named.as_str() {
        "array" => format!("list of {}", kind(&schema["items"])),
        _ => named,
    }
}

fn parameters(operation: &Value) -> Vec<Field> {
    let all = operation["parameters"].as_array().into_iter().flatten();
    let fields = all.map(|one| Field {
        name: text(one, "name"),
        kind: kind(&one["schema"]),
        place: text(one, "in"),
        is_required: one["required"].as_bool().unwrap_or(false),
        description: text(one, "description"),
    });
    fields.collect()
}

/// The fields of the request body, if it is one of our objects.
fn body(document: &Value, operation: &Value) -> Vec<Field> {
    let mut schema = &operation["requestBody"]["content"]["application/json"]["schema"];
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        schema = &document["components"]["schemas"][name];
    }
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let fields = schema["properties"].as_object().into_iter().flatten();
    let fields = fields.map(|(name, field)| Field {
        name: name.clone(),
        kind: kind(field),
        place: "body".to_owned(),
        is_required: required.contains(&name.as_str()),
        description: text(field, "description"),
    });
    fields.collect()
}

/// The successful responses.
fn answers(operation: &Value) -> Vec<String> {
    let all = operation["responses"].as_object().into_iter().flatten();
    let good = all.filter(|(status, _)| status.starts_with(['1', '2', '3']));
    let told = good.map(|(status, answer)| {
        let contents = answer["content"].as_object().into_iter().flatten();
        let forms: Vec<String> = contents
            .map(|(form, content)| format!("{} ({form})", kind(&content["schema"])))
            .collect();
        if forms.is_empty() { status.clone() } else { format!("{status} {}", forms.join(", ")) }
    });
    told.collect()
}

fn groups(document: &Value) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (path, item) in document["paths"].as_object().into_iter().flatten() {
        for method in ["get", "post", "patch", "put", "delete"] {
            let operation = &item[method];
            if operation.is_null() {
                continue;
            }
            let tag = operation["tags"][0].as_str().unwrap_or("other").to_owned();
            let told = Operation {
                method: method.to_uppercase(),
                path: path.clone(),
                summary: text(operation, "summary"),
                description: text(operation, "description"),
                parameters: parameters(operation),
                body: body(document, operation),
                answers: answers(operation),
            };
            match groups.iter_mut().find(|group| group.name == tag) {
                Some(group) => group.operations.push(told),
                None => groups.push(Group { name: tag, operations: vec![told] }),
            }
        }
    }
    groups
}

async fn reference(caller: Caller) -> Result<Response, Problem> {
    let document = router::document();
    let document = serde_json::to_value(&document).unwrap_or_default();
    page(&Page {
        frame: Frame::new("API", Nav::None, &caller),
        groups: groups(&document),
        problems: CODES,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_of_the_document_is_told() {
        let document = router::document();
        let document = serde_json::to_value(&document).unwrap();
        let told: usize = groups(&document).iter().map(|group| group.operations.len()).sum();
        let paths = document["paths"].as_object().unwrap();
        let there: usize = paths.values().map(|item| item.as_object().unwrap().len()).sum();
        assert_eq!(told, there);
        assert!(told > 40, "{told}");
        for group in groups(&document) {
            for operation in group.operations {
                assert!(!operation.summary.is_empty(), "{} {}", operation.method, operation.path);
                assert!(!operation.answers.is_empty(), "{} {}", operation.method, operation.path);
            }
        }
    }
}
