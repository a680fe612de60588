//! Takes in what is new of one session, wherever its agents keep it.

use std::path::Path;

use rethread_domain::SessionId;
use rethread_import as import;

use super::{ImportOptions, ImportReport};
use crate::{Engine, Result};

impl Engine {
    /// Imports what was said in the native sessions that a session of ours was imported from or handed over to. Costs a look at
    /// each of their files where nothing has changed.
    pub async fn import_for(&self, id: SessionId, options: &ImportOptions) -> Result<ImportReport> {
        let known = self.known_imports().await?;
        let mut report = ImportReport::default();
        for row in known.rows.values().filter(|row| row.session == Some(id)) {
            let (found, _) = import::look_at(Path::new(&row.source));
            // What is gone stays here as it was.
            let is_it = |one: &&import::Found| one.agent == row.agent && one.native == row.native;
            if let Some(found) = found.iter().find(is_it) {
                self.import_one(options, &known, found, &mut report).await?;
            }
        }
        Ok(report)
    }
}
