//! A log file that is deleted or emptied under a running program: nothing is acknowledged that would be gone.

use rethread_store::{Error, StoreUrl, open};
use rethread_testkit::{TestStore, user};

use crate::on_sqlite;

fn log(store: &TestStore) -> std::path::PathBuf {
    let mut name = store.file().as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// Whatever was acknowledged before or after the log went is there when the store is opened again.
#[test]
fn what_was_acknowledged_outlives_a_log_that_is_deleted() {
    on_sqlite(async |store| {
        let id = store.begin().await;
        let again = store.open_again().await;
        for n in 0..3 {
            store.add(id, vec![user(&format!("before {n}"))]).await.unwrap();
        }
        std::fs::remove_file(log(store)).unwrap();
        let mut acknowledged = 3;
        for _ in 0..5 {
            match store.add(id, vec![user("after")]).await {
                Ok(_) => acknowledged += 1,
                Err(Error::CannotOpen(why)) => {
                    assert!(why.contains("-wal: it was deleted"), "{why}");
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(acknowledged, 3);
        assert!(matches!(store.session(id).await, Err(Error::CannotOpen(_))));
        drop(again);
        let copy = store.beside("copy.db");
        std::fs::copy(store.file(), &copy).unwrap();
        let copy = open(&StoreUrl::Sqlite(copy)).await.unwrap();
        assert_eq!(copy.session(id).await.unwrap().last_seq, 3);
        assert_eq!(copy.check().await.unwrap().damage, Vec::<String>::new());
    });
}

#[test]
fn nothing_is_acknowledged_into_a_log_that_was_emptied_and_the_store_is_not_overwritten() {
    on_sqlite(async |store| {
        let id = store.begin().await;
        store.compact().await.unwrap();
        store.add(id, vec![user("lost with the log")]).await.unwrap();
        std::fs::OpenOptions::new().write(true).open(log(store)).unwrap().set_len(0).unwrap();
        for _ in 0..3 {
            let refused = store.add(id, vec![user("after")]).await;
            let is_told = matches!(&refused, Err(Error::CannotOpen(why)) if why.contains("-wal: it was emptied"));
            assert!(is_told, "{refused:?}");
        }
        // A process of its own, since this one still has the hollow log open.
        let copy = store.beside("copy.db");
        std::fs::copy(store.file(), &copy).unwrap();
        let copy = open(&StoreUrl::Sqlite(copy)).await.unwrap();
        assert_eq!(copy.session(id).await.unwrap().last_seq, 0);
        assert_eq!(copy.check().await.unwrap().damage, Vec::<String>::new());
    });
}

#[test]
fn nothing_is_acknowledged_into_a_log_that_was_cut_short_and_the_store_is_not_overwritten() {
    on_sqlite(async |store| {
        let id = store.begin().await;
        store.compact().await.unwrap();
        for n in 0..10 {
            store.add(id, vec![user(&format!("before {n}"))]).await.unwrap();
        }
        let whole = std::fs::metadata(log(store)).unwrap().len();
        for part in [2, 4] {
            let file = std::fs::OpenOptions::new().write(true).open(log(store)).unwrap();
            file.set_len(whole / part).unwrap();
            let refused = store.add(id, vec![user("after")]).await;
            let is_told =
                matches!(&refused, Err(Error::CannotOpen(why)) if why.contains("cut short"));
            assert!(is_told, "{refused:?}");
        }
        let copy = store.beside("copy.db");
        std::fs::copy(store.file(), &copy).unwrap();
        let copy = open(&StoreUrl::Sqlite(copy)).await.unwrap();
        assert_eq!(copy.check().await.unwrap().damage, Vec::<String>::new());
    });
}

#[test]
fn a_log_that_is_replaced_is_noticed() {
    on_sqlite(async |store| {
        let id = store.begin().await;
        store.add(id, vec![user("before")]).await.unwrap();
        let aside = store.beside("aside");
        std::fs::rename(log(store), &aside).unwrap();
        std::fs::write(log(store), "").unwrap();
        let refused = store.add(id, vec![user("after")]).await;
        assert!(matches!(refused, Err(Error::CannotOpen(_))), "{refused:?}");
        std::fs::rename(&aside, log(store)).unwrap();
        store.add(id, vec![user("after")]).await.unwrap();
        assert_eq!(store.texts(id).await, ["before", "after"]);
        store.expect_sound().await;
    });
}
