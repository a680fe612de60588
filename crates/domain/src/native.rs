//! Going on in an agent's own program: what is wrong with its native session, and what is done about it.

use serde::Serialize;

use crate::wording::counted;

/// Something that keeps an agent's own program from taking up the whole conversation where it stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "problem", rename_all = "snake_case")]
pub enum Problem {
    /// The agent has no session of its own that holds the conversation.
    NeverHeld,
    /// So many messages were said elsewhere since: the agent's own session lacks them.
    Behind { messages: u32 },
    /// A turn was interrupted: nobody knows whether the agent has kept its request.
    Interrupted,
    /// The agent's own session is not where the agent keeps its sessions.
    Missing { native: String },
    /// Parts of it cannot be read.
    Torn { why: String },
    /// It ends with tool calls that were never answered.
    Unanswered { calls: u32 },
    /// The agent looks for sessions by folder, and this one lies with another folder.
    OtherFolder,
    /// The agent's own list does not have it.
    NotListed { native: String },
}

impl Problem {
    /// What a person is told.
    pub fn describe(&self, agent: &str) -> String {
        match self {
            Self::NeverHeld => format!("{agent} has no session of its own with this conversation"),
            Self::Behind { messages } => {
                let messages = counted(*messages, "message");
                format!("{messages} of this conversation never reached {agent}'s own session")
            }
            Self::Interrupted => {
                format!("a turn was interrupted, and {agent} may not have kept its request")
            }
            Self::Missing { native } => {
                format!("{agent}'s own session {native} is not there any more")
            }
            Self::Torn { why } => format!("{agent}'s own session is damaged: {why}"),
            Self::Unanswered { calls } => {
                let calls = counted(*calls, "tool call");
                format!("{agent}'s own session ends with {calls} that nothing answered")
            }
            Self::OtherFolder => {
                format!("{agent} keeps its own session with another folder, and would not find it")
            }
            Self::NotListed { native } => {
                format!("{agent}'s own list of sessions does not have {native}")
            }
        }
    }
}

/// How an agent's own program takes up a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// In the session that it has.
    Resume,
    /// In a new session of its own that is written for it.
    Write,
    /// In a new session whose first prompt tells the story so far.
    Tell,
}

/// Picks the way. A session is only written where that is needed: one that is sound is resumed as it is.
pub fn way(problems: &[Problem], is_writable: bool) -> Way {
    match (problems, is_writable) {
        ([], _) => Way::Resume,
        (_, true) => Way::Write,
        (_, false) => Way::Tell,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sound_is_resumed_and_what_is_not_is_written_or_told() {
        assert_eq!(way(&[], true), Way::Resume);
        assert_eq!(way(&[], false), Way::Resume);
        let behind = [Problem::Behind { messages: 2 }];
        assert_eq!(way(&behind, true), Way::Write);
        assert_eq!(way(&behind, false), Way::Tell);
        assert_eq!(way(&[Problem::NeverHeld], true), Way::Write);
    }

    #[test]
    fn problems_are_told_with_the_name_of_the_agent() {
        let told = Problem::Behind { messages: 1 }.describe("codex");
        assert_eq!(told, "1 message of this conversation never reached codex's own session");
        let told = Problem::Unanswered { calls: 2 }.describe("claude");
        assert_eq!(told, "claude's own session ends with 2 tool calls that nothing answered");
    }
}
