//! Adding messages: numbers, ids, counters, long texts.

use std::collections::BTreeMap;

use futures::future::join_all;
use rethread_domain::message::{Body, Extras, NewMessage, Usage};
use rethread_domain::{Role, SessionId};
use rethread_store::{Appended, Error, RecallRequest, Span};
use rethread_testkit::{Texts, assistant, at, beginning, message, tool, user};

use crate::on_each;

fn with_id(id: &str, message: NewMessage) -> NewMessage {
    NewMessage { id: Some(id.to_owned()), ..message }
}

fn seqs(answers: &[Appended]) -> Vec<(u32, bool)> {
    answers.iter().map(|answer| (answer.seq, answer.is_new)).collect()
}

#[test]
fn messages_are_numbered_from_one_without_gaps() {
    on_each(async |store| {
        let (a, b) = (store.begin().await, store.begin().await);
        let first = store.add(a, vec![user("one"), user("two")]).await.unwrap();
        store.add(b, vec![user("other")]).await.unwrap();
        let second = store.add(a, vec![user("three")]).await.unwrap();
        assert_eq!(seqs(&[first, second].concat()), [(1, true), (2, true), (3, true)]);
        let found: Vec<u32> = store.all(a).await.iter().map(|message| message.seq).collect();
        assert_eq!(found, [1, 2, 3]);
        assert_eq!(store.add(a, Vec::new()).await.unwrap(), []);
    });
}

#[test]
fn many_who_write_at_once_get_numbers_of_their_own() {
    on_each(async |store| {
        let id = store.begin().await;
        let writes = (0..200).map(|n| store.add(id, vec![user(&format!("message {n}"))]));
        let answers = join_all(writes).await;
        let mut given: Vec<u32> =
            answers.into_iter().map(|answer| answer.unwrap()[0].seq).collect();
        given.sort_unstable();
        assert_eq!(given, (1..=200).collect::<Vec<u32>>());
        assert_eq!(store.session(id).await.unwrap().last_seq, 200);
        store.expect_sound().await;
    });
}

#[test]
fn everything_about_a_message_is_read_back() {
    on_each(async |store| {
        let id = store.begin().await;
        let mut other = serde_json::Map::new();
        other.insert("b".into(), serde_json::json!([1, {"c": null}]));
        other.insert("a".into(), serde_json::json!("é\u{0}"));
        let said = NewMessage {
            id: Some("turn-1".into()),
            at: at(7),
            conversation: "review".into(),
            extras: Extras {
                agent: Some("codex".into()),
                model: Some("gpt".into()),
                tool_calls: Some(serde_json::json!([{"name": "read"}])),
                usage: Some(Usage { input_tokens: 5, output_tokens: 7, cost_usd: Some(0.25) }),
                secrets: Vec::new(),
                rules: 1,
                other,
            },
            ..tool("a\u{0}b \u{202e}ü\r\n```\n数据库")
        };
        store.add(id, vec![said.clone()]).await.unwrap();
        let read = store.all(id).await.remove(0);
        let again = NewMessage {
            id: read.given_id,
            role: read.role,
            content: read.body.whole().unwrap().to_owned(),
            at: read.at,
            conversation: read.conversation,
            extras: read.extras,
            price: read.price,
        };
        assert_eq!(again, said);
    });
}

#[test]
fn the_same_id_twice_is_one_message() {
    on_each(async |store| {
        let id = store.begin().await;
        let twice = vec![with_id("a", user("one")), with_id("a", user("one")), user("two")];
        assert_eq!(seqs(&store.add(id, twice).await.unwrap()), [(1, true), (1, false), (2, true)]);
        let again = vec![user("three"), with_id("a", user("one"))];
        assert_eq!(seqs(&store.add(id, again).await.unwrap()), [(3, true), (1, false)]);
        assert_eq!(store.texts(id).await, ["one", "two", "three"]);
        assert_eq!(store.message_by_id(id, "a").await.unwrap(), Some(1));
        assert_eq!(store.message_by_id(id, "b").await.unwrap(), None);
        let elsewhere = store.begin().await;
        let other = store.add(elsewhere, vec![with_id("a", user("other"))]).await.unwrap();
        assert_eq!(seqs(&other), [(1, true)], "an id is known in its session only");
        store.expect_sound().await;
    });
}

#[test]
fn other_content_under_a_known_id_is_refused_and_nothing_of_it_is_written() {
    on_each(async |store| {
        let id = store.begin().await;
        store.add(id, vec![user("zero"), with_id("a", user("one"))]).await.unwrap();
        let before = store.session(id).await.unwrap();
        for other in [with_id("a", user("another")), with_id("a", assistant("one"))] {
            let new = NewMessage { conversation: "new".into(), ..user("new") };
            let refused = store.add(id, vec![new, other]).await;
            assert!(
                matches!(&refused, Err(Error::IdTaken { id, seq: 2 }) if id == "a"),
                "{refused:?}"
            );
        }
        let within = vec![with_id("b", user("x")), with_id("b", user("y"))];
        assert!(matches!(store.add(id, within).await, Err(Error::IdTaken { .. })));
        assert_eq!(store.session(id).await.unwrap(), before);
        assert_eq!(store.conversations(id).await.unwrap().len(), 1);
        assert_eq!(store.texts(id).await, ["zero", "one"]);
        store.expect_sound().await;
    });
}

#[test]
fn a_refusal_does_not_touch_what_others_write_at_the_same_time() {
    on_each(async |store| {
        let id = store.begin().await;
        store.add(id, vec![with_id("a", user("one"))]).await.unwrap();
        let writes = (0..40).map(|n| {
            let message = if n % 2 == 0 { user("good") } else { with_id("a", user("bad")) };
            store.add(id, vec![message])
        });
        let answers = join_all(writes).await;
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 20);
        assert_eq!(store.session(id).await.unwrap().last_seq, 21);
        store.expect_sound().await;
    });
}

#[test]
fn an_id_of_the_form_that_the_store_gives_names_its_place() {
    on_each(async |store| {
        let id = store.begin().await;
        store.add(id, vec![user("one"), user("two")]).await.unwrap();
        assert_eq!(store.message_by_id(id, &id.message(2)).await.unwrap(), Some(2));
        assert_eq!(store.message_by_id(id, &id.message(3)).await.unwrap(), None);
        assert_eq!(store.message_by_id(id, &id.message(0)).await.unwrap(), None);
        let known = store.add(id, vec![with_id(&id.message(1), user("one"))]).await.unwrap();
        assert_eq!(seqs(&known), [(1, false)]);
        let next = store.add(id, vec![with_id(&id.message(3), user("three"))]).await.unwrap();
        assert_eq!(seqs(&next), [(3, true)]);
        let other = store.add(id, vec![with_id(&id.message(1), user("other"))]).await;
        assert!(matches!(other, Err(Error::IdTaken { seq: 1, .. })));
        let far = store.add(id, vec![user("x"), with_id(&id.message(9), user("nine"))]).await;
        assert!(matches!(far, Err(Error::IdReserved(_))));
        let foreign = SessionId::generate().message(1);
        let foreign = store.add(id, vec![with_id(&foreign, user("four"))]).await.unwrap();
        assert_eq!(seqs(&foreign), [(4, true)], "another session's form is an id like any other");
        assert_eq!(store.texts(id).await, ["one", "two", "three", "four"]);
        store.expect_sound().await;
    });
}

#[test]
fn counters_equal_a_recount() {
    on_each(async |store| {
        let beginning =
            rethread_domain::session::Beginning { agent: Some("main-agent".into()), ..beginning() };
        let id = store.begin_as(beginning).await;
        let mut texts = Texts::new(1);
        for _ in 0..60 {
            let messages = (0..=texts.below(4)).map(|_| any_message(&mut texts)).collect();
            store.add(id, messages).await.unwrap();
        }
        let messages = store.all(id).await;
        let session = store.session(id).await.unwrap();
        let tokens = |conversation: &str| -> u64 {
            let own = messages.iter().filter(|one| one.conversation == conversation);
            own.map(|one| u64::from(one.price.tokens.unwrap())).sum()
        };
        let usage = |of: fn(&Usage) -> u64| -> u64 {
            messages.iter().filter_map(|one| one.extras.usage.as_ref()).map(of).sum()
        };
        let conversations = store.conversations(id).await.unwrap();
        assert_eq!(session.counters.conversations as usize, conversations.len());
        for conversation in &conversations {
            let own = messages.iter().filter(|one| one.conversation == conversation.name);
            assert_eq!(conversation.messages as usize, own.clone().count());
            assert_eq!(conversation.tokens, tokens(&conversation.name));
            assert_eq!(Some(conversation.last_seq), own.clone().map(|one| one.seq).max());
            assert_eq!(Some(conversation.last_at), own.map(|one| one.at).max());
        }
        let sum: u64 = conversations.iter().map(|conversation| conversation.tokens).sum();
        assert_eq!(session.counters.tokens, sum);
        assert_eq!(session.counters.input_tokens, usage(|usage| usage.input_tokens));
        assert_eq!(session.counters.output_tokens, usage(|usage| usage.output_tokens));
        assert_eq!(session.counters.cost_nano, 1_000_000 * i64::try_from(usage(|_| 1)).unwrap());
        let runs = runs(&messages);
        assert_eq!(session.counters.runs, runs.values().sum::<u32>());
        let agents = store.agents(id).await.unwrap();
        let found: BTreeMap<String, u32> =
            agents.iter().map(|agent| (agent.name.clone(), agent.usage_count)).collect();
        assert_eq!(found, runs);
        assert!(agents.is_sorted_by_key(|agent| std::cmp::Reverse(agent.usage_count)));
        store.expect_sound().await;
    });
}

fn any_message(texts: &mut Texts) -> NewMessage {
    let role = Role::ALL[texts.below(4)];
    let usage = Usage { input_tokens: 100, output_tokens: 9, cost_usd: Some(0.001) };
    NewMessage {
        at: at(i64::try_from(texts.below(500)).unwrap()),
        conversation: format!("c{}", texts.below(3)),
        extras: Extras {
            agent: (texts.below(2) == 0).then(|| format!("agent-{}", texts.below(3))),
            usage: (texts.below(3) == 0).then_some(usage),
            ..Extras::default()
        },
        ..message(role, &texts.text(30))
    }
}

/// What one agent does in a conversation from a request to the next one is a run.
fn runs(messages: &[rethread_domain::Message]) -> BTreeMap<String, u32> {
    let mut running: BTreeMap<&str, &str> = BTreeMap::new();
    let mut runs = BTreeMap::new();
    for message in messages {
        match message.role {
            Role::User => drop(running.remove(message.conversation.as_str())),
            Role::System => (),
            Role::Assistant | Role::Tool => {
                let agent = message.extras.agent.as_deref().unwrap_or("main-agent");
                if running.insert(&message.conversation, agent) != Some(agent) {
                    *runs.entry(agent.to_owned()).or_insert(0) += 1;
                }
            }
        }
    }
    runs
}

#[test]
fn a_conversation_is_titled_by_its_first_request() {
    on_each(async |store| {
        let id = store.begin().await;
        let review = |message: NewMessage| NewMessage { conversation: "review".into(), ..message };
        store.add(id, vec![assistant("Hello"), user("Fix the cart")]).await.unwrap();
        store.add(id, vec![review(user("Look at the diff")), review(user("Again"))]).await.unwrap();
        let found = store.conversations(id).await.unwrap();
        let titles: Vec<_> =
            found.iter().map(|one| (one.n, one.name.as_str(), one.title.as_deref())).collect();
        let expected = [(1, "main", Some("Fix the cart")), (2, "review", Some("Look at the diff"))];
        assert_eq!(titles, expected);
        assert_eq!(store.session(id).await.unwrap().title.as_deref(), Some("Fix the cart"));
    });
}

#[test]
fn a_long_text_is_read_back_whole_and_kept_once() {
    on_each(async |store| {
        let (a, b) = (store.begin().await, store.begin().await);
        let long = Texts::new(2).text(200_000);
        store.add(a, vec![tool(&long)]).await.unwrap();
        let once = store.usage().await.unwrap().blob_bytes;
        store.add(a, vec![tool(&long)]).await.unwrap();
        store.add(b, vec![user(&long)]).await.unwrap();
        assert_eq!(store.texts(a).await, [long.as_str(), &long]);
        assert_eq!(store.texts(b).await, [long.as_str()]);
        assert!(once > 0);
        assert_eq!(store.usage().await.unwrap().blob_bytes, once);
        let limits = rethread_domain::context::Limits::default();
        let request = RecallRequest { session: a, limits, prompt: None, within: None };
        let recalled = store.recall(&request).await.unwrap();
        assert!(
            matches!(&recalled.recent[0].body, Body::Ends { bytes, .. } if *bytes == long.len() as u64),
            "a context does not open it"
        );
        store.expect_sound().await;
    });
}

#[test]
fn a_long_text_that_begins_with_nothing_keeps_the_views_true_to_the_log() {
    on_each(async |store| {
        let id = store.begin().await;
        let padded = format!("{}Fix the cart", "\n".repeat(70_000));
        store.add(id, vec![user(&padded)]).await.unwrap();
        assert_eq!(store.texts(id).await, [padded]);
        store.expect_sound().await;
    });
}

#[test]
fn stretches_of_messages_are_read_in_either_order() {
    on_each(async |store| {
        let id = store.begin().await;
        let texts = (1..=9).map(|n| user(&n.to_string())).collect();
        store.add(id, texts).await.unwrap();
        let read = async |span: Span| -> Vec<u32> {
            let found = store.messages(id, span).await.unwrap();
            found.iter().map(|message| message.seq).collect()
        };
        assert_eq!(read(Span::after(4, 3)).await, [4, 5, 6]);
        assert_eq!(read(Span::newest(3)).await, [9, 8, 7]);
        assert_eq!(read(Span { to: 5, ..Span::newest(3) }).await, [5, 4, 3]);
        assert!(read(Span::after(10, 3)).await.is_empty());
        assert_eq!(read(Span::after(0, 2)).await, [1, 2]);
    });
}
