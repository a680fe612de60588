//! The page of a workflow: its log in parts and as agents speak, what differs when it goes on, and the form that starts
//! another.

use serde_json::{Value, json};

use super::Visit;
use super::world::{self, Running};
use crate::site::Site;

/// Fourteen tasks with many decisions, of which the first and the last but one wait.
fn decisive() -> String {
    let task = |n: u32| {
        let decided = (1..=12)
            .map(|m| format!("do: say: Decided: use library{n}x{m} because it is number {m}.\n"));
        let decided: String = decided.collect();
        let after = if n > 1 { format!("- depends on: T{}\n", n - 1) } else { String::new() };
        let waits =
            if n == 1 || n == 13 { format!("do: wait for: go{n}\n") } else { String::new() };
        format!("## Task T{n}: Decide\n{after}\n{waits}{decided}\n")
    };
    format!("# Many\n\n{}", (1..=14).map(task).collect::<String>())
}

#[test]
fn the_log_is_read_part_by_part() {
    let env = world::repository();
    let (_started, id) = world::work(&env, &decisive());
    world::touch(&env, "go1");
    world::until("the last task runs", || {
        let state = env.json(["workflow", "status", &id]);
        (state["tasks"][12]["state"] == "in_progress").then_some(())
    });
    world::pause_at(&env, &id, "second", "go13");
    let visit = Visit::to(Site::within(env, &[]));
    let browser = &visit.browser;
    let events = visit.site.get(&format!("/api/v1/workflows/{id}")).is(200).json()["events"]
        .as_u64()
        .unwrap();
    assert!(events > 120, "{events}");
    visit.go(&format!("/workflows/{id}"));
    assert!(browser.has("#log[data-live]"), "the newest part is live");
    assert!(browser.text("#log").contains("paused (pause): second"), "{}", browser.describe());
    let (mut parts, mut lines) = (1, Vec::new());
    loop {
        let part = browser.texts("#log li[id^=e]");
        // What happens meanwhile is added to the newest part.
        assert!(parts == 1 || part.len() <= 100, "{}", part.len());
        lines.extend(part);
        if !browser.has("#log .older a[rel=next]") {
            break;
        }
        let older = browser.run("return document.querySelector('#log .older a[rel=next]').href");
        browser.click("#log .older a[rel=next]");
        let there =
            format!("return location.href === {older} && document.readyState === 'complete'");
        browser.until("older ones", &there);
        parts += 1;
        assert!(!browser.has("#log[data-live]"), "what is over does not change");
    }
    assert!(parts >= 2, "{parts}");
    assert!(lines.last().unwrap().contains("created: Many"), "{:?}", lines.last());
    let decided = lines.iter().filter(|line| line.contains("decided (")).count();
    assert!(decided >= 100, "each is shown once: {decided}");
    let mut once = lines.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), lines.len(), "nothing is shown twice");
    browser.click("#log .older a:not([rel])");
    browser.until_says("#log", "paused (pause): second");
}

#[test]
fn what_differs_from_the_snapshot_is_told_when_it_is_resumed() {
    let env = world::repository();
    let id = world::paused_twice(&env, world::PLAN, &["lunch", "the train leaves"]);
    let visit = Visit::to(Site::within(env, &[]));
    let (browser, env) = (&visit.browser, &visit.site.env);
    world::git(env, &["switch", "--quiet", "-c", "elsewhere"]);
    world::touch(env, "by-hand.txt");
    visit.go(&format!("/workflows/{id}"));
    assert!(!browser.has("#diverged"), "{}", browser.describe());
    browser.click("#resume button");
    browser.until_says("#diverged", "the branch is elsewhere, it was main");
    assert!(
        browser.text("#diverged").contains("changed since: by-hand.txt"),
        "{}",
        browser.describe()
    );
    browser.until_says("#status", "completed");
}

#[test]
fn a_repository_as_it_was_left_is_not_told_of() {
    let env = world::repository();
    let (_started, id) = world::work(&env, world::PLAN);
    world::pause_at(&env, &id, "lunch", "go1");
    let visit = Visit::to(Site::within(env, &[]));
    let browser = &visit.browser;
    visit.go(&format!("/workflows/{id}"));
    browser.click("#resume button");
    browser.until_says("table.tasks tr:nth-child(2) .badge", "in progress");
    assert!(!browser.has("#diverged"), "{}", browser.describe());
}

#[test]
fn what_an_agent_says_is_shown_while_it_streams() {
    let env = world::repository();
    let plan = "# Talks\n\n## Task T1: Talk\n\ndo: part: The first half, <b>bold</b> as it is, \n\
                do: wait for: go1\ndo: part: comes before the second half. \ndo: wait for: go2\n";
    let (_started, id) = world::work(&env, plan);
    let visit = Visit::to(Site::within(env, &[]));
    let (browser, env) = (&visit.browser, &visit.site.env);
    visit.go(&format!("/workflows/{id}"));
    browser.until_says("#now .saying", "The first half, <b>bold</b>");
    assert!(!browser.text("#now").contains("second"), "{}", browser.describe());
    browser.run("window.stayed = true");
    world::touch(env, "go1");
    browser.until_says("#now .saying", "comes before the second");
    let path = format!("/api/v1/workflows/{id}");
    let saying = visit.site.get(&path).is(200).json()["tasks"][0]["saying"].clone();
    assert!(saying.as_str().unwrap().contains("comes before the second"), "{saying}");
    world::touch(env, "go2");
    browser.until_says("#status", "completed");
    browser.until("nobody speaks", "return document.querySelector('#now .saying') === null");
    assert_eq!(browser.run("return window.stayed"), true, "the page was not loaded anew");
}

#[test]
fn the_log_tells_what_agents_say_and_do() {
    let env = world::repository();
    let key = ["sk-ant-api03-", &"a1B2c3D4".repeat(11), "AA"].concat();
    let plan = format!(
        "# Told\n\n## Task T1: Look\n\ndo: wait for: go1\ndo: tool: Read src/login.rs\n\
         do: say: The cookie <b>rotates</b> too early, says {key}.\n\n\
         ## Task T2: Wait\n- depends on: T1\n\ndo: wait for: go2\n"
    );
    let (_started, id) = world::work(&env, &plan);
    let visit = Visit::to(Site::within(env, &[]));
    let (browser, env) = (&visit.browser, &visit.site.env);
    visit.go(&format!("/workflows/{id}"));
    browser.until_says("#live", "Live");
    browser.until_says("#log .told", "T1: to ref");
    browser.run("window.stayed = true");
    world::touch(env, "go1");
    browser.until_says("#log .speech", "The cookie <b>rotates</b> too early");
    browser.until_says("#log .tool", "Read src/login.rs");
    assert_eq!(browser.run("return window.stayed"), true, "the page was not loaded anew");
    assert!(!browser.shown().contains("a1B2c3D4"), "{}", browser.describe());
    let said = browser.texts("#log .speech").into_iter().find(|line| line.contains("rotates"));
    assert!(said.unwrap().contains("T1: ref"), "{}", browser.describe());
    browser.click("#log .speech:not(.told):not(.tool) a");
    browser.until_says("li.said", "rotates");
    browser.until("the message", "return document.querySelector('li.said:target') !== null");
}

#[test]
fn the_log_keeps_to_so_many_messages() {
    let env = world::repository();
    let (_started, id) = world::work(&env, world::PLAN);
    let state = env.json(["workflow", "status", &id]);
    let session = state["tasks"][0]["session_ids"][0].as_str().unwrap().to_owned();
    let visit = Visit::to(Site::within(env, &[]));
    let (browser, env) = (&visit.browser, &visit.site.env);
    visit.go(&format!("/workflows/{id}"));
    browser.until_says("#live", "Live");
    let long = "x ".repeat(999);
    let line =
        |n| json!({"role": "user", "content": format!("line {n} {long}"), "conversation": "aside"});
    let lines: Vec<Value> = (1..=200).map(line).collect();
    env.record(["--session", &session], &lines);
    browser.until_says("#log .speech", "line 200 ");
    assert_eq!(browser.count("#log .speech"), 60);
    let longest = browser.texts("#log .speech").iter().map(String::len).max();
    assert!(longest < Some(700), "{longest:?}");
}

#[test]
fn a_form_that_does_not_fit_keeps_what_was_typed() {
    let env = world::repository();
    let quick = "# Quick\n\n## Task T1: One\n\ndo: exec: touch one\n\n## Task T2: Two\n- depends on: T1\n\ndo: exec: touch two\n";
    std::fs::write(env.path("project/quick.md"), quick).unwrap();
    let project = env.path("project").display().to_string();
    let visit = Visit::to(Site::within(env, &[]));
    let browser = &visit.browser;
    visit.go("/workflows");
    browser.click("#start > summary");
    browser.write("#s-worktree", &project);
    browser.write("#s-plan", "nowhere.md");
    browser.write("#s-issue", "Two <things>");
    browser.write("#s-pause-after", "1");
    browser.write("#s-cost", "2.5");
    browser.click("#start button[type=submit]");
    browser.until_says("#start-error", "there is no such file");
    let value = |id: &str| browser.run(&format!("return document.getElementById('{id}').value"));
    assert_eq!(value("s-plan"), "nowhere.md");
    assert_eq!(value("s-worktree"), project);
    assert_eq!(value("s-issue"), "Two <things>");
    assert_eq!((value("s-pause-after"), value("s-cost")), ("1".into(), "2.5".into()));
    assert!(browser.has("#start[open] #s-plan[aria-invalid=true]:focus"), "{}", browser.describe());
    assert!(!browser.has("#s-worktree[aria-invalid]"));
    // What the browser itself would not send is told as well.
    browser.run("document.querySelector('#start form').noValidate = true");
    browser.write("#s-jobs", "65");
    browser.clear("#s-plan");
    browser.write("#s-plan", "quick.md");
    browser.click("#start button[type=submit]");
    browser.until_says("#start-error", "at most 64");
    assert!(browser.has("#s-jobs[aria-invalid=true]"), "{}", browser.describe());

    browser.clear("#s-jobs");
    browser.write("#s-jobs", "2");
    browser.clear("#s-issue");
    browser.click("#start button[type=submit]");
    browser.until_says("#status", "paused");
    assert!(browser.text("#board").contains("1 of 2 tasks done"), "{}", browser.describe());
    assert!(browser.text("#timeline").contains("task complete"), "{}", browser.describe());
}

/// Wide and narrow, a path is not cut within its words, and nothing is wider than the screen.
#[test]
fn paths_break_after_their_slashes() {
    let env = world::repository();
    let folder = "afolderwithaname/anotherfolderwithalongname/andonemore";
    std::fs::create_dir_all(env.path("project").join(folder)).unwrap();
    let path = format!("{folder}/plan.md");
    std::fs::write(env.path("project").join(&path), world::PLAN).unwrap();
    let _started = Running::of(env.command(["workflow", "start", &path, "--approve-commands"]));
    let id = world::until("it runs", || {
        let out = env.run(["workflow", "status", "--json"]);
        let state: Value = serde_json::from_slice(&out.stdout).ok()?;
        let runs = state["tasks"][0]["state"] == "in_progress";
        runs.then(|| state["id"].as_str().map(str::to_owned))?
    });
    world::pause_at(&env, &id, "lunch", "go1");
    let visit = Visit::to(Site::within(env, &[]));
    for size in [(360, 780), (1280, 900)] {
        visit.browser.resize(size);
        visit.go(&format!("/workflows/{id}"));
        visit.browser.until_has("dl.facts .wide");
        let wider = "return document.documentElement.scrollWidth > innerWidth";
        assert_eq!(visit.browser.run(wider), false, "{size:?}");
        let is_cut = "return [...document.querySelectorAll('.scroll')].some((one) => one.scrollWidth > one.clientWidth)";
        assert_eq!(visit.browser.run(is_cut), false, "{size:?}: the tasks are not cut off");
        // Each piece of a path stands on one line.
        let cut = visit.browser.run(
            "const cut = [];
             for (const dd of document.querySelectorAll('dl.facts .wide dd')) {
                 for (const text of dd.childNodes) {
                     if (text.nodeType !== Node.TEXT_NODE) continue;
                     const range = document.createRange();
                     range.selectNodeContents(text);
                     const tops = new Set([...range.getClientRects()].filter((one) => one.width > 0).map((one) => Math.round(one.top)));
                     if (tops.size > 1) cut.push(text.data);
                 }
             }
             return cut",
        );
        assert_eq!(cut, json!([]), "{size:?}");
    }
}
