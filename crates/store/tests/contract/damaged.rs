//! A record that is damaged is named, shown as damaged, mended or set aside; everything else stays as it is.

use rethread_domain::feed::Kind;
use rethread_domain::message::{Extras, NewMessage, Usage};
use rethread_domain::search::Filter;
use rethread_domain::{Fact, SessionId};
use rethread_store::{Import, Record, Repaired, Search};
use rethread_testkit::{TestStore, Texts, assistant, at, tool, user};

use crate::upkeep::whole;
use crate::{on_sqlite, raw};

const ALTERED: &str = "I owe you a million";

/// Changes a row without anybody noticing: its checksum stays what it was.
fn rot(store: &TestStore, table: &str, change: &str, which: &str) {
    let raw = raw(store);
    let select = format!("select sum from {table} where {which}");
    let sum: i64 = raw.query_row(&select, [], |row| row.get(0)).unwrap();
    assert_eq!(raw.execute(&format!("update {table} set {change} where {which}"), []).unwrap(), 1);
    raw.execute(&format!("update {table} set sum = ?1 where {which}"), [sum]).unwrap();
}

async fn filled(store: &TestStore) -> SessionId {
    let id = store.begin().await;
    let long = Texts::new(6).text(40_000);
    let messages = vec![
        user("The first"),
        assistant("The second"),
        user("The third"),
        tool(&long),
        user("End"),
    ];
    store.add(id, messages).await.unwrap();
    store.index_all().await;
    id
}

fn record(kind: &str, id: SessionId, number: Option<u64>) -> Record {
    Record { kind: kind.to_owned(), of: Some(id.to_string()), number }
}

async fn records(store: &TestStore) -> Vec<Record> {
    let health = store.check().await.unwrap();
    assert_eq!((health.damage, health.drift), (vec![], vec![]));
    health.records
}

#[test]
fn an_altered_message_is_named_marked_and_brought_back_from_a_backup() {
    on_sqlite(async |store| {
        let id = filled(store).await;
        let before = whole(store, id).await;
        let backup = store.beside("backup.db");
        store.backup(&backup).await.unwrap();
        rot(store, "message", &format!("body = '{ALTERED}'"), "id & 4294967295 = 2");
        assert_eq!(records(store).await, [record("message", id, Some(2))]);
        let fork = store.fork(id, 3, SessionId::generate(), at(60)).await.unwrap().id;
        for session in [id, fork] {
            let texts = store.texts(session).await;
            assert!(texts[1].contains("Message 2 is damaged"), "{texts:?}");
            assert_eq!([&texts[0], &texts[2]], ["The first", "The third"]);
            let context = store.context(session, Some("what was the second?")).await;
            assert!(!context.contains(ALTERED) && context.contains("Message 2 is damaged"));
            assert!(context.contains("The third"), "{context}");
        }
        assert!(store.messages(id, rethread_store::Span::newest(9)).await.unwrap()[3].is_damaged());
        store.erase(fork).await.unwrap();
        let repaired = store.repair(Some(&backup), at(90)).await.unwrap();
        assert_eq!(repaired.restored, [record("message", id, Some(2))]);
        assert_eq!((repaired.rebuilt, repaired.set_aside), (vec![], vec![]));
        assert_eq!(whole(store, id).await, before);
        store.expect_sound().await;
    });
}

#[test]
fn a_search_that_comes_upon_a_damaged_message_says_so() {
    on_sqlite(async |store| {
        let id = filled(store).await;
        // Not what the random text has too.
        store.add(id, vec![assistant("A heliotrope"), user("A chrysalis")]).await.unwrap();
        store.index_all().await;
        let search = async |words: &str| {
            let found = store.search(&Search::new(words, Filter::default(), 9)).await.unwrap();
            (found.hits.len(), found.damaged)
        };
        assert_eq!(search("heliotrope").await, (1, 0));
        rot(store, "message", "body = 'A hippogriff'", "id & 4294967295 = 6");
        assert_eq!(search("heliotrope").await, (0, 1));
        assert_eq!(search("hippogriff").await, (0, 0));
        assert_eq!(search("chrysalis").await, (1, 0));
        // What was set aside is no longer looked at.
        store.repair(None, at(90)).await.unwrap();
        store.index_all().await;
        assert_eq!(search("heliotrope").await, (0, 0));
        assert_eq!(store.texts(id).await.len(), 7);
    });
}

#[test]
fn what_no_backup_has_is_set_aside_and_can_be_brought_back_later() {
    on_sqlite(async |store| {
        let id = filled(store).await;
        let before = whole(store, id).await;
        let backup = store.beside("backup.db");
        store.backup(&backup).await.unwrap();
        rot(store, "message", &format!("body = '{ALTERED}'"), "id & 4294967295 = 2");
        let repaired = store.repair(None, at(90)).await.unwrap();
        assert_eq!(repaired.set_aside, [record("message", id, Some(2))]);
        store.expect_sound().await;
        let texts = store.texts(id).await;
        assert_eq!(texts[1], "[Message 2 was damaged in the store and has been set aside.]");
        assert_eq!(texts.len(), 5);
        store.add(id, vec![user("goes on")]).await.unwrap();
        store.expect_sound().await;
        assert_eq!(store.repair(None, at(91)).await.unwrap(), Repaired::default());
        store.repair(Some(&backup), at(92)).await.unwrap();
        assert_eq!(whole(store, id).await.messages()[..5], *before.messages());
        store.expect_sound().await;
        // What is purged is not kept anywhere.
        rot(store, "message", &format!("body = '{ALTERED}'"), "id & 4294967295 = 2");
        store.repair(None, at(93)).await.unwrap();
        store.purge(id, 2, at(94)).await.unwrap();
        store.compact().await.unwrap();
        drop(std::fs::remove_file(&backup));
        assert!(!store.holds(ALTERED));
        store.expect_sound().await;
    });
}

#[test]
fn a_text_that_is_not_utf_8_does_not_take_its_session_along() {
    on_sqlite(async |store| {
        let id = filled(store).await;
        // As an older version may have left it: its checksum is right.
        for change in ["body = cast(x'ff41' as text)", "extras = '{broken'", "role = 77"] {
            let set = format!("update message set {change} where id & 4294967295 = 2");
            raw(store).execute(&set, []).unwrap();
            assert_eq!(records(store).await, [record("message", id, Some(2))], "{change}");
            let texts = store.texts(id).await;
            assert!(texts[1].contains("Message 2 is damaged"), "{texts:?}");
            assert_eq!((texts[0].as_str(), texts.len()), ("The first", 5));
            assert!(store.context(id, None).await.contains("The first"));
            store.purge(id, 3, at(80)).await.unwrap();
            assert_eq!(store.texts(id).await[2], "");
            store.repair(None, at(81)).await.unwrap();
            store.expect_sound().await;
            assert_eq!(store.texts(id).await.len(), 5);
            raw(store).execute("update message set set_aside = null, body = 'x', sum = null where set_aside > 0", []).unwrap();
            store.rebuild().await.unwrap();
        }
        raw(store)
            .execute("update message set body = cast(x'ff' as text) where id & 4294967295 = 1", [])
            .unwrap();
        store.purge(id, 1, at(82)).await.unwrap();
        assert_eq!(store.texts(id).await[1], "x");
    });
}

#[test]
fn rows_that_sum_up_are_as_the_log_says_where_they_are_damaged() {
    on_sqlite(async |store| {
        let id = filled(store).await;
        store.append(crate::talks::beginning(id, "main", "go")).await.unwrap();
        store.append(crate::talks::ending(id, "main", "gone")).await.unwrap();
        let usage = Some(Usage { input_tokens: 5, output_tokens: 7, cost_usd: None });
        let extras = Extras { agent: Some("codex".into()), usage, ..Extras::default() };
        store.add(id, vec![NewMessage { extras, ..assistant("A run") }]).await.unwrap();
        store.index_all().await;
        let before = whole(store, id).await;
        let held = store.watermark(id, "main", "codex").await.unwrap();
        for (table, change) in [
            ("session", "title = 'other'"),
            ("session", "last_seq = 2"),
            ("session", "user = 'eve'"),
            ("session", "project = cast(x'ff' as text)"),
            ("conversation", "summary = 'broken'"),
            ("conversation", "messages = 1"),
            ("agent_use", "runs = 99"),
            ("holding", "what = replace(what, 'codex', 'codey')"),
        ] {
            rot(store, table, change, "1");
            let what = format!("{table}: {change}");
            let found = records(store).await;
            assert_eq!((found.len(), found[0].kind.as_str()), (1, table), "{what}");
            assert_eq!(whole(store, id).await, before, "{what}");
            assert_eq!(store.watermark(id, "main", "codex").await.unwrap(), held, "{what}");
            let repaired = store.repair(None, at(90)).await.unwrap();
            assert_eq!(repaired.rebuilt.len(), 1, "{what}");
            assert_eq!(whole(store, id).await, before, "{what}: repaired");
            store.expect_sound().await;
        }
    });
}

#[test]
fn a_damaged_fact_and_a_damaged_long_text_are_contained() {
    on_sqlite(async |store| {
        let id = filled(store).await;
        store
            .note(
                id,
                Fact::Titled {
                    title: "Mine".into(),
                    from: rethread_domain::conversation::TitleFrom::Person,
                },
            )
            .await;
        let before = whole(store, id).await;
        let backup = store.beside("backup.db");
        store.backup(&backup).await.unwrap();
        let n = u64::from(before.session().facts);
        rot(store, "fact", "what = replace(what, 'Mine', 'Thine')", &format!("n = {n}"));
        assert_eq!(records(store).await, [record("fact", id, Some(n))]);
        assert_eq!(store.session(id).await.unwrap(), *before.session());
        assert!(!format!("{:?}", store.facts(id).await.unwrap()).contains("Thine"));
        rot(store, "blob", "bytes = bytes - 1", "1");
        assert!(store.texts(id).await[3].contains("Message 4 is damaged"));
        raw(store).execute("update blob set bytes = bytes + 1", []).unwrap();
        raw(store).execute("update blob set data = zeroblob(40)", []).unwrap();
        assert!(store.texts(id).await[3].contains("Message 4 is damaged"));
        let repaired = store.repair(Some(&backup), at(90)).await.unwrap();
        assert_eq!(repaired.restored.len(), 2, "{repaired:?}");
        assert_eq!(whole(store, id).await, before);
        store.expect_sound().await;
        // The beginning of a log, and the names of conversations, are known to the rows as well.
        for n in [1, 2] {
            rot(store, "fact", "what = '{}'", &format!("n = {n}"));
            store.texts(id).await;
            let repaired = store.repair(None, at(91)).await.unwrap();
            assert_eq!(repaired.rebuilt, [record("fact", id, Some(n))]);
            store.expect_sound().await;
            assert_eq!(store.texts(id).await.len(), 5);
        }
    });
}

#[test]
fn a_line_of_the_feed_that_is_damaged_or_missing_is_told_to_everybody_who_follows() {
    on_sqlite(async |store| {
        let id = filled(store).await;
        for text in ["one", "two", "three"] {
            store.add(id, vec![user(text)]).await.unwrap();
        }
        let whole = store.feed(0, None, 100).await.unwrap().events;
        let last = whole.last().unwrap().no;
        rot(store, "feed", "user = 'somebody else'", &format!("no = {}", last - 2));
        raw(store).execute("delete from feed where no = ?1", [last - 1]).unwrap();
        let owner = whole[0].user.clone();
        for user in [None, Some(owner.as_str()), Some("a stranger")] {
            let page = store.feed(0, user, 100).await.unwrap();
            let damaged = page.events.iter().filter(|event| event.kind == Kind::Damaged);
            let numbers: Vec<u64> = damaged.map(|event| event.no).collect();
            assert_eq!(numbers, [last - 2, last - 1], "{user:?}");
            assert!(user == Some("a stranger") || page.events.len() == whole.len());
            assert_eq!(page.upto, last);
            // Whoever has read up to there is given what comes next, and nothing twice.
            let rest = store.feed(last - 2, user, 100).await.unwrap().events;
            assert_eq!(rest[0].kind, Kind::Damaged);
        }
        // A repair does not make another event of it.
        store.repair(None, at(1)).await.unwrap();
        let page = store.feed(0, Some("a stranger"), 100).await.unwrap();
        assert_eq!(page.events.iter().filter(|one| one.kind == Kind::Damaged).count(), 2);
    });
}

#[test]
fn a_message_that_is_missing_is_told_and_brought_back() {
    on_sqlite(async |store| {
        let id = filled(store).await;
        let before = whole(store, id).await;
        let backup = store.beside("backup.db");
        store.backup(&backup).await.unwrap();
        raw(store).execute("delete from message where id & 4294967295 = 2", []).unwrap();
        assert!(store.texts(id).await[1].contains("Message 2 is missing"));
        assert_eq!(store.check().await.unwrap().records, [record("message", id, Some(2))]);
        store.repair(Some(&backup), at(90)).await.unwrap();
        assert_eq!(whole(store, id).await, before);
        store.expect_sound().await;
    });
}

#[test]
fn what_says_how_far_an_agent_s_file_was_read_counts_only_while_it_is_whole() {
    on_sqlite(async |store| {
        let id = filled(store).await;
        let import = || Import {
            source: "/home/anna/.claude/projects/shop/one.jsonl".to_owned(),
            native: String::new(),
            agent: "claude".to_owned(),
            session: Some(id),
            stamp: "1".to_owned(),
            cursor: None,
            seq: 5,
            gone_at: None,
        };
        for change in [
            "agent = 'codex'",
            "session = replace(session, '-', '_')",
            "source = source || 'x'",
            "seq = 4",
            "gone_at = 1",
            "cursor = '{}'",
        ] {
            store.set_import(import()).await.unwrap();
            assert_eq!(store.imports().await.unwrap(), [import()], "{change}");
            rot(store, "imported", change, "1");
            let found = records(store).await;
            assert_eq!((found.len(), found[0].kind.as_str()), (1, "imported"), "{change}");
            // The file is read again.
            assert_eq!(store.imports().await.unwrap(), [], "{change}");
            let repaired = store.repair(None, at(90)).await.unwrap();
            assert_eq!(repaired.rebuilt.len(), 1, "{change}");
            store.expect_sound().await;
        }
        // What was read again is whole, without a repair.
        store.set_import(import()).await.unwrap();
        rot(store, "imported", "agent = 'codex'", "1");
        store.set_import(import()).await.unwrap();
        assert_eq!(store.imports().await.unwrap(), [import()]);
        store.expect_sound().await;
    });
}
