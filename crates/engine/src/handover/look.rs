//! Looks at the native session of an agent: whether it is there, whole, and holds the conversation.

use rethread_domain::native::Problem;
use rethread_domain::opening::Watermark;
use rethread_import::{self as import, AGENTS, Found, Roots, UNANSWERED, write};

use super::HandoverRequest;
use crate::{Engine, Result};

/// Finds a native session by its id, for agents whose sessions can be read.
pub(super) fn locate(agent: &str, native: &str, roots: &Roots) -> Option<Found> {
    import::locate(agent, native, roots)
}

/// What is wrong with a native session as it lies on the disk.
pub(super) fn problems(
    agent: &str,
    native: &str,
    found: Option<&Found>,
    folder: &str,
    roots: &Roots,
) -> Vec<Problem> {
    if !AGENTS.contains(&agent) {
        // Nobody here can read it: the agent will say itself if something is wrong.
        return Vec::new();
    }
    let Some(found) = found else { return vec![Problem::Missing { native: native.to_owned() }] };
    let mut problems = Vec::new();
    match read(found) {
        Ok(Contents { unread: None, open_calls: 0 }) => (),
        Ok(Contents { unread, open_calls }) => {
            problems.extend(unread.map(|why| Problem::Torn { why }));
            if open_calls > 0 {
                problems.push(Problem::Unanswered { calls: open_calls });
            }
        }
        Err(why) => problems.push(Problem::Torn { why }),
    }
    if !write::belongs_to(found, folder, roots) {
        problems.push(Problem::OtherFolder);
    }
    problems
}

struct Contents {
    unread: Option<String>,
    /// Tool calls at the end that have no result.
    open_calls: u32,
}

fn read(found: &Found) -> std::result::Result<Contents, String> {
    let opened = import::open(found, None).map_err(|error| error.to_string())?;
    let Some(mut transcript) = opened else { return Err("nothing was said in it".to_owned()) };
    let mut open_calls = 0;
    while let Some(message) = transcript.next().map_err(|error| error.to_string())? {
        let is_open = message.id.is_some_and(|id| id.ends_with(UNANSWERED));
        open_calls = if is_open { open_calls + 1 } else { 0 };
    }
    let unread = transcript.unread().into_iter().next().map(|unread| match unread.at {
        Some(at) => format!("at byte {at}, {}", unread.why),
        None => unread.why,
    });
    Ok(Contents { unread, open_calls })
}

impl Engine {
    /// What the agent's own session holds of the conversation, and what it lacks.
    pub(super) async fn missing_natively(
        &self,
        request: &HandoverRequest,
    ) -> Result<(Option<Watermark>, Vec<Problem>)> {
        let (session, name) = (request.session, request.conversation.as_str());
        let watermark = self.store.watermark(session, name, &request.agent).await?;
        let Some(watermark) = watermark.filter(Watermark::is_held) else {
            return Ok((None, vec![Problem::NeverHeld]));
        };
        let mut problems = Vec::new();
        if watermark.in_doubt.is_some() {
            problems.push(Problem::Interrupted);
        }
        let conversations = self.store.conversations(session).await?;
        let said = conversations.iter().find(|one| one.name == name).map_or(0, |one| one.messages);
        let messages = said.saturating_sub(watermark.messages);
        if messages > 0 {
            problems.push(Problem::Behind { messages });
        }
        Ok((Some(watermark), problems))
    }
}
