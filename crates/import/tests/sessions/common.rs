//! Reading sessions in tests.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rethread_domain::message::NewMessage;
use rethread_import::{AGENTS, Cursor, Found, Head, Unread, open};

/// All of a session.
pub(crate) struct Session {
    pub(crate) head: Head,
    pub(crate) messages: Vec<NewMessage>,
    pub(crate) unread: Vec<Unread>,
    pub(crate) cursor: Option<Cursor>,
    pub(crate) is_continued: bool,
}

pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

pub(crate) fn found(agent: &str, path: &Path) -> Found {
    let agent = AGENTS.iter().find(|known| **known == agent).unwrap();
    let (native, stamp) = (String::new(), String::new());
    let (path, source) = (path.to_owned(), path.to_owned());
    Found { agent, path, source, native, stamp, changed_at: Timestamp::UNIX_EPOCH }
}

pub(crate) fn read(found: &Found, cursor: Option<&Cursor>) -> Option<Session> {
    let mut transcript = open(found, cursor).ok()??;
    let mut messages = Vec::new();
    while let Some(message) = transcript.next().ok()? {
        messages.push(message);
    }
    Some(Session {
        head: transcript.head().clone(),
        messages,
        unread: transcript.unread(),
        cursor: transcript.cursor(),
        is_continued: transcript.is_continued(),
    })
}

pub(crate) fn read_all(found: Vec<Found>) -> Vec<Session> {
    found.iter().map(|one| read(one, None).unwrap()).collect()
}

pub(crate) fn read_file(agent: &str, path: &Path) -> Session {
    read(&found(agent, path), None).unwrap()
}

pub(crate) fn read_on(agent: &str, path: &Path, cursor: &Cursor) -> Session {
    read(&found(agent, path), Some(cursor)).unwrap()
}

pub(crate) fn texts(session: &Session) -> Vec<String> {
    let shown = |message: &rethread_domain::message::NewMessage| {
        let content = message.content.replace('\n', " / ");
        format!("{} {}: {content}", message.conversation, message.role)
    };
    session.messages.iter().map(shown).collect()
}

pub(crate) fn main_of(session: &Session) -> Vec<String> {
    let texts = texts(session).into_iter();
    texts.filter_map(|text| text.strip_prefix("main ").map(str::to_owned)).collect()
}

pub(crate) fn other<'a>(
    session: &'a Session,
    text: &str,
    name: &str,
) -> Option<&'a serde_json::Value> {
    let found = session.messages.iter().find(|one| one.content.contains(text)).unwrap();
    found.extras.other.get(name)
}
