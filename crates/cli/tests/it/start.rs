//! What a start of the program costs, counted exactly: instructions, syncs, threads, page faults and address space. The
//! bounds are for the build that the tests make; `docs/benchmarks.md` has the times of a release build.

use crate::env::{PROGRAM, TestEnv, basket, jsonl, user};

/// Runs the program under another one that must be there; gives what that wrote to its log.
#[track_caller]
fn traced(env: &TestEnv, tool: &[&str], args: &[&str], input: &[u8]) -> String {
    let log = env.path("traced");
    let log = log.to_str().unwrap();
    let tool: Vec<String> = tool.iter().map(|one| one.replace("LOG", log)).collect();
    let tool: Vec<&str> = tool.iter().map(String::as_str).collect();
    env.finish(env.command_by(&tool, args), input).succeeded();
    std::fs::read_to_string(log).unwrap()
}

fn instructions(env: &TestEnv, args: &[&str], input: &[u8]) -> u64 {
    let tool = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--log-file=LOG"];
    let told = traced(env, &tool, args, input);
    let collected = told.lines().find_map(|line| line.split("Collected :").nth(1));
    collected.unwrap_or_else(|| panic!("{told}")).trim().parse().unwrap()
}

/// The system calls of these names, one a line.
fn calls(env: &TestEnv, which: &str, args: &[&str], input: &[u8]) -> Vec<String> {
    let which = format!("trace={which}");
    let told = traced(env, &["strace", "-f", "-o", "LOG", "-e", &which], args, input);
    told.lines().filter(|line| line.contains('(')).map(str::to_owned).collect()
}

fn message() -> Vec<u8> {
    jsonl(&[user("Why does the checkout total not fit?")]).into_bytes()
}

#[test]
fn a_start_takes_few_instructions() {
    let env = TestEnv::new();
    let id = env.basket();
    env.fold_log();
    for (args, input, most) in [
        (&["--version"][..], &b""[..], VERSION),
        (&["context", &id], b"", CONTEXT),
        (&["record", "--session", &id], &message(), RECORD),
    ] {
        let taken = instructions(&env, args, input);
        assert!(taken <= most, "{args:?} took {taken} instructions, more than {most}");
        assert!(taken * 2 >= most, "{args:?} took {taken} instructions: set its bound lower");
    }
}

#[test]
fn a_message_is_recorded_with_one_sync() {
    let env = TestEnv::new();
    // The first of all makes the store, the next one begins its log.
    let id = env.record::<&str>([], &[user("first")]);
    env.record(["--session", &id], &[user("second")]);
    for args in [&["record", "--session", &id][..], &["record"]] {
        let syncs = syncs(&env, args);
        assert_eq!(syncs.len(), 1, "{args:?}: {syncs:#?}");
        assert!(syncs[0].contains("sync("), "{syncs:#?}");
    }
    assert_eq!(env.messages(&id).len(), 3);
    env.assert_sound();
}

fn syncs(env: &TestEnv, args: &[&str]) -> Vec<String> {
    calls(env, "fsync,fdatasync,sync_file_range,msync", args, &message())
}

/// One of many folds the log, when its own message is durable. It also begins the next log: who comes after it needs no more
/// than one sync.
#[test]
fn a_log_is_folded_once_in_a_long_while_and_nobody_else_pays_for_it() {
    let env = TestEnv::new();
    let id = env.record::<&str>([], &[user("first")]);
    env.record(["--session", &id], &[user("second")]);
    let mut log = env.store().as_os_str().to_owned();
    log.push("-wal");
    let (mut folded, mut before) = (0, 0);
    for n in 0..30 {
        let syncs = syncs(&env, &["record", "--session", &id]).len();
        let length = std::fs::metadata(&log).unwrap().len();
        let is_folded = length < before;
        folded += u32::from(is_folded);
        assert!(if is_folded { syncs <= 6 } else { syncs == 1 }, "record {n}: {syncs} syncs");
        before = length;
    }
    assert!((1..=2).contains(&folded), "folded {folded} times");
    assert_eq!(env.messages(&id).len(), 32);
    env.assert_sound();
}

/// What a program pipes into us and what is in a file is read where it is, and one connection reads and writes.
#[test]
fn a_record_starts_no_thread_and_opens_the_store_once() {
    let env = TestEnv::new();
    let id = env.basket();
    std::fs::write(env.path("said"), message()).unwrap();
    let said = env.path("said");
    let run = |which: &str| {
        let which = format!("trace={which}");
        let from_file = format!("exec \"$@\" < {}", said.display());
        let tool = ["strace", "-f", "-o", "LOG", "-e", &which, "sh", "-c", &from_file, "sh"];
        let told = traced(&env, &tool, &["record", "--session", &id], b"");
        told.lines().filter(|line| line.contains('(')).map(str::to_owned).collect::<Vec<_>>()
    };
    let threads = run("clone,clone3,vfork,fork");
    assert_eq!(threads.len(), 0, "{threads:#?}");
    let named = format!("{}\"", env.store().display());
    let opened: Vec<_> =
        run("open,openat").into_iter().filter(|line| line.contains(&named)).collect();
    // To look at its log, and to use it.
    assert!((1..=2).contains(&opened.len()), "{opened:#?}");
    assert_eq!(env.messages(&id).len(), basket().len() + 2);
}

#[test]
fn a_log_that_recordings_leave_does_not_grow_without_bound() {
    let env = TestEnv::new();
    let id = env.record::<&str>([], &[user("first")]);
    let mut log = env.store().as_os_str().to_owned();
    log.push("-wal");
    let mut longest = 0;
    for n in 0..40 {
        env.record(["--session", &id], &[user(&format!("message {n}"))]);
        longest = longest.max(std::fs::metadata(&log).unwrap().len());
    }
    assert!((1..=1_200_000).contains(&longest), "{longest} bytes");
    assert_eq!(env.messages(&id).len(), 41);
    env.assert_sound();
}

#[test]
fn a_context_starts_no_thread_and_reads_nothing_that_it_does_not_need() {
    let env = TestEnv::new();
    let id = env.basket();
    let threads = calls(&env, "clone,clone3,vfork,fork", &["context", &id], b"");
    assert_eq!(threads.len(), 0, "{threads:#?}");
    let opened = calls(&env, "open,openat", &["context", &id], b"");
    for unneeded in ["zoneinfo", "localtime", "locale", "/etc/passwd", "/git"] {
        let found: Vec<_> = opened.iter().filter(|line| line.contains(unneeded)).collect();
        assert_eq!(found.len(), 0, "{found:#?}");
    }
    let waiting = calls(&env, "epoll_create1,eventfd2,socketpair", &["context", &id], b"");
    assert_eq!(waiting.len(), 0, "{waiting:#?}");
}

/// At a fixed address, nothing has to be relocated.
#[cfg(target_os = "linux")]
#[test]
fn the_program_is_linked_to_a_fixed_address() {
    let header: Vec<u8> = std::fs::read(PROGRAM).unwrap().into_iter().take(18).collect();
    assert_eq!(&header[..4], b"\x7fELF");
    // 2: a program at a fixed address; 3: one that can be put anywhere.
    assert_eq!(u16::from_le_bytes([header[16], header[17]]), 2);
}

#[test]
fn every_command_runs_in_256_megabytes() {
    let env = TestEnv::new();
    let id = env.basket();
    let other = env.record::<&str>([], &[user("another one")]);
    let [copy, exported] = ["copy.db", "exported"].map(|name| env.path(name));
    let [copy, exported] = [&copy, &exported].map(|path| path.to_str().unwrap());
    let narrow = |args: &[&str], input: &[u8]| {
        let starter = ["sh", "-c", "ulimit -v 262144 && exec \"$@\"", "sh"];
        env.finish(env.command_by(&starter, args), input).succeeded()
    };
    for args in [
        &["--version"][..],
        &["--help"],
        &["list"],
        &["show", &id],
        &["search", "basket"],
        &["context", &id],
        &["context", &id, "--prompt", "why is the basket empty"],
        &["pause", &id],
        &["activate", &id],
        &["complete", &id],
        &["archive", &id],
        &["unarchive", &id],
        &["rename", &id, "A basket"],
        &["fork", &id],
        &["prune", &id],
        &["export", &id],
        &["export", &id, "--output", exported],
        &["scan"],
        &["backup", copy],
        &["restore", copy],
        &["delete", &other],
        &["undelete", &other],
        &["purge", &id, "1"],
        &["config", "show"],
        &["doctor"],
        &["logs"],
        &["agents"],
        &["workflow", "list"],
        &["token", "list"],
        &["completions", "bash"],
        &["man"],
        &["tour"],
    ] {
        narrow(args, b"");
    }
    narrow(&["record", "--session", &other], &message());
    narrow(&["mcp"], b"");
}

/// Whoever adds one should know what it is worth.
#[test]
fn the_number_of_crates_does_not_grow_unseen() {
    let lock = include_str!("../../../../Cargo.lock");
    let crates = lock.lines().filter(|line| *line == "[[package]]").count();
    assert!(
        (350..=433).contains(&crates),
        "{crates} crates: set the bound anew if they are worth it"
    );
}

const VERSION: u64 = 560_000;
const CONTEXT: u64 = 6_900_000;
const RECORD: u64 = 13_000_000;
