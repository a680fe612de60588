//! Who runs a workflow: whoever holds a lock that is named by the epoch, with a lease by the store's own clock.
//!
//! Who dies loses the lock at once. Who is alive but stalled loses the lease: the next fencing epoch has a lock of its
//! own, and writes of the epoch before are refused.

use std::time::Duration;

use jiff::Timestamp;
use rethread_workflow::WorkflowId;

use super::super::claims;
use super::super::locks::Locks;
use super::super::sql::Connection;
use super::super::summed::summed;
use super::rows;
use crate::error::{Error, Result};
use crate::types::Epoch;
use crate::workflows::{Owner, WorkflowClaim};

/// How many epochs are tried: a lock may still be held by a claim that could not be written down.
const TRIES: u32 = 4;

/// The number of a workflow, its row's epoch, the lease, and what time it is, in microseconds.
#[derive(Debug, Clone, Copy)]
struct Recorded {
    no: i64,
    epoch: Epoch,
    lease_until: i64,
    now: i64,
}

impl Recorded {
    const fn is_late(self) -> bool {
        self.now >= self.lease_until
    }

    fn is_locked(self, connection: &Connection, locks: &Locks) -> Result<bool> {
        if self.epoch == 0 {
            return Ok(false);
        }
        locks.is_locked(connection, &claims::workflow_lock_name(self.no, self.epoch))
    }
}

fn until(now: i64, lease: Duration) -> i64 {
    now.saturating_add(i64::try_from(lease.as_micros()).unwrap_or(i64::MAX))
}

fn recorded(connection: &Connection, id: WorkflowId) -> Result<Recorded> {
    let row = rows::find(connection, id)?;
    let now = super::super::rows::now(connection)?;
    Ok(Recorded { no: row.no, epoch: row.epoch, lease_until: row.lease_until, now })
}

/// The owner, if there is one. Somebody may only be looking whether the lock is held, which takes no time: so it is
/// looked at twice.
pub(super) fn owner(
    connection: &Connection,
    locks: &Locks,
    id: WorkflowId,
) -> Result<Option<Owner>> {
    let found = recorded(connection, id)?;
    if !found.is_locked(connection, locks)? {
        return Ok(None);
    }
    std::thread::sleep(Duration::from_millis(1));
    if !found.is_locked(connection, locks)? {
        return Ok(None);
    }
    let lease_until = Timestamp::from_microsecond(found.lease_until).unwrap_or(Timestamp::MAX);
    Ok(Some(Owner { epoch: found.epoch, lease_until, is_late: found.is_late() }))
}

/// Becomes the owner, in the transaction that says so.
pub(super) fn claim(
    connection: &Connection,
    locks: &Locks,
    id: WorkflowId,
    lease: Duration,
) -> Result<Option<WorkflowClaim>> {
    let found = recorded(connection, id)?;
    if !found.is_late() && found.is_locked(connection, locks)? {
        return Ok(None);
    }
    for epoch in (found.epoch + 1..).take(TRIES as usize) {
        let name = claims::workflow_lock_name(found.no, epoch);
        let Some(lock) = locks.lock(connection, &name)? else { continue };
        // Who was killed has left its lock.
        locks.clear(connection, &claims::workflow_lock_name(found.no, found.epoch))?;
        connection
            .prepare_cached(summed!(
                "update workflow set epoch = ?2, lease_until = ?3 where no = ?1"
            ))?
            .execute((found.no, epoch, until(found.now, lease)))?;
        let before = Timestamp::from_microsecond(found.lease_until).ok();
        let lease_before = before.filter(|_| found.epoch > 0);
        return Ok(Some(WorkflowClaim { epoch, lease_before, _lock: Box::new(lock) }));
    }
    Ok(None)
}

/// Keeps a workflow for longer.
pub(super) fn renew(
    connection: &Connection,
    id: WorkflowId,
    epoch: Epoch,
    lease: Duration,
) -> Result<()> {
    let found = recorded(connection, id)?;
    if found.epoch != epoch {
        return Err(Error::LeaseLost(id));
    }
    connection
        .prepare_cached(summed!("update workflow set lease_until = ?2 where no = ?1"))?
        .execute((found.no, until(found.now, lease)))?;
    Ok(())
}
