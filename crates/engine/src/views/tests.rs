//! What is shown, and what is not.

use jiff::Timestamp;
use rethread_domain::SessionId;
use rethread_redact::Redactor;
use rethread_workflow::{Event, EventRecord, Question};

use super::*;

#[test]
fn a_failed_task_is_tried_again_left_out_or_given_up() {
    let question = Question::TaskFailed { task: "T1".into(), why: "no disk".into() };
    let view = QuestionView::from(&question);
    assert_eq!(view.about, "task_failed");
    assert_eq!(view.task.as_deref(), Some("T1"));
    assert_eq!(view.answers, ["retry", "skip", "reject"]);
    assert_eq!(view.question, "task T1 failed: no disk");
}

#[test]
fn only_a_command_that_is_shown_whole_can_be_approved() {
    let redactor = Redactor::new([]);
    let shown = |command: &str| {
        let question = Question::Command { command: command.to_owned() };
        QuestionView::masked(&question, &redactor)
    };
    let whole = shown("cargo test");
    assert!(whole.is_whole && whole.answers == ["approve", "reject"], "{whole:?}");
    let mark = |which: &str| format!("-----{which} PRIVATE KEY-----");
    let key = format!("{} ; touch x ; {}", mark("BEGIN"), mark("END"));
    let hidden = shown(&format!("true {key}"));
    assert!(!hidden.is_whole && hidden.answers == ["reject"], "{hidden:?}");
    // What is not run may be hidden.
    let (task, why) = ("T1".to_owned(), key);
    let failed = QuestionView::masked(&Question::TaskFailed { task, why }, &redactor);
    assert!(!failed.is_whole && failed.answers == ["retry", "skip", "reject"], "{failed:?}");
}

#[test]
fn an_event_says_where_the_work_is() {
    let session = SessionId::generate();
    let (task, agent) = ("T1".to_owned(), "ref".to_owned());
    let event = Event::TaskBegan { task, attempt: 1, session, agent };
    let at = Timestamp::UNIX_EPOCH;
    let expected = WorkflowEventView {
        no: 3,
        at,
        kind: "TASK_STARTED".into(),
        text: Some(format!("task T1: ref starts in session {}", session.short())),
        task: Some("T1".into()),
        session_id: Some(session.to_string()),
    };
    assert_eq!(WorkflowEventView::from(&EventRecord { no: 3, at, event }), expected);
}

#[tokio::test]
async fn ids_and_commits_stay_readable_and_secrets_do_not() {
    let store = rethread_testkit::TestStore::sqlite().await;
    let engine = Engine::new(store.open_again().await, crate::Clock::Wall);
    let commit = "3f786850e387550fdab836ed7e6dc881de23001b".to_owned();
    let (session, snapshot) =
        (SessionId::generate().to_string(), SessionId::generate().to_string());
    let secret = format!("AKIA{}", "Z7Q4M2X5K3P6W3TN");
    let source =
        SourceView { by: "rules".into(), session_id: Some(session.clone()), messages: vec![4] };
    assert_eq!(engine.masked(&source).unwrap(), source);
    let row = SnapshotRowView {
        id: snapshot,
        session_number: 2,
        trigger: "pause".into(),
        reason: format!("the key {secret} is wrong"),
        created_at: Timestamp::UNIX_EPOCH,
        tasks_completed: 1,
        tasks_remaining: 2,
    };
    let shown = engine.masked(&row).unwrap();
    assert_eq!(shown.id, row.id);
    assert!(!shown.reason.contains(&secret), "{}", shown.reason);
    let commits = Pair { before: Some(commit.clone()), after: None };
    assert_eq!(engine.masked(&commits).unwrap(), commits);
}
