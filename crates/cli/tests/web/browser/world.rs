//! Something to look at: sessions that people might have had, and a workflow that waits and goes on when it is told.

use std::process::{Child, Command, Stdio};

pub(crate) use rethread_testkit::until;
use serde_json::{Value, json};

use crate::env::{TestEnv, user};
use crate::site::Site;

/// A process that ends with the test.
#[derive(Debug)]
pub(crate) struct Running(Child);

impl Running {
    pub(crate) fn of(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().expect("a process"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[track_caller]
pub(crate) fn git(env: &TestEnv, args: &[&str]) {
    let mut command = Command::new("git");
    command.args(args).current_dir(env.path("project"));
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let done = command.env("HOME", env.path("home")).output().expect("git runs");
    assert!(done.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// A repository with one commit, and the agent `ref`, which works on plans.
pub(crate) fn repository() -> TestEnv {
    let env = TestEnv::new();
    env.agent("ref", &["--load"]);
    env.set("workflow", "agent = \"ref\"");
    git(&env, &["init", "--quiet", "-b", "main"]);
    git(&env, &["config", "user.email", "anna@example.com"]);
    git(&env, &["config", "user.name", "Anna"]);
    git(&env, &["commit", "--quiet", "--allow-empty", "-m", "first"]);
    env
}

/// Puts a file into the project: whoever waits for it goes on.
pub(crate) fn touch(env: &TestEnv, name: &str) {
    std::fs::write(env.path("project").join(name), "").expect("a file");
}

/// Begins to work on a plan in another process; gives it with the id of the workflow, once its first task runs.
#[track_caller]
pub(crate) fn work(env: &TestEnv, plan: &str) -> (Running, String) {
    std::fs::write(env.path("project/plan.md"), plan).expect("the plan");
    let started = Running::of(env.command(["workflow", "start", "plan.md", "--approve-commands"]));
    let id = until("the first task runs", || {
        let out = env.run(["workflow", "status", "--json"]);
        let state: Value = serde_json::from_slice(&out.stdout).ok()?;
        let runs = state["tasks"][0]["state"] == "in_progress";
        runs.then(|| state["id"].as_str().map(str::to_owned))?
    });
    (started, id)
}

/// What the workflow is doing, in a word.
#[track_caller]
pub(crate) fn status(env: &TestEnv, id: &str) -> String {
    let state = env.json(["workflow", "status", id]);
    state["status"].as_str().expect("a status").to_owned()
}

/// Three tasks, of which the first two wait for a file each.
pub(crate) const PLAN: &str = "# Baskets that stay

Keep the basket when somebody logs in.

## Task T1: Find out where it is lost

do: exec: echo 'login.rs:41 rotates the cookie' > found.txt
do: wait for: go1
do: say: Decided: move the basket in the same transaction, because two steps can fail between them.

## Task T2: Move the basket with the cookie
- depends on: T1

do: exec: echo 'fn log_in() {}' > login.rs
do: wait for: go2
do: say: Decided: keep the name of the cookie, because others read it.

## Task T3: Test it
- depends on: T2

do: exec: echo ok > tested.txt
";

/// Some sessions of several agents and projects, with tools, costs and long texts.
pub(crate) fn sessions(env: &TestEnv) -> String {
    let said = |role: &str, content: &str, n: u64| {
        json!({"role": role, "content": content, "usage":
            {"input_tokens": 1200 * n, "output_tokens": 300 * n, "cost_usd": 0.012 * f64::from(u32::try_from(n).unwrap_or(1))}})
    };
    for (n, (title, agent, kind, text)) in [
        ("Search that forgives typos", "codex", "plan", "People write “recieve” and find nothing."),
        ("Why does the build take nine minutes?", "gemini", "debug", "Look at the linker first."),
        ("A name for the new crate", "claude", "brainstorm", "Short, a noun, not taken."),
        ("Move the clock behind a port", "codex", "chat", "Tests should not wait for real time."),
        ("Release notes for 0.4", "claude", "chat", "What changed for whom, in plain words."),
    ]
    .into_iter()
    .enumerate()
    {
        let n = n as u64 + 1;
        let lines = [user(text), said("assistant", "I have read the code and have a plan.", n)];
        env.record(["--title", title, "--agent", agent, "--kind", kind], &lines);
    }
    let lines = [
        user(
            "The basket is lost when somebody logs in. Find out **why**, and do not rename the cookie.",
        ),
        json!({"role": "tool", "agent": "claude", "content": "Read src/login.rs\n38  fn log_in(request: &Request) {\n39      let user = check(request);\n40      let basket = find(request.cookie());\n41      cookies.rotate();\n42  }",
            "tool_calls": [{"title": "Read src/login.rs", "kind": "read", "status": "completed", "rawInput": {"path": "src/login.rs"}}]}),
        json!({"role": "assistant", "agent": "claude", "model": "opus", "content":
            "`log_in` rotates the cookie **before** the basket has moved over:\n\n1. the basket is found by the old cookie\n2. the cookie changes\n3. nobody finds the basket again\n\n```rust\nlet basket = find(request.cookie());\ncookies.rotate();\n```\n\n| file | line | what |\n|---|---|---|\n| login.rs | 41 | rotates |\n| basket.rs | 12 | looks it up |",
            "thoughts": "The order of the two lines matters.",
            "usage": {"input_tokens": 18_200, "output_tokens": 640, "cost_usd": 0.0642}}),
        user("Then move both in one transaction."),
        said(
            "assistant",
            "Done: the basket moves in the same transaction, and a test holds it.",
            9,
        ),
    ];
    env.record(
        ["--title", "The basket gets lost at login", "--agent", "claude", "--kind", "debug"],
        &lines,
    )
}

/// A plan's first two tasks done, with a pause after each; gives the id of the workflow, which rests.
#[track_caller]
pub(crate) fn paused_twice(env: &TestEnv, plan: &str, reasons: &[&str; 2]) -> String {
    let (first, id) = work(env, plan);
    pause_at(env, &id, reasons[0], "go1");
    drop(first);
    let second = Running::of(env.command(["workflow", "resume", &id]));
    until("the second task runs", || {
        let state = env.json(["workflow", "status", &id]);
        (state["tasks"][1]["state"] == "in_progress").then_some(())
    });
    pause_at(env, &id, reasons[1], "go2");
    drop(second);
    id
}

/// Pauses it, lets go whoever waits for a file, and waits until it rests.
#[track_caller]
pub(crate) fn pause_at(env: &TestEnv, id: &str, reason: &str, file: &str) {
    let reason = format!("--reason={reason}");
    env.run(["workflow", "pause", id, "--no-wait", &reason]).succeeded();
    touch(env, file);
    until("it is paused", || (status(env, id) == "paused").then_some(()));
}

/// A server with sessions and a workflow, and every kind of page that it has.
#[track_caller]
pub(crate) fn all() -> (Site, Vec<String>) {
    let env = repository();
    let session = sessions(&env);
    let flow = paused_twice(&env, PLAN, &["lunch", "the train leaves"]);
    let site = Site::within(env, &[]);
    let snapshots = snapshots(&site, &flow);
    let paths = [
        "/".to_owned(),
        "/?q=basket".to_owned(),
        "/?q=nothing-like-this".to_owned(),
        format!("/sessions/{session}"),
        "/workflows".to_owned(),
        format!("/workflows/{flow}"),
        format!("/workflows/{flow}/snapshots/{}", snapshots[0]),
        format!("/workflows/{flow}/compare?from={}&to={}", snapshots[0], snapshots[1]),
        "/agents".to_owned(),
        "/usage".to_owned(),
        "/api/docs".to_owned(),
        "/nowhere".to_owned(),
        "/login".to_owned(),
    ];
    (site, paths.to_vec())
}

/// The ids of the snapshots of a workflow, oldest first.
#[track_caller]
pub(crate) fn snapshots(site: &Site, flow: &str) -> Vec<String> {
    let found = site.get(&format!("/api/v1/workflows/{flow}/snapshots")).is(200).json();
    let items = found["items"].as_array().or(found.as_array()).expect("snapshots");
    let mut all: Vec<(u64, String)> = items
        .iter()
        .map(|one| {
            (one["session_number"].as_u64().unwrap_or(0), one["id"].as_str().unwrap().to_owned())
        })
        .collect();
    all.sort();
    all.into_iter().map(|(_, id)| id).collect()
}
