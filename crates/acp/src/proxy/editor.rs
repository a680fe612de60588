//! What the editor sends: what we answer ourselves, what a session does in its order, what passes.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::json;
use tokio::io::AsyncRead;

use super::binding::Binding;
use super::hub::Hub;
use super::raw::{self, Kind, Raw};
use super::session::{self, Ask, SessionHandle};
use super::{forward, list, replies};
use crate::frame::Fields;
use crate::lines::{LineError, LineReader};
use crate::second;

/// How much of a line that is too long is searched for its id.
const SEARCHED: usize = 4 * 1024;

/// Reads what the editor sends until it is gone.
pub(crate) async fn listen(hub: &Arc<Hub>, from: impl AsyncRead + Unpin, longest: usize) {
    let mut lines = LineReader::new(from, longest);
    loop {
        match lines.next().await {
            Ok(Some(line)) => take(hub, line).await,
            Ok(None) | Err(LineError::Broken) => return,
            Err(LineError::TooLong(most)) => {
                let reason = format!("a line has more than {most} bytes");
                let id = id_in(lines.beginning()).unwrap_or_else(|| "null".to_owned());
                let fault = raw::fault(-32600, &reason, &json!({ "reason": reason }));
                hub.outbox.say(raw::error(&id, &fault)).await;
            }
        }
    }
}

/// The id of a request of which only the beginning is known.
fn id_in(beginning: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(&beginning[..beginning.len().min(SEARCHED)]);
    let method = text.find("\"params\"").unwrap_or(text.len());
    let after = text[..method].split_once("\"id\"")?.1.trim_start().strip_prefix(':')?;
    let mut values = serde_json::Deserializer::from_str(after).into_iter::<serde_json::Value>();
    let id = values.next()?.ok()?;
    (id.is_number() || id.is_string()).then(|| id.to_string())
}

async fn take(hub: &Arc<Hub>, line: &[u8]) {
    let Some(raw) = Raw::parse(line) else {
        if !line.iter().all(u8::is_ascii_whitespace) {
            let reason = "this line is not JSON-RPC";
            let fault = raw::fault(-32700, reason, &json!({ "reason": reason }));
            hub.outbox.say(raw::error("null", &fault)).await;
        }
        return;
    };
    match &raw.kind {
        Kind::Result { id, result } => hub.answered(&raw, id, Ok(result)).await,
        Kind::Error { id, error } => hub.answered(&raw, id, Err(error)).await,
        Kind::Request { id, method } if method == "initialize" => {
            initialize(hub, id, raw.params).await;
        }
        Kind::Request { id, method } => request(hub, &raw, id, method).await,
        Kind::Notification { method } if method == "session/cancel" => cancel(hub, &raw).await,
        Kind::Notification { .. } => match handle_of(hub, &raw) {
            Some(handle) => to_session(hub, &handle, raw.line.to_owned()).await,
            None => forward::to_agent(hub, &raw, None).await,
        },
    }
}

/// Hands something to a session. If that has been closed meanwhile, it is looked at again: another one may be open by now.
async fn to_session(hub: &Arc<Hub>, handle: &SessionHandle, line: String) {
    if let Err(Ask::Line(line)) = handle.ask(Ask::Line(line)).await {
        again(hub, line).await;
    }
}

/// Takes a line for which nobody was there any more.
pub(crate) fn again(hub: &Arc<Hub>, line: String) -> BoxFuture<'_, ()> {
    async move { take(hub, line.as_bytes()).await }.boxed()
}

/// Works on something beside the rest, as long as there is room for it.
async fn beside(hub: &Arc<Hub>, work: impl Future<Output = ()> + Send + 'static) {
    let Ok(room) = Arc::clone(&hub.beside).acquire_owned().await else { return };
    tokio::spawn(async move {
        work.await;
        drop(room);
    });
}

fn handle_of(hub: &Hub, raw: &Raw<'_>) -> Option<Arc<SessionHandle>> {
    hub.handle(&raw.session.as_ref()?.1)
}

async fn request(hub: &Arc<Hub>, raw: &Raw<'_>, id: &str, method: &str) {
    let line = raw.line.to_owned();
    let is_load = match method {
        "session/load" => !hub.is_second(),
        method => method == "session/resume",
    };
    match (method, &raw.session) {
        ("session/new", _) => beside(hub, session::begin(Arc::clone(hub), line)).await,
        ("session/list", _) => beside(hub, list::answer(Arc::clone(hub), line)).await,
        ("session/fork", Some(_)) => beside(hub, session::fork(Arc::clone(hub), line)).await,
        ("session/delete", Some((_, named))) => {
            let (its, id, named) = (Arc::clone(hub), id.to_owned(), named.clone());
            beside(hub, async move { delete(&its, &id, &named, &line).await }).await;
        }
        (_, Some((_, named))) if is_load => {
            let opened = || {
                let binding = Binding::new(hub, named, raw.params);
                SessionHandle::open(hub, binding, None)
            };
            let handle = hub.handle(named).unwrap_or_else(opened);
            to_session(hub, &handle, line).await;
        }
        ("session/close", Some((_, named))) if hub.handle(named).is_none() => {
            close_unopened(hub, id, named, raw).await;
        }
        _ => match handle_of(hub, raw) {
            Some(handle) => to_session(hub, &handle, line).await,
            None => forward::to_agent(hub, raw, None).await,
        },
    }
}

/// Ends the turn of a session; where none runs, the agent is told all the same.
async fn cancel(hub: &Arc<Hub>, raw: &Raw<'_>) {
    let Some(handle) = handle_of(hub, raw) else { return forward::to_agent(hub, raw, None).await };
    if handle.binding.cancel(raw.line) {
        let _closed = handle.ask(Ask::Cancel).await;
    } else {
        to_session(hub, &handle, raw.line.to_owned()).await;
    }
}

/// A session of ours that is not open: there is nothing to be closed in the agent.
async fn close_unopened(hub: &Arc<Hub>, id: &str, named: &str, raw: &Raw<'_>) {
    let known = match hub.program.user() {
        Ok(user) => {
            hub.engine.session_for_editor(&user, &hub.first.agent, named).await.ok().flatten()
        }
        Err(_) => None,
    };
    match known {
        Some(_) => hub.outbox.say(raw::result(id, "{}")).await,
        None => forward::to_agent(hub, raw, None).await,
    }
}

/// Deletes a session of ours; it can be brought back for 30 days. Others are the agent's.
async fn delete(hub: &Arc<Hub>, id: &str, named: &str, line: &str) {
    let deleted = async {
        let user = hub.program.user()?;
        let known = hub.engine.session_for_editor(&user, &hub.first.agent, named).await?;
        let Some(session) = known else { return Ok(false) };
        if let Some(handle) = hub.handle(named) {
            let params = json!({ "sessionId": named }).to_string();
            handle.binding.cancel(&raw::notification("session/cancel", &params));
        }
        hub.engine.delete(session.id).await?;
        Ok::<_, rethread_engine::program::Fault>(true)
    };
    match deleted.await {
        Ok(true) => hub.outbox.say(raw::result(id, "{}")).await,
        Ok(false) => {
            if let Some(raw) = Raw::parse(line.as_bytes()) {
                forward::to_agent(hub, &raw, None).await;
            }
        }
        Err(fault) => {
            let fault = replies::fault(&Binding::new(hub, named, "{}"), &fault);
            hub.outbox.say(raw::error(id, &fault)).await;
        }
    }
}

/// Greets the agent as the editor does, and adds what we can do to what it can.
async fn initialize(hub: &Arc<Hub>, id: &str, params: &str) {
    let asked = Fields::parse(params).unwrap_or_default();
    let version = asked.number("protocolVersion");
    let is_second = second::is_shape(&asked) && version.is_some_and(|version| version >= 2);
    let hello = match version {
        Some(2..) if !is_second => raw::set(params, "protocolVersion", "1"),
        _ => params.to_owned(),
    };
    let line = match hub.initialize(&hello).await {
        Ok(answer) => {
            let known = Fields::parse(&answer).unwrap_or_default();
            if is_second && second::is_spoken(&known) {
                hub.be_second();
                raw::result(id, &patched_second(&answer))
            } else {
                raw::result(id, &patched(&answer))
            }
        }
        Err((trouble, error)) => {
            raw::error(id, &error.unwrap_or_else(|| replies::of_agent(&trouble)))
        }
    };
    hub.outbox.say(line).await;
}

/// What the agent can do, and what we can do for it.
fn patched(answer: &str) -> String {
    let known = Fields::parse(answer).unwrap_or_default();
    let can = known.get("agentCapabilities").filter(|can| can.starts_with('{')).unwrap_or("{}");
    let sessions = Fields::parse(can).and_then(|can| can.get("sessionCapabilities"));
    let mut sessions = sessions.filter(|can| can.starts_with('{')).unwrap_or("{}").to_owned();
    for name in ["list", "resume", "close", "delete", "fork"] {
        let has = Fields::parse(&sessions)
            .and_then(|can| can.get(name).map(|value| value.starts_with('{')));
        if has != Some(true) {
            sessions = raw::set(&sessions, name, "{}");
        }
    }
    let can = raw::set(can, "loadSession", "true");
    let can = raw::set(&can, "sessionCapabilities", &sessions);
    let answer = raw::set(answer, "agentCapabilities", &can);
    let known = Fields::parse(&answer).unwrap_or_default();
    match known.number("protocolVersion") {
        Some(2..) => raw::set(&answer, "protocolVersion", "1"),
        _ => answer,
    }
}

/// The same in version 2, where an agent that has sessions at all can list and resume them.
fn patched_second(answer: &str) -> String {
    let known = Fields::parse(answer).unwrap_or_default();
    let can = known.get("capabilities").and_then(Fields::parse).unwrap_or_default();
    let Some(sessions) = can.get("session").filter(|can| can.starts_with('{')) else {
        return answer.to_owned();
    };
    let mut patched = sessions.to_owned();
    for name in ["delete", "fork"] {
        let known = Fields::parse(&patched).unwrap_or_default().get(name);
        if !known.is_some_and(|value| value.starts_with('{')) {
            patched = raw::set(&patched, name, "{}");
        }
    }
    let mut edit = raw::Edit::new(answer);
    edit.replace(sessions, &patched);
    edit.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_we_add_is_changed_in_what_an_agent_can_do() {
        let answer = r#"{"protocolVersion":1,"_x":[1.0],"agentCapabilities":{"loadSession":false,"promptCapabilities":{"image":true},"sessionCapabilities":{"list":{"_a":1},"resume":null}},"authMethods":[]}"#;
        assert_eq!(
            patched(answer),
            r#"{"protocolVersion":1,"_x":[1.0],"agentCapabilities":{"loadSession":true,"promptCapabilities":{"image":true},"sessionCapabilities":{"list":{"_a":1},"resume":{},"close":{},"delete":{},"fork":{}}},"authMethods":[]}"#
        );
        let echoed = r#"{"protocolVersion":2}"#;
        let told = crate::frame::tree(&patched(echoed));
        assert_eq!(told["protocolVersion"], 1);
        assert_eq!(told["agentCapabilities"]["loadSession"], true);
    }

    #[test]
    fn of_version_2_only_what_is_missing_is_added() {
        let answer = r#"{"protocolVersion":2,"info":{},"capabilities":{"session":{"delete":{"_a":1.0}},"_meta":{}}}"#;
        assert_eq!(
            patched_second(answer),
            r#"{"protocolVersion":2,"info":{},"capabilities":{"session":{"delete":{"_a":1.0},"fork":{}},"_meta":{}}}"#
        );
        let none = r#"{"protocolVersion":2,"info":{},"capabilities":{}}"#;
        assert_eq!(patched_second(none), none);
    }

    #[test]
    fn the_id_of_a_line_that_is_too_long_is_found() {
        let id = |text: &str| id_in(text.as_bytes());
        assert_eq!(id(r#"{"jsonrpc":"2.0","id":7,"method":"x","params":"#).as_deref(), Some("7"));
        assert_eq!(id(r#"{"id": "a" ,"params":{"id":3"#).as_deref(), Some("\"a\""));
        assert_eq!(id(r#"{"params":{"id":3"#), None);
        assert_eq!(id("xxxx"), None);
    }
}
