//! Opening files: who may, how, and what is refused.

use std::fs;
use std::mem::ManuallyDrop;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::hooks::Wal;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::sums;
use super::wal::{Committed, InUse};
use crate::error::{Error, Result};

/// How often, and how long each time, a write waits for another process: ten seconds in all.
const STEPS: i32 = 1000;
const STEP: Duration = Duration::from_millis(10);
/// How often a store that has become shorter is looked at before it counts as cut.
const LOOKS_AT_CUT: u32 = 50;
/// Statements that a connection keeps ready.
const STATEMENTS: usize = 64;
/// Pages that a connection keeps, at most, in KiB. A context for a prompt of rare words reads some 600 pages of a long
/// session, which is more than SQLite keeps by itself.
const PAGES_KEPT_KIB: i64 = 8 * 1024;

/// What SQLite writes first, beside the store, and what it finds its way there by.
const LOG: &str = "-wal";
const LOG_INDEX: &str = "-shm";

/// A longer log is cut to this by SQLite when it begins it anew, in bytes.
const LARGEST_LOG: u64 = 16 << 20;

/// The oldest SQLite without a known way to damage a file in this mode.
const OLDEST_SQLITE: i32 = 3_051_003;

pub(super) fn reader(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = match open_file(path, flags) {
        Ok(connection) => connection,
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => {
            return Err(not_a_store(path, &error.to_string()));
        }
        Err(error) => match (Error::from(error), sealed_uri(path)) {
            // A folder that cannot be written to: nobody else writes to it either.
            (Error::CannotOpen(_) | Error::ReadOnly(_), Some(uri)) => {
                Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)?
            }
            (error, _) => return Err(error),
        },
    };
    set_up(&mut connection)?;
    Ok(connection)
}

/// Gives the answer, and whether the connection can be used on.
pub(super) fn read_one_state<T>(
    connection: &mut Connection,
    job: impl FnOnce(&mut Connection) -> Result<T>,
) -> Result<(Result<T>, bool)> {
    connection.prepare_cached("begin")?.raw_execute()?;
    let answer = job(connection);
    let ended = connection.prepare_cached("commit").and_then(|mut commit| commit.raw_execute());
    Ok((answer, ended.is_ok()))
}

fn open_file(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, flags)?;
    connection.query_row("pragma schema_version", [], |_| Ok(()))?;
    Ok(connection)
}

/// The one connection of a program that does one thing and ends: it reads and writes. `None` where it cannot write.
pub(super) fn only(path: &Path) -> Result<Option<Connection>> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = open_file(path, flags);
    let Some(connection) = opened.ok().filter(|one| one.is_readonly("main") == Ok(false)) else {
        return Ok(None);
    };
    set_up_writer(connection).map(Some)
}

/// The address of a file that has no unfinished business beside it, to be read as it is.
fn sealed_uri(path: &Path) -> Option<String> {
    let wal = fs::metadata(beside(path, "-wal")).map_or(0, |file| file.len());
    let path = fs::canonicalize(path).ok()?;
    let escaped: String = path.to_str()?.chars().fold(String::new(), |mut out, c| {
        match c {
            '%' | '?' | '#' => out.push_str(&format!("%{:02x}", u32::from(c))),
            _ => out.push(c),
        }
        out
    });
    (wal == 0).then(|| format!("file:{escaped}?immutable=1"))
}

pub(super) fn writer(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    set_up_writer(Connection::open_with_flags(path, flags)?)
}

fn set_up_writer(mut connection: Connection) -> Result<Connection> {
    set_up(&mut connection)?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "secure_delete", true)?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "journal_size_limit", LARGEST_LOG)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    Ok(connection)
}

fn set_up(connection: &mut Connection) -> Result<()> {
    let linked = rusqlite::version_number();
    if linked < OLDEST_SQLITE {
        return Err(Error::Failed(format!(
            "SQLite {linked} is too old to be trusted with a store"
        )));
    }
    be_patient(connection)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    // A statement is planned once, whatever it is given: otherwise most are planned anew each time they are used.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // A negative number is a size instead of a number of pages.
    connection.pragma_update(None, "cache_size", -PAGES_KEPT_KIB)?;
    sums::register(connection)
}

/// Waits for other processes in even steps. SQLite's own steps grow, so that who has waited longest comes last.
pub(super) fn be_patient(connection: &mut Connection) -> Result<()> {
    let wait = |times: i32| {
        std::thread::sleep(STEP);
        times < STEPS
    };
    Ok(connection.busy_handler(Some(wait))?)
}

/// Makes an empty file that only its owner can read, and the folders above it.
pub(super) fn create(path: &Path) -> Result<()> {
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(parent);
        made.map_err(|error| cannot_open(path, error))?;
    }
    private_file(path)?;
    Ok(())
}

/// Opens a file for writing, made if it is not there, that only its owner can read.
pub(super) fn private_file(path: &Path) -> Result<fs::File> {
    let file =
        fs::OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path);
    let file = file.map_err(|error| cannot_open(path, error))?;
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    Ok(file)
}

/// Makes an empty file that only its owner can read. Fails where there is one of that name.
pub(super) fn new_file(path: &Path) -> std::io::Result<()> {
    fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(path).map(drop)
}

/// Makes the names of files beside a store durable. SQLite is built not to do so, since it would at the first commit of
/// every process. Like SQLite, it makes do where the system cannot.
pub(super) fn sync_folder(path: &Path) {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    // There are file systems whose folders cannot be synced.
    drop(fs::File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all()));
}

/// Whether nobody has committed anything to the log yet, so that nobody has made its name durable.
pub(super) fn is_log_new(path: &Path) -> bool {
    fs::metadata(beside(path, LOG)).map_or(0, |log| log.len()) == 0
}

fn cannot_open(path: &Path, error: std::io::Error) -> Error {
    match Error::from(error) {
        Error::Failed(why) | Error::CannotOpen(why) => {
            Error::CannotOpen(format!("{}: {why}", path.display()))
        }
        error => error,
    }
}

/// The device and the number of a file: what stays the same while it is open, whatever happens to its name.
type FileId = (u64, u64);

/// The files of a store, as they were opened. What is written to one that was moved away or deleted since would be lost.
#[derive(Debug, Clone)]
pub(super) struct Opened {
    path: PathBuf,
    id: FileId,
    /// The log and its index, which SQLite keeps open as long as we do. A store that nobody can write to has none.
    beside: Vec<(PathBuf, FileId)>,
    /// How many frames the log had after the last commit of ours, and how far it reached then.
    frames: Arc<AtomicU32>,
    committed: Option<Committed>,
    /// How long the store was when it was last looked at, in bytes.
    bytes: Arc<AtomicU64>,
    /// The store itself, once it had to be looked into. Never closed: a process that closes a file loses all of its locks on it,
    /// SQLite's too.
    inside: Arc<OnceLock<ManuallyDrop<fs::File>>>,
}

/// What became of the files of a store while it was in use.
#[derive(Debug)]
pub(super) enum Gone {
    /// The store itself was moved, replaced or deleted.
    Store(Error),
    /// The log was deleted, and nothing is in its place: whoever has it open can still fold it into the store.
    Log(Error),
    /// Another file is in place of the log or its index, or something else is in the log.
    Replaced(Error),
}

impl From<Gone> for Error {
    fn from(gone: Gone) -> Self {
        match gone {
            Gone::Store(error) | Gone::Log(error) | Gone::Replaced(error) => error,
        }
    }
}

fn id_of(path: &Path) -> Option<FileId> {
    fs::metadata(path).ok().map(|file| number_of(&file))
}

fn number_of(file: &fs::Metadata) -> FileId {
    (file.dev(), file.ino())
}

impl Opened {
    /// To be called when a connection has read from the store: from then on its log is open too.
    pub(super) fn of(path: &Path) -> Result<Self> {
        let file = fs::metadata(path).map_err(|error| cannot_open(path, error))?;
        let beside = [LOG, LOG_INDEX].map(|suffix| beside(path, suffix)).into_iter();
        let beside = beside.filter_map(|path| id_of(&path).map(|id| (path, id))).collect();
        Ok(Self {
            path: path.to_owned(),
            id: number_of(&file),
            beside,
            frames: Arc::default(),
            committed: None,
            bytes: Arc::new(AtomicU64::new(file.len())),
            inside: Arc::default(),
        })
    }

    /// Refuses to go on with other files than those that their paths mean now.
    pub(super) fn check(&self) -> std::result::Result<(), Gone> {
        let file = fs::metadata(&self.path).ok().filter(|file| number_of(file) == self.id);
        let Some(file) = file else {
            return Err(Gone::Store(Error::CannotOpen(format!(
                "{}: it was moved or replaced while it was in use",
                self.path.display()
            ))));
        };
        if self.is_cut(file.len()) {
            return Err(Gone::Store(Error::CannotOpen(format!(
                "{}: it was cut short while it was in use, so nothing more is written. End every rethread program that uses \
                 the store, then put a backup back (`rethread restore`) or run `rethread doctor`",
                self.path.display()
            ))));
        }
        let Some((path, _)) = self.beside.iter().find(|(path, id)| id_of(path) != Some(*id)) else {
            return Ok(());
        };
        let is_log = *path == beside(&self.path, LOG);
        let error = Error::CannotOpen(format!(
            "{}: it was deleted or replaced while the store was in use, so nothing more is written. End every \
             rethread program that uses the store, put the file back if you moved it, then run `rethread doctor`",
            path.display()
        ));
        Err(if is_log && !path.exists() { Gone::Log(error) } else { Gone::Replaced(error) })
    }

    /// The same before and after something is written, with a look at the log: what is behind a hole in it is lost, and
    /// to fold it would damage the store.
    pub(super) fn check_to_write(&self) -> std::result::Result<(), Gone> {
        self.check()?;
        let log = beside(&self.path, LOG);
        if self.has_whole_log() {
            return Ok(());
        }
        Err(Gone::Replaced(Error::CannotOpen(format!(
            "{}: it was emptied, cut short or overwritten while the store was in use, so nothing more is written. End every \
             rethread program that uses the store, then run `rethread doctor`",
            log.display()
        ))))
    }

    /// Whether the store is shorter than it says itself. It is looked into only where it has become shorter: who compacts it or puts
    /// a backup back has it say so before it is cut.
    fn is_cut(&self, bytes: u64) -> bool {
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        if bytes >= before {
            return false;
        }
        // Somebody may just be folding a log into it that makes it longer again.
        for _ in 0..LOOKS_AT_CUT {
            let now = fs::metadata(&self.path).map_or(0, |file| file.len());
            if self.length_in_header().is_some_and(|length| now >= length) {
                return false;
            }
            std::thread::sleep(STEP);
        }
        // It stays so, however often it is asked.
        self.bytes.store(before, Ordering::Relaxed);
        true
    }

    /// How long the store is by its own header, in bytes.
    fn length_in_header(&self) -> Option<u64> {
        if self.inside.get().is_none() {
            let file = ManuallyDrop::new(fs::File::open(&self.path).ok()?);
            // Another thread may have been faster: then this one stays open as well.
            drop(self.inside.set(file));
        }
        let mut header = [0; 32];
        self.inside.get()?.read_exact_at(&mut header, 0).ok()?;
        let page = match u16::from_be_bytes([header[16], header[17]]) {
            1 => 65_536,
            size => u64::from(size),
        };
        let count = u32::from_be_bytes([header[28], header[29], header[30], header[31]]);
        (page > 0 && count > 0).then_some(page * u64::from(count))
    }

    /// Whether the log can be folded into the store: it has a beginning, and all that was committed to it by us, and the store
    /// is not cut short.
    pub(super) fn can_be_folded(&self) -> bool {
        let store = fs::metadata(&self.path).ok().filter(|file| number_of(file) == self.id);
        !store.is_some_and(|file| self.is_cut(file.len())) && self.has_whole_log()
    }

    /// Whether the log has a beginning, and all that was committed to it by us.
    fn has_whole_log(&self) -> bool {
        let is_cut = |log: &InUse| self.committed.as_ref().is_some_and(|one| log.is_cut(one));
        InUse::look(&beside(&self.path, LOG)).is_none_or(|log| !log.is_hollow() && !is_cut(&log))
    }

    /// Has SQLite tell after each commit of a connection how many frames are in the log.
    pub(super) fn watch(&mut self, connection: &mut Connection) -> Result<()> {
        let frames = Arc::clone(&self.frames);
        connection.wal_hook(Some(move |_: &mut Wal, pages: i32| {
            frames.store(u32::try_from(pages).unwrap_or(0), Ordering::Relaxed);
            Ok(())
        }))?;
        Ok(())
    }

    /// Remembers how far the log reaches after a commit. One that is longer than SQLite lets it grow may be cut by SQLite itself
    /// when it begins it anew.
    pub(super) fn remember_commit(&mut self) {
        let frames = self.frames.load(Ordering::Relaxed);
        let reached = InUse::look(&beside(&self.path, LOG)).map(|log| log.committed(frames));
        self.committed = reached.filter(|reached| reached.bytes <= LARGEST_LOG);
    }
}

/// The file that SQLite, or we, keep beside the store.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Whether a log is beside a file, or its index.
pub(super) fn has_log(path: &Path) -> bool {
    [LOG, LOG_INDEX].iter().any(|suffix| beside(path, suffix).exists())
}

/// Has SQLite remove the log that somebody who may only read has left beside a file: it does when the last one who may
/// write leaves, unless somebody else has the file open. Where it cannot, the log is in nobody's way.
pub(super) fn close_log(path: &Path) {
    if has_log(path) {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let opened = Connection::open_with_flags(path, flags);
        drop(
            opened.and_then(|one| {
                one.query_row("select count(*) from sqlite_schema", [], |_| Ok(()))
            }),
        );
    }
}

/// Refuses what cannot be a store before SQLite sees it.
pub(super) fn check_file(path: &Path) -> Result<bool> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(not_a_store(path, "it is a folder")),
        Ok(found) if !found.is_file() => Err(not_a_store(path, "it is not a plain file")),
        Ok(found) => Ok(found.len() > 0),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::CannotOpen(format!("{}: {error}", path.display()))),
    }
}

pub(super) fn not_a_store(path: &Path, why: &str) -> Error {
    Error::NotAStore { path: path.display().to_string(), why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;
    use crate::sqlite::schema;

    #[test]
    fn a_file_that_was_moved_away_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let [path, other] = ["store.db", "other"].map(|name| folder.path().join(name));
        create(&path).unwrap();
        let file = Opened::of(&path).unwrap();
        file.check().unwrap();
        fs::rename(&path, &other).unwrap();
        assert!(matches!(file.check(), Err(Gone::Store(Error::CannotOpen(_)))));
        create(&path).unwrap();
        assert!(matches!(file.check(), Err(Gone::Store(Error::CannotOpen(_)))));
        fs::rename(&other, &path).unwrap();
        file.check().unwrap();
    }

    #[test]
    fn a_log_that_was_deleted_or_replaced_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        create(&path).unwrap();
        schema::migrate(&path, schema::STEPS).unwrap();
        let _open = reader(&path).unwrap();
        let file = Opened::of(&path).unwrap();
        file.check().unwrap();
        let [log, index] = [LOG, LOG_INDEX].map(|suffix| beside(&path, suffix));
        let other = folder.path().join("other");
        fs::rename(&log, &other).unwrap();
        assert!(matches!(file.check(), Err(Gone::Log(Error::CannotOpen(_)))));
        create(&log).unwrap();
        assert!(matches!(file.check(), Err(Gone::Replaced(Error::CannotOpen(_)))));
        fs::rename(&other, &log).unwrap();
        file.check().unwrap();
        fs::remove_file(&index).unwrap();
        assert!(matches!(file.check(), Err(Gone::Replaced(Error::CannotOpen(_)))));
    }

    #[test]
    fn a_statement_is_planned_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        create(&path).unwrap();
        schema::migrate(&path, schema::STEPS).unwrap();
        let reader = reader(&path).unwrap();
        let text = "select no from session where user = ?1 and deleted_at is null limit ?2";
        for limit in 1..10 {
            let mut statement = reader.prepare_cached(text).unwrap();
            assert!(!statement.exists((format!("user {limit}"), limit)).unwrap());
            assert_eq!(statement.get_status(StatementStatus::RePrepare), 0);
        }
    }
}
