//! The origin guard against CSRF and DNS rebinding: a request with a foreign `Host`, or from a page of another site, is refused
//! even with a valid credential. Also sets the security headers of every response.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::extract::is_read;
use crate::problem::Problem;
use crate::state::App;

/// Middleware: refuses requests with a foreign `Host` header, and those that pages of other sites made a browser send.
pub(crate) async fn guard_origin(State(app): State<App>, request: Request, next: Next) -> Response {
    let settings = &app.settings;
    let refusal = wrong_host(&request, &settings.hosts)
        .or_else(|| wrong_origin(request.method(), request.headers(), &settings.origins));
    match refusal {
        Some(problem) => problem.into_response(),
        None => next.run(request).await,
    }
}

fn wrong_host(request: &Request, hosts: &[String]) -> Option<Problem> {
    let is_known = |named: &str| hosts.iter().any(|host| host.eq_ignore_ascii_case(named));
    let mut given = request.headers().get_all(header::HOST).iter();
    let is_named = match (given.next(), given.next()) {
        (Some(host), None) => host.to_str().is_ok_and(is_known),
        _ => false,
    };
    // The host in the request target may differ from the `Host` header: both are checked.
    let is_addressed = request.uri().authority().is_none_or(|own| is_known(own.as_str()));
    let is_ours = is_named && is_addressed;
    (!is_ours).then(|| {
        Problem::new("wrong_host", "this server does not have that name")
            .hint("`rethread serve --host NAME` gives it another name")
    })
}

/// Browsers say which page a request comes from. Plain navigation (a link) may come from anywhere; requests that change
/// something or open a stream must come from our own pages.
fn wrong_origin(method: &Method, headers: &HeaderMap, origins: &[String]) -> Option<Problem> {
    let is_strict = !is_read(method) || headers.contains_key(header::UPGRADE);
    let text = |name: &str| headers.get(name).map(HeaderValue::as_bytes);
    let mut all = headers.get_all(header::ORIGIN).iter();
    let is_foreign = match (all.next(), all.next()) {
        (None, _) => false,
        (Some(origin), None) => !origins.iter().any(|own| own.as_bytes() == origin.as_bytes()),
        _ => true,
    };
    let site = text("sec-fetch-site");
    let is_link = text("sec-fetch-mode") == Some(b"navigate") && !is_strict;
    let is_led = match site {
        None | Some(b"same-origin" | b"none") => false,
        Some(_) => !is_link,
    };
    (is_foreign || is_led)
        .then(|| Problem::new("wrong_origin", "pages of other sites get no answer"))
}

/// Security headers: no scripts but our own, no framing, no content sniffing, no caching.
const SECURITY_HEADERS: &[(&str, &str)] = &[
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
         form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    // With `no-referrer`, browsers send `Origin: null` with our own forms.
    ("referrer-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
];

pub(crate) async fn security_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in SECURITY_HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: &Method, given: &[(&'static str, &'static str)], is_let_in: bool) {
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            headers.append(*name, HeaderValue::from_static(value));
        }
        let own = ["http://127.0.0.1:1".to_owned()];
        assert_eq!(wrong_origin(method, &headers, &own).is_none(), is_let_in, "{method} {given:?}");
    }

    #[test]
    fn only_our_own_pages_change_something() {
        for method in [Method::POST, Method::DELETE, Method::PATCH] {
            check(&method, &[], true);
            check(&method, &[("origin", "http://127.0.0.1:1")], true);
            check(
                &method,
                &[("origin", "http://127.0.0.1:1"), ("sec-fetch-site", "same-origin")],
                true,
            );
            check(&method, &[("origin", "null")], false);
            check(&method, &[("origin", "http://127.0.0.1:2")], false);
            check(&method, &[("origin", "https://127.0.0.1:1")], false);
            check(&method, &[("sec-fetch-site", "cross-site")], false);
            check(&method, &[("sec-fetch-site", "same-site")], false);
            check(
                &method,
                &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")],
                false,
            );
        }
    }

    #[test]
    fn a_link_from_elsewhere_leads_here_but_a_script_does_not() {
        let get = &Method::GET;
        check(get, &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")], true);
        check(get, &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")], false);
        check(get, &[("origin", "https://evil.example")], false);
        check(get, &[("upgrade", "websocket"), ("origin", "https://evil.example")], false);
        check(
            get,
            &[
                ("upgrade", "websocket"),
                ("sec-fetch-site", "cross-site"),
                ("sec-fetch-mode", "navigate"),
            ],
            false,
        );
    }
}
