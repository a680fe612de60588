//! Gigantic files and records: read to their end, in bounded memory. Each in a process of its own, whose memory is looked at.

use std::fs::{self, File};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::process::Command;

use crate::common::{fixture, found, read};
use crate::damaged::peak;

/// Set where a test runs in a process of its own.
const INSIDE: &str = "RETHREAD_TEST_ALONE";
const MEGABYTE: u64 = 1024 * 1024;

/// Runs one test of this file by itself: memory that other tests have used is no longer seen then.
fn alone(name: &str, test: fn()) {
    if std::env::var_os(INSIDE).is_some() {
        return test();
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("gigantic::{name}"), "--nocapture"]).env(INSIDE, "1");
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}{told}", String::from_utf8_lossy(&output.stdout));
}

fn line(text: &str) -> String {
    format!(
        "{{\"type\":\"user\",\"uuid\":\"u9\",\"parentUuid\":null,\"sessionId\":\"s\",\"message\":{{\"role\":\"user\",\"content\":{text}}}}}\n"
    )
}

/// Reads a session of Claude Code; gives how many messages it has, and what is told of it.
fn said(path: &Path) -> (usize, Vec<String>) {
    let session = read(&found("claude", path), None).unwrap();
    (session.messages.len(), session.unread.into_iter().map(|one| one.why).collect())
}

#[test]
fn a_file_of_4_gigabytes_takes_no_memory() {
    alone("a_file_of_4_gigabytes_takes_no_memory", || {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.jsonl");
        let mut file = File::create(&path).unwrap();
        file.write_all(&fs::read(fixture("claude.jsonl")).unwrap()).unwrap();
        // What a crash of the machine leaves: zeros, and a line behind them. They take no room on the disk.
        file.seek(SeekFrom::Start(4 * 1024 * MEGABYTE)).unwrap();
        file.write_all(line("\"the last word\"").as_bytes()).unwrap();
        drop(file);
        let before = peak();
        let whole = said(&fixture("claude.jsonl")).0;
        assert_eq!(said(&path), (whole + 1, vec![]));
        assert!(peak() - before <= 64 * MEGABYTE, "{}", peak() - before);
    });
}

#[test]
fn a_large_record_takes_a_few_times_its_length() {
    alone("a_large_record_takes_a_few_times_its_length", || {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.jsonl");
        let length = 40 * MEGABYTE;
        let text = "x".repeat(usize::try_from(length).unwrap());
        fs::write(&path, line(&format!("\"{text}\""))).unwrap();
        drop(text);
        let before = peak();
        assert_eq!(said(&path), (1, vec![]));
        let more = peak() - before;
        assert!(more <= 64 * MEGABYTE + 4 * length, "{more}");
    });
}

/// An empty list takes three bytes in a file, and two hundred in memory.
#[test]
fn a_record_that_would_fill_the_memory_is_passed_over() {
    alone("a_record_that_would_fill_the_memory_is_passed_over", || {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.jsonl");
        let before_it = fs::read_to_string(fixture("claude.jsonl")).unwrap();
        let whole = said(&fixture("claude.jsonl")).0;
        let length = 40 * MEGABYTE;
        let count = usize::try_from(length / 10).unwrap();
        for piece in ["{\"a\":{}},", "[[],[],1],", "[0,0,0,0],"] {
            let rich = format!("[{}0]", piece.repeat(count));
            fs::write(&path, before_it.clone() + &line(&rich)).unwrap();
            drop(rich);
            let before = peak();
            let why = "it has too many values for its length".to_owned();
            assert_eq!(said(&path), (whole, vec![why]), "{piece}");
            let more = peak().saturating_sub(before);
            assert!(more <= 64 * MEGABYTE + 2 * length, "{more}");
        }
    });
}
