//! A purged text is nowhere any more: not in the log, not in what was made of it, not in the file.

use rethread_domain::context::Limits;
use rethread_domain::conversation::TitleFrom;
use rethread_domain::message::{Extras, NewMessage};
use rethread_domain::search::Filter;
use rethread_domain::{Fact, SessionId};
use rethread_store::{Error, Grant, Purging, RecallRequest, Search};
use rethread_testkit::{TestStore, Texts, assistant, at, user};
use rethread_workflow::{
    Decision, DecisionKind, Ended, Event, Outcome, Phase, Question, Source, TestState, Trigger,
    Used,
};

use crate::on_each;
use crate::workflows::create;

/// Stands in nothing else.
const SECRET: &str = "hunter2xyzzy";

async fn hits(store: &TestStore) -> usize {
    store.search(&Search::new(SECRET, Filter::default(), 10)).await.unwrap().hits.len()
}

fn secret() -> NewMessage {
    user(&format!("Decided: the password for the error log is {SECRET} because we agreed on it."))
}

/// Fails if the secret can be seen anywhere, or is in the file.
async fn expect_gone(store: &TestStore, ids: &[SessionId]) {
    for id in ids {
        let seen = format!(
            "{:?} {:?} {:?} {:?}",
            store.session(*id).await.unwrap(),
            store.conversations(*id).await.unwrap(),
            store.facts(*id).await.unwrap(),
            store.all(*id).await,
        );
        assert!(!seen.contains(SECRET), "{seen}");
        let request = RecallRequest {
            session: *id,
            limits: Limits::default(),
            prompt: Some(SECRET.to_owned()),
            within: None,
        };
        let recalled = format!("{:?}", store.recall(&request).await.unwrap().related);
        assert!(!recalled.contains(SECRET), "{recalled}");
        let context = store.context(*id, Some("what is the password?")).await;
        assert!(!context.contains(SECRET), "{context}");
    }
    assert_eq!(hits(store).await, 0);
    assert!(!store.holds(SECRET), "it is still in the file");
    store.expect_sound().await;
    store.index_all().await;
    store.rebuild().await.unwrap();
    store.expect_sound().await;
    assert_eq!(hits(store).await, 0);
    assert!(!store.holds(SECRET), "it came back into the file");
}

#[test]
fn a_purged_text_is_gone_from_everywhere() {
    on_each(async |store| {
        for indexed in [false, true] {
            let id = store.begin().await;
            store
                .add(id, vec![user("Hello there"), secret(), assistant("Thank you")])
                .await
                .unwrap();
            if indexed {
                store.index_all().await;
                assert!(hits(store).await > 0);
            }
            assert!(store.holds(SECRET));
            store.purge(id, 2, at(50)).await.unwrap();
            assert_eq!(store.texts(id).await, ["Hello there", "", "Thank you"]);
            assert_eq!(store.all(id).await[1].purged_at, Some(at(50)));
            expect_gone(store, &[id]).await;
        }
    });
}

#[test]
fn a_title_or_summary_made_of_it_goes_too() {
    on_each(async |store| {
        let id = store.begin().await;
        store.add(id, vec![secret(), assistant("I will keep that in mind.")]).await.unwrap();
        let more = (0..30).map(|n| user(&format!("Then we fixed error number {n} in the shop.")));
        store.add(id, more.collect()).await.unwrap();
        store.engine().prune(id, 5).await.unwrap();
        store.index_all().await;
        let session = store.session(id).await.unwrap();
        assert!(session.title.unwrap().contains(SECRET));
        assert!(session.summary.unwrap().contains(SECRET));
        let conversation = store.conversations(id).await.unwrap().remove(0);
        assert!(conversation.summary.unwrap().text.contains(SECRET));
        store.purge(id, 1, at(50)).await.unwrap();
        let session = store.session(id).await.unwrap();
        assert_eq!(session.title.as_deref(), Some("Then we fixed error number 0 in the shop."));
        assert!(session.summary.unwrap().contains("we fixed error"), "the rest of it stays");
        expect_gone(store, &[id]).await;
    });
}

#[test]
fn a_purge_reaches_every_session_that_shares_the_message() {
    on_each(async |store| {
        let source = store.begin().await;
        store.add(source, vec![secret(), user("two"), user("three")]).await.unwrap();
        let fork = |of, seq| store.fork(of, seq, SessionId::generate(), at(60));
        let first = fork(source, 2).await.unwrap().id;
        store.add(first, vec![user("own")]).await.unwrap();
        let second = fork(first, 3).await.unwrap().id;
        store.engine().prune(second, 1).await.unwrap();
        store.index_all().await;
        store.purge(second, 1, at(70)).await.unwrap();
        assert_eq!(store.texts(source).await, ["", "two", "three"]);
        assert_eq!(store.texts(first).await, ["", "two", "own"]);
        expect_gone(store, &[source, first, second]).await;
    });
}

#[test]
fn a_purge_works_on_what_is_left_of_an_erased_session() {
    on_each(async |store| {
        let source = store.begin().await;
        store.add(source, vec![user("one"), secret(), user("three")]).await.unwrap();
        let fork = store.fork(source, 3, SessionId::generate(), at(60)).await.unwrap().id;
        store.erase(source).await.unwrap();
        store.purge(fork, 2, at(70)).await.unwrap();
        expect_gone(store, &[fork]).await;
    });
}

#[test]
fn a_long_text_and_its_extras_are_purged() {
    on_each(async |store| {
        let id = store.begin().await;
        let mut extras = Extras { agent: Some("codex".into()), ..Extras::default() };
        extras.tool_calls = Some(serde_json::json!([{"args": SECRET}]));
        extras.other.insert("note".into(), SECRET.into());
        let long = format!("{SECRET} {} {SECRET}", Texts::new(4).text(100_000));
        let message = NewMessage { extras, ..assistant(&long) };
        store.add(id, vec![message, user("two")]).await.unwrap();
        store.index_all().await;
        store.purge(id, 1, at(50)).await.unwrap();
        assert_eq!(store.usage().await.unwrap().blob_bytes, 0);
        assert_eq!(store.all(id).await[0].extras.agent.as_deref(), Some("codex"));
        expect_gone(store, &[id]).await;
    });
}

#[test]
fn one_use_of_a_long_text_less_leaves_the_others_whole() {
    on_each(async |store| {
        let (a, b) = (store.begin().await, store.begin().await);
        let long = Texts::new(5).text(50_000);
        store.add(a, vec![user(&long)]).await.unwrap();
        store.add(b, vec![user(&long)]).await.unwrap();
        store.purge(a, 1, at(1)).await.unwrap();
        assert_eq!(store.texts(b).await, [long]);
        store.erase(b).await.unwrap();
        assert_eq!(store.usage().await.unwrap().blob_bytes, 0);
        store.expect_sound().await;
    });
}

#[test]
fn a_purge_of_what_is_not_there_is_refused_and_twice_is_as_good_as_once() {
    on_each(async |store| {
        let id = store.begin().await;
        store.add(id, vec![user("one")]).await.unwrap();
        for seq in [0, 2] {
            let refused = store.purge(id, seq, at(1)).await;
            assert!(matches!(refused, Err(Error::NoMessage(_, found)) if found == seq));
        }
        store.purge(id, 1, at(1)).await.unwrap();
        store.purge(id, 1, at(2)).await.unwrap();
        store.expect_sound().await;
    });
}

#[test]
fn a_purged_message_keeps_its_number_and_its_id() {
    on_each(async |store| {
        let id = store.begin().await;
        let known = |text: &str| NewMessage { id: Some("a".into()), ..user(text) };
        store.add(id, vec![known("one"), user("two")]).await.unwrap();
        store.purge(id, 1, at(1)).await.unwrap();
        let again = store.add(id, vec![known("one")]).await.unwrap();
        assert_eq!(
            (again[0].seq, again[0].is_new),
            (1, false),
            "sent again, it does not come back"
        );
        assert_eq!(store.texts(id).await, ["", "two"]);
        assert_eq!(store.add(id, vec![user("three")]).await.unwrap()[0].seq, 3);
    });
}

#[test]
fn a_title_that_a_person_gave_stays() {
    on_each(async |store| {
        let id = store.begin().await;
        store.add(id, vec![secret()]).await.unwrap();
        store.note(id, Fact::Titled { title: "Mine".into(), from: TitleFrom::Person }).await;
        store.purge(id, 1, at(1)).await.unwrap();
        assert_eq!(store.session(id).await.unwrap().title.as_deref(), Some("Mine"));
        expect_gone(store, &[id]).await;
    });
}

/// Everything that a workflow can quote of the message that [`secret`] makes, which is the second one of a session.
fn quoting(session: SessionId) -> Vec<Event> {
    let task = || "one".to_owned();
    let why = || format!("the agent said: the password for the error log is {SECRET}");
    let source = Source { by: "model".to_owned(), session: Some(session), messages: vec![2] };
    let question = Question::TaskFailed { task: task(), why: why() };
    let tests = TestState {
        phase: Phase::Red,
        failing: vec!["login".to_owned()],
        output: format!("running 1 test\nrefused: {SECRET}\ntest login ... FAILED\n"),
        ..TestState::default()
    };
    vec![
        Event::TaskBegan { task: task(), attempt: 1, session, agent: "codex".to_owned() },
        Event::Decided(Decision {
            id: "d1".to_owned(),
            at: at(1),
            task: Some(task()),
            kind: DecisionKind::Approach,
            what: "Signs in with the shared account".to_owned(),
            why: String::new(),
            alternatives: Vec::new(),
            source,
        }),
        Event::TaskEnded(Ended {
            task: task(),
            attempt: 1,
            outcome: Outcome::Failed { why: why() },
            used: Used::default(),
            tests: Some(tests),
        }),
        Event::Asked(question.clone()),
        Event::Answered { question, yes: true, why: Some("try again".to_owned()), by: None },
        Event::PauseAsked { trigger: Trigger::Pause, reason: why(), now: true },
    ]
}

#[test]
fn what_workflows_quote_of_it_goes_too() {
    on_each(async |store| {
        let id = store.begin().await;
        store.add(id, vec![user("Hello there"), secret(), assistant("Thank you")]).await.unwrap();
        let workflow = create(&**store).await;
        store.append_events(workflow, 1, None, quoting(id), at(2)).await.unwrap();
        // Somebody else has the workflow in memory.
        let other = store.open_again().await;
        assert!(
            format!("{:?}", other.workflow(workflow).await.unwrap()).contains("shared account")
        );
        store.purge(id, 2, at(50)).await.unwrap();
        for reader in [&**store, &*other] {
            let events = reader.workflow_events(workflow, 0).await.unwrap();
            let state = reader.workflow(workflow).await.unwrap();
            let seen = format!("{events:?} {state:?}");
            assert!(!seen.contains(SECRET) && !seen.contains("shared account"), "{seen}");
            assert!(seen.contains("[purged]") && seen.contains("test login ... FAILED"), "{seen}");
            assert_eq!(state.questions, [], "the question and its answer are still the same");
            let told = Event::Purged { session: id, message: 2 };
            assert_eq!(events.last().map(|record| &record.event), Some(&told));
        }
        assert!(!store.holds("shared account"));
        expect_gone(store, &[id]).await;
        store.expect_sound().await;
    });
}

#[test]
fn a_workflow_that_quotes_nothing_of_it_stays_as_it_is() {
    on_each(async |store| {
        let id = store.begin().await;
        store.add(id, vec![user("Hello there"), secret()]).await.unwrap();
        let (workflow, other) = (create(&**store).await, create(&**store).await);
        let began = quoting(id).remove(0);
        store.append_events(workflow, 1, None, vec![began], at(2)).await.unwrap();
        let before = [workflow, other].map(|id| store.workflow_events(id, 0));
        let before = futures::future::join_all(before).await;
        store.purge(id, 2, at(50)).await.unwrap();
        for (id, before) in [workflow, other].into_iter().zip(before) {
            assert_eq!(store.workflow_events(id, 0).await.unwrap(), before.unwrap());
        }
        store.expect_sound().await;
    });
}

#[test]
fn a_purge_takes_lasting_answers_along_that_name_what_was_purged() {
    on_each(async |store| {
        let id = store.begin().await;
        let command = "curl -u anna:heron-42 https://example.org";
        store.add(id, vec![user(&format!("May it run {command} in /work?"))]).await.unwrap();
        let session = store.session(id).await.unwrap();
        let grant = |what: &str| Grant {
            user: session.user.clone(),
            project: session.project.clone(),
            agent: "codex".into(),
            what: what.to_owned(),
            allowed: true,
        };
        let about = |command: &str| {
            let what = serde_json::json!({"kind": "execute", "command": command, "in": "/work"});
            format!("exactly {what}")
        };
        for what in [about(command), about("cargo test"), format!("exactly {command}")] {
            store.grant(grant(&what), at(2)).await.unwrap();
        }
        store.purge(id, 1, at(50)).await.unwrap();
        assert_eq!(store.grants().await.unwrap(), [grant(&about("cargo test"))]);
        assert!(!store.holds("heron-42"));
        store.expect_sound().await;
    });
}

#[test]
fn a_purge_that_has_begun_is_known_until_it_has_ended() {
    on_each(async |store| {
        let id = store.begin().await;
        store.add(id, (1..=12).map(|n| user(&format!("number {n}"))).collect()).await.unwrap();
        let fork = store.fork(id, 12, SessionId::generate(), at(1)).await.unwrap().id;
        let first = Purging { id, seq: 1, renames: vec![fork] };
        let last = Purging { id, seq: 12, renames: Vec::new() };
        for purging in [&first, &last] {
            store.begin_purge(purging.clone(), at(2)).await.unwrap();
        }
        assert_eq!(store.purges_begun().await.unwrap(), [first.clone(), last.clone()]);
        store.end_purge(first).await.unwrap();
        assert_eq!(store.purges_begun().await.unwrap(), std::slice::from_ref(&last));
        store.end_purge(last).await.unwrap();
        assert_eq!(store.purges_begun().await.unwrap(), []);
        store.expect_sound().await;
    });
}
