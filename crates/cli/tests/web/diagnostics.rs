//! What the server's log says when something goes wrong, and in which form.

use serde_json::Value;

use crate::client::Request;
use crate::env::TestEnv;
use crate::site::Site;

/// The answer tells no more than an id; the log has the whole cause under it.
#[test]
fn a_fault_leaves_its_cause_in_the_log_under_the_id_that_was_given() {
    let mut site = Site::new();
    site.env.change_store("alter table workflow rename to elsewhere");
    let answer = site.get("/api/v1/workflows");
    let id = answer.header("x-request-id").unwrap().to_owned();
    assert_eq!((answer.status, answer.code().as_str()), (500, "internal"));
    assert!(answer.json()["hint"].as_str().unwrap().contains(&id), "{}", answer.text());
    assert!(!answer.text().contains("workflow"), "{}", answer.text());
    // People are told the same.
    let page = Request::new("GET", "/workflows").header("Accept", "text/html").by(&site.token);
    let page = page.send(site.address).is(500);
    assert!(page.text().contains(page.header("x-request-id").unwrap()), "{}", page.text());
    assert!(site.stop());
    let of_it: Vec<Value> =
        site.log().into_iter().filter(|line| line["request"] == id.as_str()).collect();
    let cause = of_it.iter().find(|line| line["event"] == "internal error");
    let cause = cause.unwrap_or_else(|| panic!("{of_it:#?}"));
    assert!(cause["error"].as_str().unwrap().contains("no such table"), "{cause}");
    let failure = of_it.iter().find(|line| line["event"] == "failure").unwrap();
    assert_eq!(
        (&failure["level"], &failure["route"], &failure["status"]),
        (&"error".into(), &"/api/v1/workflows".into(), &500.into())
    );
}

/// A turn goes on when its request is answered: its lines still say which request it was.
#[test]
fn what_a_request_begins_is_noted_under_its_id() {
    let env = TestEnv::new();
    env.agent("ref", &[]);
    let mut site = Site::within(env, &["--log", "json"]);
    let id = site.record("x", &["x"]);
    let prompt = serde_json::json!({"prompt": "say: hello", "agent": "ref"});
    let begun = site.post(&format!("/api/v1/sessions/{id}/prompts"), &prompt).is(202);
    let request = begun.header("x-request-id").unwrap().to_owned();
    let turn = begun.json()["turn_id"].as_str().unwrap().to_owned();
    site.get(&format!("/api/v1/turns/{turn}/events")).is(200);
    assert!(site.stop());
    for event in ["opened", "turn ended"] {
        let lines = site.log();
        let line = lines.iter().find(|line| line["event"] == event);
        let line = line.unwrap_or_else(|| panic!("{event}: {lines:#?}"));
        assert_eq!(
            (&line["request"], &line["session"]),
            (&request.as_str().into(), &id.as_str().into())
        );
    }
}

#[test]
fn the_log_is_for_people_or_programs_or_goes_to_the_file() {
    let said = |more: &[&str]| {
        let mut site = Site::within(TestEnv::new(), more);
        site.get("/api/v1/sessions").is(200);
        assert!(site.stop());
        let said = site.said.lock().unwrap().clone();
        (said, site.env.data(["logs"]))
    };
    let (json, file) = said(&[]);
    assert!(json.contains(r#""event":"request""#), "{json}");
    assert_eq!(file, "");
    let (text, file) = said(&["--log", "text"]);
    assert!(
        text.contains(" INFO  request  method=GET  route=/api/v1/sessions  status=200"),
        "{text}"
    );
    assert_eq!(file, "");
    let (off, file) = said(&["--log", "off"]);
    assert!(off.contains("Stopped.") && !off.contains("route="), "{off}");
    assert!(file.contains("route=/api/v1/sessions"), "{file}");
    let env = TestEnv::new();
    env.set("serve", "log = \"loud\"");
    let refused = env.run(["serve", "--addr", "127.0.0.1:0"]);
    assert_eq!(refused.code, Some(2), "{refused}");
    assert!(refused.stderr.contains("hint: give json, text or off"), "{refused}");
}
