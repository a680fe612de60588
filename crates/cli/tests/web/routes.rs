//! Every address that the server knows: those that its document names, and those that its sources name beside it.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::client::Request;
use crate::site::Site;

/// What needs no credential.
pub(crate) const OPEN: [&str; 4] = ["/healthz", "/readyz", "/login", "/assets/{name}"];

/// An address with a method.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Route {
    pub(crate) method: String,
    /// With the names of its parts in braces.
    pub(crate) path: String,
    /// What has to stand behind the question mark.
    query: String,
    /// What has to be sent at least.
    body: Option<String>,
    kind: String,
}

impl Route {
    pub(crate) fn is_read(&self) -> bool {
        self.method == "GET"
    }

    pub(crate) fn is_open(&self) -> bool {
        OPEN.contains(&self.path.as_str())
    }

    pub(crate) fn is_for_admins(&self) -> bool {
        let folders = ["/api/v1/tokens", "/api/v1/store", "/api/v1/import", "/metrics"];
        folders.into_iter().any(|folder| self.path.starts_with(folder))
    }

    /// A stream that does not end by itself.
    pub(crate) fn is_endless(&self) -> bool {
        self.path == "/api/v1/events"
    }

    /// A request that fits, about this id.
    pub(crate) fn request(&self, id: &str) -> Request {
        let mut path = self.path.clone();
        for (part, value) in [
            ("{id}", id),
            ("{seq}", "1"),
            ("{snapshot}", "latest"),
            ("{what}", if self.path.starts_with("/workflows") { "cancel" } else { "archive" }),
            ("{name}", "x"),
        ] {
            path = path.replace(part, value);
        }
        assert!(!path.contains('{'), "what stands for the parts of {path}?");
        let mut request = Request::new(&self.method, &(path + &self.query));
        if let Some(body) = &self.body {
            request.body = body.clone().into_bytes();
            request = request.header("Content-Type", &self.kind);
        }
        request
    }
}

/// All of them.
pub(crate) fn all(site: &Site) -> Vec<Route> {
    let mut all = documented(&site.get("/api/v1/openapi.json").is(200).json());
    all.extend(named());
    all.sort();
    all.dedup();
    assert!(all.len() > 60, "{}", all.len());
    all
}

/// Those of the document.
pub(crate) fn documented(document: &Value) -> Vec<Route> {
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let content = operation["requestBody"]["content"].as_object();
            let body = content.and_then(|content| content.iter().next());
            found.push(Route {
                method: method.to_uppercase(),
                path: path.clone(),
                query: query(document, operation),
                kind: body.map_or_else(String::new, |(kind, _)| kind.clone()),
                body: body.map(|(_, about)| least(document, &about["schema"]).to_string()),
            });
        }
    }
    found
}

fn query(document: &Value, operation: &Value) -> String {
    let all = operation["parameters"].as_array().cloned().unwrap_or_default();
    let needed = all.iter().filter(|one| one["in"] == "query" && one["required"] == true);
    let pairs: Vec<String> = needed
        .map(|one| {
            let value = match least(document, &one["schema"]) {
                Value::String(text) => text,
                other => other.to_string(),
            };
            format!("{}={value}", one["name"].as_str().unwrap())
        })
        .collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

/// The least that fits a schema.
fn least(document: &Value, schema: &Value) -> Value {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.rsplit('/').next().unwrap();
        return least(document, &document["components"]["schemas"][name]);
    }
    for several in ["oneOf", "anyOf", "allOf"] {
        if let Some(one) = schema[several].as_array().and_then(|all| all.last()) {
            return least(document, one);
        }
    }
    if let Some(one) = schema["enum"].as_array().and_then(|all| all.first()) {
        return one.clone();
    }
    match schema["type"].as_str() {
        Some("string") => json!("x"),
        Some("integer" | "number") => json!(1),
        Some("boolean") => json!(false),
        Some("array") => json!([least(document, &schema["items"])]),
        _ => {
            let needed = schema["required"].as_array().cloned().unwrap_or_default();
            let fields = needed.iter().map(|name| {
                let name = name.as_str().unwrap();
                (name.to_owned(), least(document, &schema["properties"][name]))
            });
            Value::Object(fields.collect::<Map<_, _>>())
        }
    }
}

/// Those that the sources name by hand: pages, and what is for whoever keeps the server.
pub(crate) fn named() -> Vec<Route> {
    let mut found = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.extend(in_source(&std::fs::read_to_string(path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

/// Each is added with what it needs, its path and its page: `.get(READ, "/usage", page)`.
fn in_source(text: &str) -> Vec<Route> {
    let mut found = Vec::new();
    for method in ["get", "post"] {
        for need in ["OPEN", "READ", "WRITE", "ADMIN", "STREAM"] {
            for call in text.split(&format!(".{method}({need}, \"")).skip(1) {
                let path = call.split('"').next().unwrap();
                // More fields than one form has: what is unknown to a form is passed over.
                let fields = "title=x&prompt=x&turn=x&question=1&option=1&reason=x&code=x&at=&issue=x&task=&from=&with=";
                found.push(Route {
                    method: method.to_uppercase(),
                    path: path.to_owned(),
                    query: if path.ends_with("/compare") { "?from=1&to=2" } else { "" }.to_owned(),
                    body: (method == "post").then(|| fields.to_owned()),
                    kind: "application/x-www-form-urlencoded".to_owned(),
                });
            }
        }
    }
    found
}

/// Secrets that let nobody in, and the headers in which they are given.
pub(crate) fn wrong_credentials(site: &Site) -> Vec<(&'static str, Vec<(&'static str, String)>)> {
    let bearer = |secret: &str| ("Authorization", format!("Bearer {secret}"));
    let cookie = |secret: &str| ("Cookie", site.as_cookie(secret));
    let (expired, revoked) = (site.token_for("anna", "admin"), site.token_for("anna", "admin"));
    let known = site.env.json(["token", "list"]);
    // The newest come first.
    let id = |n: usize| known[n]["id"].as_str().unwrap().to_owned();
    site.env.run(["token", "revoke", &id(0)]).succeeded();
    site.env.change_store(&format!("update token set expires_at = 1 where id = '{}'", id(1)));
    let good = &site.token;
    let (browser, link) = (site.cookie(), site.code());
    vec![
        ("none", vec![]),
        ("wrong", vec![bearer(&format!("rtk_{}", "0".repeat(64)))]),
        ("cut off", vec![bearer(&good[..good.len() - 1])]),
        ("in capitals", vec![bearer(&good.to_uppercase())]),
        ("no scheme", vec![("Authorization", good.clone())]),
        ("another scheme", vec![("Authorization", format!("Basic {good}"))]),
        ("empty", vec![("Authorization", "Bearer ".to_owned())]),
        ("two", vec![bearer(good), bearer(good)]),
        ("expired", vec![bearer(&expired)]),
        ("revoked", vec![bearer(&revoked)]),
        ("a link", vec![bearer(&link)]),
        ("a link as a cookie", vec![cookie(&link)]),
        ("a cookie as a token", vec![bearer(&browser)]),
        ("a token as a cookie", vec![cookie(good)]),
        ("nonsense before a cookie", vec![("Authorization", "x".to_owned()), cookie(&browser)]),
    ]
}
