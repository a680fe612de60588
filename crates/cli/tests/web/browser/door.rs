//! Coming in and being sent out: a link works once, and without a login nothing is shown.

use serde_json::Value;

use super::Visit;
use crate::env::user;
use crate::site::Site;

const TITLE: &str = "The basket gets lost";

#[test]
fn the_first_visit_leads_to_the_list_and_the_link_works_once() {
    let visit = Visit::stranger(Site::new());
    visit.site.record(TITLE, &["Find out why."]);
    let browser = &visit.browser;
    visit.go("/");
    visit.until_at("/login");
    assert!(browser.has("#code"), "{}", browser.describe());
    assert!(!browser.shown().contains(TITLE));

    let link = visit.link();
    browser.open(&link);
    visit.until_at("/");
    browser.until_says(".rows", TITLE);
    assert_eq!(browser.url(), visit.at("/"), "the code is not left in the address");
    assert_eq!(browser.run("return document.cookie"), "", "scripts do not see the cookie");

    browser.forget();
    browser.open(&link);
    browser.until_says("[role=alert]", "used already");
    visit.go("/");
    assert!(!browser.shown().contains(TITLE));
    browser.open(&visit.link());
    browser.until_says(".rows", TITLE);
}

#[test]
fn who_logs_out_sees_nothing_any_more() {
    let visit = Visit::to(Site::new());
    visit.site.record(TITLE, &["Find out why."]);
    let browser = &visit.browser;
    visit.go("/");
    browser.until_says(".rows", TITLE);
    browser.click("form[action='/logout'] button");
    browser.until_says("[role=status]", "You are logged out");
    visit.go("/");
    assert!(!browser.shown().contains(TITLE));
    browser.run("history.back()");
    browser.until("back", "return document.readyState === 'complete'");
    assert!(!browser.shown().contains(TITLE), "nothing is kept");
}

#[test]
fn a_page_whose_login_is_taken_away_leads_to_the_way_in() {
    let visit = Visit::to(Site::new());
    let id = visit.site.env.record(["--title", TITLE], &[user("Find out why.")]);
    let browser = &visit.browser;
    visit.go(&format!("/sessions/{id}"));
    browser.until_says("#live", "Live");
    let tokens = visit.site.env.json(["token", "list"]);
    let logins = tokens.as_array().expect("tokens").iter().filter(|one| one["name"] != "local");
    for login in logins {
        let id = login["id"].as_str().or(login["token_id"].as_str());
        visit.site.env.run(["token", "revoke", id.expect("an id")]).succeeded();
    }
    visit.until_at("/login");
    let all = browser.run("return document.documentElement.outerHTML");
    assert!(!all.as_str().unwrap().contains(TITLE));
    visit.go(&format!("/sessions/{id}"));
    assert!(!browser.shown().contains(TITLE));
    let kept = browser.run("return localStorage.length + sessionStorage.length");
    assert_eq!(kept, Value::from(0));
}
