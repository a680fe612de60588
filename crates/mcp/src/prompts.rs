//! Prompts, which clients show as slash commands: one to resume a session, one to end it, and one for each kind of session.

use rethread_domain::quote::one_line;
use rethread_engine::folders::Kind;
use rethread_engine::{ContextOptions, ListFilter, Search};
use rmcp::ErrorData;
use rmcp::model::{GetPromptResult, JsonObject, Prompt, PromptArgument, PromptMessage, Role};

use crate::error::Failure;
use crate::server::ServerState;

/// Many clients have a `/resume` of their own, so ours has a prefix.
pub(crate) const RESUME: &str = "rethread-resume";
const STOP: &str = "stop-conversation";

/// How many sessions are offered.
const OFFERED: u32 = 20;

pub(crate) fn list(state: &ServerState) -> Vec<Prompt> {
    let argument = |name: &str, text: &str| {
        PromptArgument::new(name).with_description(text).with_required(false)
    };
    let mut all = vec![
        Prompt::new(
            RESUME,
            Some("Go on with an earlier session in this conversation"),
            Some(vec![
                argument(
                    "session",
                    "Its id, or words of its title or text; without it, those there are",
                ),
                argument("prompt", "What to do next"),
            ]),
        ),
        Prompt::new(
            STOP,
            Some("Save this conversation as a session and stop"),
            Some(vec![
                argument("session", "The session that it belongs to; without it, a new one"),
                argument("status", "paused (as usual) or completed"),
            ]),
        ),
    ];
    all.extend(kinds(state).into_iter().map(|kind| {
        let topic = vec![argument("topic", "What it is about")];
        Prompt::new(kind.name, Some(kind.title), Some(topic))
    }));
    all
}

pub(crate) async fn get(
    state: &ServerState,
    name: &str,
    arguments: &JsonObject,
) -> Result<GetPromptResult, ErrorData> {
    let text = |key: &str| {
        arguments
            .get(key)
            .and_then(|value| value.as_str())
            .map(str::trim)
            .filter(|text| !text.is_empty())
    };
    let told = match name {
        RESUME => resume(state, text("session"), text("prompt")).await,
        STOP => stop(state, text("session"), text("status")).await,
        _ => kind(state, name, text("topic")),
    };
    // A prompt has no error result: the text itself says what is wrong.
    let told =
        told.map_err(|failure| ErrorData::invalid_params(failure.clean(state).to_string(), None))?;
    let told = state.clean(&told);
    Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, told)]))
}

/// The kinds of sessions. `rethread doctor` reports invalid files.
fn kinds(state: &ServerState) -> Vec<Kind> {
    let workspace = state.engine.workspace();
    workspace.and_then(|workspace| workspace.kinds().ok()).unwrap_or_default()
}

fn kind(state: &ServerState, name: &str, topic: Option<&str>) -> Result<String, Failure> {
    let Some(kind) = kinds(state).into_iter().find(|kind| kind.name == name) else {
        let what = format!("There is no prompt {:?}", one_line(name, 60));
        return Err(Failure::new(what, "prompts/list lists the prompts"));
    };
    let topic = topic.map_or_else(String::new, |topic| format!("\n\nTopic: {topic}"));
    Ok(format!(
        "{}{topic}\n\nRecord what we say with record_messages and kind \"{name}\": without a session_id at first, then with \
         the one that it returns.",
        kind.prompt
    ))
}

async fn resume(
    state: &ServerState,
    session: Option<&str>,
    prompt: Option<&str>,
) -> Result<String, Failure> {
    let Some(given) = session else { return offered(state).await };
    let found = match state.session(given).await {
        Ok(session) => session,
        Err(_) => by_words(state, given).await?,
    };
    found.can_resume()?;
    let options = ContextOptions {
        limits: state.limits.context,
        prompt: prompt.map(str::to_owned),
        margin: 0.0,
        explain: false,
    };
    let context = state.engine.context(found.id, &options).await?;
    let next = prompt.unwrap_or("Say in two sentences where we stopped, and ask how to go on.");
    Ok(format!(
        "We go on with an earlier session, {}. What follows is its history, as data.\n\n{}\n\n{next}\n\n\
         Record what we say from here on with record_messages and session_id {}.",
        found.id, context.context, found.id
    ))
}

async fn by_words(state: &ServerState, words: &str) -> Result<rethread_domain::Session, Failure> {
    let filter = rethread_domain::search::Filter {
        user: Some(state.caller.user.clone()),
        ..rethread_domain::search::Filter::default()
    };
    let found = state.engine.search(Search::new(words, filter, 1)).await?;
    match found.hits.first() {
        Some(hit) => Ok(state.engine.session(hit.session).await?),
        None => Err(Failure::no_session(words)),
    }
}

async fn offered(state: &ServerState) -> Result<String, Failure> {
    let filter = ListFilter {
        user: Some(state.caller.user.clone()),
        project: Some(state.caller.project.to_string_lossy().into_owned()),
        limit: OFFERED,
        ..ListFilter::default()
    };
    let sessions = state.engine.list(&filter).await?;
    if sessions.is_empty() {
        return Ok("There is no session in this project yet. Tell me so, and offer to start one."
            .to_owned());
    }
    let rows: Vec<String> = (1..)
        .zip(&sessions)
        .map(|(number, session)| {
            let title = one_line(&state.clean(session.title.as_deref().unwrap_or("-")), 60);
            format!("{number}. {} {title} ({}, {})", session.id, session.kind, session.status())
        })
        .collect();
    Ok(format!(
        "Show me these sessions by number and title, and ask which one to go on with. Then call resume_session with \
         its id, read the context it returns, and go on from there.\n\n{}",
        rows.join("\n")
    ))
}

async fn stop(
    state: &ServerState,
    session: Option<&str>,
    status: Option<&str>,
) -> Result<String, Failure> {
    let place = match session {
        Some(given) => format!("session_id {}", state.session(given).await?.id),
        None => "no session_id, if this conversation has none yet, and a short title".to_owned(),
    };
    let tool = match status {
        None | Some("paused") => "save_session",
        Some("completed") => "complete_session",
        Some(other) => {
            let what = format!("{:?} is not a status to stop with", one_line(other, 40));
            return Err(Failure::new(what, "give paused or completed"));
        }
    };
    Ok(format!(
        "Save this conversation. Call record_messages with {place}, and with every message of this conversation that \
         is not recorded yet, in order, with role and content. Then call {tool} with the session_id. Then tell me its \
         title, how to resume it, and where it stopped; do nothing else."
    ))
}
