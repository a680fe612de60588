//! What is kept of long work takes no more than twice its own bytes (the search index aside), snapshots included.

use rethread_domain::SessionId;
use rethread_domain::message::{Extras, NewMessage};
use rethread_store::Span;
use rethread_testkit::{TestStore, Texts, at, tool};
use rethread_workflow::{
    Budgets, Ended, Event, GitDelta, Mark, Outcome, SnapshotId, TaskSpec, Trigger, Used, WorkflowId,
};
use rusqlite::Connection;
use serde_json::json;

use crate::on_sqlite;
use crate::workflows::charter;

const TASKS: usize = 40;
const CALLS: usize = 20;

/// A tool call as agents report it: what it said is there to be read, and as it came.
fn call(number: usize, output: &str) -> NewMessage {
    let title = format!("cat texts/{number}");
    let call = json!([{
        "id": format!("ref-1a1e37f1b55-6d9f-1-tool-1-{number}"),
        "kind": "execute",
        "title": title,
        "status": "completed",
        "rawInput": { "argument": title },
        "rawOutput": { "output": output },
    }]);
    let extras =
        Extras { agent: Some("ref".to_owned()), tool_calls: Some(call), ..Extras::default() };
    NewMessage { extras, ..tool(&format!("execute: {title}\n{output}")) }
}

/// A task from its beginning to the snapshot after it.
fn events(task: &str, session: SessionId) -> Vec<Event> {
    let ended = Ended {
        task: task.to_owned(),
        attempt: 1,
        outcome: Outcome::Completed,
        used: Used::default(),
        tests: None,
    };
    let reason = "1 task done, as asked".to_owned();
    let mark = Mark {
        id: SnapshotId::generate(),
        trigger: Trigger::TaskComplete,
        reason: reason.clone(),
        git: GitDelta::default(),
        forced: false,
        until: None,
        is_in_plan: false,
    };
    let from = mark.id;
    vec![
        Event::TaskBegan { task: task.to_owned(), attempt: 1, session, agent: "ref".to_owned() },
        Event::TaskEnded(ended),
        Event::PauseAsked { trigger: Trigger::TaskComplete, reason, now: false },
        Event::Paused(mark),
        Event::Resumed {
            from,
            agent: None,
            diverged: Vec::new(),
            budgets: Budgets::default(),
            permissions: None,
        },
    ]
}

async fn work(store: &TestStore) -> (WorkflowId, Vec<(SessionId, Vec<NewMessage>)>) {
    let id = WorkflowId::generate();
    let spec = |n: usize| TaskSpec { id: format!("T{n}"), ..TaskSpec::default() };
    let planned = Event::Planned { tasks: (0..TASKS).map(spec).collect() };
    let first = vec![Event::Created(charter("anna", "/work")), planned];
    let mut count = store.create_workflow(id, first, at(0)).await.unwrap().events;
    let mut texts = Texts::new(7);
    let mut said = Vec::new();
    for task in 0..TASKS {
        let session = store.begin().await;
        let calls: Vec<NewMessage> =
            (0..CALLS).map(|n| call(task * CALLS + n, &texts.text(2_000))).collect();
        store.add(session, calls.clone()).await.unwrap();
        said.push((session, calls));
        let events = events(&format!("T{task}"), session);
        let added = u32::try_from(events.len()).unwrap();
        store.append_events(id, count, None, events, at(1)).await.unwrap();
        count += added;
    }
    (id, said)
}

/// Bytes of a call: its text and what comes with it, with what the tool said counted once.
fn record(call: &NewMessage) -> usize {
    let output = call.content.split_once('\n').unwrap().1;
    let again = serde_json::to_string(output).unwrap().len();
    call.content.len() + serde_json::to_string(&call.extras).unwrap().len() - again
}

/// Bytes of the store without its search index.
fn kept(store: &TestStore) -> i64 {
    let connection = Connection::open(store.file()).unwrap();
    let sql = "select sum(pgsize) from dbstat where name not like 'posting%' and name not like 'title_index%'";
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn long_work_takes_no_more_than_twice_its_bytes() {
    on_sqlite(async |store| {
        let (id, said) = work(store).await;
        let events = store.workflow_events(id, 0).await.unwrap();
        let happened: usize =
            events.iter().map(|record| serde_json::to_string(&record.event).unwrap().len()).sum();
        let calls = said.iter().flat_map(|(_, calls)| calls);
        let bytes: usize = calls.map(record).sum::<usize>() + happened;
        let kept = usize::try_from(kept(store)).unwrap();
        assert!(kept <= 2 * bytes, "{kept} bytes for {bytes}");
        // And it is all there.
        for (session, calls) in said {
            let found = store.messages(session, Span::after(1, 100)).await.unwrap();
            assert_eq!(found.len(), calls.len());
            for (found, call) in found.iter().zip(calls) {
                assert_eq!(
                    (&found.extras, found.body.head()),
                    (&call.extras, call.content.as_str())
                );
            }
        }
    });
}
