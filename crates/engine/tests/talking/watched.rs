//! A store that can fail, and at each of whose calls the process can die.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::executor::block_on;
use jiff::Timestamp;
use rethread_domain::access::{Token, TokenId};
use rethread_domain::context::AgentUse;
use rethread_domain::id::SessionRef;
use rethread_domain::opening::Watermark;
use rethread_domain::search::Found;
use rethread_domain::session::{Beginning, FactRecord};
use rethread_domain::turn::Update;
use rethread_domain::{Conversation, Fact, Message, Seq, Session, SessionId};
use rethread_store::{
    Accounts, Append, Appended, Asked, Begun, Claim, Claims, Command, Drive, Dump, Epoch, Error,
    Feed, FeedPage, Finding, Folders, Grant, Health, Home, Housed, IdempotencyKeys, Import,
    Imports, ListFilter, OpeningCount, Owner, Purges, Purging, RecallRequest, Recalled, Record,
    Repaired, ReservedId, Result, Search, Sessions, Span, Store, Talks, Tokens, Upkeep, Usage,
    UsageDay, UsageFilter, WorkflowClaim, WorkflowFilter, WorkflowRow, Workflows,
};
use rethread_workflow::{Event, EventRecord, Workflow, WorkflowId};
use tokio::sync::Notify;
use uuid::Uuid;

/// When the process dies: before or after so many things that it does.
#[derive(Debug, Default)]
pub(crate) struct Fate {
    left: Mutex<Option<u32>>,
    died: Notify,
}

impl Fate {
    pub(crate) fn set(&self, left: Option<u32>) {
        *self.left.lock().unwrap() = left;
    }

    /// Goes on, or never: then whoever waits for the death drops everything.
    pub(crate) async fn step(&self) {
        let is_over = {
            let mut left = self.left.lock().unwrap();
            let is_over = *left == Some(0);
            *left = left.map(|left| left.saturating_sub(1));
            is_over
        };
        if is_over {
            self.died.notify_one();
            std::future::pending::<()>().await;
        }
    }

    pub(crate) async fn died(&self) {
        self.died.notified().await;
    }
}

/// Everything is written before a call returns, so no time passes meanwhile and nothing depends on threads.
pub(crate) struct Watched {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) fate: Arc<Fate>,
    /// Calls of this name fail, after so many that do not.
    failing: Mutex<Option<(&'static str, u32)>>,
    failed: AtomicU32,
    /// What happens just before a call of this name, after so many others.
    hook: Mutex<Option<Hook>>,
}

struct Hook {
    call: &'static str,
    after: u32,
    act: Box<dyn FnOnce() + Send>,
}

impl Watched {
    pub(crate) fn new(inner: Arc<dyn Store>, fate: Arc<Fate>) -> Self {
        Self {
            inner,
            fate,
            failing: Mutex::default(),
            failed: AtomicU32::new(0),
            hook: Mutex::default(),
        }
    }

    pub(crate) fn fail(&self, call: &'static str, after: u32) {
        *self.failing.lock().unwrap() = Some((call, after));
    }

    /// Gives how often a call failed.
    pub(crate) fn recover(&self) -> u32 {
        *self.failing.lock().unwrap() = None;
        self.failed.swap(0, Ordering::Relaxed)
    }

    pub(crate) fn before(
        &self,
        call: &'static str,
        after: u32,
        act: impl FnOnce() + Send + 'static,
    ) {
        *self.hook.lock().unwrap() = Some(Hook { call, after, act: Box::new(act) });
    }

    /// What has not happened yet does not happen any more.
    pub(crate) fn forget(&self) {
        *self.hook.lock().unwrap() = None;
    }

    fn happens(&self, call: &str) {
        let mut hook = self.hook.lock().unwrap();
        match hook.as_mut().filter(|hook| hook.call == call) {
            Some(waiting) if waiting.after > 0 => waiting.after -= 1,
            Some(_) => (hook.take().unwrap().act)(),
            None => (),
        }
    }

    fn refuses(&self, call: &str) -> Result<()> {
        let mut failing = self.failing.lock().unwrap();
        match &mut *failing {
            Some((name, after)) if *name == call => match after.checked_sub(1) {
                Some(less) => *after = less,
                None => {
                    self.failed.fetch_add(1, Ordering::Relaxed);
                    return Err(Error::Full);
                }
            },
            _ => (),
        }
        Ok(())
    }
}

macro_rules! watched {
    ($contract:ident {
        $(fn $name:ident(&self $(, $arg:ident: $type:ty)*) -> $out:ty;)*
        $(unwatched fn $plain:ident(&self) -> $gives:ty;)*
    }) => {
        #[async_trait]
        impl $contract for Watched {
            $(async fn $name(&self $(, $arg: $type)*) -> Result<$out> {
                self.happens(stringify!($name));
                self.refuses(stringify!($name))?;
                self.fate.step().await;
                let done = block_on(self.inner.$name($($arg),*));
                self.fate.step().await;
                done
            })*
            $(fn $plain(&self) -> $gives {
                self.inner.$plain()
            })*
        }
    };
}

watched! { Sessions {
    fn start(&self, id: SessionId, beginning: Beginning, at: Timestamp) -> Session;
    fn append(&self, append: Append) -> Vec<Appended>;
    fn change(&self, before: &Session, fact: Fact, at: Timestamp) -> Session;
    fn fork(&self, source: SessionId, at_seq: Seq, id: SessionId, at: Timestamp) -> Session;
    fn session(&self, id: SessionId) -> Session;
    fn resolve(&self, reference: &SessionRef, user: Option<&str>) -> Vec<SessionId>;
    fn list(&self, filter: &ListFilter) -> Vec<Session>;
    fn conversations(&self, id: SessionId) -> Vec<Conversation>;
    fn message_by_id(&self, id: SessionId, message: &str) -> Option<Seq>;
    fn messages(&self, id: SessionId, span: Span) -> Vec<Message>;
    fn heads(&self, id: SessionId, span: Span) -> Vec<Message>;
    fn facts(&self, id: SessionId) -> Vec<FactRecord>;
    fn agents(&self, id: SessionId) -> Vec<AgentUse>;
    fn recall(&self, request: &RecallRequest) -> Recalled;
} }

watched! { Talks {
    fn stream(&self, id: SessionId, conversation: &str, updates: Vec<(Timestamp, Update)>) -> ();
    fn begun(&self, id: SessionId, conversation: &str) -> Option<Begun>;
    fn underway(&self) -> Vec<(SessionId, String)>;
    fn watermark(&self, id: SessionId, conversation: &str, agent: &str) -> Option<Watermark>;
    fn last_agent(&self, id: SessionId, conversation: Option<&str>) -> Option<String>;
    fn attached(&self, id: SessionId, after: std::ops::Range<Seq>) -> Vec<(u32, FactRecord)>;
    fn openings(&self, user: Option<&str>) -> Vec<OpeningCount>;
    fn quiet_since(&self, before: Timestamp, limit: u32) -> Vec<SessionId>;
    fn granted(&self, user: &str, project: &str, agent: &str, what: &str) -> Option<bool>;
    fn grants(&self) -> Vec<Grant>;
    fn grant(&self, grant: Grant, at: Timestamp) -> ();
    fn ungrant(&self, project: &str) -> u32;
    fn ungrant_unlike(&self, agent: &str, beginning: &str) -> u32;
} }

watched! { Finding {
    fn search(&self, search: &Search) -> Found;
    fn index(&self, most: u32) -> u64;
} }

watched! { Purges {
    fn begin_purge(&self, purging: Purging, at: Timestamp) -> ();
    fn empty_log(&self, is_patient: bool) -> bool;
    fn purges_begun(&self) -> Vec<Purging>;
    fn end_purge(&self, purging: Purging) -> ();
    fn purge_alone(&self) -> Option<Drive>;
    fn sharers(&self, id: SessionId, seq: Seq) -> Vec<SessionId>;
} }

watched! { Upkeep {
    fn erase(&self, id: SessionId) -> ();
    fn erase_if_empty(&self, id: SessionId) -> ();
    fn erase_deleted(&self, before: Timestamp) -> u32;
    fn take_in(&self, dump: Dump) -> Session;
    fn backup(&self, to: &Path) -> ();
    fn replace(&self, dump: Dump, expected: (Seq, u32)) -> bool;
    fn check(&self) -> Health;
    fn warning(&self) -> Option<String>;
    fn mend(&self, id: SessionId, texts: Vec<String>) -> Vec<Record>;
    fn repair(&self, backup: Option<&Path>, at: Timestamp) -> Repaired;
    fn rebuild(&self) -> ();
    fn compact(&self) -> ();
    fn usage(&self) -> Usage;
    unwatched fn leave(&self) -> bool;
} }

watched! { Claims {
    fn claim(&self, id: SessionId) -> Option<Claim>;
    fn drive(&self, id: SessionId, conversation: &str) -> Option<Drive>;
    fn ask_prompt(&self, id: SessionId, conversation: &str, prompt: &str, at: Timestamp) -> u64;
    fn take_prompt(&self, id: SessionId, conversation: &str) -> Option<(u64, String)>;
    fn answer(&self, asked: u64, answer: &str, at: Timestamp) -> ();
    fn forget_asked(&self, before: Timestamp) -> ();
    fn asked_since(&self, id: SessionId, after: u64) -> Vec<(u64, Command)>;
    fn asked(&self, asked: u64) -> Asked;
    fn withdraw(&self, asked: u64) -> bool;
    fn is_claimed(&self, id: SessionId) -> bool;
    fn ask(&self, id: SessionId, command: Command, at: Timestamp) -> u64;
    fn take_asked(&self, id: SessionId) -> Vec<Command>;
    fn version(&self) -> u64;
} }

watched! { Folders {
    fn home(&self, id: SessionId) -> Option<Home>;
    fn homes(&self, root: &str) -> Vec<Housed>;
    fn await_home(&self, id: SessionId, root: &str) -> ();
    fn without_home(&self, root: &str) -> Vec<SessionId>;
    fn set_home(&self, id: SessionId, home: Home) -> ();
    fn place(&self, id: SessionId, home: Home) -> Home;
    fn bury(&self, ids: Vec<String>, at: Timestamp) -> ();
    fn unbury(&self, id: &str) -> ();
    fn is_buried(&self, id: &str) -> bool;
    fn deleted_before(&self, before: Timestamp) -> Vec<SessionId>;
    fn rehome(&self, from: &str, to: &str, at: Timestamp) -> u32;
} }

watched! { Workflows {
    fn sweep_locks(&self) -> Vec<WorkflowId>;
    fn create_workflow(&self, id: WorkflowId, events: Vec<Event>, at: Timestamp) -> Workflow;
    fn append_events(&self, id: WorkflowId, expected: u32, epoch: Option<Epoch>, events: Vec<Event>, at: Timestamp) -> ();
    fn workflow_events(&self, id: WorkflowId, after: u32) -> Vec<EventRecord>;
    fn workflow_log(&self, id: WorkflowId, span: Span) -> Vec<EventRecord>;
    fn workflow(&self, id: WorkflowId) -> Workflow;
    fn workflows(&self, filter: &WorkflowFilter) -> Vec<WorkflowRow>;
    fn resolve_workflow(&self, text: &str, user: Option<&str>) -> Vec<WorkflowId>;
    fn workflow_of(&self, session: SessionId) -> Option<(WorkflowId, String)>;
    fn claim_workflow(&self, id: WorkflowId, lease: Duration) -> Option<WorkflowClaim>;
    fn renew_workflow(&self, id: WorkflowId, epoch: Epoch, lease: Duration) -> ();
    fn owner_of(&self, id: WorkflowId) -> Option<Owner>;
    fn is_workflow_claimed(&self, id: WorkflowId) -> bool;
    fn told_workflow(&self, id: WorkflowId) -> u32;
    fn set_told(&self, id: WorkflowId, no: u32) -> ();
    fn erase_workflow(&self, id: WorkflowId) -> ();
} }

watched!(Feed {
    fn feed(&self, after: u64, user: Option<&str>, limit: u32) -> FeedPage;
    fn feed_head(&self) -> u64;
});

watched! { Tokens {
    fn create_token(&self, token: Token, secret: &str) -> Token;
    fn token_by_secret(&self, secret: &str) -> Option<Token>;
    fn token(&self, id: &TokenId) -> Token;
    fn tokens(&self) -> Vec<Token>;
    fn revoke_token(&self, id: &TokenId, at: Timestamp) -> Token;
    fn redeem(&self, link_secret: &str, new: Token, new_secret: &str, now: Timestamp) -> Option<Token>;
    fn touch_token(&self, id: &TokenId, at: Timestamp) -> ();
} }

watched! { IdempotencyKeys {
    fn reserve(&self, key: &str, request: &[u8], id: Uuid, at: Timestamp) -> ReservedId;
} }

watched! { Accounts {
    fn usage_by_day(&self, filter: &UsageFilter) -> Vec<UsageDay>;
} }

watched! { Imports {
    fn imports(&self) -> Vec<Import>;
    fn import_of(&self, source: &str, native: &str) -> Option<Import>;
    fn holder_of(&self, agent: &str, native: &str) -> Option<SessionId>;
    fn set_import(&self, import: Import) -> ();
    fn imported_from(&self, id: SessionId) -> Option<String>;
    fn imported_sessions(&self) -> HashSet<SessionId>;
    fn natives(&self) -> Vec<(String, String, SessionId)>;
    fn opened_natives(&self) -> Vec<(String, String, SessionId)>;
    fn began_in(&self, id: SessionId, agent: &str, native: &str) -> bool;
    fn projects(&self, most: u32) -> Vec<String>;
} }
