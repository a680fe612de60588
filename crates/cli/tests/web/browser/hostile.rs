//! Stored texts that try to be markup or script, in every field that others can fill, on every page that shows them.

use serde_json::{Value, json};

use super::world;
use super::{Browser, Visit};
use crate::env::TestEnv;
use crate::site::Site;

/// One a line; whatever gets to run sets `__pwned` or opens a dialog.
const PAYLOADS: &str = include_str!("payloads.txt");
/// What a text may stand in, with what would close it.
const BEFORE: [&str; 3] = ["", "\"'></textarea></title>", "--></pre></details>]]>"];

/// Is there before anything of a page runs: notes what runs, every dialog, and whatever the policy had to stop.
const TRAP: &str = "
    window.__caught = [];
    const note = (what) => window.__caught.push(what + ' at ' + location.pathname);
    Object.defineProperty(window, '__pwned', { set: () => note('ran'), get: () => 0 });
    for (const dialog of ['alert', 'confirm', 'prompt', 'print']) window[dialog] = () => note(dialog);
    document.addEventListener('securitypolicyviolation',
        (event) => note('policy: ' + event.violatedDirective + ' ' + event.blockedURI));
";

/// What of a page could run, fetch or lead elsewhere, found by looking at the document itself.
const LOOK: &str = "
    const bad = [...window.__caught];
    for (const one of document.querySelectorAll('*')) {
        const name = one.localName;
        if (['iframe', 'object', 'embed', 'base', 'math', 'template', 'marquee', 'video', 'audio'].includes(name)) bad.push(name);
        if (name === 'script' && !/^\\/assets\\/app-/.test(one.getAttribute('src'))) bad.push('script');
        if (name === 'img' || name === 'image') bad.push(name + ' ' + one.outerHTML);
        for (const { name, value } of one.attributes) {
            if (/^on/i.test(name) || name === 'style' && !one.closest('svg')) bad.push(name + '=' + value);
            if (['href', 'src', 'action', 'formaction', 'xlink:href', 'data'].includes(name)
                && !/^(https?:\\/\\/|mailto:|\\/|#|\\?)/.test(value)) bad.push(name + '=' + value);
        }
    }
    return bad;
";

pub(super) fn payloads() -> Vec<String> {
    let all = PAYLOADS.lines().filter(|line| !line.is_empty());
    all.flat_map(|line| BEFORE.map(|before| format!("{before}{line}"))).collect()
}

#[track_caller]
pub(super) fn look(visit: &Visit, path: &str) -> usize {
    visit.go(path);
    look_again(&visit.browser, path)
}

#[track_caller]
pub(super) fn look_again(browser: &Browser, path: &str) -> usize {
    let found = browser.run(LOOK);
    assert_eq!(found, json!([]), "{path}");
    assert!(!browser.asks(), "{path}");
    browser.shown().matches("__pwned").count()
}

/// A session in which every payload was said by everybody, with tools, thoughts and whatever else is shown.
fn said(env: &TestEnv, role: &str, payloads: &[String]) -> String {
    let lines: Vec<Value> = payloads
        .iter()
        .map(|text| match role {
            "tool" => json!({"role": role, "content": format!("{text}\n{text}"),
                "tool_calls": [{"title": text, "status": text, "rawInput": {text: text}}]}),
            _ => {
                json!({"role": role, "content": text, "thoughts": text, "stop": text, "error": text,
                "tool_calls": [{"name": text, "status": "failed"}]})
            }
        })
        .collect();
    env.record(["--title", &payloads[0]], &lines)
}

pub(super) fn trapped(site: Site) -> Visit {
    let visit = Visit::to(site);
    visit.browser.tool("Page.addScriptToEvaluateOnNewDocument", &json!({"source": TRAP}));
    visit
}

#[test]
fn no_message_runs() {
    let visit = trapped(Site::new());
    let (env, payloads) = (&visit.site.env, payloads());
    assert!(payloads.len() >= 400, "{}", payloads.len());
    for role in ["user", "assistant", "tool", "system"] {
        let id = said(env, role, &payloads);
        let mut path = format!("/sessions/{id}");
        let mut seen = 0;
        loop {
            seen += look(&visit, &path);
            visit
                .browser
                .run("for (const one of document.querySelectorAll('details')) one.open = true");
            look_again(&visit.browser, &path);
            let older = visit.browser.run(
                "const one = [...document.querySelectorAll('.older a')].find((one) => one.innerText.includes('Older'));
                 return one && one.getAttribute('href')",
            );
            let Some(older) = older.as_str() else { break };
            path = older.to_owned();
        }
        assert!(seen >= payloads.len() / 2, "{role}: only {seen} were shown");
        // Its summary is made of what was said.
        env.run(["pause", &id]).succeeded();
        look(&visit, &format!("/sessions/{id}"));
        if role == "user" {
            visit.browser.click("#summary > summary");
            assert!(
                visit.browser.text("#summary").contains("__pwned"),
                "{}",
                visit.browser.describe()
            );
        }
    }
}

#[test]
fn no_title_place_or_search_runs() {
    let visit = trapped(Site::new());
    let (env, payloads) = (&visit.site.env, payloads());
    let mut ids = Vec::new();
    for some in payloads.chunks(8) {
        let title: String = some.join(" ").chars().take(450).collect();
        let folder: String = some[0].replace('/', "∕").chars().take(60).collect();
        let project = env.path("project").join(folder);
        std::fs::create_dir_all(&project).unwrap();
        let summary =
            json!({"role": "user", "content": some[0], "conversation": "x <b onclick=__pwned=1>"});
        let title = format!("--title={title}");
        let args = [title.as_str(), "--project", project.to_str().unwrap(), "--user", "anna"];
        ids.push(env.record(args, &[summary]));
    }
    let mut path = "/?limit=100".to_owned();
    loop {
        assert!(look(&visit, &path) > 0, "{path}");
        let older = visit.browser.run(
            "const one = document.querySelector('.older a[rel=next]'); return one && one.getAttribute('href')",
        );
        let Some(older) = older.as_str() else { break };
        path = older.to_owned();
    }
    for id in ids.iter().step_by(8) {
        assert!(look(&visit, &format!("/sessions/{id}")) > 0);
    }
    for text in ["__pwned", "script", "onerror"] {
        look(&visit, &format!("/?q={text}"));
    }
    for text in payloads.iter().step_by(50) {
        let encoded: Vec<String> = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let encoded = encoded.concat();
        look(&visit, &format!("/?q={encoded}&kind={encoded}&project={encoded}&user={encoded}"));
        look(&visit, &format!("/?notice={encoded}"));
        look(&visit, &format!("/nowhere/{encoded}"));
    }
}

#[test]
fn nothing_that_arrives_while_the_page_is_open_runs() {
    let env = TestEnv::new();
    env.agent("ref", &[]);
    let visit = trapped(Site::within(env, &[]));
    let (env, payloads) = (&visit.site.env, payloads());
    let id = env.record(["--title", "Live", "--agent", "ref"], &[crate::env::user("Hello.")]);
    let browser = &visit.browser;
    visit.go(&format!("/sessions/{id}"));
    browser.until_says("#live", "Live");
    let lines: Vec<Value> = payloads
        .iter()
        .step_by(5)
        .map(|text| json!({"role": "assistant", "content": text, "tool_calls": [{"title": text}]}))
        .chain([json!({"role": "user", "content": "that was all"})])
        .collect();
    env.record(["--session", &id], &lines);
    browser.until_says("li.said", "that was all");
    env.run(["rename", &id, "<img src=x onerror=__pwned=1>"]).succeeded();
    browser.until_says("h1", "onerror");
    look_again(browser, "live");

    browser.click("#to option[value=ref]");
    let step = |text: &String| format!("do: think: {text}\ndo: tool: {text}\ndo: say: {text}\n");
    let steps: String = PAYLOADS.lines().step_by(6).map(|line| step(&line.to_owned())).collect();
    let prompt = format!("{steps}do: say: half\ndo: wait for: go\n");
    browser.run_with("document.getElementById('prompt').value = arguments[0]", &[prompt.into()]);
    browser.click("#send button[type=submit]");
    browser.until_says(".turn .stream", "half");
    assert!(look_again(browser, "the stream") > 0);
    world::touch(env, "go");
    browser.until_gone(".turn");
    assert!(look_again(browser, "the answer") > 0);
}

/// A plan whose every text is hostile. Its first two tasks run; the first waits for a file.
fn plan(payloads: &[String]) -> String {
    let is_short = |text: &&String| !text.starts_with(['`', '~', '#', '[', '|']);
    let some: Vec<&String> = payloads.iter().filter(is_short).collect();
    let decided = |from: usize| -> String {
        let some = some.iter().skip(from).step_by(12);
        let lines = some.map(|text| format!("do: say: Decided: {text} because {text}\n"));
        lines.collect::<Vec<_>>().concat()
    };
    let mut plan = format!(
        "# {} {}\n\nx {}\n\n## Task T1: {}\n\n{}do: wait for: go1\n\n## Task T2: {}\n- depends on: T1\n\n{}do: wait for: go2\n",
        some[0],
        some[8],
        some[9],
        some[20],
        decided(0),
        some[40],
        decided(6)
    );
    for (n, texts) in some.chunks(8).enumerate() {
        let title: String = texts.iter().map(|text| text.as_str()).collect::<Vec<_>>().join(" ");
        let title: String = title.chars().take(180).collect();
        let task = format!("\n## Task X{n}: {title}\n- depends on: T2\n\nx {}\n", texts[0]);
        plan.push_str(&task);
    }
    plan
}

#[test]
fn no_workflow_runs_what_it_holds() {
    let env = world::repository();
    let payloads = payloads();
    let id = world::paused_twice(&env, &plan(&payloads), &[&payloads[8], &payloads[25]]);
    let visit = trapped(Site::within(env, &[]));
    let snapshots = world::snapshots(&visit.site, &id);
    let (from, to) = (&snapshots[0], &snapshots[1]);
    for path in [
        "/workflows".to_owned(),
        format!("/workflows/{id}"),
        format!("/workflows/{id}/snapshots/{from}"),
        format!("/workflows/{id}/snapshots/{to}"),
        format!("/workflows/{id}/compare?from={from}&to={to}"),
        format!("/workflows/{id}?failed=%3Cimg%20src=x%20onerror=__pwned=1%3E&notice=%3Cb%3E"),
        "/".to_owned(),
        "/agents".to_owned(),
        "/usage".to_owned(),
    ] {
        look(&visit, &path);
        visit
            .browser
            .run("for (const one of document.querySelectorAll('details')) one.open = true");
        let seen = look_again(&visit.browser, &path);
        assert!(seen > 0 || !path.starts_with("/workflows"), "{path} shows nothing of it");
    }
}
