//! Whatever is done to a store, what sums it up equals its log, and every message is where it should be.

use std::collections::BTreeMap;

use futures::executor::block_on;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use rethread_domain::conversation::TitleFrom;
use rethread_domain::message::{Extras, NewMessage, Usage};
use rethread_domain::search::Filter;
use rethread_domain::session::Move;
use rethread_domain::{Fact, Role, SessionId};
use rethread_store::Search;
use rethread_testkit::{TestStore, Texts, at, message};

use crate::feed::expect_whole;
use crate::upkeep::{dump, whole};

/// One thing that is done to a session. Numbers choose among what there is.
#[derive(Debug, Clone)]
struct Step {
    session: usize,
    what: What,
}

#[derive(Debug, Clone)]
enum What {
    Append {
        count: usize,
        seed: u64,
    },
    Long {
        seed: u64,
    },
    Rename,
    Move(Move),
    Fork {
        at: usize,
    },
    Purge {
        at: usize,
    },
    Delete,
    Undelete,
    Erase,
    Prune,
    /// Out of the store and in again.
    Exchange,
    Index {
        most: u32,
    },
}

const MOVES: [Move; 6] =
    [Move::Pause, Move::Complete, Move::Activate, Move::Reopen, Move::Archive, Move::Unarchive];

fn step() -> impl Strategy<Value = Step> {
    let what = prop_oneof![
        8 => (1..6_usize, 0..1000_u64).prop_map(|(count, seed)| What::Append { count, seed }),
        1 => (0..3_u64).prop_map(|seed| What::Long { seed }),
        3 => prop::sample::select(&MOVES[..]).prop_map(What::Move),
        3 => (0..1000_usize).prop_map(|at| What::Fork { at }),
        2 => (0..1000_usize).prop_map(|at| What::Purge { at }),
        2 => (1..20_u32).prop_map(|most| What::Index { most }),
        1 => Just(What::Rename),
        1 => Just(What::Delete),
        1 => Just(What::Undelete),
        1 => Just(What::Erase),
        1 => Just(What::Prune),
        1 => Just(What::Exchange),
    ];
    (0..1000_usize, what).prop_map(|(session, what)| Step { session, what })
}

/// What ought to be in the store: each session's messages, by the numbers of texts that forks share.
#[derive(Debug, Default)]
struct Expected {
    texts: Vec<String>,
    sessions: BTreeMap<SessionId, Vec<usize>>,
}

impl Expected {
    fn choose(&self, number: usize) -> Option<SessionId> {
        self.sessions.keys().nth(number % self.sessions.len().max(1)).copied()
    }

    fn say(&mut self, session: SessionId, text: &str) {
        self.texts.push(text.to_owned());
        self.sessions.get_mut(&session).unwrap().push(self.texts.len() - 1);
    }

    fn texts_of(&self, session: SessionId) -> Vec<&str> {
        self.sessions[&session].iter().map(|text| self.texts[*text].as_str()).collect()
    }
}

/// A message with a word of its own.
fn next_message(texts: &mut Texts, number: usize, bytes: usize) -> NewMessage {
    let said = format!("{} word{number}x.", texts.text(bytes));
    let usage = Usage { input_tokens: 3, output_tokens: 5, cost_usd: Some(0.1) };
    NewMessage {
        id: (texts.below(3) == 0).then(|| format!("given-{number}")),
        at: at(i64::try_from(number).unwrap()),
        conversation: ["main", "review", "deploy"][texts.below(3)].to_owned(),
        extras: Extras {
            agent: (texts.below(2) == 0).then(|| "codex".to_owned()),
            usage: (texts.below(2) == 0).then_some(usage),
            ..Extras::default()
        },
        ..message(Role::ALL[texts.below(4)], &said)
    }
}

/// The session that a step is about; now and then a new one, so that there are always some.
async fn choose(store: &TestStore, expected: &mut Expected, number: usize) -> SessionId {
    match expected.choose(number) {
        Some(id) if !number.is_multiple_of(7) => id,
        _ => {
            let id = store.begin().await;
            expected.sessions.insert(id, Vec::new());
            id
        }
    }
}

async fn take(store: &TestStore, expected: &mut Expected, step: Step) {
    let id = choose(store, expected, step.session).await;
    let session = store.session(id).await.unwrap();
    let length = expected.sessions[&id].len();
    match step.what {
        What::Append { count, seed } => add(store, expected, id, (count, 30, seed)).await,
        What::Long { seed } => add(store, expected, id, (1, 40_000, seed)).await,
        What::Rename => {
            let title = format!("Title {length}");
            store.note(id, Fact::Titled { title, from: TitleFrom::Person }).await;
        }
        What::Move(asked) => {
            if let Ok(to) = session.decide(asked) {
                store.note(id, Fact::Moved { to }).await;
            }
        }
        What::Fork { at: place } if session.can_resume().is_ok() => {
            let seq = place % (length + 1);
            let new = SessionId::generate();
            store.fork(id, u32::try_from(seq).unwrap(), new, at(900)).await.unwrap();
            let shared = expected.sessions[&id][..seq].to_vec();
            expected.sessions.insert(new, shared);
        }
        What::Purge { at: place } if length > 0 => {
            let index = place % length;
            store.purge(id, u32::try_from(index + 1).unwrap(), at(950)).await.unwrap();
            let text = expected.sessions[&id][index];
            expected.texts[text].clear();
        }
        What::Delete if session.deleted_at.is_none() => drop(store.note(id, Fact::Deleted).await),
        What::Undelete if session.deleted_at.is_some() => {
            store.note(id, Fact::Undeleted).await;
        }
        What::Erase => {
            store.erase(id).await.unwrap();
            expected.sessions.remove(&id);
        }
        What::Prune if session.can_resume().is_ok() => {
            store.engine().prune(id, 2).await.unwrap();
        }
        What::Exchange => exchange(store, expected, id).await,
        What::Index { most } => assert!(store.index(most).await.is_ok()),
        What::Fork { .. } | What::Purge { .. } | What::Delete | What::Undelete | What::Prune => (),
    }
}

async fn add(
    store: &TestStore,
    expected: &mut Expected,
    id: SessionId,
    (count, bytes, seed): (usize, usize, u64),
) {
    if store.session(id).await.unwrap().accepts_messages().is_err() {
        return;
    }
    let mut texts = Texts::new(seed);
    let first = expected.texts.len();
    let messages: Vec<NewMessage> =
        (first..first + count).map(|number| next_message(&mut texts, number, bytes)).collect();
    for message in &messages {
        expected.say(id, &message.content);
    }
    store.add(id, messages).await.unwrap();
}

/// Out of the store and in again: the same session, which shares nothing any more.
async fn exchange(store: &TestStore, expected: &mut Expected, id: SessionId) {
    let before = whole(store, id).await;
    let log = dump(store, id).await;
    store.erase(id).await.unwrap();
    store.take_in(log).await.unwrap();
    assert_eq!(whole(store, id).await, before);
    let own: Vec<String> = expected.texts_of(id).into_iter().map(str::to_owned).collect();
    expected.sessions.insert(id, Vec::new());
    for text in &own {
        expected.say(id, text);
    }
}

async fn expect_all_there(store: &TestStore, expected: &Expected) {
    store.expect_sound().await;
    for id in expected.sessions.keys() {
        assert_eq!(store.texts(*id).await, expected.texts_of(*id));
    }
    let mut words: BTreeMap<String, bool> = BTreeMap::new();
    for (id, texts) in &expected.sessions {
        let visible = store.session(*id).await.unwrap().deleted_at.is_none();
        for text in texts.iter().map(|text| &expected.texts[*text]).filter(|text| !text.is_empty())
        {
            let word = text.rsplit(' ').next().unwrap().trim_end_matches('.').to_owned();
            *words.entry(word).or_insert(false) |= visible;
        }
    }
    for (word, visible) in words {
        // In quotation marks it is not taken for the beginning of another.
        let hits = store
            .search(&Search::new(&format!("{word:?}"), Filter::default(), 5))
            .await
            .unwrap()
            .hits;
        assert_eq!(!hits.is_empty(), visible, "{word}");
    }
}

async fn run(store: &TestStore, steps: Vec<Step>) {
    let mut expected = Expected::default();
    for step in steps {
        take(store, &mut expected, step).await;
    }
    expect_all_there(store, &expected).await;
    expect_whole(&**store).await;
    let mut before = Vec::new();
    for id in expected.sessions.keys() {
        before.push(whole(store, *id).await);
    }
    store.rebuild().await.unwrap();
    expect_all_there(store, &expected).await;
    for (id, before) in expected.sessions.keys().zip(before) {
        assert_eq!(whole(store, *id).await, before);
    }
    for id in expected.sessions.keys() {
        store.erase(*id).await.unwrap();
    }
    let usage = store.usage().await.unwrap();
    assert_eq!((usage.sessions, usage.messages, usage.blob_bytes), (0, 0, 0));
    expect_whole(&**store).await;
    store.expect_sound().await;
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn whatever_is_done_the_views_equal_the_log(steps in prop::collection::vec(step(), 1..60)) {
        block_on(async {
            for store in TestStore::each().await {
                run(&store, steps.clone()).await;
            }
        });
    }
}
