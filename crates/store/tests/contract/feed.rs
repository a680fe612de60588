//! The feed: a line for each change, in the order of commits, and nothing that is not there.

use std::collections::BTreeMap;
use std::path::Path;

use futures::executor::block_on;
use rethread_domain::conversation::TitleFrom;
use rethread_domain::feed::{FeedEvent, Kind};
use rethread_domain::message::NewMessage;
use rethread_domain::{Fact, SessionId, Status};
use rethread_store::{Append, FeedPage, Store, StoreUrl, open};
use rethread_testkit::{TestStore, assistant, at, beginning, until, user};
use rethread_workflow::{Ended, Event, Outcome, TaskSpec, Used, WorkflowId};

use crate::on_each;
use crate::talks::{beginning as turn_begins, ending};
use crate::upkeep::dump;
use crate::workflows::{charter, create, told};

/// Every line there is.
pub(crate) async fn whole_feed(store: &dyn Store) -> Vec<FeedEvent> {
    let mut all = Vec::new();
    let mut after = 0;
    loop {
        let page = store.feed(after, None, 7).await.unwrap();
        if page.upto == after {
            assert_eq!((page.events, store.feed_head().await.unwrap()), (vec![], after));
            return all;
        }
        all.extend(page.events);
        after = page.upto;
    }
}

/// Numbers have no gaps, and the messages of each session that is there are told once each, in order.
pub(crate) async fn expect_whole(store: &dyn Store) {
    let all = whole_feed(store).await;
    let numbers: Vec<u64> = all.iter().map(|event| event.no).collect();
    assert_eq!(numbers, (1..=all.len() as u64).collect::<Vec<_>>());
    // Up to which message, and whether that is where it began.
    let mut told: BTreeMap<SessionId, (u32, bool)> = BTreeMap::new();
    for event in all {
        let Some(id) = event.session.filter(|_| event.workflow.is_none()) else { continue };
        match event.kind {
            Kind::SessionStarted => {
                // A fork has what it shares from the beginning; one that was taken in shares nothing.
                let shared = match store.session(id).await {
                    Ok(session) => session.forked_from.map_or(0, |origin| origin.seq),
                    Err(_) => 0,
                };
                assert_eq!(told.insert(id, (shared, true)), None, "{event:?}");
            }
            Kind::MessagesAppended => {
                let (before, is_new) = told.insert(id, (event.last, false)).unwrap();
                let is_taken_in = is_new && event.first == 1;
                let is_gone = store.session(id).await.is_err();
                assert!(is_gone || is_taken_in || event.first == before + 1, "{event:?}");
                assert!(event.first <= event.last, "{event:?}");
            }
            Kind::SessionErased => assert!(told.remove(&id).is_some(), "{event:?}"),
            _ => assert!(told.contains_key(&id), "{event:?}"),
        }
    }
    for (id, (last, _)) in told {
        assert_eq!(store.session(id).await.unwrap().last_seq, last);
    }
}

type Line = (Kind, u32, u32);

/// What is told from here on, in short.
async fn lines_after(store: &TestStore, after: u64) -> Vec<Line> {
    let page = store.feed(after, None, 100).await.unwrap();
    page.events.iter().map(|event| (event.kind, event.first, event.last)).collect()
}

/// What one thing that is done tells.
async fn told_by<T>(store: &TestStore, done: impl Future<Output = T>) -> Vec<Line> {
    let before = store.feed_head().await.unwrap();
    done.await;
    lines_after(store, before).await
}

#[test]
fn a_line_tells_what_where_whose_and_when() {
    on_each(async |store| {
        let id = SessionId::generate();
        store.start(id, beginning(), at(3)).await.unwrap();
        let messages = ["one", "two"].map(|text| NewMessage { at: at(5), ..user(text) });
        store.add(id, messages.to_vec()).await.unwrap();
        let line = |no, minute, kind, last| FeedEvent {
            no,
            at: at(minute),
            kind,
            user: beginning().user,
            session: Some(id),
            workflow: None,
            first: 1,
            last,
        };
        let events =
            vec![line(1, 3, Kind::SessionStarted, 1), line(2, 5, Kind::MessagesAppended, 2)];
        assert_eq!(store.feed(0, None, 9).await.unwrap(), FeedPage { events, upto: 2 });
    });
}

#[test]
fn an_append_is_one_line_however_many_messages_and_what_is_known_is_none() {
    on_each(async |store| {
        let id = store.begin().await;
        let with_id = NewMessage { id: Some("same".into()), ..user("again") };
        let review = NewMessage { conversation: "review".into(), ..assistant("other") };
        let first = vec![user("a"), review, with_id.clone()];
        assert_eq!(
            told_by(store, store.add(id, first)).await,
            [(Kind::MessagesAppended, 1, 3)],
            "a new conversation needs no line of its own"
        );
        assert_eq!(told_by(store, store.add(id, vec![with_id.clone()])).await, []);
        assert_eq!(
            told_by(store, store.add(id, vec![with_id, user("b")])).await,
            [(Kind::MessagesAppended, 4, 4)]
        );
        let refused = store.add(SessionId::generate(), vec![user("a")]).await;
        assert!(refused.is_err());
        assert_eq!(store.feed_head().await.unwrap(), 3);
    });
}

#[test]
fn facts_are_told_by_what_they_change() {
    on_each(async |store| {
        let id = store.begin().await;
        let moved = |to| Fact::Moved { to };
        let titled = |from| Fact::Titled { title: "A title".into(), from };
        for (fact, kind) in [
            (moved(Status::Paused), Kind::SessionPaused),
            (moved(Status::Active), Kind::SessionResumed),
            (moved(Status::Completed), Kind::SessionCompleted),
            (moved(Status::Archived), Kind::SessionArchived),
            (moved(Status::Completed), Kind::SessionChanged),
            (titled(TitleFrom::Person), Kind::SessionRenamed),
            (titled(TitleFrom::Agent), Kind::SessionChanged),
            (Fact::Rehomed { project: "/b".into() }, Kind::SessionChanged),
            (Fact::Deleted, Kind::SessionDeleted),
            (Fact::Undeleted, Kind::SessionRestored),
        ] {
            let no = store.session(id).await.unwrap().facts + 1;
            assert_eq!(told_by(store, store.note(id, fact)).await, [(kind, no, no)]);
        }
        let facts = store.session(id).await.unwrap().facts;
        let gone = told_by(store, store.erase(id)).await;
        assert_eq!(gone, [(Kind::SessionErased, facts, facts)]);
        expect_whole(&**store).await;
    });
}

#[test]
fn what_is_said_wakes_and_both_are_told() {
    on_each(async |store| {
        let id = store.begin().await;
        store.note(id, Fact::Moved { to: Status::Paused }).await;
        assert_eq!(
            told_by(store, store.add(id, vec![user("on")])).await,
            [(Kind::SessionResumed, 3, 3), (Kind::MessagesAppended, 1, 1)]
        );
    });
}

#[test]
fn a_turn_is_told_at_both_ends_even_where_nothing_was_answered() {
    on_each(async |store| {
        let id = store.begin().await;
        let begun = told_by(store, store.append(turn_begins(id, "main", "do it"))).await;
        assert_eq!(begun, [(Kind::MessagesAppended, 1, 1)]);
        let ended = told_by(store, store.append(ending(id, "main", "done"))).await;
        assert_eq!(ended, [(Kind::MessagesAppended, 2, 2)], "what the agent holds is no news");
        store.append(turn_begins(id, "main", "and this")).await.unwrap();
        let silent = Append { ends: Some("main".into()), ..Append::new(id, Vec::new()) };
        let facts = store.session(id).await.unwrap().facts;
        let told = told_by(store, store.append(silent)).await;
        assert_eq!(told, [(Kind::SessionChanged, facts, facts)]);
    });
}

#[test]
fn facts_that_come_with_messages_are_told_where_they_say_more() {
    on_each(async |store| {
        let id = store.begin().await;
        let titled = Fact::Titled { title: "By the agent".into(), from: TitleFrom::Agent };
        let rehomed = Fact::Rehomed { project: "/b".into() };
        let facts = vec![rehomed, titled];
        let with = Append { facts: facts.clone(), ..Append::new(id, vec![user("a")]) };
        assert_eq!(
            told_by(store, store.append(with)).await,
            [(Kind::MessagesAppended, 1, 1), (Kind::SessionRenamed, 4, 4)]
        );
        let without = Append { facts, ..Append::new(id, Vec::new()) };
        assert_eq!(
            told_by(store, store.append(without)).await,
            [(Kind::SessionChanged, 5, 5), (Kind::SessionRenamed, 6, 6)]
        );
    });
}

#[test]
fn forks_and_what_is_taken_in_begin_with_what_they_have() {
    on_each(async |store| {
        let id = store.begin().await;
        store.add(id, vec![user("a"), assistant("b"), user("c")]).await.unwrap();
        store.note(id, Fact::Titled { title: "T".into(), from: TitleFrom::Person }).await;
        let fork = SessionId::generate();
        let forked = told_by(store, store.fork(id, 2, fork, at(9))).await;
        assert_eq!(forked, [(Kind::SessionStarted, 1, 1)]);
        let more = told_by(store, store.add(fork, vec![user("d")])).await;
        assert_eq!(more, [(Kind::MessagesAppended, 3, 3)]);
        let log = dump(store, id).await;
        store.erase(id).await.unwrap();
        let taken = told_by(store, store.take_in(log.clone())).await;
        assert_eq!(taken, [(Kind::SessionStarted, 1, 1), (Kind::MessagesAppended, 1, 3)]);
        let head = store.feed_head().await.unwrap();
        store.take_in(log).await.unwrap_err();
        assert_eq!(store.feed_head().await.unwrap(), head, "what is refused is not told");
        expect_whole(&**store).await;
    });
}

#[test]
fn a_purge_is_told_to_all_who_share_the_message() {
    on_each(async |store| {
        let id = store.begin().await;
        store.add(id, vec![user("secret")]).await.unwrap();
        let fork = SessionId::generate();
        store.fork(id, 1, fork, at(9)).await.unwrap();
        let before = store.feed_head().await.unwrap();
        store.purge(id, 1, at(10)).await.unwrap();
        let page = store.feed(before, None, 9).await.unwrap();
        let told: Vec<_> = page.events.iter().map(|event| (event.kind, event.session)).collect();
        assert_eq!(told, [id, fork].map(|id| (Kind::SessionChanged, Some(id))));
    });
}

#[test]
fn workflows_are_told_with_the_sessions_of_their_tasks() {
    on_each(async |store| {
        let (id, session) = (WorkflowId::generate(), SessionId::generate());
        let created = vec![Event::Created(charter("ben", "/w"))];
        store.create_workflow(id, created, at(1)).await.unwrap();
        let spec = TaskSpec { id: "one".into(), ..TaskSpec::default() };
        let events = vec![
            Event::Planned { tasks: vec![spec] },
            told(1),
            Event::Began { branch: None, commit: None },
            Event::TaskBegan { task: "one".into(), attempt: 1, session, agent: "codex".into() },
            Event::Warned { task: "one".into(), context_use: 0.8 },
            Event::TaskEnded(Ended {
                task: "one".into(),
                attempt: 1,
                outcome: Outcome::Completed,
                used: Used::default(),
                tests: None,
            }),
            Event::Blocked,
            Event::Unblocked,
            Event::Completed,
        ];
        store.append_events(id, 1, None, events, at(2)).await.unwrap();
        store.erase_workflow(id).await.unwrap();
        let page = store.feed(0, Some("ben"), 50).await.unwrap();
        assert!(page.events.iter().all(|event| event.workflow == Some(id)));
        let lines: Vec<_> = page
            .events
            .iter()
            .map(|event| (event.kind, event.session, event.first, event.last))
            .collect();
        let of = Some(session);
        assert_eq!(
            lines,
            [
                (Kind::WorkflowCreated, None, 1, 1),
                (Kind::WorkflowChanged, None, 2, 3),
                (Kind::WorkflowStarted, None, 4, 4),
                (Kind::TaskStarted, of, 5, 5),
                (Kind::CapacityWarning, of, 6, 6),
                (Kind::TaskCompleted, of, 7, 7),
                (Kind::WorkflowBlocked, None, 8, 8),
                (Kind::WorkflowChanged, None, 9, 9),
                (Kind::WorkflowCompleted, None, 10, 10),
                (Kind::WorkflowChanged, None, 10, 10),
            ]
        );
        let head = store.feed_head().await.unwrap();
        let other = create(&**store).await;
        store.append_events(other, 5, None, vec![told(1)], at(3)).await.unwrap_err();
        assert_eq!(store.feed_head().await.unwrap(), head + 1, "what is refused is not told");
    });
}

#[test]
fn who_follows_while_several_programs_write_gets_every_line_once_and_in_order() {
    const WRITERS: usize = 4;
    const APPENDS: usize = 30;
    on_each(async |store| {
        let sessions = [store.begin().await, store.begin().await, store.begin().await];
        let before = store.feed_head().await.unwrap();
        let write = |n: usize| {
            let own = block_on(store.open_again());
            for i in 0..APPENDS {
                let append = Append::new(sessions[(n + i) % 3], vec![user(&format!("{n}: {i}"))]);
                block_on(own.append(append)).unwrap();
            }
        };
        let follow = || {
            let (own, mut after) = (block_on(store.open_again()), before);
            let mut seen = Vec::new();
            until("every line is seen", || {
                let page = block_on(own.feed(after, None, 7)).unwrap();
                after = page.upto;
                seen.extend(page.events);
                (seen.len() >= WRITERS * APPENDS).then_some(())
            });
            seen
        };
        let seen = std::thread::scope(|scope| {
            let followers = [scope.spawn(follow), scope.spawn(follow)];
            let write = &write;
            for n in 0..WRITERS {
                scope.spawn(move || write(n));
            }
            followers.map(|follower| follower.join().unwrap())
        });
        assert_eq!(seen[0], seen[1]);
        let numbers: Vec<u64> = seen[0].iter().map(|event| event.no).collect();
        let count = (WRITERS * APPENDS) as u64;
        assert_eq!(numbers, (before + 1..=before + count).collect::<Vec<_>>());
        for session in sessions {
            let own = seen[0].iter().filter(|event| event.session == Some(session));
            let said: Vec<u32> = own.flat_map(|event| event.first..=event.last).collect();
            let all: Vec<u32> = store.all(session).await.iter().map(|one| one.seq).collect();
            assert_eq!(said, all);
        }
    });
}

#[test]
fn a_filter_by_user_makes_progress_through_what_is_not_theirs() {
    on_each(async |store| {
        let busy = store.begin().await;
        for n in 0..60 {
            store.add(busy, vec![user(&n.to_string())]).await.unwrap();
        }
        let bens = rethread_domain::session::Beginning { user: "ben".into(), ..beginning() };
        store.start(SessionId::generate(), bens, at(1)).await.unwrap();
        let page = async |after, limit| store.feed(after, Some("ben"), limit).await.unwrap();
        let first = page(0, 1).await;
        assert_eq!((first.events.len(), first.upto), (0, 20), "no more than that is looked at");
        let mut after = first.upto;
        let mut found = Vec::new();
        while found.is_empty() {
            let next = page(after, 1).await;
            assert!(next.upto > after && next.upto <= after + 20);
            (after, found) = (next.upto, next.events);
        }
        assert_eq!((found[0].kind, found[0].no), (Kind::SessionStarted, 62));
        for (after, limit) in [(62, 9), (1_000, 9), (u64::MAX, 9), (0, 0)] {
            assert_eq!(page(after, limit).await, FeedPage { events: vec![], upto: after });
        }
        let all = store.feed(0, None, u32::MAX).await.unwrap();
        assert_eq!((all.events.len(), all.upto), (62, 62));
    });
}

#[test]
fn a_word_of_a_newer_version_is_a_change() {
    on_each(async |store| {
        store.begin().await;
        let newer = "insert into feed (no, at, \"user\", kind, workflow, first, last)
            values (2, 1, 'anna', 'WORKFLOW_SUNG', '01990000-0000-7000-8000-000000000001', 1, 1)";
        crate::alter(store, newer);
        let page = store.feed(1, None, 9).await.unwrap();
        assert_eq!(page.events[0].kind, Kind::WorkflowChanged);
    });
}

#[test]
fn the_version_changes_with_what_this_process_writes_and_others() {
    on_each(async |store| {
        let id = store.begin().await;
        let mut before = store.version().await.unwrap();
        assert_eq!(store.version().await.unwrap(), before);
        let other = store.open_again().await;
        for by in [&**store, &*other, &**store] {
            by.append(Append::new(id, vec![user("x")])).await.unwrap();
            let now = store.version().await.unwrap();
            assert_ne!(now, before);
            before = now;
        }
    });
}

#[test]
fn rebuilding_and_copying_leave_the_feed_as_it_is() {
    on_each(async |store| {
        let id = store.begin().await;
        store.add(id, vec![user("a"), user("b")]).await.unwrap();
        create(&**store).await;
        let before = whole_feed(&**store).await;
        assert_eq!(before.len(), 3);
        store.rebuild().await.unwrap();
        store.compact().await.unwrap();
        store.expect_sound().await;
        assert_eq!(whole_feed(&**store).await, before);
        store.backup(&store.beside("copy.db")).await.unwrap();
        let copy = open(&StoreUrl::Sqlite(store.beside("copy.db"))).await.unwrap();
        assert_eq!(whole_feed(&*copy).await, before);
    });
}

#[test]
fn an_old_store_begins_its_feed_with_what_is_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/stores/v1/store.db");
    std::fs::copy(old, &path).unwrap();
    futures::executor::block_on(async {
        let store = open(&StoreUrl::Sqlite(path)).await.unwrap();
        expect_whole(&*store).await;
        let all = whole_feed(&*store).await;
        let count = |kind| all.iter().filter(|event| event.kind == kind).count() as u64;
        let usage = store.usage().await.unwrap();
        assert_eq!(count(Kind::SessionStarted), usage.sessions + usage.deleted_sessions);
        assert_eq!(count(Kind::SessionDeleted), usage.deleted_sessions);
        assert!(count(Kind::MessagesAppended) > 0);
        let head = store.feed_head().await.unwrap();
        store.start(SessionId::generate(), beginning(), at(0)).await.unwrap();
        assert_eq!(store.feed_head().await.unwrap(), head + 1);
        expect_whole(&*store).await;
    });
}
