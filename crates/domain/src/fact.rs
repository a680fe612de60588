//! Facts: everything that can happen to a session, beside what is said in it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::conversation::TitleFrom;
use crate::id::Seq;
use crate::opening::{Opening, Watermark};
use crate::session::{Beginning, Repository, Status};
use crate::summary::Summary;

/// Everything that can happen to a session, beside what is said in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Fact {
    Started(Beginning),
    Moved {
        to: Status,
    },
    /// A conversation began: messages know it by its number.
    Opened {
        n: u32,
        name: String,
    },
    Titled {
        title: String,
        from: TitleFrom,
    },
    /// A conversation was folded up to a message, or the session as a whole was summed up.
    Summarised {
        conversation: Option<String>,
        summary: Summary,
    },
    /// The repository stood here when the session was last active.
    Repository(Repository),
    /// A conversation was opened in an agent.
    Attached(Opening),
    /// An agent's own session holds a conversation up to a message.
    Holds(Watermark),
    /// An agent does not know its session of a conversation any more.
    Forgot {
        conversation: String,
        agent: String,
    },
    /// The text of one message was removed everywhere.
    Purged {
        seq: Seq,
    },
    /// Its project lies elsewhere now.
    Rehomed {
        project: String,
    },
    /// It came from what an agent keeps of its own sessions: this one, by the agent's own id.
    Imported {
        agent: String,
        native: String,
        /// The branch that its folder was on when the agent last noted it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// The repository of its folder, by which it is found again when the folder has moved.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin: Option<Origin>,
    },
    /// Its command has another prompt now.
    Commanded {
        command: String,
        prompt_hash: String,
    },
    Deleted,
    Undeleted,
    /// Written by a newer version: kept as it came.
    #[serde(untagged)]
    Unknown(serde_json::Map<String, serde_json::Value>),
}

/// A fact with its place in the log: it came after message `after`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FactRecord {
    pub after: Seq,
    pub at: Timestamp,
    #[serde(flatten)]
    pub fact: Fact,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fact_of_a_newer_version_is_kept_as_it_came() {
        let text = r#"{"after":3,"at":"2026-11-15T10:00:00Z","what":"teleported","to":"mars"}"#;
        let record: FactRecord = serde_json::from_str(text).unwrap();
        assert!(matches!(record.fact, Fact::Unknown(_)));
        assert_eq!(serde_json::to_string(&record).unwrap(), text);
    }
}

/// Which repository a folder belongs to, in any clone of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Host and path of its remote, without protocol, user and `.git`.
    pub remote: String,
    /// The way from the top of the working tree to the folder.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub within: String,
}
