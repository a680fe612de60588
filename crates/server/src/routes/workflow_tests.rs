//! Workflows through this door, in this process: nothing of the command line is needed.

use std::time::Duration;

use rethread_domain::access::{Pass, Role};
use rethread_engine::{Clock, Engine, NewToken, Pruning};
use rethread_testkit::{TestProgram, TestStore};
use rethread_workflow::Status;

use super::workflows::{PauseWorkflow, ResumeWorkflow, StartWorkflow, ask_pause, begin, go_on};
use crate::access::Caller;
use crate::settings::{Bounds, Settings};
use crate::state::Shared;

#[tokio::test]
async fn a_workflow_is_started_paused_and_resumed_without_the_command_line() {
    let store = TestStore::sqlite().await;
    let engine = Engine::new(store.open_again().await, Clock::Wall);
    let program = TestProgram::new(&engine);
    let project = store.beside("project");
    std::fs::create_dir(&project).unwrap();
    let project = std::fs::canonicalize(project).unwrap();
    std::fs::write(project.join("plan.md"), "## Task A: One\n\n## Task B: Two\n").unwrap();
    let settings = Settings {
        hosts: Vec::new(),
        origins: Vec::new(),
        is_secure: false,
        is_behind_proxy: false,
        port: 0,
        store: Some(project.join("store.db")),
        project,
        version: "1",
        context: rethread_domain::context::Limits::default(),
        pruning: Pruning::default(),
        idle: jiff::SignedDuration::from_hours(1),
        message_bytes: 1 << 16,
        bounds: Bounds::default(),
    };
    let app = Shared::new(engine.clone(), program.clone(), settings).unwrap();
    let (name, user) = ("test".to_owned(), "anna".to_owned());
    let new =
        NewToken { name, role: Role::Write, user, pass: Pass::Token, lasts: None, parent: None };
    let (token, secret) = engine.issue(new).await.unwrap();
    let caller = Caller { token, secret: secret.into() };

    let started: StartWorkflow = serde_json::from_str(r#"{ "plan": "plan.md" }"#).unwrap();
    let (begun, warning) = begin(&app, &caller, None, started).await.unwrap();
    let id = begun.id;
    let warning = warning.expect("nobody can be asked what calm asks");
    assert!(warning.contains("permission requests from calm will be refused"), "{warning}");
    while !engine.workflow(id).await.unwrap().is_running() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let given = id.to_string();
    let mut status =
        ask_pause(&app, &caller, &given, PauseWorkflow::default()).await.unwrap().status();
    program.turns.add_permits(1);
    while status == Status::InProgress {
        tokio::time::sleep(Duration::from_millis(5)).await;
        status = engine.workflow(id).await.unwrap().status();
    }
    assert_eq!(status, Status::Paused);
    assert_eq!(engine.workflow(id).await.unwrap().remaining(), 1);

    let moved = go_on(&app, &caller, &given, ResumeWorkflow::default()).await.unwrap();
    assert_eq!(moved.status, "resumed");
    program.turns.add_permits(1);
    while engine.workflow(id).await.unwrap().status() != Status::Completed {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
