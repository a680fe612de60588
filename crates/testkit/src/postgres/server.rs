//! Starting the server of a run, and asking it.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const KEEPER: &str = include_str!("keeper.sh");
/// Where each version of PostgreSQL has its programs, on Debian.
const VERSIONS: &str = "/usr/lib/postgresql";
/// A file system in memory; paths of sockets have to be short.
const MEMORY: &str = "/dev/shm";
const PREFIX: &str = "rethread-postgres-";
/// Whom the server is run as by root, whom it refuses.
const USER: &str = "postgres";

#[derive(Debug)]
pub(super) struct Server {
    pub(super) folder: PathBuf,
    programs: PathBuf,
    /// Where it listens beside its socket.
    pub(super) port: Option<u16>,
}

impl Server {
    /// The server of this run. If this is the first that wants it, it is started and prepared.
    pub(super) fn of_this_run(prepare: impl FnOnce(&Self)) -> Self {
        let run = Process::of_this_run();
        let folder = folders().join(format!("{PREFIX}{}-{}", run.id, run.began));
        fs::create_dir_all(&folder).unwrap();
        let server = Self { folder, programs: programs(), port: None };
        let one_at_a_time = server.lock();
        if !server.has("ready") {
            sweep();
            server.start(run.id);
            prepare(&server);
            server.remember("ready");
        }
        drop(one_at_a_time);
        server
    }

    /// One for a single test, which also listens on this machine for who has a password and comes over TLS.
    pub(super) fn encrypted() -> Self {
        let own = Process::of(std::process::id()).unwrap();
        // Whoever else takes the port before the server does makes the test fail, not pass.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let folder = folders().join(format!("{PREFIX}{}-{}-{port}", own.id, own.began));
        fs::create_dir(&folder).unwrap();
        let server = Self { folder, programs: programs(), port: Some(port) };
        server.start(own.id);
        server
    }

    /// Held by whoever makes something that is there once for all.
    pub(super) fn lock(&self) -> File {
        let lock = File::create(self.folder.join("lock")).unwrap();
        lock.lock().unwrap();
        lock
    }

    pub(super) fn has(&self, what: &str) -> bool {
        self.folder.join(what).exists()
    }

    pub(super) fn remember(&self, what: &str) {
        fs::write(self.folder.join(what), "").unwrap();
    }

    #[expect(clippy::zombie_processes, reason = "it lives longer than this test")]
    fn start(&self, run: u32) {
        for left in ["data", "socket"] {
            // Of one that was killed while it started; mostly there is none.
            drop(fs::remove_dir_all(self.folder.join(left)));
        }
        let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
        let mut keeper = Command::new("bash")
            .args(["-c", KEEPER, "keeper"])
            .args([&self.folder, &self.programs])
            .arg(run.to_string())
            .arg(if is_root { USER } else { "" })
            .args(self.port.map(|port| port.to_string()))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // What ends a test does not end it.
            .process_group(0)
            .spawn()
            .unwrap();
        let (mut answer, mut told) = (BufReader::new(keeper.stdout.take().unwrap()), String::new());
        answer.read_line(&mut told).unwrap();
        if told != "ready\n" {
            answer.read_to_string(&mut told).unwrap();
            panic!("PostgreSQL did not start in {}: {told}", self.folder.display());
        }
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        command.arg("-h").arg(self.socket()).args(["-U", "postgres"]).stdin(Stdio::null());
        command.args(self.port.map(|port| format!("-p{port}")));
        command
    }

    fn psql(&self, database: &str, statement: &str) -> Command {
        let mut command = self.program("psql");
        command.args(["-XqAt", "-v", "ON_ERROR_STOP=1", "-d", database, "-c", statement]);
        command
    }

    pub(super) fn ask(&self, database: &str, statement: &str) -> String {
        let answer = self.psql(database, statement).output().unwrap();
        let told = String::from_utf8_lossy(&answer.stderr);
        assert!(answer.status.success(), "{statement}: {told}");
        String::from_utf8(answer.stdout).unwrap()
    }

    /// All rows of a database.
    pub(super) fn dump(&self, database: &str) -> Vec<u8> {
        let dump = self.program("pg_dump").args(["--data-only", "-d", database]).output().unwrap();
        assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
        dump.stdout
    }

    pub(super) fn drop_database(&self, name: &str) {
        let statement = format!("drop database if exists {name} with (force)");
        // With the run its server goes, and the database with it.
        drop(self.psql("postgres", &statement).stderr(Stdio::null()).status());
    }
}

/// The programs of the newest version that is installed.
fn programs() -> PathBuf {
    let versions = fs::read_dir(VERSIONS).into_iter().flatten().flatten();
    let number = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = versions.filter_map(|entry| Some((number(&entry.path())?, entry.path()))).max();
    let (_, newest) =
        newest.expect("there is no PostgreSQL below /usr/lib/postgresql: `./test` installs it");
    newest.join("bin")
}

fn folders() -> PathBuf {
    let memory = Path::new(MEMORY);
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}

/// A process, told from others that have had its number.
#[derive(Debug, PartialEq, Eq)]
struct Process {
    id: u32,
    /// In ticks since the system was started.
    began: u64,
}

impl Process {
    /// Cargo or nextest, which run one test after another; otherwise this process.
    fn of_this_run() -> Self {
        let parent = std::os::unix::process::parent_id();
        let name = fs::read_to_string(format!("/proc/{parent}/comm")).unwrap_or_default();
        let id = if name.starts_with("cargo") { parent } else { std::process::id() };
        Self::of(id).unwrap()
    }

    fn of(id: u32) -> Option<Self> {
        let about = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // The name may have anything in it; it ends with the last bracket.
        let (_, fields) = about.rsplit_once(')')?;
        Some(Self { id, began: fields.split_whitespace().nth(19)?.parse().ok()? })
    }

    fn lives(&self) -> bool {
        Self::of(self.id).as_ref() == Some(self)
    }
}

/// Removes what earlier runs have left that were killed together with what kept their servers.
fn sweep() {
    for entry in fs::read_dir(folders()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let named = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('-'));
        let run = named.and_then(|(id, began)| {
            let began = began.split('-').next()?;
            Some(Process { id: id.parse().ok()?, began: began.parse().ok()? })
        });
        if run.is_some_and(|run| !run.lives()) {
            // Whoever kept it may be doing the same now, or it is another user's.
            drop(fs::remove_dir_all(entry.path()));
        }
    }
}
