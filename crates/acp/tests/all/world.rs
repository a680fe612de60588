//! What the tests share: where the programs are, permissions, and a way to start an agent and to speak to it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures::StreamExt;
use futures::channel::mpsc;
use rethread_acp::{AcpLauncher, Entry, Limits};
use rethread_domain::turn::Update;
use rethread_engine::agents::{
    Action, ActionKind, Agent, AgentError, Block, Choice, Ended, Launcher, OpenRequest,
    PermissionHandler, Question,
};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// Longer than anything may take on a busy machine.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(30);

/// The folder of the build that these tests belong to.
fn built() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().and_then(Path::parent).unwrap().to_owned()
}

/// The program with the roles for tests. Cargo builds it along with the tests.
pub(crate) fn actor() -> PathBuf {
    built().join("examples/actor")
}

/// The agent that does as it is told, built where it is missing.
pub(crate) fn reference() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        let target = built();
        let program = target.join("reference-agent");
        // A test run of the whole workspace has built it; by itself it would be built with other features, and anew.
        if program.is_file() {
            return program;
        }
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "-p", "rethread-reference", "--bin", "reference-agent"]);
        if target.ends_with("release") {
            cargo.arg("--release");
        }
        cargo.arg("--target-dir").arg(target.parent().unwrap());
        let done = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().unwrap();
        assert!(done.success() && program.is_file(), "reference-agent cannot be built");
        program
    };
    BUILT.get_or_init(build).clone()
}

/// Answers every question in the same way, and remembers it.
#[derive(Debug, Default)]
pub(crate) struct TestPermissions {
    /// The kind of option to choose; nobody answers where there is none.
    pub(crate) choose: Option<&'static str>,
    pub(crate) may_act: bool,
    pub(crate) asked: Mutex<Vec<Question>>,
    /// Told of each question.
    pub(crate) bell: tokio::sync::Notify,
}

#[async_trait]
impl PermissionHandler for TestPermissions {
    async fn permit(&self, question: &Question) -> Option<Choice> {
        self.asked.lock().unwrap().push(question.clone());
        self.bell.notify_one();
        let Some(kind) = self.choose else { std::future::pending().await };
        let option = question.options.iter().find(|option| option.kind == kind)?;
        Some(Choice { option: option.id.clone(), kind: option.kind.clone(), by: "grant" })
    }

    fn may(&self, act: &Action) -> Option<bool> {
        act.intent.guarded.is_empty().then_some(self.may_act || act.kind == ActionKind::Read)
    }
}

/// A folder, permissions and an agent to be started.
pub(crate) struct World {
    pub(crate) folder: TempDir,
    pub(crate) launcher: AcpLauncher,
    pub(crate) permissions: Arc<TestPermissions>,
}

impl World {
    /// The reference agent with flags.
    pub(crate) fn new(flags: &[&str]) -> Self {
        let mut command = vec![reference().display().to_string()];
        command.extend(flags.iter().map(|flag| (*flag).to_owned()));
        Self::with(command)
    }

    pub(crate) fn with(command: Vec<String>) -> Self {
        let guard = vec![actor().into_os_string(), "guard".into()];
        let mut environment: Vec<(OsString, OsString)> = std::env::vars_os().collect();
        environment.push(("RETHREAD_TOKEN".into(), "secret".into()));
        let launcher = AcpLauncher {
            entry: Entry { name: "test".to_owned(), command, ..Entry::default() },
            guard: Some(guard),
            environment,
            protected: Vec::new(),
            withheld: Vec::new(),
            limits: Limits::default(),
        };
        let permissions = TestPermissions {
            choose: Some("allow_once"),
            may_act: true,
            ..TestPermissions::default()
        };
        Self { folder: TempDir::new().unwrap(), launcher, permissions: Arc::new(permissions) }
    }

    /// An agent that says what the files of `script` say, by the name of the method.
    pub(crate) fn scripted(script: &[(&str, &[u8])]) -> Self {
        let world = Self::with(Vec::new());
        let said = world.path("said");
        std::fs::create_dir(&said).unwrap();
        for (method, bytes) in script {
            std::fs::write(said.join(method.replace('/', "_")), bytes).unwrap();
        }
        let command =
            [actor().display().to_string(), "scripted".into(), said.display().to_string()];
        let mut launcher = world.launcher.clone();
        launcher.entry.command = command.to_vec();
        Self { launcher, ..world }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) async fn try_start(&self) -> Result<Box<dyn Agent>, AgentError> {
        let permissions: Arc<dyn PermissionHandler> = Arc::clone(&self.permissions) as _;
        let launch = self.launcher.launch(self.folder.path(), permissions);
        tokio::time::timeout(WATCHDOG, launch).await.expect("the start hangs")
    }

    pub(crate) async fn start(&self) -> Box<dyn Agent> {
        self.try_start().await.unwrap()
    }

    /// Started, with a new session open.
    pub(crate) async fn open(&self) -> Box<dyn Agent> {
        let mut agent = self.start().await;
        agent.open(OpenRequest::New).await.unwrap();
        agent
    }
}

/// How a prompt ended and what came of it.
pub(crate) async fn say(
    agent: &mut dyn Agent,
    text: &str,
) -> (Result<Ended, AgentError>, Vec<Update>) {
    say_until(agent, text, &CancellationToken::new()).await
}

pub(crate) async fn say_until(
    agent: &mut dyn Agent,
    text: &str,
    cancel: &CancellationToken,
) -> (Result<Ended, AgentError>, Vec<Update>) {
    say_all(agent, vec![Block::Text(text.to_owned())], cancel).await
}

pub(crate) async fn say_all(
    agent: &mut dyn Agent,
    blocks: Vec<Block>,
    cancel: &CancellationToken,
) -> (Result<Ended, AgentError>, Vec<Update>) {
    let (sender, updates) = mpsc::channel(16);
    let prompt = agent.prompt(blocks, sender, cancel.clone());
    let both = async { tokio::join!(prompt, updates.collect()) };
    tokio::time::timeout(WATCHDOG, both).await.expect("the prompt hangs")
}

/// All that was said.
pub(crate) fn text(updates: &[Update]) -> String {
    let texts = updates.iter().filter_map(|update| match update {
        Update::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// The text that comes of a prompt that has to go well.
pub(crate) async fn answer(agent: &mut dyn Agent, prompt: &str) -> String {
    let (ended, updates) = say(agent, prompt).await;
    assert_eq!(ended.map(|ended| ended.stop), Ok("end_turn".to_owned()), "{prompt}");
    text(&updates)
}

/// Waits until something is so, which nobody tells us of.
pub(crate) fn eventually(what: &str, within: Duration, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < within, "{what}: not within {within:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The processes that were started with `mark` in their environment, dead ones left out.
pub(crate) fn marked(mark: &str) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(|id| {
        let environment = std::fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    })
    .collect()
}
