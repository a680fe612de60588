//! Workflows are killed at many moments: the next command leaves no process, no lock, no file of ours and nothing
//! half written.

use std::path::Path;

use crate::crash::Chance;
use crate::env::TestEnv;
use crate::workspace_sessions::git;

const KILLS: u64 = 40;

fn plan() -> String {
    let task = |n: u32| {
        let after = if n > 1 { format!("- depends on: T{}\n", n - 1) } else { String::new() };
        format!(
            "## Task T{n}: Some work\n{after}- verify: `echo checked >> checked.txt`\n\ndo: stream: 20\n\
             do: exec: echo T{n} >> ran.txt\ndo: say: Decided: use paper because it is there.\n\n"
        )
    };
    format!("# Many\n\n{}", (1..=6).map(task).collect::<String>())
}

/// What a killed process may have left that nobody else would remove.
fn leftovers(env: &TestEnv) -> Vec<String> {
    let is_left = |path: &&Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let suffix = path.extension().unwrap_or_default();
        suffix == "lock" || suffix == "new" || suffix == "tmp" || name.starts_with(".tmp")
    };
    let tree = env.tree();
    let ours = tree
        .iter()
        .map(|(path, _)| path.as_path())
        .filter(|path| !path.starts_with("project/.git"));
    ours.filter(is_left).map(|path| path.display().to_string()).collect()
}

#[track_caller]
fn assert_tidy(env: &TestEnv, told: &str) {
    env.assert_nothing_runs();
    assert_eq!(leftovers(env), Vec::<String>::new(), "{told}");
    // The plan is whole, and says what the workflow says.
    let text = env.plan_text();
    let state = env.state();
    assert_eq!(text.matches("## Task T").count(), 6, "{told}: {text}");
    for task in state["tasks"].as_array().unwrap() {
        let id = task["id"].as_str().unwrap();
        let part = text.split(&format!("## Task {id}:")).nth(1).unwrap();
        let part = part.split("## Task").next().unwrap();
        let is_done = part.contains("- state: completed");
        assert_eq!(is_done, task["state"] == "completed", "{told}: {id} in {text}\n{state:#}");
    }
}

/// Kills it after so many turns of a wheel.
fn kill_after(mut command: std::process::Command, spin: u64) {
    use std::process::Stdio;
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut turns = 0;
    for turn in 0..spin {
        turns = std::hint::black_box(turns + turn);
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
#[expect(clippy::print_stderr, reason = "a failure is told with its seed")]
fn kills_at_many_moments_leave_nothing_behind() {
    let seed = std::env::var_os("SEED").and_then(|seed| seed.to_str()?.parse().ok());
    let seed = seed.unwrap_or_else(|| 0x5eed_0f10_u64 ^ u64::from(std::process::id()) << 32);
    eprintln!("SEED={seed}");
    let mut chance = Chance(seed);
    let (mut killed, mut ends) = (0, 0);
    while killed < KILLS {
        let env = TestEnv::with_flows();
        env.plan(&plan());
        git(&env, &["add", "plan.md"]);
        git(&env, &["commit", "--quiet", "-m", "plan"]);
        // Half of them soon, half of them at any moment of a task or two.
        let mut spin = || {
            if chance.below(2) == 0 { chance.below(20_000_000) } else { chance.below(400_000_000) }
        };
        let start = env.command(["workflow", "start", "plan.md", "--approve-commands"]);
        kill_after(start, spin());
        killed += 1;
        while env.flow_json(&["list"]).as_array().unwrap().is_empty() {
            let start = env.command(["workflow", "start", "plan.md", "--approve-commands"]);
            kill_after(start, spin());
            killed += 1;
        }
        for _ in 0..8 {
            let told = format!("seed {seed}, after {killed} kills");
            env.flow(&["recover"]).succeeded();
            assert_tidy(&env, &told);
            if env.status() == "completed" {
                break;
            }
            kill_after(env.command(["workflow", "resume"]), spin());
            killed += 1;
        }
        env.flow(&["recover"]).succeeded();
        if env.status() != "completed" {
            env.flow(&["resume"]).succeeded();
        }
        let told = format!("seed {seed}, at the end after {killed} kills");
        assert_tidy(&env, &told);
        assert_eq!(env.status(), "completed", "{told}");
        let last = env.flow_json(&["show"]);
        assert_eq!(
            (last["trigger"].as_str(), &last["total"]),
            (Some("end"), &env.state()["usage"]),
            "{told}"
        );
        env.assert_sound();
        ends += 1;
    }
    eprintln!("{killed} kills in {ends} workflows");
}
