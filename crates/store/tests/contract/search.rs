//! Finding what was said: whatever a user types, and whatever the filter.

use jiff::SignedDuration;
use rethread_domain::conversation::TitleFrom;
use rethread_domain::message::NewMessage;
use rethread_domain::search::{Answer, Filter, Hit, Place};
use rethread_domain::session::Beginning;
use rethread_domain::summary::{Author, Summary};
use rethread_domain::{Fact, Role, SessionId, Status};
use rethread_store::{Error, Search};
use rethread_testkit::{TestStore, assistant, at, beginning, user};

use crate::on_each;

async fn search(store: &TestStore, words: &str, filter: &Filter) -> Vec<Hit> {
    store.search(&Search::new(words, filter.clone(), 50)).await.unwrap().hits
}

/// The numbers of the messages that were found, in order.
async fn seqs(store: &TestStore, words: &str) -> Vec<u32> {
    let hits = search(store, words, &Filter { role: Some(Role::User), ..Filter::default() }).await;
    let mut seqs: Vec<u32> = hits.into_iter().filter_map(|hit| seq(&hit)).collect();
    seqs.sort_unstable();
    seqs
}

fn seq(hit: &Hit) -> Option<u32> {
    match hit.place {
        Place::Message { seq, .. } => Some(seq),
        Place::Title | Place::Summary => None,
    }
}

/// Runs a check while nothing is in the index, and once more when all is.
async fn before_and_after_indexing(store: &TestStore, check: impl AsyncFn()) {
    check().await;
    store.index_all().await;
    check().await;
}

#[test]
fn several_words_that_the_newest_message_has_are_found() {
    on_each(async |store| {
        let id = store.begin().await;
        store.add(id, vec![user("login.rs rotates the cookie too early")]).await.unwrap();
        before_and_after_indexing(store, async || {
            for filter in [Filter::default(), Filter { session: Some(id), ..Filter::default() }] {
                let hits = search(store, "cookie login.rs", &filter).await;
                assert_eq!(hits.iter().filter_map(seq).collect::<Vec<_>>(), [1]);
            }
        })
        .await;
    });
}

#[test]
fn what_people_type_is_found() {
    on_each(async |store| {
        let id = store.begin().await;
        let said = [
            "so what's the plan for getUserName() today",
            "the engine is written in C++ and not in C",
            "we moved to better-sqlite3 because it is faster",
            "an unbalanced \" quote stands here",
            "连接数据库失败了",
            "src/checkout/handler.rs:120 panics in snake_case_name",
            "the migrations were running twice in Zürich",
        ];
        store.add(id, said.iter().map(|text| user(text)).collect()).await.unwrap();
        before_and_after_indexing(store, async || {
            for (words, expected) in [
                ("what's the plan", vec![1]),
                ("getUserName", vec![1]),
                ("getuser*", vec![1]),
                ("C++", vec![2]),
                ("better-sqlite3", vec![3]),
                ("sqlite3", vec![3]),
                ("\"unbalanced", vec![4]),
                ("unbalanced \"quote", vec![4]),
                ("数据库", vec![5]),
                ("失败", vec![5]),
                ("库", vec![5]),
                ("数据仓", vec![]),
                ("handler.rs", vec![6]),
                ("snake_case_name", vec![6]),
                ("checkout", vec![6]),
                ("migration", vec![7]),
                ("migrat*", vec![7]),
                ("migration*", vec![7]),
                ("migratio*", vec![7]),
                ("runn*", vec![7]),
                ("zurich", vec![7]),
                ("\"running twice\"", vec![7]),
                ("\"twice running\"", vec![]),
                ("\"the plan\" today", vec![1]),
                ("walrus", vec![]),
                ("walrus*", vec![]),
            ] {
                assert_eq!(seqs(store, words).await, expected, "{words}");
            }
        })
        .await;
    });
}

#[test]
fn nothing_that_is_typed_makes_a_search_fail() {
    on_each(async |store| {
        let id = store.begin().await;
        store.add(id, vec![user("plain words")]).await.unwrap();
        store.index_all().await;
        let long = "word ".repeat(5_000);
        for words in [
            "",
            "\"",
            "\"\"",
            "*",
            "**",
            "a*b*",
            "AND",
            "NOT x",
            "NEAR(a b)",
            "terms:x",
            "(",
            ")",
            "^x",
            "-x",
            "\0",
            "'; drop table message; --",
            "{a b}",
            ":ruser",
            "🙂",
            "\u{202e}",
            "数*",
            &long,
        ] {
            search(store, words, &Filter::default()).await;
        }
        assert!(seqs(store, ":ruser").await.is_empty(), "what the index keeps for itself");
    });
}

#[test]
fn a_hit_shows_where_and_what() {
    on_each(async |store| {
        let id = store.begin().await;
        store.note(id, Fact::Titled { title: "Shop".into(), from: TitleFrom::Person }).await;
        let message = NewMessage { at: at(5), ..assistant("Then the zebra came home.") };
        store.add(id, vec![user("Hello"), message]).await.unwrap();
        before_and_after_indexing(store, async || {
            let hits = search(store, "zebra", &Filter::default()).await;
            let place = Place::Message { seq: 2, role: Role::Assistant, at: at(5) };
            let excerpt = "Then the **zebra** came home.".to_owned();
            let score = hits[0].score;
            let title = Some("Shop".to_owned());
            let answer = Answer::Words;
            let expected = Hit { session: id, title, place, answer, excerpt, score };
            assert_eq!(hits, [expected]);
        })
        .await;
    });
}

#[test]
fn messages_with_every_word_come_before_those_with_some() {
    on_each(async |store| {
        let id = store.begin().await;
        let said = ["the red fox", "a red door", "nothing", "the fox, so red"];
        store.add(id, said.iter().map(|text| user(text)).collect()).await.unwrap();
        store.index_all().await;
        let messages = Filter { role: Some(Role::User), ..Filter::default() };
        let hits = search(store, "red fox", &messages).await;
        let order: Vec<Option<u32>> = hits.iter().map(seq).collect();
        assert_eq!(order.len(), 3);
        assert_eq!(order[2], Some(2));
    });
}

#[test]
fn titles_and_summaries_are_found() {
    on_each(async |store| {
        let id = store.begin().await;
        store
            .note(id, Fact::Titled { title: "The zebra shop".into(), from: TitleFrom::Person })
            .await;
        let summary = Summary {
            by: Author::Rules,
            upto: 0,
            folded: 0,
            text: "We sold a walrus.".into(),
            points: vec![],
        };
        store.note(id, Fact::Summarised { conversation: None, summary }).await;
        let places = async |words| -> Vec<Place> {
            let hits = search(store, words, &Filter::default()).await;
            hits.into_iter().map(|hit| hit.place).collect()
        };
        before_and_after_indexing(store, async || {
            assert_eq!(places("zebra").await, [Place::Title]);
            assert_eq!(places("walrus").await, [Place::Summary]);
        })
        .await;
        store
            .note(id, Fact::Titled { title: "The zebra den".into(), from: TitleFrom::Person })
            .await;
        before_and_after_indexing(store, async || {
            assert_eq!(places("zebra").await, [Place::Title], "once, though the index lags");
            assert_eq!(places("shop").await, [], "no longer its title");
            assert_eq!(places("den").await, [Place::Title]);
        })
        .await;
    });
}

#[test]
fn deleted_sessions_are_not_found_until_they_are_brought_back() {
    on_each(async |store| {
        let id = store.begin().await;
        store.add(id, vec![user("the zebra")]).await.unwrap();
        before_and_after_indexing(store, async || {
            store.note(id, Fact::Deleted).await;
            assert_eq!(search(store, "zebra", &Filter::default()).await, []);
            store.note(id, Fact::Undeleted).await;
            assert!(!search(store, "zebra", &Filter::default()).await.is_empty());
        })
        .await;
    });
}

/// One message that fits every filter, and after it 1,000 others with its words that fit none.
async fn hidden(store: &TestStore, in_one_session: bool) -> SessionId {
    let one = Beginning {
        user: "zoe".into(),
        project: "/zoo".into(),
        kind: "workflow".into(),
        agent: Some("vibe".into()),
        ..beginning()
    };
    let id = store.begin_as(one).await;
    let old = at(0) - SignedDuration::from_hours(24 * 400);
    let wanted = NewMessage { at: old, ..assistant("the needle is here") };
    store.add(id, vec![wanted]).await.unwrap();
    let other = if in_one_session { id } else { store.begin().await };
    for _ in 0..4 {
        let newer = (0..250).map(|n| user(&format!("the needle is there {n}"))).collect();
        store.add(other, newer).await.unwrap();
    }
    store.note(id, Fact::Moved { to: Status::Completed }).await;
    id
}

async fn expect_needle(store: &TestStore, id: SessionId, filter: Filter) {
    before_and_after_indexing(store, async || {
        let hits = search(store, "needle", &filter).await;
        let wanted = hits.iter().any(|hit| {
            let first = matches!(hit.place, Place::Message { seq: 1, role: Role::Assistant, .. });
            hit.session == id && first
        });
        assert!(wanted, "{filter:?}");
    })
    .await;
}

#[test]
fn a_filter_by_session_never_hides_a_match_behind_newer_ones() {
    let name = |name: &str| Some(name.to_owned());
    let none = Filter::default;
    for filter in [
        Filter { user: name("zoe"), ..none() },
        Filter { project: name("/zoo"), ..none() },
        Filter { kind: name("workflow"), ..none() },
        Filter { agent: name("vibe"), ..none() },
        Filter { status: Some(Status::Completed), ..none() },
        Filter { role: Some(Role::Assistant), ..none() },
    ] {
        on_each(async |store| {
            let id = hidden(store, false).await;
            expect_needle(store, id, filter.clone()).await;
        });
    }
    on_each(async |store| {
        let id = hidden(store, false).await;
        expect_needle(store, id, Filter { session: Some(id), ..none() }).await;
    });
}

#[test]
fn a_filter_by_role_or_time_never_hides_a_match_behind_newer_ones() {
    let day = |days: i64| at(0) - SignedDuration::from_hours(24 * days);
    let none = Filter::default;
    for filter in [
        Filter { role: Some(Role::Assistant), ..none() },
        Filter { until: Some(day(300)), ..none() },
        Filter { since: Some(day(401)), until: Some(day(399)), ..none() },
        Filter { since: Some(day(9000)), until: Some(day(300)), ..none() },
        Filter { since: Some(day(500)), role: Some(Role::Assistant), ..none() },
    ] {
        on_each(async |store| {
            let id = hidden(store, true).await;
            expect_needle(store, id, filter.clone()).await;
        });
    }
}

#[test]
fn a_filter_that_leaves_many_sessions_hides_nothing_either() {
    on_each(async |store| {
        let id = hidden(store, false).await;
        for _ in 0..100 {
            let zoo = Beginning { project: "/zoo".into(), ..beginning() };
            let other = store.begin_as(zoo).await;
            store.add(other, vec![user("nothing of interest")]).await.unwrap();
        }
        let zoo = Filter { project: Some("/zoo".into()), ..Filter::default() };
        expect_needle(store, id, zoo).await;
    });
}

#[test]
fn a_phrase_is_found_behind_newer_messages_with_its_words() {
    on_each(async |store| {
        let id = store.begin().await;
        store.add(id, vec![user("a blue whale sings")]).await.unwrap();
        let newer = (0..1000).map(|n| user(&format!("the whale is blue {n}"))).collect();
        store.add(id, newer).await.unwrap();
        before_and_after_indexing(store, async || {
            assert_eq!(seqs(store, "\"blue whale\"").await, [1]);
        })
        .await;
    });
}

#[test]
fn filters_let_through_only_what_fits() {
    on_each(async |store| {
        let id = hidden(store, false).await;
        let everywhere = search(store, "needle", &Filter::default()).await;
        assert_eq!(everywhere.len(), 50);
        before_and_after_indexing(store, async || {
            let zoe = Filter { user: Some("zoe".into()), ..Filter::default() };
            let hits = search(store, "needle", &zoe).await;
            assert!(!hits.is_empty() && hits.iter().all(|hit| hit.session == id), "{hits:?}");
            let since = Filter { since: Some(at(-1)), ..Filter::default() };
            let hits = search(store, "needle", &since).await;
            assert!(!hits.is_empty() && hits.iter().all(|hit| hit.session != id), "{hits:?}");
            let nobody = Filter { user: Some("eve".into()), ..Filter::default() };
            assert_eq!(search(store, "needle", &nobody).await, []);
        })
        .await;
        let unknown = Filter { session: Some(SessionId::generate()), ..Filter::default() };
        let missing = store.search(&Search::new("needle", unknown.clone(), 5)).await;
        assert!(matches!(missing, Err(Error::NotFound(_))));
    });
}

#[test]
fn what_a_fork_shares_is_found_once_whatever_the_filter() {
    on_each(async |store| {
        let source = store.begin().await;
        store.add(source, vec![user("zebra one"), assistant("zebra two")]).await.unwrap();
        store.fork(source, 2, SessionId::generate(), at(100)).await.unwrap();
        store.add(source, vec![user("zebra three")]).await.unwrap();
        let whose = Filter { user: Some(beginning().user), ..Filter::default() };
        before_and_after_indexing(store, async || {
            for filter in [&Filter::default(), &whose] {
                let hits = search(store, "zebra", filter).await;
                let mut found: Vec<u32> = hits.iter().filter_map(seq).collect();
                found.sort_unstable();
                assert_eq!(found, [1, 2, 3], "{filter:?}");
            }
        })
        .await;
    });
}

#[test]
fn the_bounds_of_time_belong_to_what_is_found() {
    on_each(async |store| {
        let id = store.begin().await;
        store.add(id, vec![NewMessage { at: at(5), ..user("the zebra") }]).await.unwrap();
        let between = async |since, until| {
            let filter =
                Filter { since: Some(at(since)), until: Some(at(until)), ..Filter::default() };
            search(store, "zebra", &filter).await.len()
        };
        before_and_after_indexing(store, async || {
            assert_eq!(between(5, 5).await, 1);
            assert_eq!(between(0, 4).await, 0);
            assert_eq!(between(6, 9).await, 0);
            assert_eq!(between(9, 1).await, 0);
        })
        .await;
    });
}

#[test]
fn a_word_deep_inside_a_long_text_is_found() {
    on_each(async |store| {
        let id = store.begin().await;
        let padding = "plain words all along ".repeat(4_000);
        store.add(id, vec![user(&format!("{padding} the zebra {padding}"))]).await.unwrap();
        before_and_after_indexing(store, async || {
            let hits = search(store, "zebra", &Filter::default()).await;
            assert_eq!(hits.len(), 1);
            assert!(hits[0].excerpt.contains("**zebra**"), "{}", hits[0].excerpt);
        })
        .await;
    });
}
