//! What an agent can do, by its answer to initialize.

use rethread_domain::quote;
use rethread_engine::agents::{Abilities, AgentError};
use serde_json::Value;

use crate::frame;
use crate::presets::{Entry, Load};

/// The capabilities that an agent reports, corrected by what is known about it.
pub(crate) fn first(answer: &str, entry: &Entry) -> Result<Abilities, AgentError> {
    let answer = frame::tree(answer);
    let nonsense =
        |why: &str| AgentError::Nonsense { what: "initialize".to_owned(), why: why.to_owned() };
    let version = &answer["protocolVersion"];
    let can = &answer["agentCapabilities"];
    match version.as_u64() {
        Some(1) => (),
        // Some answer 2 because another client asked for it, and mean 1.
        Some(2) if can.is_object() => (),
        Some(other) => return Err(AgentError::WrongVersion(other.to_string())),
        None if version.is_null() => return Err(nonsense("it has no protocolVersion")),
        None => return Err(AgentError::WrongVersion(version.to_string())),
    }
    let info = &answer["agentInfo"];
    let text = |value: &Value| value.as_str().map(quote::safe);
    let session = &can["sessionCapabilities"];
    let has = |name: &str| !matches!(session[name], Value::Null | Value::Bool(false));
    Ok(Abilities {
        name: text(&info["title"]).or_else(|| text(&info["name"])),
        version: text(&info["version"]),
        resume: has("resume") || entry.quirks.resume_unadvertised,
        load: can["loadSession"] == true && entry.quirks.load != Load::Unsafe,
        list: has("list"),
        embedded: can["promptCapabilities"]["embeddedContext"] == true && entry.quirks.embeds,
        keeps_request: entry.quirks.keeps_request,
        reuses_ids: entry.quirks.reuses_ids,
    })
}

/// The same in version 2.
pub(crate) fn second(answer: &str, entry: &Entry) -> Abilities {
    let answer = frame::tree(answer);
    let text = |value: &Value| value.as_str().map(quote::safe);
    let info = &answer["info"];
    let sessions = &answer["capabilities"]["session"];
    // An empty object stands for new, list, resume, close, prompt and cancel.
    let has = sessions.is_object();
    Abilities {
        name: text(&info["title"]).or_else(|| text(&info["name"])),
        version: text(&info["version"]),
        resume: has,
        // That is a resume with its replay.
        load: has && entry.quirks.load != Load::Unsafe,
        list: has,
        embedded: sessions["prompt"]["embeddedContext"].is_object() && entry.quirks.embeds,
        keeps_request: entry.quirks.keeps_request,
        reuses_ids: entry.quirks.reuses_ids,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_version_2_an_agent_with_sessions_can_open_and_list_them() {
        let answer = r#"{"protocolVersion":2,"info":{"name":"n","version":"3"},"capabilities":{"session":{"prompt":{"embeddedContext":{}}}}}"#;
        let known = second(answer, &Entry::default());
        assert!(known.resume && known.load && known.list && !known.embedded);
        assert_eq!((known.name.as_deref(), known.version.as_deref()), (Some("n"), Some("3")));
    }
}
