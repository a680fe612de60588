//! Completes the `OpenAPI` document: the problems that every operation may answer with.

use rethread_engine::codes::CODES;
use utoipa::openapi::path::Operation;
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, RefOr, ResponseBuilder};
use utoipa::{PartialSchema, ToSchema};

use crate::problem::Body;

/// The problems that any request may get, with their meaning.
fn problems() -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for code in CODES {
        let status = code.status.to_string();
        let line = format!("`{}`: {}", code.name, code.title);
        match all.iter_mut().find(|(known, _)| *known == status) {
            Some((_, lines)) => {
                lines.push_str("  \n");
                lines.push_str(&line);
            }
            None => all.push((status, line)),
        }
    }
    all
}

pub(crate) fn complete(document: &mut OpenApi) {
    let components = document.components.get_or_insert_default();
    components.schemas.insert("Problem".to_owned(), Body::schema());
    let mut more = Vec::new();
    Body::schemas(&mut more);
    components.schemas.extend(more);
    let problems = problems();
    for item in document.paths.paths.values_mut() {
        let operations =
            [&mut item.get, &mut item.post, &mut item.patch, &mut item.delete, &mut item.put];
        for operation in operations.into_iter().flatten() {
            describe(operation, &problems);
        }
    }
}

/// The description of a response that has none of its own: `OpenAPI` requires one.
fn meaning(status: &str) -> &'static str {
    match status {
        "101" => "Events follow over a WebSocket",
        "201" => "It is made",
        "202" => "It is taken on, and goes on",
        "304" => "It is as it was",
        _ => "It is done",
    }
}

fn describe(operation: &mut Operation, problems: &[(String, String)]) {
    for (status, response) in &mut operation.responses.responses {
        if let RefOr::T(response) = response
            && response.description.is_empty()
        {
            meaning(status).clone_into(&mut response.description);
        }
    }
    for (status, text) in problems {
        let schema = RefOr::Ref(Ref::from_schema_name("Problem"));
        let content = ContentBuilder::new().schema(Some(schema)).build();
        let response = ResponseBuilder::new()
            .description(text.as_str())
            .content("application/problem+json", content)
            .build();
        operation.responses.responses.entry(status.clone()).or_insert(RefOr::T(response));
    }
}
