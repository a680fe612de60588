//! Ids of workflows and of their snapshots.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Invalid;

macro_rules! id {
    ($(#[$about:meta])* $name:ident, $what:literal) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            pub fn generate() -> Self {
                Self(Uuid::now_v7())
            }

            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            /// The short form people see, cut from the random part.
            pub fn short(&self) -> String {
                self.to_string()[24..32].to_owned()
            }

            /// Whether a text that people give may mean this: the whole id, its beginning, or that of the short form.
            pub fn is_meant_by(&self, text: &str) -> bool {
                let (id, text) = (self.to_string(), text.to_ascii_lowercase());
                !text.is_empty() && (id.starts_with(&text) || id[24..].starts_with(&text))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.as_hyphenated().fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = Invalid;

            fn from_str(text: &str) -> Result<Self, Invalid> {
                let uuid = Uuid::try_parse(text).ok().filter(|_| text.len() == 36);
                uuid.map(Self).ok_or_else(|| Invalid::Name {
                    what: $what,
                    given: format!("{:?}", text.chars().take(80).collect::<String>()),
                    allowed: "a UUID",
                })
            }
        }
    };
}

id!(
    /// The one durable id of a workflow.
    WorkflowId,
    "workflow id"
);
id!(
    /// The id of a snapshot.
    SnapshotId,
    "snapshot id"
);
