//! Sessions whose beginning was written from here, in formats that can only be read as a whole: only what came after it is new.

use std::io;

use rethread_domain::message::NewMessage;
use serde_json::{Value, json};

use crate::{Cursor, Error, Found, Head, Transcript, Unread, find};

const COPIED: &str = "copied";

impl Cursor {
    /// Goes on after so many messages, which are known here.
    pub fn after_copy(messages: u64) -> Self {
        Self { position: 0, fingerprint: String::new(), state: json!({ COPIED: messages }) }
    }
}

/// How many messages are known, if the cursor is such a count.
pub(crate) fn count(cursor: &Cursor) -> Option<u64> {
    cursor.state.get(COPIED).and_then(Value::as_u64)
}

struct Rest {
    all: Box<dyn Transcript>,
    /// How many messages were given or passed over.
    read: u64,
}

/// Opens what comes after the first messages. `None` where nothing can be read any more.
pub(crate) fn open(found: &Found, count: u64) -> Result<Option<Box<dyn Transcript>>, Error> {
    let Some(mut all) = find::open(found, None)? else { return Ok(None) };
    let mut read = 0;
    let failed = |error| Error::Io { path: found.path.clone(), error };
    while read < count && all.next().map_err(failed)?.is_some() {
        read += 1;
    }
    if read < count {
        // The agent has less than it was given: where it goes on can only be told from all of it.
        return find::open(found, None);
    }
    Ok(Some(Box::new(Rest { all, read })))
}

impl Transcript for Rest {
    fn head(&self) -> &Head {
        self.all.head()
    }

    fn next(&mut self) -> io::Result<Option<NewMessage>> {
        let next = self.all.next()?;
        self.read += u64::from(next.is_some());
        Ok(next)
    }

    fn unread(&mut self) -> Vec<Unread> {
        self.all.unread()
    }

    fn cursor(&self) -> Option<Cursor> {
        Some(Cursor::after_copy(self.read))
    }

    fn is_continued(&self) -> bool {
        true
    }
}
