//! Passages: a part of the index, which says nothing that is hidden, goes with its message, and can be made anew.

use rethread_domain::context::Limits;
use rethread_domain::message::{NewMessage, Role, Secret};
use rethread_domain::passage::{Outline, fingerprint};
use rethread_domain::rank::part_of;
use rethread_domain::{SessionId, terms};
use rethread_store::RecallRequest;
use rethread_testkit::{TestStore, at, user};

use crate::{on_each, on_sqlite, raw};

/// A long text with something in the middle of it.
fn long(middle: &str) -> String {
    let filling = |what: &str| format!("{what} went on for a while without news.\n\n").repeat(40);
    format!("{}{middle}\n\n{}", filling("The morning"), filling("The evening"))
}

/// What is found for a prompt, by the texts of the passages.
async fn found(store: &TestStore, session: SessionId, prompt: &str) -> Vec<String> {
    let limits = Limits { tokens: 300, ..Limits::default() };
    let request = RecallRequest { session, limits, prompt: Some(prompt.to_owned()), within: None };
    let mut found = Vec::new();
    for related in store.recall(&request).await.unwrap().related {
        for one in &related.passages {
            let part = part_of(&related.message.body, one.from, one.to);
            found.push(part.unwrap().to_owned());
        }
    }
    found
}

fn kept(store: &TestStore) -> Vec<(i64, Vec<u8>)> {
    if let Some(database) = store.database() {
        let rows = database.ask("select id, encode(data, 'hex') from rethread.passage order by id");
        let hex = |digits: &str| u8::from_str_radix(digits, 16).unwrap();
        let row = |row: &str| {
            let (id, data) = row.split_once('|').unwrap();
            let bytes = (0..data.len() / 2).map(|n| hex(&data[2 * n..2 * n + 2]));
            (id.parse().unwrap(), bytes.collect())
        };
        return rows.lines().map(row).collect();
    }
    let raw = raw(store);
    let mut statement = raw.prepare("select id, data from passage order by id").unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

#[test]
fn a_passage_out_of_the_middle_is_found_before_and_after_it_is_indexed() {
    on_each(async |store| {
        let id = store.begin().await;
        store
            .add(id, vec![user(&long("The port of the staging database is 5433."))])
            .await
            .unwrap();
        for _ in 0..2 {
            let found = found(store, id, "which port has the staging database?").await;
            assert!(found.iter().any(|part| part.contains("is 5433.")), "{found:?}");
            assert!(found.iter().all(|part| part.len() < 1_000), "{found:?}");
            store.index_all().await;
        }
        store.expect_sound().await;
    });
}

#[test]
fn forks_share_them_and_a_purge_takes_them_along() {
    on_each(async |store| {
        let id = store.begin().await;
        store.add(id, vec![user(&long("The port is 5433.")), user("Thanks.")]).await.unwrap();
        store.index_all().await;
        let fork = store.fork(id, 2, SessionId::generate(), at(100)).await.unwrap().id;
        assert_eq!(kept(store).len(), 2);
        let of_fork = found(store, fork, "which port?").await;
        assert!(of_fork.iter().any(|part| part.contains("5433")), "{of_fork:?}");
        store.purge(id, 1, at(5)).await.unwrap();
        assert_eq!(kept(store).len(), 1);
        for session in [id, fork] {
            let found = found(store, session, "which port?").await;
            assert!(!found.iter().any(|part| part.contains("5433")), "{found:?}");
        }
        store.expect_sound().await;
    });
}

#[test]
fn what_is_marked_as_a_secret_is_in_none() {
    on_each(async |store| {
        let id = store.begin().await;
        let text = "The word for the vault is xyzzyplugh, keep it.";
        let from = text.find("xyzzyplugh").unwrap();
        let mut message: NewMessage = user(text);
        let what = "a password".to_owned();
        message.extras.secrets = vec![Secret { from, to: from + "xyzzyplugh".len(), what }];
        store.add(id, vec![message]).await.unwrap();
        store.index_all().await;
        let outline = Outline::decode(&kept(store)[0].1).unwrap();
        assert!(outline.has(fingerprint("vault")));
        for term in terms::all("xyzzyplugh") {
            assert!(!outline.has(fingerprint(&term)));
        }
        assert!(outline.is_masked);
    });
}

#[test]
fn one_that_is_damaged_or_missing_is_noticed_and_made_anew() {
    on_sqlite(async |store| {
        let id = store.begin().await;
        store.add(id, vec![user(&long("The port is 5433.")), user("Thanks.")]).await.unwrap();
        store.index_all().await;
        let whole = kept(store);
        let other = Outline::of(Role::User, at(0), "Something else.", None).encode();
        for harm in ["update passage set data = ?1", "delete from passage where ?1 is not null"] {
            let raw = raw(store);
            raw.execute("drop trigger if exists passage_sum_kept", []).unwrap();
            raw.execute(harm, [&other]).unwrap();
            let found = found(store, id, "which port?").await;
            assert!(found.iter().any(|part| part.contains("5433")), "{found:?}");
            let health = store.check().await.unwrap();
            assert!(!health.records.is_empty() || !health.drift.is_empty(), "{harm}");
            store.rebuild().await.unwrap();
            assert_eq!(kept(store), whole, "{harm}");
        }
    });
}
