//! Pages that follow what happens elsewhere, without being loaded again.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::world::Running;
use super::{Browser, Visit};
use crate::env::{TestEnv, user};
use crate::site::Site;

/// What people take for "at once".
const AT_ONCE: u64 = 1000;

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

/// Lets the page note by its own clock when it first shows a text; and that it was not loaded anew.
fn watch(browser: &Browser, text: &str) {
    browser.run_with(
        "const text = arguments[0];
         window.seen = window.seen || {};
         const look = () => { if (!seen[text] && document.body.innerText.includes(text)) seen[text] = Date.now(); };
         new MutationObserver(look).observe(document.body, { childList: true, subtree: true, characterData: true });",
        &[text.into()],
    );
}

/// How long after a moment the page showed it.
fn delay(browser: &Browser, text: &str, since: u64) -> u64 {
    let script = format!("return window.seen && window.seen[{text:?}]");
    browser.until(text, &script).as_u64().unwrap().saturating_sub(since)
}

/// The middle one counts: tests run side by side, and one of them may have had to wait for a processor.
#[track_caller]
fn assert_at_once(mut delays: Vec<u64>) {
    delays.sort_unstable();
    assert!(delays[delays.len() / 2] <= AT_ONCE, "{delays:?} ms");
}

#[test]
fn what_the_command_line_does_shows_at_once_in_two_tabs() {
    let visit = Visit::to(Site::new());
    let env = &visit.site.env;
    let id = env.record(["--title", "First name"], &[user("Hello.")]);
    let browser = &visit.browser;
    visit.go("/");
    browser.until_says("#live", "Live");
    let list = browser.new_tab();
    visit.go(&format!("/sessions/{id}"));
    browser.until_says("#live", "Live");
    let page = browser.tab();

    let mut delays = Vec::new();
    // The clock starts when the command has ended: what it did was done a little before.
    for (what, shown) in [
        (&["rename", &id, "Second name"][..], "Second name"),
        (&["rename", &id, "Third name"], "Third name"),
        (&["rename", &id, "Fourth name"], "Fourth name"),
        (&["pause", &id], "paused"),
        (&["complete", &id], "completed"),
    ] {
        for tab in [&list, &page] {
            browser.switch(tab);
            watch(browser, shown);
        }
        env.run(what).succeeded();
        let since = now();
        for tab in [&list, &page] {
            browser.switch(tab);
            delays.push(delay(browser, shown, since));
        }
    }
    assert_at_once(delays);
}

#[test]
fn new_sessions_and_messages_appear_by_themselves() {
    let visit = Visit::to(Site::new());
    let env = &visit.site.env;
    let browser = &visit.browser;
    visit.go("/");
    browser.until_says("#live", "Live");
    let mut delays = Vec::new();
    for title in ["Alpha", "Beta", "Gamma"] {
        watch(browser, title);
        env.record(["--title", title], &[user("Hello.")]);
        let since = now();
        delays.push(delay(browser, title, since));
    }
    let id = env.record(["--title", "Delta"], &[user("Hello.")]);
    visit.go(&format!("/sessions/{id}"));
    browser.until_says("#live", "Live");
    for text in ["one more", "and another", "the last"] {
        watch(browser, text);
        env.record(["--session", &id], &[user(text)]);
        let since = now();
        delays.push(delay(browser, text, since));
    }
    assert_eq!(browser.count("li.said"), 4);
    assert_at_once(delays);
}

#[test]
fn a_page_catches_up_after_the_server_was_away() {
    let mut visit = Visit::to(Site::new());
    let id = visit.site.env.record(["--title", "First name"], &[user("Hello.")]);
    visit.go(&format!("/sessions/{id}"));
    visit.browser.until_says("#live", "Live");
    visit.site.kill();
    visit.browser.until_says("#live", "Reconnecting");
    visit.site.env.run(["rename", &id, "Second name"]).succeeded();
    let address = visit.site.address.to_string();
    let _again = Running::of(visit.site.env.command(["serve", "--addr", &address]));
    visit.browser.until_says("h1", "Second name");
    visit.browser.until_says("#live", "Live");
}

/// Counts how often the page fetches an address from now on.
fn count_fetches(browser: &Browser, path: &str) {
    browser.run_with(
        "const real = window.fetch;
         window.fetched = 0;
         window.fetch = (path, ...more) => {
             if (String(path).startsWith(arguments[0])) window.fetched += 1;
             return real(path, ...more);
         };",
        &[path.into()],
    );
}

#[test]
fn agents_and_usage_follow_what_happens_once_a_second() {
    let env = TestEnv::new();
    env.agent("ref", &["--load"]);
    let visit = Visit::to(Site::within(env, &[]));
    let (browser, env) = (&visit.browser, &visit.site.env);
    visit.go("/agents");
    browser.until_says("#live", "Live");
    assert!(browser.text("#agents").contains("No conversation was opened yet"));
    env.run(["run", "ref", "hello"]).succeeded();
    browser.until_says("#agents .openings", "fresh");
    browser.click("#words > summary");
    env.run(["run", "ref", "hello again"]).succeeded();
    browser.until_says("#agents .openings", "2 times");
    assert!(browser.has("#words[open]"), "what was open stays so");

    visit.go("/usage");
    browser.until_says("#live", "Live");
    count_fetches(browser, "/usage/part");
    let begun = Instant::now();
    browser.write("#u-project", "/typed");
    let mut said = 0;
    while begun.elapsed() < Duration::from_secs(3) {
        said += 1;
        env.record(["--agent", "counted"], &[user(&format!("hello {said}"))]);
    }
    browser.until_says("#used tbody tr td:nth-child(4)", &said.to_string());
    let most = begun.elapsed().as_secs() + 2;
    let fetched = browser.run("return window.fetched").as_u64().unwrap();
    assert!(said > 3 && fetched > 0 && fetched <= most, "{fetched} for {said}, at most {most}");
    let typed = browser.run("return document.getElementById('u-project').value");
    assert_eq!(typed, "/typed", "what is typed stays");
}
