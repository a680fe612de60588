//! What becomes of a message: whom it goes to, how the answer comes, and what is told and kept where none does.

use serde_json::{Value, json};

use super::{Visit, plain};
use crate::client::Request;
use crate::env::{TestEnv, user};
use crate::site::Site;

/// Not installed anywhere, and known by its own command only.
const GONE: &str = "command = [\"rethread-no-such-program\"]\ninstall = \"fetch the gone agent\"";

/// The agents `ref`, and `gone`, which is not installed; with a session that was begun with the second.
fn site() -> (Site, String) {
    let env = TestEnv::new();
    env.agent("ref", &["--load"]);
    env.set("agents.gone", GONE);
    let id = env.record(["--title", "Talk", "--agent", "gone"], &[user("Hello.")]);
    (Site::within(env, &[]), id)
}

fn visit() -> (Visit, String) {
    let (site, id) = site();
    let visit = Visit::to(site);
    visit.go(&format!("/sessions/{id}"));
    visit.browser.until_says("#live", "Live");
    (visit, id)
}

fn send(visit: &Visit, text: &str) {
    visit.browser.write("#prompt", text);
    visit.browser.click("#send button[type=submit]");
}

fn written(visit: &Visit) -> Value {
    visit.browser.run("return document.getElementById('prompt').value")
}

#[test]
fn an_agent_that_is_not_installed_is_refused_before_the_key_is_used_up() {
    let (site, id) = site();
    let prompt = |agent: Option<&str>| {
        let body = json!({"prompt": "say: Here.", "agent": agent});
        let path = format!("/api/v1/sessions/{id}/prompts");
        Request::new("POST", &path)
            .by(&site.token)
            .header("Idempotency-Key", "k1")
            .json(&body)
            .send(site.address)
    };
    // Named, and because the session was begun with it.
    for agent in [Some("gone"), None] {
        let refused = prompt(agent).is(409);
        assert_eq!(refused.code(), "not_installed");
        let hint = refused.json()["hint"].as_str().unwrap().to_owned();
        assert!(hint.contains("fetch the gone agent"), "{hint}");
    }
    let turn = prompt(Some("ref")).is(202).json()["turn_id"].as_str().unwrap().to_owned();
    assert_eq!(site.over(&turn)["is_recorded"], true);
    assert_eq!(site.env.messages(&id).len(), 3);
}

#[test]
fn who_spoke_last_is_offered_and_who_is_not_installed_is_not() {
    let (visit, _) = visit();
    let browser = &visit.browser;
    let to = || browser.run("return document.getElementById('to').value");
    assert_eq!(to(), "ref", "the first that is installed");
    assert!(browser.has("#to option[value=gone]:disabled"), "{}", browser.describe());
    assert!(browser.text("#to option[value=gone]").contains("(not installed)"));
    assert!(browser.text("#resume").ends_with(" --with ref"), "{}", browser.text("#resume"));
    assert!(browser.text("#head .facts").contains("gone"));
    send(&visit, "say: Good evening.");
    browser.until_says("li.said.assistant", "Good evening.");
    browser.until_says("#head .facts", "begun with gone");
    let resume = "return document.getElementById('resume').innerText.includes('--with')";
    browser.until("the command names nobody", &format!("return !(() => {{ {resume} }})()"));
    browser.reload();
    assert_eq!(to(), "ref");
}

#[test]
fn what_was_refused_stays_in_the_box() {
    let (visit, id) = visit();
    let browser = &visit.browser;
    // The page was made when it was still installed.
    browser.run(
        "const gone = document.querySelector('#to option[value=gone]'); gone.disabled = false; gone.selected = true",
    );
    send(&visit, "Do not lose this.");
    browser.until_says("#send-error", "fetch the gone agent");
    assert_eq!(written(&visit), "Do not lose this.");
    assert_eq!(visit.site.env.messages(&id).len(), 1);
}

#[test]
fn what_was_refused_stays_in_the_box_without_a_script() {
    let env = TestEnv::new();
    env.agent("ref", &[]);
    let id = env.record(["--title", "Talk", "--agent", "ref"], &[user("Hello.")]);
    let visit = plain::without_script(Site::within(env, &[]));
    let browser = &visit.browser;
    visit.go(&format!("/sessions/{id}"));
    visit.site.env.run(["archive", &id]).succeeded();
    send(&visit, "Do not lose </textarea> this.");
    browser.until_says("#closed", "archived");
    assert!(
        browser.text("#draft").contains("Do not lose </textarea> this."),
        "{}",
        browser.describe()
    );
}

#[test]
fn what_was_not_recorded_comes_back() {
    let env = TestEnv::new();
    env.agent("ref", &["--load"]);
    env.set("agents.dead", "command = [\"false\"]");
    let id = env.record(["--title", "Talk", "--agent", "ref"], &[user("Hello.")]);
    let visit = Visit::to(Site::within(env, &[]));
    let browser = &visit.browser;
    visit.go(&format!("/sessions/{id}"));
    browser.until_says("#live", "Live");
    browser.click("#to option[value=dead]");
    send(&visit, "Do not lose this.");
    browser.until_says(".over .by", "dead");
    browser.until_says(".over .badge", "failed");
    browser.until_says(".over .notice", "Your text is back in the box.");
    assert_eq!(written(&visit), "Do not lose this.");
    // Whoever comes later finds it too.
    browser.reload();
    assert_eq!(written(&visit), "Do not lose this.");
    browser.until_says("#send-error", "Not sent");
    browser.until_says("#live", "Live");
    browser.clear("#prompt");
    browser.click("#to option[value=ref]");
    send(&visit, "say: Good evening.");
    browser.until_says("li.said.assistant", "Good evening.");
    browser.until_gone("#send-error");
    browser.until_gone(".over");
    browser.reload();
    assert_eq!(written(&visit), "");
}

#[test]
fn an_answer_streams_in_before_its_line_ends() {
    let (visit, id) = visit();
    let browser = &visit.browser;
    send(
        &visit,
        "do: say: A long paragraph that goes on and on \ndo: wait for: go\ndo: say: until its end.",
    );
    browser.until_says(".turn .stream", "A long paragraph that goes on and");
    std::fs::write(visit.site.env.path("project/go"), "").unwrap();
    browser.until_says("li.said.assistant", "until its end.");
    assert_eq!(visit.site.env.messages(&id).len(), 3);
}

#[test]
fn what_came_to_nothing_says_so_until_the_next_turn() {
    let (visit, _) = visit();
    let browser = &visit.browser;
    send(&visit, "hang");
    browser.click(".turn form button");
    browser.until_says(".over .badge", "cancelled");
    assert!(browser.text(".over .by").contains("ref"));
    browser.until_says("#said", "cancelled");
    send(&visit, "die");
    browser.until_says(".over.failed .badge", "failed");
    assert_eq!(browser.count(".over"), 1, "{}", browser.describe());
    assert!(browser.has(".over [role=alert]"));
    send(&visit, "say: Good evening.");
    browser.until_says("li.said.assistant", "Good evening.");
    browser.until_says("#said", "The answer has arrived");
    assert!(!browser.has(".over"), "{}", browser.describe());
}

#[test]
fn a_server_that_is_gone_is_told_in_words() {
    let (mut visit, _) = visit();
    visit.site.kill();
    send(&visit, "Do not lose this.");
    visit.browser.until_says("#send-error", "The server does not answer; your text is still here.");
    assert_eq!(written(&visit), "Do not lose this.");
}

#[test]
fn a_long_session_says_where_one_is_and_leads_to_its_end() {
    let env = TestEnv::new();
    env.agent("ref", &[]);
    let lines: Vec<Value> = (1..=1_010).map(|n| user(&format!("Message {n}.\n\n…"))).collect();
    let id = env.record(["--title", "Long"], &lines);
    let visit = Visit::to(Site::within(env, &[]));
    let browser = &visit.browser;
    visit.go(&format!("/sessions/{id}"));
    assert_eq!(browser.text("#part"), "961–1,010 of 1,010");
    assert!(browser.text("#head .facts").contains("use not reported"), "{}", browser.describe());
    assert!(!browser.text("#head .facts").contains("$0"), "{}", browser.describe());
    browser.click("#newest");
    let seen = "const at = document.getElementById('m1010').getBoundingClientRect(); \
                return at.top >= 0 && at.top < innerHeight";
    browser.until("the newest is on the screen", seen);
    browser.run("document.querySelector('.skip[href=\"#prompt\"]').focus()");
    browser.press('\u{e007}');
    browser.until("the box has the focus", "return document.activeElement.id === 'prompt'");
    visit.go(&format!("/sessions/{id}?at=500"));
    assert!(browser.text("#part").ends_with(" of 1,010"));
    browser.click("#newest");
    browser.until_has("#m1010");
}

#[test]
fn an_empty_store_names_an_agent_that_is_there() {
    let visit = Visit::to(Site::new());
    let browser = &visit.browser;
    visit.go("/");
    assert!(browser.text("#install").contains("install"), "{}", browser.describe());
    assert!(browser.shown().contains("rethread tour"), "{}", browser.describe());
    assert!(browser.shown().contains("rethread mcp install"), "{}", browser.describe());
    drop(visit);
    let env = TestEnv::new();
    env.agent("ref", &[]);
    let visit = Visit::to(Site::within(env, &[]));
    visit.go("/");
    assert!(visit.browser.text("#first").starts_with("rethread run ref "));
    assert!(!visit.browser.has("#install"));
}
