//! An agent's own program: how it is started with a session or a first prompt, and asked to import and to list sessions.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use async_trait::async_trait;
use rethread_engine::agents::AgentError;
use rethread_engine::handover::{NativeAgent, Start};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use crate::presets::Entry;
use crate::process;

/// How long an import or a list may take. Some agents need half a minute to start.
const PATIENCE: Duration = Duration::from_mins(2);
/// The longest argument that Linux passes on to a program, with room for its end.
const LONGEST_ARGUMENT: usize = 128 * 1024 - 1;
/// What is kept of a failing program's last words.
const LAST_WORDS: usize = 400;
/// Set for what an agent that Rethread itself drives starts: this program is not driven.
const LINEAGE: [&str; 2] = ["RETHREAD_PARENT_SESSION", "RETHREAD_DEPTH"];

/// How an agent's own program is used. `{id}`, `{prompt}` and `{file}` stand for what is put in their places.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Native {
    /// The program, looked up on the PATH, and arguments that it always gets.
    pub command: Vec<String>,
    /// Takes up the session `{id}`.
    #[serde(default)]
    pub resume: Vec<String>,
    /// Starts a conversation with `{prompt}`; nothing if it takes no first prompt.
    #[serde(default)]
    pub prompt: Vec<String>,
    /// Takes up the session `{id}` with `{prompt}`; nothing if it cannot.
    #[serde(default)]
    pub resume_prompt: Vec<String>,
    /// Imports the session in `{file}`.
    #[serde(default)]
    pub import: Vec<String>,
    /// Prints its sessions of the folder that it is started in.
    #[serde(default)]
    pub list: Vec<String>,
}

/// An agent's own program on this machine.
#[derive(Debug, Clone)]
pub struct NativeProgram {
    pub native: Native,
    /// The program's path.
    program: PathBuf,
    environment: Vec<(OsString, OsString)>,
}

impl NativeProgram {
    /// Finds the program of an entry; `None` if the entry has none.
    pub fn find(
        entry: &Entry,
        environment: &[(OsString, OsString)],
        withheld: &[OsString],
    ) -> Result<Option<Self>, AgentError> {
        let Some(native) = entry.native.clone().filter(|native| !native.command.is_empty()) else {
            return Ok(None);
        };
        let is_passed_on = |name: &OsStr| {
            !withheld.iter().any(|one| one == name) && !LINEAGE.iter().any(|one| *one == name)
        };
        let mut environment: Vec<(OsString, OsString)> =
            environment.iter().filter(|(name, _)| is_passed_on(name)).cloned().collect();
        for (name, value) in &entry.env {
            environment.retain(|(known, _)| known != OsStr::new(name));
            environment.push((name.into(), value.into()));
        }
        let program = process::find(OsStr::new(&native.command[0]), &environment)?;
        Ok(Some(Self { native, program, environment }))
    }

    /// The words that start it: with a session, with a first prompt, or with both. A prompt that is too long for an argument is
    /// put into a file in `aside`, and the program is told to read it. `None` if the program has no such way.
    pub fn words(
        &self,
        start: &Start,
        prompt: Option<&str>,
        aside: &Path,
    ) -> std::io::Result<Option<Vec<String>>> {
        let native = &self.native;
        let (words, id, text) = match (start, prompt) {
            (Start::Resume(id), None) => (&native.resume, id.as_str(), String::new()),
            (Start::Resume(id), Some(prompt)) => {
                (&native.resume_prompt, id.as_str(), prompt.to_owned())
            }
            (Start::Tell(story), None) => (&native.prompt, "", story.clone()),
            (Start::Tell(story), Some(prompt)) => {
                (&native.prompt, "", format!("{story}\n\n{prompt}"))
            }
        };
        if words.is_empty() {
            return Ok(None);
        }
        if id.starts_with('-') {
            let why = format!("the id {id:?} would be taken for a flag");
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, why));
        }
        let text = if text.len() > LONGEST_ARGUMENT { by_file(&text, aside)? } else { text };
        // A prompt that begins with a dash would be taken for a flag.
        let text = if text.starts_with('-') { format!(" {text}") } else { text };
        let fill = |word: &String| word.replace("{id}", id).replace("{prompt}", &text);
        let command = native.command.iter().cloned();
        Ok(Some(command.chain(words.iter().map(fill)).collect()))
    }

    /// A command with these words, in a folder; it has our streams.
    pub fn command(&self, words: &[String], folder: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words.iter().skip(1)).current_dir(folder).env_clear();
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        // Some programs take the folder from here rather than asking the system.
        command.env("PWD", folder);
        command
    }

    async fn run(&self, words: &[String], folder: &Path) -> Result<String, AgentError> {
        let name = self.native.command[0].clone();
        let all: Vec<String> = self.native.command.iter().chain(words).cloned().collect();
        let mut command = tokio::process::Command::from(self.command(&all, folder));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.kill_on_drop(true);
        let cannot = |error: std::io::Error| AgentError::CannotStart {
            program: name.clone(),
            why: error.to_string(),
        };
        let child = command.spawn().map_err(cannot)?;
        let what = words.first().cloned().unwrap_or_default();
        let late = |_| AgentError::TimedOut { what, after: PATIENCE };
        let output = timeout(PATIENCE, child.wait_with_output()).await.map_err(late)?;
        let output = output.map_err(cannot)?;
        let told = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, errors) = (told(&output.stdout), told(&output.stderr));
        if !output.status.success() {
            let last = if errors.trim().is_empty() { &out } else { &errors };
            let last = last.trim();
            let from = last.ceil_char_boundary(last.len().saturating_sub(LAST_WORDS));
            let (status, stderr) = (output.status.to_string(), last[from..].to_owned());
            return Err(AgentError::Ended { status, stderr });
        }
        Ok(format!("{out}\n{errors}"))
    }
}

/// Puts a text into a file that only its owner can read, and says where it is.
fn by_file(text: &str, aside: &Path) -> std::io::Result<String> {
    use std::io::Write as _;
    use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(aside)?;
    let (mut number, mut open) = (0_u32, std::fs::OpenOptions::new());
    open.write(true).create_new(true).mode(0o600);
    loop {
        number += 1;
        let path = aside.join(format!("context-{}-{number}.md", std::process::id()));
        match open.open(&path) {
            Ok(mut file) => {
                file.write_all(text.as_bytes())?;
                return Ok(format!(
                    "Read the file {} first: it has the history of our conversation so far, which goes on here.",
                    path.display()
                ));
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && number < 1000 => (),
            Err(error) => return Err(error),
        }
    }
}

#[async_trait]
impl NativeAgent for NativeProgram {
    async fn import(&self, file: &Path, folder: &Path) -> Result<String, AgentError> {
        let file = file.to_string_lossy();
        let words: Vec<String> =
            self.native.import.iter().map(|word| word.replace("{file}", &file)).collect();
        if words.is_empty() {
            return Err(AgentError::Unsupported("way to import a session".to_owned()));
        }
        self.run(&words, folder).await
    }

    async fn list(&self, folder: &Path) -> Option<Result<String, AgentError>> {
        if self.native.list.is_empty() {
            return None;
        }
        Some(self.run(&self.native.list, folder).await)
    }
}
