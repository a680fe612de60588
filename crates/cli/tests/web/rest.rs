//! The API: what is written can be read, what is repeated is done once, what does not fit is told.

use serde_json::json;

use crate::client::Request;
use crate::env::TestEnv;
use crate::site::Site;
use crate::sockets::until;

#[test]
fn a_session_is_begun_recorded_read_and_ended() {
    let site = Site::new();
    let made =
        site.post("/api/v1/sessions", &json!({"title": "By hand", "kind": "debug"})).is(201).json();
    let id = made["session_id"].as_str().unwrap();
    let path = |rest: &str| format!("/api/v1/sessions/{id}{rest}");
    let said = json!({"messages": [
        {"role": "user", "content": "Why does it fail?"},
        {"role": "assistant", "content": "The clock is wrong.", "agent": "claude"},
    ]});
    let written = site.post(&path("/messages"), &said).is(201).json();
    assert_eq!(
        written,
        json!({"messages": [{"seq": 1, "is_new": true}, {"seq": 2, "is_new": true}]})
    );
    let read = site.get(&path("/messages?after=0")).is(200).json();
    let texts: Vec<&str> = read["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["content"].as_str().unwrap())
        .collect();
    assert_eq!(texts, ["Why does it fail?", "The clock is wrong."]);
    let found = site.get("/api/v1/search?q=clocks").is(200).json();
    assert_eq!(found["items"][0]["session_id"], id);
    assert_eq!(found["items"][0]["excerpt"], "The **clock** is wrong.");
    let context = site.get(&path("/context?tokens=500")).is(200).json();
    assert!(context["context"].as_str().unwrap().contains("The clock is wrong."));
    assert_eq!(site.post(&path("/pause"), &json!({})).is(200).json()["status"], "paused");
    assert_eq!(site.post(&path("/pause"), &json!({})).is(409).code(), "refused");
    assert_eq!(site.post(&path("/complete"), &json!({})).is(200).json()["status"], "completed");
    assert_eq!(site.post(&path("/messages"), &said).is(409).code(), "session_completed");
    let shown = site.env.run(["show", id]).succeeded();
    assert!(shown.text().contains("The clock is wrong."), "{shown}");
}

#[test]
fn what_is_repeated_with_its_key_is_done_once() {
    let site = Site::new();
    let begin = |key: &str, title: &str| {
        let request = Request::new("POST", "/api/v1/sessions").by(&site.token);
        request.header("Idempotency-Key", key).json(&json!({"title": title})).send(site.address)
    };
    let first = begin("k1", "one").is(201).json();
    assert_eq!(begin("k1", "one").is(201).json()["session_id"], first["session_id"]);
    assert_eq!(begin("k1", "two").is(409).code(), "key_reused");
    assert_ne!(begin("k2", "one").is(201).json()["session_id"], first["session_id"]);
    let path = format!("/api/v1/sessions/{}/messages", first["session_id"].as_str().unwrap());
    let say = |key: &str| {
        let request = Request::new("POST", &path).by(&site.token).header("Idempotency-Key", key);
        request
            .json(&json!({"messages": [{"role": "user", "content": "again"}]}))
            .send(site.address)
    };
    assert_eq!(say("m1").is(201).json()["messages"][0], json!({"seq": 1, "is_new": true}));
    assert_eq!(say("m1").is(201).json()["messages"][0], json!({"seq": 1, "is_new": false}));
    assert_eq!(say("m2").is(201).json()["messages"][0], json!({"seq": 2, "is_new": true}));
}

#[test]
fn names_that_look_like_secrets_are_masked_on_every_page() {
    let site = Site::new();
    // In pieces, so that this line itself is not taken for a leak.
    let secret = ["AKIA", "QYLPMN5HHHFPZAM2"].concat();
    let made = site.post("/api/v1/sessions", &json!({"title": "Names"})).is(201).json();
    let id = made["session_id"].as_str().unwrap();
    let named = format!("on-{secret}");
    let said = json!({"messages": [
        {"role": "assistant", "content": "Hello.", "agent": named, "model": named, "conversation": named},
    ]});
    site.post(&format!("/api/v1/sessions/{id}/messages"), &said).is(201);
    for path in [
        "/usage".to_owned(),
        "/api/v1/usage".to_owned(),
        "/agents".to_owned(),
        "/api/v1/agents/openings".to_owned(),
        format!("/sessions/{id}"),
        format!("/api/v1/sessions/{id}"),
        format!("/api/v1/sessions/{id}/messages"),
        format!("/api/v1/sessions/{id}/context"),
        format!("/api/v1/sessions/{id}/export"),
        "/".to_owned(),
        "/api/v1/sessions".to_owned(),
    ] {
        let told = site.get(&path).is(200).text();
        assert!(!told.contains(&secret), "{path}: {told}");
    }
}

#[test]
fn lists_go_on_where_they_ended() {
    let site = Site::new();
    let mut made: Vec<String> = (0..7).map(|n| site.record(&format!("s{n}"), &["hello"])).collect();
    made.reverse();
    let (mut found, mut next) = (Vec::new(), String::new());
    loop {
        let page = site.get(&format!("/api/v1/sessions?limit=3{next}")).is(200).json();
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= 3);
        found.extend(items.iter().map(|one| one["session_id"].as_str().unwrap().to_owned()));
        let Some(cursor) = page["next"].as_str() else { break };
        next = format!("&cursor={cursor}");
    }
    assert_eq!(found, made);
    assert_eq!(site.get("/api/v1/sessions?cursor=x").is(422).code(), "bad_cursor");
    assert_eq!(site.get("/api/v1/sessions?limit=0").is(422).code(), "limit_not_positive");
    assert_eq!(site.get("/api/v1/sessions?limits=1").is(422).code(), "bad_input");
}

#[test]
fn what_is_known_is_not_sent_again() {
    let site = Site::new();
    let id = site.record("known", &["one"]);
    let path = format!("/api/v1/sessions/{id}");
    let tag = site.get(&path).is(200).header("etag").unwrap().to_owned();
    let again = || {
        Request::new("GET", &path).by(&site.token).header("If-None-Match", &tag).send(site.address)
    };
    assert_eq!(again().is(304).body, b"");
    site.env.run(["rename", &id, "another"]).succeeded();
    assert_eq!(again().is(200).json()["title"], "another");
}

#[test]
fn what_cannot_be_read_is_told() {
    let site = Site::new();
    let post = |kind: &str, body: &str| {
        let mut request =
            Request::new("POST", "/api/v1/sessions").by(&site.token).header("Content-Type", kind);
        request.body = body.as_bytes().to_vec();
        request.send(site.address)
    };
    assert_eq!(post("application/json", "{").is(400).code(), "bad_request");
    assert_eq!(post("application/json", "[]").is(422).code(), "bad_input");
    assert_eq!(post("application/json", r#"{"title": 1}"#).is(422).code(), "bad_input");
    assert_eq!(post("application/json", r#"{"titel": "x"}"#).is(422).code(), "bad_input");
    assert_eq!(post("text/plain", "{}").is(415).code(), "unsupported_media_type");
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(post("application/json", &deep).is(422).code(), "bad_input");
    assert_eq!(
        post("application/json", " [null, null, null, null, null]").is(422).code(),
        "bad_input"
    );
    let long = format!(r#"{{"title": "{}"}}"#, "x".repeat(9 << 20));
    assert_eq!(post("application/json", &long).is(413).code(), "body_too_large");
    let packed = Request::new("POST", "/api/v1/sessions").by(&site.token).json(&json!({}));
    let packed = packed.header("Content-Encoding", "gzip").send(site.address);
    assert_eq!(packed.is(415).code(), "unsupported_media_type");
    assert_eq!(site.get("/api/v1/nowhere").is(404).code(), "not_found");
    assert_eq!(
        Request::new("PUT", "/api/v1/sessions").by(&site.token).send(site.address).is(405).code(),
        "method_not_allowed"
    );
    assert_eq!(site.get("/api/v1/sessions/..%2f..").is(422).code(), "bad_id");
    assert_eq!(
        site.get("/api/v1/sessions/0198aaaa-0000-7000-8000-000000000000").is(404).code(),
        "session_not_found"
    );
}

#[test]
fn nothing_is_begun_in_a_folder_that_is_not_recorded() {
    let env = TestEnv::new();
    env.agent("ref", &[]);
    let folder = env.path("private").display().to_string();
    std::fs::create_dir(&folder).unwrap();
    env.set("record", format!("exclude = [{folder:?}]"));
    let site = Site::within(env, &[]);
    let order = json!({"worktree": folder, "issue": "Do it", "agent": "ref"});
    for (path, asked) in
        [("/api/v1/sessions", json!({"project": folder})), ("/api/v1/workflows", order)]
    {
        let told = site.post(path, &asked).is(422).json();
        assert_eq!(told["code"], "not_recorded", "{told}");
        assert!(told["detail"].as_str().unwrap().ends_with("private are not recorded"), "{told}");
        assert_eq!(site.get(path).is(200).json()["items"], json!([]));
    }
}

#[test]
fn what_is_wrong_with_a_workspace_is_said_once() {
    let env = TestEnv::new();
    env.run(["init"]).succeeded();
    let site = Site::within(env, &[]);
    let project = site.env.path("project");
    std::fs::create_dir_all(project.join("conversations/2026-01-01")).unwrap();
    let spoil = |name: &str| {
        let made = site.env.path("made");
        std::fs::create_dir_all(made.join(".session")).unwrap();
        std::fs::write(made.join(".session/session.json"), "nonsense").unwrap();
        std::fs::rename(made, project.join("conversations/2026-01-01").join(name)).unwrap();
        until(name, || {
            site.get("/api/v1/sessions").is(200);
            site.said.lock().unwrap().contains(name).then_some(())
        });
    };
    spoil("001-chat-first");
    // When the second is told, the first was looked at again.
    spoil("002-chat-second");
    let said = site.said.lock().unwrap();
    let notes: Vec<&str> = said.lines().filter(|line| line.contains("001-chat-first")).collect();
    let mut different = notes.clone();
    different.sort_unstable();
    different.dedup();
    assert_eq!(notes.len(), different.len(), "{said}");
}

#[test]
fn a_search_goes_on_and_finds_nothing_that_is_masked() {
    let site = Site::new();
    let token = format!("rtk_{}", "0a1b2c3d".repeat(8));
    let texts: Vec<String> = (0..60).map(|n| format!("heron {n} has {token}")).collect();
    site.record("Birds", &texts.iter().map(String::as_str).collect::<Vec<_>>());
    let (mut seqs, mut next) = (Vec::new(), String::new());
    loop {
        let page =
            site.get(&format!("/api/v1/search?q=heron&role=user&limit=25{next}")).is(200).json();
        assert_eq!(page["partial"], false);
        for hit in page["items"].as_array().unwrap() {
            assert!(
                hit["excerpt"].as_str().unwrap().contains("[redacted: rethread token]"),
                "{hit}"
            );
            seqs.push(hit["seq"].as_u64().unwrap());
        }
        match page["next"].as_str() {
            Some(cursor) => next = format!("&cursor={cursor}"),
            None => break,
        }
    }
    seqs.sort_unstable();
    assert_eq!(seqs, (1..=60).collect::<Vec<_>>());
    for end in [5, 8, 20, token.len()] {
        for form in ["{}", "{}%2A", "%22{}%22"] {
            let guess = form.replace("{}", &token[..end]);
            let found = site.get(&format!("/api/v1/search?q={guess}")).is(200).json();
            assert_eq!(found, json!({"items": [], "partial": false}), "{guess}");
        }
    }
    assert_eq!(site.get("/api/v1/search?q=heron&cursor=elsewhere").is(422).code(), "bad_cursor");
}

/// What is purged or deleted over HTTP leaves the files that MCP keeps of a session, also of a fork that shares the text.
#[test]
fn what_is_purged_or_deleted_leaves_the_files_of_invoked_sessions() {
    let site = Site::new();
    let id = site.record("Keys", &["The passkey is heron-42", "And on"]);
    let fork = site.env.data(["fork", &id]).trim().to_owned();
    let early = site.env.data(["fork", &id, "--at", "1"]).trim().to_owned();
    let other = site.record("Else", &["Nothing to hide"]);
    let files = |id: &str| {
        let folder = site.env.path(&format!("home/.local/share/rethread/output_streams/{id}"));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("session.log"), "heron-42").unwrap();
        folder
    };
    let [own, of_fork, of_early, of_other] = [&id, &fork, &early, &other].map(|id| files(id));
    let answer = site.post(&format!("/api/v1/sessions/{fork}/messages/1/purge"), &json!({}));
    assert_eq!(answer.status, 200, "{answer:?}");
    let purged = answer.json();
    assert!(purged["remarks"][0].as_str().unwrap().contains("Backups"), "{purged}");
    for folder in [&own, &of_fork, &of_early] {
        assert!(!folder.exists(), "{}", folder.display());
    }
    assert!(of_other.exists());
    let deleted = Request::new("DELETE", &format!("/api/v1/sessions/{other}")).by(&site.token);
    assert_eq!(deleted.send(site.address).status, 200);
    assert!(!of_other.exists());
}
