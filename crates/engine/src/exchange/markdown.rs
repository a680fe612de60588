//! A session as markdown, for people to read. Stored text is quoted, or stands in a block of code: it cannot become a heading of ours.

use jiff::Timestamp;
use rethread_domain::quote::{one_line, push_quoted, safe};
use rethread_domain::turn::INTERRUPTED;
use rethread_domain::wording::counted;
use serde_json::Value;

use crate::views::{MessageView, SessionView};

/// The longest title.
const TITLE_CHARS: usize = 200;

/// What stands before the messages.
pub(super) fn head(session: &SessionView) -> String {
    let line = |text: &str| one_line(text, TITLE_CHARS);
    let title = session.title.as_deref().unwrap_or("Untitled session");
    let mut text = format!("# {}\n\n- Session: {}\n", line(title), session.session_id);
    text.push_str(&format!("- Project: {}\n", line(&session.project_id)));
    if let Some(agent) = &session.agent {
        let model = session.model.as_ref().map(|model| format!(" ({})", line(model)));
        text.push_str(&format!("- Agent: {}{}\n", line(agent), model.unwrap_or_default()));
    }
    text.push_str(&format!("- Status: {}\n", session.status));
    let (from, to) = (minute(session.created_at), minute(session.last_active_at));
    text.push_str(&format!("- Time: {from} to {to}\n"));
    let messages = counted(session.message_count, "message");
    text.push_str(&format!("- Length: {messages}, {}\n", counted(session.total_tokens, "token")));
    text.push_str(&format!("- To go on: {}\n\n", session.resume_command));
    if let Some(summary) = &session.session_summary {
        text.push_str("## Summary\n\n");
        push_quoted(&mut text, summary);
    }
    text
}

/// A message below its heading.
pub(super) fn message(message: &MessageView, has_conversations: bool) -> String {
    let mut role = message.role.clone();
    role.get_mut(..1).into_iter().for_each(str::make_ascii_uppercase);
    let mut text = format!("## {}. {role}", message.seq);
    if let Some(agent) = &message.agent {
        text.push_str(&format!(" ({})", one_line(agent, TITLE_CHARS)));
    }
    text.push_str(&format!(" · {}", minute(message.timestamp)));
    if has_conversations {
        text.push_str(&format!(" · {}", one_line(&message.conversation, TITLE_CHARS)));
    }
    let is_interrupted = |extra: &Value| extra.get(INTERRUPTED).is_some_and(|mark| mark == true);
    if message.extra.as_ref().is_some_and(is_interrupted) {
        text.push_str(" · interrupted");
    }
    text.push_str("\n\n");
    if let Some(purged) = message.purged_at {
        text.push_str(&format!("*Purged on {}.*\n\n", minute(purged)));
    } else if message.role == "tool" {
        push_code(&mut text, &message.content);
    } else {
        push_quoted(&mut text, &message.content);
    }
    text
}

fn minute(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M UTC").to_string()
}

/// A block of code whose fence is longer than any in it.
fn push_code(out: &mut String, code: &str) {
    let longest = code.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let code = safe(code);
    let end = if code.ends_with('\n') { "" } else { "\n" };
    out.push_str(&format!("{fence}text\n{code}{end}{fence}\n\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(role: &str, content: &str) -> MessageView {
        MessageView {
            seq: 3,
            id: "x".into(),
            role: role.into(),
            content: content.into(),
            timestamp: Timestamp::from_second(1_794_733_200).unwrap(),
            conversation: "main".into(),
            tokens: None,
            agent: None,
            model: None,
            tool_calls: None,
            usage: None,
            extra: None,
            purged_at: None,
        }
    }

    #[test]
    fn what_was_said_cannot_become_a_heading_or_end_its_block() {
        let text = message(&said("user", "# 4. Assistant\n\nDone."), false);
        assert_eq!(text, "## 3. User · 2026-11-15 09:00 UTC\n\n> # 4. Assistant\n>\n> Done.\n\n");
        let text = message(&said("tool", "```\n## 4. User\n````\nend"), true);
        let expected = "## 3. Tool · 2026-11-15 09:00 UTC · main\n\n`````text\n```\n## 4. User\n````\nend\n`````\n\n";
        assert_eq!(text, expected);
        let text = message(&said("assistant", "\u{1b}[2J"), false);
        assert!(!text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn a_purged_and_an_interrupted_message_say_so() {
        let mut one = said("assistant", "");
        one.purged_at = Some(one.timestamp);
        one.extra = Some(serde_json::json!({"interrupted": true}));
        one.agent = Some("claude".into());
        let expected = "## 3. Assistant (claude) · 2026-11-15 09:00 UTC · interrupted\n\n*Purged on 2026-11-15 09:00 UTC.*\n\n";
        assert_eq!(message(&one, false), expected);
    }
}
