//! `rethread show`

use std::fmt::Write as _;
use std::process::ExitCode;

use rethread_domain::context::Metadata;
use rethread_domain::id::SessionRef;
use rethread_domain::quote::one_line;
use rethread_domain::turn::INTERRUPTED;
use rethread_domain::wording::counted;
use rethread_domain::{Conversation, Fact, Message, Session};
use rethread_engine::views::{ConversationView, MessageView, OpeningView, SessionView, openings};
use rethread_store::{Order, Span};
use serde::Serialize;
use serde_json::Value;

use crate::cli::App;
use crate::output::{self, time};

const LAST: u32 = 20;
const PAGE: u32 = 500;
/// On a terminal, so many lines of a longer message are shown.
const FOLDED: usize = 60;

/// Show a session and its last messages
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session
    #[arg(value_name = "ID")]
    session: SessionRef,
    /// Every message, not only the last 20
    #[arg(long)]
    all: bool,
    /// Stored text as it is, with its control characters
    #[arg(long)]
    raw: bool,
    /// Long messages whole; on a terminal only their first 60 lines are shown
    #[arg(long)]
    full: bool,
}

impl Args {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        let id = app.session(&self.session).await?;
        let preview = app.engine.preview(id).await?;
        let session = &preview.session;
        let conversations = app.engine.conversations(id).await?;
        let children = app.engine.children(id).await?;
        let first = if self.all { 1 } else { session.last_seq.saturating_sub(LAST) + 1 };
        if app.json {
            let text = serde_json::to_string(&Shown {
                session: SessionView::from(session),
                conversations: conversations.iter().map(ConversationView::from).collect(),
                child_session_ids: children.iter().map(|child| child.id.to_string()).collect(),
                openings: openings(&app.engine.facts(id).await?),
                metadata: &preview.metadata,
                omitted_messages: first - 1,
            })?;
            // The messages follow page by page: a session may be longer than memory.
            output::data(text.strip_suffix('}').unwrap_or(&text));
            output::data(",\"messages\":[");
        } else {
            let facts = match session.imported_from {
                Some(_) => app.engine.facts(id).await?,
                None => Vec::new(),
            };
            let from = facts.iter().find_map(|record| match &record.fact {
                Fact::Imported { agent, native, .. } => Some((agent.as_str(), native.as_str())),
                _ => None,
            });
            let imported = match from {
                Some(from) => Some(origin(from, app.engine.deleted_by_agent(id).await?)),
                None => None,
            };
            output::data(&header(session, imported, &conversations, &children, first - 1));
        }
        let mut from = first;
        loop {
            let span = Span { from, to: session.last_seq, order: Order::OldestFirst, limit: PAGE };
            let page = app.engine.messages(id, span).await?;
            let Some(last) = page.last().map(|message| message.seq) else { break };
            let mut text = String::new();
            for message in &page {
                if app.json {
                    let comma = if message.seq > first { "," } else { "" };
                    let line = serde_json::to_string(&MessageView::of(id, message))?;
                    write!(text, "{comma}\n{line}")?;
                } else {
                    text.push_str(&self.render(message, conversations.len() > 1));
                }
            }
            output::data(&text);
            from = last + 1;
        }
        if app.json {
            output::data("]}\n");
        }
        Ok(ExitCode::SUCCESS)
    }

    fn render(&self, message: &Message, several: bool) -> String {
        let of = if several {
            format!(" in {}", one_line(&message.conversation, 60))
        } else {
            String::new()
        };
        let by = message
            .extras
            .agent
            .as_ref()
            .map_or(String::new(), |agent| format!(" ({})", one_line(agent, 40)));
        let head =
            format!("#{} {}{by}{of}, {}", message.seq, message.role, time::minute(message.at));
        let head = head + &mark(message);
        let text = match message.purged_at {
            Some(at) => format!("[purged {}]", time::minute(at)),
            None => output::shown(message.body.head(), self.raw),
        };
        let is_folded = output::is_terminal() && !self.full && !self.raw;
        let text = if is_folded { folded(&text) } else { text };
        format!("\n{}\n{}\n", output::bold(&head), text.trim_end())
    }
}

/// The head of a text, with how much is left out.
fn folded(text: &str) -> String {
    let text = text.trim_end();
    let more = text.lines().count().saturating_sub(FOLDED);
    // What takes as much room as it saves is shown.
    if more < 5 {
        return text.to_owned();
    }
    let head: Vec<&str> = text.lines().take(FOLDED).collect();
    format!("{}\n… {} (--full shows them)", head.join("\n"), counted(more, "more line"))
}

/// A session with `--json`, without its messages.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    session: SessionView,
    conversations: Vec<ConversationView>,
    child_session_ids: Vec<String>,
    openings: Vec<OpeningView>,
    metadata: &'a Metadata,
    omitted_messages: u32,
}

/// How the answer ended that this is the last message of, where it did not end by itself.
pub(super) fn mark(message: &Message) -> String {
    let other = &message.extras.other;
    let text = |name: &str| other.get(name).and_then(Value::as_str);
    if message.is_damaged() {
        return " [damaged]".to_owned();
    }
    if other.get(INTERRUPTED) == Some(&Value::Bool(true)) {
        return " [interrupted]".to_owned();
    }
    match (text("stop"), text("error")) {
        (Some(reason), _) => format!(" [{}]", one_line(reason, 40)),
        (None, Some(why)) => format!(" [failed: {}]", one_line(why, 100)),
        (None, None) => String::new(),
    }
}

/// Where a session was imported from, and whether it is still there.
fn origin((agent, native): (&str, &str), deleted_at: Option<jiff::Timestamp>) -> String {
    let deleted = deleted_at.map(|at| format!(", deleted there by {}", at.strftime("%Y-%m-%d")));
    let (agent, native) = (one_line(agent, 100), one_line(native, 100));
    format!("{agent}, session {native}{}", deleted.unwrap_or_default())
}

fn header(
    session: &Session,
    imported: Option<String>,
    conversations: &[Conversation],
    children: &[Session],
    omitted: u32,
) -> String {
    let mut out = String::new();
    let mut line = |name: &str, value: String| out.push_str(&format!("{name:<14}{value}\n"));
    line("Session", session.id.to_string());
    if let Some(title) = &session.title {
        line("Title", one_line(title, 200));
    }
    line(
        "Status",
        session.deleted_at.map_or(session.status().to_string(), |_| "deleted".to_owned()),
    );
    line("User", one_line(&session.user, 100));
    line("Project", one_line(&session.project, 300));
    line("Kind", session.kind.clone());
    if let Some(agent) = session.speaker() {
        let begun_with = session.agent.as_deref().filter(|begun_with| *begun_with != agent);
        let begun_with = begun_with.map(|name| format!(", begun with {}", one_line(name, 100)));
        line("Agent", one_line(agent, 100) + &begun_with.unwrap_or_default());
    }
    if let Some(model) = &session.model {
        line("Model", one_line(model, 100));
    }
    if let Some(imported) = imported {
        line("Imported from", imported);
    }
    if let Some(origin) = session.forked_from {
        line("Forked from", format!("{} at message {}", origin.session, origin.seq));
    }
    if let Some(parent) = session.parent {
        line("Invoked by", parent.to_string());
    }
    if !children.is_empty() {
        line("Invoked", children.iter().map(super::named).collect::<Vec<_>>().join(", "));
    }
    line("Started", time::minute(session.started_at));
    line("Last active", time::minute(session.last_active_at));
    line("Messages", format!("{} ({} tokens)", session.last_seq, session.counters.tokens));
    if session.counters.cost_usd() > 0.0 {
        line("Cost", format!("${:.2}", session.counters.cost_usd()));
    }
    if conversations.len() > 1 {
        let names: Vec<String> = conversations
            .iter()
            .map(|one| format!("{} ({})", one_line(&one.name, 60), one.messages))
            .collect();
        line("Conversations", names.join(", "));
    }
    if let Some(summary) = &session.summary {
        out.push_str("\nSummary\n");
        for line in summary.lines() {
            out.push_str(&format!("  {}\n", output::shown(line, false)));
        }
    }
    if omitted > 0 {
        out.push_str(&format!("\n… {}; --all shows them\n", counted(omitted, "earlier message")));
    }
    out
}
