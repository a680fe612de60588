//! Commands of the shell: what they say, how they end, and that nothing of them is left.

use std::ffi::OsString;
use std::future::pending;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rethread_acp::Shell;
use rethread_engine::workflows::{Checker, CommandOutcome, ExitReason};
use tempfile::TempDir;
use tokio::sync::{oneshot, watch};

use crate::world::{WATCHDOG, actor, eventually, marked};

/// The promise: everything is gone in this time.
const SOON: Duration = Duration::from_secs(5);
/// Long enough for all of it to have started, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(4);
/// A program that will not be asked to go, its child, and a daemon.
const DEAF: &str = "trap '' TERM INT HUP; setsid --fork sleep 300 >/dev/null 2>&1; sh -c 'sleep 300; :' & \
                    echo begun; touch begun; while :; do sleep 300; done";

fn shell(mark: &str) -> Shell {
    let mut environment: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    environment.push(("ACP_TEST_MARK".into(), mark.into()));
    environment.push(("RETHREAD_TOKEN".into(), "secret".into()));
    environment.push(("DATABASE_URL".into(), "secret".into()));
    Shell {
        guard: Some(vec![actor().into_os_string(), "guard".into()]),
        environment,
        withheld: vec!["DATABASE_URL".into()],
    }
}

fn mark(name: &str) -> String {
    format!("shell-{name}-{}", std::process::id())
}

fn left(mark: &str) -> Vec<u32> {
    marked(&format!("ACP_TEST_MARK={mark}"))
}

/// Runs a command that ends by itself.
async fn run(command: &str, folder: &Path) -> CommandOutcome {
    let shell = shell("plain");
    let run = shell.run(command, folder, WATCHDOG * 2, pending());
    tokio::time::timeout(WATCHDOG, run).await.expect("it hangs")
}

fn finished(code: i32, output: &str) -> CommandOutcome {
    CommandOutcome { code: Some(code), output: output.to_owned(), over: ExitReason::Finished }
}

#[tokio::test]
async fn both_streams_come_in_order() {
    let folder = TempDir::new().unwrap();
    let command = "for n in 1 2 3; do echo out $n; echo err $n >&2; done; exit 3";
    let said = "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n";
    assert_eq!(run(command, folder.path()).await, finished(3, said));
    assert!(run("true", folder.path()).await.is_good());
    assert!(!run("false", folder.path()).await.is_good());
}

#[tokio::test]
async fn it_runs_in_the_folder_without_input_and_without_our_secrets() {
    let folder = TempDir::new().unwrap();
    let here = folder.path().canonicalize().unwrap();
    let command = "pwd; cat; echo \"[$RETHREAD_TOKEN$DATABASE_URL]\"";
    let said = format!("{}\n[]\n", here.display());
    assert_eq!(run(command, &here).await, finished(0, &said));
}

#[tokio::test]
async fn ends_of_all_kinds_are_told() {
    let folder = TempDir::new().unwrap();
    assert_eq!(run("kill -9 $$", folder.path()).await, finished(137, ""));
    let missing = run("no-such-program-at-all", folder.path()).await;
    assert_eq!((missing.code, missing.over), (Some(127), ExitReason::Finished));
    assert!(missing.output.contains("no-such-program-at-all"), "{}", missing.output);
    let bytes = run("printf 'a\\377b'", folder.path()).await;
    assert_eq!(bytes, finished(0, "a\u{fffd}b"));
}

#[tokio::test]
async fn what_cannot_start_says_why() {
    let folder = TempDir::new().unwrap();
    let gone = folder.path().join("gone");
    let told = format!("there is no folder {}", gone.display());
    assert_eq!(run("true", &gone).await, CommandOutcome::cannot_start(told));
    let nul = run("echo \0", folder.path()).await;
    assert!(matches!(nul.over, ExitReason::CannotStart(_)), "{nul:?}");
    let mut unguarded = shell("plain");
    unguarded.guard = Some(vec!["/nonexistent/guard".into()]);
    let ran = unguarded.run("true", folder.path(), WATCHDOG, pending()).await;
    assert!(matches!(ran.over, ExitReason::CannotStart(_)), "{ran:?}");
}

#[tokio::test]
async fn what_takes_too_long_is_ended_with_all_that_it_started() {
    let (mark, folder) = (mark("late"), TempDir::new().unwrap());
    let shell = shell(&mark);
    let begun = Instant::now();
    let run = shell.run(DEAF, folder.path(), LIMIT, pending());
    let (ran, ()) = tokio::join!(run, async {
        let mark = mark.clone();
        // Seen once: a second look may come when the time is over.
        let seen = "guard, shell, its child and the daemon run";
        let look = move || eventually(seen, WATCHDOG, || left(&mark).len() >= 5);
        tokio::task::spawn_blocking(look).await.unwrap();
    });
    assert_eq!(
        ran,
        CommandOutcome { code: None, output: "begun\n".to_owned(), over: ExitReason::TimedOut }
    );
    assert_eq!(left(&mark), [0; 0]);
    assert!(begun.elapsed() < LIMIT + SOON, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn whoever_stops_it_ends_all_of_it() {
    let (mark, folder) = (mark("stopped"), TempDir::new().unwrap());
    let checker: Arc<dyn Checker> = Arc::new(shell(&mark));
    let (stop, stopped) = watch::channel(false);
    let begun = folder.path().join("begun");
    let stopping = tokio::task::spawn_blocking(move || {
        eventually("it has begun", WATCHDOG, || begun.exists());
        stop.send_replace(true);
        Instant::now()
    });
    let ran = checker.check(DEAF, folder.path(), WATCHDOG, stopped).await;
    assert_eq!((ran.code, ran.over), (None, ExitReason::Stopped));
    assert!(stopping.await.unwrap().elapsed() < SOON);
    assert_eq!(left(&mark), [0; 0]);
}

#[tokio::test]
async fn a_stop_that_can_never_come_stops_nothing() {
    let folder = TempDir::new().unwrap();
    let (stop, stopped) = watch::channel(false);
    drop(stop);
    let ran = shell("plain").check("echo x", folder.path(), WATCHDOG, stopped).await;
    assert_eq!(ran, finished(0, "x\n"));
}

#[tokio::test]
async fn what_is_dropped_is_ended() {
    let (mark, folder) = (mark("dropped"), TempDir::new().unwrap());
    let (shell, path) = (shell(&mark), folder.path().to_owned());
    let running = tokio::spawn(async move { shell.run(DEAF, &path, WATCHDOG, pending()).await });
    let begun = folder.path().join("begun");
    let wait = move || eventually("it has begun", WATCHDOG, || begun.exists());
    tokio::task::spawn_blocking(wait).await.unwrap();
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    eventually("all processes are gone", SOON, || left(&mark).is_empty());
}

#[test]
fn nothing_is_left_when_we_are_killed() {
    let (mark, folder) = (mark("killed"), TempDir::new().unwrap());
    let mut driver = Command::new(actor());
    driver.arg("shell").arg(folder.path()).arg(DEAF).env("ACP_TEST_MARK", &mark);
    let mut driver = driver.spawn().unwrap();
    eventually("it has begun", WATCHDOG, || {
        folder.path().join("begun").exists() && left(&mark).len() >= 6
    });
    driver.kill().unwrap();
    driver.wait().unwrap();
    eventually("all processes are gone", SOON, || left(&mark).is_empty());
}

#[tokio::test]
async fn a_daemon_does_not_outlive_its_command() {
    let (mark, folder) = (mark("daemon"), TempDir::new().unwrap());
    // It holds the output open, too.
    let command = "setsid --fork sleep 300; sleep 300 & echo done";
    let run = shell(&mark).run(command, folder.path(), WATCHDOG, pending()).await;
    assert_eq!(run, finished(0, "done\n"));
    assert_eq!(left(&mark), [0; 0]);
}

#[tokio::test]
async fn without_a_guard_at_least_the_group_is_ended() {
    let (mark, folder) = (mark("unguarded"), TempDir::new().unwrap());
    let mut shell = shell(&mark);
    shell.guard = None;
    let (stop, stopped) = oneshot::channel();
    let begun = folder.path().join("begun");
    tokio::task::spawn_blocking(move || {
        eventually("it has begun", WATCHDOG, || begun.exists());
        stop.send(()).unwrap();
    });
    let command = "trap '' TERM; touch begun; sleep 300; sleep 300";
    let stop = async { stopped.await.unwrap() };
    let ran = shell.run(command, folder.path(), WATCHDOG, stop).await;
    assert_eq!((ran.code, ran.over), (None, ExitReason::Stopped));
    eventually("all processes are gone", SOON, || left(&mark).is_empty());
}

#[tokio::test]
async fn much_output_is_kept_at_both_ends() {
    let folder = TempDir::new().unwrap();
    let ran = run("echo begin; yes 0123456 | head -n 1000000; echo end >&2", folder.path()).await;
    assert_eq!((ran.code, ran.over), (Some(0), ExitReason::Finished));
    assert!(ran.output.starts_with("begin\n0123456\n") && ran.output.ends_with("0123456\nend\n"));
    let missing = 8_000_000 + 6 + 4 - (64 + 512) * 1024;
    assert!(ran.output.contains(&format!("\n[… {missing} bytes are left out …]\n")));
    assert!(ran.output.len() < 600 * 1024);
}
