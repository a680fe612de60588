//! Where sessions are kept. The only room that knows SQL.
//!
//! [`Store`] is the whole contract, in thirteen parts; `tests/contract` is its meaning. Every implementation has to
//! pass the same tests, so callers never ask which one they have.

#![expect(
    clippy::duplicate_mod,
    reason = "what both stores share (`sql/`) is compiled for each of them"
)]

mod access;
mod crash;
mod error;
mod imports;
mod postgres;
mod purges;
mod search;
mod sqlite;
mod types;
mod url;
mod workflows;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rethread_domain::access::{Token, TokenId};
use rethread_domain::context::AgentUse;
use rethread_domain::id::SessionRef;
use rethread_domain::opening::Watermark;
use rethread_domain::search::Found;
use rethread_domain::session::{Beginning, FactRecord};
use rethread_domain::turn::Update;
use rethread_domain::{Conversation, Fact, Message, Seq, Session, SessionId};
use rethread_workflow::{Event, EventRecord, Workflow, WorkflowId};

pub use access::{Accounts, IdempotencyKeys, ReservedId, UsageDay, UsageFilter};
pub use error::{Error, Result};
pub use imports::{Import, Imports};
pub use purges::{Purges, Purging};
pub use search::{Search, Stop, StopOnDrop};
pub use sqlite::{
    Restored, checked_columns, is_intact, register_checksums, restore, sqlite_version,
};
pub use types::{
    Append, Appended, Asked, Begun, Claim, Command, Drive, Dump, Epoch, FeedPage, Grant, Health,
    Home, Housed, ListFilter, OpeningCount, Order, RecallRequest, Recalled, Record, Repaired, Span,
    Usage, Within,
};
pub use url::{PostgresUrl, StoreUrl};
pub use workflows::{Owner, WorkflowClaim, WorkflowFilter, WorkflowRow};

/// Durable home of sessions.
pub trait Store:
    Sessions
    + Talks
    + Finding
    + Upkeep
    + Purges
    + Claims
    + Folders
    + Workflows
    + Feed
    + Tokens
    + IdempotencyKeys
    + Accounts
    + Imports
{
}

impl<T> Store for T where
    T: Sessions
        + Talks
        + Finding
        + Upkeep
        + Purges
        + Claims
        + Folders
        + Workflows
        + Feed
        + Tokens
        + IdempotencyKeys
        + Accounts
        + Imports
{
}

/// Writing sessions and reading them back.
///
/// Messages and facts are the truth; the rows that sum them up change in the same transaction.
#[async_trait]
pub trait Sessions: Send + Sync + 'static {
    async fn start(
        &self,
        id: SessionId,
        beginning: Beginning,
        at: jiff::Timestamp,
    ) -> Result<Session>;

    /// Adds messages at the end of a session, all or none. Durable when it returns.
    ///
    /// A message whose id is known is not added again: the answer repeats its number.
    async fn append(&self, append: Append) -> Result<Vec<Appended>>;

    /// Adds a fact that was decided on `before`.
    ///
    /// Fails with [`Error::Conflict`] when another fact came in between.
    async fn change(&self, before: &Session, fact: Fact, at: jiff::Timestamp) -> Result<Session>;

    /// A new session that shares the messages of `source` up to `at_seq`.
    async fn fork(
        &self,
        source: SessionId,
        at_seq: Seq,
        id: SessionId,
        at: jiff::Timestamp,
    ) -> Result<Session>;

    async fn session(&self, id: SessionId) -> Result<Session>;

    /// The sessions that a shortened id may mean, of one user or of all, at most a few.
    async fn resolve(&self, reference: &SessionRef, user: Option<&str>) -> Result<Vec<SessionId>>;

    /// The most recently active first; of one time, the higher id first.
    async fn list(&self, filter: &ListFilter) -> Result<Vec<Session>>;

    async fn conversations(&self, id: SessionId) -> Result<Vec<Conversation>>;

    /// The number of the message with this id, its writer's or ours.
    async fn message_by_id(&self, id: SessionId, message: &str) -> Result<Option<Seq>>;

    /// Messages with whole texts, in the order of `span`: fewer than its limit where they are long.
    async fn messages(&self, id: SessionId, span: Span) -> Result<Vec<Message>>;

    /// The same, but of long texts only both ends.
    async fn heads(&self, id: SessionId, span: Span) -> Result<Vec<Message>>;

    async fn facts(&self, id: SessionId) -> Result<Vec<FactRecord>>;

    /// The five most used agents.
    async fn agents(&self, id: SessionId) -> Result<Vec<AgentUse>>;

    /// Everything that a context is made of, in one call that costs by its answer.
    async fn recall(&self, request: &RecallRequest) -> Result<Recalled>;
}

/// Talking to agents: turns while they run, and what agents hold of conversations themselves.
///
/// A turn begins and ends with an [`Append`]; what comes between is written here as it comes.
#[async_trait]
pub trait Talks: Send + Sync + 'static {
    /// Adds to the turn of a conversation that is under way. Durable when it returns.
    async fn stream(
        &self,
        id: SessionId,
        conversation: &str,
        updates: Vec<(jiff::Timestamp, Update)>,
    ) -> Result<()>;

    /// The turn of a conversation, if one is under way.
    async fn begun(&self, id: SessionId, conversation: &str) -> Result<Option<Begun>>;

    /// Every turn that is under way, driven or not.
    async fn underway(&self) -> Result<Vec<(SessionId, String)>>;

    /// Up to where an agent's own session holds a conversation.
    async fn watermark(
        &self,
        id: SessionId,
        conversation: &str,
        agent: &str,
    ) -> Result<Option<Watermark>>;

    /// The agent that spoke last in a conversation, or whose own session holds most of it; without a name, of the one that
    /// was last spoken in. Costs by its answer: lists and contexts ask it of each session.
    async fn last_agent(&self, id: SessionId, conversation: Option<&str>)
    -> Result<Option<String>>;

    /// How the conversations of a session were opened, as far as that came after one of these messages: the facts with
    /// their numbers, in one call that costs by its answer.
    async fn attached(
        &self,
        id: SessionId,
        after: std::ops::Range<Seq>,
    ) -> Result<Vec<(u32, FactRecord)>>;

    /// How conversations were opened so far, those of one user or of all. Costs by its answer.
    async fn openings(&self, user: Option<&str>) -> Result<Vec<OpeningCount>>;

    /// The sessions that are active though nothing was said since `before`, the latest first.
    async fn quiet_since(&self, before: jiff::Timestamp, limit: u32) -> Result<Vec<SessionId>>;

    /// What was decided for good about `what`.
    async fn granted(
        &self,
        user: &str,
        project: &str,
        agent: &str,
        what: &str,
    ) -> Result<Option<bool>>;

    async fn grants(&self) -> Result<Vec<Grant>>;

    async fn grant(&self, grant: Grant, at: jiff::Timestamp) -> Result<()>;

    /// Forgets every decision for a project; gives how many there were.
    async fn ungrant(&self, project: &str) -> Result<u32>;

    /// Forgets every decision about an agent whose subject does not begin in this way; gives how many there were.
    async fn ungrant_unlike(&self, agent: &str, beginning: &str) -> Result<u32>;
}

/// Full-text search. The index follows the log; what it lacks is looked through.
#[async_trait]
pub trait Finding: Send + Sync + 'static {
    /// Costs no more than its bound, and says where that cut it short.
    async fn search(&self, search: &Search) -> Result<Found>;

    /// Brings up to `most` messages and titles into the index; gives how many are left.
    async fn index(&self, most: u32) -> Result<u64>;
}

/// Keeping a store in good order.
#[async_trait]
pub trait Upkeep: Send + Sync + 'static {
    /// Removes one session for good, with all that no fork needs.
    async fn erase(&self, id: SessionId) -> Result<()>;

    /// Removes a session if it has no message; decided where nobody else can add one.
    async fn erase_if_empty(&self, id: SessionId) -> Result<()>;

    /// Removes for good what was deleted before `before`; gives how many sessions.
    async fn erase_deleted(&self, before: jiff::Timestamp) -> Result<u32>;

    /// Takes in a whole session from elsewhere: what sums it up is made anew from its log.
    async fn take_in(&self, dump: Dump) -> Result<Session>;

    /// Puts another log in place of a session's own, if that still has so many messages and facts. `false` where it has
    /// more by now, or is used: by whoever drives it, by forks that share its messages, or by a workflow.
    async fn replace(&self, dump: Dump, expected: (Seq, u32)) -> Result<bool>;

    /// A consistent copy, while others write.
    async fn backup(&self, to: &Path) -> Result<()>;

    /// Compares everything that is derived with the log.
    async fn check(&self) -> Result<Health>;

    /// What was found wrong when the store was opened, and has to be told to people.
    async fn warning(&self) -> Result<Option<String>>;

    /// To be called by a program that ends. Gives whether nothing is left to be done when the store is dropped: then it
    /// need not be, and the system takes back memory and files at once.
    fn leave(&self) -> bool;

    /// Puts texts that were kept elsewhere in place of damaged ones, where the checksum says that they are the same.
    async fn mend(&self, id: SessionId, texts: Vec<String>) -> Result<Vec<Record>>;

    /// Mends records that do not match their checksums: from a backup where one is given and has them, from the log, or by
    /// setting them aside with a mark in their place.
    async fn repair(&self, backup: Option<&Path>, at: jiff::Timestamp) -> Result<Repaired>;

    /// Makes everything that is derived anew from the log.
    async fn rebuild(&self) -> Result<()>;

    /// Gives unused space back.
    async fn compact(&self) -> Result<()>;

    async fn usage(&self) -> Result<Usage>;
}

/// Sessions that live in a folder beside the code.
#[async_trait]
pub trait Folders: Send + Sync + 'static {
    /// Where a session lives, and how far its folder follows the log.
    async fn home(&self, id: SessionId) -> Result<Option<Home>>;

    /// All that live in a workspace.
    async fn homes(&self, root: &str) -> Result<Vec<Housed>>;

    /// Remembers that a session is to live in a workspace as soon as something is said in it: whoever was killed before
    /// its folder was made is made up for.
    async fn await_home(&self, id: SessionId, root: &str) -> Result<()>;

    /// The sessions of a workspace that were to have a folder by now, and have none.
    async fn without_home(&self, root: &str) -> Result<Vec<SessionId>>;

    async fn set_home(&self, id: SessionId, home: Home) -> Result<()>;

    /// Gives a session a home, unless it has one; gives the one it has then.
    async fn place(&self, id: SessionId, home: Home) -> Result<Home>;

    /// Remembers sessions, and lines of folders, that were deleted here for good: folders do not bring them back.
    async fn bury(&self, ids: Vec<String>, at: jiff::Timestamp) -> Result<()>;

    /// Forgets that something was deleted: somebody has brought it back on purpose.
    async fn unbury(&self, id: &str) -> Result<()>;

    async fn is_buried(&self, id: &str) -> Result<bool>;

    /// Sessions that were deleted before a time and are still kept. Costs by its answer.
    async fn deleted_before(&self, before: jiff::Timestamp) -> Result<Vec<SessionId>>;

    /// Every session of a project lives elsewhere now, folders included; gives how many there are.
    async fn rehome(&self, from: &str, to: &str, at: jiff::Timestamp) -> Result<u32>;
}

/// Workflows: a log of events for each, and who runs it.
///
/// Events are the truth; the rows that sum them up change in the same transaction.
#[async_trait]
pub trait Workflows: Send + Sync + 'static {
    /// Begins a workflow with these events, of which the first says what it is made with.
    ///
    /// Fails with [`Error::WorktreeTaken`] while another that is not final works in the same folder.
    async fn create_workflow(
        &self,
        id: WorkflowId,
        events: Vec<Event>,
        at: jiff::Timestamp,
    ) -> Result<Workflow>;

    /// Adds events that were decided on the first `expected` ones, all or none. Durable when it returns.
    ///
    /// Fails with [`Error::LeaseLost`] when another epoch has begun than the owner's, and with
    /// [`Error::WorkflowConflict`] when somebody else added events in between.
    async fn append_events(
        &self,
        id: WorkflowId,
        expected: u32,
        epoch: Option<Epoch>,
        events: Vec<Event>,
        at: jiff::Timestamp,
    ) -> Result<()>;

    /// What happened after event `after`.
    async fn workflow_events(&self, id: WorkflowId, after: u32) -> Result<Vec<EventRecord>>;

    /// A part of what happened, in the order of `span`: fewer events than its limit where they are long.
    async fn workflow_log(&self, id: WorkflowId, span: Span) -> Result<Vec<EventRecord>>;

    async fn workflow(&self, id: WorkflowId) -> Result<Workflow>;

    /// The newest first, by when they were made; of one time, the higher id first.
    async fn workflows(&self, filter: &WorkflowFilter) -> Result<Vec<WorkflowRow>>;

    /// The workflows that a whole or shortened id may mean, of one user or of all, at most a few.
    async fn resolve_workflow(&self, text: &str, user: Option<&str>) -> Result<Vec<WorkflowId>>;

    /// The workflow that a session is part of, and the task it works on there.
    async fn workflow_of(&self, session: SessionId) -> Result<Option<(WorkflowId, String)>>;

    /// Becomes the owner of a workflow; `None` while somebody else is, lives, and has renewed in time.
    async fn claim_workflow(
        &self,
        id: WorkflowId,
        lease: Duration,
    ) -> Result<Option<WorkflowClaim>>;

    /// Keeps a workflow for so long from now. Fails with [`Error::LeaseLost`] when somebody else has taken over.
    async fn renew_workflow(&self, id: WorkflowId, epoch: Epoch, lease: Duration) -> Result<()>;

    /// Whoever runs the workflow, late or not.
    async fn owner_of(&self, id: WorkflowId) -> Result<Option<Owner>>;

    /// Whether somebody runs the workflow who is not late: nobody else can claim it.
    async fn is_workflow_claimed(&self, id: WorkflowId) -> Result<bool>;

    /// Removes locks that nobody holds: who had them was killed. Gives the workflows that were run then; their locks stay
    /// until somebody takes them over.
    async fn sweep_locks(&self) -> Result<Vec<WorkflowId>>;

    /// Up to which event others were told.
    async fn told_workflow(&self, id: WorkflowId) -> Result<u32>;

    /// Others were told up to this event. Never goes back.
    async fn set_told(&self, id: WorkflowId, no: u32) -> Result<()>;

    /// Removes a workflow that is final, for good. Its sessions stay.
    async fn erase_workflow(&self, id: WorkflowId) -> Result<()>;
}

/// What has changed, in the order of commits: a line is written in the transaction of what it tells.
///
/// The feed is not made from the log and is not made anew with it.
#[async_trait]
pub trait Feed: Send + Sync + 'static {
    /// At most `limit` lines after number `after`, of one user or of all. Never looks at more than a bounded number of
    /// lines: a page may be empty though there is more, which its `upto` tells. That is `after` when nothing is newer.
    async fn feed(&self, after: u64, user: Option<&str>, limit: u32) -> Result<FeedPage>;

    /// The number of the last line, 0 without any.
    async fn feed_head(&self) -> Result<u64>;
}

/// Several processes on one store: who drives a session, and what others ask of it.
#[async_trait]
pub trait Claims: Send + Sync + 'static {
    /// Becomes the one who drives a session; `None` while somebody else does.
    async fn claim(&self, id: SessionId) -> Result<Option<Claim>>;

    /// Becomes the one who talks in a conversation; `None` while somebody else does. What was asked before is
    /// forgotten, and abandoned where it had been taken.
    async fn drive(&self, id: SessionId, conversation: &str) -> Result<Option<Drive>>;

    /// Asks whoever drives a conversation to send a prompt.
    async fn ask_prompt(
        &self,
        id: SessionId,
        conversation: &str,
        prompt: &str,
        at: jiff::Timestamp,
    ) -> Result<u64>;

    /// The next prompt that the driver of a conversation is asked to send.
    async fn take_prompt(&self, id: SessionId, conversation: &str)
    -> Result<Option<(u64, String)>>;

    async fn answer(&self, asked: u64, answer: &str, at: jiff::Timestamp) -> Result<()>;

    async fn asked(&self, asked: u64) -> Result<Asked>;

    /// Takes back a prompt; gives whether nobody had taken it yet.
    async fn withdraw(&self, asked: u64) -> Result<bool>;

    /// Removes what nobody waits for any more: answers from before this time, and what was asked of drivers.
    async fn forget_asked(&self, before: jiff::Timestamp) -> Result<()>;

    /// Whether somebody drives the session, or one of its conversations, now.
    async fn is_claimed(&self, id: SessionId) -> Result<bool>;

    /// Asks whoever drives the session.
    async fn ask(&self, id: SessionId, command: Command, at: jiff::Timestamp) -> Result<u64>;

    /// What was asked of those who drive the session after command `after`, each with its number. Everybody who
    /// drives it, or one of its conversations, is asked: nobody takes it from the others.
    async fn asked_since(&self, id: SessionId, after: u64) -> Result<Vec<(u64, Command)>>;

    /// Takes back what was asked of those who drive the session.
    async fn take_asked(&self, id: SessionId) -> Result<Vec<Command>>;

    /// A number that changes when anybody has written, this process or another.
    async fn version(&self) -> Result<u64>;
}

/// Who may come in over the network. Secrets are never kept, only their hashes.
#[async_trait]
pub trait Tokens: Send + Sync + 'static {
    /// Adds a token; gives it as it is kept: it ends with its parent at the latest.
    ///
    /// Fails with [`Error::NoToken`] where its parent is not valid. What has been of no use for 30 days is removed.
    async fn create_token(&self, token: Token, secret: &str) -> Result<Token>;

    /// The token with this secret, valid or not.
    async fn token_by_secret(&self, secret: &str) -> Result<Option<Token>>;

    async fn token(&self, id: &TokenId) -> Result<Token>;

    /// All that are kept, the newest first.
    async fn tokens(&self) -> Result<Vec<Token>>;

    /// Ends a token and all that were made with it. Once more changes nothing.
    async fn revoke_token(&self, id: &TokenId, at: jiff::Timestamp) -> Result<Token>;

    /// Changes a link for the token of a browser, of which the link gives role, user and parent; `None` where the
    /// link is not valid, or was changed before. Of several who try, one has it.
    async fn redeem(
        &self,
        link_secret: &str,
        new: Token,
        new_secret: &str,
        now: jiff::Timestamp,
    ) -> Result<Option<Token>>;

    /// Somebody came in with it. Never goes back.
    async fn touch_token(&self, id: &TokenId, at: jiff::Timestamp) -> Result<()>;
}

/// Opens the store that `url` names.
#[expect(clippy::unused_async, reason = "a store behind a network waits here")]
pub async fn open(url: &StoreUrl) -> Result<Arc<dyn Store>> {
    match url {
        StoreUrl::Sqlite(path) => Ok(Arc::new(sqlite::SqliteStore::open(path)?)),
        StoreUrl::Postgres(url) => Ok(Arc::new(postgres::PostgresStore::open(url)?)),
    }
}

/// Opens it for a program that appends and ends: what it writes before that is durable when its messages are.
pub async fn open_briefly(url: &StoreUrl) -> Result<Arc<dyn Store>> {
    match url {
        StoreUrl::Sqlite(path) => Ok(Arc::new(sqlite::SqliteStore::open_briefly(path)?)),
        StoreUrl::Postgres(_) => open(url).await,
    }
}
