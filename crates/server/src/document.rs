//! What is true of every operation of the API, written into its document: the problems that it may meet.

use utoipa::openapi::path::Operation;
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, RefOr, ResponseBuilder};
use utoipa::{PartialSchema, ToSchema};

use crate::problem::{Body, CODES};

/// Problems that any request may meet; some say more of what they are about.
fn problems() -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for (code, status, title) in CODES {
        let status = status.as_u16().to_string();
        let line = format!("`{code}`: {title}");
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

/// What a response means of which nothing more is said: every one has to have a description.
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
