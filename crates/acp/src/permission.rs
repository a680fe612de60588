//! An agent asks whether it may use a tool.

use agent_client_protocol::v1::schema::{
    RequestPermissionOutcome, RequestPermissionResponse, SelectedPermissionOutcome,
};
use rethread_domain::turn::{Permission, Update};
use rethread_engine::agents::{Choice, Deed, Opt, Question};
use serde_json::Value;

use crate::classify::RpcError;
use crate::frame::{self, Fields};
use crate::session::Shared;
use crate::translate;

/// How many answers an agent may offer; what comes after them is not looked at.
const MOST_OPTIONS: usize = 64;

/// Asks the desk, writes down what it said, then tells the agent. A cancel of the turn answers first.
pub(crate) async fn answer(shared: &Shared, params: &Fields<'_>) -> Result<Value, RpcError> {
    let Some(running) = shared.running() else { return told(None) };
    let question = question(shared, params);
    let chosen = tokio::select! {
        biased;
        () = running.cancelled.wait() => None,
        chosen = shared.desk.permit(&question) => chosen,
    };
    let option = |chosen: &Choice| question.options.iter().find(|known| known.id == chosen.option);
    let kind = chosen.as_ref().and_then(option).map(|option| option.kind.clone());
    let chosen = chosen.filter(|_| kind.is_some());
    let is_yes = kind.as_deref().is_some_and(|kind| kind.starts_with("allow_"));
    if let Some(deed) = Deed::of(&question.kind).filter(|_| is_yes) {
        // What it may do itself, it may have us do.
        running.decide(deed, true);
    }
    let record = Permission {
        tool: question.tool.clone(),
        title: translate::shortened(question.title.clone()),
        kind: question.kind.clone(),
        answer: kind.unwrap_or_else(|| "cancelled".to_owned()),
        by: chosen.as_ref().map_or("user", |chosen| chosen.by).to_owned(),
    };
    running.pass(Update::Permission(record)).await;
    told(chosen.map(|chosen| chosen.option))
}

fn told(option: Option<String>) -> Result<Value, RpcError> {
    let outcome = option.map_or(RequestPermissionOutcome::Cancelled, |option| {
        RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(option))
    });
    serde_json::to_value(RequestPermissionResponse::new(outcome))
        .map_err(|error| RpcError::new(-32603, error.to_string()))
}

fn question(shared: &Shared, params: &Fields<'_>) -> Question {
    let call = params.get("toolCall").and_then(Fields::parse).unwrap_or_default();
    let tool = translate::name(&call, "toolCallId").unwrap_or_default();
    let (title, kind) = shared.tool(&tool).unwrap_or_default();
    // All of it: nobody is to allow what they have not seen.
    let own = call.text("title");
    let options = params.get("options").map(frame::elements).unwrap_or_default();
    let offered = options.into_iter().filter_map(Fields::parse).filter_map(|option| {
        let id = option.text("optionId")?;
        let name = option.text("name").unwrap_or_else(|| id.clone());
        Some(Opt { id, name, kind: option.text("kind").unwrap_or_default() })
    });
    let mut options: Vec<Opt> = Vec::new();
    for option in offered.take(MOST_OPTIONS) {
        // Of two that are called the same, nobody knows which one is meant.
        if !options.iter().any(|known| known.id == option.id) {
            options.push(option);
        }
    }
    Question {
        is_whole: own.is_some() || !translate::is_shortened(&title),
        title: own.unwrap_or(title),
        kind: translate::name(&call, "kind").unwrap_or(kind),
        first: None,
        options,
        tool,
    }
}
