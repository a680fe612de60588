//! The state of the worktree's repository, and how it differs from a snapshot.

use std::path::Path;

use rethread_domain::quote::one_line;
use rethread_workflow::{GitDelta, GitState, Snapshot, Task, TaskState, Workflow};
use rethread_workspace as workspace;

/// How many files a line about a difference names.
const NAMED: usize = 3;
/// How many tasks are listed.
const MOST_TASKS: usize = 50;

/// The current state; empty if there is no repository.
pub(super) fn now(workflow: &Workflow) -> GitState {
    let start = workflow.git.commit_at_start.clone();
    let folder = Path::new(&workflow.charter.worktree);
    let Some(state) = workspace::state(folder, start.as_deref()) else {
        return GitState { commit_at_start: start, ..GitState::default() };
    };
    GitState {
        branch: state.branch,
        commit_at_start: start,
        commit: state.commit,
        files_modified: state.modified_since.names,
        files_staged: state.staged.names,
        files_uncommitted: state.uncommitted.names,
        uncommitted_summary: state.summary,
    }
}

pub(super) fn delta(workflow: &Workflow) -> GitDelta {
    GitDelta::between(&workflow.git, &now(workflow))
}

/// How the repository differs from the snapshot, one line each.
pub(super) fn diverged(snapshot: &GitState, now: &GitState) -> Vec<String> {
    let mut lines = Vec::new();
    let name = |branch: &Option<String>| {
        branch.as_deref().map_or("no branch".to_owned(), |name| one_line(name, 80))
    };
    if snapshot.branch != now.branch {
        lines.push(format!(
            "the branch is {}, it was {}",
            name(&now.branch),
            name(&snapshot.branch)
        ));
    }
    if snapshot.commit != now.commit {
        let short = |commit: &Option<String>| {
            commit.as_deref().map_or("none".to_owned(), |id| id.chars().take(12).collect())
        };
        lines.push(format!(
            "the commit is {}, it was {}",
            short(&now.commit),
            short(&snapshot.commit)
        ));
    }
    let missing = |from: &[String], of: &[String]| -> Vec<String> {
        of.iter().filter(|file| !from.contains(file)).map(|file| one_line(file, 80)).collect()
    };
    let more = missing(&snapshot.files_uncommitted, &now.files_uncommitted);
    let less = missing(&now.files_uncommitted, &snapshot.files_uncommitted);
    for (files, what) in [(more, "changed since"), (less, "no longer changed")] {
        if !files.is_empty() {
            let rest = files.len().saturating_sub(NAMED);
            let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
            let named: Vec<&str> = files.iter().take(NAMED).map(String::as_str).collect();
            lines.push(format!("{what}: {}{more}", named.join(", ")));
        }
    }
    lines
}

/// How the tasks differ from the snapshot, one line each; repeated tasks have lines of their own.
pub(super) fn tasks_diverged(
    snapshot: &Snapshot,
    workflow: &Workflow,
    rewind: &[String],
) -> Vec<String> {
    let shown = |state: TaskState| state.as_str().replace('_', " ");
    let line = |task: &Task| {
        let id = one_line(&task.spec.id, 80);
        if rewind.contains(&task.spec.id) {
            return Some(format!(
                "task {id} is to be done again; what was done for it is still in the folder"
            ));
        }
        match snapshot.tasks.iter().find(|then| then.spec.id == task.spec.id) {
            None => Some(format!("task {id} is new")),
            Some(then) if then.state() != task.state() => Some(format!(
                "task {id} is {}, it was {}",
                shown(task.state()),
                shown(then.state())
            )),
            Some(_) => None,
        }
    };
    workflow.tasks.iter().filter_map(line).take(MOST_TASKS).collect()
}

/// The commit that is checked out.
pub(super) fn head(folder: &Path) -> Option<String> {
    workspace::head(folder).map(|head| head.commit)
}
