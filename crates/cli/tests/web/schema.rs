//! The document and the server agree: schemathesis asks for everything that the document names, well and badly.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};

use crate::env::TestEnv;
use crate::outside::{self, succeeded};
use crate::site::Site;
use crate::sockets::until;

const VERSION: &str = "4.32.5";
/// Other seeds ask other things: `RETHREAD_SEED=123 cargo test --test web schema`.
const SEED: &str = "8617";
/// Cases for each operation, beside those that the document's bounds give by themselves.
const EXAMPLES: u32 = 100;
const LEAST_CASES: u64 = 10_000;

/// schemathesis, in an environment of its own, which is made once.
fn schemathesis() -> PathBuf {
    outside::python("schemathesis", &[&format!("schemathesis=={VERSION}")]).join("schemathesis")
}

/// A server that nobody slows down. An agent is only started for what is there before: none has the name that is the default.
fn site() -> Site {
    let env = TestEnv::new();
    env.set("serve", "requests_per_second = 100000\nmax_body_bytes = 1000000");
    env.agent("ref", &[]);
    env.set("workflow", "agent = \"nobody\"");
    env.set("agents.nobody", "command = [\"/nowhere/agent\"]");
    Site::within(env, &[])
}

/// What is there to be asked for: so that requests get further than to a 404. Some of it is deleted, so there is enough.
fn known(site: &Site) -> Value {
    let made = |path: &str, body: &Value, id: &str| {
        let made = site.post(path, body).is(201).json();
        made[id].as_str().unwrap().to_owned()
    };
    let sessions = (0..60).map(|number| {
        let session =
            made("/api/v1/sessions", &json!({"title": format!("{number}")}), "session_id");
        let said = |text: &str| json!({"role": "user", "content": text});
        let said = json!({"messages": [said("The heron has an egg."), said("Why?")]});
        site.post(&format!("/api/v1/sessions/{session}/messages"), &said).is(201);
        session
    });
    let sessions: Vec<String> = sessions.collect();
    let token = json!({"name": "t", "role": "read"});
    let tokens: Vec<String> = (0..8).map(|_| made("/api/v1/tokens", &token, "id")).collect();
    let workflows = (0..2).map(|number| {
        let folder = repository(site, number);
        let order =
            json!({"worktree": folder, "plan": format!("{folder}/PLAN.md"), "agent": "ref", "pause_after": 1});
        made("/api/v1/workflows", &order, "id")
    });
    let workflows: Vec<String> = workflows.collect();
    for id in &workflows {
        until("the workflow is paused", || {
            let workflow = site.get(&format!("/api/v1/workflows/{id}")).is(200).json();
            (workflow["status"] == "paused").then_some(())
        });
        let snapshots = site.get(&format!("/api/v1/workflows/{id}/snapshots")).is(200).json();
        assert_ne!(snapshots["items"], json!([]));
    }
    json!({"sessions": sessions, "tokens": tokens, "workflows": workflows})
}

const PLAN: &str = "# Quick\n\n## Task T1: One\n\ndo: exec: touch one\n\n## Task T2: Two\n- depends on: T1\n\ndo: exec: touch two\n";

/// A folder with a plan, under git.
fn repository(site: &Site, number: u32) -> String {
    let folder = site.env.path(&format!("work-{number}"));
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("PLAN.md"), PLAN).unwrap();
    for args in ["init --quiet -b main", "add PLAN.md", "commit --quiet -m first"] {
        let git = Command::new("git")
            .args(["-c", "user.email=a@example.com", "-c", "user.name=A"])
            .args(args.split(' '))
            .current_dir(&folder)
            .output();
        succeeded(&git.expect("git"), args);
    }
    folder.display().to_string()
}

/// What differs from the usual in what is asked and expected.
fn config(known: &Value) -> String {
    let ids = |name: &str| known[name].to_string();
    format!(
        r#"
hooks = "hooks.py"

[dictionaries.sessions]
values = {sessions}
[dictionaries.tokens]
values = {tokens}
[dictionaries.workflows]
values = {workflows}
[dictionaries.snapshots]
values = ["latest"]

# What was answered is not asked for again: among it are the tokens, and the one that is used would be revoked.
[phases.fuzzing]
extra-data-sources.responses = false
[phases.coverage]
extra-data-sources.responses = false

[[operations]]
include-path-regex = "/sessions/\\{{id\\}}"
parameters = {{ "path.id" = {{ dictionary = "sessions", probability = 0.7 }} }}

[[operations]]
include-path-regex = "/workflows/\\{{id\\}}"
parameters = {{ "path.id" = {{ dictionary = "workflows", probability = 0.7 }}, "path.snapshot" = {{ dictionary = "snapshots", probability = 0.7 }} }}

[[operations]]
include-path-regex = "/tokens/\\{{id\\}}"
parameters = {{ "path.id" = {{ dictionary = "tokens", probability = 0.5 }} }}

# A text of the right form may still name a folder, a plan or an agent that is not there; a file of sessions, where a search
# goes on, and which of two days is the first, cannot be told by a schema.
[[operations]]
include-path-regex = "/(sessions|workflows|import|usage|prompts|fork|resume|retry|search)$"
checks.positive_data_acceptance.expected-statuses = ["2xx", "3xx", "401", "403", "404", "409", "422", "429"]
"#,
        sessions = ids("sessions"),
        tokens = ids("tokens"),
        workflows = ids("workflows"),
    )
}

/// Sessions come a line each, which schemathesis does not know how to send.
const HOOKS: &str = r#"
import schemathesis

schemathesis.serializer.alias("application/x-ndjson", "text/plain")
"#;

fn seed() -> String {
    let seed = std::env::var_os("RETHREAD_SEED").and_then(|seed| seed.into_string().ok());
    seed.unwrap_or_else(|| SEED.to_owned())
}

/// Asks, and gives how many cases there were.
fn asked(
    program: &Path,
    to: SocketAddr,
    folder: &Path,
    name: &str,
    seed: &str,
    more: &[&str],
) -> u64 {
    let examples = EXAMPLES.to_string();
    let report = folder.join(format!("{name}.json"));
    let output = Command::new(program)
        .args(["--config-file", "schemathesis.toml", "run", "openapi.json"])
        .args(["--url", &format!("http://{to}")])
        .args([
            "--checks",
            "all",
            "--phases",
            "examples,coverage,fuzzing,stateful",
            "--workers",
            "1",
        ])
        .args(["--seed", seed, "--max-examples", &examples, "--continue-on-failure"])
        // They do not end: whoever asks for them waits for ever. They have tests of their own.
        .args(["--exclude-path", "/api/v1/events", "--exclude-path", "/api/v1/turns/{id}/events"])
        .args(["--report", "json", "--report-json-path"])
        .arg(&report)
        .args(more)
        .current_dir(folder)
        .output()
        .expect("schemathesis");
    succeeded(&output, &format!("schemathesis {name} a token, seed {seed}"));
    let report = std::fs::read(report).expect("a report");
    let report: Value = serde_json::from_slice(&report).expect("a report");
    report["test_cases"]["generated"].as_u64().expect("a count")
}

#[test]
fn nothing_that_the_document_names_fails_or_surprises() {
    let program = schemathesis();
    let site = site();
    let folder = site.env.path("schema");
    std::fs::create_dir(&folder).unwrap();
    let document = site.get("/api/v1/openapi.json").is(200);
    std::fs::write(folder.join("openapi.json"), &document.body).unwrap();
    std::fs::write(folder.join("schemathesis.toml"), config(&known(&site))).unwrap();
    std::fs::write(folder.join("hooks.py"), HOOKS).unwrap();
    let (address, seed, begun) = (site.address, seed(), Instant::now());
    let bearer = format!("Authorization: Bearer {}", site.token);
    let ask = |name: &str, more: &[&str]| asked(&program, address, &folder, name, &seed, more);
    let (with, without) = std::thread::scope(|scope| {
        // Without a token everything is told to bring one: there is nothing to accept, and no method to be wrong.
        let checks = "unsupported_method,allow_header_conformance,positive_data_acceptance";
        let without = scope.spawn(|| ask("without", &["--exclude-checks", checks]));
        // What was deleted can be read for 30 days, and brought back.
        let with = ["--header", bearer.as_str(), "--exclude-checks", "use_after_free"];
        (ask("with", &with), without.join().unwrap())
    });
    eprintln!("seed {seed}: {with} and {without} cases in {:?}", begun.elapsed());
    assert!(with + without >= LEAST_CASES, "only {with} and {without} cases");
    let said = site.said.lock().unwrap().clone();
    let failed = said.lines().find(|line| line.contains(r#""event":"failure""#));
    assert_eq!(failed, None, "the server failed");
}
