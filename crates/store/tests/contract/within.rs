//! What an agent has to be told of one conversation.

use rethread_domain::context::Limits;
use rethread_domain::message::NewMessage;
use rethread_domain::price::Price;
use rethread_domain::retell::{self, Frame, Story};
use rethread_domain::{Message, SessionId};
use rethread_store::{RecallRequest, Recalled, Within};
use rethread_testkit::{TestStore, Texts, assistant, at, user};

use crate::on_each;
use crate::talks::within;

const ALL: (u32, u32) = (0, u32::MAX);

/// Recalls what a conversation has between two messages.
async fn recall(
    store: &TestStore,
    session: SessionId,
    (name, (after, before)): (&str, (u32, u32)),
    limits: Limits,
    prompt: Option<&str>,
) -> Recalled {
    let all = store.all(session).await;
    let known = all.iter().filter(|one| one.conversation == name && one.seq <= after).count();
    let known = u32::try_from(known).unwrap();
    let within =
        Some(Within { conversation: name.to_owned(), after, before, but: Vec::new(), known });
    let request = RecallRequest { session, limits, prompt: prompt.map(Into::into), within };
    store.recall(&request).await.unwrap()
}

fn limits(tokens: u32, messages: u32) -> Limits {
    Limits { tokens, messages, ..Limits::default() }
}

fn seqs<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Vec<u32> {
    messages.into_iter().map(|message| message.seq).collect()
}

/// How many messages there are to tell, whether all of them were read, and which.
fn told(recalled: &Recalled) -> (u32, bool, Vec<u32>) {
    (recalled.messages, recalled.is_whole, seqs(&recalled.recent))
}

/// Two conversations, a message of each in turn: `a` has the odd numbers.
async fn interleaved(store: &TestStore, length: usize) -> SessionId {
    let id = store.begin().await;
    let name = |n: usize| if n % 2 == 1 { "a" } else { "b" };
    let messages =
        (1..=length).map(|n| within(name(n), user(&format!("message number {n}")))).collect();
    store.add(id, messages).await.unwrap();
    id
}

#[test]
fn what_fits_is_recalled_whole_and_from_one_conversation_only() {
    on_each(async |store| {
        let id = interleaved(store, 100).await;
        let recall = async |name, stretch| {
            told(&recall(store, id, (name, stretch), limits(10_000, 20), Some("number")).await)
        };
        let odd = |from: u32, to: u32| -> Vec<u32> {
            (from..=to).rev().filter(|seq| seq % 2 == 1).collect()
        };
        assert_eq!(recall("a", ALL).await, (50, true, odd(1, 99)));
        assert_eq!(recall("a", (0, 99)).await, (49, true, odd(1, 97)));
        assert_eq!(recall("a", (11, 99)).await, (43, true, odd(13, 97)));
        assert_eq!(recall("a", (12, 98)).await, (43, true, odd(13, 97)));
        assert_eq!(recall("a", (97, 99)).await, (0, true, vec![]));
        assert_eq!(recall("a", (99, 100)).await, (0, true, vec![]));
        assert_eq!(recall("b", (90, 96)).await, (2, true, vec![94, 92]));
        assert_eq!(recall("c", ALL).await, (0, false, vec![]));
    });
}

#[test]
fn what_does_not_fit_is_recalled_by_its_newest_messages() {
    on_each(async |store| {
        let id = interleaved(store, 2_000).await;
        let newest = |from: u32| (0..20).map(|n| from - 2 * n).collect::<Vec<u32>>();
        for (stretch, expected) in [
            (ALL, (1_000, newest(1_999))),
            ((0, 1_999), (999, newest(1_997))),
            ((201, 1_999), (898, newest(1_997))),
        ] {
            let recalled = recall(store, id, ("a", stretch), limits(4_000, 20), None).await;
            assert_eq!(told(&recalled), (expected.0, false, expected.1));
        }
        let few = recall(store, id, ("a", (1_900, 1_999)), limits(4_000, 20), None).await;
        assert_eq!((few.messages, few.is_whole, few.recent.len()), (49, true, 49));
        // A text of which only the ends are read is never told whole.
        let long = Texts::new(1).text(60_000);
        store.add(id, vec![within("a", user(&long)), within("a", user("short"))]).await.unwrap();
        let long = recall(store, id, ("a", (1_998, 2_002)), limits(100_000, 20), None).await;
        assert_eq!(told(&long), (2, false, vec![2_001, 1_999]));
        let short = recall(store, id, ("a", (2_001, 2_003)), limits(100_000, 20), None).await;
        assert_eq!(told(&short), (1, true, vec![2_002]));
    });
}

#[test]
fn what_matters_comes_from_the_conversation_and_the_stretch() {
    on_each(async |store| {
        let id = store.begin().await;
        let mut messages = Vec::new();
        for n in 1..=300 {
            let name = if n % 2 == 1 { "a" } else { "b" };
            let text = if n % 30 < 2 {
                format!("the canary of room {n}, born in week {}, is Tweety{}", n + 1000, n + 2000)
            } else {
                "an unrelated step".to_owned()
            };
            messages.push(within(name, assistant(&text)));
        }
        store.add(id, messages).await.unwrap();
        for indexed in [false, true] {
            if indexed {
                store.index_all().await;
            }
            let limits = limits(600, 3);
            let prompt = Some("name of the canary");
            let recalled = recall(store, id, ("a", (100, 250)), limits, prompt).await;
            assert_eq!(told(&recalled), (75, false, vec![249, 247, 245]));
            let related: Vec<&Message> = recalled.related.iter().map(|one| &one.message).collect();
            assert!(related.iter().all(|one| one.conversation == "a"));
            assert!(related.iter().all(|one| (101..250).contains(&one.seq)));
            let found = seqs(related);
            for seq in [121, 151, 181, 211, 241] {
                assert!(found.contains(&seq), "indexed: {indexed}: {seq} is not in {found:?}");
            }
        }
    });
}

#[test]
fn what_was_said_on_a_day_comes_from_the_stretch_though_others_said_more() {
    on_each(async |store| {
        let id = store.begin().await;
        let early: Vec<NewMessage> = (0..40).map(|_| within("a", assistant("A step."))).collect();
        store.add(id, early).await.unwrap();
        let late = (0..400).map(|_| within("b", assistant("Another step."))).collect();
        store.add(id, late).await.unwrap();
        store.index_all().await;
        let prompt = Some("What did we do on 2026-11-15?");
        let recalled = recall(store, id, ("a", (0, 41)), limits(300, 3), prompt).await;
        assert!(!recalled.related.is_empty());
    });
}

#[test]
fn the_conversation_itself_comes_first_among_the_recent_ones() {
    on_each(async |store| {
        let id = store.begin().await;
        for name in ["old", "a", "b", "c"] {
            store.add(id, vec![within(name, user(name))]).await.unwrap();
        }
        for (name, expected) in [
            ("old", ["old", "c", "b"]),
            ("b", ["b", "c", "a"]),
            ("c", ["c", "b", "a"]),
            ("new", ["c", "b", "a"]),
        ] {
            let recalled = recall(store, id, (name, ALL), Limits::default(), None).await;
            let names: Vec<&str> =
                recalled.conversations.iter().map(|one| one.name.as_str()).collect();
            assert_eq!(names, expected);
        }
    });
}

#[test]
fn a_fork_tells_what_it_shares() {
    on_each(async |store| {
        let source = interleaved(store, 40).await;
        let fork = store.fork(source, 30, SessionId::generate(), at(9)).await.unwrap().id;
        store.add(fork, vec![within("a", user("own"))]).await.unwrap();
        let recalled = recall(store, fork, ("a", (21, u32::MAX)), limits(5_000, 20), None).await;
        assert_eq!(told(&recalled), (5, true, vec![31, 29, 27, 25, 23]));
    });
}

/// Tells what was recalled, as an agent is told it.
fn tell(recalled: &Recalled, limits: &Limits) -> retell::Telling {
    let story = Story {
        session: &recalled.session,
        conversations: &recalled.conversations,
        others: &recalled.others,
        recent: &recalled.recent,
        related: &recalled.related,
        wanted: recalled.wanted.as_ref(),
        repository: None,
        frame: Frame::Missed { is_whole: recalled.is_whole },
        messages: recalled.messages,
    };
    retell::tell(&story, limits)
}

#[test]
fn what_is_recalled_whole_is_told_whole() {
    on_each(async |store| {
        // Marks, purged messages, names and texts that nobody counted cost something as well.
        let id = store.begin().await;
        let name = "\u{1f9d1}\u{200d}\u{1f680}".repeat(18);
        for n in 0..60_u32 {
            let mut message = within(&name, assistant("\n\u{1b}x"));
            if n % 2 == 0 {
                message.extras.other.insert("interrupted".into(), true.into());
            }
            if n % 3 == 0 {
                message.price = Price::default();
            }
            store.add(id, vec![message]).await.unwrap();
        }
        for seq in [5, 10, 15, 20] {
            store.purge(id, seq, at(90)).await.unwrap();
        }
        let mut wholes = 0;
        for tokens in (100..4_000).step_by(10) {
            let limits = limits(tokens, 20);
            let recalled = recall(store, id, (name.as_str(), ALL), limits, None).await;
            let telling = tell(&recalled, &limits);
            assert!(telling.tokens <= tokens);
            assert_eq!(telling.included.messages + telling.omitted.messages, 60);
            if recalled.is_whole {
                wholes += 1;
                assert_eq!(telling.omitted.messages, 0, "{tokens}: {}", telling.text);
            }
        }
        assert!((10..380).contains(&wholes), "{wholes}");
    });
}
