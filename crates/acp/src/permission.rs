//! An agent asks whether it may use a tool.

use agent_client_protocol_schema::v1::{
    RequestPermissionOutcome, RequestPermissionResponse, SelectedPermissionOutcome,
};
use rethread_domain::consent::{self, Request};
use rethread_domain::turn::{Permission, Update};
use rethread_engine::agents::{Choice, PermissionOption, Question};
use serde_json::{Value, json};

use crate::calls::Call;
use crate::classify::RpcError;
use crate::diff;
use crate::frame::{self, Fields};
use crate::session::Shared;
use crate::translate;

/// How many answers an agent may offer; further ones are ignored.
const MOST_OPTIONS: usize = 64;

/// Asks the permission handler, records its answer, then tells the agent. A cancel of the turn answers first.
pub(crate) async fn answer(shared: &Shared, params: &Fields<'_>) -> Result<Value, RpcError> {
    let Some(running) = shared.running() else { return response(None) };
    let question = question(shared, params);
    let chosen = tokio::select! {
        biased;
        () = running.cancelled.wait() => None,
        chosen = shared.permissions.permit(&question) => chosen,
    };
    let is_offered =
        |chosen: &Choice| question.options.iter().any(|known| known.id == chosen.option);
    let chosen = chosen.filter(is_offered);
    if let Some(chosen) = &chosen {
        // What the agent may do itself, it may also have us do: exactly that.
        running.decide(&question.intent, chosen.allows());
    }
    let record = Permission {
        tool: question.tool.clone(),
        title: translate::shortened(question.intent.headline()),
        kind: question.intent.kind.clone(),
        answer: chosen.as_ref().map_or("cancelled", |chosen| &chosen.kind).to_owned(),
        by: chosen.as_ref().map_or("user", |chosen| chosen.by).to_owned(),
    };
    running.pass(Update::Permission(record)).await;
    response(chosen.map(|chosen| chosen.option))
}

fn response(option: Option<String>) -> Result<Value, RpcError> {
    let outcome = option.map_or(RequestPermissionOutcome::Cancelled, |option| {
        RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(option))
    });
    serde_json::to_value(RequestPermissionResponse::new(outcome))
        .map_err(|error| RpcError::new(-32603, error.to_string()))
}

/// The question, from what the agent says now and what it reported about the same call before.
fn question(shared: &Shared, params: &Fields<'_>) -> Question {
    let command = command(params);
    let asked = command.as_deref().and_then(Fields::parse).or_else(|| call(params));
    let asked = asked.unwrap_or_default();
    let tool = translate::name(&asked, "toolCallId").unwrap_or_default();
    let known = shared.tool(&tool).unwrap_or_default();
    // All of it: nobody is to allow what they have not seen.
    let own = asked.text("title");
    let is_titled = own.is_some() || !translate::is_shortened(&known.title);
    let title = own.unwrap_or_else(|| known.title.clone());
    let kind = translate::name(&asked, "kind").unwrap_or_else(|| known.kind.clone());
    let part = |name: &str, known: &Option<String>| {
        let own = asked.get(name).filter(|raw| !matches!(*raw, "null" | "{}" | "[]"));
        own.map(str::to_owned).or_else(|| known.clone())
    };
    let Call { input, locations, content, is_cut, .. } = &known;
    let own_input = part("rawInput", &None);
    // What was too long to be kept is missing unless it comes with the question.
    let is_cut = *is_cut && own_input.is_none();
    let input = own_input.or_else(|| input.clone());
    let (input, is_read) = input.map_or((Value::Null, true), |raw| frame::arguments(&raw));
    let (changes, mut places) = changes(&part("content", content).unwrap_or_default());
    places.extend(paths(&part("locations", locations).unwrap_or_default()));
    let roots = shared.server.roots();
    let roots: Vec<&str> = roots.iter().map(String::as_str).collect();
    let (kind, title) = (kind.as_str(), title.as_str());
    let request =
        Request { kind, title, input: &input, places: &places, changes: &changes, roots: &roots };
    let mut intent = consent::read(&request);
    shared.server.note(&mut intent);
    // For a change of a file, the path is enough; of a command, nothing may be missing.
    let is_whole = is_read
        && (is_titled || intent.is_pinned())
        && !(is_cut && matches!(intent.kind.as_str(), "execute" | "other"));
    Question {
        tool,
        intent,
        is_whole,
        agent: String::new(),
        unlasting: None,
        options: options(params),
    }
}

/// The tool call that is asked about: version 2 has it as the subject of the question.
fn call<'a>(params: &Fields<'a>) -> Option<Fields<'a>> {
    let subject = params.get("subject").and_then(Fields::parse);
    params.get("toolCall").or_else(|| subject?.get("toolCall")).and_then(Fields::parse)
}

/// The command that version 2 may ask about without a tool call, as one.
fn command(params: &Fields<'_>) -> Option<String> {
    let subject = params.get("subject").and_then(Fields::parse)?;
    let command = subject.text("command")?;
    let input = json!({ "command": command });
    Some(json!({ "kind": "execute", "title": command, "rawInput": input }).to_string())
}

fn options(params: &Fields<'_>) -> Vec<PermissionOption> {
    let options = params.get("options").map(frame::elements).unwrap_or_default();
    let offered = options.into_iter().filter_map(Fields::parse).filter_map(|option| {
        let id = option.text("optionId")?;
        let name = option.text("name").unwrap_or_else(|| id.clone());
        Some(PermissionOption { id, name, kind: option.text("kind").unwrap_or_default() })
    });
    let mut options: Vec<PermissionOption> = Vec::new();
    for option in offered.take(MOST_OPTIONS) {
        // Of two options with the same id, it is unclear which one is chosen.
        if !options.iter().any(|known| known.id == option.id) {
            options.push(option);
        }
    }
    options
}

/// The changes in the content of a call, with their files.
fn changes(content: &str) -> (Vec<String>, Vec<String>) {
    let parts = frame::elements(content).into_iter().filter_map(Fields::parse);
    let diffs = parts.filter(|part| part.text("type").as_deref() == Some("diff"));
    let (mut texts, mut places) = (Vec::new(), Vec::new());
    for change in diffs {
        texts.push(translate::edited(&change, diff::ASKED));
        let files = change.get("changes").map(frame::elements).unwrap_or_default();
        let files = files.into_iter().filter_map(Fields::parse);
        // Version 2 has all files of a change together.
        places.extend(files.flat_map(|file| [file.text("path"), file.text("oldPath")]).flatten());
        if change.get("changes").is_none() {
            places.push(change.text("path").unwrap_or_default());
        }
    }
    (texts, places)
}

fn paths(locations: &str) -> Vec<String> {
    let places = frame::elements(locations).into_iter().filter_map(Fields::parse);
    places.filter_map(|place| place.text("path")).collect()
}
