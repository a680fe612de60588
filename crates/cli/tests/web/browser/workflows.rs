//! A workflow watched and steered from its page: paused with a reason, resumed, its sessions and snapshots compared.

use super::{Visit, world};
use crate::site::Site;

/// The timeline's cards, oldest first.
fn cards(visit: &Visit) -> Vec<String> {
    let mut cards = visit.browser.texts("#timeline > li");
    cards.sort();
    cards
}

/// Asks for a pause in the dialog.
fn pause(visit: &Visit, reason: &str) {
    let browser = &visit.browser;
    browser.until_has("#pause:not([hidden]):not(:disabled)");
    browser.click("#pause");
    browser.until("the dialog", "return document.getElementById('pause-dialog').open");
    let beside = browser.run(
        "const label = document.querySelector('#pause-dialog .check');
         const box = label.querySelector('input').getBoundingClientRect();
         const range = document.createRange();
         range.selectNodeContents(label.lastChild);
         const text = range.getClientRects()[0];
         return box.left - label.getBoundingClientRect().left < 6 && text.left - box.right < 16",
    );
    assert_eq!(beside, true, "the box stands at its label");
    browser.write("#pause-reason", reason);
    browser.click("#pause-dialog button[type=submit]");
    browser.until_says("[role=status]", "Pause requested");
    browser.until_has("#pause:disabled");
    assert_eq!(browser.text("#pause"), "Pausing…");
}

/// What was told when something was done is not on the page any more.
fn until_untold(visit: &Visit) {
    let gone = "return document.querySelector('main > .notice.good[role=status]') === null";
    visit.browser.until("nothing is told", gone);
}

/// The dashboard test of the design that this grew from.
#[test]
fn dashboard_pause_resume_flow() {
    let env = world::repository();
    let (_started, id) = world::work(&env, world::PLAN);
    let visit = Visit::to(Site::within(env, &[]));
    let (browser, env) = (&visit.browser, &visit.site.env);
    visit.go("/workflows");
    assert!(browser.text("#results").contains("0 of 3 tasks"), "{}", browser.describe());
    browser.click("#results .row-top > a");
    visit.until_at(&format!("/workflows/{id}"));
    browser.until_says("#live", "Live");
    assert!(!browser.has("#resume"), "what runs cannot be resumed");

    pause(&visit, "lunch");
    assert_eq!(world::status(env, &id), "in_progress", "the running task ends first");
    world::touch(env, "go1");
    browser.until_says("#board", "Paused: lunch");
    until_untold(&visit);
    assert!(!browser.has("#pause"), "only what runs can be paused");
    let command = format!("rethread workflow resume {}", &id[24..32]);
    assert_eq!(browser.text("#resume-command"), command);
    browser.until_has("button[data-copy=resume-command]:not([hidden])");
    assert!(browser.text("#board").contains("1 of 3 tasks done"), "{}", browser.describe());
    let first = cards(&visit).remove(0);
    for part in ["Run 1", "pause", "just now", "1 of 3", "lunch"] {
        assert!(first.to_lowercase().contains(&part.to_lowercase()), "{part}: {first}");
    }

    browser.click("#resume button");
    browser.until_says("[role=status]", "It goes on.");
    browser.until_says("table.tasks tr:nth-child(2) .badge", "in progress");
    pause(&visit, "the train leaves");
    world::touch(env, "go2");
    browser.until_says("#board", "Paused: the train leaves");
    until_untold(&visit);
    let all = cards(&visit);
    assert_eq!(all.len(), 2);
    assert!(all[1].contains("Run 2") && all[1].contains("2 of 3"), "{}", all[1]);
    assert!(browser.text("#log").contains("lunch"), "{}", browser.describe());

    compare(&visit, &id);
    visit.go(&format!("/workflows/{id}"));
    browser.click("#resume button");
    browser.until_says("#board", "3 of 3 tasks done");
    browser.until_says("#status", "completed");
    assert!(!browser.has("#pause") && !browser.has("#resume"), "{}", browser.describe());
    assert!(!browser.has("#resume-command"), "{}", browser.describe());
    until_untold(&visit);
    // Nor when the page is loaded anew.
    for told in ["resumed", "pausing", "paused"] {
        visit.go(&format!("/workflows/{id}?notice={told}"));
        browser.until_says("#status", "completed");
        assert!(!browser.has("main > .notice.good"), "{told}: {}", browser.describe());
    }
}

/// From the card of the second session to its snapshot, and to what is different from the first one.
fn compare(visit: &Visit, id: &str) {
    let browser = &visit.browser;
    let snapshots = world::snapshots(&visit.site, id);
    browser.click(&format!("#timeline a[href$='{}']", snapshots[1]));
    browser.until_says("h1", "Snapshot of run 2");
    let shown = browser.shown();
    for part in ["the train leaves", "keep the name of the cookie", "main", "login.rs", "T3"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    browser.click(&format!("#compare-from option[value='{}']", snapshots[0]));
    browser.click("#compare button");
    browser.until_says("h1", "Two snapshots compared");
    let changed = browser.texts("tr.changed").join("\n");
    for part in ["lunch", "the train leaves", "T2", "keep the name of the cookie"] {
        assert!(changed.contains(part), "{part}: {changed}");
    }
    assert!(!changed.contains("Test it"), "{changed}");
}

#[test]
fn a_pause_by_the_command_line_shows_on_the_page() {
    let env = world::repository();
    let (_started, id) = world::work(&env, world::PLAN);
    let visit = Visit::to(Site::within(env, &[]));
    let (browser, env) = (&visit.browser, &visit.site.env);
    visit.go(&format!("/workflows/{id}"));
    browser.until_says("#live", "Live");
    browser.click("#pause");
    browser.click("#pause-dialog [data-close]");
    browser.until("it is closed", "return !document.getElementById('pause-dialog').open");
    env.run(["workflow", "pause", &id, "--no-wait", "--reason", "from the shell"]).succeeded();
    browser.until_has("#pause:disabled");
    world::touch(env, "go1");
    browser.until_says("#board", "Paused: from the shell");
    browser.until_has("#resume");
}
