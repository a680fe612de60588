//! The program `git`: how it is asked, and for how long it may take.

use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use super::Hurdle;

/// Reading takes milliseconds; a pipe in place of a file must not hold us up for ever.
const READING: Duration = Duration::from_secs(30);
/// What git may still say once it was asked to end, and what a program that it left behind may keep open.
const GRACE: Duration = Duration::from_secs(2);
/// More than this is not kept: names and ids of a session's files are far less.
const LONGEST_ANSWER: usize = 64 << 20;
const LONGEST_WORDS: usize = 400;

/// Who the user is and where their settings are: the only variables of git that are handed on. The others tell of a
/// repository that somebody else is at work in, when we are run by a hook.
const HANDED_ON: [&str; 10] = [
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CEILING_DIRECTORIES",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM",
    "GIT_EXEC_PATH",
];

/// What git said, and how it ended.
#[derive(Debug)]
pub(super) struct Answer {
    /// `None` when a signal ended it.
    pub(super) code: Option<i32>,
    pub(super) out: Vec<u8>,
    err: Vec<u8>,
}

impl Answer {
    pub(super) fn success(&self) -> bool {
        self.code == Some(0)
    }

    pub(super) fn complains_of(&self, words: &str) -> bool {
        String::from_utf8_lossy(&self.err).contains(words)
    }

    /// The last lines of its complaint, made safe to show.
    pub(super) fn last_words(&self) -> String {
        let text = String::from_utf8_lossy(&self.err);
        let mut lines: Vec<&str> =
            text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        lines.drain(..lines.len().saturating_sub(5));
        let words: String = lines
            .join(" / ")
            .chars()
            .map(|letter| if letter.is_control() { ' ' } else { letter })
            .collect();
        let skipped = words.chars().count().saturating_sub(LONGEST_WORDS);
        let words: String = words.chars().skip(skipped).collect();
        if words.is_empty() { format!("without a word ({:?})", self.code) } else { words }
    }
}

/// A `git` that obeys nothing of the repository's own settings that could start a program. The user's own settings
/// are read: they tell which repositories of others they trust, and what they ignore everywhere.
pub(super) fn reading(folder: &Path) -> Command {
    let mut git = cleaned(folder);
    for setting in [
        "core.fsmonitor=false",
        "core.hooksPath=/dev/null",
        "log.showSignature=false",
        "gpg.program=false",
        "core.sshCommand=false",
        "diff.external=",
    ] {
        git.args(["-c", setting]);
    }
    // No object is fetched that is missing, and if one were, by no protocol.
    git.env("GIT_NO_LAZY_FETCH", "1").env("GIT_ALLOW_PROTOCOL", "none");
    git.env("GIT_OPTIONAL_LOCKS", "0").env("LC_ALL", "C");
    git
}

/// The user's own `git`, with all that they have set up.
pub(super) fn committing(folder: &Path) -> Command {
    let mut git = cleaned(folder);
    // Its complaints are told apart by their words; unlike LC_ALL this leaves the character set to the hooks.
    git.env("LANGUAGE", "en");
    git
}

fn cleaned(folder: &Path) -> Command {
    let mut git = Command::new("git");
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("GIT_") && !HANDED_ON.contains(&text.as_ref()) {
            git.env_remove(&name);
        }
    }
    git.arg("-C").arg(folder).arg("--no-pager");
    for (name, value) in [("GIT_EDITOR", ":"), ("GIT_PAGER", "cat"), ("GIT_TERMINAL_PROMPT", "0")] {
        git.env(name, value);
    }
    git
}

/// Asks a question that only reads.
pub(super) fn ask(git: &mut Command) -> Result<Answer, Hurdle> {
    run(git, Vec::new(), READING)
}

/// Asks a question about what is in `input`.
pub(super) fn ask_about(git: &mut Command, input: Vec<u8>) -> Result<Answer, Hurdle> {
    run(git, input, READING)
}

/// Runs a program to its end, at most for `limit`. Its standard input has `input` and is closed.
pub(super) fn run(
    command: &mut Command,
    input: Vec<u8>,
    limit: Duration,
) -> Result<Answer, Hurdle> {
    command.stdin(if input.is_empty() { Stdio::null() } else { Stdio::piped() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Hurdle::GitMissing,
        _ => Hurdle::Failed(error.to_string()),
    })?;
    if let Some(mut pipe) = child.stdin.take() {
        // A program that ends without having read everything says so by its exit code.
        thread::spawn(move || drop(pipe.write_all(&input)));
    }
    let out = Listener::to(child.stdout.take());
    let err = Listener::to(child.stderr.take());
    let code = wait(&mut child, limit)?;
    let (out, err) = (out.heard(), err.heard());
    if out.len() >= LONGEST_ANSWER {
        return Err(Hurdle::Failed("its answer was too long".to_owned()));
    }
    Ok(Answer { code, out, err })
}

fn wait(child: &mut Child, limit: Duration) -> Result<Option<i32>, Hurdle> {
    let failed = |error: io::Error| Hurdle::Failed(error.to_string());
    let ended = |child: &mut Child, limit: Duration| {
        let started = Instant::now();
        let mut pause = Duration::from_micros(200);
        loop {
            if let Some(status) = child.try_wait().map_err(failed)? {
                return Ok(Some(status.code()));
            }
            if started.elapsed() >= limit {
                return Ok(None);
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(10));
        }
    };
    if let Some(code) = ended(child, limit)? {
        return Ok(code);
    }
    // Asked to end, git removes its locks and ends its hooks; killed at once it would leave the index locked.
    let asked = rustix::process::kill_process(Pid::from_child(child), Signal::TERM);
    if asked.is_err() || ended(child, GRACE)?.is_none() {
        child.kill().map_err(failed)?;
        child.wait().map_err(failed)?;
    }
    let limit = limit.as_secs();
    Err(Hurdle::Failed(format!("it took longer than {limit} seconds and was ended")))
}

/// Collects what a program says while it runs, so that it never waits for us.
struct Listener {
    heard: Arc<Mutex<Vec<u8>>>,
    thread: JoinHandle<()>,
}

impl Listener {
    fn to(stream: Option<impl Read + Send + 'static>) -> Self {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&heard);
        let thread = thread::spawn(move || {
            let Some(mut stream) = stream else { return };
            let mut piece = vec![0; 64 << 10];
            while let Ok(length @ 1..) = stream.read(&mut piece) {
                let mut heard = into.lock().unwrap_or_else(PoisonError::into_inner);
                let room = LONGEST_ANSWER - heard.len();
                heard.extend_from_slice(&piece[..length.min(room)]);
            }
        });
        Self { heard, thread }
    }

    /// What was said. Whoever was left behind by the program may hold the stream open: it is not waited for.
    fn heard(self) -> Vec<u8> {
        let started = Instant::now();
        while !self.thread.is_finished() && started.elapsed() < GRACE {
            thread::sleep(Duration::from_micros(200));
        }
        std::mem::take(&mut *self.heard.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
