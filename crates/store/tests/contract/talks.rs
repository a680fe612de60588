//! Turns: how they begin, stream and end, and what agents hold of conversations after that.

use rethread_domain::context::Limits;
use rethread_domain::message::NewMessage;
use rethread_domain::opening::{How, Opening, Settings, Underway, Watermark};
use rethread_domain::session::FactRecord;
use rethread_domain::turn::{Tool, Update};
use rethread_domain::{Fact, SessionId, Status};
use rethread_store::{Append, Appended, Begun, Error, RecallRequest, Result, Within};
use rethread_testkit::{TestStore, assistant, at, user};

use crate::on_each;
use crate::upkeep::{dump, whole};

pub(crate) fn within(conversation: &str, message: NewMessage) -> NewMessage {
    NewMessage { conversation: conversation.to_owned(), ..message }
}

/// What codex holds; number and count are to be filled in.
pub(crate) fn watermark(conversation: &str, native: &str) -> Watermark {
    Watermark {
        conversation: conversation.to_owned(),
        agent: "codex".to_owned(),
        native: native.to_owned(),
        upto: 0,
        beyond: Vec::new(),
        messages: 0,
        in_doubt: None,
        left_at: None,
        settings: Settings { model: Some("large".to_owned()), ..Settings::default() },
        spent_usd: Some(0.1 + 0.2),
    }
}

fn underway(conversation: &str, watermark: Option<Watermark>) -> Underway {
    Underway {
        conversation: conversation.to_owned(),
        agent: "codex".to_owned(),
        model: Some("large".to_owned()),
        request: 0,
        watermark,
        keeps_request: None,
    }
}

/// An append that begins a turn.
pub(crate) fn beginning(id: SessionId, conversation: &str, request: &str) -> Append {
    let begins = Some(underway(conversation, Some(watermark(conversation, "n1"))));
    let request = within(conversation, user(request));
    Append { at: Some(at(1)), begins, ..Append::new(id, vec![request]) }
}

/// An append that ends a turn with an answer that the agent holds.
pub(crate) fn ending(id: SessionId, conversation: &str, answer: &str) -> Append {
    Append {
        at: Some(at(5)),
        ends: Some(conversation.to_owned()),
        holds: Some(watermark(conversation, "n1")),
        ..Append::new(id, vec![within(conversation, assistant(answer))])
    }
}

pub(crate) fn text(text: &str) -> Update {
    Update::Text { text: text.to_owned() }
}

fn is_lost(id: SessionId, answer: &Result<impl Sized>) -> bool {
    matches!(answer, Err(Error::LostClaim(found)) if *found == id)
}

async fn held(store: &TestStore, id: SessionId, conversation: &str) -> Option<(u32, u32)> {
    let watermark = store.watermark(id, conversation, "codex").await.unwrap()?;
    Some((watermark.upto, watermark.messages))
}

async fn begun(store: &TestStore, id: SessionId, conversation: &str) -> Option<Begun> {
    store.begun(id, conversation).await.unwrap()
}

#[test]
fn a_turn_begins_streams_and_ends() {
    on_each(async |store| {
        let id = store.begin().await;
        assert!(begun(store, id, "main").await.is_none());
        store.add(id, vec![user("before"), within("other", user("beside"))]).await.unwrap();
        let written = store.append(beginning(id, "main", "Fix it.")).await.unwrap();
        assert_eq!(written, [Appended { seq: 3, is_new: true }]);
        let tool = Tool { id: "1".into(), output: Some("a\0b".into()), ..Tool::default() };
        let updates = [(at(2), text("I ")), (at(3), Update::Tool(tool)), (at(4), text("did."))];
        store.stream(id, "main", updates[..1].to_vec()).await.unwrap();
        store.stream(id, "main", updates[1..].to_vec()).await.unwrap();
        for store in [store.open_again().await, store.open_again().await] {
            let found = store.begun(id, "main").await.unwrap().unwrap();
            let filled_in = Watermark { upto: 3, messages: 2, ..watermark("main", "n1") };
            let expected = Underway { request: 3, ..underway("main", Some(filled_in)) };
            assert_eq!((found.at, found.what, &found.updates[..]), (at(1), expected, &updates[..]));
            assert_eq!(store.underway().await.unwrap(), [(id, "main".to_owned())]);
        }
        assert_eq!(held(store, id, "main").await, None, "only an answer shows that it has it");
        assert_eq!(store.texts(id).await, ["before", "beside", "Fix it."]);
        store.append(ending(id, "main", "I did.")).await.unwrap();
        assert!(begun(store, id, "main").await.is_none());
        assert_eq!(store.underway().await.unwrap(), []);
        let expected = Watermark { upto: 4, messages: 3, ..watermark("main", "n1") };
        assert_eq!(store.watermark(id, "main", "codex").await.unwrap(), Some(expected));
        assert_eq!(store.texts(id).await, ["before", "beside", "Fix it.", "I did."]);
        store.expect_sound().await;
    });
}

#[test]
fn a_turn_can_begin_once_more_with_the_same_request() {
    on_each(async |store| {
        let id = store.begin().await;
        store.append(beginning(id, "main", "Fix it.")).await.unwrap();
        store.append(beginning(id, "other", "Paint it.")).await.unwrap();
        store.stream(id, "main", vec![(at(2), text("I "))]).await.unwrap();
        let forgot = Fact::Forgot { conversation: "main".into(), agent: "codex".into() };
        let again = |name: &str| Append {
            facts: vec![forgot.clone()],
            at: Some(at(3)),
            begins: Some(Underway { request: 1, ..underway(name, None) }),
            ..Append::new(id, Vec::new())
        };
        assert_eq!(store.append(again("main")).await.unwrap(), []);
        let found = begun(store, id, "main").await.unwrap();
        assert_eq!((found.at, found.what.request, found.what.watermark), (at(1), 1, None));
        assert_eq!(found.updates, []);
        let facts = store.facts(id).await.unwrap();
        assert_eq!(facts.last().unwrap().fact, forgot);
        assert!(begun(store, id, "other").await.unwrap().what.watermark.is_some());
        assert!(is_lost(id, &store.append(again("nowhere")).await));
        assert_eq!(store.facts(id).await.unwrap(), facts);
        store.append(ending(id, "main", "Fixed.")).await.unwrap();
        assert_eq!(store.texts(id).await, ["Fix it.", "Paint it.", "Fixed."]);
        store.expect_sound().await;
    });
}

#[test]
fn a_turn_that_is_not_under_way_can_neither_go_on_nor_end() {
    on_each(async |store| {
        let id = store.begin().await;
        store.append(beginning(id, "other", "Paint it.")).await.unwrap();
        for has_ended in [false, true] {
            if has_ended {
                store.append(beginning(id, "main", "Fix it.")).await.unwrap();
                store.append(ending(id, "main", "Fixed.")).await.unwrap();
            }
            assert!(is_lost(id, &store.stream(id, "main", vec![(at(1), text("a"))]).await));
            let before = whole(store, id).await;
            assert!(is_lost(id, &store.append(ending(id, "main", "Late.")).await));
            assert_eq!(whole(store, id).await, before, "nothing of it is written");
        }
        let nobody = SessionId::generate();
        assert!(is_lost(nobody, &store.stream(nobody, "main", vec![(at(1), text("a"))]).await));
        let none = store.append(ending(nobody, "main", "Late.")).await;
        assert!(matches!(none, Err(Error::NotFound(_))));
        assert_eq!(store.underway().await.unwrap(), [(id, "other".to_owned())]);
        store.expect_sound().await;
    });
}

#[test]
fn an_end_that_is_refused_leaves_its_turn_under_way() {
    on_each(async |store| {
        let id = store.begin().await;
        let known = NewMessage { id: Some("a".into()), ..user("one") };
        store.add(id, vec![known.clone()]).await.unwrap();
        store.append(beginning(id, "main", "Fix it.")).await.unwrap();
        store.stream(id, "main", vec![(at(2), text("I "))]).await.unwrap();
        let other = NewMessage { content: "another".into(), ..known };
        let refused = Append { messages: vec![other], ..ending(id, "main", "") };
        assert!(matches!(store.append(refused).await, Err(Error::IdTaken { .. })));
        assert_eq!(begun(store, id, "main").await.unwrap().updates, [(at(2), text("I "))]);
        store.append(ending(id, "main", "I did.")).await.unwrap();
        store.expect_sound().await;
    });
}

#[test]
fn turns_of_several_conversations_and_sessions_run_beside_each_other() {
    on_each(async |store| {
        let (id, other) = (store.begin().await, store.begin().await);
        for (session, name) in [(id, "a"), (id, "b"), (other, "a")] {
            store.append(beginning(session, name, "Go.")).await.unwrap();
            store.stream(session, name, vec![(at(2), text(name))]).await.unwrap();
        }
        let mut found = store.underway().await.unwrap();
        found.sort();
        let mut expected = vec![(id, "a".to_owned()), (id, "b".into()), (other, "a".into())];
        expected.sort();
        assert_eq!(found, expected);
        store.append(ending(id, "a", "Gone.")).await.unwrap();
        assert!(begun(store, id, "a").await.is_none());
        assert_eq!(begun(store, id, "b").await.unwrap().updates, [(at(2), text("b"))]);
        assert_eq!(begun(store, other, "a").await.unwrap().updates, [(at(2), text("a"))]);
        // A new turn in place of one that nobody ended has nothing of it.
        store.append(beginning(id, "b", "Again.")).await.unwrap();
        let again = begun(store, id, "b").await.unwrap();
        assert_eq!((again.what.request, again.updates), (4, Vec::new()));
        store.expect_sound().await;
    });
}

#[test]
fn the_watermark_leaves_out_what_others_said_while_the_turn_ran() {
    on_each(async |store| {
        let id = store.begin().await;
        store.append(beginning(id, "main", "Go.")).await.unwrap();
        store.add(id, vec![within("other", user("beside"))]).await.unwrap();
        store.append(ending(id, "main", "Gone.")).await.unwrap();
        let mark = async || {
            let held = store.watermark(id, "main", "codex").await.unwrap().unwrap();
            (held.upto, held.beyond, held.messages)
        };
        assert_eq!(mark().await, (3, vec![], 2), "another conversation is no matter");
        store.append(beginning(id, "main", "Go on.")).await.unwrap();
        store.add(id, vec![user("a"), within("other", user("beside")), user("b")]).await.unwrap();
        let answers = ["1", "2"].map(|text| within("main", assistant(text))).to_vec();
        store.append(Append { messages: answers, ..ending(id, "main", "") }).await.unwrap();
        assert_eq!(mark().await, (4, vec![(8, 9)], 5));
        let request = RecallRequest {
            session: id,
            limits: Limits::default(),
            prompt: None,
            within: Some(Within {
                conversation: "main".into(),
                after: 4,
                before: 10,
                but: vec![(8, 9)],
                known: 5,
            }),
        };
        let recalled = store.recall(&request).await.unwrap();
        let seqs: Vec<u32> = recalled.recent.iter().map(|message| message.seq).collect();
        assert_eq!((seqs, recalled.messages, recalled.is_whole), (vec![7, 5], 2, true));
        // All of it is told with the next request.
        store.append(beginning(id, "main", "And now?")).await.unwrap();
        store.append(ending(id, "main", "Done.")).await.unwrap();
        assert_eq!(mark().await, (11, vec![], 9));
        // Who says nothing holds the request.
        store.append(beginning(id, "main", "Well?")).await.unwrap();
        store.add(id, vec![user("c")]).await.unwrap();
        let nothing = Append { messages: Vec::new(), ..ending(id, "main", "") };
        store.append(nothing).await.unwrap();
        assert_eq!(mark().await, (12, vec![], 10));
        store.expect_sound().await;
    });
}

#[test]
fn the_watermark_counts_the_messages_of_its_conversation_only() {
    on_each(async |store| {
        let id = store.begin().await;
        for round in 1..=3 {
            for (place, name) in ["a", "b", "c"].into_iter().enumerate() {
                store.append(beginning(id, name, "Go.")).await.unwrap();
                let answers = vec![within("a", assistant("1")), within(name, assistant("2"))];
                let end = Append { messages: answers, ..ending(id, name, "") };
                let newest = store.append(end).await.unwrap().last().unwrap().seq;
                let all = store.all(id).await;
                let own = all.iter().filter(|one| one.conversation == name).count();
                let expected = (newest, u32::try_from(own).unwrap());
                assert_eq!(held(store, id, name).await, Some(expected), "{round}, {place}");
            }
        }
        // All that an agent has been told is one fact, with no message of its own.
        let told = Append { holds: Some(watermark("b", "n2")), ..Append::new(id, Vec::new()) };
        store.append(told).await.unwrap();
        let expected = Watermark { upto: 24, messages: 6, ..watermark("b", "n2") };
        assert_eq!(store.watermark(id, "b", "codex").await.unwrap(), Some(expected));
        assert_eq!(store.watermark(id, "b", "claude").await.unwrap(), None);
        assert_eq!(store.watermark(id, "d", "codex").await.unwrap(), None);
        store.expect_sound().await;
    });
}

#[test]
fn what_an_agent_forgot_it_does_not_hold() {
    on_each(async |store| {
        let id = store.begin().await;
        for name in ["a", "b"] {
            store.append(beginning(id, name, "Go.")).await.unwrap();
            store.append(ending(id, name, "Gone.")).await.unwrap();
        }
        store.note(id, Fact::Forgot { conversation: "a".into(), agent: "claude".into() }).await;
        assert_eq!(held(store, id, "a").await, Some((2, 2)), "another agent forgot it");
        let facts = vec![Fact::Forgot { conversation: "a".into(), agent: "codex".into() }];
        store.append(Append { facts, ..Append::new(id, Vec::new()) }).await.unwrap();
        for rebuilt in [false, true] {
            assert_eq!(held(store, id, "a").await, None, "rebuilt: {rebuilt}");
            assert_eq!(held(store, id, "b").await, Some((4, 2)), "rebuilt: {rebuilt}");
            store.expect_sound().await;
            store.rebuild().await.unwrap();
        }
    });
}

#[test]
fn what_agents_hold_is_the_same_after_a_rebuild_a_purge_and_elsewhere_but_not_in_a_fork() {
    on_each(async |store| {
        let id = store.begin().await;
        for name in ["a", "b", "a"] {
            store.append(beginning(id, name, "Go.")).await.unwrap();
            store.append(ending(id, name, "Gone.")).await.unwrap();
        }
        let fact =
            Fact::Holds(Watermark { agent: "claude".into(), upto: 3, ..watermark("a", "c") });
        store.note(id, fact).await;
        let all = async |store: &TestStore, id| {
            let mut found = Vec::new();
            for (name, agent) in [("a", "codex"), ("b", "codex"), ("a", "claude")] {
                found.push(store.watermark(id, name, agent).await.unwrap());
            }
            found
        };
        let before = all(store, id).await;
        let marks = |found: &[Option<Watermark>]| -> Vec<Option<u32>> {
            found.iter().map(|one| one.as_ref().map(|one| one.upto)).collect()
        };
        assert_eq!(marks(&before), [Some(6), Some(4), Some(3)]);
        store.rebuild().await.unwrap();
        assert_eq!(all(store, id).await, before);
        store.purge(id, 1, at(50)).await.unwrap();
        assert_eq!(all(store, id).await, before);
        store.expect_sound().await;
        for seq in [6, 3] {
            let fork = store.fork(id, seq, SessionId::generate(), at(60)).await.unwrap().id;
            assert_eq!(all(store, fork).await, [None, None, None]);
        }
        for target in TestStore::each().await {
            target.take_in(dump(store, id).await).await.unwrap();
            assert_eq!(all(&target, id).await, before);
            assert_eq!(whole(&target, id).await, whole(store, id).await);
            target.expect_sound().await;
        }
        store.expect_sound().await;
    });
}

#[test]
fn the_end_of_a_turn_is_let_in_whatever_became_of_the_session_and_wakes_nobody() {
    on_each(async |store| {
        let moved = |to| Fact::Moved { to };
        for (fact, status) in [
            (moved(Status::Paused), Status::Paused),
            (moved(Status::Completed), Status::Completed),
            (moved(Status::Archived), Status::Archived),
            (Fact::Deleted, Status::Active),
        ] {
            let id = store.begin().await;
            store.append(beginning(id, "main", "Go.")).await.unwrap();
            let before = store.note(id, fact).await;
            store.stream(id, "main", vec![(at(2), text("Go"))]).await.unwrap();
            store.append(ending(id, "main", "Gone.")).await.unwrap();
            let after = store.session(id).await.unwrap();
            assert_eq!((after.status(), after.deleted_at), (status, before.deleted_at));
            assert_eq!(store.texts(id).await, ["Go.", "Gone."]);
            assert_eq!(held(store, id, "main").await, Some((2, 2)));
            let is_paused = status == Status::Paused;
            let next = store.append(beginning(id, "main", "Go on.")).await;
            assert_eq!(next.is_ok(), is_paused, "{status}");
            assert!(is_paused || matches!(next, Err(Error::Refused(_))));
            let woken = if is_paused { Status::Active } else { status };
            assert_eq!(store.session(id).await.unwrap().status(), woken);
        }
        store.expect_sound().await;
    });
}

#[test]
fn facts_of_an_append_come_with_it_or_not_at_all() {
    on_each(async |store| {
        let id = store.begin().await;
        let forgot = Fact::Forgot { conversation: "main".into(), agent: "codex".into() };
        let append = Append { facts: vec![forgot.clone()], ..beginning(id, "main", "Go.") };
        store.append(append).await.unwrap();
        let facts = store.facts(id).await.unwrap();
        let last = facts.last().unwrap();
        assert_eq!((last.after, last.at, &last.fact), (1, at(1), &forgot));
        let late = Append { facts: vec![forgot], ..ending(id, "other", "Late.") };
        assert!(is_lost(id, &store.append(late).await));
        assert_eq!(store.facts(id).await.unwrap(), facts);
        store.expect_sound().await;
    });
}

#[test]
fn an_erased_session_leaves_no_turn_and_nothing_that_was_streamed_or_held() {
    on_each(async |store| {
        let word = "hunter2xyzzy";
        let (id, other) = (store.begin().await, store.begin().await);
        for session in [id, other] {
            store.append(beginning(session, "a", "Go.")).await.unwrap();
            let holds = Some(watermark("a", if session == id { word } else { "n1" }));
            store.append(Append { holds, ..ending(session, "a", "Gone.") }).await.unwrap();
            store.append(beginning(session, "b", "Go.")).await.unwrap();
        }
        store.stream(id, "b", vec![(at(2), text(word))]).await.unwrap();
        store.ask_prompt(id, "b", word, at(3)).await.unwrap();
        assert!(store.holds(word));
        store.erase(id).await.unwrap();
        assert_eq!(store.underway().await.unwrap(), [(other, "b".to_owned())]);
        assert_eq!(store.watermark(id, "a", "codex").await.unwrap(), None);
        assert_eq!(held(store, other, "a").await, Some((2, 2)));
        store.compact().await.unwrap();
        assert!(!store.holds(word));
        store.expect_sound().await;
    });
}

#[test]
fn costs_of_any_length_are_held_as_they_are() {
    on_each(async |store| {
        let id = store.begin().await;
        store.add(id, vec![user("one")]).await.unwrap();
        for n in 1..300_u32 {
            let spent_usd = Some(
                f64::from(n * n).sqrt().ln_1p() / 7.0
                    * 10_f64.powi(i32::try_from(n % 12).unwrap() - 8),
            );
            let agent = format!("agent-{n}");
            let holds = Some(Watermark { agent, spent_usd, ..watermark("main", "n") });
            store.append(Append { holds, ..Append::new(id, Vec::new()) }).await.unwrap();
        }
        store.rebuild().await.unwrap();
        store.expect_sound().await;
    });
}

#[test]
fn how_it_was_opened_is_found_by_what_was_said_before() {
    on_each(async |store| {
        let id = store.begin().await;
        let opened = |n: u64| {
            let (conversation, agent) = ("main".to_owned(), "codex".to_owned());
            let how = How::Retold;
            Fact::Attached(Opening { conversation, agent, how, why: None, ms: n, native: None })
        };
        for n in 0..40 {
            // Some messages have none after them, some have two, and other facts are in between.
            let mut facts: Vec<Fact> = (0..n % 3).map(|more| opened(n * 10 + more)).collect();
            facts.push(Fact::Moved { to: Status::Active });
            let append = Append { facts, at: Some(at(1)), ..Append::new(id, vec![user("x")]) };
            store.append(append).await.unwrap();
        }
        let all: Vec<(u32, FactRecord)> = (1..).zip(store.facts(id).await.unwrap()).collect();
        for (from, to) in
            [(0, u32::MAX), (0, 1), (0, 0), (1, 2), (5, 5), (7, 23), (39, 41), (40, 99)]
        {
            let own = all.iter().filter(|(_, record)| {
                matches!(record.fact, Fact::Attached(_)) && (from..to).contains(&record.after)
            });
            let own: Vec<_> = own.cloned().collect();
            assert_eq!(store.attached(id, from..to).await.unwrap(), own, "{from}..{to}");
        }
        assert_eq!(store.attached(id, 0..u32::MAX).await.unwrap().len(), 39);
    });
}
