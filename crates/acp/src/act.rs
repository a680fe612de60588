//! Whether we may do what an agent asks us to do: a file that we write or a program that we run for it follows the same rules as a
//! tool of its own.

use rethread_domain::consent::{self, Request};
use rethread_domain::turn::{Permission, Update};
use rethread_engine::agents::{Action, ActionKind, PermissionOption, Question};
use serde_json::{Map, Value, json};

use crate::classify::RpcError;
use crate::frame::{self, Fields};
use crate::serve::Server;
use crate::session::{Running, Shared};

/// The longest command that is kept; a person who is asked sees all of it.
const MOST_TITLE: usize = 1024;
/// Variables that do not change what a command does, although some differ from session to session.
const HARMLESS: &[&str] = &["AGENT_SESSION_ID", "TERM", "NO_COLOR", "COLUMNS", "LINES"];

/// The action that a call asks for; `None` if it only looks at the result of an earlier one.
pub(crate) fn read(method: &str, params: &Fields<'_>, server: &Server) -> Option<Action> {
    let path = || params.text("path").unwrap_or_default();
    let (kind, title, input) = match method {
        "fs/read_text_file" => {
            (ActionKind::Read, format!("read {}", path()), json!({ "path": path() }))
        }
        "fs/write_text_file" => {
            (ActionKind::Edit, format!("write {}", path()), json!({ "path": path() }))
        }
        "terminal/create" => {
            let args = params.get("args").map(frame::elements).unwrap_or_default();
            let args: Vec<String> = args.into_iter().filter_map(frame::text).collect();
            let line = consent::line(&params.text("command").unwrap_or_default(), &args);
            let mut input = Map::from_iter([("command".to_owned(), Value::from(line.clone()))]);
            input.extend(params.text("cwd").map(|cwd| ("cwd".to_owned(), cwd.into())));
            input.extend(variables(params).map(|env| ("env".to_owned(), env)));
            (ActionKind::Execute, line, Value::Object(input))
        }
        _ => return None,
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

/// The variables of a command, except for those that change nothing.
fn variables(params: &Fields<'_>) -> Option<Value> {
    let all = params.get("env").map(frame::elements).unwrap_or_default();
    let all = all.into_iter().filter_map(Fields::parse).filter_map(|one| {
        let value = one.get("value").and_then(frame::text).unwrap_or_default();
        Some((one.text("name")?, Value::from(value)))
    });
    let set: Map<String, Value> =
        all.filter(|(name, _)| !HARMLESS.contains(&name.as_str())).collect();
    (!set.is_empty()).then_some(Value::Object(set))
}

/// Decides by the rules; otherwise by an earlier answer in this turn about exactly the same, the agent's own questions included;
/// otherwise by asking.
pub(crate) async fn allow(
    shared: &Shared,
    act: &Action,
    params: &Fields<'_>,
) -> Result<(), RpcError> {
    let running = shared.running();
    match (shared.desk.may(act), running) {
        (Some(true), _) => Ok(()),
        (Some(false), Some(running)) => {
            if running.first_refusal(act.kind) {
                tell(&running, act, "reject_once", "policy").await;
            }
            Err(refused())
        }
        (None, Some(running)) if ask(shared, &running, act, params).await => Ok(()),
        _ => Err(refused()),
    }
}

fn refused() -> RpcError {
    RpcError::new(-32603, "the user does not allow it")
}

/// One answer counts for the same command or file until the end of the turn.
async fn ask(shared: &Shared, running: &Running, act: &Action, params: &Fields<'_>) -> bool {
    // A second request waits for the answer to the first.
    let _one = running.asking.lock().await;
    if let Some(known) = running.decided(&act.intent) {
        return known;
    }
    let question = question(shared, act, params).await;
    let chosen = tokio::select! {
        biased;
        () = running.cancelled.wait() => return false,
        chosen = shared.desk.permit(&question) => chosen,
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

async fn question(shared: &Shared, act: &Action, params: &Fields<'_>) -> Question {
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
    if act.kind == ActionKind::Edit {
        intent.changes.extend(shared.server.change(params).await);
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
