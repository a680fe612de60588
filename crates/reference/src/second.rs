//! Version 2 of the protocol: what version 1 says, in other words.

use serde_json::{Value, json};

/// Whether a client that asks for version 2 means it: its greeting has another shape.
pub(crate) fn is_asked_for(greeting: &Value) -> bool {
    greeting["protocolVersion"].as_u64() >= Some(2) && greeting["info"].is_object()
}

/// The answer to a greeting.
pub(crate) fn greeted(answer: &Value) -> Value {
    let embedded = &answer["agentCapabilities"]["promptCapabilities"]["embeddedContext"];
    let prompt = if *embedded == true { json!({ "embeddedContext": {} }) } else { json!({}) };
    json!({
        "protocolVersion": 2,
        "info": answer["agentInfo"],
        "capabilities": { "session": { "prompt": prompt } },
    })
}

/// The answer to new and resume: there are no modes, and options have other names.
pub(crate) fn opened(mut answer: Value) -> Value {
    if let Some(fields) = answer.as_object_mut() {
        fields.remove("modes");
    }
    options(&mut answer);
    answer
}

pub(crate) fn options(answer: &mut Value) {
    for option in answer["configOptions"].as_array_mut().into_iter().flatten() {
        option["configId"] = option["id"].take();
        if let Some(fields) = option.as_object_mut() {
            fields.remove("id");
        }
    }
}

pub(crate) fn update(update: &mut Value) {
    match update["sessionUpdate"].as_str() {
        Some("tool_call") => update["sessionUpdate"] = "tool_call_update".into(),
        Some("plan") => {
            let plan = json!({ "type": "items", "planId": "plan", "entries": update["entries"] });
            *update = json!({ "sessionUpdate": "plan_update", "plan": plan });
        }
        _ => (),
    }
}

/// A question whether a tool may be used.
pub(crate) fn question(params: &mut Value) {
    let call = params["toolCall"].take();
    params["title"] = call["title"].clone();
    params["subject"] = json!({ "type": "tool_call", "toolCall": call });
    if let Some(fields) = params.as_object_mut() {
        fields.remove("toolCall");
    }
}

/// What has become of a prompt: it was accepted, and the agent works on it.
pub(crate) fn accepted(id: &str, blocks: &[Value]) -> Value {
    json!({ "sessionUpdate": "user_message", "messageId": id, "content": blocks })
}

pub(crate) fn running() -> Value {
    json!({ "sessionUpdate": "state_update", "state": "running" })
}

/// The agent has nothing to do any more.
pub(crate) fn idle(answer: Result<Value, Value>) -> Value {
    let mut idle = json!({ "sessionUpdate": "state_update", "state": "idle" });
    match answer {
        Ok(answer) => {
            idle["stopReason"] = answer["stopReason"].clone();
            idle["usage"] = answer["usage"].clone();
        }
        Err(error) => {
            idle["stopReason"] = "error".into();
            idle["error"] = error;
        }
    }
    idle
}
