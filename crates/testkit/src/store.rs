//! A store that is gone when the test is over.

use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rethread_domain::message::NewMessage;
use rethread_domain::session::Beginning;
use rethread_domain::{Fact, Message, Session, SessionId};
use rethread_engine::{Clock, ContextOptions, Engine};
use rethread_store::{Append, Appended, Result, Span, Store, StoreUrl, open};
use tempfile::TempDir;

use crate::messages::{at, beginning};
use crate::postgres::Database;

/// The use cases on a store, at a time that stands still.
fn engine(store: &Arc<dyn Store>) -> Engine {
    Engine::new(Arc::clone(store), Clock::Fixed(at(1000)))
}

/// The context that an agent would get.
pub async fn context(store: &Arc<dyn Store>, session: SessionId, prompt: Option<&str>) -> String {
    let options = ContextOptions { prompt: prompt.map(Into::into), ..ContextOptions::default() };
    engine(store).context(session, &options).await.unwrap().context
}

/// The same, or what is wrong with the store.
pub async fn try_context(
    store: &Arc<dyn Store>,
    session: SessionId,
    prompt: Option<&str>,
) -> std::result::Result<String, String> {
    let options = ContextOptions { prompt: prompt.map(Into::into), ..ContextOptions::default() };
    let made = engine(store).context(session, &options).await;
    made.map(|made| made.context).map_err(|error| error.to_string())
}

/// An open store of its own, with a folder beside it.
pub struct TestStore {
    store: Arc<dyn Store>,
    url: StoreUrl,
    folder: TempDir,
    database: Option<Database>,
}

impl TestStore {
    /// A new store of every kind there is; `TEST_STORE=sqlite` or `postgres` is only that one.
    pub async fn each() -> Vec<Self> {
        #[expect(clippy::disallowed_methods, reason = "a switch for tests, not a setting")]
        let only = std::env::var("TEST_STORE").unwrap_or_default();
        let mut stores = Vec::new();
        if only != "postgres" {
            stores.push(Self::sqlite().await);
        }
        if only != "sqlite" {
            stores.push(Self::postgres().await);
        }
        stores
    }

    pub async fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = StoreUrl::Sqlite(folder.path().join("store.db"));
        Self { store: open(&url).await.unwrap(), url, folder, database: None }
    }

    pub async fn postgres() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::with_store().await;
        let url = database.url();
        Self { store: open(&url).await.unwrap(), url, folder, database: Some(database) }
    }

    /// The database of a store of PostgreSQL.
    pub fn database(&self) -> Option<&Database> {
        self.database.as_ref()
    }

    /// The file of a store of SQLite, for tests of what is in the file.
    pub fn file(&self) -> &Path {
        self.url.file().expect("a test of files runs on SQLite alone")
    }

    pub fn url(&self) -> &StoreUrl {
        &self.url
    }

    /// A place in a folder of the store's own.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The same store, opened once more.
    pub async fn open_again(&self) -> Arc<dyn Store> {
        open(&self.url).await.unwrap()
    }

    /// The use cases on this store, at a time that stands still.
    pub fn engine(&self) -> Engine {
        engine(&self.store)
    }

    /// The context that an agent would get.
    pub async fn context(&self, session: SessionId, prompt: Option<&str>) -> String {
        context(&self.store, session, prompt).await
    }

    /// Whether a text stands anywhere in the files of the store, as it is; with PostgreSQL, in its rows.
    pub fn holds(&self, text: &str) -> bool {
        if let Some(database) = &self.database {
            return database.holds(text);
        }
        let files = std::fs::read_dir(self.folder.path()).unwrap();
        files.map(|file| file.unwrap().path()).filter(|path| path.is_file()).any(|path| {
            let bytes = std::fs::read(path).unwrap();
            bytes.windows(text.len()).any(|window| window == text.as_bytes())
        })
    }

    /// A new session of Anna's.
    pub async fn begin(&self) -> SessionId {
        self.begin_as(beginning()).await
    }

    pub async fn begin_as(&self, beginning: Beginning) -> SessionId {
        self.start(SessionId::generate(), beginning, at(0)).await.unwrap().id
    }

    pub async fn add(
        &self,
        session: SessionId,
        messages: Vec<NewMessage>,
    ) -> Result<Vec<Appended>> {
        self.append(Append::new(session, messages)).await
    }

    /// Adds a fact to the session as it is now.
    pub async fn note(&self, session: SessionId, fact: Fact) -> Session {
        let before = self.session(session).await.unwrap();
        self.change(&before, fact, at(500)).await.unwrap()
    }

    /// Every message of a session, oldest first.
    pub async fn all(&self, session: SessionId) -> Vec<Message> {
        self.messages(session, Span::after(1, u32::MAX)).await.unwrap()
    }

    /// What the messages of a session say, oldest first.
    pub async fn texts(&self, session: SessionId) -> Vec<String> {
        let whole = |message: Message| message.body.whole().unwrap().to_owned();
        self.all(session).await.into_iter().map(whole).collect()
    }

    /// Brings everything into the search index.
    pub async fn index_all(&self) {
        assert_eq!(self.index(u32::MAX).await.unwrap(), 0);
    }

    /// Fails if anything is damaged, or differs from the log.
    pub async fn expect_sound(&self) {
        let health = self.check().await.unwrap();
        assert_eq!((health.damage, health.drift), (Vec::new(), Vec::new()));
        assert_eq!(health.records, []);
    }
}

impl Deref for TestStore {
    type Target = dyn Store;

    fn deref(&self) -> &Self::Target {
        &*self.store
    }
}

impl fmt::Debug for TestStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestStore").field("url", &self.url).finish_non_exhaustive()
    }
}
