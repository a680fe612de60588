//! Problems as pages for people; programs get them as JSON.

use askama::Template;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;

use super::frame::Frame;
use crate::access::AnsweredUser;
use crate::problem::Problem;

#[derive(Template)]
#[template(path = "error_page.html")]
struct ErrorPage {
    frame: Frame,
    status: u16,
    detail: String,
    hint: Option<String>,
    /// Whether to offer the login.
    is_stranger: bool,
}

/// Whether the request comes from a browser that expects a page.
fn wants_page(request: &Request) -> bool {
    let accepts = request.headers().get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let path = request.uri().path();
    let is_ours = !path.starts_with("/api/v1") && !path.starts_with("/metrics");
    is_ours && accepts.is_some_and(|accepts| accepts.contains("text/html"))
}

/// Middleware: turns a problem into a page where a page was requested.
pub(crate) async fn shown(request: Request, next: Next) -> Response {
    let wants_page = wants_page(&request);
    let mut response = next.run(request).await;
    let Some(problem) = response.extensions().get::<Problem>().filter(|_| wants_page) else {
        return response;
    };
    let user = response.extensions().get::<AnsweredUser>().map(|who| who.user.clone());
    if let Ok(text) = of(problem, user).render() {
        // The page has another length than the JSON.
        response.headers_mut().remove(header::CONTENT_LENGTH);
        let kind = HeaderValue::from_static("text/html; charset=utf-8");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        *response.body_mut() = Body::from(text);
    }
    response
}

fn of(problem: &Problem, user: Option<String>) -> ErrorPage {
    ErrorPage {
        status: problem.status().as_u16(),
        detail: problem.detail.clone(),
        hint: problem.hint.clone(),
        is_stranger: user.is_none(),
        frame: Frame::bare(problem.title(), user),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_told_as_text() {
        let problem = Problem::new("not_found", "<script>alert(1)</script>").hint("a & b");
        let text = of(&problem, None).render().unwrap();

        assert!(text.contains("There is no such page"));
        assert!(!text.contains("<script>alert"));
        assert!(text.contains("a &#38; b"), "{text}");
    }
}
