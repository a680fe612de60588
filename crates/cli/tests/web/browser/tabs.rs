//! Many tabs of one browser: browsers have six connections for a server, and none of the tabs waits for one.

use super::Visit;
use crate::env::user;
use crate::site::Site;
use crate::sockets::until;

const TABS: usize = 8;

#[test]
fn eight_tabs_are_live_over_one_stream() {
    let visit = Visit::to(Site::new());
    let (browser, env) = (&visit.browser, &visit.site.env);
    let id = env.record(["--title", "First name"], &[user("Hello.")]);
    let path = format!("/sessions/{id}");
    let mut tabs = Vec::new();
    for number in 0..TABS {
        if number > 0 {
            browser.new_tab();
        }
        tabs.push(browser.tab());
        visit.go(if number % 2 == 0 { "/" } else { &path });
        browser.until_says("#live", "Live");
    }
    let streams = || visit.site.counter("rethread_event_clients");
    until("one stream is left", || (streams() <= 1.0).then_some(()));
    env.run(["rename", &id, "Second name"]).succeeded();
    for tab in &tabs {
        browser.switch(tab);
        browser.until_says("main", "Second name");
    }
    assert!(streams() <= 1.0, "{}", streams());
    // A tab that was made before something happened is told of it, although the others were told already.
    visit.go("/");
    browser.until_says("#live", "Live");
    env.run(["rename", &id, "Third name"]).succeeded();
    browser.until_says("main", "Third name");
}

#[test]
fn a_browser_without_shared_workers_has_a_stream_for_each_tab() {
    let visit = Visit::to(Site::new());
    let (browser, env) = (&visit.browser, &visit.site.env);
    let id = env.record(["--title", "First name"], &[user("Hello.")]);
    let without = serde_json::json!({"source": "delete window.SharedWorker;"});
    browser.tool("Page.addScriptToEvaluateOnNewDocument", &without);
    visit.go("/");
    assert_eq!(browser.run("return typeof SharedWorker"), "undefined");
    browser.until_says("#live", "Live");
    assert!(visit.site.counter("rethread_event_clients") >= 1.0);
    env.run(["rename", &id, "Second name"]).succeeded();
    browser.until_says("main", "Second name");
}
