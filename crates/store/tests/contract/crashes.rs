//! A process that dies in the middle of a turn leaves the turn under way or ended with its messages.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use futures::executor::block_on;
use rethread_domain::SessionId;
use rethread_store::{StoreUrl, open};
use rethread_testkit::{TestStore, at};

use crate::feed::expect_whole;
use crate::talks::{beginning, ending, text};

/// Names store and session to the process that dies.
const TALK_IN: &str = "RETHREAD_TEST_TALK_IN";
const TURNS: usize = 2;

async fn talk(url: &StoreUrl, id: SessionId) {
    let store = open(url).await.unwrap();
    for turn in 0..TURNS {
        store.append(beginning(id, "main", &format!("request {turn}"))).await.unwrap();
        store.stream(id, "main", vec![(at(2), text("ans")), (at(3), text("wer"))]).await.unwrap();
        store.append(ending(id, "main", &format!("answer {turn}"))).await.unwrap();
    }
}

/// By itself a test of one; with the variable set, the work of a process that dies on the way.
#[test]
fn one_process_can_talk() {
    match std::env::var_os(TALK_IN) {
        Some(names) => {
            let names = names.into_string().unwrap();
            let (id, path) = names.split_once(' ').unwrap();
            block_on(talk(&StoreUrl::Sqlite(path.into()), id.parse().unwrap()));
        }
        None => block_on(async {
            let store = TestStore::sqlite().await;
            let id = store.begin().await;
            talk(store.url(), id).await;
            expect_old_or_new(&store, id).await;
            assert_eq!(store.all(id).await.len(), 2 * TURNS);
        }),
    }
}

/// Every request that is there has its answer, or its turn is under way with all that was streamed or nothing.
async fn expect_old_or_new(store: &TestStore, id: SessionId) {
    store.expect_sound().await;
    expect_whole(&**store).await;
    let texts = store.texts(id).await;
    let said = (0..TURNS).flat_map(|turn| [format!("request {turn}"), format!("answer {turn}")]);
    assert_eq!(texts, said.take(texts.len()).collect::<Vec<_>>());
    let count = u32::try_from(texts.len()).unwrap();
    let begun = store.begun(id, "main").await.unwrap();
    let held = store.watermark(id, "main", "codex").await.unwrap();
    let answered = count - count % 2;
    assert_eq!(held.map_or(0, |held| held.upto), answered);
    assert_eq!(begun.is_some(), count > answered);
    if let Some(begun) = begun {
        assert_eq!(begun.what.request, count);
        assert!([0, 2].contains(&begun.updates.len()), "{:?}", begun.updates);
    }
}

/// Lets a process die at the `time`-th time that it comes to a point; gives whether it did.
fn die(store: &TestStore, id: SessionId, point: &str) -> bool {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["crashes::one_process_can_talk", "--exact", "--quiet"])
        .env(TALK_IN, format!("{id} {}", store.file().display()))
        .env("CRASH_AT", point)
        .stdout(Stdio::null())
        .output()
        .unwrap();
    let died = output.status.signal().is_some();
    assert!(died || output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    died
}

#[test]
fn a_crash_leaves_a_turn_under_way_or_ended_never_half() {
    for (point, times) in [
        ("batch.begun", 3 * TURNS),
        ("append.inserted", 2 * TURNS),
        ("append.counted", 2 * TURNS),
        ("batch.applied", 3 * TURNS),
        ("batch.committed", 3 * TURNS),
    ] {
        for time in 1..=times {
            block_on(async {
                let store = TestStore::sqlite().await;
                let id = store.begin().await;
                assert!(die(&store, id, &format!("{point}:{time}")), "{point}:{time}");
                expect_old_or_new(&store, id).await;
            });
        }
    }
}
