//! How much work a search is, that it says where it was cut short, and that it can be gone on with.

use std::collections::BTreeSet;

use rethread_domain::Role;
use rethread_domain::search::{Filter, Found, Place};
use rethread_store::{Search, Stop};
use rethread_testkit::{TestStore, user};

use crate::on_each;

async fn search(store: &TestStore, words: &str) -> Found {
    store.search(&Search::new(words, Filter::default(), 50)).await.unwrap()
}

fn seqs(found: &Found) -> Vec<u32> {
    let seq = |place: &Place| match place {
        Place::Message { seq, .. } => Some(*seq),
        Place::Title | Place::Summary => None,
    };
    found.hits.iter().filter_map(|hit| seq(&hit.place)).collect()
}

async fn say(store: &TestStore, texts: impl Iterator<Item = String>) {
    let id = store.begin().await;
    let messages: Vec<_> = texts.map(|text| user(&text)).collect();
    for part in messages.chunks(500) {
        store.add(id, part.to_vec()).await.unwrap();
    }
}

#[test]
fn a_beginning_finds_what_the_whole_finds() {
    on_each(async |store| {
        let said = [
            "the staging server",
            "it ran twice with better-sqlite3",
            "see snake_case_name in src/main.rs",
        ];
        say(store, said.map(str::to_owned).into_iter()).await;
        for _ in 0..2 {
            for (whole, expected) in [
                ("staging", 1),
                ("ran", 2),
                ("better-sqlite3", 2),
                ("snake_case_name", 3),
                ("src/main.rs", 3),
            ] {
                let ends =
                    (2..=whole.len()).filter(|end| !whole[..*end].ends_with(['-', '/', '.']));
                for typed in
                    ends.flat_map(|end| [whole[..end].to_owned(), format!("{}*", &whole[..end])])
                {
                    let found = search(store, &typed).await;
                    assert!(seqs(&found).contains(&expected), "{typed}: {found:?}");
                }
            }
            store.index_all().await;
        }
    });
}

/// Those that have the words come before those that only begin with the last one.
#[test]
fn whole_words_come_first() {
    on_each(async |store| {
        say(store, ["a stag in the wood", "the staging server"].map(str::to_owned).into_iter())
            .await;
        store.index_all().await;
        assert_eq!(seqs(&search(store, "stag").await), [1, 2]);
    });
}

#[test]
fn a_search_ends_when_it_is_too_much_work_and_can_be_gone_on_with() {
    on_each(async |store| {
        let newer = (0..2_000).map(|n| format!("the whale is blue {n}"));
        say(store, std::iter::once("a blue whale sings".to_owned()).chain(newer)).await;
        let messages = Filter { role: Some(Role::User), ..Filter::default() };
        for is_indexed in [false, true] {
            if is_indexed {
                store.index_all().await;
            }
            let most = 40_000;
            let mut next = None;
            let mut pages = 0;
            loop {
                let search = Search {
                    work: most,
                    after: next,
                    ..Search::new("\"blue whale\"", messages.clone(), 5)
                };
                let found = store.search(&search).await.unwrap();
                assert!(found.work < 2 * most, "{} steps", found.work);
                pages += 1;
                if !found.hits.is_empty() {
                    assert_eq!(seqs(&found), [1]);
                    break;
                }
                assert!(found.is_partial, "page {pages} has nothing and does not say why");
                next = found.next;
                assert!(next.is_some() && pages < 100, "it does not go on after page {pages}");
            }
            assert!(pages > 1, "nothing was cut short");
            let whole = search(store, "\"blue whale\"").await;
            assert_eq!((seqs(&whole), whole.is_partial), (vec![1], false));
        }
    });
}

#[test]
fn many_beginnings_cost_no_more_than_each_by_itself() {
    const FAMILIES: [&str; 10] =
        ["alp", "bet", "gam", "del", "eps", "zet", "eta", "the", "iot", "kap"];
    on_each(async |store| {
        // Each message has one of them, so that no message has all.
        say(store, (0..2_000).map(|n| format!("{}x{n} said", FAMILIES[n % 10]))).await;
        store.index_all().await;
        let mut each = 0;
        for family in FAMILIES {
            each += search(store, &format!("{family}x*")).await.work;
        }
        let words = FAMILIES.map(|family| format!("{family}x*")).join(" ");
        let all = search(store, &words).await;
        assert!(!all.is_partial && all.hits.len() == 50, "{}", all.hits.len());
        assert!(all.work <= 3 * each, "{} steps for all, {each} for each by itself", all.work);
    });
}

/// The index would take too long to bring everything together that begins so.
#[test]
fn what_begins_like_everything_is_found_in_the_newest() {
    on_each(async |store| {
        let text =
            |n: usize| (0..20).map(|word| format!("zz{n}y{word}x")).collect::<Vec<_>>().join(" ");
        say(store, (0..1_500).map(text)).await;
        store.index_all().await;
        let search = Search { work: 60_000, ..Search::new("zz*", Filter::default(), 5) };
        let found = store.search(&search).await.unwrap();
        assert!(found.work < 120_000, "{} steps", found.work);
        assert_eq!(found.hits.len(), 5, "{found:?}");
        assert!(seqs(&found).iter().all(|seq| *seq > 1_300), "{:?}", seqs(&found));
    });
}

#[test]
fn a_search_ends_when_nobody_waits_for_it() {
    on_each(async |store| {
        say(store, (0..500).map(|n| format!("the whale is blue {n}"))).await;
        for _ in 0..2 {
            let stop = Stop::default();
            drop(stop.on_drop());
            let search = Search { stop, ..Search::new("whale", Filter::default(), 5) };
            let found = store.search(&search).await.unwrap();
            assert!(found.hits.is_empty() && found.is_partial && found.work < 5_000, "{found:?}");
            store.index_all().await;
        }
        // The same connection searches on as before.
        assert_eq!(search(store, "whale").await.hits.len(), 50);
    });
}

#[test]
fn a_cursor_leads_to_every_find_once() {
    on_each(async |store| {
        say(store, (0..250).map(|n| format!("heron {} {}", "and ".repeat(n % 7), n))).await;
        say(store, (0..30).map(|n| format!("herons {n}; heronry"))).await;
        for is_indexed in [false, true] {
            if is_indexed {
                store.index_all().await;
            }
            for (words, limit) in [("heron", 40), ("heron", 200), ("hero", 33), ("heron*", 7)] {
                let (mut seen, mut next, mut count) = (BTreeSet::new(), None, 0);
                loop {
                    let search =
                        Search { after: next, ..Search::new(words, Filter::default(), limit) };
                    let found = store.search(&search).await.unwrap();
                    assert!(!found.is_partial);
                    for hit in &found.hits {
                        let place = format!("{} {:?}", hit.session, hit.place);
                        assert!(seen.insert(place), "{words}, {limit}: twice: {hit:?}");
                    }
                    count += found.hits.len();
                    next = found.next.map(|next| next.to_string().parse().unwrap());
                    if next.is_none() {
                        break;
                    }
                }
                assert!(count >= 280, "{words}, {limit}: {count}");
            }
        }
    });
}
