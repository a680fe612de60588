//! Sessions as people find, read and continue them.

use serde_json::{Value, json};

use super::Visit;
use crate::env::{TestEnv, user};
use crate::site::Site;

/// What an agent said, with everything that is shown in a way of its own.
fn lines() -> Vec<Value> {
    vec![
        user("Why is the **basket** lost?"),
        json!({"role": "assistant", "agent": "claude", "content":
            "It is the `cookie`:\n\n1. it *rotates*\n2. the basket stays\n\n```rust\nfn rotate() {}\n```\n\n\
             | file | line |\n|---|---|\n| login.rs | 41 |\n\n[docs](https://example.com/a?b=c)"}),
        json!({"role": "tool", "content": "Read src/login.rs\nfn login() { cookies.rotate() }",
            "tool_calls": [{"title": "Read src/login.rs", "status": "completed", "rawInput": {"path": "src/login.rs"}}]}),
        json!({"role": "system", "content": "Answer in English."}),
    ]
}

#[test]
fn sessions_are_listed_filtered_and_searched_as_one_types() {
    let visit = Visit::to(Site::new());
    let env = &visit.site.env;
    env.record(["--title", "Baskets", "--agent", "claude", "--kind", "debug"], &lines());
    env.record(
        ["--title", "Clocks", "--agent", "codex", "--kind", "plan"],
        &[user("The clock runs late.")],
    );
    let old = env.record(["--title", "Old", "--agent", "codex"], &[user("Long ago.")]);
    env.run(["archive", &old]).succeeded();
    let browser = &visit.browser;
    let titles = || browser.texts("#results .row-top > a");
    visit.go("/");
    assert_eq!(titles(), ["Clocks", "Baskets"]);

    browser.click("details.filter > summary");
    browser.click("#f-agent option[value=codex]");
    browser
        .until("only codex", "return document.querySelectorAll('#results .row-top').length === 1");
    assert_eq!(titles(), ["Clocks"]);
    browser.click("input[name=archived]");
    browser.until(
        "archived too",
        "return document.querySelectorAll('#results .row-top').length === 2",
    );
    browser.reload();
    assert_eq!(titles().len(), 2, "what was chosen stands in the address");

    visit.go("/");
    browser.write("#q", "rotat");
    browser.write("#q", "es");
    browser.until_has("#results mark");
    browser.until_says("#results", "for “rotates”");
    assert!(titles().iter().all(|title| title == "Baskets"), "{:?}", titles());
    assert!(browser.texts("#results mark").iter().any(|mark| mark == "rotates"));
    assert!(browser.url().contains("q=rotates"), "{}", browser.url());
    browser.clear("#q");
    browser.write("#q", "zebra");
    browser.until_says("#results [role=status]", "Nothing was found");
}

#[test]
fn a_session_is_read_with_its_roles_tools_and_markdown() {
    let visit = Visit::to(Site::new());
    let env = &visit.site.env;
    let id = env.record(["--title", "Baskets", "--agent", "claude"], &lines());
    let browser = &visit.browser;
    visit.go("/");
    browser.click("#results .row-top > a");
    visit.until_at(&format!("/sessions/{id}"));
    assert_eq!(browser.text("h1"), "Baskets");
    let roles = browser.run(
        "return [...document.querySelectorAll('.talk > .said')].map((one) => one.classList[1])",
    );
    assert_eq!(roles, json!(["user", "assistant", "tool", "system"]));
    for (css, text) in [
        ("#m1 .md strong", "basket"),
        ("#m2 .md li:first-child em", "rotates"),
        ("#m2 .md pre code", "fn rotate() {}"),
        ("#m2 .md td", "login.rs"),
        ("#m2 .md a[href='https://example.com/a?b=c']", "docs"),
        ("#m4", "Answer in English."),
    ] {
        assert!(browser.text(css).contains(text), "{css}: {}", browser.text(css));
    }
    let is_shown = "return document.querySelector('#m3 pre').checkVisibility()";
    assert_eq!(browser.run(is_shown), false, "what a tool said is folded");
    assert!(browser.text("#m3 summary").contains("Read src/login.rs"));
    browser.click("#m3 summary");
    assert_eq!(browser.run(is_shown), true);
    assert!(browser.text("#m3 pre").contains("cookies.rotate()"));
    assert!(browser.text("#resume").starts_with("rethread resume "), "{}", browser.text("#resume"));
    browser.click("button[data-copy=resume]");
    browser.until_says("#said", "Copied");
}

#[test]
fn a_message_is_sent_and_the_answer_streams_in() {
    let env = TestEnv::new();
    env.agent("ref", &["--load"]);
    let visit = Visit::to(Site::within(env, &[]));
    let env = &visit.site.env;
    let id = env.record(["--title", "Talk", "--agent", "ref"], &[user("Hello.")]);
    let browser = &visit.browser;
    visit.go(&format!("/sessions/{id}"));
    browser.until_says("#live", "Live");
    browser.click("#to option[value=ref]");
    browser.write("#prompt", "do: say: Half of it.\ndo: wait for: go\ndo: say: The rest.");
    browser.click("#send button[type=submit]");
    browser.until_says(".turn .stream", "Half of it.");
    assert!(!browser.text(".turn .stream").contains("The rest."), "{}", browser.describe());
    assert_eq!(browser.run("return document.getElementById('prompt').value"), "");
    std::fs::write(env.path("project/go"), "").unwrap();
    browser.until_says("li.said.assistant", "The rest.");
    browser.until_gone(".turn");
    assert_eq!(browser.count("li.said.assistant"), 1, "{}", browser.describe());
    assert_eq!(browser.count("li.opened"), 1, "how it was opened is told");
    let said = env.messages(&id);
    assert_eq!(said.len(), 3);
    assert!(said[2]["content"].as_str().unwrap().contains("Half of it."), "{said:#?}");
}

#[test]
fn a_turn_is_cancelled_from_the_page() {
    let env = TestEnv::new();
    env.agent("ref", &[]);
    let visit = Visit::to(Site::within(env, &[]));
    let id = visit.site.env.record(["--title", "Talk", "--agent", "ref"], &[user("Hello.")]);
    let browser = &visit.browser;
    visit.go(&format!("/sessions/{id}"));
    browser.click("#to option[value=ref]");
    browser.write("#prompt", "hang");
    browser.click("#send button[type=submit]");
    browser.click(".turn form button");
    browser.until_gone(".turn");
    browser.until_says("li.said.user", "hang");
}

/// Keeps the page's own clipboard for the test, and does something to the page before anything of it runs.
fn before_the_page(visit: &Visit, script: &str) {
    let source = format!("window.__clipboard = navigator.clipboard; {script}");
    visit.browser.tool("Page.addScriptToEvaluateOnNewDocument", &json!({"source": source}));
    let allowed = json!({"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]});
    visit.browser.tool("Browser.grantPermissions", &allowed);
}

const NO_CLIPBOARD: &str =
    "Object.defineProperty(navigator, 'clipboard', { value: undefined, configurable: true });";

#[test]
fn the_resume_command_is_copied() {
    // Pages over http on a LAN have no clipboard of their own.
    for script in ["", NO_CLIPBOARD] {
        let visit = Visit::to(Site::new());
        before_the_page(&visit, script);
        let id = visit.site.record("Copied", &["hello"]);
        let browser = &visit.browser;
        visit.go(&format!("/sessions/{id}"));
        browser.until_has("button[data-copy]:not([hidden])");
        let name = browser.text("button[data-copy]");
        browser.run("window.__clipboard.writeText('before')");
        browser.click("button[data-copy]");
        browser.until_says("button[data-copy]", "Copied");
        assert_eq!(browser.text("#said"), "Copied", "it is told to those who do not see it");
        let copied = browser.run("return window.__clipboard.readText()");
        let short: String = id.chars().skip(24).take(8).collect();
        assert_eq!(copied, format!("rethread resume {short}"), "{script}");
        // Twice in a row, and the button is called as before in the end.
        browser.click("button[data-copy]");
        browser.until(
            "its name",
            &format!("return document.querySelector('button[data-copy]').innerText === {name:?}"),
        );
    }
}

#[test]
fn a_copy_that_fails_is_told() {
    let visit = Visit::to(Site::new());
    before_the_page(&visit, &format!("{NO_CLIPBOARD} document.execCommand = () => false;"));
    let id = visit.site.record("Not copied", &["hello"]);
    let browser = &visit.browser;
    visit.go(&format!("/sessions/{id}"));
    browser.click("button[data-copy]");
    browser.until_says("button[data-copy]", "Not copied: press Ctrl+C");
    assert!(browser.text("#said").contains("Not copied"));
    let selected = browser.run("return getSelection().toString()");
    assert!(selected.as_str().unwrap().starts_with("rethread resume "), "{selected}");
}

#[test]
fn a_session_is_forked_at_an_earlier_message() {
    let visit = Visit::to(Site::new());
    let env = &visit.site.env;
    let id = env.record(["--title", "Baskets", "--agent", "claude"], &lines());
    let browser = &visit.browser;
    visit.go(&format!("/sessions/{id}"));
    browser.click("#fork > summary");
    assert_eq!(browser.run("return document.getElementById('fork-at').value"), "4");
    assert_eq!(browser.run("return document.getElementById('fork-at').max"), "4");
    browser.clear("#fork-at");
    browser.write("#fork-at", "2");
    browser.click("#fork button");
    browser.until_says("[role=status]", "Forked");
    assert_eq!(browser.count("li.said"), 2, "{}", browser.describe());
    assert!(browser.text("dl.facts").contains("at message 2"), "{}", browser.describe());
    assert!(!browser.url().contains(&id), "{}", browser.url());
}
