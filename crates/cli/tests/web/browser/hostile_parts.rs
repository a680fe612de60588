//! Texts that try to be markup or script in every part of a workflow and its snapshots: titles, decisions, errors, what
//! reviewers say, names of files, of branches and of tests, and why something failed.

use serde_json::json;

use super::hostile::{look, look_again, payloads, trapped};
use super::world::{self, Running};
use crate::env::TestEnv;
use crate::site::Site;

/// The headings of a page beneath which a hostile text can be read.
const PARTS: &str = "
    const parts = {};
    let name = '';
    for (const one of document.querySelector('main').children) {
        if (one.localName === 'h2') name = one.innerText;
        else parts[name] = (parts[name] || '') + one.innerText;
    }
    return Object.keys(parts).filter((name) => parts[name].includes('__pwned')).sort();
";

/// What can stand in the title of a task and on a line of a script.
fn lines() -> Vec<String> {
    let is_plain = |text: &String| !text.starts_with(['`', '~', '#', '[', '|']);
    let short = |text: String| text.chars().take(150).collect::<String>();
    payloads().into_iter().filter(is_plain).map(short).step_by(5).collect()
}

/// Puts hostile texts wherever somebody else can put one.
fn strew(env: &TestEnv, lines: &[String]) {
    let project = env.path("project");
    let failed = lines.iter().map(|line| format!("test {line} ... FAILED\n"));
    let output: String = failed.chain(["test result: FAILED. 0 passed\n".to_owned()]).collect();
    std::fs::write(project.join("out.txt"), output).unwrap();
    for (n, line) in lines.iter().enumerate() {
        let name: String = line.replace(['/', '\0'], "∕").chars().take(60).collect();
        std::fs::write(project.join(format!("{n} {name}")), "x").unwrap();
    }
    world::git(env, &["switch", "--quiet", "-c", "<svg/onload=__pwned=1>"]);
    world::git(env, &["add", "--", "out.txt", "."]);
    let answer = |approved: bool| json!({"approved": approved, "severity": if approved { "none" } else { "major" }, "comments": lines});
    let answers = format!("{}\n---\n{}", answer(false), answer(true));
    let file = env.path("critic.answers");
    std::fs::write(&file, answers).unwrap();
    env.agent("critic", &["--script", &file.display().to_string()]);
}

/// A plan that finds all of that.
fn plan(lines: &[String]) -> String {
    let steps = lines.iter().map(|line| {
        format!("do: say: Decided: {line} because {line}\ndo: tool: {line}\ndo: think: {line}\n")
    });
    let steps: String = steps.collect();
    format!(
        "# {0}\n\nx {0}\n\n## Task T1: {1}\n- review: critic\n- verify: `cat out.txt; exit 1`\n- expect: red\n\n\
         do: wait for: go1\n{steps}\n\
         ## Task T2: {3}\n- depends on: T1\n\n{4}\n\ndo: wait for: go2\ndo: say: error: {2}\n\n\
         ## Task T3: {2}\n- depends on: T2\n\ndo: refuse: {1}\n",
        lines[0], lines[1], lines[2], lines[3], "<ScRiPt>__pwned=1",
    )
}

#[test]
fn no_part_of_a_snapshot_runs_what_it_holds() {
    let (env, lines) = (world::repository(), lines());
    assert!(lines.len() > 50, "{}", lines.len());
    strew(&env, &lines);
    let id = world::paused_twice(&env, &plan(&lines), &[&lines[4], &lines[5]]);
    let visit = trapped(Site::within(env, &[]));
    let (browser, env) = (&visit.browser, &visit.site.env);
    let snapshots = world::snapshots(&visit.site, &id);
    let (from, to) = (&snapshots[0], &snapshots[1]);
    let all = ["Decisions", "Git", "Reviewer feedback", "Tasks", "Tests", "Errors"];
    let compared = [""];
    for (path, parts) in [
        (format!("/workflows/{id}/snapshots/{from}"), &all[..5]),
        (format!("/workflows/{id}/snapshots/{to}"), &all),
        (format!("/workflows/{id}/compare?from={from}&to={to}"), &compared),
    ] {
        look(&visit, &path);
        browser.run("for (const one of document.querySelectorAll('details')) one.open = true");
        look_again(browser, &path);
        let found = browser.run(PARTS);
        let found: Vec<&str> =
            found.as_array().unwrap().iter().filter_map(|one| one.as_str()).collect();
        for part in parts {
            assert!(found.contains(part), "{path}: nothing under {part:?}, only {found:?}");
        }
    }

    // Live: what agents say, why a task failed, and what is asked then; with a repository that has moved on.
    visit.go(&format!("/workflows/{id}"));
    browser.until_says("#live", "Live");
    world::git(env, &["switch", "--quiet", "-c", "<b/onclick=__pwned=2>"]);
    let _goes_on = Running::of(env.command(["workflow", "resume", &id]));
    browser.until_says("#board .question", "__pwned");
    browser.until_says("#diverged", "onclick=__pwned=2");
    browser.until_says("#log .speech", "__pwned");
    look_again(browser, "live");
    for path in [format!("/workflows/{id}"), "/workflows".to_owned(), "/".to_owned()] {
        assert!(look(&visit, &path) > 0, "{path}");
    }
}
