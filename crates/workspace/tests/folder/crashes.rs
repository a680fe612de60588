//! Processes that work at once, and are killed (D4, D6).

use std::collections::HashSet;
use std::fs;
use std::io::Read as _;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use rethread_workspace::{FolderPath, Item};

use crate::roles::{role, role_by, said};
use crate::{Place, card};

fn start(name: &str, place: &Place, detail: &str) -> Child {
    role(name, &place.path(""), detail).stdout(Stdio::piped()).spawn().unwrap()
}

fn output(child: &mut Child) -> Vec<String> {
    let mut bytes = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut bytes).unwrap();
    child.wait().unwrap();
    said(&bytes)
}

/// Numbers that look like chance and are the same in every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

#[test]
fn eight_processes_append_and_are_killed_and_no_line_that_was_acknowledged_is_lost() {
    let place = Place::new();
    let path = place.session();
    let mut acknowledged = HashSet::new();
    let mut killed = 0;
    thread::scope(|scope| {
        let writers: Vec<_> = (0..8)
            .map(|writer| {
                let (place, path) = (&place, &path);
                scope.spawn(move || writer_with_kills(place, path, writer))
            })
            .collect();
        for writer in writers {
            let (ids, kills) = writer.join().unwrap();
            acknowledged.extend(ids);
            killed += kills;
        }
    });
    let last = place.lock(&path).append(&[crate::line(1)], true).unwrap();
    let (items, end) = place.read(&path);
    assert_eq!((end.bytes, end.torn), (last.to, None));
    let mut lines = HashSet::new();
    let mut ids = HashSet::new();
    for item in items {
        let Item::Line { line, number, .. } = item else { panic!("{item:?}") };
        assert!(lines.insert(number), "line {number} is welded");
        assert!(ids.insert(line.id.clone()), "{} is there twice", line.id);
    }
    let missing: Vec<_> = acknowledged.difference(&ids).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(acknowledged.len() >= 8 * 200, "{} acknowledged", acknowledged.len());
    assert!(killed >= 24, "{killed} killed");
}

/// Starts a writer again and again, kills it in between, and lets the last one finish.
fn writer_with_kills(place: &Place, path: &FolderPath, writer: u64) -> (Vec<String>, usize) {
    let mut chance = Chance(0x9e37_79b9 + writer);
    let mut acknowledged = Vec::new();
    let kills = 5;
    for run in 0..=kills {
        let mut child = start("append", place, &format!("{path} w{writer}r{run}"));
        if run < kills {
            thread::sleep(Duration::from_millis(15 + chance.below(250)));
            child.kill().unwrap();
        }
        acknowledged.extend(output(&mut child));
    }
    (acknowledged, kills)
}

#[test]
fn processes_that_make_folders_at_once_get_different_numbers() {
    let place = Place::new();
    let mut children: Vec<_> = (0..4).map(|_| start("create", &place, "")).collect();
    let made: Vec<FolderPath> =
        children.iter_mut().flat_map(output).map(|path| path.parse().unwrap()).collect();
    let numbers: HashSet<u32> = made.iter().map(FolderPath::number).collect();
    assert_eq!((made.len(), numbers.len()), (200, 200));
    assert_eq!(numbers.iter().max(), Some(&200));
}

/// The card is whole, as it was before or as it is now, and nothing else is left than what the next write removes.
fn check_card(place: &Place, path: &FolderPath) {
    let folder = place.workspace.folder(path).unwrap().unwrap();
    let found = folder.card().unwrap().unwrap();
    let summary = found.summary.clone().unwrap_or_default();
    let word = summary.split(' ').next().unwrap_or_default().to_owned();
    assert_eq!(
        summary,
        if word.is_empty() { String::new() } else { format!("{word} ").repeat(3_000) }
    );
    assert_eq!(found.id, card().id);
}

#[test]
fn a_process_killed_while_it_writes_cards_leaves_a_whole_one() {
    let place = Place::new();
    let path = place.session();
    place.lock(&path).write_card(&card()).unwrap();
    let mut chance = Chance(7);
    for _ in 0..60 {
        let mut child = start("cards", &place, path.as_str());
        thread::sleep(Duration::from_millis(2 + chance.below(25)));
        child.kill().unwrap();
        child.wait().unwrap();
        check_card(&place, &path);
    }
    place.lock(&path).write_card(&card()).unwrap();
    let session = place.card(&path).parent().unwrap().to_owned();
    assert_eq!(fs::read_dir(session).unwrap().count(), 1, "a temporary file is left");
}

#[test]
fn a_process_killed_at_any_system_call_leaves_a_whole_card() {
    let place = Place::new();
    let path = place.session();
    place.lock(&path).write_card(&card()).unwrap();
    let mut kills = 0;
    for call in ["openat2", "unlinkat", "fchmod", "write", "fsync", "renameat"] {
        for number in 1..30 {
            let inject = format!("--inject={call}:signal=KILL:when={number}");
            let trace = format!("--trace={call}");
            let strace = ["strace", "-f", "-qq", "-o", "/dev/null", &trace, &inject];
            let child =
                role_by(&strace, "two cards", &place.path(""), path.as_str()).output().unwrap();
            check_card(&place, &path);
            if child.status.success() {
                break;
            }
            kills += 1;
        }
    }
    assert!(kills >= 15, "{kills}");
}

#[test]
fn a_card_is_written_then_synced_then_renamed_then_its_folder_is_synced() {
    let place = Place::new();
    let path = place.session();
    let trace = place.path("trace");
    let strace = [
        "strace",
        "-f",
        "-qq",
        "-y",
        "-o",
        trace.to_str().unwrap(),
        "--trace=write,fsync,renameat",
    ];
    let child = role_by(&strace, "two cards", &place.path(""), path.as_str()).output().unwrap();
    assert!(child.status.success());
    let text = fs::read_to_string(trace).unwrap();
    let step = |line: &str| {
        let line = line.split_once(' ')?.1.trim_start();
        let is = |call: &str, what: &str| line.starts_with(call) && line.contains(what);
        Some(match () {
            () if is("write(", "/.session/.session.json.new>") => "write",
            () if is("fsync(", "/.session/.session.json.new>") => "sync",
            () if is("renameat(", "\"session.json\"") => "rename",
            () if is("fsync(", "/.session>") => "sync folder",
            () => return None,
        })
    };
    let steps: Vec<_> = text.lines().filter_map(step).collect();
    let once = ["write", "sync", "rename", "sync folder"];
    assert_eq!(steps, [once, once].concat(), "{text}");
}
