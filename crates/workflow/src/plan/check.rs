//! Validates the tasks of a plan: unique ids, known dependencies, no cycles.

use std::collections::HashMap;

use super::super::task::TaskSpec;
use super::Problem;

/// How many cycles are reported; one of them may hide others anyway.
const MOST_CYCLES: usize = 10;
/// How many tasks of a cycle are named.
const MOST_NAMED: usize = 20;

/// Adds the problems; `places` are the lines of the tasks.
pub(super) fn check(tasks: &[TaskSpec], places: &[usize], problems: &mut Vec<Problem>) {
    let mut known: HashMap<&str, usize> = HashMap::new();
    for (at, task) in tasks.iter().enumerate() {
        if let Some(first) = known.get(task.id.as_str()) {
            let what =
                format!("the id {} is taken by the task of line {}", task.id, places[*first]);
            problems.push(Problem { line: places[at], what });
        } else {
            known.insert(&task.id, at);
        }
    }
    let mut edges: Vec<Vec<usize>> = vec![Vec::new(); tasks.len()];
    for (at, task) in tasks.iter().enumerate() {
        for on in &task.depends_on {
            let what = match known.get(on.as_str()) {
                Some(other) if *other == at || *on == task.id => {
                    format!("task {} depends on itself", task.id)
                }
                Some(other) => {
                    edges[at].push(*other);
                    continue;
                }
                None => format!("task {} depends on {on}, which is no task of this plan", task.id),
            };
            problems.push(Problem { line: places[at], what });
        }
    }
    for cycle in cycles(&edges) {
        let mut names: Vec<&str> =
            cycle.iter().take(MOST_NAMED).map(|at| tasks[*at].id.as_str()).collect();
        if cycle.len() > MOST_NAMED {
            names.push("…");
        }
        names.extend(cycle.first().map(|at| tasks[*at].id.as_str()));
        let what = format!("tasks depend on each other in a circle: {}", names.join(" → "));
        problems.push(Problem { line: cycle.first().map_or(1, |at| places[*at]), what });
    }
}

/// Cycles of dependencies; no task is in two of them.
fn cycles(edges: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut is_gone = vec![false; edges.len()];
    let mut found = Vec::new();
    while found.len() < MOST_CYCLES {
        free(edges, &mut is_gone);
        let Some(mut at) = is_gone.iter().position(|gone| !gone) else { break };
        // Every remaining task depends on a remaining one, so the walk has to come round.
        let mut seen: HashMap<usize, usize> = HashMap::new();
        let mut path = Vec::new();
        while !seen.contains_key(&at) {
            seen.insert(at, path.len());
            path.push(at);
            let Some(next) = edges[at].iter().find(|next| !is_gone[**next]) else { break };
            at = *next;
        }
        let mut cycle = path.split_off(seen.get(&at).copied().unwrap_or(0));
        for at in &cycle {
            is_gone[*at] = true;
        }
        let first = cycle.iter().enumerate().min_by_key(|(_, at)| **at).map_or(0, |(at, _)| at);
        cycle.rotate_left(first);
        found.push(cycle);
    }
    found
}

/// Removes tasks that could be done, one after another.
fn free(edges: &[Vec<usize>], is_gone: &mut [bool]) {
    let mut waits: Vec<usize> =
        edges.iter().map(|on| on.iter().filter(|on| !is_gone[**on]).count()).collect();
    let mut leads: Vec<Vec<usize>> = vec![Vec::new(); edges.len()];
    for (at, on) in edges.iter().enumerate() {
        for on in on {
            leads[*on].push(at);
        }
    }
    let mut ready: Vec<usize> =
        (0..edges.len()).filter(|at| !is_gone[*at] && waits[*at] == 0).collect();
    while let Some(at) = ready.pop() {
        is_gone[at] = true;
        for next in &leads[at] {
            waits[*next] = waits[*next].saturating_sub(1);
            if waits[*next] == 0 && !is_gone[*next] {
                ready.push(*next);
            }
        }
    }
}
