//! The document says what the server does, and the log says nothing that is nobody's business.

use std::collections::BTreeSet;

use serde_json::json;

use crate::client::Request;
use crate::env::TestEnv;
use crate::routes;
use crate::site::Site;

#[test]
fn what_is_documented_is_there() {
    let site = Site::new();
    let id = site.record("x", &["x"]);
    let document = site.get("/api/v1/openapi.json").is(200).json();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    let documented = routes::documented(&document);
    assert!(documented.len() > 40, "{}", documented.len());
    for route in documented.iter().filter(|route| !route.is_endless()) {
        let answer = route.request(&id).by(&site.token).send(site.address);
        assert!(answer.status < 500, "{route:?} {}", answer.text());
        assert_ne!(answer.status, 405, "{route:?}");
        if answer.status == 404 {
            assert_ne!(answer.code(), "not_found", "{route:?}");
        }
        // The document says that this may come of it.
        let said = &document["paths"][&route.path][route.method.to_lowercase()]["responses"];
        let status = answer.status.to_string();
        assert!(said.get(&status).is_some(), "{route:?} {status} {}", answer.text());
        if answer.status >= 400 {
            assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        }
    }
}

/// The other way round: an address below `/api/` is documented, or it is the document itself.
#[test]
fn what_is_there_is_documented() {
    let site = Site::new();
    let document = site.get("/api/v1/openapi.json").is(200).json();
    let documented: BTreeSet<(String, String)> =
        routes::documented(&document).into_iter().map(|route| (route.method, route.path)).collect();
    for route in routes::named() {
        let is_api = route.path.starts_with("/api/v1/");
        assert!(!is_api || route.path == "/api/v1/openapi.json", "{route:?} is not documented");
    }
    // Methods that are not documented are not known either.
    for path in documented.iter().map(|(_, path)| path).collect::<BTreeSet<_>>() {
        for method in ["GET", "POST", "PATCH", "PUT", "DELETE", "TRACE", "PROPFIND"] {
            if !documented.contains(&(method.to_owned(), path.clone())) {
                let path = path
                    .replace("{id}", "0198aaaa-0000-7000-8000-000000000000")
                    .replace("{seq}", "1")
                    .replace("{snapshot}", "latest");
                let answer = Request::new(method, &path).by(&site.token).send(site.address);
                assert_eq!(answer.is(405).code(), "method_not_allowed", "{method} {path}");
            }
        }
    }
}

#[test]
fn the_log_tells_no_secret() {
    let env = TestEnv::new();
    env.agent("ref", &[]);
    let mut site = Site::within(env, &["--log", "json"]);
    let cookie = site.cookie();
    let id = site.record("hush-title", &["hush-recorded"]);
    let other = site.token_for("bert", "write");
    let said = json!({"messages": [{"role": "user", "content": "hush-message"}]});
    site.post(&format!("/api/v1/sessions/{id}/messages"), &said).is(201);
    let prompt = json!({"prompt": "say: hush-prompt", "agent": "ref"});
    let turn = site.post(&format!("/api/v1/sessions/{id}/prompts"), &prompt).is(202).json();
    let path = format!("/api/v1/turns/{}/events", turn["turn_id"].as_str().unwrap());
    site.get(&path).is(200);
    site.get("/api/v1/search?q=hush-sought").is(200);
    site.get(&format!("/api/v1/nowhere/hush-path?token={}", site.token)).is(404);
    let made = site.post("/api/v1/tokens", &json!({"name": "hush-name", "role": "read"})).is(201);
    let secret = made.json()["secret"].as_str().unwrap().to_owned();
    let page = Request::new("GET", "/?q=hush-page").header("Cookie", &site.as_cookie(&cookie));
    page.send(site.address).is(200);
    Request::new("GET", "/").header("Authorization", "Bearer hush-bearer").send(site.address);
    Request::new("POST", "/login").form("code=hush-code").send(site.address).is(303);
    let mut bad = Request::new("POST", "/api/v1/sessions").by(&site.token);
    bad.body = b"{\"hush-field\": 1}".to_vec();
    bad.header("Content-Type", "application/json").send(site.address).is(422);
    Request::new("hush-method", "/").by(&site.token).send(site.address);
    assert!(site.stop());
    let log = site.said.lock().unwrap().clone();
    let lines: Vec<serde_json::Value> =
        log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let requests = lines.iter().filter(|line| line["event"] == "request");
    assert!(requests.clone().count() > 8, "{log}");
    for request in requests {
        for field in ["at", "request", "method", "route", "status", "ms"] {
            assert!(!request[field].is_null(), "{request}");
        }
    }
    for name in ["login", "login_refused", "token_made", "stopping", "stopped"] {
        assert!(lines.iter().any(|line| line["event"] == name), "{name}: {log}");
    }
    let quiet = log.replace("hush-method", "").to_lowercase();
    assert!(!quiet.contains("hush"), "{log}");
    for secret in [&site.token, &cookie, &other, &secret] {
        assert!(!log.contains(&secret[4..]), "{log}");
    }
}
