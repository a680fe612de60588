//! Lists that go on from a place: nothing twice, nothing left out, whatever shares a time.

use rethread_domain::session::Beginning;
use rethread_domain::{Fact, SessionId};
use rethread_store::{ListFilter, WorkflowFilter};
use rethread_testkit::{TestStore, at, beginning};
use rethread_workflow::{Event, WorkflowId};

use crate::on_each;
use crate::workflows::charter;

const SESSIONS: i64 = 23;

/// Sessions of two users, of which several share a time.
async fn sessions(store: &TestStore) {
    for n in 0..SESSIONS {
        let user = if n % 3 == 0 { "ben" } else { "anna" };
        let beginning = Beginning { user: user.into(), ..beginning() };
        store.start(SessionId::generate(), beginning, at(n % 5)).await.unwrap();
    }
}

/// All pages of so many, one after the other.
async fn pages(store: &TestStore, filter: &ListFilter, limit: u32) -> Vec<SessionId> {
    let mut filter = ListFilter { limit, ..filter.clone() };
    let mut all = Vec::new();
    loop {
        let page = store.list(&filter).await.unwrap();
        let Some(last) = page.last() else { return all };
        let time = if filter.deleted { last.deleted_at.unwrap() } else { last.last_active_at };
        filter.before = Some((time, last.id));
        all.extend(page.iter().map(|session| session.id));
    }
}

#[test]
fn sessions_are_listed_page_by_page_as_at_once() {
    on_each(async |store| {
        sessions(store).await;
        let bens = ListFilter { user: Some("ben".into()), ..ListFilter::default() };
        for (filter, count) in [(ListFilter::default(), 23), (bens, 8)] {
            let at_once = pages(store, &filter, 100).await;
            assert_eq!(at_once.len(), count);
            for limit in [1, 2, 3, 7] {
                assert_eq!(pages(store, &filter, limit).await, at_once, "{limit} at a time");
            }
        }
        let all = store.list(&ListFilter { limit: 100, ..ListFilter::default() }).await.unwrap();
        let order: Vec<_> = all.iter().map(|one| (one.last_active_at, one.id)).collect();
        assert!(order.is_sorted_by(|a, b| a > b), "the higher id first where times are the same");
    });
}

#[test]
fn deleted_sessions_are_listed_page_by_page_as_well() {
    on_each(async |store| {
        sessions(store).await;
        for session in pages(store, &ListFilter::default(), 100).await.into_iter().step_by(2) {
            store.note(session, Fact::Deleted).await;
        }
        let deleted = ListFilter { deleted: true, ..ListFilter::default() };
        let at_once = pages(store, &deleted, 100).await;
        assert_eq!(at_once.len(), 12);
        assert_eq!(pages(store, &deleted, 5).await, at_once);
        assert_eq!(pages(store, &ListFilter::default(), 4).await.len(), 11);
    });
}

#[test]
fn a_place_stays_one_when_its_session_has_gone() {
    on_each(async |store| {
        sessions(store).await;
        let mut filter = ListFilter { limit: 10, ..ListFilter::default() };
        let first = store.list(&filter).await.unwrap();
        let rest = pages(store, &ListFilter::default(), 100).await.split_off(10);
        let last = first.last().unwrap();
        store.erase(last.id).await.unwrap();
        (filter.before, filter.limit) = (Some((last.last_active_at, last.id)), 100);
        let then: Vec<_> =
            store.list(&filter).await.unwrap().into_iter().map(|one| one.id).collect();
        assert_eq!(then, rest);
    });
}

#[test]
fn workflows_are_listed_page_by_page_as_at_once() {
    on_each(async |store| {
        for n in 0..13 {
            let user = if n % 3 == 0 { "ben" } else { "anna" };
            let mut events = vec![Event::Created(charter(user, &format!("/{n}")))];
            events.extend((n % 2 == 0).then_some(Event::Completed));
            store.create_workflow(WorkflowId::generate(), events, at(n / 4)).await.unwrap();
        }
        let pages = async |filter: &WorkflowFilter, limit| {
            let mut filter = WorkflowFilter { limit, ..filter.clone() };
            let mut all = Vec::new();
            loop {
                let page = store.workflows(&filter).await.unwrap();
                let Some(last) = page.last() else { return all };
                filter.before = Some((last.created_at, last.id));
                all.extend(page.iter().map(|row| (row.created_at, row.id)));
            }
        };
        let bens = WorkflowFilter { user: Some("ben".into()), ..WorkflowFilter::default() };
        let one = WorkflowFilter { worktree: Some("/7".into()), ..WorkflowFilter::default() };
        for (filter, count) in [(WorkflowFilter::default(), 13), (bens, 5), (one, 1)] {
            let at_once = pages(&filter, 100).await;
            assert_eq!(at_once.len(), count);
            assert!(at_once.is_sorted_by(|a, b| a > b));
            for limit in [1, 2, 5] {
                assert_eq!(pages(&filter, limit).await, at_once, "{limit} at a time");
            }
        }
    });
}
