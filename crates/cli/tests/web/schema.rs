//! The document and the server agree: schemathesis asks for everything that the document names, well and badly.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

use serde_json::{Value, json};

use crate::env::TestEnv;
use crate::site::Site;

const VERSION: &str = "4.32.5";
/// Other seeds ask other things: `RETHREAD_SEED=123 cargo test --test web schema`.
const SEED: &str = "8617";
/// Cases for each operation, beside those that the document's bounds give by themselves.
const EXAMPLES: u32 = 150;
const LEAST_CASES: u64 = 10_000;

/// schemathesis, in an environment of its own that is made once.
fn schemathesis() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("schemathesis-{VERSION}"));
    let program = folder.join("bin/schemathesis");
    if !program.exists() {
        let made = Command::new("python3").args(["-m", "venv"]).arg(&folder).output();
        succeeded(&made.expect("python3"), "python3 -m venv; is python3-venv installed?");
        let wanted = format!("schemathesis=={VERSION}");
        let pip = Command::new(folder.join("bin/pip")).args(["install", "-q", &wanted]).output();
        succeeded(&pip.expect("pip"), "pip install");
    }
    program
}

fn succeeded(output: &Output, what: &str) {
    let (said, told) = (&output.stdout, &output.stderr);
    let text =
        || String::from_utf8_lossy(&[said.as_slice(), told.as_slice()].concat()).into_owned();
    assert!(output.status.success(), "{what}\n{}", text());
}

/// A server that nobody slows down, and on which no agent can be started: none has the name that is the default.
fn site() -> Site {
    let env = TestEnv::new();
    env.set("serve", "requests_per_second = 100000\nmax_body_bytes = 1000000");
    env.set("workflow", "agent = \"nobody\"");
    env.set("agents.nobody", "command = [\"/nowhere/agent\"]");
    Site::within(env, &[])
}

/// What is there to be asked for: so that requests get further than to a 404.
fn known(site: &Site) -> Value {
    let mut sessions = Vec::new();
    for title in ["one", "two", "three", "four", "five", "six"] {
        sessions.push(site.record(title, &["The heron has an egg.", "Why?", "It is spring."]));
    }
    let made = |path: &str, body: &Value| {
        let made = site.post(path, body).is(201).json();
        made["id"].as_str().unwrap().to_owned()
    };
    let token = json!({"name": "t", "role": "read"});
    let tokens: Vec<String> = (0..4).map(|_| made("/api/v1/tokens", &token)).collect();
    let workflows: Vec<String> = (0..3)
        .map(|number| {
            let folder = repository(site, number);
            let order = json!({"worktree": folder, "plan": format!("{folder}/PLAN.md")});
            made("/api/v1/workflows", &order)
        })
        .collect();
    json!({"sessions": sessions, "tokens": tokens, "workflows": workflows})
}

/// A folder with a plan, under git.
fn repository(site: &Site, number: u32) -> String {
    let folder = site.env.path(&format!("work-{number}"));
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("PLAN.md"), "# Plan\n\n- [ ] One\n- [ ] Two\n").unwrap();
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
parameters = {{ "path.id" = {{ dictionary = "workflows", probability = 0.7 }} }}

[[operations]]
include-path-regex = "/tokens/\\{{id\\}}"
parameters = {{ "path.id" = {{ dictionary = "tokens", probability = 0.5 }} }}

# A text of the right form may still name a folder, a plan or an agent that is not there; a file of sessions, and which
# of two days is the first, cannot be told by a schema.
[[operations]]
include-path-regex = "/(sessions|workflows|import|usage|prompts|fork)$"
checks.positive_data_acceptance.expected-statuses = ["2xx", "3xx", "401", "403", "404", "409", "422", "429"]

# A body of text is one whatever is written there: no other type can be sent.
[[operations]]
include-path = "/api/v1/import"
checks.negative_data_rejection.enabled = false
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
fn asked(site: &Site, folder: &Path, seed: &str, more: &[&str]) -> u64 {
    let examples = EXAMPLES.to_string();
    let output = Command::new(schemathesis())
        .args(["--config-file", "schemathesis.toml", "run", "openapi.json"])
        .args(["--url", &format!("http://{}", site.address)])
        .args(["--checks", "all", "--phases", "examples,coverage,fuzzing", "--workers", "2"])
        .args(["--seed", seed, "--max-examples", &examples, "--continue-on-failure"])
        // They do not end: whoever asks for them waits for ever. They have tests of their own.
        .args(["--exclude-path", "/api/v1/events", "--exclude-path", "/api/v1/turns/{id}/events"])
        .args(["--report", "json", "--report-json-path", "report.json"])
        .args(more)
        .current_dir(folder)
        .output()
        .expect("schemathesis");
    succeeded(&output, &format!("schemathesis, seed {seed}"));
    let report = std::fs::read(folder.join("report.json")).expect("a report");
    let report: Value = serde_json::from_slice(&report).expect("a report");
    report["test_cases"]["generated"].as_u64().expect("a count")
}

#[test]
fn nothing_that_the_document_names_fails_or_surprises() {
    let site = site();
    let folder = site.env.path("schema");
    std::fs::create_dir(&folder).unwrap();
    let document = site.get("/api/v1/openapi.json").is(200);
    std::fs::write(folder.join("openapi.json"), &document.body).unwrap();
    std::fs::write(folder.join("schemathesis.toml"), config(&known(&site))).unwrap();
    std::fs::write(folder.join("hooks.py"), HOOKS).unwrap();
    let (seed, begun) = (seed(), Instant::now());
    let bearer = format!("Authorization: Bearer {}", site.token);
    let with = asked(&site, &folder, &seed, &["--header", &bearer]);
    // Without a token everything is told to bring one: there is nothing to accept, and no method to be wrong.
    let without = asked(
        &site,
        &folder,
        &seed,
        &[
            "--exclude-checks",
            "unsupported_method,allow_header_conformance,positive_data_acceptance",
        ],
    );
    eprintln!("seed {seed}: {with} and {without} cases in {:?}", begun.elapsed());
    assert!(with + without >= LEAST_CASES, "only {with} and {without} cases");
    let said = site.said.lock().unwrap().clone();
    let failed = said.lines().find(|line| line.contains(r#""event":"failure""#));
    assert_eq!(failed, None, "the server failed");
}
