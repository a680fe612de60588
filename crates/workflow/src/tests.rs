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
fn only_time_in_progress_counts_in_total() {
    let mut workflow = workflow();
    let limits = Limits { seconds: Some(100), ..Limits::default() };
    workflow.charter.limits = limits;
    // It began at 3 and paused at 11.
    assert_eq!(workflow.ran_for(at(500)), 8);
    let resumed = |seconds| Event::Resumed {
        from: SnapshotId::from_uuid(Uuid::from_u128(9)),
        agent: None,
        diverged: Vec::new(),
        budgets: Budgets { seconds, ..Budgets::default() },
        permissions: None,
    };
    workflow.apply(&resumed(None), at(1_000));
    assert_eq!((workflow.ran_for(at(1_010)), limit_hit(&workflow, at(1_091))), (18, None));
    let (trigger, why) = limit_hit(&workflow, at(1_092)).unwrap();
    assert_eq!(trigger, Trigger::Timeout);
    assert_eq!(why, "the time limit of 100 seconds in total is reached: 100 used");
    workflow.apply(&Event::Blocked, at(1_020));
    assert_eq!(workflow.ran_for(at(9_000)), 28, "a person takes their time");
    workflow.apply(&Event::Unblocked, at(9_000));
    // Killed, last seen at 9 010, and taken up a day later.
    workflow.apply(&Event::Abandoned { seen: at(9_010) }, at(90_000));
    assert_eq!(workflow.ran_for(at(90_001)), 39);
    let crash = Event::PauseAsked { trigger: Trigger::Crash, reason: "gone".into(), now: true };
    workflow.apply(&crash, at(90_001));
    let mark = Mark { trigger: Trigger::Crash, ..workflow.mark.clone().unwrap() };
    workflow.apply(&Event::Paused(mark), at(90_001));
    assert_eq!(workflow.ran_for(at(99_999)), 39);
    workflow.charter.limits.seconds = Some(39);
    let resume = |seconds| Command::Resume {
        from: SnapshotId::from_uuid(Uuid::from_u128(9)),
        agent: None,
        diverged: Vec::new(),
        rewind: Vec::new(),
        budgets: Budgets { seconds, ..Budgets::default() },
        permissions: None,
    };
    assert!(matches!(workflow.decide(&resume(None)), Err(Refusal::Spent(..))));
    workflow.decide(&resume(Some(40))).unwrap();
    workflow.apply(&resumed(Some(40)), at(100_000));
    assert_eq!(workflow.charter.limits.seconds, Some(40));
}

#[test]
fn what_holds_in_one_state_is_gone_with_it() {
    let mut workflow = workflow();
    let pause = workflow.pause().unwrap();
    assert_eq!((pause.at, pause.reason.as_str(), pause.until), (at(11), "lunch", None));
    workflow.apply(&Event::Cancelled { why: "no more".into() }, at(20));
    assert_eq!((workflow.pause(), workflow.status()), (None, Status::Cancelled));
    // What an older version wrote when nothing could pause any more changes nothing.
    let late = Event::PauseAsked { trigger: Trigger::Pause, reason: "late".into(), now: true };
    workflow.apply(&late, at(21));
    workflow.apply(&Event::Parked { until: at(99) }, at(22));
    assert_eq!((workflow.pausing(), workflow.status()), (None, Status::Cancelled));
}

#[test]
fn a_skipped_task_is_not_the_current_one() {
    let mut workflow = workflow();
    workflow.apply(&Event::TaskSkipped { task: "T2".into() }, at(20));
    let mark = workflow.mark.clone().unwrap();
    assert_eq!(Snapshot::of(&workflow, &mark, at(21)).current_task, None);
}
