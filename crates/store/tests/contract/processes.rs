//! Several processes and threads on one store at once.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use futures::executor::block_on;
use rethread_domain::SessionId;
use rethread_domain::search::Filter;
use rethread_store::{Append, ListFilter, Search, StoreUrl, open};
use rethread_testkit::{TestStore, at, beginning, user};

/// Names the store to a process that works for a test.
const WORK_ON: &str = "RETHREAD_TEST_WORK_ON";
/// Names the session that it shares with others.
const SHARED: &str = "RETHREAD_TEST_SHARED";
const MESSAGES: u32 = 50;

/// Opens a store, new or not, and works on it: writes, reads, searches, indexes.
fn work(path: PathBuf, shared: Option<SessionId>) -> SessionId {
    block_on(async {
        let store = open(&StoreUrl::Sqlite(path)).await.unwrap();
        let id = SessionId::generate();
        store.start(id, beginning(), at(0)).await.unwrap();
        for n in 0..MESSAGES {
            for session in [Some(id), shared].into_iter().flatten() {
                let messages = vec![user(&format!("zebra number {n}"))];
                store.append(Append::new(session, messages)).await.unwrap();
            }
            if n % 10 == 0 {
                // Another may be indexing: that is not waited for.
                drop(store.index(100).await);
                let hits = store.search(&Search::new("zebra", Filter::default(), 5)).await;
                assert!(!hits.unwrap().hits.is_empty());
                let filter = ListFilter { limit: 5, ..ListFilter::default() };
                assert!(!store.list(&filter).await.unwrap().is_empty());
            }
        }
        assert_eq!(store.session(id).await.unwrap().last_seq, MESSAGES);
        id
    })
}

/// By itself a test of one; with the variables set, the work of one process of several.
#[test]
fn one_process_can_work_alone() {
    let shared = std::env::var_os(SHARED).map(|id| id.to_str().unwrap().parse().unwrap());
    if let Some(path) = std::env::var_os(WORK_ON) {
        work(path.into(), shared);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    work(folder.path().join("store.db"), shared);
}

/// This program once more, to do what one of the tests above says.
fn worker(test: &str, path: &Path, shared: Option<SessionId>) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--quiet"]).env(WORK_ON, path).env_remove(SHARED);
    if let Some(id) = shared {
        command.env(SHARED, id.to_string());
    }
    command
}

/// So many processes that work at once, until all are done.
fn run(count: usize, path: &Path, shared: Option<SessionId>) {
    let mut command = worker("processes::one_process_can_work_alone", path, shared);
    command.stdout(Stdio::null());
    let children: Vec<Child> = (0..count).map(|_| command.spawn().unwrap()).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
}

fn expect_all(path: PathBuf, sessions: usize) {
    block_on(async {
        let store = open(&StoreUrl::Sqlite(path)).await.unwrap();
        let health = store.check().await.unwrap();
        assert_eq!((health.damage, health.drift), (vec![], vec![]));
        let filter = ListFilter { limit: 100, ..ListFilter::default() };
        assert_eq!(store.list(&filter).await.unwrap().len(), sessions);
    });
}

#[test]
fn threads_that_open_a_new_store_at_once_all_work() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/store.db");
    let threads: Vec<_> = (0..6)
        .map(|_| {
            let path = path.clone();
            std::thread::spawn(move || work(path, None))
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    expect_all(path, 6);
}

#[test]
fn processes_that_open_a_new_store_at_once_all_work() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/store.db");
    run(6, &path, None);
    expect_all(path, 6);
}

#[test]
fn processes_that_write_to_one_session_leave_no_gap() {
    let store = block_on(TestStore::sqlite());
    let path = store.file().to_owned();
    let id = block_on(store.begin());
    run(4, &path, Some(id));
    let seqs: Vec<u32> = block_on(store.all(id)).iter().map(|message| message.seq).collect();
    assert_eq!(seqs, (1..=4 * MESSAGES).collect::<Vec<u32>>());
    expect_all(path, 5);
}

/// By itself a test of one; with the variables set, a process that claims a session and stays until it is killed.
#[test]
fn one_process_can_claim() {
    let (store, id) = match (std::env::var_os(WORK_ON), std::env::var_os(SHARED)) {
        (Some(path), Some(id)) => {
            (StoreUrl::Sqlite(path.into()), id.to_str().unwrap().parse().unwrap())
        }
        _ => {
            return assert!(block_on(async {
                let store = TestStore::sqlite().await;
                store.claim(store.begin().await).await.unwrap().is_some()
            }));
        }
    };
    let store = block_on(open(&store)).unwrap();
    let _claim = block_on(store.claim(id)).unwrap().unwrap();
    let mut output = std::io::stdout();
    output.write_all(b"held\n").unwrap();
    output.flush().unwrap();
    let mut nothing = String::new();
    std::io::stdin().read_line(&mut nothing).unwrap();
}

#[test]
fn a_claim_ends_with_the_process_that_held_it() {
    let store = block_on(TestStore::sqlite());
    let path = store.file().to_owned();
    let id = block_on(store.begin());
    let mut child = worker("processes::one_process_can_claim", &path, Some(id))
        .arg("--nocapture")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map(Result::unwrap).any(|line| line.ends_with("held")));
    assert!(block_on(store.is_claimed(id)).unwrap());
    assert!(block_on(store.claim(id)).unwrap().is_none());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!block_on(store.is_claimed(id)).unwrap());
    assert!(block_on(store.claim(id)).unwrap().is_some());
}
