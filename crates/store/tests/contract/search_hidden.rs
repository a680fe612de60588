//! What is masked for others cannot be searched: whoever guesses at it learns nothing, however small the steps.

use rethread_domain::Fact;
use rethread_domain::context::Limits;
use rethread_domain::conversation::TitleFrom;
use rethread_domain::search::{Filter, Found};
use rethread_domain::summary::{Author, Summary};
use rethread_redact::{Known, Redactor};
use rethread_store::{RecallRequest, Search};
use rethread_testkit::{TestStore, user};

use crate::on_each;

/// A key that was put together, so that no source holds one.
fn key() -> String {
    ["AKIA", "J7Q2M5K3", "X6P4T2W7"].concat()
}

/// The same up to its last letter, which is wrong.
fn wrong(right: &str) -> String {
    let mut wrong = right.to_owned();
    let last = wrong.pop().unwrap();
    wrong.push(if last.eq_ignore_ascii_case(&'q') { 'z' } else { 'q' });
    wrong
}

/// Everything that whoever asks is told.
async fn told(store: &TestStore, search: &Search) -> Found {
    Found { work: 0, ..store.search(search).await.unwrap() }
}

/// Guesses a secret letter by letter, in every form that can be typed; no answer may say whether a guess was right.
async fn expect_nothing_is_learned(store: &TestStore, secret: &str, redactor: &Redactor) {
    for end in 2..=secret.len() {
        let right = &secret[..end];
        let wrong = wrong(right);
        for form in ["{}", "{}*", "\"{}\"", "\"deploy with {}\"", "deploy {}", "deploy {}*"] {
            let search = |guess: &str| Search {
                redactor: redactor.clone(),
                ..Search::new(&form.replace("{}", guess), Filter::default(), 20)
            };
            assert_eq!(
                told(store, &search(right)).await,
                told(store, &search(&wrong)).await,
                "{form} with {right}"
            );
        }
    }
}

async fn titled_and_summed_up(store: &TestStore, secret: &str) {
    let id = store.begin().await;
    let title = format!("Rotate {secret} soon");
    store.note(id, Fact::Titled { title, from: TitleFrom::Person }).await;
    let text = format!("We rotated {secret} today.");
    let summary = Summary { by: Author::Rules, upto: 0, folded: 0, text, points: vec![] };
    store.note(id, Fact::Summarised { conversation: None, summary }).await;
    let said = [format!("deploy with {secret} now"), format!("and {secret} to deploy it")];
    store.add(id, said.iter().map(|text| user(text)).collect()).await.unwrap();
}

#[test]
fn a_secret_cannot_be_guessed_letter_by_letter() {
    on_each(async |store| {
        titled_and_summed_up(store, &key()).await;
        let redactor = Redactor::new([]);
        expect_nothing_is_learned(store, &key(), &redactor).await;
        store.index_all().await;
        expect_nothing_is_learned(store, &key(), &redactor).await;
        // What is not hidden is found all the same, and shown without it.
        let hits = store.search(&Search::new("deploy", Filter::default(), 20)).await.unwrap().hits;
        assert_eq!(hits.len(), 2);
        assert_eq!(hits[0].excerpt, "**deploy** with [redacted: aws access key] now");
        let title = "Rotate [redacted: aws access key] soon";
        assert!(hits.iter().all(|hit| hit.title.as_deref() == Some(title)), "{hits:?}");
        // The index lacks the secret on purpose: that is no damage, before and after it is made anew.
        store.expect_sound().await;
        store.rebuild().await.unwrap();
        store.index_all().await;
        store.expect_sound().await;
    });
}

#[test]
fn what_is_handed_to_a_program_cannot_be_guessed_either() {
    on_each(async |store| {
        let id = store.begin().await;
        store.add(id, vec![user("deploy: PGPASSWORD=wobbleboard psql now")]).await.unwrap();
        let redactor = Redactor::new([]);
        expect_nothing_is_learned(store, "wobbleboard", &redactor).await;
        store.index_all().await;
        expect_nothing_is_learned(store, "wobbleboard", &redactor).await;
    });
}

#[test]
fn nor_can_one_in_the_middle_of_a_long_text() {
    on_each(async |store| {
        let id = store.begin().await;
        let long = "plain words all along ".repeat(1_000);
        store.add(id, vec![user(&format!("{long} {} {long} deploy", key()))]).await.unwrap();
        for _ in 0..2 {
            for end in [6, 12, 20] {
                let right = key()[..end].to_owned();
                for form in ["{}*", "\"along {}\"", "deploy {}*"] {
                    let search = |guess: &str| {
                        Search::new(&form.replace("{}", guess), Filter::default(), 20)
                    };
                    let answer = told(store, &search(&right)).await;
                    assert_eq!(answer, told(store, &search(&wrong(&right))).await, "{right}");
                }
            }
            store.index_all().await;
        }
    });
}

/// It was said where nobody knew it, and is in the index: whoever knows it now masks it.
#[test]
fn a_value_that_is_known_later_cannot_be_guessed() {
    on_each(async |store| {
        titled_and_summed_up(store, "wumviolet9tree").await;
        store.index_all().await;
        let known = Known { name: "ACCESS_PASSWORD".into(), value: "wumviolet9tree".into() };
        expect_nothing_is_learned(store, "wumviolet9tree", &Redactor::new([known])).await;
        let found = store.search(&Search::new("wumvio*", Filter::default(), 20)).await.unwrap();
        assert_eq!(found.hits.len(), 4, "who does not know it finds it");
    });
}

#[test]
fn a_prompt_with_a_secret_recalls_nothing_by_it() {
    on_each(async |store| {
        let id = store.begin().await;
        let said = ["one plain thing", &format!("{}: the deploy key", key()), "another thing"];
        store.add(id, said.iter().map(|text| user(text)).collect()).await.unwrap();
        for _ in 0..2 {
            let mut worths = Vec::new();
            for guess in [key(), wrong(&key())] {
                let request = RecallRequest {
                    session: id,
                    limits: Limits::default(),
                    prompt: Some(format!("what of the deploy and {guess}?")),
                    within: None,
                };
                let related = store.recall(&request).await.unwrap().related;
                assert!(!related.is_empty());
                worths.push(format!("{related:?}"));
            }
            assert_eq!(worths[0], worths[1]);
            store.index_all().await;
        }
    });
}
