//! How SQLite carries out the queries that must not go through whole tables.

use jiff::Timestamp;
use rethread_domain::SessionId;
use rethread_workflow::WorkflowId;

use super::imports::{ALL, ATTACHED, IMPORTED, OF_SESSION};
use super::read::Chosen;
use super::rows;
use super::schema::plan_of;
use super::workflows::rows::listing;
use crate::types::ListFilter;
use crate::workflows::WorkflowFilter;

fn check_list(filter: &ListFilter, user: Option<&str>, index: &str) {
    let user = user.map(str::to_owned);
    let mut chosen = Chosen::of(user.as_ref(), filter);
    let (time, is_there) = if filter.deleted {
        ("deleted_at", "deleted_at is not null")
    } else {
        ("last_active_at", "deleted_at is null")
    };
    chosen.add(is_there, None);
    let plan = plan_of(&rows::select_session(&chosen.ordered(time, filter)));
    assert_eq!(plan, [format!("SEARCH session USING INDEX {index}")]);
}

#[test]
fn a_list_of_sessions_goes_on_from_any_place_by_an_index() {
    let before = Some((Timestamp::UNIX_EPOCH, SessionId::generate()));
    let all = ListFilter { before, limit: 5, ..ListFilter::default() };
    let place = "(last_active_at,id)<(?,?)";
    check_list(&all, Some("anna"), &format!("session_of_user (user=? AND {place})"));
    check_list(
        &ListFilter { before: None, ..all.clone() },
        Some("anna"),
        "session_of_user (user=?)",
    );
    let deleted = ListFilter { deleted: true, ..all };
    check_list(&deleted, None, "session_deleted (deleted_at>? AND (deleted_at,id)<(?,?))");
}

#[test]
fn where_a_session_came_from_and_was_opened_is_found_by_an_index() {
    for (kind, index) in [(IMPORTED, "fact_imported"), (ATTACHED, "fact_attached")] {
        let sql = format!("select what from fact where {OF_SESSION} and {kind}");
        let plan = plan_of(&sql.replace("?1", "'x'")).join("\n");
        assert!(plan.contains(index), "{plan}");
        let sql =
            format!("select what from fact join session on session.no = fact.session where {kind}");
        let plan = plan_of(&sql).join("\n");
        assert!(plan.contains(index), "{plan}");
    }
}

#[test]
fn how_far_one_was_read_is_found_by_its_key() {
    let sql = format!("{ALL} where source = 'x' and native = ''");
    let plan = plan_of(&sql).join("\n");
    assert!(plan.contains("PRIMARY KEY (source=? AND native=?)"), "{plan}");
}

#[test]
fn what_has_to_be_erased_is_found_by_an_index() {
    let plan = plan_of("select id from session where deleted_at < 5").join("\n");
    assert!(plan.contains("session_deleted"), "{plan}");
}

#[test]
fn a_list_of_workflows_goes_on_from_any_place_by_an_index() {
    let name = || Some("a".to_owned());
    let before = Some((Timestamp::UNIX_EPOCH, WorkflowId::generate()));
    let all = WorkflowFilter { before, limit: 5, ..WorkflowFilter::default() };
    for (filter, index) in [
        (all.clone(), "workflow_by_status (status=? AND (created_at,id)<(?,?))"),
        (
            WorkflowFilter { user: name(), ..all.clone() },
            "workflow_of_user (user=? AND status=? AND (created_at,id)<(?,?))",
        ),
        (
            WorkflowFilter { worktree: name(), ..all },
            "workflow_in_worktree (worktree=? AND status=? AND (created_at,id)<(?,?))",
        ),
    ] {
        let plan = plan_of(&listing(&filter));
        assert_eq!(plan, [format!("SEARCH workflow USING INDEX {index}")]);
    }
}
