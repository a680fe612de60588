//! A repository: where it stands, what changed, and a commit that disturbs nothing.
//!
//! Reading executes nothing of the repository. Its settings can name programs (a file system monitor, filters, hooks,
//! diff drivers), so only commands are asked that read names and ids, with all of that switched off; what is on the
//! disk is compared by ourselves. No shadow repository is needed for that: nothing here asks for a status, or for a diff
//! that looks at the disk.
//!
//! A commit is made by the user's own git, with their hooks, signing, filters and identity.

mod announced;
mod commit;
mod diff;
mod draft;
mod head;
mod hurdle;
mod inventory;
mod log;
mod message;
mod place;
mod program;
mod remote;
mod same_repository;
mod state;
mod survey;

pub use commit::{Committed, commit};
pub use diff::diff;
pub use head::{Head, head};
pub use hurdle::{Hurdle, hurdle};
pub use inventory::is_tracked;
pub use log::{Changes, changes};
pub use remote::{Remote, address, remote};
pub use same_repository::{has_commit, is_same_repository};
pub use state::{Names, State, state};
pub use survey::{Changed, changed};
