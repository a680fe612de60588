//! Whether we may do what an agent asks us to do: a file that we write or a program that we run for it follows the same rules as a
//! tool of its own.

use std::path::Path;

use agent_client_protocol_schema::v1::CreateTerminalRequest;
use rethread_domain::consent::{self, Request};
use rethread_domain::turn::{Permission, Update};
use rethread_engine::agents::{Action, ActionKind, PermissionOption, Question};
use serde_json::{Map, Value, json};

use crate::classify::RpcError;
use crate::serve::{Server, ServiceRequest};
use crate::session::{Running, Shared};

/// The longest command that is kept; a person who is asked sees all of it.
const MOST_TITLE: usize = 1024;
/// Variables that do not change what a command does, although some differ from session to session.
const HARMLESS: &[&str] = &["AGENT_SESSION_ID", "TERM", "NO_COLOR", "COLUMNS", "LINES"];

/// The action that a request asks for; `None` if it only looks at the result of an earlier one.
pub(crate) fn read(request: &ServiceRequest, server: &Server) -> Option<Action> {
    let about_file = |kind, verb: &str, path: &Path| {
        let path = path.to_string_lossy();
        (kind, format!("{verb} {path}"), json!({ "path": path }))
    };
    let (kind, title, input) = match request {
        ServiceRequest::Read(asked) => about_file(ActionKind::Read, "read", &asked.path),
        ServiceRequest::Write(asked) => about_file(ActionKind::Edit, "write", &asked.path),
        ServiceRequest::Run(asked) => {
            let line = consent::line(&asked.command, &asked.args);
            let mut input = Map::from_iter([("command".to_owned(), Value::from(line.clone()))]);
            let folder = asked.cwd.as_ref().map(|cwd| cwd.to_string_lossy().into());
            input.extend(folder.map(|folder| ("cwd".to_owned(), folder)));
            input.extend(variables(asked, &line).map(|env| ("env".to_owned(), env)));
            (ActionKind::Execute, line, Value::Object(input))
        }
        ServiceRequest::Terminal { .. } => return None,
    };
    let roots = server.roots();
    let roots: Vec<&str> = roots.iter().map(String::as_str).collect();
    let request = Request {
        kind: kind.tool_kind(),
        title: &title,
        input: &input,
        places: &[],
        changes: &[],
        roots: &roots,
    };
    let mut intent = consent::read(&request);
    server.note(&mut intent);
    Some(Action { kind, intent })
}

/// The variables of a command, except for those that change nothing: a plain word under a name that the command does not use.
fn variables(asked: &CreateTerminalRequest, line: &str) -> Option<Value> {
    let is_harmless = |name: &str, value: &str| {
        HARMLESS.contains(&name) && !line.contains(name) && value.chars().all(is_plain)
    };
    let all = asked.env.iter().filter(|one| !is_harmless(&one.name, &one.value));
    let set: Map<String, Value> =
        all.map(|one| (one.name.clone(), one.value.as_str().into())).collect();
    (!set.is_empty()).then_some(Value::Object(set))
}

fn is_plain(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.')
}

/// Decides by the rules; otherwise by an earlier answer in this turn about exactly the same, the agent's own questions included;
/// otherwise by asking.
pub(crate) async fn allow(
    shared: &Shared,
    act: &Action,
    request: &ServiceRequest,
) -> Result<(), RpcError> {
    let running = shared.running();
    match (shared.permissions.may(act), running) {
        (Some(true), _) => Ok(()),
        (Some(false), Some(running)) => {
            if running.first_refusal(act.kind) {
                tell(&running, act, "reject_once", "policy").await;
            }
            Err(refused())
        }
        (None, Some(running)) if ask(shared, &running, act, request).await => Ok(()),
        _ => Err(refused()),
    }
}

fn refused() -> RpcError {
    RpcError::new(-32603, "the user does not allow it")
}

/// One answer counts for the same command or file until the end of the turn.
async fn ask(shared: &Shared, running: &Running, act: &Action, request: &ServiceRequest) -> bool {
    // A second request waits for the answer to the first.
    let _one = running.asking.lock().await;
    if let Some(known) = running.decided(&act.intent) {
        return known;
    }
    let question = question(shared, act, request).await;
    let chosen = tokio::select! {
        biased;
        () = running.cancelled.wait() => return false,
        chosen = shared.permissions.permit(&question) => chosen,
    };
    let Some(chosen) = chosen else { return false };
    let yes = chosen.allows();
    running.decide(&act.intent, yes);
    tell(running, act, &chosen.kind, chosen.by).await;
    yes
}

async fn tell(running: &Running, act: &Action, answer: &str, by: &str) {
    let title = act.intent.headline();
    let record = Permission {
        tool: format!("rethread-{}", act.kind.tool_kind()),
        title: title[..title.floor_char_boundary(MOST_TITLE)].to_owned(),
        kind: act.kind.tool_kind().to_owned(),
        answer: answer.to_owned(),
        by: by.to_owned(),
    };
    running.pass(Update::Permission(record)).await;
}

async fn question(shared: &Shared, act: &Action, request: &ServiceRequest) -> Question {
    let options = [
        ("allow_once", "Yes, in this turn"),
        ("allow_always", "Always in this project"),
        ("reject_once", "No, not in this turn"),
        ("reject_always", "Never in this project"),
    ];
    let option = |(id, name): (&str, &str)| PermissionOption {
        id: id.into(),
        name: name.into(),
        kind: id.into(),
    };
    let mut intent = act.intent.clone();
    // Our own description adds nothing to the path or the command.
    intent.title.clear();
    if let ServiceRequest::Write(asked) = request {
        intent.changes.push(shared.server.change(asked).await);
    }
    Question {
        tool: String::new(),
        intent,
        is_whole: true,
        agent: String::new(),
        unlasting: None,
        options: options.map(option).to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Files;
    use crate::protected_paths::ProtectedPaths;
    use crate::terminals::Terminals;

    /// What is decided about when an agent sends this.
    fn intent(method: &str, params: &str) -> consent::Intent {
        let folder = tempfile::TempDir::new().unwrap();
        let files = Files::open(folder.path(), ProtectedPaths::default()).unwrap();
        let server = Server::new(files, Terminals::new(None, Vec::new()));
        let request = ServiceRequest::parse(method, params).unwrap();
        read(&request, &server).unwrap().intent
    }

    #[test]
    fn what_is_decided_about_is_what_is_done_however_it_is_written() {
        let many = (0..300).map(|n| format!("\"field{n}\":0,")).collect::<Vec<_>>().concat();
        for params in [
            format!(r#"{{"sessionId":"s",{many}"path":"/etc/key","content":"x"}}"#),
            r#"["s","/etc/key","x",null]"#.to_owned(),
        ] {
            assert_eq!(intent("fs/write_text_file", &params).paths, ["/etc/key"], "{params}");
        }
        let path = intent("fs/read_text_file", r#"["s","/etc/key",null,null,null]"#).paths;
        assert_eq!(path, ["/etc/key"]);
        let hidden = format!(
            r#"{{"sessionId":"s","command":"echo",{many}"args":["a"],
                "env":[{{{many}"name":"PATH","value":"/tmp"}}]}}"#
        );
        let found = intent("terminal/create", &hidden);
        assert_eq!(found.command.as_deref(), Some("echo a"));
        assert_eq!(found.rest["env"], json!({"PATH": "/tmp"}));
    }

    #[test]
    fn a_variable_changes_nothing_if_it_is_plain_and_the_command_does_not_use_it() {
        for (name, value, line, is_shown) in [
            ("TERM", "xterm-256color", "make", false),
            ("NO_COLOR", "1", "make", false),
            ("NO_COLOR", "-delete", "find . $NO_COLOR", true),
            ("COLUMNS", "1; rm x", "env | sh", true),
            ("PATH", "bin", "make", true),
        ] {
            let params =
                json!({"sessionId": "s", "command": line, "env": [{"name": name, "value": value}]});
            let found = intent("terminal/create", &params.to_string());
            assert_eq!(found.rest.contains_key("env"), is_shown, "{name}={value} {line}");
        }
    }
}
