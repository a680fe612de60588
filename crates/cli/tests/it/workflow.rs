//! Workflows as tests see them: a repository, a plan whose tasks tell the reference agent what to do, and runs that go
//! on while the test does something else.

use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::env::{Output, TestEnv};
use crate::reference::until;
use crate::workspace_sessions::git;

/// A workflow that runs in another process.
#[derive(Debug)]
pub(crate) struct Running {
    child: Option<Child>,
}

impl Running {
    pub(crate) fn spawn(mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { child: Some(command.spawn().expect("the program starts")) }
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn end(mut self, env: &TestEnv) -> Output {
        let mut child = self.child.take().expect("a process");
        until("the workflow rests", || child.try_wait().expect("a process"));
        env.answered(child.wait_with_output().expect("what it said"))
    }

    pub(crate) fn is_over(&mut self) -> bool {
        let child = self.child.as_mut().expect("a process");
        child.try_wait().expect("a process").is_some()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

impl TestEnv {
    /// A repository with one commit, and the agent `ref` that works on plans.
    pub(crate) fn with_flows() -> Self {
        let env = Self::new();
        env.agent("ref", &[]);
        env.set("workflow", "agent = \"ref\"");
        for args in [
            &["init", "--quiet", "-b", "main"][..],
            &["config", "user.email", "anna@example.com"],
            &["config", "user.name", "Anna"],
            &["commit", "--quiet", "--allow-empty", "-m", "first"],
        ] {
            git(&env, args);
        }
        env
    }

    /// Writes `plan.md`.
    pub(crate) fn plan(&self, text: &str) {
        std::fs::write(self.path("project/plan.md"), text).expect("the plan");
    }

    pub(crate) fn plan_text(&self) -> String {
        std::fs::read_to_string(self.path("project/plan.md")).expect("the plan")
    }

    /// Puts a file into the project: whoever waits for it goes on.
    pub(crate) fn touch(&self, name: &str) {
        std::fs::write(self.path("project").join(name), "").expect("a file");
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.path("project").join(name).exists()
    }

    #[track_caller]
    pub(crate) fn until_has(&self, name: &str) {
        until(name, || self.has(name).then_some(()));
    }

    /// What a file of the project says.
    #[track_caller]
    pub(crate) fn said_in(&self, name: &str) -> String {
        std::fs::read_to_string(self.path("project").join(name)).expect(name)
    }

    /// `rethread workflow …`
    pub(crate) fn flow(&self, args: &[&str]) -> Output {
        self.run(["workflow"].iter().chain(args))
    }

    /// `rethread workflow start plan.md …`, with the commands of the plan approved.
    pub(crate) fn start(&self, args: &[&str]) -> Output {
        let own = ["workflow", "start", "plan.md", "--approve-commands"];
        self.run(own.iter().chain(args))
    }

    /// The same in a process that goes on.
    pub(crate) fn start_aside(&self, args: &[&str]) -> Running {
        let own = ["workflow", "start", "plan.md", "--approve-commands"];
        Running::spawn(self.command(own.iter().chain(args)))
    }

    pub(crate) fn flow_aside(&self, args: &[&str]) -> Running {
        Running::spawn(self.command(["workflow"].iter().chain(args)))
    }

    #[track_caller]
    pub(crate) fn flow_json(&self, args: &[&str]) -> Value {
        self.json(["workflow"].iter().chain(args))
    }

    /// How the workflow of the project stands.
    #[track_caller]
    pub(crate) fn state(&self) -> Value {
        self.flow_json(&["status"])
    }

    #[track_caller]
    pub(crate) fn status(&self) -> String {
        self.state()["status"].as_str().expect("a status").to_owned()
    }

    #[track_caller]
    pub(crate) fn id(&self) -> String {
        self.state()["id"].as_str().expect("an id").to_owned()
    }

    /// The states of all tasks, in the order of the plan.
    #[track_caller]
    pub(crate) fn tasks(&self) -> String {
        let state = self.state();
        let tasks = state["tasks"].as_array().expect("tasks").iter();
        let told = |task: &Value| {
            format!("{} {}", task["id"].as_str().unwrap(), task["state"].as_str().unwrap())
        };
        tasks.map(told).collect::<Vec<_>>().join(", ")
    }

    /// Every event of the workflow of the project.
    #[track_caller]
    pub(crate) fn events(&self) -> Vec<Value> {
        let text = self.data(["workflow", "logs", "--events", "--json"]);
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// The events with this name.
    #[track_caller]
    pub(crate) fn events_of(&self, what: &str) -> Vec<Value> {
        self.events().into_iter().filter(|event| event["what"] == what).collect()
    }

    /// What an agent was told, prompt by prompt.
    pub(crate) fn briefs(&self, agent: &str) -> Vec<String> {
        let prompts = self.prompts(agent).into_iter();
        let texts =
            |prompt: Vec<(String, String)>| prompt.into_iter().map(|(_, text)| text).collect();
        prompts.map(|prompt| -> Vec<String> { texts(prompt) }).map(|texts| texts.concat()).collect()
    }
}
