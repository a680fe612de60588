//! What was retold to an agent, where it comes back as if its user had said it.

use rethread_domain::Role;
use rethread_domain::message::{Extras, NewMessage};
use rethread_domain::retell::without_story;
use rethread_import::PASSING;

/// What somebody said in a prompt beside what was retold.
pub(super) fn own_words(prompt: &str) -> String {
    without_story(prompt).map_or_else(|| prompt.to_owned(), |(_, rest)| rest)
}

/// What was retold to the agent is nobody's own words: it becomes a message of its own.
pub(super) fn take_out_story(message: &mut NewMessage) -> Option<NewMessage> {
    if message.role != Role::User {
        return None;
    }
    let (told, rest) = without_story(&message.content)?;
    if rest.is_empty() {
        (message.role, message.content) = (Role::System, told);
        return None;
    }
    message.content = rest;
    let id = message.id.as_ref().map(|id| format!("{id}+told{PASSING}"));
    let extras = Extras { agent: message.extras.agent.clone(), ..Extras::default() };
    Some(NewMessage { id, role: Role::System, content: told, extras, ..message.clone() })
}
