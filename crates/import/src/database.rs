//! Databases of other agents: read with what their logs hold, while they are in use, and never written to.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags, Params, Row};
use serde_json::Value;

use crate::{Error, Found, Unread, json};

/// So long an agent may hold its database locked.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a row may have at most: a longer one is not read, and told.
pub(crate) const LONGEST_ROW: i64 = 64 * 1024 * 1024;

/// Anything longer in a database is not even looked at: an error, where it cannot be left out.
const LONGEST_VALUE: i32 = 96 * 1024 * 1024;

/// A database that is only read.
pub(crate) struct Database {
    pub(crate) connection: Connection,
    /// A copy, where the original cannot be opened without writing beside it.
    _copy: Option<tempfile::TempDir>,
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

impl Database {
    /// Opens a database. Without a log there is nothing to be shared with others, and no file is made beside it.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let unreadable = unreadable(path);
        let log = std::fs::metadata(beside(path, "-wal")).map_or(0, |log| log.len());
        let has_shared_memory = beside(path, "-shm").exists();
        let options =
            if log == 0 && !has_shared_memory { "mode=ro&immutable=1" } else { "mode=ro" };
        match Self::connect(path, options, None) {
            Ok(database) => Ok(database),
            Err(_) if log > 0 => Self::copied(path),
            Err(error) => Err(unreadable(error)),
        }
    }

    fn connect(
        path: &Path,
        options: &str,
        copy: Option<tempfile::TempDir>,
    ) -> rusqlite::Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let path = path.to_string_lossy();
        let path = path.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
        let mut connection = Connection::open_with_flags(format!("file:{path}?{options}"), flags)?;
        connection.busy_timeout(PATIENCE)?;
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, LONGEST_VALUE)?;
        // Their definitions are not ours: nothing in them is to be run.
        connection.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        connection
            .set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        // A view in the place of a table could go on for ever.
        connection.authorizer(Some(|asked: AuthContext<'_>| match asked {
            AuthContext { accessor: Some(_), .. }
            | AuthContext { action: AuthAction::Recursive, .. } => Authorization::Deny,
            _ => Authorization::Allow,
        }))?;
        connection
            .query_row("select count(*) from sqlite_schema", [], |row| row.get::<_, i64>(0))?;
        Ok(Self { connection, _copy: copy })
    }

    /// Where the folder cannot be written to, SQLite cannot share the log: a copy of both is read.
    fn copied(path: &Path) -> Result<Self, Error> {
        let io = |error| Error::Io { path: path.to_owned(), error };
        let folder = tempfile::tempdir().map_err(io)?;
        let copy = folder.path().join("copy.db");
        std::fs::copy(path, &copy).map_err(io)?;
        std::fs::copy(beside(path, "-wal"), beside(&copy, "-wal")).map_err(io)?;
        Self::connect(&copy, "mode=ro", Some(folder)).map_err(unreadable(path))
    }

    /// The sessions of a database, by a query, up to the first that cannot be read; and why not.
    pub(crate) fn list(
        path: &Path,
        sql: &str,
        mut found: impl FnMut(&Row<'_>) -> Found,
    ) -> (Vec<Found>, Option<Error>) {
        let mut all = Vec::new();
        let mut read = || {
            let database = Self::open(path)?;
            if database.is_empty().map_err(unreadable(path))? {
                return Ok(());
            }
            let mut statement = database.connection.prepare(sql).map_err(unreadable(path))?;
            let rows = statement.query_map([], |row| Ok(found(row))).map_err(unreadable(path))?;
            for row in rows {
                all.push(row.map_err(unreadable(path))?);
            }
            Ok(())
        };
        let error = read().err();
        (all, error)
    }

    /// Whether it has no tables: some agents make the file before they need it.
    fn is_empty(&self) -> rusqlite::Result<bool> {
        let sql = "select not exists (select 1 from sqlite_schema where type = 'table')";
        self.connection.query_row(sql, [], |row| row.get(0))
    }

    /// One row, where there is one.
    pub(crate) fn row<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> T,
    ) -> rusqlite::Result<Option<T>> {
        let row = self.connection.prepare_cached(sql)?.query_row(params, |row| Ok(read(row)));
        match row {
            Err(rusqlite::Error::QueryReturnedNoRows) => Ok(None),
            row => row.map(Some),
        }
    }

    /// The ids of what a session consists of, in order.
    pub(crate) fn ids(&self, sql: &str, session: &str) -> rusqlite::Result<VecDeque<String>> {
        let mut statement = self.connection.prepare(sql)?;
        let ids = statement.query_map([session], |row| Ok(text(row, 0)))?;
        ids.collect()
    }

    /// Whether it has a table with these columns.
    pub(crate) fn has(&self, table: &str, columns: &[&str]) -> bool {
        let found = self.connection.prepare("select name from pragma_table_info(?1)");
        let Ok(mut statement) = found else { return false };
        let names = statement.query_map([table], |row| row.get::<_, String>(0));
        let Ok(names) = names else { return false };
        let names: Vec<String> = names.flatten().collect();
        columns.iter().all(|column| names.iter().any(|name| name == column))
    }
}

/// A database that cannot be read, and why.
pub(crate) fn unreadable(path: &Path) -> impl Fn(rusqlite::Error) -> Error + use<> {
    let path = path.to_owned();
    move |error| Error::Unreadable { path: path.clone(), why: error.to_string() }
}

/// A column that should hold JSON, if it is not too long; what cannot be read is told.
pub(crate) fn document(text: Option<&str>, what: &str, unread: &mut Vec<Unread>) -> Option<Value> {
    let Some(text) = text else {
        unread.push(Unread { at: None, why: format!("{what} is too long") });
        return None;
    };
    let parsed = json::parse::<Value>(text.as_bytes());
    if parsed.is_none() {
        let why = format!("{what}: {}", json::why_not(text.as_bytes()));
        unread.push(Unread { at: None, why });
    }
    parsed.map(|parsed| parsed.value)
}

/// The text of a column, unless another one says that it is too long.
pub(crate) fn row_text(row: &rusqlite::Row<'_>, at: usize, is_long: usize) -> Option<String> {
    let is_long = row.get::<_, bool>(is_long).unwrap_or(false);
    (!is_long).then(|| text(row, at))
}

/// A text from a column that should have one.
pub(crate) fn text(row: &rusqlite::Row<'_>, at: usize) -> String {
    match row.get_ref(at) {
        Ok(rusqlite::types::ValueRef::Text(text)) => String::from_utf8_lossy(text).into_owned(),
        Ok(rusqlite::types::ValueRef::Integer(number)) => number.to_string(),
        _ => String::new(),
    }
}
