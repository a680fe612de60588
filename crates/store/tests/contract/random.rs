//! Whatever is done to a store, what sums it up equals its log, and every message is where it should be.

use std::collections::BTreeMap;

use futures::executor::block_on;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use rethread_domain::conversation::TitleFrom;
use rethread_domain::message::{Extras, NewMessage, Usage};
use rethread_domain::search::{Filter, Query};
use rethread_domain::session::Move;
use rethread_domain::{Fact, Role, SessionId};
use rethread_testkit::{TestStore, Texts, at, message};

use crate::upkeep::{dump, whole};

/// One thing that is done. Numbers choose among what there is.
#[derive(Debug, Clone)]
enum Step {
    Append {
        session: usize,
        count: usize,
        seed: u64,
    },
    Long {
        session: usize,
        seed: u64,
    },
    Rename {
        session: usize,
    },
    Move {
        session: usize,
        asked: usize,
    },
    Fork {
        session: usize,
        at: usize,
    },
    Purge {
        session: usize,
        at: usize,
    },
    Delete {
        session: usize,
    },
    Undelete {
        session: usize,
    },
    Erase {
        session: usize,
    },
    Prune {
        session: usize,
    },
    /// Out of the store and in again.
    Exchange {
        session: usize,
    },
    Index {
        most: u32,
    },
}

const MOVES: [Move; 6] =
    [Move::Pause, Move::Complete, Move::Activate, Move::Reopen, Move::Archive, Move::Unarchive];

fn step() -> impl Strategy<Value = Step> {
    let any = || 0..1000_usize;
    prop_oneof![
        8 => (any(), 1..6_usize, 0..1000_u64)
            .prop_map(|(session, count, seed)| Step::Append { session, count, seed }),
        1 => (any(), 0..3_u64).prop_map(|(session, seed)| Step::Long { session, seed }),
        1 => any().prop_map(|session| Step::Rename { session }),
        3 => (any(), 0..MOVES.len()).prop_map(|(session, asked)| Step::Move { session, asked }),
        3 => (any(), any()).prop_map(|(session, at)| Step::Fork { session, at }),
        2 => (any(), any()).prop_map(|(session, at)| Step::Purge { session, at }),
        1 => any().prop_map(|session| Step::Delete { session }),
        1 => any().prop_map(|session| Step::Undelete { session }),
        1 => any().prop_map(|session| Step::Erase { session }),
        1 => any().prop_map(|session| Step::Prune { session }),
        1 => any().prop_map(|session| Step::Exchange { session }),
        2 => (1..20_u32).prop_map(|most| Step::Index { most }),
    ]
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

async fn take(store: &TestStore, expected: &mut Expected, step: Step) {
    let engine = store.engine();
    let number = match &step {
        Step::Append { session, .. }
        | Step::Long { session, .. }
        | Step::Rename { session }
        | Step::Move { session, .. }
        | Step::Fork { session, .. }
        | Step::Purge { session, .. }
        | Step::Delete { session }
        | Step::Undelete { session }
        | Step::Erase { session }
        | Step::Prune { session }
        | Step::Exchange { session } => *session,
        Step::Index { most } => return drop(store.index(*most).await.unwrap()),
    };
    let id = match expected.choose(number) {
        // Now and then a new one, so that there are always some.
        Some(id) if number % 7 != 0 => id,
        _ => {
            let id = store.begin().await;
            expected.sessions.insert(id, Vec::new());
            id
        }
    };
    let session = store.session(id).await.unwrap();
    let length = expected.sessions[&id].len();
    match step {
        Step::Append { count, seed, .. } => add(store, expected, id, (count, 30, seed)).await,
        Step::Long { seed, .. } => add(store, expected, id, (1, 40_000, seed)).await,
        Step::Rename { .. } if session.deleted_at.is_none() => {
            let title = format!("Title {length}");
            store.note(id, Fact::Titled { title, from: TitleFrom::Person }).await;
        }
        Step::Move { asked, .. } => {
            if let Ok(to) = session.decide(MOVES[asked]) {
                store.note(id, Fact::Moved { to }).await;
            }
        }
        Step::Fork { at: place, .. } if session.can_resume().is_ok() => {
            let seq = place % (length + 1);
            let new = SessionId::generate();
            store.fork(id, u32::try_from(seq).unwrap(), new, at(900)).await.unwrap();
            let shared = expected.sessions[&id][..seq].to_vec();
            expected.sessions.insert(new, shared);
        }
        Step::Purge { at: place, .. } if length > 0 => {
            let index = place % length;
            store.purge(id, u32::try_from(index + 1).unwrap(), at(950)).await.unwrap();
            let text = expected.sessions[&id][index];
            expected.texts[text].clear();
        }
        Step::Delete { .. } if session.deleted_at.is_none() => {
            store.note(id, Fact::Deleted).await;
        }
        Step::Undelete { .. } if session.deleted_at.is_some() => {
            store.note(id, Fact::Undeleted).await;
        }
        Step::Erase { .. } => {
            store.erase(id).await.unwrap();
            expected.sessions.remove(&id);
        }
        Step::Prune { .. } if session.can_resume().is_ok() => {
            engine.prune(id, 2).await.unwrap();
        }
        Step::Exchange { .. } => exchange(store, expected, id).await,
        _ => (),
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
    own.iter().for_each(|text| expected.say(id, text));
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
        let hits = store.search(&Query::parse(&word), &Filter::default(), 5).await.unwrap();
        assert_eq!(!hits.is_empty(), visible, "{word}");
    }
}

async fn run(store: &TestStore, steps: Vec<Step>) {
    let mut expected = Expected::default();
    for step in steps {
        take(store, &mut expected, step).await;
    }
    expect_all_there(store, &expected).await;
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
