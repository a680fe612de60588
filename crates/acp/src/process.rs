//! A child process with all of its descendants, which live no longer than we hold it.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use rethread_engine::agents::AgentError;
use rustix::io::FdFlags;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::connection::lock;

/// How long the guard has to end everything, which it promises to do within four seconds.
const GUARD_PATIENCE: Duration = Duration::from_secs(6);
/// How long programs have to exit before they are killed, if there is no guard.
const GRACE: Duration = Duration::from_secs(2);

/// What to start.
#[derive(Debug)]
pub(crate) struct Recipe<'a> {
    /// The command before the program: our guard, without its flags.
    pub(crate) guard: Option<&'a [OsString]>,
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    pub(crate) folder: &'a Path,
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) stdin: Stdio,
    /// Where both output streams go together; otherwise each has a pipe to us.
    pub(crate) merged: Option<OwnedFd>,
}

/// A running program. If dropped, it is ended.
#[derive(Debug)]
pub(crate) struct Process {
    /// The guard ends everything when this is closed.
    alive: Mutex<Option<OwnedFd>>,
    /// The process group of the program.
    group: Option<Pid>,
    guarded: bool,
    exit: watch::Receiver<Option<ExitStatus>>,
}

#[derive(Debug)]
pub(crate) struct Streams {
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: Option<ChildStdout>,
    pub(crate) stderr: Option<ChildStderr>,
}

pub(crate) fn start(recipe: Recipe<'_>) -> std::io::Result<(Process, Streams)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    let mut command = match recipe.guard.and_then(<[_]>::split_first) {
        Some((own, rest)) => {
            // The guard inherits this end. If another child does so too, no harm is done: what counts is who holds the other end.
            rustix::io::fcntl_setfd(&read, FdFlags::empty())?;
            let mut command = Command::new(own);
            command.args(rest).arg("--fd").arg(read.as_raw_fd().to_string()).arg("--");
            command.arg(&recipe.program);
            command
        }
        None => Command::new(&recipe.program),
    };
    let (out, err) = match recipe.merged {
        Some(merged) => (Stdio::from(merged.try_clone()?), Stdio::from(merged)),
        None => (Stdio::piped(), Stdio::piped()),
    };
    command
        .args(&recipe.args)
        .current_dir(recipe.folder)
        .env_clear()
        .envs(recipe.environment)
        .stdin(recipe.stdin)
        .stdout(out)
        .stderr(err)
        .process_group(0);
    let mut child = command.spawn()?;
    // The command holds the other ends too.
    drop((read, command));
    let streams = Streams {
        stdin: child.stdin.take(),
        stdout: child.stdout.take(),
        stderr: child.stderr.take(),
    };
    let group = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
    let guarded = recipe.guard.is_some();
    let (exited, exit) = watch::channel(None);
    tokio::spawn(wait(child, group.filter(|_| !guarded), exited));
    Ok((Process { alive: Mutex::new(Some(write)), group, guarded, exit }, streams))
}

/// Waits for the exit, and makes sure that nothing of the group is left.
async fn wait(mut child: Child, group: Option<Pid>, exited: watch::Sender<Option<ExitStatus>>) {
    use std::os::unix::process::ExitStatusExt;
    let pid = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
    let status = child.wait().await.unwrap_or_default();
    // A guard that was killed could not do its work.
    if let Some(group) = group.or(pid.filter(|_| status.signal().is_some())) {
        let _gone = kill_process_group(group, Signal::KILL);
    }
    exited.send_replace(Some(status));
}

impl Process {
    pub(crate) fn status(&self) -> Option<ExitStatus> {
        *self.exit.borrow()
    }

    /// Waits until the program and, with a guard, all of its descendants have exited.
    pub(crate) async fn exited(&self) -> Option<ExitStatus> {
        let mut exit = self.exit.clone();
        let status = exit.wait_for(Option::is_some).await.ok()?;
        *status
    }

    /// Ends everything, without waiting for it.
    pub(crate) fn abandon(&self) {
        drop(lock(&self.alive).take());
        if !self.guarded {
            self.signal(Signal::TERM);
        }
    }

    /// Ends everything, and waits for it.
    pub(crate) async fn end(&self) {
        self.abandon();
        let patience = if self.guarded { GUARD_PATIENCE } else { GRACE };
        if timeout(patience, self.exited()).await.is_err() {
            self.signal(Signal::KILL);
            let _lost = timeout(GRACE, self.exited()).await;
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group.filter(|_| self.status().is_none()) {
            let _gone = kill_process_group(group, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.guarded {
            self.signal(Signal::KILL);
        }
    }
}

/// Finds a program on the PATH in `environment`, without a shell. Relative entries do not count, so that no project can put a
/// program in the way.
pub(crate) fn find(
    program: &OsStr,
    environment: &[(OsString, OsString)],
) -> Result<PathBuf, AgentError> {
    let name = || program.to_string_lossy().into_owned();
    let cannot = |why: &str| AgentError::CannotStart { program: name(), why: why.to_owned() };
    let path = Path::new(program);
    if path.is_absolute() {
        return match is_executable(path) {
            Some(true) => Ok(path.to_owned()),
            Some(false) => Err(cannot("it is not an executable file")),
            None => Err(AgentError::NotInstalled { program: name() }),
        };
    }
    if path.components().count() != 1 {
        return Err(cannot("its path has to be absolute, or a name alone"));
    }
    let places = environment.iter().rev().find(|(name, _)| name == "PATH");
    let places = places.map(|(_, places)| places.as_os_str()).unwrap_or_default();
    let mut is_there = false;
    for place in std::env::split_paths(places).filter(|place| place.is_absolute()) {
        let candidate = place.join(path);
        match is_executable(&candidate) {
            Some(true) => return Ok(candidate),
            Some(false) => is_there = true,
            None => (),
        }
    }
    if is_there {
        return Err(cannot("it is not an executable file"));
    }
    Err(AgentError::NotInstalled { program: name() })
}

/// `None` if there is nothing.
fn is_executable(path: &Path) -> Option<bool> {
    let known = path.metadata().ok()?;
    Some(known.is_file() && known.permissions().mode() & 0o111 != 0)
}

/// How a process ended, for a reader. The guard passes signals on as shells do.
pub(crate) fn describe_exit(status: Option<ExitStatus>) -> String {
    use std::os::unix::process::ExitStatusExt;
    let Some(status) = status else { return "it does not speak any more".to_owned() };
    match (status.code(), status.signal()) {
        (Some(code @ 129..=192), _) => format!("signal {}", code - 128),
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}
