//! Runs commands that the user has approved, such as tests: under a guard, for a limited time, with bounded output.

use std::ffi::{OsStr, OsString};
use std::future::Future;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use rethread_engine::workflows::{Checker, CommandOutcome, ExitReason};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::connection::lock;
use crate::guard::COMPLAINT;
use crate::latch::Latch;
use crate::launch::without_secrets;
use crate::lines::{Tail, whole_characters};
use crate::process::{self, Process, Recipe};

/// How much of the output is kept, from its beginning and from its end.
const FIRST: usize = 64 * 1024;
const LAST: usize = 512 * 1024;
/// How long output may still arrive after the command has exited.
const LAST_WORDS: Duration = Duration::from_secs(1);
const SHELL: &str = "/bin/sh";

/// Runs commands of the shell.
#[derive(Debug, Clone, Default)]
pub struct Shell {
    /// The command that starts [`crate::guard()`]: normally this program and the name of its subcommand.
    pub guard: Option<Vec<OsString>>,
    /// The environment that we were started in.
    pub environment: Vec<(OsString, OsString)>,
    /// Variables that commands must not see, besides our own.
    pub withheld: Vec<OsString>,
}

/// The output so far.
#[derive(Debug)]
struct Heard {
    first: Vec<u8>,
    last: Tail,
    /// The total length, in bytes.
    whole: u64,
}

#[derive(Debug)]
struct Listener {
    heard: Mutex<Heard>,
    silent: Latch,
}

impl Shell {
    /// Runs a command in a folder, until `limit` has passed or `stop` is ready. If dropped, it is ended.
    pub async fn run(
        &self,
        command: &str,
        folder: &Path,
        limit: Duration,
        stop: impl Future<Output = ()>,
    ) -> CommandOutcome {
        let (process, listener) = match self.start(command, folder) {
            Ok(started) => started,
            Err(why) => return CommandOutcome::cannot_start(why),
        };
        let (status, over) = tokio::select! {
            biased;
            status = process.exited() => (status, ExitReason::Finished),
            () = stop => (None, ExitReason::Stopped),
            () = sleep(limit) => (None, ExitReason::TimedOut),
        };
        process.end().await;
        let _late = timeout(LAST_WORDS, listener.silent.wait()).await;
        let output = lock(&listener.heard).text();
        let code = status.map(code);
        match output.strip_prefix(COMPLAINT) {
            // The guard only writes something if it could not do its work.
            Some(why) if code.is_some_and(|code| code != 0) => {
                CommandOutcome::cannot_start(why.trim())
            }
            _ => CommandOutcome { code, output, over },
        }
    }

    fn start(&self, command: &str, folder: &Path) -> Result<(Process, Arc<Listener>), String> {
        if !folder.is_dir() {
            return Err(format!("there is no folder {}", folder.display()));
        }
        if command.contains('\0') {
            return Err("the command has a character in it that no command has".to_owned());
        }
        let environment = without_secrets(&self.environment, &self.withheld);
        let program = process::find(OsStr::new(SHELL), &environment);
        let program = program.map_err(|trouble| trouble.to_string())?;
        let failed = |error: std::io::Error| error.to_string();
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).map_err(|errno| failed(errno.into()))?;
        let output = pipe::Receiver::from_owned_fd(read).map_err(failed)?;
        let recipe = Recipe {
            guard: self.guard.as_deref(),
            program,
            args: vec!["-c".into(), command.into()],
            folder,
            environment,
            stdin: Stdio::null(),
            merged: Some(write),
        };
        let (process, _) = process::start(recipe).map_err(failed)?;
        let heard = Heard { first: Vec::new(), last: Tail::new(LAST), whole: 0 };
        let listener = Arc::new(Listener { heard: Mutex::new(heard), silent: Latch::new() });
        tokio::spawn(listen(output, Arc::clone(&listener)));
        Ok((process, listener))
    }
}

#[async_trait]
impl Checker for Shell {
    async fn check(
        &self,
        command: &str,
        folder: &Path,
        limit: Duration,
        mut stop: watch::Receiver<bool>,
    ) -> CommandOutcome {
        let stopped = async move {
            if stop.wait_for(|stop| *stop).await.is_err() {
                // Nobody is left who could stop it.
                std::future::pending::<()>().await;
            }
        };
        self.run(command, folder, limit, stopped).await
    }
}

async fn listen(mut output: pipe::Receiver, listener: Arc<Listener>) {
    let mut chunk = vec![0; 16 * 1024];
    while let Ok(read @ 1..) = output.read(&mut chunk).await {
        lock(&listener.heard).push(&chunk[..read]);
    }
    listener.silent.set();
}

impl Heard {
    fn push(&mut self, bytes: &[u8]) {
        self.whole += bytes.len() as u64;
        let (first, rest) = bytes.split_at(bytes.len().min(FIRST - self.first.len()));
        self.first.extend_from_slice(first);
        self.last.push(rest);
    }

    /// Beginning and end, with a note on what is missing between them.
    fn text(&self) -> String {
        if !self.last.is_cut() {
            let mut all = self.first.clone();
            all.extend(self.last.bytes());
            return String::from_utf8_lossy(&all).into_owned();
        }
        let missing = self.whole - (FIRST + LAST) as u64;
        let first = whole_characters(&self.first);
        let last = self.last.text(LAST);
        format!("{first}\n[… {missing} bytes are left out …]\n{last}")
    }
}

fn code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(pieces: &[&[u8]]) -> String {
        let mut heard = Heard { first: Vec::new(), last: Tail::new(LAST), whole: 0 };
        for piece in pieces {
            heard.push(piece);
        }
        heard.text()
    }

    #[test]
    fn nothing_is_left_out_that_fits() {
        assert_eq!(heard(&[]), "");
        let all = "ä".repeat(usize::midpoint(FIRST, LAST));
        assert_eq!(heard(&[all.as_bytes()]), all);
        let shifted = format!("x{}", &all[2..]);
        assert_eq!(heard(&[&shifted.as_bytes()[..7], &shifted.as_bytes()[7..]]), shifted);
    }

    #[test]
    fn the_middle_is_counted() {
        let all = format!("x{}y", "ä".repeat(usize::midpoint(FIRST, LAST) + 500));
        let text = heard(&[all.as_bytes()]);
        assert!(text.starts_with("xä") && text.ends_with("äy") && !text.contains('\u{fffd}'));
        assert!(text.contains("ä\n[… 1002 bytes are left out …]\nä"));
    }
}
