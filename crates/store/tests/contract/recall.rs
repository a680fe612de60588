//! What a context is made of.

use rethread_domain::context::Limits;
use rethread_domain::message::{Extras, NewMessage};
use rethread_domain::{Fact, SessionId, Status};
use rethread_store::{Error, RecallRequest, Recalled};
use rethread_testkit::{TestStore, assistant, user};

use crate::on_each;

fn in_conversation(name: &str, message: NewMessage) -> NewMessage {
    NewMessage { conversation: name.to_owned(), ..message }
}

async fn recall(
    store: &TestStore,
    session: SessionId,
    (messages, conversations): (u32, u32),
    prompt: Option<&str>,
) -> Recalled {
    let limits = Limits { messages, conversations, ..Limits::default() };
    let request = RecallRequest { session, limits, prompt: prompt.map(Into::into), within: None };
    store.recall(&request).await.unwrap()
}

fn recent(recalled: &Recalled) -> Vec<u32> {
    recalled.recent.iter().map(|message| message.seq).collect()
}

fn names(recalled: &Recalled) -> Vec<&str> {
    recalled.conversations.iter().map(|one| one.name.as_str()).collect()
}

#[test]
fn the_newest_messages_come_first() {
    on_each(async |store| {
        let id = store.begin().await;
        let messages = (1..=30).map(|n| user(&format!("message {n}"))).collect();
        store.add(id, messages).await.unwrap();
        let recalled = recall(store, id, (4, 3), None).await;
        assert_eq!(recent(&recalled), [30, 29, 28, 27]);
        assert_eq!(recalled.session, store.session(id).await.unwrap());
        assert_eq!(recalled.recent[0].body.whole(), Some("message 30"));
        assert!(recalled.related.is_empty());
        assert_eq!(recent(&recall(store, id, (100, 3), None).await).len(), 30);
    });
}

#[test]
fn an_empty_session_has_nothing_to_recall_and_that_is_no_error() {
    on_each(async |store| {
        let id = store.begin().await;
        let recalled = recall(store, id, (4, 3), Some("anything")).await;
        assert!(recalled.recent.is_empty() && recalled.related.is_empty());
        assert!(recalled.conversations.is_empty());
    });
}

#[test]
fn only_the_most_recent_conversations_are_followed() {
    on_each(async |store| {
        let id = store.begin().await;
        for n in 0..40 {
            let name = ["old", "a", "b"][if n < 10 { 0 } else { 1 + n % 2 }];
            store.add(id, vec![in_conversation(name, user(&n.to_string()))]).await.unwrap();
            if n == 20 || n == 30 {
                store.add(id, vec![in_conversation("old", user("again"))]).await.unwrap();
            }
        }
        // Numbers 22 and 33 are of the old conversation, and are left out.
        let recalled = recall(store, id, (12, 2), None).await;
        assert_eq!(names(&recalled), ["b", "a"]);
        let expected: Vec<u32> = (30..=42).rev().filter(|seq| *seq != 33).collect();
        assert_eq!(recent(&recalled), expected[..12]);
        let one = recall(store, id, (3, 1), None).await;
        assert_eq!((names(&one), recent(&one)), (vec!["b"], vec![42, 40, 38]));
        let all = recall(store, id, (3, 9), None).await;
        assert_eq!(names(&all), ["b", "a", "old"]);
    });
}

#[test]
fn a_conversation_that_is_taken_up_again_is_recent() {
    on_each(async |store| {
        let id = store.begin().await;
        for name in ["a", "b", "c", "a"] {
            store.add(id, vec![in_conversation(name, user(name))]).await.unwrap();
        }
        let recalled = recall(store, id, (10, 2), None).await;
        assert_eq!(names(&recalled), ["a", "c"]);
        assert_eq!(recent(&recalled), [4, 3, 1]);
    });
}

#[test]
fn what_matters_to_the_prompt_comes_from_anywhere() {
    on_each(async |store| {
        let id = store.begin().await;
        let mut messages = vec![in_conversation("first", user("Which port does billing use?"))];
        messages.push(in_conversation("first", assistant("Billing listens on 7431.")));
        messages.extend((0..600).map(|n| assistant(&format!("unrelated step {n}"))));
        store.add(id, messages).await.unwrap();
        for indexed in [false, true] {
            if indexed {
                store.index_all().await;
            }
            let recalled = recall(store, id, (5, 1), Some("what port was billing on?")).await;
            assert_eq!(recalled.unindexed, if indexed { 0 } else { 602 });
            let seqs: Vec<u32> = recalled.related.iter().map(|one| one.message.seq).collect();
            if indexed {
                assert!(seqs.contains(&1) && seqs.contains(&2), "{seqs:?}");
                let others: Vec<&str> =
                    recalled.others.iter().map(|one| one.name.as_str()).collect();
                assert_eq!(others, ["first"]);
            }
            assert!(seqs.is_sorted_by(|a, b| a < b), "none twice: {seqs:?}");
        }
    });
}

#[test]
fn what_the_index_lacks_is_recalled_as_well() {
    on_each(async |store| {
        let id = store.begin().await;
        store.add(id, vec![user("nothing of interest")]).await.unwrap();
        store.index_all().await;
        store.add(id, vec![user("the canary is called Tweety")]).await.unwrap();
        let filler = (0..100).map(|n| assistant(&format!("unrelated step {n}"))).collect();
        store.add(id, filler).await.unwrap();
        let recalled = recall(store, id, (5, 1), Some("name of the canary")).await;
        assert_eq!(recalled.unindexed, 101);
        assert!(recalled.related.iter().any(|related| related.message.seq == 2));
    });
}

#[test]
fn a_prompt_can_be_anything() {
    on_each(async |store| {
        let id = store.begin().await;
        store.add(id, vec![user("one"), user("C++ \"two\" 数据库")]).await.unwrap();
        store.index_all().await;
        let long = "word ".repeat(100_000);
        for prompt in ["", "\"", "* OR NEAR(", "\0", "C++", "数据库", "in May", "31 June", &long]
        {
            recall(store, id, (1, 1), Some(prompt)).await;
        }
    });
}

#[test]
fn the_most_used_agents_are_told() {
    on_each(async |store| {
        let id = store.begin().await;
        for (agent, runs) in [("a", 1), ("b", 3), ("c", 2), ("d", 2), ("e", 5), ("f", 4)] {
            for _ in 0..runs {
                let extras = Extras { agent: Some(agent.into()), ..Extras::default() };
                let answer = NewMessage { extras, ..assistant("done") };
                store.add(id, vec![user("do it"), answer]).await.unwrap();
            }
        }
        let recalled = recall(store, id, (1, 1), None).await;
        let agents: Vec<(&str, u32)> =
            recalled.agents.iter().map(|one| (one.name.as_str(), one.usage_count)).collect();
        assert_eq!(agents, [("e", 5), ("f", 4), ("b", 3), ("c", 2), ("d", 2)]);
        assert_eq!(store.agents(id).await.unwrap(), recalled.agents);
    });
}

#[test]
fn what_is_archived_or_deleted_is_not_recalled_and_what_is_completed_is() {
    on_each(async |store| {
        for (fact, allowed) in [
            (Fact::Moved { to: Status::Completed }, true),
            (Fact::Moved { to: Status::Paused }, true),
            (Fact::Moved { to: Status::Archived }, false),
            (Fact::Deleted, false),
        ] {
            let id = store.begin().await;
            store.note(id, fact).await;
            let request = RecallRequest {
                session: id,
                limits: Limits::default(),
                prompt: None,
                within: None,
            };
            let answer = store.recall(&request).await;
            assert_eq!(answer.is_ok(), allowed);
            assert!(allowed || matches!(answer, Err(Error::Refused(_))));
        }
    });
}
