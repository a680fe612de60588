//! Workflows: events and what sums them up.

use rethread_domain::SessionId;
use rethread_store::{Error, Order, Span, Store, StoreUrl, WorkflowFilter, WorkflowRow};
use rethread_testkit::{TestStore, at};
use rethread_workflow::{
    Charter, Ended, Event, Issue, Limits, Outcome, Status, TaskSpec, Used, Workflow, WorkflowId,
};

use crate::on_each;

pub(crate) fn charter(user: &str, worktree: &str) -> Charter {
    Charter {
        user: user.to_owned(),
        worktree: worktree.to_owned(),
        plan: None,
        title: format!("work in {worktree}"),
        issue: Issue::default(),
        agent: "codex".to_owned(),
        permissions: None,
        limits: Limits::default(),
    }
}

/// A workflow in a folder of its own.
pub(crate) async fn create(store: &dyn Store) -> WorkflowId {
    let id = WorkflowId::generate();
    let events = vec![Event::Created(charter("anna", &format!("/work/{id}")))];
    store.create_workflow(id, events, at(0)).await.unwrap().id
}

/// An event that says nothing but a number.
pub(crate) fn told(n: usize) -> Event {
    Event::Addressed { feedback: n.to_string() }
}

fn planned(ids: &[&str]) -> Event {
    let spec = |id: &&str| TaskSpec { id: (*id).to_owned(), ..TaskSpec::default() };
    Event::Planned { tasks: ids.iter().map(spec).collect() }
}

fn began(task: &str, session: SessionId) -> Event {
    let (task, agent) = (task.to_owned(), "codex".to_owned());
    Event::TaskBegan { task, attempt: 1, session, agent }
}

fn ended(task: &str) -> Event {
    let used = Used { tokens: 1_000, cost_usd: Some(0.1), ..Used::default() };
    let outcome = Outcome::Completed;
    Event::TaskEnded(Ended { task: task.to_owned(), attempt: 1, outcome, used, tests: None })
}

const STARTED: Event = Event::Began { branch: None, commit: None };

fn cancelled() -> Event {
    Event::Cancelled { why: "enough".to_owned() }
}

async fn row(store: &TestStore, id: WorkflowId) -> WorkflowRow {
    let filter = WorkflowFilter { limit: 100, ..WorkflowFilter::default() };
    let rows = store.workflows(&filter).await.unwrap();
    rows.into_iter().find(|row| row.id == id).unwrap()
}

#[test]
fn what_happened_is_read_back_and_summed_up() {
    on_each(async |store| {
        let id = WorkflowId::generate();
        let first = vec![Event::Created(charter("anna", "/a")), planned(&["one", "two"])];
        let created = store.create_workflow(id, first, at(1)).await.unwrap();
        assert_eq!((created.events, created.status()), (2, Status::Pending));
        assert_eq!(store.workflow(id).await.unwrap(), created);
        let session = SessionId::generate();
        let more = vec![STARTED, began("one", session), ended("one")];
        store.append_events(id, 2, None, more.clone(), at(5)).await.unwrap();

        let records = store.workflow_events(id, 2).await.unwrap();
        assert_eq!(records.iter().map(|record| record.no).collect::<Vec<_>>(), [3, 4, 5]);
        assert!(records.iter().all(|record| record.at == at(5)));
        assert_eq!(records.into_iter().map(|record| record.event).collect::<Vec<_>>(), more);
        let all = store.workflow_events(id, 0).await.unwrap();
        let folded = Workflow::fold(id, &all).unwrap();
        assert_eq!(store.workflow(id).await.unwrap(), folded);
        assert_eq!(store.open_again().await.workflow(id).await.unwrap(), folded);

        let row = row(store, id).await;
        assert_eq!((row.user.as_str(), row.worktree.as_str()), ("anna", "/a"));
        assert_eq!((row.title.as_str(), row.agent.as_str()), ("work in /a", "codex"));
        assert_eq!((row.status, row.tasks_done, row.tasks), (Status::InProgress, 1, 2));
        assert_eq!((row.task.as_deref(), row.sessions, row.events), (Some("two"), 1, 5));
        assert_eq!((row.cost_usd, row.tokens), (Some(0.1), 1_000));
        assert_eq!((row.created_at, row.updated_at), (at(1), at(5)));
        store.expect_sound().await;
    });
}

#[test]
fn a_skipped_task_does_not_count_as_completed() {
    on_each(async |store| {
        let id = WorkflowId::generate();
        let skipped = Event::TaskSkipped { task: "two".to_owned() };
        let all = vec![
            Event::Created(charter("anna", "/a")),
            planned(&["one", "two"]),
            STARTED,
            began("one", SessionId::generate()),
            ended("one"),
            skipped,
        ];
        let workflow = store.create_workflow(id, all, at(1)).await.unwrap();
        let row = row(store, id).await;
        assert_eq!((row.tasks_done, row.tasks), (1, 2));
        assert_eq!((row.tasks_done, workflow.remaining()), (workflow.completed(), 0));
        store.expect_sound().await;
    });
}

#[test]
fn a_part_of_the_log_is_read_from_either_end() {
    on_each(async |store| {
        let (id, other) = (create(&**store).await, create(&**store).await);
        for id in [id, other] {
            store.append_events(id, 1, None, (2..=9).map(told).collect(), at(1)).await.unwrap();
        }
        for (span, expected) in [
            (Span::after(1, 3), vec![1, 2, 3]),
            (Span::after(8, 5), vec![8, 9]),
            (Span::newest(3), vec![9, 8, 7]),
            (Span { from: 4, to: 6, order: Order::NewestFirst, limit: 2 }, vec![6, 5]),
            (Span { from: 1, to: 2, order: Order::NewestFirst, limit: 9 }, vec![2, 1]),
            (Span::after(10, 5), vec![]),
        ] {
            let part = store.workflow_log(id, span).await.unwrap();
            assert_eq!(part.iter().map(|one| one.no).collect::<Vec<_>>(), expected, "{span:?}");
        }
        let all = store.workflow_events(id, 0).await.unwrap();
        assert_eq!(store.workflow_log(id, Span::after(1, 100)).await.unwrap(), all);
        // Where they are long there are fewer at once, and at least one.
        let long = || Event::Addressed { feedback: "x".repeat(3 << 20) };
        store.append_events(id, 9, None, vec![long(), long(), long()], at(2)).await.unwrap();
        let part = store.workflow_log(id, Span::newest(100)).await.unwrap();
        assert_eq!(part.iter().map(|one| one.no).collect::<Vec<_>>(), [12]);
        let unknown = store.workflow_log(WorkflowId::generate(), Span::newest(1)).await;
        assert!(matches!(unknown, Err(Error::NoWorkflow(_))));
    });
}

#[test]
fn an_append_that_was_decided_on_less_writes_nothing() {
    on_each(async |store| {
        let id = create(&**store).await;
        store.append_events(id, 1, None, vec![told(2)], at(1)).await.unwrap();
        for wrong in [0, 1, 3] {
            let refused = store.append_events(id, wrong, None, vec![told(9), told(9)], at(2)).await;
            assert!(matches!(refused, Err(Error::WorkflowConflict(found)) if found == id));
        }
        assert_eq!(store.workflow_events(id, 0).await.unwrap().len(), 2);
        assert_eq!(row(store, id).await.events, 2);
        store.append_events(id, 2, None, Vec::new(), at(2)).await.unwrap();
        assert_eq!(store.workflow(id).await.unwrap().events, 2);
        store.expect_sound().await;
    });
}

#[test]
fn what_others_have_written_is_folded_in() {
    on_each(async |store| {
        let id = create(&**store).await;
        let other = store.open_again().await;
        for n in 1..20 {
            let by: &dyn Store = if n % 3 == 0 { &**store } else { &*other };
            by.append_events(id, n, None, vec![planned(&["one"]), told(1)][..1].to_vec(), at(1))
                .await
                .unwrap();
            assert_eq!(store.workflow(id).await.unwrap(), other.workflow(id).await.unwrap());
        }
        assert_eq!(store.workflow(id).await.unwrap().events, 20);
        store.expect_sound().await;
    });
}

#[test]
fn a_folder_has_one_workflow_that_is_not_over() {
    on_each(async |store| {
        let create = async |worktree: &str| {
            let events = vec![Event::Created(charter("anna", worktree))];
            store.create_workflow(WorkflowId::generate(), events, at(0)).await
        };
        let first = create("/a").await.unwrap().id;
        let refused = create("/a").await;
        assert!(matches!(refused, Err(Error::WorktreeTaken { by, .. }) if by == first));
        create("/b").await.unwrap();
        let again = vec![Event::Created(charter("anna", "/c"))];
        let twice = store.create_workflow(first, again, at(0)).await;
        assert!(matches!(twice, Err(Error::WorkflowExists(found)) if found == first));
        store.append_events(first, 1, None, vec![cancelled()], at(1)).await.unwrap();
        create("/a").await.unwrap();
        let filter = WorkflowFilter { limit: 9, ..WorkflowFilter::default() };
        assert_eq!(store.workflows(&filter).await.unwrap().len(), 3);
        store.expect_sound().await;
    });
}

#[test]
fn the_newest_that_fit_are_listed() {
    on_each(async |store| {
        let mut ids = Vec::new();
        for n in 0..12 {
            let user = if n % 2 == 0 { "anna" } else { "ben" };
            let id = WorkflowId::generate();
            let mut events = vec![Event::Created(charter(user, &format!("/{}", n % 3)))];
            events.push(if n % 4 == 0 { Event::Completed } else { cancelled() });
            store.create_workflow(id, events, at(n)).await.unwrap();
            ids.push(id);
        }
        let list = async |filter: WorkflowFilter| {
            let rows = store.workflows(&filter).await.unwrap();
            let place = |row: &WorkflowRow| ids.iter().position(|id| *id == row.id).unwrap();
            rows.iter().map(place).collect::<Vec<_>>()
        };
        let all = WorkflowFilter { limit: 3, ..WorkflowFilter::default() };
        let (user, worktree) = (Some("anna".to_owned()), Some("/0".to_owned()));
        assert_eq!(list(all.clone()).await, [11, 10, 9]);
        assert_eq!(list(WorkflowFilter { user: user.clone(), ..all.clone() }).await, [10, 8, 6]);
        assert_eq!(
            list(WorkflowFilter { worktree: worktree.clone(), ..all.clone() }).await,
            [9, 6, 3]
        );
        assert_eq!(list(WorkflowFilter { user, worktree, ..all.clone() }).await, [6, 0]);
        let statuses = vec![Status::Completed, Status::Paused];
        assert_eq!(list(WorkflowFilter { statuses, ..all.clone() }).await, [8, 4, 0]);
        assert_eq!(list(WorkflowFilter { limit: 0, ..all }).await, [0; 0]);
    });
}

#[test]
fn a_workflow_is_found_by_the_beginning_of_its_id() {
    on_each(async |store| {
        let id = create(&**store).await;
        let other = create(&**store).await;
        let whole = id.to_string();
        for text in
            [whole.as_str(), &whole.to_uppercase(), &whole[..35], &id.short(), &id.short()[..7]]
        {
            assert_eq!(store.resolve_workflow(text, None).await.unwrap(), [id], "{text}");
        }
        let mut both = vec![id, other];
        both.sort_unstable();
        assert_eq!(store.resolve_workflow(&whole[..4], None).await.unwrap(), both);
        let theirs = store.resolve_workflow(&whole[..4], Some("somebody else")).await.unwrap();
        assert_eq!(theirs, []);
        for text in ["", "%", "zz", "ffffffff-ffff"] {
            assert_eq!(store.resolve_workflow(text, None).await.unwrap(), [], "{text}");
        }
        let unknown = WorkflowId::generate();
        let missing = store.workflow(unknown).await;
        assert!(matches!(missing, Err(Error::NoWorkflow(found)) if found == unknown));
        assert!(matches!(store.workflow_events(unknown, 0).await, Err(Error::NoWorkflow(_))));
    });
}

#[test]
fn a_session_is_known_by_its_task() {
    on_each(async |store| {
        let (id, first, second) =
            (create(&**store).await, SessionId::generate(), SessionId::generate());
        assert_eq!(store.workflow_of(first).await.unwrap(), None);
        let moved = Event::TaskMoved { task: "one".into(), attempt: 1, session: second };
        let events = vec![planned(&["one"]), began("one", first), moved];
        store.append_events(id, 1, None, events, at(1)).await.unwrap();
        for session in [first, second] {
            assert_eq!(store.workflow_of(session).await.unwrap(), Some((id, "one".to_owned())));
        }
    });
}

#[test]
fn how_far_others_were_told_never_goes_back() {
    on_each(async |store| {
        let id = create(&**store).await;
        assert_eq!(store.told_workflow(id).await.unwrap(), 0);
        for (told, then) in [(3, 3), (2, 3), (7, 7), (0, 7)] {
            store.set_told(id, told).await.unwrap();
            assert_eq!(store.told_workflow(id).await.unwrap(), then);
        }
        assert!(matches!(
            store.set_told(WorkflowId::generate(), 1).await,
            Err(Error::NoWorkflow(_))
        ));
    });
}

#[test]
fn what_a_newer_version_wrote_is_kept_as_it_came() {
    on_each(async |store| {
        let id = create(&**store).await;
        let text = r#"{"what":"sung","notes":[1,2.5,{"deep":null}],"big":18446744073709551615}"#;
        let unknown: Event = serde_json::from_str(text).unwrap();
        assert!(matches!(unknown, Event::Unknown(_)));
        store.append_events(id, 1, None, vec![unknown.clone(), told(3)], at(1)).await.unwrap();
        let found = store.workflow_events(id, 1).await.unwrap();
        assert_eq!(found[0].event, unknown);
        assert_eq!(serde_json::to_string(&found[0].event).unwrap(), text);
        store.rebuild().await.unwrap();
        assert_eq!(store.workflow_events(id, 1).await.unwrap(), found);
        store.expect_sound().await;
    });
}

#[test]
fn an_event_that_cannot_be_kept_is_refused_with_all_that_came_with_it() {
    on_each(async |store| {
        let id = create(&**store).await;
        let long = |bytes| Event::Addressed { feedback: "x".repeat(bytes) };
        let around = serde_json::to_string(&long(0)).unwrap().len();
        let most = (8 << 20) - around;
        let refused = store.append_events(id, 1, None, vec![told(2), long(most + 1)], at(1)).await;
        assert!(matches!(refused, Err(Error::EventTooLong { .. })));
        let none = Event::Warned { task: "one".into(), context_use: f64::NAN };
        let refused = store.append_events(id, 1, None, vec![told(2), none], at(1)).await;
        assert!(matches!(refused, Err(Error::BadEvent(..))));
        let new = WorkflowId::generate();
        for events in [vec![], vec![told(1)]] {
            let refused = store.create_workflow(new, events, at(1)).await;
            assert!(matches!(refused, Err(Error::BadEvent(..))));
        }
        store.append_events(id, 1, None, vec![long(most)], at(1)).await.unwrap();
        assert_eq!(store.workflow(id).await.unwrap().events, 2);
        store.expect_sound().await;
    });
}

#[test]
fn only_what_is_over_is_erased_and_its_sessions_stay() {
    on_each(async |store| {
        let (id, session) = (create(&**store).await, store.begin().await);
        let events = vec![planned(&["one"]), began("one", session)];
        store.append_events(id, 1, None, events, at(1)).await.unwrap();
        let refused = store.erase_workflow(id).await;
        assert!(matches!(refused, Err(Error::WorkflowOpen(_, Status::Pending))));
        store.append_events(id, 3, None, vec![cancelled()], at(2)).await.unwrap();
        let claim = store.claim_workflow(id, std::time::Duration::from_secs(9)).await.unwrap();
        drop(claim.unwrap());
        store.erase_workflow(id).await.unwrap();
        assert!(matches!(store.workflow(id).await, Err(Error::NoWorkflow(_))));
        assert_eq!(store.workflow_of(session).await.unwrap(), None);
        assert_eq!(store.session(session).await.unwrap().id, session);
        store.expect_sound().await;
        // Nothing of it comes back with the same id.
        let again = vec![Event::Created(charter("anna", "/again"))];
        assert_eq!(store.create_workflow(id, again, at(3)).await.unwrap().events, 1);
        assert_eq!(store.workflow_events(id, 0).await.unwrap().len(), 1);
    });
}

#[test]
fn what_differs_from_the_log_is_told_and_made_anew() {
    on_each(async |store| {
        let (id, session) = (create(&**store).await, SessionId::generate());
        let events = vec![planned(&["one"]), STARTED, began("one", session)];
        store.append_events(id, 1, None, events, at(1)).await.unwrap();
        let expected = (store.workflow(id).await.unwrap(), row(store, id).await);
        for tamper in [
            "update workflow set title = 'other'",
            "update workflow set status = 5",
            "update workflow set events = 3",
            "delete from workflow_session",
            "update workflow_session set task = 'other'",
        ] {
            crate::alter(store, tamper);
            let drift = store.check().await.unwrap().drift;
            assert_eq!(drift.len(), 1, "{tamper}: {drift:?}");
            store.rebuild().await.unwrap();
            store.expect_sound().await;
            assert_eq!((store.workflow(id).await.unwrap(), row(store, id).await), expected);
            assert_eq!(store.workflow_of(session).await.unwrap(), Some((id, "one".to_owned())));
        }
        store.backup(&store.beside("copy.db")).await.unwrap();
        let copy = rethread_store::open(&StoreUrl::Sqlite(store.beside("copy.db"))).await.unwrap();
        assert_eq!(copy.workflow(id).await.unwrap(), expected.0);
        let gap = "delete from workflow_event where id & 4294967295 = 2";
        crate::alter(store, gap);
        let drift = store.check().await.unwrap().drift;
        assert!(drift[0].contains("event 2 is missing"), "{drift:?}");
    });
}
