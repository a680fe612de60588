//! What the editor sends to the agent as it is, but for ids.

use std::sync::Arc;

use rethread_engine::agents::{AgentError, Settings};
use serde_json::json;

use super::binding::Binding;
use super::hub::Hub;
use super::raw::{self, Edit, Kind, Raw};
use super::replies;
use super::upstream::Pending;
use crate::classify::{RpcError, classify};
use crate::frame::{self, Fields};

/// Passes a request or a notification on.
pub(crate) async fn to_agent(hub: &Arc<Hub>, raw: &Raw<'_>, binding: Option<&Arc<Binding>>) {
    let native = binding.and_then(|binding| binding.native());
    let backend = binding.map_or_else(|| Arc::clone(&hub.first), |binding| binding.backend());
    match &raw.kind {
        Kind::Request { id, method } => {
            let upstream = match backend.upstream(hub).await {
                Ok(upstream) => upstream,
                Err((trouble, error)) => {
                    let error = error.unwrap_or_else(|| replies::of_agent(&trouble));
                    return hub.outbox.say(raw::error(id, &error)).await;
                }
            };
            if upstream.is_crowded() {
                let reason = "the agent has too many requests to answer";
                let fault = raw::fault(-32603, reason, &json!({ "reason": reason }));
                return hub.outbox.say(raw::error(id, &fault)).await;
            }
            let sets = setting(method, raw.params);
            let pending = Pending::Editor { id: (*id).to_owned(), binding: binding.cloned(), sets };
            let Ok(ours) = upstream.expect(pending) else {
                let trouble = upstream.ended(backend.launcher.limits.close).await;
                let error = replies::of_agent(&trouble);
                return hub.outbox.say(raw::error(id, &error)).await;
            };
            // If the agent ends meanwhile, whoever waits is told then.
            upstream.send(raw.with(Some(&ours.to_string()), native.as_deref())).await;
        }
        Kind::Notification { method } => {
            let Some(upstream) = backend.alive() else { return };
            let mut line = raw.with(None, native.as_deref());
            if method == "$/cancel_request" {
                let meant = Fields::parse(raw.params).and_then(|params| params.get("requestId"));
                let ours = meant.and_then(|meant| Some((meant, upstream.id_of(meant)?)));
                // What the agent was never asked, it cannot be told to stop.
                let Some((meant, ours)) = ours else { return };
                let mut edit = Edit::new(raw.line);
                edit.replace(meant, &ours.to_string());
                line = edit.finish();
            }
            upstream.send(line).await;
        }
        Kind::Result { .. } | Kind::Error { .. } => (),
    }
}

/// What a request sets in its session.
fn setting(method: &str, params: &str) -> Settings {
    let params = Fields::parse(params).unwrap_or_default();
    let mut settings = Settings::default();
    match method {
        "session/set_mode" => settings.mode = params.text("modeId"),
        "session/set_model" => settings.model = params.text("modelId"),
        "session/set_config_option" => {
            let value =
                params.get("value").map(|raw| frame::text(raw).unwrap_or_else(|| raw.to_owned()));
            if let (Some(name), Some(value)) = (params.text("configId"), value) {
                settings.options.insert(name, value);
            }
        }
        _ => (),
    }
    settings
}

/// A prompt that cannot be recorded: it goes to the agent all the same; `false` if the agent does not have the session.
pub(crate) async fn unrecorded(binding: &Arc<Binding>, id: &str, line: &str) -> bool {
    let (Some(upstream), Some(native)) = (binding.backend().alive(), binding.native()) else {
        return false;
    };
    let Some(raw) = Raw::parse(line.as_bytes()) else { return false };
    let (id, binding) = (id.to_owned(), Some(Arc::clone(binding)));
    let pending = Pending::Editor { id, binding, sets: Settings::default() };
    let Ok(ours) = upstream.expect(pending) else { return false };
    upstream.send(raw.with(Some(&ours.to_string()), Some(&native))).await
}

/// A session that we do not know: the agent may have it from before.
pub(crate) async fn unknown(hub: &Arc<Hub>, id: &str, method: &str, raw: &Raw<'_>) {
    let named = raw.session.as_ref().map(|(_, named)| named.clone()).unwrap_or_default();
    let upstream = match hub.first.upstream(hub).await {
        Ok(upstream) => upstream,
        Err((trouble, error)) => {
            let error = error.unwrap_or_else(|| replies::of_agent(&trouble));
            return hub.outbox.say(raw::error(id, &error)).await;
        }
    };
    let line = match upstream.call(method, raw.params, Box::new(|_| ())).await {
        Ok(answer) => {
            // Null is allowed, but some editors cannot read it.
            raw::result(id, if answer == "null" { "{}" } else { &answer })
        }
        Err(Some(error)) => {
            let known = classify(method, &RpcError::parse(&error), hub.first.launcher.entry.quirks);
            let is_gone = matches!(known, AgentError::SessionGone(_) | AgentError::Unsupported(_));
            if is_gone {
                let reason = format!("neither Rethread nor {} knows this session", hub.first.agent);
                let data = json!({ "sessionId": named, "reason": reason });
                let message = format!("session not found: {named}");
                raw::error(id, &raw::fault(-32002, &message, &data))
            } else {
                raw::error(id, &error)
            }
        }
        Err(None) => {
            let trouble = upstream.ended(hub.first.launcher.limits.close).await;
            raw::error(id, &replies::of_agent(&trouble))
        }
    };
    hub.outbox.say(line).await;
}
