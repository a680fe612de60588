//! Damaged and hostile files: whatever is done to them, they are read to an end, within bounds.
//!
//! `RETHREAD_FUZZ=100000 cargo test --release -p rethread-import --test sessions damage` does so 100,000 times for each
//! format; `RETHREAD_FUZZ_AGENT=kimi` beside it for one of them.

use std::collections::HashSet;
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};

use crate::common::{fixture, found, read, read_file};
use rethread_import::look_at;
use rusqlite::Connection;

/// So often each file is damaged in `./test`.
const TIMES: u64 = 2_000;
const FOLDER_TIMES: u64 = 1_000;
/// Databases take longer to open.
const DATABASE_TIMES: u64 = 200;

fn times(otherwise: u64) -> u64 {
    let given = std::env::var_os("RETHREAD_FUZZ").and_then(|text| text.into_string().ok());
    given.map_or(otherwise, |text| text.parse().expect("RETHREAD_FUZZ is a number"))
}

#[expect(clippy::print_stderr, reason = "a failure is shown with its seed")]
fn seed() -> u64 {
    let given = std::env::var_os("RETHREAD_SEED").and_then(|text| text.into_string().ok());
    let seed = match given {
        Some(text) => text.parse().expect("RETHREAD_SEED is a number"),
        None => RandomState::new().build_hasher().finish(),
    };
    eprintln!("RETHREAD_SEED={seed}");
    seed
}

/// Whether a format is asked for.
fn is_wanted(agent: &str) -> bool {
    let given = std::env::var_os("RETHREAD_FUZZ_AGENT");
    given.is_none_or(|given| given == agent)
}

/// So many bytes of memory may be in use at most, beyond what the tests themselves need.
const MOST_MEMORY: u64 = 64 * 1024 * 1024;

/// The most bytes that were in use so far; nothing where the system does not say.
pub(crate) fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

fn expect_bounded(before: u64) {
    let more = peak().saturating_sub(before);
    assert!(more <= MOST_MEMORY, "{more} bytes of memory for files of some kilobytes");
}

/// Numbers that follow from a seed.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.next() % (most.max(1) as u64)).unwrap()
    }
}

const BITS: &[&[u8]] = &[
    b"\0",
    b"\n",
    b"\"",
    b"{",
    b"}",
    b"[",
    b"]",
    b"\\",
    b"\\ud800",
    b"null",
    b"\xff",
    b"\xe2\x80\xa8",
    b",",
    b":",
    b"-1",
    b"1e999",
    b"{\"$set\":{\"messages\":[]}}\n",
    b"{\"$rewindTo\":1}\n",
    b"[[[[[[[[[[[[[[[[",
    b"\\u0000",
];

fn damage(bytes: &mut Vec<u8>, dice: &mut Dice) {
    for _ in 0..=dice.below(4) {
        let at = dice.below(bytes.len());
        let end = (at + dice.below(400)).min(bytes.len());
        match dice.below(8) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..end)),
            2 => {
                let piece = bytes[at..end].to_vec();
                let to = dice.below(bytes.len());
                drop(bytes.splice(to..to, piece));
            }
            3 => bytes[at..end].fill(0),
            4 if at < bytes.len() => bytes[at] ^= 1 << dice.below(8),
            5 => {
                // Lines change their places: children before their parents, cycles, ids twice.
                let mut lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
                let (one, other) = (dice.below(lines.len()), dice.below(lines.len()));
                lines.swap(one, other);
                *bytes = lines.concat();
            }
            _ => {
                let bit = BITS[dice.below(BITS.len())];
                drop(bytes.splice(at..at, bit.iter().copied()));
            }
        }
        if bytes.is_empty() {
            return;
        }
    }
}

fn check(agent: &str, path: &Path, bytes: usize) {
    let Some(session) = read(&found(agent, path), None) else { return };
    let ids: HashSet<_> = session.messages.iter().map(|one| one.id.as_ref().unwrap()).collect();
    assert_eq!(ids.len(), session.messages.len(), "{agent}: an id was given twice");
    for message in &session.messages {
        let id = message.id.as_deref().unwrap();
        rethread_domain::id::check_message_id(id).unwrap();
        rethread_domain::id::check_conversation(&message.conversation).unwrap();
    }
    let said: usize = session.messages.iter().map(|one| one.content.len()).sum();
    assert!(said <= 8 * bytes + 100_000, "{agent}: {said} bytes were made of {bytes}");
}

#[test]
fn no_damage_to_a_file_is_too_much() {
    let mut dice = Dice(seed());
    let folder = tempfile::tempdir().unwrap();
    let before = peak();
    let agents = ["claude", "codex", "gemini", "copilot", "qwen", "pi"];
    for agent in agents.into_iter().filter(|agent| is_wanted(agent)) {
        let whole = fs::read(fixture(&format!("{agent}.jsonl"))).unwrap();
        let path = folder.path().join(format!("{agent}.jsonl"));
        let cursor = read_file(agent, &fixture(&format!("{agent}.jsonl"))).cursor;
        for _ in 0..times(TIMES) {
            let mut bytes = whole.clone();
            damage(&mut bytes, &mut dice);
            fs::write(&path, &bytes).unwrap();
            check(agent, &path, bytes.len());
            if let Some(cursor) = &cursor {
                drop(read(&found(agent, &path), Some(cursor)));
            }
        }
    }
    expect_bounded(before);
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![folder.to_owned()];
    while let Some(path) = left.pop() {
        match fs::read_dir(&path) {
            Ok(entries) => left.extend(entries.map(|entry| entry.unwrap().path())),
            Err(_) => found.push(path),
        }
    }
    found.sort();
    found
}

#[test]
fn no_damage_to_a_folder_is_too_much() {
    let mut dice = Dice(seed());
    let before = peak();
    let formats = [
        ("kimi", "kimi/session_1", "agents/main/wire.jsonl"),
        ("cline", "cline/1_a", "1_a.messages.json"),
        ("fast-agent", "fast-agent/2603011000-abcdef", "session.json"),
        ("aider", "aider", ".aider.chat.history.md"),
        ("vibe", "vibe/s1", "CURRENT"),
    ];
    for (agent, from, session) in formats.into_iter().filter(|(agent, ..)| is_wanted(agent)) {
        let folder = tempfile::tempdir().unwrap();
        let from = fixture(from);
        let mut whole = Vec::new();
        for file in files(&from) {
            let to = folder.path().join(file.strip_prefix(&from).unwrap());
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(&file, &to).unwrap();
            whole.push((to, fs::read(&file).unwrap()));
        }
        let total: usize = whole.iter().map(|(_, bytes)| bytes.len()).sum();
        let path = folder.path().join(session);
        assert!(!read_file(agent, &path).messages.is_empty());
        for _ in 0..times(FOLDER_TIMES) {
            let (file, bytes) = &whole[dice.below(whole.len())];
            let mut damaged = bytes.clone();
            damage(&mut damaged, &mut dice);
            fs::write(file, &damaged).unwrap();
            check(agent, &path, total + damaged.len());
            fs::write(file, bytes).unwrap();
        }
    }
    expect_bounded(before);
}

/// A text of one row is damaged, in a database that is sound.
fn damage_row(database: &Connection, (table, column): (&str, &str), dice: &mut Dice) {
    let sql = format!("select rowid, {column} from {table}");
    let mut statement = database.prepare(&sql).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let rows: Vec<(i64, rusqlite::types::Value)> = rows.map(Result::unwrap).collect();
    let (row, value) = &rows[dice.below(rows.len())];
    let mut bytes = match value {
        rusqlite::types::Value::Text(text) => text.clone().into_bytes(),
        rusqlite::types::Value::Blob(bytes) => bytes.clone(),
        _ => b"null".to_vec(),
    };
    damage(&mut bytes, dice);
    let kind = if matches!(value, rusqlite::types::Value::Blob(_)) { "blob" } else { "text" };
    let sql = format!("update {table} set {column} = cast(?1 as {kind}) where rowid = ?2");
    database.execute(&sql, (bytes, row)).unwrap();
}

#[test]
fn no_damage_to_a_database_is_too_much() {
    let mut dice = Dice(seed());
    let folder = tempfile::tempdir().unwrap();
    let before = peak();
    let opencode = include_str!("../fixtures/opencode.sql");
    for (agent, sql, columns) in [
        ("opencode", opencode, &[("part", "data"), ("message", "data"), ("session", "revert")][..]),
        ("kilo", opencode, &[("part", "data"), ("message", "data"), ("session", "directory")]),
        (
            "goose",
            include_str!("../fixtures/goose.sql"),
            &[
                ("messages", "content_json"),
                ("messages", "metadata_json"),
                ("sessions", "created_at"),
            ],
        ),
        ("cursor", include_str!("../fixtures/cursor.sql"), &[("blobs", "data"), ("meta", "value")]),
    ]
    .into_iter()
    .filter(|(agent, ..)| is_wanted(agent))
    {
        let path = folder.path().join(format!("{agent}.db"));
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let whole = fs::read(&path).unwrap();
        let read_rows = |is_sound: bool| {
            for one in look_at(&path).0 {
                let read = read(&one, None);
                assert!(!is_sound || one.agent == agent, "{agent} is taken for {}", one.agent);
                drop(read);
            }
        };
        for time in 0..times(DATABASE_TIMES) {
            // In turn the file itself, and what a row of it says.
            let is_sound = time.is_multiple_of(2);
            let mut bytes = whole.clone();
            if is_sound {
                fs::write(&path, &bytes).unwrap();
                let database = Connection::open(&path).unwrap();
                database.pragma_update(None, "journal_mode", "memory").unwrap();
                database.pragma_update(None, "synchronous", "off").unwrap();
                damage_row(&database, columns[dice.below(columns.len())], &mut dice);
            } else {
                damage(&mut bytes, &mut dice);
                fs::write(&path, &bytes).unwrap();
            }
            read_rows(is_sound);
        }
    }
    expect_bounded(before);
}

#[test]
fn trees_made_to_hurt_are_read_in_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.jsonl");
    let record = |uuid: usize, parent: usize| {
        format!(
            r#"{{"type":"user","uuid":"{uuid}","parentUuid":"{parent}","sessionId":"s","message":{{"role":"user","content":"x"}}}}"#
        )
    };
    // A chain, a comb, a circle, and everybody with the same parent.
    let many = 50_000;
    let shapes: [&dyn Fn(usize) -> usize; 4] =
        [&|at| at.wrapping_sub(1), &|at| at.saturating_sub(2), &|at| (at + 1) % many, &|_| 0];
    for parent in shapes {
        let lines: Vec<String> = (0..many).map(|at| record(at, parent(at))).collect();
        fs::write(&path, lines.join("\n")).unwrap();
        let session = read(&found("claude", &path), None);
        assert!(session.is_none_or(|session| session.messages.len() <= many));
    }
}
