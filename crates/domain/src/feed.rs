//! The feed: what has changed in a store, in the order in which it was committed. It says where to look, not what was
//! said: whoever follows it reads the session or the workflow again.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::fact::Fact;
use crate::id::{SessionId, WorkflowId};
use crate::session::{Session, Status};

/// One line of the feed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedEvent {
    /// Its place in the feed: 1, 2, 3, without gaps.
    pub no: u64,
    pub at: Timestamp,
    pub kind: Kind,
    /// Whose session or workflow it is.
    pub user: String,
    pub session: Option<SessionId>,
    pub workflow: Option<WorkflowId>,
    /// Numbers of messages for [`Kind::MessagesAppended`], of facts for what else happens to a session, of events for
    /// workflows.
    pub first: u32,
    pub last: u32,
}

macro_rules! kinds {
    ($($(#[$about:meta])* $kind:ident = $word:literal,)*) => {
        /// What a line of the feed tells.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Kind {
            $($(#[$about])* $kind,)*
        }

        impl Kind {
            pub const ALL: &[Self] = &[$(Self::$kind,)*];

            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$kind => $word,)*
                }
            }
        }
    };
}

kinds! {
    /// Begun, forked, or taken in from elsewhere.
    SessionStarted = "SESSION_STARTED",
    /// `first..=last` are the numbers of the new messages.
    MessagesAppended = "MESSAGES_APPENDED",
    SessionPaused = "SESSION_PAUSED",
    /// Active again, asked for or woken by a message.
    SessionResumed = "SESSION_RESUMED",
    SessionCompleted = "SESSION_COMPLETED",
    SessionArchived = "SESSION_ARCHIVED",
    SessionRenamed = "SESSION_RENAMED",
    /// Anything else that is worth another look.
    SessionChanged = "SESSION_CHANGED",
    /// A conversation was opened in an agent.
    ConversationOpened = "CONVERSATION_OPENED",
    SessionDeleted = "SESSION_DELETED",
    SessionRestored = "SESSION_RESTORED",
    /// Gone for good.
    SessionErased = "SESSION_ERASED",
    WorkflowCreated = "WORKFLOW_CREATED",
    WorkflowStarted = "WORKFLOW_STARTED",
    /// A pause was asked for.
    WorkflowPausing = "WORKFLOW_PAUSING",
    WorkflowPaused = "WORKFLOW_PAUSED",
    WorkflowResumed = "WORKFLOW_RESUMED",
    /// A person is waited for.
    WorkflowBlocked = "WORKFLOW_BLOCKED",
    WorkflowCompleted = "WORKFLOW_COMPLETED",
    WorkflowFailed = "WORKFLOW_FAILED",
    WorkflowCancelled = "WORKFLOW_CANCELLED",
    TaskStarted = "TASK_STARTED",
    TaskCompleted = "TASK_COMPLETED",
    TaskFailed = "TASK_FAILED",
    /// A context is nearly full.
    CapacityWarning = "CAPACITY_WARNING",
    /// Anything else that is worth another look; it may be gone.
    WorkflowChanged = "WORKFLOW_CHANGED",
    /// The line that stood here is damaged or missing: nobody knows what changed, or whose it is. Whoever follows the feed
    /// reads anew what they need.
    Damaged = "DAMAGED",
}

impl Kind {
    /// What a fact tells that happens to a session as it is before.
    pub fn of_fact(fact: &Fact, before: &Session) -> Self {
        match fact {
            Fact::Started(_) => Self::SessionStarted,
            Fact::Moved { to } => Self::of_move(before.status(), *to),
            // A title that gives way to a person's renames nothing.
            Fact::Titled { from, .. } if *from >= before.title_from => Self::SessionRenamed,
            Fact::Attached(_) => Self::ConversationOpened,
            Fact::Deleted => Self::SessionDeleted,
            Fact::Undeleted => Self::SessionRestored,
            Fact::Titled { .. }
            | Fact::Opened { .. }
            | Fact::Summarised { .. }
            | Fact::Repository(_)
            | Fact::Holds(_)
            | Fact::Forgot { .. }
            | Fact::Purged { .. }
            | Fact::Rehomed { .. }
            | Fact::Imported { .. }
            | Fact::Commanded { .. }
            | Fact::Unknown(_) => Self::SessionChanged,
        }
    }

    /// What is taken out of the archive is neither completed nor paused then: it was so before.
    const fn of_move(from: Status, to: Status) -> Self {
        match (from, to) {
            (_, Status::Active) => Self::SessionResumed,
            (_, Status::Archived) => Self::SessionArchived,
            (Status::Archived, _) => Self::SessionChanged,
            (_, Status::Paused) => Self::SessionPaused,
            (_, Status::Completed) => Self::SessionCompleted,
        }
    }

    /// The kind of this word. One of a newer version says at least what to look at again.
    pub fn read(word: &str) -> Self {
        word.parse().unwrap_or_else(|_| match word.split('_').next() {
            Some("WORKFLOW" | "TASK" | "CAPACITY") => Self::WorkflowChanged,
            _ => Self::SessionChanged,
        })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().copied().find(|kind| kind.as_str() == word);
        found.ok_or_else(|| format!("not a kind of event: {word:?}"))
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::read(&String::deserialize(deserializer)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::TitleFrom;
    use crate::session::Beginning;

    fn session(status: Status) -> Session {
        let beginning: Beginning =
            serde_json::from_str(r#"{"user":"anna","project":"/a","kind":"chat"}"#).unwrap();
        let mut session = Session::start(SessionId::generate(), beginning, Timestamp::UNIX_EPOCH);
        session.state = crate::session::State::new(status, Status::Active);
        session
    }

    #[test]
    fn every_word_is_read_back_and_an_unknown_one_is_a_change() {
        for kind in Kind::ALL {
            let json = serde_json::to_string(kind).unwrap();
            assert_eq!(json, format!("\"{kind}\""));
            assert_eq!(serde_json::from_str::<Kind>(&json).unwrap(), *kind);
            assert_eq!(kind.as_str().parse(), Ok(*kind));
        }
        assert!("SESSION_SUNG".parse::<Kind>().is_err());
        for (word, kind) in [
            ("SESSION_SUNG", Kind::SessionChanged),
            ("MESSAGES_TURNED", Kind::SessionChanged),
            ("", Kind::SessionChanged),
            ("WORKFLOW_SUNG", Kind::WorkflowChanged),
            ("TASK_SUNG", Kind::WorkflowChanged),
        ] {
            assert_eq!(Kind::read(word), kind, "{word}");
        }
    }

    #[test]
    fn a_move_is_told_by_where_it_leads_but_for_the_way_out_of_the_archive() {
        use Status::{Active, Archived, Completed, Paused};
        for (from, to, kind) in [
            (Active, Paused, Kind::SessionPaused),
            (Paused, Active, Kind::SessionResumed),
            (Active, Completed, Kind::SessionCompleted),
            (Completed, Archived, Kind::SessionArchived),
            (Archived, Completed, Kind::SessionChanged),
            (Archived, Paused, Kind::SessionChanged),
            (Archived, Active, Kind::SessionResumed),
        ] {
            assert_eq!(Kind::of_fact(&Fact::Moved { to }, &session(from)), kind, "{from} {to}");
        }
    }

    #[test]
    fn a_title_that_gives_way_renames_nothing() {
        let mut session = session(Status::Active);
        let titled = |from| Fact::Titled { title: "new".into(), from };
        assert_eq!(Kind::of_fact(&titled(TitleFrom::Agent), &session), Kind::SessionRenamed);
        session.apply(&titled(TitleFrom::Person), Timestamp::UNIX_EPOCH);
        assert_eq!(Kind::of_fact(&titled(TitleFrom::Agent), &session), Kind::SessionChanged);
        assert_eq!(Kind::of_fact(&titled(TitleFrom::Person), &session), Kind::SessionRenamed);
    }
}
