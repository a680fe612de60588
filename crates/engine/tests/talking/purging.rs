//! A purge takes along what is ours, and names what is not.

use std::fs;

use futures::executor::block_on;
use rethread_domain::opening::Watermark;
use rethread_domain::{Fact, SessionId};
use rethread_testkit::{TestStore, assistant, at, user};
use rethread_workflow::{Charter, Event, Issue, Limits, Question, TaskSpec, WorkflowId};

const SECRET: &str = "hunter2xyzzy";

fn charter() -> Charter {
    Charter {
        user: "anna".to_owned(),
        worktree: "/work".to_owned(),
        plan: None,
        title: "Keys".to_owned(),
        issue: Issue { text: "Let the login use the new key store".to_owned(), ..Issue::default() },
        agent: "codex".to_owned(),
        permissions: None,
        limits: Limits::default(),
    }
}

#[test]
fn a_purge_takes_along_quotations_of_workflows_and_the_files_of_invoked_sessions() {
    block_on(async {
        let store = TestStore::sqlite().await;
        let session = store.begin().await;
        let prompt = format!("Let the login use the new key store. Its password is {SECRET}.");
        store.add(session, vec![user(&prompt), assistant("Done")]).await.unwrap();
        let fork = store.fork(session, 2, SessionId::generate(), at(1)).await.unwrap().id;
        let workflow = WorkflowId::generate();
        let task = || "one".to_owned();
        let why = format!("the password is {SECRET}, which was refused");
        let events = vec![
            Event::Created(charter()),
            Event::Planned { tasks: vec![TaskSpec { id: task(), ..TaskSpec::default() }] },
            Event::TaskBegan { task: task(), attempt: 1, session, agent: "codex".to_owned() },
            Event::Asked(Question::TaskFailed { task: task(), why }),
        ];
        store.create_workflow(workflow, events, at(2)).await.unwrap();
        let streams = store.beside("output_streams");
        let engine = store.engine().with_output_streams(streams.clone());
        for id in [session, fork] {
            fs::create_dir_all(streams.join(id.to_string())).unwrap();
            fs::write(streams.join(id.to_string()).join("session.log"), SECRET).unwrap();
        }
        let purge = engine.purge(session, 1).await.unwrap();
        assert_eq!(fs::read_dir(&streams).unwrap().count(), 0);
        let state = format!("{:?}", engine.workflow(workflow).await.unwrap());
        assert!(!state.contains(SECRET), "{state}");
        assert!(!store.holds(SECRET));
        // The issue is what its author wrote: it is named, with the way to remove it.
        assert!(state.contains("Let the login use the new key store"), "{state}");
        assert_eq!((purge.in_workflows.as_slice(), purge.left.len()), (&[workflow][..], 0));
        let remarks = purge.remarks().join("\n");
        assert!(remarks.contains(&format!("workflow {workflow}")), "{remarks}");
        store.expect_sound().await;
    });
}

#[test]
fn what_cannot_be_removed_is_named_and_deleting_takes_the_files_along() {
    block_on(async {
        let store = TestStore::sqlite().await;
        let session = store.begin().await;
        store.add(session, vec![user("one"), user("two")]).await.unwrap();
        let streams = store.beside("output_streams");
        let engine = store.engine().with_output_streams(streams.clone());
        // A file where a folder should be.
        fs::create_dir_all(&streams).unwrap();
        let file = streams.join(session.to_string());
        fs::write(&file, "in the way").unwrap();
        let purge = engine.purge(session, 1).await.unwrap();
        assert!(purge.remarks().join("\n").contains("could not be removed"), "{purge:?}");
        fs::remove_file(&file).unwrap();
        fs::create_dir_all(&file).unwrap();
        engine.delete(session).await.unwrap();
        assert!(!file.exists());
    });
}

#[test]
fn the_sessions_of_agents_that_have_it_are_named_and_no_others() {
    block_on(async {
        let store = TestStore::sqlite().await;
        let session = store.begin().await;
        store.add(session, vec![user(SECRET), assistant("Noted")]).await.unwrap();
        let fork = store.fork(session, 2, SessionId::generate(), at(1)).await.unwrap().id;
        let holds = |conversation: &str, native: &str, upto| {
            let native = native.to_owned();
            Fact::Holds(Watermark { native, upto, ..Watermark::nothing(conversation, "trial") })
        };
        store.note(session, holds("main", "first", 2)).await;
        store.note(session, holds("third", "unrelated", 4)).await;
        store.note(session, holds("main", "", 2)).await;
        store.note(fork, holds("main", "forked", 4)).await;
        let engine = store.engine();
        let purge = engine.purge(session, 1).await.unwrap();
        let natives: Vec<&str> = purge.held_by.iter().map(|one| one.native.as_str()).collect();
        assert_eq!(natives, ["first", "forked"]);
        assert_eq!(purge.purged_before, None);
        let again = engine.purge(fork, 1).await.unwrap();
        assert!(again.purged_before.is_some());
        assert_eq!(again.held_by.len(), 2);
    });
}
