//! The guard: a process of ours between us and a program that we start, so that none of its processes outlives us.
//!
//! The program gets the guard's standard streams themselves; the guard only waits. It adopts orphaned processes of the program, and
//! ends all of them when the program exits or when the pipe from us closes, which also happens when we are killed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};
use tokio::signal::unix::{SignalKind, signal};

/// How long processes have between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);
/// How long killing may take.
const PATIENCE: Duration = Duration::from_secs(2);
const STEP: Duration = Duration::from_millis(10);

/// The prefix of each complaint of the guard.
pub(crate) const COMPLAINT: &str = "rethread guard: ";
pub(crate) const NOT_FOUND: u8 = 127;
pub(crate) const NOT_EXECUTABLE: u8 = 126;

enum Event {
    Exited(ExitStatus),
    /// Our parent is gone, or wants the program to end.
    Abandoned,
}

/// Runs `--fd N -- PROGRAM ARGS…`: what follows the name of the subcommand.
pub fn guard(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    match run(args.into_iter().collect()) {
        Ok(code) => ExitCode::from(code),
        Err((code, why)) => {
            complain(&why);
            ExitCode::from(code)
        }
    }
}

#[expect(clippy::print_stderr, reason = "there is nobody else to tell")]
fn complain(why: &str) {
    eprintln!("{COMPLAINT}{why}");
}

type Failure = (u8, String);

fn run(args: Vec<OsString>) -> Result<u8, Failure> {
    let failed = |error: io::Error| (1, error.to_string());
    let (fd, command) = parse(&args)?;
    // Reopened, so that it is closed in what we start; one more reader changes nothing.
    let alive = File::open(format!("/dev/fd/{fd}")).map_err(failed)?;
    let _survive = survive().map_err(failed)?;
    adopt();
    let (program, args) = command.split_first().ok_or((2, "no program".to_owned()))?;
    let child = Command::new(program).args(args).spawn().map_err(|error| {
        let code = if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE };
        (code, format!("{}: {error}", program.display()))
    })?;
    let child = child.id();
    leave_streams().map_err(failed)?;
    let (events, happened) = mpsc::channel();
    let exits = events.clone();
    thread::spawn(move || reap(child, &exits));
    thread::spawn(move || watch(alive, &events));
    let status = match happened.recv() {
        Ok(Event::Exited(status)) => Some(status),
        _ => None,
    };
    sweep(&happened);
    Ok(status.map_or(143, code))
}

fn parse(args: &[OsString]) -> Result<(u32, &[OsString]), Failure> {
    let usage = || (2, "usage: guard --fd N -- PROGRAM ARGS…".to_owned());
    match args {
        [flag, fd, rest, command @ ..] if flag == "--fd" && rest == "--" => {
            let fd = fd.to_str().and_then(|fd| fd.parse().ok()).ok_or_else(usage)?;
            Ok((fd, command))
        }
        _ => Err(usage()),
    }
}

/// Signals that the program sends to its own process group reach us too, and must not end us. The result has to be kept. The program
/// does not inherit this.
fn survive() -> io::Result<impl Sized> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let entered = runtime.enter();
    let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
    let caught = kinds.into_iter().map(signal).collect::<io::Result<Vec<_>>>()?;
    drop(entered);
    Ok((runtime, caught))
}

#[cfg(target_os = "linux")]
fn adopt() {
    // If it fails, only processes that detach themselves are out of reach.
    let _unadopted = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

#[cfg(not(target_os = "linux"))]
fn adopt() {}

/// Closes the streams, so that they end with the program.
fn leave_streams() -> io::Result<()> {
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    rustix::stdio::dup2_stderr(&nothing)?;
    Ok(())
}

/// Waits for all of our children, adopted or not, so that none stays a zombie.
fn reap(child: u32, events: &mpsc::Sender<Event>) {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) => {
                if pid.as_raw_nonzero().get().unsigned_abs() == child {
                    let status = ExitStatus::from_raw(status.as_raw());
                    let _over = events.send(Event::Exited(status));
                }
            }
            Ok(None) | Err(rustix::io::Errno::INTR) => (),
            // No children are left.
            Err(_) => return,
        }
    }
}

fn watch(mut alive: File, events: &mpsc::Sender<Event>) {
    let mut nothing = [0; 16];
    loop {
        match alive.read(&mut nothing) {
            Err(error) if error.kind() == ErrorKind::Interrupted => (),
            Ok(0) | Err(_) => break,
            Ok(_) => (),
        }
    }
    let _over = events.send(Event::Abandoned);
}

/// Ends all descendants: SIGTERM, wait, SIGKILL.
fn sweep(happened: &mpsc::Receiver<Event>) {
    let mut asked = BTreeSet::new();
    let begun = Instant::now();
    loop {
        let left = descendants();
        if left.is_empty() || begun.elapsed() > GRACE + PATIENCE {
            return;
        }
        let is_over = begun.elapsed() > GRACE;
        for pid in left {
            if is_over {
                let _gone = kill_process(pid, Signal::KILL);
            } else if asked.insert(pid.as_raw_nonzero()) {
                let _gone = kill_process(pid, Signal::TERM);
            }
        }
        // The reaper reports the end of the program; processes that it left have to be looked for.
        match happened.recv_timeout(STEP) {
            Ok(_) | Err(RecvTimeoutError::Timeout) => (),
            Err(RecvTimeoutError::Disconnected) => thread::sleep(STEP),
        }
    }
}

/// All descendants of this process that are not dead yet.
fn descendants() -> Vec<Pid> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let mut children: BTreeMap<i32, Vec<(i32, bool)>> = BTreeMap::new();
    for (pid, parent, is_dead) in processes() {
        children.entry(parent).or_default().push((pid, is_dead));
    }
    let mut found = Vec::new();
    let mut parents = vec![own];
    while let Some(parent) = parents.pop() {
        for (pid, is_dead) in children.remove(&parent).unwrap_or_default() {
            parents.push(pid);
            if !is_dead {
                found.extend(Pid::from_raw(pid));
            }
        }
    }
    found
}

/// Id, parent and whether it is a zombie, of every process.
#[cfg(target_os = "linux")]
fn processes() -> Vec<(i32, i32, bool)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    ids.filter_map(|pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name may contain anything, parentheses too: state and parent follow the last one.
        let mut rest = stat.get(stat.rfind(')')? + 1..)?.split_whitespace();
        let (state, parent) = (rest.next()?, rest.next()?.parse().ok()?);
        Some((pid, parent, matches!(state, "Z" | "X")))
    })
    .collect()
}

#[cfg(not(target_os = "linux"))]
fn processes() -> Vec<(i32, i32, bool)> {
    let listed = Command::new("/bin/ps").args(["-A", "-o", "pid=,ppid=,stat="]).output();
    let listed = listed.map(|output| output.stdout).unwrap_or_default();
    let lines = String::from_utf8_lossy(&listed).into_owned();
    lines
        .lines()
        .filter_map(|line| {
            let mut rest = line.split_whitespace();
            let (pid, parent) = (rest.next()?.parse().ok()?, rest.next()?.parse().ok()?);
            Some((pid, parent, rest.next()?.starts_with('Z')))
        })
        .collect()
}

fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
