//! What speed stands on, counted exactly: syncs for each batch, and the work of a resume however long its session.
//!
//! The work is done by this program, started once more under `strace` or `valgrind`.

#![allow(clippy::unwrap_used, clippy::expect_used)] // Tests may panic.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use futures::executor::block_on;
use futures::future::join_all;
use rethread_domain::SessionId;
use rethread_domain::search::Filter;
use rethread_store::{Append, Search, StoreUrl, open};
use rethread_testkit::{TestStore, Texts, at, beginning, context, user};

/// What is asked of the process that does the work, as an environment variable: a store, and numbers.
const WORK: &str = "RETHREAD_GATE";

/// The words of the variable; nothing where the test runs by itself.
fn work() -> Option<Vec<String>> {
    let text = std::env::var_os(WORK)?.into_string().unwrap();
    Some(text.split('\n').map(str::to_owned).collect())
}

/// Runs one test of this program under a tool.
fn run_under(tool: &str, arguments: &[OsString], test: &str, work: &[&str]) -> Output {
    let output = Command::new(tool)
        .args(arguments)
        .arg(std::env::current_exe().unwrap())
        .args([test, "--exact", "--test-threads=1"])
        .env(WORK, work.join("\n"))
        .output()
        .unwrap_or_else(|error| {
            panic!("this test needs {tool}: {error} (the test command installs it)")
        });
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{tool} failed:\n{told}");
    output
}

/// Appends so many messages one after the other, then so many at once.
fn append(path: &Path, sequential: usize, concurrent: usize) {
    block_on(async {
        let store = open(&StoreUrl::Sqlite(path.to_owned())).await.unwrap();
        let id = SessionId::generate();
        store.start(id, beginning(), at(0)).await.unwrap();
        let text = Texts::new(1).text(450);
        let append = || Append::new(id, vec![user(&text)]);
        for _ in 0..sequential {
            store.append(append()).await.unwrap();
        }
        let appends: Vec<Append> = (0..concurrent).map(|_| append()).collect();
        for answer in join_all(appends.into_iter().map(|append| store.append(append))).await {
            answer.unwrap();
        }
        let written = store.session(id).await.unwrap().last_seq;
        assert_eq!(written as usize, sequential + concurrent);
    });
}

#[test]
fn messages_are_appended() {
    match work().as_deref() {
        Some([path, sequential, concurrent]) => {
            append(Path::new(path), sequential.parse().unwrap(), concurrent.parse().unwrap());
        }
        _ => append(&tempfile::tempdir().unwrap().path().join("store.db"), 3, 3),
    }
}

/// How often the work asks the system to make something durable.
fn syncs(sequential: usize, concurrent: usize) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("strace");
    let arguments: Vec<OsString> = vec![
        "-f".into(),
        "-e".into(),
        "trace=fsync,fdatasync".into(),
        "-o".into(),
        log.clone().into(),
    ];
    let store = folder.path().join("store.db");
    let numbers = [sequential.to_string(), concurrent.to_string()];
    let work = [store.to_str().unwrap(), &numbers[0], &numbers[1]];
    run_under("strace", &arguments, "messages_are_appended", &work);
    let calls = std::fs::read_to_string(log).unwrap();
    calls.lines().filter(|line| line.contains("fsync(") || line.contains("fdatasync(")).count()
}

#[test]
fn an_append_needs_one_sync_and_many_at_once_share_it() {
    let without = syncs(0, 0);
    assert!((2..=15).contains(&without), "{without} syncs for a new store and a session");
    assert_eq!(syncs(60, 0) - without, 60, "one sync for each message that is waited for");
    let together = syncs(0, 64) - without;
    assert!((1..=16).contains(&together), "{together} syncs for 64 messages at once");
}

/// Makes the context of a session, so many times.
fn resume(path: &Path, session: SessionId, times: usize, prompt: Option<&str>) {
    block_on(async {
        let store = open(&StoreUrl::Sqlite(path.to_owned())).await.unwrap();
        for _ in 0..times {
            assert!(context(&store, session, prompt).await.contains("total"));
        }
    });
}

#[test]
fn sessions_are_resumed() {
    match work().as_deref() {
        Some([path, session, times, prompt]) => {
            let prompt = Some(prompt.as_str()).filter(|prompt| !prompt.is_empty());
            resume(Path::new(path), session.parse().unwrap(), times.parse().unwrap(), prompt);
        }
        _ => block_on(async {
            let store = TestStore::sqlite().await;
            let id = store.begin().await;
            store.add(id, vec![user("the total is wrong")]).await.unwrap();
            assert!(store.context(id, None).await.contains("the total is wrong"));
        }),
    }
}

/// Instructions of some work, with the start of the process.
fn counted(test: &str, work: &[&str]) -> u64 {
    let arguments: Vec<OsString> =
        vec!["--tool=callgrind".into(), "--callgrind-out-file=/dev/null".into()];
    let output = run_under("valgrind", &arguments, test, work);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let collected = told.lines().find_map(|line| line.split("Collected :").nth(1));
    collected.unwrap().trim().parse().unwrap()
}

/// Instructions of one resume: what more of them cost, so that the start of the process does not count.
fn instructions(path: &Path, session: SessionId, prompt: &str) -> u64 {
    let count = |times: u64| -> u64 {
        let (id, times) = (session.to_string(), times.to_string());
        counted("sessions_are_resumed", &[path.to_str().unwrap(), &id, &times, prompt])
    };
    (count(12) - count(2)) / 10
}

/// Brings into the index what it lacks.
fn index(path: &Path) {
    block_on(async {
        let store = open(&StoreUrl::Sqlite(path.to_owned())).await.unwrap();
        while store.index(u32::MAX).await.unwrap() > 0 {}
    });
}

#[test]
fn messages_are_indexed() {
    match work().as_deref() {
        Some([path]) => index(Path::new(path)),
        _ => block_on(async {
            let store = TestStore::sqlite().await;
            let id = store.begin().await;
            store.add(id, vec![user("the total is wrong")]).await.unwrap();
            assert_eq!(store.index(u32::MAX).await.unwrap(), 0);
        }),
    }
}

/// Words, passages with what they are about and what they cost, and the checksums of it.
#[test]
fn a_message_is_indexed_with_few_instructions() {
    let folder = tempfile::tempdir().unwrap();
    let [less, more] = [500, 1_500].map(|length| {
        let path = folder.path().join(format!("{length}.db"));
        block_on(async {
            let store = open(&StoreUrl::Sqlite(path.clone())).await.unwrap();
            let id = SessionId::generate();
            store.start(id, beginning(), at(0)).await.unwrap();
            let mut texts = Texts::new(1);
            let messages =
                (0..length).map(|n| user(&format!("{} total item{n}", texts.text(400)))).collect();
            store.append(Append::new(id, messages)).await.unwrap();
        });
        counted("messages_are_indexed", &[path.to_str().unwrap()])
    });
    let each = (more - less) / 1_000;
    assert!(each <= INDEXED, "{each} instructions for a message, more than {INDEXED}");
    assert!(each * 2 >= INDEXED, "{each} instructions for a message: set the bound lower");
}

/// Looks for words, so many times.
fn search(path: &Path, words: &str, times: usize) {
    block_on(async {
        let store = open(&StoreUrl::Sqlite(path.to_owned())).await.unwrap();
        for _ in 0..times {
            store.search(&Search::new(words, Filter::default(), 20)).await.unwrap();
        }
    });
}

#[test]
fn words_are_searched() {
    match work().as_deref() {
        Some([path, words, times]) => search(Path::new(path), words, times.parse().unwrap()),
        _ => search(&tempfile::tempdir().unwrap().path().join("store.db"), "total", 1),
    }
}

/// A word is found by halving blocks: to learn that nobody said it costs little, and not much more in a longer session.
#[test]
fn a_word_is_looked_up_with_few_instructions_however_much_was_said() {
    let folder = tempfile::tempdir().unwrap();
    let [less, more] = [2_000, 20_000].map(|length| {
        let (path, _) = filled(folder.path(), length);
        let count = |times: &str| {
            counted("words_are_searched", &[path.to_str().unwrap(), "unheardof", times])
        };
        (count("12") - count("2")) / 10
    });
    assert!(more <= SEARCHED, "{more} instructions, more than {SEARCHED}");
    assert!(more * 2 >= SEARCHED, "{more} instructions: set the bound lower");
    assert!(more * 100 <= less * 300, "{less} instructions, {more} in a session ten times as long");
}

/// What the tests are built as takes more than a release does.
const INDEXED: u64 = 640_000;
const SEARCHED: u64 = 2_900_000;

/// A store with one session of this length, indexed and closed.
fn filled(folder: &Path, length: usize) -> (PathBuf, SessionId) {
    filled_and_later(folder, length, 0)
}

/// The same, with a session of another length that came after it.
fn filled_and_later(folder: &Path, length: usize, later: usize) -> (PathBuf, SessionId) {
    let path = folder.join(format!("{length}-{later}.db"));
    let ids = [SessionId::generate(), SessionId::generate()];
    block_on(async {
        let store = open(&StoreUrl::Sqlite(path.clone())).await.unwrap();
        for (id, length) in ids.into_iter().zip([length, later]) {
            store.start(id, beginning(), at(0)).await.unwrap();
            let mut texts = Texts::new(1);
            let messages: Vec<_> =
                (0..length).map(|n| user(&format!("{} total item{n}", texts.text(400)))).collect();
            for part in messages.chunks(1000) {
                let messages = part.to_vec();
                store.append(Append::new(id, messages)).await.unwrap();
            }
        }
        assert_eq!(store.index(u32::MAX).await.unwrap(), 0);
    });
    (path, ids[0])
}

/// The places of words are found from any message on, whatever was said elsewhere since.
#[test]
fn a_resume_does_not_pay_for_sessions_that_came_later() {
    let folder = tempfile::tempdir().unwrap();
    let [alone, earlier] = [0, 12_000].map(|later| filled_and_later(folder.path(), 2_000, later));
    for prompt in ["what about item17 and item42?", "why did the coupon break the checkout total?"]
    {
        let [less, more] = [&alone, &earlier].map(|(path, id)| instructions(path, *id, prompt));
        assert!(
            more * 100 <= less * 105,
            "prompt {prompt:?}: {less} instructions alone, {more} before a longer session"
        );
    }
}

#[test]
fn the_work_of_a_resume_grows_neither_with_the_session_nor_with_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let [small, middle, large] = [100, 5_000, 20_000].map(|length| filled(folder.path(), length));
    for (prompt, from, most_percent) in [
        ("", &small, 125),
        ("what about item17 and item42?", &small, 200),
        // Words that stand in most messages are looked up to a bound, which 100 messages do not reach.
        ("why did the coupon break the checkout total?", &middle, 115),
    ] {
        let [less, more] = [from, &large].map(|(path, id)| instructions(path, *id, prompt));
        assert!(
            more * 100 <= less * most_percent,
            "prompt {prompt:?}: {less} instructions in the smaller store, {more} in the larger"
        );
    }
}
