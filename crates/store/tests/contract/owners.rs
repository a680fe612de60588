//! Who runs a workflow: one at a time, whoever else wants it, and nobody who has lost it.

use std::sync::{Arc, Barrier};
use std::time::Duration;

use futures::executor::block_on;
use futures::future::join_all;
use rethread_store::{Error, Store, WorkflowClaim};
use rethread_testkit::{TestStore, at};
use rethread_workflow::WorkflowId;

use crate::on_each;
use crate::workflows::{create, told};

const LONG: Duration = Duration::from_hours(1);

#[test]
fn one_owns_a_workflow_until_they_let_go() {
    on_each(async |store| {
        let (id, other) = (create(&**store).await, create(&**store).await);
        let elsewhere = store.open_again().await;
        assert_eq!(store.owner_of(id).await.unwrap(), None);
        let claim = store.claim_workflow(id, LONG).await.unwrap().unwrap();
        assert!(store.claim_workflow(id, LONG).await.unwrap().is_none());
        assert!(elsewhere.claim_workflow(id, LONG).await.unwrap().is_none());
        let owner = elsewhere.owner_of(id).await.unwrap().unwrap();
        assert_eq!((owner.epoch, owner.is_late), (claim.epoch, false));
        assert!(elsewhere.claim_workflow(other, LONG).await.unwrap().is_some(), "another is free");
        // Looking after the files of the dead harms nobody who lives.
        elsewhere.compact().await.unwrap();
        assert!(elsewhere.is_workflow_claimed(id).await.unwrap());
        drop(claim);
        assert!(!elsewhere.is_workflow_claimed(id).await.unwrap());
        assert!(elsewhere.claim_workflow(id, LONG).await.unwrap().is_some());
        let unknown = store.claim_workflow(WorkflowId::generate(), LONG).await;
        assert!(matches!(unknown, Err(Error::NoWorkflow(_))));
    });
}

#[test]
fn whoever_is_late_is_replaced_and_can_write_no_more() {
    on_each(async |store| {
        let id = create(&**store).await;
        let elsewhere = store.open_again().await;
        let mut late: Vec<WorkflowClaim> = Vec::new();
        for n in 1..=20 {
            let claim = elsewhere.claim_workflow(id, Duration::ZERO).await.unwrap().unwrap();
            let epoch = Some(claim.epoch);
            store.append_events(id, n, epoch, vec![told(1)], at(1)).await.unwrap();
            assert!(store.owner_of(id).await.unwrap().unwrap().is_late);
            for old in &late {
                let refused =
                    elsewhere.append_events(id, n + 1, Some(old.epoch), vec![told(9)], at(2)).await;
                assert!(matches!(refused, Err(Error::LeaseLost(found)) if found == id));
                let refused = elsewhere.renew_workflow(id, old.epoch, LONG).await;
                assert!(matches!(refused, Err(Error::LeaseLost(_))));
            }
            late.push(claim);
        }
        assert_eq!(store.workflow(id).await.unwrap().events, 21);
        let last = late.last().unwrap().epoch;
        store.renew_workflow(id, last, LONG).await.unwrap();
        assert!(elsewhere.claim_workflow(id, LONG).await.unwrap().is_none(), "renewed in time");
        // Those who lost it let go late: the lock of today's owner is another.
        late.truncate(19);
        late.remove(0);
        assert!(store.owner_of(id).await.unwrap().is_none(), "the last has let go as well");
    });
}

#[test]
fn those_who_let_go_late_leave_the_lock_of_the_next() {
    on_each(async |store| {
        let id = create(&**store).await;
        let first = store.claim_workflow(id, Duration::ZERO).await.unwrap().unwrap();
        let second = store.claim_workflow(id, LONG).await.unwrap().unwrap();
        drop(first);
        assert_eq!(store.owner_of(id).await.unwrap().unwrap().epoch, second.epoch);
        assert!(store.claim_workflow(id, LONG).await.unwrap().is_none());
        // Without an epoch anybody writes: that is how others ask for something.
        store.append_events(id, 1, None, vec![told(2)], at(1)).await.unwrap();
        store.append_events(id, 2, Some(second.epoch), vec![told(3)], at(1)).await.unwrap();
    });
}

const CONTENDERS: usize = 4;
const WORKFLOWS: usize = 100;
const ROUNDS: usize = 100;

/// Claims every workflow once in a round, with others; gives the epochs that it was given.
fn contend(
    store: &Arc<dyn Store>,
    ids: &[WorkflowId],
    barrier: &Barrier,
    from: usize,
) -> Vec<Option<u32>> {
    let round = |_| {
        barrier.wait();
        let claims = (0..ids.len()).map(|n| (n + from) % ids.len());
        let claims = claims.map(async |n| (n, store.claim_workflow(ids[n], LONG).await.unwrap()));
        let held: Vec<(usize, Option<WorkflowClaim>)> = block_on(join_all(claims));
        barrier.wait();
        let mut epochs = vec![None; ids.len()];
        for (n, claim) in &held {
            epochs[*n] = claim.as_ref().map(|claim| claim.epoch);
        }
        drop(held);
        barrier.wait();
        epochs
    };
    (0..ROUNDS).flat_map(round).collect()
}

#[test]
fn of_those_who_claim_at_once_exactly_one_owns_each_workflow() {
    let store = block_on(TestStore::sqlite());
    let ids: Vec<WorkflowId> = block_on(join_all((0..WORKFLOWS).map(|_| create(&*store))));
    let barrier = Barrier::new(CONTENDERS);
    let stores: Vec<Arc<dyn Store>> = (0..2).map(|_| block_on(store.open_again())).collect();
    let told: Vec<Vec<Option<u32>>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CONTENDERS)
            .map(|n| {
                let (store, ids, barrier) = (&stores[n % 2], &ids, &barrier);
                scope.spawn(move || contend(store, ids, barrier, n * WORKFLOWS / CONTENDERS))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut winners = [0; CONTENDERS];
    for place in 0..ROUNDS * WORKFLOWS {
        let owners: Vec<(usize, u32)> = told
            .iter()
            .enumerate()
            .filter_map(|(who, told)| told[place].map(|epoch| (who, epoch)))
            .collect();
        let [(who, epoch)] = owners[..] else { panic!("claim {place} has owners {owners:?}") };
        assert_eq!(epoch as usize, place / WORKFLOWS + 1, "one epoch for each owner");
        winners[who] += 1;
    }
    assert!(winners.iter().filter(|won| **won > 0).count() > 1, "nobody contended: {winners:?}");
}

#[test]
fn threads_that_append_with_retry_lose_nothing() {
    const THREADS: usize = 64;
    const EACH: usize = 4;
    let store = block_on(TestStore::sqlite());
    let id = block_on(create(&*store));
    let other = block_on(store.open_again());
    let append = |by: &dyn Store, n: usize| loop {
        let seen = block_on(by.workflow(id)).unwrap().events;
        match block_on(by.append_events(id, seen, None, vec![told(n)], at(1))) {
            Ok(()) => break,
            Err(Error::WorkflowConflict(_)) => (),
            Err(error) => panic!("{error}"),
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let by: &dyn Store = if thread % 2 == 0 { &*store } else { &*other };
            let append = &append;
            scope.spawn(move || (0..EACH).for_each(|n| append(by, thread * EACH + n)));
        }
    });
    let records = block_on(store.workflow_events(id, 0)).unwrap();
    let numbers: Vec<u32> = records.iter().map(|record| record.no).collect();
    let count = u32::try_from(THREADS * EACH).unwrap();
    assert_eq!(numbers, (1..=count + 1).collect::<Vec<_>>());
    for n in 0..THREADS * EACH {
        let times = records.iter().filter(|record| record.event == told(n)).count();
        assert_eq!(times, 1, "event {n}");
    }
    block_on(store.expect_sound());
}
