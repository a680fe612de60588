//! `rethread workflow check`

use std::path::PathBuf;
use std::process::ExitCode;

use rethread_domain::quote::{one_line, safe};
use rethread_domain::wording::counted;
use rethread_engine::views::PreviewView;
use rethread_engine::workflows::{Preview, WorkflowOrder};
use rethread_workflow::{OnFailure, TaskSpec};

use super::worktree;
use crate::cli::App;
use crate::output::{self, table};

/// Look at a plan without beginning it
///
/// Says what is wrong with it, in which order its tasks run and which at once, which commands it runs, what will be asked, and
/// what it is likely to take, judged by earlier tasks in this folder.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The plan: a markdown file with tasks
    #[arg(value_name = "PLAN")]
    plan: PathBuf,
    /// The agent [default: the setting workflow.agent]
    #[arg(long)]
    agent: Option<String>,
    /// The folder to work in [default: the current one]
    #[arg(long, value_name = "DIR")]
    worktree: Option<PathBuf>,
    /// How many tasks may run side by side
    #[arg(long, value_name = "N")]
    jobs: Option<u32>,
}

impl Args {
    pub(crate) async fn run(self, app: &App) -> anyhow::Result<ExitCode> {
        let order = WorkflowOrder {
            worktree: worktree(self.worktree.as_ref())?,
            plan: Some(self.plan),
            agent: self.agent,
            jobs: self.jobs,
            ..WorkflowOrder::default()
        };
        look(app, &order).await
    }
}

/// Says what an order would lead to.
pub(super) async fn look(app: &App, order: &WorkflowOrder) -> anyhow::Result<ExitCode> {
    let seen = app.engine.preview_order(app.program().as_ref(), order).await?;
    if app.json {
        output::json(&PreviewView::from(&seen));
    } else {
        output::data(&told(&seen));
    }
    Ok(if seen.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn told(seen: &Preview) -> String {
    let mut text = String::new();
    if !seen.title.is_empty() {
        text.push_str(&format!("{}\n", one_line(&seen.title, 100)));
    }
    for problem in &seen.problems {
        text.push_str(&format!("problem: {}\n", safe(problem)));
    }
    if seen.tasks.is_empty() {
        if seen.problems.is_empty() {
            text.push_str(
                "There is no plan: the agent writes one first, and waits for your approval.\n",
            );
        }
        return text;
    }
    let left: usize = seen.steps.iter().map(Vec::len).sum();
    let done = seen.tasks.len() - left;
    text.push_str(&format!("{}, {done} of them done\n\n", counted(seen.tasks.len(), "task")));
    text.push_str(&steps(seen));
    text.push_str(&commands(seen));
    text.push_str(&asked(seen));
    text.push_str(&format!("\n{}\n", likely(seen)));
    text
}

fn steps(seen: &Preview) -> String {
    let task = |id: &String| seen.tasks.iter().find(|task| task.id == *id);
    let mut rows = Vec::new();
    for (number, step) in (1..).zip(&seen.steps) {
        for (at, task) in step.iter().filter_map(task).enumerate() {
            let agent = task.agent.as_ref().or(seen.agent.as_ref());
            let number: u32 = number;
            rows.push(vec![
                if at == 0 { number.to_string() } else { String::new() },
                one_line(&task.id, 20),
                one_line(&task.title, 50),
                agent.map_or("-".to_owned(), |agent| one_line(agent, 20)),
                one_line(&task.depends_on.join(", "), 40),
            ]);
        }
    }
    table::render(&["STEP", "TASK", "TITLE", "AGENT", "AFTER"], rows)
}

/// Whole: what is approved has to be seen.
fn commands(seen: &Preview) -> String {
    let mut text = String::new();
    for command in &seen.commands {
        if text.is_empty() {
            text.push_str("\nCommands\n");
        }
        let how = match (&command.name, command.is_approved) {
            (Some(name), _) => format!("{} in your settings", one_line(name, 40)),
            (None, true) => "approved".to_owned(),
            (None, false) => "not approved yet".to_owned(),
        };
        let tasks = one_line(&command.tasks.join(", "), 100);
        text.push_str(&format!("  {}\n    checks {tasks}; {how}\n", safe(&command.command)));
    }
    text
}

fn asked(seen: &Preview) -> String {
    let mut lines = Vec::new();
    let open = seen.commands.iter().filter(|command| !command.is_approved).count();
    if open > 0 {
        lines.push(format!(
            "{} to be approved, when you start it or with `rethread workflow approve --all`",
            counted(open, "command")
        ));
    }
    let named = |is: &dyn Fn(&TaskSpec) -> bool| -> Vec<&str> {
        let left = seen.tasks.iter().filter(|task| !task.state.is_done());
        left.filter(|task| is(task)).map(|task| task.id.as_str()).collect()
    };
    let gates = named(&|task| task.approve.is_some());
    if !gates.is_empty() {
        lines.push(format!("your approval before {}", one_line(&gates.join(", "), 200)));
    }
    let left_out = named(&|task| task.policy.on_failure == Some(OnFailure::Continue));
    if !left_out.is_empty() {
        let left_out = one_line(&left_out.join(", "), 200);
        lines.push(format!("nothing if one of these fails, they are left out: {left_out}"));
    }
    lines.extend(
        seen.warning.as_ref().map(|warning| format!("without a terminal: {}", safe(warning))),
    );
    if lines.is_empty() {
        return String::new();
    }
    format!("\nWhat will be asked\n  {}\n", lines.join("\n  "))
}

fn likely(seen: &Preview) -> String {
    let Some(estimate) = seen.estimate else {
        return "What it takes cannot be judged: no task was done in this folder yet.".to_owned();
    };
    let cost = estimate.cost_usd.map(|cost| format!(", USD {cost:.2}")).unwrap_or_default();
    format!(
        "It is likely to take {}{cost} and {}, judged by {} in this folder.",
        counted(estimate.tokens, "token"),
        counted(estimate.seconds.div_ceil(60), "minute"),
        counted(estimate.judged_by, "earlier task")
    )
}
