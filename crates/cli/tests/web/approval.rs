//! Nobody approves a command that they were not shown, as it is; and whose a folder is stays theirs.

use serde_json::{Value, json};

use crate::browser::world::{self, until};
use crate::client::Request;
use crate::site::Site;

/// A plan with one task for each of these checks.
fn plan(commands: &[&str]) -> String {
    let mut plan = "# Checked\n".to_owned();
    for (n, command) in commands.iter().enumerate() {
        plan.push_str(&format!(
            "\n## Task T{n}: Do it\n- verify: `{command}`\n\ndo: exec: touch done{n}\n"
        ));
    }
    plan
}

/// Starts a workflow with this plan over the API; gives its id.
#[track_caller]
fn started(site: &Site, plan: &str) -> String {
    std::fs::write(site.env.path("project/plan.md"), plan).unwrap();
    let made = site.post("/api/v1/workflows", &json!({"plan": "plan.md"})).is(201).json();
    made["id"].as_str().unwrap().to_owned()
}

/// What it waits for, once it does.
#[track_caller]
fn asked(site: &Site, id: &str, about: &str) -> Value {
    until("it waits", || {
        let state = site.get(&format!("/api/v1/workflows/{id}")).is(200).json();
        let question = state["questions"][0].clone();
        let is_it = question["question"].as_str().is_some_and(|text| text.contains(about));
        (state["status"] == "blocked" && is_it).then_some(question)
    })
}

fn is_there(site: &Site, name: &str) -> bool {
    site.env.path("project").join(name).exists()
}

/// Approves by the form of the page; gives where that leads.
fn by_form(site: &Site, id: &str, question: &str) -> String {
    let mut coded = String::new();
    for byte in question.bytes() {
        coded.push_str(&format!("%{byte:02x}"));
    }
    let request = Request::new("POST", &format!("/workflows/{id}/approve"))
        .header("Cookie", &site.as_cookie(&site.cookie()))
        .header("Origin", &format!("http://{}", site.address))
        .form(&format!("question={coded}"));
    request.send(site.address).is(303).header("location").unwrap().to_owned()
}

fn page(site: &Site, id: &str) -> String {
    let cookie = site.as_cookie(&site.cookie());
    let request = Request::new("GET", &format!("/workflows/{id}")).header("Cookie", &cookie);
    request.send(site.address).is(200).text()
}

#[test]
fn a_command_that_is_masked_is_approved_in_a_terminal_only() {
    let site = Site::within(world::repository(), &[]);
    let command =
        "true -----BEGIN PRIVATE KEY----- ; touch hidden ; echo -----END PRIVATE KEY-----";
    let id = started(&site, &plan(&[command]));
    let question = asked(&site, &id, "allow this command");
    let text = question["question"].as_str().unwrap();
    assert!(text.contains("[redacted: private key]") && !text.contains("touch"), "{text}");
    assert_eq!(question["is_whole"], false);
    assert_eq!(question["answers"], json!(["reject"]));
    let path = format!("/api/v1/workflows/{id}/approve");
    for body in [json!({"question": text}), json!({}), json!({"question": command})] {
        let refused = site.post(&path, &body).is(409);
        assert_eq!(refused.code(), "command_hidden", "{body}");
        let hint = refused.json()["hint"].as_str().unwrap().to_owned();
        assert!(hint.contains("`rethread workflow approve "), "{hint}");
    }
    assert_eq!(by_form(&site, &id, text), format!("/workflows/{id}?failed=command_hidden"));
    let page = page(&site, &id);
    assert!(!page.contains(&format!("/workflows/{id}/approve")), "{page}");
    assert!(page.contains("id=\"hidden-command\""), "{page}");
    assert!(page.contains(&format!("/workflows/{id}/reject")), "{page}");
    assert_eq!(world::status(&site.env, &id), "blocked");
    assert!(!is_there(&site, "hidden"));
    // Whoever sees it whole may.
    let told = site.env.run(["workflow", "status", &id]).succeeded().text().to_owned();
    assert!(told.contains(command), "{told}");
    site.env.run(["workflow", "approve", &id]).succeeded();
    assert!(is_there(&site, "hidden"));
}

#[test]
fn only_the_command_that_was_read_is_approved() {
    let site = Site::within(world::repository(), &[]);
    let id = started(&site, &plan(&["touch first", "touch second"]));
    let path = format!("/api/v1/workflows/{id}/approve");
    let first = asked(&site, &id, "touch first");
    assert_eq!(first["is_whole"], true);
    assert_eq!(first["answers"], json!(["approve", "reject"]));
    for other in ["allow this command of the plan to run? touch second", "touch first", ""] {
        assert_eq!(site.post(&path, &json!({"question": other})).is(409).code(), "refused");
    }
    assert!(!is_there(&site, "first"));
    site.post(&path, &json!({"question": first["question"]})).is(200);
    asked(&site, &id, "touch second");
    // What was read before is not what is asked now.
    assert_eq!(site.post(&path, &json!({"question": first["question"]})).is(409).code(), "refused");
    assert!(is_there(&site, "first") && !is_there(&site, "second"));
}

#[test]
fn a_command_is_shown_in_the_order_in_which_it_runs() {
    let site = Site::within(world::repository(), &[]);
    let command = "touch a\u{202e}b\u{2066}c";
    let id = started(&site, &plan(&[command]));
    let question = asked(&site, &id, "allow this command");
    let shown = "touch a\u{241b}202e;b\u{241b}2066;c";
    let text = question["question"].as_str().unwrap();
    assert_eq!(text, format!("allow this command of the plan to run? {shown}"));
    let page = page(&site, &id);
    assert!(page.contains(shown), "{page}");
    let api = |rest: &str| site.get(&format!("/api/v1/workflows/{id}{rest}")).is(200).text();
    for told in [page, api(""), api("/events")] {
        assert!(!told.contains(['\u{202e}', '\u{2066}']), "{told:?}");
    }
    // As it is, it is not what was shown; as it was shown, it is what is asked.
    let path = format!("/api/v1/workflows/{id}/approve");
    let raw = json!({"question": format!("allow this command of the plan to run? {command}")});
    assert_eq!(site.post(&path, &raw).is(409).code(), "refused");
    assert_eq!(by_form(&site, &id, text), format!("/workflows/{id}?notice=approved"));
    until("it is done", || (world::status(&site.env, &id) == "completed").then_some(()));
    assert!(is_there(&site, "a\u{202e}b\u{2066}c"));
    assert!(!api("").contains('\u{202e}'));
}

#[test]
fn whose_workflow_works_in_a_folder_is_not_told_to_others() {
    let site = Site::within(world::repository(), &[]);
    let id = started(&site, &plan(&["touch first"]));
    asked(&site, &id, "touch first");
    let again = |token: &str| {
        let body = json!({"issue": "Something else"});
        let request = Request::new("POST", "/api/v1/workflows").by(token).json(&body);
        let refused = request.send(site.address).is(409);
        assert_eq!(refused.code(), "worktree_taken");
        refused.text()
    };
    let own = again(&site.token);
    assert!(own.contains(&id), "{own}");
    let other = again(&site.token_for("bert", "write"));
    assert!(other.contains("another workflow works in this folder"), "{other}");
    let (short, begins) = (&id[24..32], &id[..8]);
    assert!(!other.contains(short) && !other.contains(begins), "{other}");
    for part in ["anna", "Checked", "plan.md"] {
        assert!(!other.contains(part), "{part}: {other}");
    }
}
