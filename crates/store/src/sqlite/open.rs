//! How a store is opened.

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use rusqlite::Connection;

use super::locks::Locks;
use super::writer::Writer;
use super::{SqliteStore, connection, copies, schema, wal, writer};
use crate::error::{Error, Result};

impl SqliteStore {
    /// For a program that does one thing and ends. It writes on its own thread, and leaves a short log as it is. What it
    /// writes before it appends is as durable as what it appends, and no sooner.
    pub(crate) fn open_briefly(path: &Path) -> Result<Self> {
        Self::cleared(path, Self::open_one)
    }

    pub(crate) fn open(path: &Path) -> Result<Self> {
        Self::cleared(path, |path| Self::open_prepared(path, Self::prepare(path)?))
    }

    /// Opens a store once what a restore that was cut off has left is out of the way, and says what that was.
    fn cleared(path: &Path, open: impl FnOnce(&Path) -> Result<Self>) -> Result<Self> {
        let Some(cleared) = copies::clear_up(path)? else { return open(path) };
        match open(path) {
            Ok(store) => {
                let warning = [Some(cleared), store.warning.clone()].into_iter().flatten();
                let warning = Some(warning.collect::<Vec<_>>().join("\n"));
                Ok(Self { warning, ..store })
            }
            Err(Error::NotAStore { path, why }) => {
                Err(Error::NotAStore { path, why: format!("{why}; {cleared}") })
            }
            Err(error) => Err(error),
        }
    }

    /// With one connection, where nothing has to be put in order before.
    fn open_one(path: &Path) -> Result<Self> {
        let warning = Self::prepare(path)?;
        let known = schema::STEPS.len();
        // Its definitions are read once for each connection: here is one for all.
        if warning.is_none()
            && let Some(only) = connection::only(path)?
            && schema::version(&only, path, known)? == known
        {
            let store = Self::with(path, Vec::new(), None, true)?;
            let writer = Writer::here(path, only, store.file.clone())?;
            return Ok(Self { writer: OnceLock::from(writer), ..store });
        }
        Ok(Self { is_brief: true, ..Self::open_prepared(path, warning)? })
    }

    /// Sees to it that there is a store. Gives what is to be said of its log.
    fn prepare(path: &Path) -> Result<Option<String>> {
        // Before anything is recovered.
        let warning = wal::look(path)?;
        if !connection::check_file(path)? {
            connection::create(path)?;
            schema::migrate(path, schema::STEPS)?;
        }
        Ok(warning)
    }

    fn open_prepared(path: &Path, warning: Option<String>) -> Result<Self> {
        let mut reader = connection::reader(path)?;
        if warning.is_some() {
            // What is left of the damaged log must not be taken for a part of what is written next.
            writer::fold_log(&connection::writer(path)?, "truncate");
        }
        if schema::version(&reader, path, schema::STEPS.len())? < schema::STEPS.len() {
            drop(reader);
            schema::migrate(path, schema::STEPS)?;
            reader = connection::reader(path)?;
        }
        Self::with(path, vec![reader], warning, false)
    }

    fn with(
        path: &Path,
        readers: Vec<Connection>,
        warning: Option<String>,
        is_brief: bool,
    ) -> Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            locks: Locks::of(path),
            file: connection::Opened::of(path)?,
            readers: Mutex::new(readers),
            writer: OnceLock::new(),
            starting: Mutex::new(()),
            watcher: Mutex::new(None),
            folded: Arc::default(),
            warning,
            is_brief,
        })
    }
}
