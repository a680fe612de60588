//! Sessions as resources: the list, transcripts, and contexts.

use rethread_domain::Session;
use rethread_domain::quote::{one_line, quoted};
use rethread_engine::{ContextOptions, ListFilter, Order, Span};
use rmcp::ErrorData;
use rmcp::model::{ReadResourceResult, Resource, ResourceContents, ResourceTemplate};

use crate::error::Failure;
use crate::server::ServerState;

const SESSIONS: &str = "rethread://sessions";
const SESSION: &str = "rethread://session/";
const CONTEXT: &str = "/context";
const MARKDOWN: &str = "text/markdown";
const LISTED: u32 = 50;
/// The longest transcript, in bytes; it has the last messages.
const LONGEST: usize = 256 * 1024;
const PAGE: u32 = 100;

async fn sessions(state: &ServerState) -> Result<Vec<Session>, ErrorData> {
    let filter = ListFilter {
        user: Some(state.caller.user.clone()),
        project: Some(state.caller.project.to_string_lossy().into_owned()),
        limit: LISTED,
        ..ListFilter::default()
    };
    state.engine.list(&filter).await.map_err(|error| unreadable(error.into()))
}

fn unreadable(failure: Failure) -> ErrorData {
    ErrorData::resource_not_found(failure.to_string(), None)
}

pub(crate) async fn list(state: &ServerState) -> Result<Vec<Resource>, ErrorData> {
    let all = Resource::new(SESSIONS, "sessions")
        .with_title("Sessions")
        .with_description("The sessions of this project, the most recent first")
        .with_mime_type("application/json");
    let mut resources = vec![all];
    for session in sessions(state).await? {
        let title = one_line(&state.clean(session.title.as_deref().unwrap_or("untitled")), 80);
        resources.push(
            Resource::new(format!("{SESSION}{}", session.id), session.id.short())
                .with_title(title)
                .with_mime_type(MARKDOWN),
        );
    }
    Ok(resources)
}

pub(crate) fn templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new(format!("{SESSION}{{id}}"), "session")
            .with_description("What was said in a session")
            .with_mime_type(MARKDOWN),
        ResourceTemplate::new(format!("{SESSION}{{id}}{CONTEXT}"), "context")
            .with_description("The context needed to continue a session")
            .with_mime_type(MARKDOWN),
    ]
}

pub(crate) async fn read(state: &ServerState, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let (text, kind) = if uri == SESSIONS {
        let sessions = sessions(state).await?;
        let views = sessions.iter().map(|session| state.session_view(session));
        let views = views.collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
        let text = serde_json::to_string_pretty(&views);
        (
            text.map_err(|error| ErrorData::internal_error(error.to_string(), None))?,
            "application/json",
        )
    } else {
        (one(state, uri).await.map_err(unreadable)?, MARKDOWN)
    };
    let contents = ResourceContents::text(text, uri).with_mime_type(kind);
    Ok(ReadResourceResult::new(vec![contents]))
}

async fn one(state: &ServerState, uri: &str) -> Result<String, Failure> {
    let Some(rest) = uri.strip_prefix(SESSION) else {
        let what = format!("There is no resource {}", one_line(uri, 80));
        return Err(Failure::new(what, format!("{SESSIONS} lists the sessions")));
    };
    let (id, is_context) = match rest.strip_suffix(CONTEXT) {
        Some(id) => (id, true),
        None => (rest, false),
    };
    let session = state.session(id).await?;
    if !is_context {
        return transcript(state, &session).await;
    }
    session.can_resume()?;
    let options = ContextOptions { limits: state.limits.context, ..ContextOptions::default() };
    Ok(state.engine.context(session.id, &options).await?.context)
}

/// The transcript, oldest message first: whole, or its end.
async fn transcript(state: &ServerState, session: &Session) -> Result<String, Failure> {
    let mut pieces = Vec::new();
    let mut bytes = 0;
    let mut to = session.last_seq;
    'all: while to > 0 {
        let span = Span { from: 1, to, order: Order::NewestFirst, limit: PAGE };
        let page = state.engine.messages(session.id, span).await?;
        if page.is_empty() {
            break;
        }
        for message in page {
            let by = message
                .extras
                .agent
                .as_ref()
                .map_or(String::new(), |agent| format!(" ({})", one_line(agent, 40)));
            let text = state.clean(message.body.head());
            let shown = &text[..text.floor_char_boundary(LONGEST / 2)];
            let mut piece = format!(
                "## {} {}{by}, {}\n\n{}\n",
                message.seq,
                message.role.label(),
                message.at,
                quoted(shown)
            );
            if shown.len() < text.len() {
                let (omitted, from) = (text.len() - shown.len(), shown.len());
                piece.push_str(&format!(
                    "\n[{omitted} bytes are left out: get_session with seq {} and offset {from} reads on.]\n",
                    message.seq
                ));
            }
            if message.is_cut_short() {
                piece.push_str("\n[This answer was interrupted.]\n");
            }
            bytes += piece.len();
            if bytes > LONGEST && !pieces.is_empty() {
                break 'all;
            }
            to = message.seq - 1;
            pieces.push(piece);
        }
    }
    let title = one_line(&state.clean(session.title.as_deref().unwrap_or("untitled")), 200);
    let mut text = format!("# {title}\n\nSession {}, {}.\n\n", session.id, session.status());
    if to > 0 {
        text.push_str(&format!(
            "{} left out; get_session reads further back.\n\n",
            if to == 1 {
                "1 earlier message is".to_owned()
            } else {
                format!("{to} earlier messages are")
            }
        ));
    }
    pieces.reverse();
    text.push_str(&pieces.join("\n"));
    Ok(text)
}
