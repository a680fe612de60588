//! A PostgreSQL server for tests: in memory, on a socket alone, shared by all processes of a run and gone with it.
//!
//! The first test of a run starts it, behind a lock. It is kept by a process of its own, which waits for the end of the run:
//! whichever test is killed, nothing stays.

mod server;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use rethread_store::{StoreUrl, open};

use self::server::Server;

/// A database with a store that nothing is in, until it is dropped.
#[derive(Debug)]
pub struct Database {
    name: String,
    server: &'static Server,
}

/// The store that others are copies of.
const TEMPLATE: &str = "template_store";
/// Whom stores belong to: nobody with special rights.
const ROLE: &str = "rethread";

impl Database {
    /// A copy of a store that was made once in this run.
    pub async fn with_store() -> Self {
        template().await;
        Self::copy_of(TEMPLATE)
    }

    /// Without a store in it yet.
    pub fn empty() -> Self {
        Self::copy_of("template0")
    }

    fn copy_of(template: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let (server, number) = (server(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let name = format!("test_{}_{number}", std::process::id());
        server.ask("postgres", &format!("create database {name} template {template} owner {ROLE}"));
        Self { name, server }
    }

    pub fn url(&self) -> StoreUrl {
        url_of(self.server, &self.name)
    }

    /// The answer to a statement, by a user who may do everything: a line for each row, with `|` in between.
    pub fn ask(&self, statement: &str) -> String {
        self.server.ask(&self.name, statement)
    }

    /// Where the server of this run keeps everything.
    pub fn folder(&self) -> &Path {
        &self.server.folder
    }

    /// Whether a text stands in any row of any table, as it is.
    pub fn holds(&self, text: &str) -> bool {
        let rows = self.server.dump(&self.name);
        let hex = text.bytes().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
        [text.as_bytes(), hex.as_bytes()]
            .iter()
            .any(|wanted| rows.windows(wanted.len()).any(|window| window == *wanted))
    }
}

/// A server of a test's own, which takes connections on this machine from who has a password and comes over TLS. It ends with the
/// process.
#[derive(Debug)]
pub struct Encrypted(Server);

impl Encrypted {
    /// A server with one database, `sessions`, of this user.
    pub fn new(user: &str, password: &str) -> Self {
        let server = Server::encrypted();
        server.ask("postgres", &format!("create role {user} login password '{password}'"));
        server.ask("postgres", &format!("create database sessions owner {user}"));
        Self(server)
    }

    /// Where it listens on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.0.port.unwrap_or_default()
    }

    /// The file with its certificate, which is for localhost.
    pub fn certificate(&self) -> PathBuf {
        self.0.folder.join("own.pem")
    }

    /// The file with the certificate that has signed it.
    pub fn root(&self) -> PathBuf {
        self.0.folder.join("root.pem")
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.server.drop_database(&self.name);
    }
}

fn url_of(server: &Server, database: &str) -> StoreUrl {
    let url = format!("postgres://{ROLE}@/{database}?host={}", server.socket().display());
    url.parse().unwrap()
}

/// The server of this run.
fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        Server::of_this_run(|server| {
            server.ask("postgres", &format!("create role {ROLE} login"));
        })
    })
}

/// Makes the store that others are copies of, if there is none in this run yet.
async fn template() {
    static IS_MADE: AtomicBool = AtomicBool::new(false);
    if IS_MADE.load(Ordering::Relaxed) {
        return;
    }
    let server = server();
    let one_at_a_time = server.lock();
    if !server.has("template") {
        // Somebody may have been killed who was making it.
        server.ask("postgres", &format!("drop database if exists {TEMPLATE} with (force)"));
        server.ask("postgres", &format!("create database {TEMPLATE} owner {ROLE}"));
        drop(open(&url_of(server, TEMPLATE)).await.unwrap());
        server.ask("postgres", &format!("alter database {TEMPLATE} allow_connections false"));
        // The connections of a store end when it has been dropped, not at once.
        let of_store = format!("from pg_stat_activity where datname = '{TEMPLATE}'");
        server.ask("postgres", &format!("select pg_terminate_backend(pid, 5000) {of_store}"));
        server.remember("template");
    }
    drop(one_at_a_time);
    IS_MADE.store(true, Ordering::Relaxed);
}
