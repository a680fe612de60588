//! The server of PostgreSQL for tests goes with the run that started it.

#![allow(clippy::unwrap_used, clippy::expect_used)] // Tests may panic.
#![allow(clippy::print_stdout)] // One process tells another.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rethread_testkit::postgres::Database;
use rethread_testkit::until;

/// Set in a process that is a run of its own, as it is not cargo's child.
const RUN: &str = "RUN_WITH_A_DATABASE";

#[test]
fn one_process_can_be_a_run() {
    if std::env::var_os(RUN).is_none() {
        return;
    }
    let database = Database::empty();
    println!("folder {}", database.folder().display());
    // Until it is killed.
    drop(std::io::stdin().lines().next());
}

/// A run that has a database now, and the folder of its server.
fn run() -> (Child, PathBuf) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["one_process_can_be_a_run", "--exact", "--nocapture"])
        .env(RUN, "")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let folder = lines
        .map(|line| line.unwrap())
        .find_map(|line| line.split_once("folder ").map(|(_, folder)| PathBuf::from(folder)));
    (child, folder.unwrap())
}

/// The processes whose command line names the folder.
fn processes_of(folder: &Path) -> Vec<u32> {
    let of = |id: &u32| std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
    let name = folder.to_str().unwrap();
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let ids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter(|id| String::from_utf8_lossy(&of(id)).contains(name)).collect()
}

fn kill(id: u32) {
    assert!(Command::new("kill").args(["-9", &id.to_string()]).status().unwrap().success());
}

#[test]
fn nothing_is_left_of_a_run_that_was_killed() {
    let (mut run, folder) = run();
    assert!(!processes_of(&folder).is_empty());
    run.kill().unwrap();
    run.wait().unwrap();
    until("its server is gone", || processes_of(&folder).is_empty().then_some(()));
    until("its folder is gone", || (!folder.exists()).then_some(()));
}

#[test]
fn what_is_left_where_everything_was_killed_is_removed_by_the_next_run() {
    let (mut first, folder) = run();
    let keeper = |id: &u32| {
        let name = std::fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
        name.trim() == "bash"
    };
    kill(processes_of(&folder).into_iter().find(keeper).unwrap());
    first.kill().unwrap();
    first.wait().unwrap();
    until("its server is gone", || processes_of(&folder).is_empty().then_some(()));
    assert!(folder.exists());
    let (mut second, _) = run();
    assert!(!folder.exists());
    second.kill().unwrap();
    second.wait().unwrap();
}
