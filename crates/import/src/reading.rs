//! A session that is read record by record: what all sources of records have in common.

use std::io;

use rethread_domain::message::NewMessage;

use crate::speech::Speech;
use crate::{Cursor, Head, Transcript, Unread};

/// Where the records of a session come from.
pub(crate) trait Source: Send {
    /// Reads the next record. `false` where there is none left.
    fn advance(&mut self, speech: &mut Speech, unread: &mut Vec<Unread>) -> io::Result<bool>;

    /// Where to go on later, for sources that need not be read as a whole.
    fn cursor(&self, _: &Head, _: &Speech) -> Option<Cursor> {
        None
    }

    /// Whether only what is new since a cursor is given.
    fn is_continued(&self) -> bool {
        false
    }
}

/// A session on its way from a source to messages.
pub(crate) struct Reading<S> {
    pub(crate) source: S,
    head: Head,
    speech: Speech,
    unread: Vec<Unread>,
    is_over: bool,
}

impl<S: Source> Reading<S> {
    pub(crate) fn new(source: S, head: Head, speech: Speech, unread: Vec<Unread>) -> Self {
        Self { source, head, speech, unread, is_over: false }
    }
}

impl<S: Source> Transcript for Reading<S> {
    fn head(&self) -> &Head {
        &self.head
    }

    fn next(&mut self) -> io::Result<Option<NewMessage>> {
        loop {
            if let Some(message) = self.speech.next(self.is_over) {
                return Ok(Some(message));
            }
            if self.is_over {
                return Ok(None);
            }
            if !self.source.advance(&mut self.speech, &mut self.unread)? {
                self.is_over = true;
                self.speech.finish();
            }
        }
    }

    fn unread(&mut self) -> Vec<Unread> {
        std::mem::take(&mut self.unread)
    }

    fn cursor(&self) -> Option<Cursor> {
        self.source.cursor(&self.head, &self.speech)
    }

    fn is_continued(&self) -> bool {
        self.source.is_continued()
    }
}
