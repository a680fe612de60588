//! The list of sessions: ours, and those of the agent that are not ours.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use rethread_engine::program::{Fault, real_folder};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::hub::Hub;
use super::raw::{self, Kind, Raw};
use super::replies;
use crate::frame::{self, Fields};

/// For the agent's own list: without it, ours is given alone.
const LONGEST_LIST: Duration = Duration::from_secs(5);

/// Where a page begins: in our list and in the agent's. Each is `None` once there is nothing more in it.
struct Place {
    ours: Option<String>,
    agents: Option<String>,
    is_first: bool,
}

impl Place {
    fn read(cursor: Option<String>) -> Option<Self> {
        let Some(cursor) = cursor else {
            return Some(Self { ours: None, agents: None, is_first: true });
        };
        let known: Value = serde_json::from_str(&cursor).ok()?;
        let text = |name: &str| known[name].as_str().map(str::to_owned);
        known.is_object().then(|| Self { ours: text("r"), agents: text("a"), is_first: false })
    }

    fn write(&self) -> Option<String> {
        let is_more = self.ours.is_some() || self.agents.is_some();
        is_more.then(|| json!({ "r": self.ours, "a": self.agents }).to_string())
    }
}

/// Answers `session/list`.
pub(crate) async fn answer(hub: Arc<Hub>, line: String) {
    let Some(raw) = Raw::parse(line.as_bytes()) else { return };
    let Kind::Request { id, .. } = &raw.kind else { return };
    let params = Fields::parse(raw.params).unwrap_or_default();
    let Some(place) = Place::read(params.text("cursor")) else {
        let reason = "this cursor is not one of ours";
        let fault = raw::fault(-32602, reason, &json!({ "reason": reason }));
        return hub.outbox.say(raw::error(id, &fault)).await;
    };
    let line = match page(&hub, &params, place).await {
        Ok(page) => raw::result(id, &page.to_string()),
        Err(fault) => {
            let reason = fault.to_string();
            raw::error(id, &raw::fault(-32603, &reason, &json!({ "reason": reason })))
        }
    };
    hub.outbox.say(line).await;
}

async fn page(hub: &Arc<Hub>, params: &Fields<'_>, place: Place) -> Result<Value, Fault> {
    let user = hub.program.user()?;
    let cwd = params.text("cwd");
    let folder = cwd.as_deref().map(|cwd| {
        let real = real_folder(std::path::Path::new(cwd));
        real.map_or_else(|_| cwd.to_owned(), |real| real.to_string_lossy().into_owned())
    });
    let mut sessions = Vec::new();
    let mut next = Place { ours: None, agents: None, is_first: false };
    if place.is_first || place.ours.is_some() {
        let found =
            hub.engine.sessions_for_editor(&user, folder.as_deref(), place.ours.as_deref()).await?;
        next.ours = found.next;
        sessions.extend(found.sessions.iter().map(replies::listed));
    }
    if place.is_first || place.agents.is_some() {
        let (theirs, more) = of_agent(hub, params, place.agents.as_deref()).await;
        next.agents = more;
        let mut seen = HashSet::new();
        for one in theirs {
            let Some(native) = one["sessionId"].as_str().map(str::to_owned) else { continue };
            if seen.insert(native.clone())
                && !hub.engine.is_held_by(&hub.first.agent, &native).await?
            {
                sessions.push(one);
            }
        }
    }
    let time = |one: &Value| -> Option<jiff::Timestamp> { one["updatedAt"].as_str()?.parse().ok() };
    sessions.sort_by_key(|one| std::cmp::Reverse(time(one)));
    let mut page = json!({ "sessions": sessions });
    if let Some(cursor) = next.write() {
        page["nextCursor"] = cursor.into();
    }
    Ok(page)
}

/// A page of the agent's own list, if it has one, and where the next begins.
async fn of_agent(
    hub: &Arc<Hub>,
    params: &Fields<'_>,
    cursor: Option<&str>,
) -> (Vec<Value>, Option<String>) {
    let nothing = (Vec::new(), None);
    let Some(upstream) = hub.first.alive() else { return nothing };
    let hello = upstream.hello.get().map(|hello| frame::tree(hello)).unwrap_or_default();
    let list = &hello["agentCapabilities"]["sessionCapabilities"]["list"];
    let lacks = matches!(list, Value::Null | Value::Bool(false));
    if lacks && !hello["capabilities"]["session"].is_object() {
        return nothing;
    }
    let mut asked = json!({});
    if let Some(cwd) = params.text("cwd") {
        asked["cwd"] = cwd.into();
    }
    if let Some(cursor) = cursor {
        asked["cursor"] = cursor.into();
    }
    let asked = asked.to_string();
    let call = upstream.call("session/list", &asked, Box::new(|_| ()));
    let Ok(Ok(answer)) = timeout(LONGEST_LIST, call).await else { return nothing };
    let answer = frame::tree(&answer);
    let sessions = answer["sessions"].as_array().cloned().unwrap_or_default();
    (sessions, answer["nextCursor"].as_str().map(str::to_owned))
}
