//! A session that went on in several clones at once: each of its branches keeps its time, and its folder is the same everywhere.

use std::fs;

use crate::env::TestEnv;
use crate::workspace_clones::{
    Team, assert_clean, begun, both_go_on, branch, commit_all, list, pull, push, said, say,
    sessions, stop,
};
use crate::workspace_sessions::only_folder;

#[test]
fn a_branch_from_elsewhere_is_as_old_as_what_was_said_in_it() {
    let team = Team::new(2);
    let [a, b] = &team.clones[..] else { panic!() };
    let id = begun(a);
    pull(b);
    list(b);
    // B is the last to say something.
    both_go_on(a, b, &id);
    push(a);
    pull(b);
    let listed = b.json(["list"]);
    let newest = &listed.as_array().unwrap()[0];
    assert_eq!(newest["session_id"], id.as_str(), "its own branch: {listed:#}");
    let fork = branch(b, &id);
    let last = b.messages(&fork).last().unwrap()["timestamp"].clone();
    assert_eq!(b.json(["show", &fork])["last_active_at"], last);
    b.run(["continue", "say: B goes on alone"]).succeeded();
    assert_eq!(said(b, &id).last().unwrap(), "B goes on alone");
    b.assert_sound();
}

#[test]
fn after_a_merge_the_files_of_a_session_are_the_same_in_every_clone() {
    let team = Team::new(3);
    let [a, b, c] = &team.clones[..] else { panic!() };
    let id = begun(a);
    pull(b);
    list(b);
    both_go_on(a, b, &id);
    push(a);
    pull(b);
    // The merge may be put in order once.
    list(b);
    commit_all(b);
    push(b);
    let page = |env: &TestEnv| fs::read_to_string(only_folder(env).join("brainstorm.md")).unwrap();
    let settled = |clones: &[&TestEnv]| {
        for _ in 0..2 {
            for env in clones {
                list(env);
                assert_clean(env);
            }
        }
    };
    pull(a);
    pull(c);
    settled(&[a, b, c]);
    assert!(page(a).contains("gRPC, says B"), "what was said last: {}", page(a));
    // Whoever goes on, in its own branch or in that of the other, the others have no changes of their own after a pull.
    for (turn, (who, is_own)) in
        [(a, true), (b, true), (a, false), (c, true), (b, false)].into_iter().enumerate()
    {
        pull(who);
        list(who);
        let session = if is_own { id.clone() } else { branch(who, &id) };
        say(who, &session, &format!("Decision: number {turn}"));
        stop(who, &session);
        commit_all(who);
        push(who);
        for env in [a, b, c] {
            pull(env);
        }
        settled(&[a, b, c]);
        assert!(page(who).contains(&format!("number {turn}")), "{turn}: {}", page(who));
    }
    for env in &team.clones {
        env.assert_sound();
        assert_eq!(sessions(env).len(), 2);
    }
}
