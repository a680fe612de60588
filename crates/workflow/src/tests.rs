//! A workflow to try things on, and its snapshot.

use jiff::Timestamp;
use uuid::Uuid;

use super::*;

pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

pub(super) fn source() -> Source {
    Source { by: "rules".into(), session: None, messages: vec![3] }
}

pub(super) fn decision(number: usize) -> Decision {
    Decision {
        id: format!("d{number}"),
        at: at(0),
        task: Some("T1".into()),
        kind: DecisionKind::Library,
        what: format!("Use library {number}"),
        why: format!("reason {number}"),
        alternatives: vec!["write it by hand".into()],
        source: source(),
    }
}

pub(super) fn error(number: usize, resolution: Resolution) -> ErrorRecord {
    ErrorRecord {
        id: format!("e{number}"),
        at: at(0),
        task: None,
        kind: "compile".into(),
        message: format!("message {number}"),
        context: None,
        resolution,
        notes: None,
        source: source(),
    }
}

pub(super) fn feedback(comments: usize) -> Feedback {
    Feedback {
        id: "f1".into(),
        at: at(0),
        task: "T1".into(),
        reviewer: "critic".into(),
        approved: false,
        severity: Severity::Major,
        comments: (1..=comments).map(|number| format!("comment {number}")).collect(),
        addressed: false,
        session: None,
    }
}

fn spec(id: &str, title: &str) -> TaskSpec {
    TaskSpec { id: id.into(), title: title.into(), ..TaskSpec::default() }
}

/// One task done, one interrupted, one to be done; paused.
pub(super) fn events() -> Vec<EventRecord> {
    let session = rethread_domain::SessionId::from_uuid(Uuid::from_u128(5));
    let began =
        |task: &str| Event::TaskBegan { task: task.into(), attempt: 1, session, agent: "a".into() };
    let ended = |task: &str, outcome| {
        let used = Used { tokens: 1_000, ..Used::default() };
        Event::TaskEnded(Ended { task: task.into(), attempt: 1, outcome, used, tests: None })
    };
    let cut = Outcome::Interrupted { why: "the pause could not wait".into() };
    let charter = Charter {
        user: "u".into(),
        worktree: "/w".into(),
        plan: None,
        title: "Sessions that last".into(),
        issue: Issue {
            id: Some("#12".into()),
            title: "Sessions are lost".into(),
            text: "They vanish on restart. ".repeat(40),
        },
        agent: "a".into(),
        permissions: None,
        limits: Limits::default(),
    };
    let body = "Write the table, and a test for it.".into();
    let store = TaskSpec {
        body,
        verify: Some(Verify::Text("cargo test".into())),
        ..spec("T2", "The store")
    };
    let mark = Mark {
        id: SnapshotId::from_uuid(Uuid::from_u128(9)),
        trigger: Trigger::Pause,
        reason: "lunch".into(),
        git: GitDelta { more: vec!["src/a.rs".into()], ..GitDelta::default() },
        forced: true,
        until: None,
        is_in_plan: false,
    };
    let all = [
        Event::Created(charter),
        Event::Planned { tasks: vec![spec("T1", "The types"), store, spec("T3", "The docs")] },
        Event::Began { branch: Some("main".into()), commit: Some("abc123".into()) },
        began("T1"),
        ended("T1", Outcome::Completed),
        Event::Decided(decision(1)),
        Event::Erred(error(1, Resolution::Unresolved)),
        Event::Reviewed(feedback(2)),
        began("T2"),
        ended("T2", cut),
        Event::Paused(mark),
    ];
    (1..).zip(all).map(|(no, event)| EventRecord { no, at: at(no.into()), event }).collect()
}

pub(super) fn workflow() -> Workflow {
    Workflow::fold(WorkflowId::from_uuid(Uuid::from_u128(1)), &events()).unwrap()
}

pub(super) fn snapshot() -> Snapshot {
    let id = WorkflowId::from_uuid(Uuid::from_u128(1));
    Workflow::snapshots(id, &events(), None).remove(0)
}

#[test]
fn create_snapshot_from_state() {
    let snapshot = snapshot();
    assert_eq!((snapshot.session_number, snapshot.trigger), (1, Trigger::Pause));
    assert_eq!((snapshot.tasks_completed, snapshot.tasks_remaining), (1, 2));
    assert_eq!(snapshot.current_task.as_deref(), Some("T2"));
    assert_eq!(snapshot.next_task.as_deref(), Some("T2"));
    assert_eq!((snapshot.reason.as_str(), snapshot.forced), ("lunch", true));
    assert_eq!(snapshot.git.files_modified, ["src/a.rs"]);
    assert_eq!(snapshot.git.commit_at_start.as_deref(), Some("abc123"));
    assert_eq!(snapshot.usage.tokens, 2_000);
    let counts = (snapshot.decisions.len(), snapshot.errors.len(), snapshot.feedback.len());
    assert_eq!(counts, (1, 1, 1));
}

#[test]
fn serialize_snapshot_to_json() {
    let json = serde_json::to_value(snapshot()).unwrap();
    assert_eq!(json["trigger"], "pause");
    assert_eq!(json["tasks"][0]["state"], "completed");
    assert_eq!(json["decisions"][0]["type"], "library");
    assert_eq!(json["errors"][0]["resolution"], "unresolved");
    assert_eq!(json["issue"]["id"], "#12");
}

#[test]
fn deserialize_snapshot_from_json() {
    let snapshot = snapshot();
    let text = serde_json::to_string(&snapshot).unwrap();
    assert_eq!(serde_json::from_str::<Snapshot>(&text).unwrap(), snapshot);
}

#[test]
fn events_with_parts_of_the_same_names_survive_json() {
    let events = events();
    let text = serde_json::to_string(&events).unwrap();
    assert_eq!(serde_json::from_str::<Vec<EventRecord>>(&text).unwrap(), events);
}

#[test]
fn a_skipped_task_is_not_the_current_one() {
    let mut workflow = workflow();
    workflow.apply(&Event::TaskSkipped { task: "T2".into() }, at(20));
    let mark = workflow.mark.clone().unwrap();
    assert_eq!(Snapshot::of(&workflow, &mark, at(21)).current_task, None);
}
