//! `rethread hook run`: what agents call while a session goes on

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use rethread_testkit::until;
use serde_json::{Value, json};

use crate::env::{Output, TestEnv, user};
use crate::workspace_secrets::TOKEN;

const NATIVE: &str = "22222222-2222-4222-8222-222222222222";

/// A session of Claude Code, with the file that it writes.
pub(crate) struct Claude {
    pub(crate) env: TestEnv,
    lines: Vec<Value>,
}

impl Claude {
    pub(crate) fn new() -> Self {
        Self::within(TestEnv::new())
    }

    pub(crate) fn within(env: TestEnv) -> Self {
        Self { env, lines: Vec::new() }
    }

    fn transcript(&self) -> PathBuf {
        self.env.path(&format!("home/.claude/projects/-project/{NATIVE}.jsonl"))
    }

    fn project(&self) -> String {
        self.env.path("project").canonicalize().unwrap().display().to_string()
    }

    /// The agent writes down what was said.
    pub(crate) fn writes(&mut self, role: &str, content: impl Into<Value>) {
        let uuid = format!("33333333-3333-4333-8333-{:012}", self.lines.len() + 1);
        let parent = self.lines.last().map(|last| last["uuid"].clone());
        self.lines.push(json!({
            "type": role, "uuid": uuid, "parentUuid": parent, "sessionId": NATIVE, "cwd": self.project(),
            "timestamp": format!("2026-11-17T20:00:{:02}Z", self.lines.len()),
            "message": {"role": role, "content": content.into(), "id": format!("m{}", self.lines.len())},
        }));
        fs::create_dir_all(self.transcript().parent().unwrap()).unwrap();
        let text: Vec<String> = self.lines.iter().map(Value::to_string).collect();
        fs::write(self.transcript(), text.join("\n") + "\n").unwrap();
    }

    pub(crate) fn passes(&self, event: &str, more: Value) -> Vec<u8> {
        let mut input = json!({
            "session_id": NATIVE, "transcript_path": self.transcript(), "cwd": self.project(), "hook_event_name": event,
        });
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        input.to_string().into_bytes()
    }

    pub(crate) fn command(&self, event: &str) -> std::process::Command {
        self.env.command(["hook", "run", "claude", event])
    }

    #[track_caller]
    pub(crate) fn calls(&self, event: &str, more: Value) -> Output {
        let output = self.env.feed(["hook", "run", "claude", event], self.passes(event, more));
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{output}");
        output
    }

    fn session(&self) -> Value {
        let all = self.env.json(["list"]);
        let all = all.as_array().unwrap();
        let own: Vec<&Value> = all.iter().filter(|one| one["imported_from"] == "claude").collect();
        let hooked = if own.is_empty() { all.iter().collect() } else { own };
        assert_eq!(hooked.len(), 1, "{all:#?}");
        hooked[0].clone()
    }

    pub(crate) fn texts(&self) -> Vec<String> {
        let id = self.session()["session_id"].as_str().unwrap().to_owned();
        let messages = self.env.messages(&id).into_iter();
        messages.map(|one| one["content"].as_str().unwrap().to_owned()).collect()
    }
}

#[test]
fn a_session_is_in_the_store_while_it_goes_on_and_nothing_twice() {
    let mut claude = Claude::new();
    claude.calls("SessionStart", json!({"source": "startup"}));
    assert!(claude.env.json(["list"]).as_array().unwrap().is_empty());
    // The agent has written nothing down yet: killed now, the prompt is here.
    claude.calls("UserPromptSubmit", json!({"prompt": "Why is the till slow?", "prompt_id": "p1"}));
    assert_eq!(claude.texts(), ["Why is the till slow?"]);
    claude.calls("UserPromptSubmit", json!({"prompt": "Why is the till slow?", "prompt_id": "p1"}));
    assert_eq!(claude.texts(), ["Why is the till slow?"]);
    claude.writes("user", "Why is the till slow?");
    let call =
        json!([{"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}]);
    claude.writes("assistant", call);
    // The result is not written down yet: the call waits for it.
    claude.calls("PostToolUse", json!({"tool_name": "Bash"}));
    assert_eq!(claude.texts(), ["Why is the till slow?"]);
    let result = json!([{"type": "tool_result", "tool_use_id": "toolu_1", "content": "till.rs"}]);
    claude.writes("user", result);
    claude.writes("assistant", json!([{"type": "text", "text": "A lock."}]));
    claude.calls("Stop", json!({"last_assistant_message": "A lock."}));
    let expected = ["Why is the till slow?", "Bash: ls\ntill.rs", "A lock."];
    assert_eq!(claude.texts(), expected);
    assert_eq!(claude.session()["status"], "active");
    // The same words once more are another prompt.
    claude.calls("UserPromptSubmit", json!({"prompt": "Why is the till slow?", "prompt_id": "p2"}));
    claude.writes("user", "Why is the till slow?");
    claude.writes("assistant", json!([{"type": "text", "text": "Still a lock."}]));
    claude.calls("Stop", json!({}));
    claude.calls("SessionEnd", json!({"reason": "exit"}));
    let all = [&expected[..], &["Why is the till slow?", "Still a lock."]].concat();
    assert_eq!(claude.texts(), all);
    assert_eq!(claude.session()["status"], "paused");
    // What hooks have taken in, an import does not take in again.
    let tally = claude.env.json(["import"])["agents"]["claude"].clone();
    assert_eq!((&tally["messages"], &tally["new"]), (&0.into(), &0.into()), "{tally}");
    fs::write(
        claude.transcript(),
        format!("\n{}", fs::read_to_string(claude.transcript()).unwrap()),
    )
    .unwrap();
    let anew = claude.env.json(["import"])["agents"]["claude"].clone();
    assert_eq!((&anew["messages"], &anew["forked"]), (&0.into(), &0.into()), "{anew}");
    assert_eq!(claude.texts(), all);
    claude.env.assert_sound();
}

#[test]
fn a_prompt_that_is_stored_masked_or_cut_is_known_too() {
    let token = format!("Use {TOKEN} for it.");
    let long = "so long ".repeat(200);
    for (setting, value, prompt) in [
        ("redact.at_rest", "true", token.as_str()),
        ("record.max_message_bytes", "1024", long.trim()),
    ] {
        let mut claude = Claude::new();
        claude.env.run(["config", "set", setting, value]).succeeded();
        // The agent has written it down before its hook was called.
        claude.writes("user", prompt);
        claude.calls("UserPromptSubmit", json!({"prompt": prompt, "prompt_id": "p1"}));
        assert_eq!(claude.texts().len(), 1, "{setting}");
        claude.calls("Stop", json!({}));
        assert_eq!(claude.texts().len(), 1, "{setting}");
    }
}

#[test]
fn a_call_that_is_never_answered_is_told_once_nobody_goes_on() {
    let mut claude = Claude::new();
    claude.writes("user", "List it.");
    claude.writes(
        "assistant",
        json!([{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}]),
    );
    claude.calls("PostToolUse", json!({}));
    assert_eq!(claude.texts(), ["List it."]);
    claude.env.json(["import"]);
    assert_eq!(claude.texts().len(), 2, "{:?}", claude.texts());
    claude.env.assert_sound();
}

#[test]
fn a_new_session_begins_knowing_where_the_last_one_stopped() {
    let claude = Claude::new();
    let secret = format!("The key is {TOKEN}.");
    let last = claude.env.record::<&str>(
        ["--agent", "codex"],
        &[
            user("Why does the basket lose its items?"),
            json!({"role": "assistant", "content": format!("Because of the cache. {secret}")}),
        ],
    );
    let output = claude.calls("UserPromptSubmit", json!({"prompt": "What about the basket?"}));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let told = &answer["hookSpecificOutput"];
    assert_eq!(told["hookEventName"], "UserPromptSubmit");
    let context = told["additionalContext"].as_str().unwrap();
    assert!(context.starts_with("[Context from Rethread: "), "{context}");
    assert!(context.contains("> Why does the basket lose its items?"), "{context}");
    assert!(!context.contains(TOKEN), "{context}");
    assert!(answer["systemMessage"].as_str().unwrap().contains(&last[24..32]), "{answer}");
    // Only with the first prompt, and never as something that the user said.
    let second = claude.calls("UserPromptSubmit", json!({"prompt": "And then?"}));
    assert!(second.stdout.is_empty(), "{second}");
    let repeated = format!("And now?\n\n<hook_context>{context}</hook_context>");
    claude.calls("UserPromptSubmit", json!({"prompt": repeated}));
    assert_eq!(claude.texts_of_hooks(&last), ["What about the basket?", "And then?", "And now?"]);
}

impl Claude {
    /// What is in the session that is not this one.
    fn texts_of_hooks(&self, other: &str) -> Vec<String> {
        let all = self.env.json(["list"]);
        let own = all.as_array().unwrap().iter().find(|one| one["session_id"] != other).unwrap();
        let messages = self.env.messages(own["session_id"].as_str().unwrap()).into_iter();
        messages.map(|one| one["content"].as_str().unwrap().to_owned()).collect()
    }
}

#[test]
fn what_is_injected_can_be_bounded_and_turned_off() {
    let claude = Claude::new();
    let long = "the basket and the till and the cellar ".repeat(400);
    claude.env.record::<&str>([], &[user(&long)]);
    claude.env.set("hooks", "tokens = 200");
    let output = claude.calls("UserPromptSubmit", json!({"prompt": "What of the basket?"}));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let context = answer["hookSpecificOutput"]["additionalContext"].as_str().unwrap();
    let tokens = rethread_domain::tokens::count(context);
    assert!((50..=200).contains(&tokens), "{tokens}: {context}");
    let other = Claude::new();
    other.env.record::<&str>([], &[user("one")]);
    other.env.set("hooks", "inject = false");
    assert!(other.calls("UserPromptSubmit", json!({"prompt": "two"})).stdout.is_empty());
}

#[test]
fn a_hook_inside_an_agent_that_we_drive_leaves_at_once() {
    let claude = Claude::new();
    let mut command = claude.env.command(["hook", "run", "claude", "UserPromptSubmit"]);
    command.env("RETHREAD_PARENT_SESSION", "anything");
    let input = claude.passes("UserPromptSubmit", json!({"prompt": "one"}));
    let output = claude.env.finish(command, &input);
    assert_eq!((output.code, output.stdout.len()), (Some(0), 0));
    assert!(!claude.env.store().exists());
}

#[test]
fn nothing_that_goes_wrong_reaches_the_agent() {
    let claude = Claude::new();
    let call = |args: &[&str], input: &[u8]| {
        let output = claude.env.feed([&["hook", "run"], args].concat(), input);
        let seen = (output.code, output.stdout.len(), output.stderr.as_str());
        assert_eq!(seen, (Some(0), 0, ""), "{args:?}: {output}");
    };
    for input in [
        &b""[..],
        b"{",
        b"[]",
        b"\xff\xfe",
        b"{\"session_id\": {}}",
        b"{\"session_id\":\"a\",\"prompt\":[[[[]]]]}",
    ] {
        call(&["claude", "UserPromptSubmit"], input);
    }
    call(&["claude", "UserPromptSubmit"], "[".repeat(1_000_000).as_bytes());
    call(&["claude", "Sunrise"], b"{}");
    call(&["emacs", "Stop"], b"{}");
    call(&[], b"{}");
    call(&["claude", "Stop", "--unknown"], b"{}");
    let logged = claude.env.data(["logs", "--lines", "200"]);
    assert!(logged.contains("a hook could not record what happened"), "{logged}");
    // A file that is no session of the agent's is not read.
    let own = claude.env.path("secret.jsonl");
    fs::write(&own, "{\"password\": \"x\"}\n").unwrap();
    let input =
        json!({"session_id": "a", "transcript_path": own, "cwd": claude.project()}).to_string();
    call(&["claude", "Stop"], input.as_bytes());
    // A store that cannot be used.
    drop(fs::remove_file(claude.env.store()));
    fs::create_dir_all(claude.env.store()).unwrap();
    let input = claude.passes("UserPromptSubmit", json!({"prompt": "one"}));
    call(&["claude", "UserPromptSubmit"], &input);
}

#[test]
fn an_agent_that_never_ends_what_it_passes_is_not_waited_for() {
    let env = TestEnv::new();
    let mut command = env.command(["hook", "run", "claude", "Stop"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let held = child.stdin.take();
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}");
    drop(held);
}

#[test]
fn ten_agents_at_once_lose_nothing() {
    let claude = Claude::new();
    let (env, project) = (&claude.env, claude.project());
    std::thread::scope(|scope| {
        for number in 0..10 {
            let project = &project;
            let program = env.command(["hook", "run", "qwen", "UserPromptSubmit"]);
            scope.spawn(move || {
                let mut program = program;
                program.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
                let mut child = program.spawn().unwrap();
                let input = json!({"session_id": format!("q-{number}"), "cwd": project, "prompt": format!("prompt {number}")});
                std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.to_string().as_bytes()).unwrap();
                assert!(child.wait_with_output().unwrap().status.success());
            });
        }
    });
    let all = env.json(["list", "--all"]);
    assert_eq!(all.as_array().unwrap().len(), 10, "{all}");
    env.assert_sound();
}

#[test]
fn agents_without_a_record_that_can_be_read_hand_over_what_their_hooks_carry() {
    let claude = Claude::new();
    let (env, project) = (&claude.env, claude.project());
    let call = |event: &str, input: Value| {
        env.feed(["hook", "run", "kimi", event], input.to_string()).succeeded()
    };
    let prompt = json!([{"type": "text", "text": "Why is the till slow?"}]);
    call("UserPromptSubmit", json!({"session_id": "k-1", "cwd": project, "prompt": prompt}));
    call("Stop", json!({"session_id": "k-1", "cwd": project, "last_assistant_message": "A lock."}));
    call("Stop", json!({"session_id": "k-1", "cwd": project, "last_assistant_message": "A lock."}));
    let id = env.json(["list"])[0]["session_id"].as_str().unwrap().to_owned();
    let messages = env.messages(&id);
    let said: Vec<(&str, &str)> = messages
        .iter()
        .map(|one| (one["role"].as_str().unwrap(), one["content"].as_str().unwrap()))
        .collect();
    assert_eq!(said, [("user", "Why is the till slow?"), ("assistant", "A lock.")]);
}

#[test]
fn what_was_put_away_stays_so_and_excluded_folders_are_not_recorded() {
    let claude = Claude::new();
    claude.calls("UserPromptSubmit", json!({"prompt": "one"}));
    let id = claude.env.json(["list"])[0]["session_id"].as_str().unwrap().to_owned();
    claude.env.run(["delete", &id]).succeeded();
    claude.calls("UserPromptSubmit", json!({"prompt": "two"}));
    assert!(claude.env.json(["list", "--all"]).as_array().unwrap().is_empty());
    let other = Claude::new();
    other.env.set("record", format!("exclude = [{:?}]", other.project()));
    other.calls("UserPromptSubmit", json!({"prompt": "one"}));
    // Whatever way leads there, and where the agent does not name the folder.
    let link = other.env.path("link");
    std::os::unix::fs::symlink(other.project(), &link).unwrap();
    let project = other.project();
    let name = project.rsplit('/').next().unwrap();
    for cwd in [link.display().to_string(), format!("{}/../{name}/x", link.display())] {
        other.calls("UserPromptSubmit", json!({"prompt": "one", "cwd": cwd}));
    }
    other.calls("UserPromptSubmit", json!({"prompt": "one", "cwd": null}));
    assert!(!other.env.store().exists());
}

/// What a plugin writes, until the agent ends.
fn stream(env: &TestEnv, lines: &[Value]) -> Output {
    let text: Vec<String> = lines.iter().map(Value::to_string).collect();
    env.feed(["hook", "stream", "pi"], text.join("\n") + "\n")
}

#[test]
fn half_an_answer_survives_the_end_of_the_agent() {
    let claude = Claude::new();
    let (env, project) = (&claude.env, claude.project());
    let output = stream(
        env,
        &[
            json!({"event": "prompt", "session_id": "pi-session-1", "cwd": project, "prompt": "Count.", "prompt_id": "1"}),
            json!({"event": "said", "session_id": "pi-session-1", "text": "One, "}),
            json!({"event": "said", "session_id": "pi-session-1", "text": "two, th"}),
        ],
    );
    assert_eq!(output.text(), "{\"context\":null}\n");
    let id = env.json(["list"])[0]["session_id"].as_str().unwrap().to_owned();
    let messages = env.messages(&id);
    assert_eq!(messages.len(), 2, "{messages:#?}");
    assert_eq!(messages[1]["content"], "One, two, th");
    assert!(messages[1].to_string().contains("interrupted"), "{}", messages[1]);
    // The next session knows of it.
    let next = stream(
        env,
        &[
            json!({"event": "prompt", "session_id": "pi-session-2", "cwd": project, "prompt": "Go on.", "prompt_id": "2"}),
        ],
    );
    assert!(next.text().contains("One, two, th"), "{next}");
    env.assert_sound();
}

#[test]
fn what_was_streamed_makes_way_for_the_agents_own_record() {
    let claude = Claude::new();
    let (env, project) = (&claude.env, claude.project());
    let file = env.path("home/.pi/agent/sessions/--project--/2026-11-17_pi-session-1.jsonl");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let lines = [
        json!({"type": "session", "version": 3, "id": "pi-session-1", "timestamp": "2026-11-17T20:00:00Z", "cwd": project}),
        json!({"type": "message", "id": "a", "parentId": null, "timestamp": "2026-11-17T20:00:01Z",
            "message": {"role": "user", "content": [{"type": "text", "text": "Count."}]}}),
        json!({"type": "message", "id": "b", "parentId": "a", "timestamp": "2026-11-17T20:00:02Z",
            "message": {"role": "assistant", "content": [{"type": "text", "text": "One, two, three."}]}}),
    ];
    let text: Vec<String> = lines.iter().map(Value::to_string).collect();
    let prompt = json!({"event": "prompt", "session_id": "pi-session-1", "cwd": project, "prompt": "Count.", "prompt_id": "1"});
    let said = json!({"event": "said", "session_id": "pi-session-1", "text": "One, two, three."});
    // The file is written while the answer is streamed, and there is no word of its end.
    let mut child = env.command(["hook", "stream", "pi"]);
    child.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = child.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, format!("{prompt}\n").as_bytes()).unwrap();
    let mut answered = String::new();
    let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut stdout, &mut answered).unwrap();
    fs::write(&file, text.join("\n") + "\n").unwrap();
    std::io::Write::write_all(&mut stdin, format!("{said}\nnot JSON\n").as_bytes()).unwrap();
    drop(stdin);
    assert!(child.wait().unwrap().success());
    let id = env.json(["list"])[0]["session_id"].as_str().unwrap().to_owned();
    let said: Vec<String> =
        env.messages(&id).iter().map(|one| one["content"].as_str().unwrap().to_owned()).collect();
    assert_eq!(said, ["Count.", "One, two, three."]);
    assert_eq!(env.json(["import"])["agents"]["pi"]["messages"], 0);
    env.assert_sound();
}

/// Copilot CLI writes its last answer down after its last hook.
#[test]
fn what_is_written_down_after_the_last_hook_comes_in_by_itself() {
    let env = TestEnv::new();
    let file = env.path(&format!("home/.copilot/session-state/{NATIVE}/events.jsonl"));
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let project = env.path("project").canonicalize().unwrap();
    let event = |id: &str, kind: &str, data: Value| {
        json!({"type": kind, "data": data, "id": id, "timestamp": "2026-11-17T20:00:00Z"})
            .to_string()
            + "\n"
    };
    let mut written =
        event("e1", "session.start", json!({"sessionId": NATIVE, "context": {"cwd": project}}))
            + &event("e2", "user.message", json!({"content": "Why is the till slow?"}));
    fs::write(&file, &written).unwrap();
    let input = json!({"sessionId": NATIVE, "cwd": project, "transcriptPath": file});
    let output = env.feed(["hook", "run", "copilot", "agentStop"], input.to_string().into_bytes());
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{output}");
    written += &event("e3", "assistant.message", json!({"content": "A lock."}));
    fs::write(&file, &written).unwrap();
    let session = env.json(["list"])[0]["session_id"].as_str().unwrap().to_owned();
    until("the answer", || (env.messages(&session).len() == 2).then_some(()));
    assert_eq!(env.messages(&session)[1]["content"], "A lock.");
}
