//! Without a script: everything can be read, and forms do what their buttons say.

use serde_json::json;

use super::{Visit, world};
use crate::env::user;
use crate::site::Site;

/// Logged in by hand, as the script that takes the code from the link does not run.
pub(super) fn without_script(site: Site) -> Visit {
    let visit = Visit::stranger(site);
    visit.browser.tool("Emulation.setScriptExecutionDisabled", &json!({"value": true}));
    let link = visit.link();
    let (page, code) = link.split_once('#').expect("a code");
    visit.browser.open(page);
    visit.browser.write("#code", code);
    visit.browser.click("#login button");
    visit.until_at("/");
    visit
}

#[test]
fn sessions_are_found_read_and_changed_without_a_script() {
    let visit = without_script(Site::new());
    let env = &visit.site.env;
    let id = env.record(["--title", "Clocks", "--agent", "codex"], &[user("The clock is *late*.")]);
    env.record(["--title", "Baskets", "--agent", "claude"], &[user("Where is it?")]);
    let browser = &visit.browser;
    visit.go("/");
    assert!(browser.run("return document.getElementById('live').hidden") == true, "no script runs");
    browser.write("#q", "clocks");
    browser.click(".search button");
    browser.until_has("#results mark");
    browser.click("#results .row-top > a");
    visit.until_at(&format!("/sessions/{id}"));
    assert_eq!(browser.text("#m1 em"), "late");
    browser.click(&format!("form[action='/sessions/{id}/pause'] button"));
    browser.until_says("[role=status]", "Paused.");
    assert_eq!(browser.text(".badge.paused"), "paused");
    browser.click("#rename > summary");
    browser.clear("#new-title");
    browser.write("#new-title", "Late clocks");
    browser.click("#rename button");
    browser.until_says("h1", "Late clocks");
    visit.go("/?status=paused");
    assert_eq!(browser.texts("#results .row-top > a"), ["Late clocks"]);
}

#[test]
fn a_message_is_sent_without_a_script() {
    let env = crate::env::TestEnv::new();
    env.agent("ref", &[]);
    let visit = without_script(Site::within(env, &[]));
    let id = visit.site.env.record(["--title", "Talk", "--agent", "ref"], &[user("Hello.")]);
    let browser = &visit.browser;
    visit.go(&format!("/sessions/{id}"));
    browser.write("#prompt", "say: Good evening.");
    browser.click("#to option[value=ref]");
    browser.click("#send button[type=submit]");
    browser.until_says("[role=status]", "Sent.");
    world::until("the answer is there", || {
        browser.reload();
        browser
            .texts("li.said.assistant")
            .iter()
            .any(|text| text.contains("Good evening."))
            .then_some(())
    });
}

#[test]
fn a_workflow_is_read_paused_and_resumed_without_a_script() {
    let env = world::repository();
    let (_started, id) = world::work(&env, world::PLAN);
    let visit = without_script(Site::within(env, &[]));
    let (browser, env) = (&visit.browser, &visit.site.env);
    visit.go("/workflows");
    browser.click("#results .row-top > a");
    visit.until_at(&format!("/workflows/{id}"));
    assert!(browser.text("table.tasks").contains("Move the basket with the cookie"));

    // The page is older than the workflow: it was paused meanwhile.
    world::pause_at(env, &id, "lunch", "go1");
    browser.write("#plain-reason", "too late");
    browser.click("noscript form button[type=submit]");
    browser.until_says(".notice.bad", "Not done");
    assert!(browser.text("#board").contains("Paused: lunch"), "{}", browser.describe());

    browser.click("#resume button");
    browser.until_says("[role=status]", "It goes on.");
    world::until("the second task runs", || {
        let state = env.json(["workflow", "status", &id]);
        (state["tasks"][1]["state"] == "in_progress").then_some(())
    });
    visit.go(&format!("/workflows/{id}"));
    browser.write("#plain-reason", "the train leaves");
    browser.click("noscript form button[type=submit]");
    browser.until_says("[role=status]", "Pause requested");
    world::touch(env, "go2");
    world::until("it is paused", || (world::status(env, &id) == "paused").then_some(()));
    visit.go(&format!("/workflows/{id}"));
    assert!(browser.text("#board").contains("the train leaves"), "{}", browser.describe());
    assert_eq!(browser.count("#timeline > li"), 2);
}
