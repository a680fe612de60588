//! What an agent asks, on the page of its session: with buttons, after a reload, in a second tab, without a script.

use super::{Visit, plain, world};
use crate::env::{TestEnv, user};
use crate::site::Site;

/// The key that presses the button with the focus.
const ENTER: char = '\u{e007}';
/// A command that tries to be markup, and hides its end.
const HOSTILE: &str = "rm </pre><img src=x onerror=window.pwned=1> <b>bold</b> \u{202e}dne";

fn site() -> (Site, String) {
    let env = TestEnv::new();
    env.agent("ref", &[]);
    let id = env.record(["--title", "Talk", "--agent", "ref"], &[user("Hello.")]);
    (Site::within(env, &[]), id)
}

#[test]
fn a_question_is_answered_on_the_page_with_the_keyboard() {
    let (site, id) = site();
    let visit = Visit::to(site);
    let browser = &visit.browser;
    visit.go(&format!("/sessions/{id}"));
    browser.until_says("#live", "Live");
    browser.click("#to option[value=ref]");
    browser.write("#prompt", &format!("ask: {HOSTILE}"));
    browser.click("#send button[type=submit]");
    browser.until_says("#questions .question h3", "ref asks for permission");
    browser.until_says("#said", "ref asks");
    let check = || {
        let shown = browser.text("#questions .whole");
        assert_eq!(shown, HOSTILE.replace('\u{202e}', "\u{241b}202e;"), "{}", browser.describe());
        assert_eq!(browser.count("#questions img, #questions b"), 0);
        assert!(browser.run("return window.pwned === undefined").as_bool().unwrap());
    };
    check();
    browser.reload();
    browser.until_says("#questions button", "Always allow");
    check();
    let labels = browser.texts("#questions button");
    assert_eq!(
        labels,
        [
            "Allow\nyes, this once",
            "Always allow exactly this in this project\nyes, from now on in this project",
            "Reject\nno, this once",
            "Always refuse exactly this in this project\nno, from now on in this project"
        ]
    );
    let named = "const form = document.querySelector('#questions [role=group]'); \
                 return document.getElementById(form.getAttribute('aria-labelledby')).innerText";
    assert!(browser.run(named).as_str().unwrap().contains("asks for permission"));
    browser.until_has(".turn .stream");
    browser.run("document.querySelector('#questions button').focus()");
    browser.press(ENTER);
    browser.until_gone("#questions .question");
    browser.until_says("li.said.assistant", "allowed");
    browser.until_gone(".turn");
    assert_eq!(browser.run("return document.activeElement.id"), "questions");
}

#[test]
fn a_question_comes_and_goes_with_what_happens_elsewhere() {
    let (site, id) = site();
    let visit = Visit::to(site);
    let (browser, site) = (&visit.browser, &visit.site);
    visit.go(&format!("/sessions/{id}"));
    browser.until_says("#live", "Live");
    // Begun, answered and cancelled elsewhere: the page is never loaded again.
    browser.run("window.stays = 1");
    for is_cancelled in [false, true] {
        let turn = site.prompt(&id, "ask: rm things");
        browser.until_says("#questions .whole", "rm things");
        if is_cancelled {
            browser.click(".turn form button");
        } else {
            site.answer(&turn, 1, 3).is(200);
        }
        browser.until_gone("#questions .question");
        browser.until_gone(".turn");
        site.over(&turn);
    }
    assert_eq!(browser.run("return window.stays"), 1);
    // Too late: another was quicker while the page still had its buttons.
    let turn = site.prompt(&id, "ask: rm things");
    browser.until_has("#questions button");
    browser.run(
        "window.fetched = window.fetch; window.fetch = (path, options) => \
         path.includes('/questions') ? new Promise(() => {}) : window.fetched(path, options);",
    );
    site.answer(&turn, 1, 3).is(200);
    site.over(&turn);
    browser.click("#questions button");
    browser.until_says("#too-late", "Too late: it was answered, or the turn is over.");
    // Other news does not take it away.
    site.env.run(["rename", &id, "Another name"]).succeeded();
    browser.until_says("h1", "Another name");
    assert!(browser.text("#too-late").starts_with("Too late"));
}

#[test]
fn a_question_is_answered_without_a_script() {
    let (site, id) = site();
    let visit = plain::without_script(site);
    let (browser, site) = (&visit.browser, &visit.site);
    let turn = site.prompt(&id, "ask: rm things");
    site.questions(&turn, 1);
    visit.go(&format!("/sessions/{id}"));
    assert_eq!(browser.text("#questions .whole"), "rm things");
    browser.click("#questions button[value='1']");
    browser.until_says("[role=status]", "Answered. The agent goes on.");
    assert!(!browser.has("#questions .question"));
    assert_eq!(site.over(&turn)["answer"], "allowed");

    let turn = site.prompt(&id, "ask: rm things");
    site.questions(&turn, 1);
    visit.go(&format!("/sessions/{id}"));
    // The page is older than the turn.
    site.answer(&turn, 1, 3).is(200);
    browser.click("#questions button[value='1']");
    browser.until_says("[role=status]", "Too late");
    assert_eq!(site.over(&turn)["answer"], "rejected");
    world::until("nobody waits", || (!browser.has("#questions .question")).then_some(()));
}
