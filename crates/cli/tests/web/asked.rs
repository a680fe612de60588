//! What an agent asks in a turn of the server: told whole and masked, answered once, by whoever may.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Answer, Request};
use crate::env::TestEnv;
use crate::site::Site;
use crate::sockets::{Heard, Stream, until};

const TOKEN: &str = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";

/// A server with the agent `ref`, and a session.
fn world() -> (Site, String) {
    let env = TestEnv::new();
    env.agent("ref", &[]);
    let site = Site::within(env, &[]);
    let id = site.record("asked", &["hello"]);
    (site, id)
}

impl Site {
    /// Sends a prompt to the agent `ref`; gives the turn.
    #[track_caller]
    pub(crate) fn prompt(&self, session: &str, prompt: &str) -> String {
        let body = json!({"prompt": prompt, "agent": "ref"});
        let turn = self.post(&format!("/api/v1/sessions/{session}/prompts"), &body).is(202).json();
        turn["turn_id"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    pub(crate) fn turn(&self, turn: &str) -> Value {
        self.get(&format!("/api/v1/turns/{turn}")).is(200).json()
    }

    /// The questions of a turn, once there are so many.
    #[track_caller]
    pub(crate) fn questions(&self, turn: &str, count: usize) -> Vec<Value> {
        until("a question", || {
            let told = self.turn(turn);
            assert_eq!(told["status"], "running", "{told:#}");
            let questions = told["questions"].as_array().unwrap().clone();
            (questions.len() == count).then_some(questions)
        })
    }

    pub(crate) fn answer(&self, turn: &str, question: u32, option: u32) -> Answer {
        let body = json!({"question_id": question, "option_id": option});
        self.post(&format!("/api/v1/turns/{turn}/answers"), &body)
    }

    /// The turn when it is over.
    #[track_caller]
    pub(crate) fn over(&self, turn: &str) -> Value {
        let told = until("the turn ends", || {
            let told = self.turn(turn);
            (told["status"] != "running").then_some(told)
        });
        assert_eq!(told["questions"], json!([]));
        told
    }

    /// All that happened in a turn that is over, or that ends meanwhile.
    #[track_caller]
    pub(crate) fn steps(&self, turn: &str) -> Vec<Value> {
        let text = self.get(&format!("/api/v1/turns/{turn}/events")).is(200).text();
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        data.map(|data| serde_json::from_str(data).unwrap()).collect()
    }
}

fn of_kind<'a>(steps: &'a [Value], kind: &str) -> Vec<&'a Value> {
    steps.iter().filter(|step| step["is"] == kind).collect()
}

#[test]
fn a_question_is_told_and_answered_once() {
    let (site, id) = world();
    let turn = site.prompt(&id, "ask: rm things");
    let question = site.questions(&turn, 1).remove(0);
    let option =
        |n: u32, name: &str, kind: &str| json!({"option_id": n, "name": name, "kind": kind});
    let expected = json!({"question_id": 1, "kind": "execute", "title": "rm things", "options": [
        option(1, "Allow", "allow_once"),
        option(2, "Always allow exactly this in this project", "allow_always"),
        option(3, "Reject", "reject_once"),
        option(4, "Always refuse exactly this in this project", "reject_always"),
    ]});
    assert_eq!(question, expected);
    for (question, option, status, code) in [
        (0, 1, 404, "question_not_found"),
        (2, 1, 404, "question_not_found"),
        (1, 0, 422, "unknown_option"),
        (1, 5, 422, "unknown_option"),
    ] {
        assert_eq!(site.answer(&turn, question, option).is(status).code(), code);
    }
    let path = format!("/api/v1/turns/{turn}/answers");
    for body in [json!({}), json!({"question_id": 1}), json!({"question_id": "1", "option_id": 1})]
    {
        assert_eq!(site.post(&path, &body).is(422).code(), "bad_input");
    }
    // Nobody else: not by another's token, nor by one that only reads.
    let body = json!({"question_id": 1, "option_id": 1});
    for (user, role, status, code) in
        [("bert", "write", 404, "turn_not_found"), ("anna", "read", 403, "forbidden")]
    {
        let token = site.token_for(user, role);
        let answer = Request::new("POST", &path).by(&token).json(&body).send(site.address);
        assert_eq!(answer.is(status).code(), code);
    }
    assert_eq!(site.questions(&turn, 1).remove(0), expected, "nothing has answered it");
    assert_eq!(site.answer(&turn, 1, 1).is(200).json()["questions"], json!([]));
    assert_eq!(site.answer(&turn, 1, 3).is(409).code(), "question_closed");
    assert_eq!(site.over(&turn)["answer"], "allowed");
    assert_eq!(site.answer(&turn, 1, 1).is(409).code(), "question_closed");
    let steps = site.steps(&turn);
    assert_eq!(of_kind(&steps, "question"), [&json!({"is": "question", "question": expected})]);
    let settled = json!({"is": "settled", "question_id": 1, "option_id": 1});
    assert_eq!(of_kind(&steps, "settled"), [&settled]);
    let asked = of_kind(&steps, "permission");
    assert_eq!((&asked[0]["answer"], &asked[0]["by"]), (&json!("allow_once"), &json!("user")));
}

#[test]
fn what_is_answered_for_good_is_not_asked_again() {
    let (site, id) = world();
    for (title, option, expected) in [("rm a", 2, "allowed"), ("rm b", 4, "rejected")] {
        let turn = site.prompt(&id, &format!("ask: {title}"));
        site.questions(&turn, 1);
        site.answer(&turn, 1, option).is(200);
        assert_eq!(site.over(&turn)["answer"], expected);
        let again = site.prompt(&id, &format!("ask: {title}"));
        assert_eq!(site.over(&again)["answer"], expected);
        let steps = site.steps(&again);
        assert_eq!(of_kind(&steps, "question"), [] as [&Value; 0]);
        assert_eq!(of_kind(&steps, "permission")[0]["by"], "grant");
    }
    // Once is once, and another title is another question.
    for option in [1, 3] {
        let turn = site.prompt(&id, "ask: rm c");
        site.questions(&turn, 1);
        site.answer(&turn, 1, option).is(200);
        site.over(&turn);
    }
    let by_hand = site.env.json(["run", "ref", "ask: rm a"]);
    assert_eq!(by_hand["answer"], "allowed", "the command line knows it too");
}

#[test]
fn a_question_waits_until_the_turn_is_cancelled_or_the_server_stops() {
    let (mut site, id) = world();
    let turn = site.prompt(&id, "ask: rm things");
    site.questions(&turn, 1);
    // One that waits behind it is cancelled though it has not begun.
    let second = site.prompt(&id, "say: never");
    site.post(&format!("/api/v1/turns/{second}/cancel"), &json!({})).is(200);
    assert_eq!(site.over(&second)["status"], "cancelled");
    site.questions(&turn, 1);
    site.post(&format!("/api/v1/turns/{turn}/cancel"), &json!({})).is(200);
    assert_eq!(site.over(&turn)["stop_reason"], "cancelled");
    assert_eq!(site.answer(&turn, 1, 1).is(409).code(), "question_closed");
    let steps = site.steps(&turn);
    assert_eq!(of_kind(&steps, "settled"), [&json!({"is": "settled", "question_id": 1})]);

    let turn = site.prompt(&id, "ask: rm things");
    site.questions(&turn, 1);
    let begun = Instant::now();
    assert!(site.stop(), "{}", site.said.lock().unwrap());
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let texts: Vec<Value> = site.env.messages(&id).iter().map(|it| it["content"].clone()).collect();
    assert!(texts.iter().any(|text| text == "ask: rm things"), "{texts:?}");
    assert!(!texts.iter().any(|text| text == "allowed"), "{texts:?}");
    site.env.assert_sound();
}

#[test]
fn a_question_shows_what_will_be_done() {
    let (site, id) = world();
    let input = json!({"command": "rm -rf things", "sandbox": false});
    let call = json!({"title": "stub", "kind": "execute", "rawInput": input});
    let turn = site.prompt(&id, &format!("ask as: {call}"));
    let question = site.questions(&turn, 1).remove(0);
    assert_eq!(question["title"], "rm -rf things");
    let details = json!([
        {"label": "with", "text": "{\"sandbox\":false}"},
        {"label": "the agent calls it", "text": "stub"},
    ]);
    assert_eq!(question["details"], details);
    let page = site.get(&format!("/sessions/{id}/questions")).is(200).text();
    assert!(page.contains("rm -rf things") && page.contains("stub"), "{page}");
    site.answer(&turn, 1, 1).is(200);
    site.over(&turn);
    // Nobody knows what this would do another time.
    let turn = site.prompt(&id, "ask as: {\"title\": \"buy\", \"kind\": \"other\"}");
    let question = site.questions(&turn, 1).remove(0);
    assert_eq!(question["options"].as_array().unwrap().len(), 2, "{question:#}");
    assert!(question["not_for_good"].as_str().unwrap().contains("kind of tool"), "{question:#}");
    site.answer(&turn, 1, 2).is(200);
    assert_eq!(site.over(&turn)["answer"], "rejected");
}

#[test]
fn what_rules_decide_is_not_asked() {
    for (entry, expected) in [
        ("permissions = \"deny\"", "rejected"),
        ("permissions = \"allow\"", "allowed"),
        ("allowed_tools = [\"rm\"]", "allowed"),
        ("disallowed_tools = [\"execute\"]", "rejected"),
    ] {
        let env = TestEnv::new();
        env.agent_with("ref", &[], entry);
        let site = Site::within(env, &[]);
        let id = site.record("ruled", &["hello"]);
        let turn = site.prompt(&id, "ask: rm things");
        assert_eq!(site.over(&turn)["answer"], expected, "{entry}");
        assert_eq!(of_kind(&site.steps(&turn), "question"), [] as [&Value; 0], "{entry}");
    }
}

#[test]
fn a_question_is_told_whole() {
    let (site, id) = world();
    let long = format!("echo {} && rm -rf end-of-it", "x".repeat(30_000));
    let turn = site.prompt(&id, &format!("ask: {long}"));
    let question = site.questions(&turn, 1).remove(0);
    assert!(question["title"] == long, "{:.100}", question["title"]);
    for page in ["", "/questions"] {
        assert!(
            site.get(&format!("/sessions/{id}{page}")).is(200).text().contains(&long[5..30_005])
        );
    }
    site.answer(&turn, 1, 2).is(200);
    assert_eq!(site.over(&turn)["answer"], "allowed");
    assert_eq!(of_kind(&site.steps(&turn), "question")[0]["question"], question);
    // A little other at its end is another question.
    let turn = site.prompt(&id, &format!("ask: {long} /"));
    site.questions(&turn, 1);
    site.answer(&turn, 1, 3).is(200);
    assert_eq!(site.over(&turn)["answer"], "rejected");
}

#[test]
fn a_question_is_told_without_secrets() {
    let (site, id) = world();
    let turn = site.prompt(&id, &format!("ask: curl -u anna:{TOKEN} example.com"));
    let title = site.questions(&turn, 1)[0]["title"].as_str().unwrap().to_owned();
    assert!(title.starts_with("curl -u anna:[redacted: "), "{title}");
    assert!(title.ends_with("] example.com"), "{title}");
    for path in [format!("/sessions/{id}/questions"), format!("/api/v1/turns/{turn}")] {
        let told = site.get(&path).is(200).text();
        assert!(told.contains("curl -u anna") && !told.contains(TOKEN), "{told}");
    }
    site.answer(&turn, 1, 1).is(200);
    assert_eq!(site.over(&turn)["answer"], "rejected");
    assert!(!site.get(&format!("/api/v1/turns/{turn}/events")).is(200).text().contains(TOKEN));
}

/// A mask may stand for anything, another command included: what is behind it cannot be allowed by somebody who does not see it.
#[test]
fn what_is_masked_can_only_be_refused() {
    let (site, id) = world();
    let hidden = "-----BEGIN RSA PRIVATE KEY-----\ntouch sneaked\n: -----END RSA PRIVATE KEY-----";
    for call in [
        json!({"title": "ls", "kind": "execute", "rawInput": {"command": format!(": {hidden}")}}),
        json!({"title": "ls", "kind": "execute", "rawInput": {"command": "ls", "after": hidden}}),
    ] {
        let turn = site.prompt(&id, &format!("ask as: {call}"));
        let question = site.questions(&turn, 1).remove(0);
        let kinds: Vec<&str> = question["options"]
            .as_array()
            .unwrap()
            .iter()
            .map(|option| option["kind"].as_str().unwrap())
            .collect();
        assert!(
            !kinds.is_empty() && kinds.iter().all(|kind| kind.starts_with("reject_")),
            "{question:#}"
        );
        assert!(question["not_allowable"].as_str().unwrap().contains("masked"), "{question:#}");
        let page = site.get(&format!("/sessions/{id}/questions")).is(200).text();
        assert!(page.contains("It cannot be allowed here") && !page.contains("sneaked"), "{page}");
        site.answer(&turn, 1, 1).is(200);
        assert_eq!(site.over(&turn)["answer"], "rejected");
    }
}

#[test]
fn what_nobody_reads_is_refused_without_asking() {
    let (site, id) = world();
    let turn = site.prompt(&id, &format!("ask: {}", "y".repeat(70_000)));
    assert_eq!(site.over(&turn)["answer"], "rejected");
    assert_eq!(of_kind(&site.steps(&turn), "question"), [] as [&Value; 0]);
}

#[test]
fn a_question_is_told_however_much_was_said_before() {
    let (site, id) = world();
    let turn = site.prompt(&id, "do: large: 30 60000\ndo: wait for: go\ndo: ask: rm things");
    let path = format!("/api/v1/turns/{turn}/events");
    let follow = Request::new("GET", &path).by(&site.token);
    let mut stream = Stream::open(follow, false, site.address).unwrap();
    while !matches!(stream.next(), Heard::Event(step) if step["is"] == "more") {}
    std::fs::write(site.env.path("project/go"), "").unwrap();
    site.questions(&turn, 1);
    site.answer(&turn, 1, 1).is(200);
    site.over(&turn);
    let steps = site.steps(&turn);
    assert_eq!(of_kind(&steps, "more").len(), 1);
    assert_eq!(of_kind(&steps, "question").len(), 1);
    assert_eq!(of_kind(&steps, "settled").len(), 1);
}

#[test]
fn several_questions_stand_side_by_side() {
    let (site, id) = world();
    let turn = site.prompt(&id, "ask both: fetch, drop");
    let questions = site.questions(&turn, 2);
    for question in questions.iter().rev() {
        let option = if question["title"] == "fetch" { 1 } else { 3 };
        let number = u32::try_from(question["question_id"].as_u64().unwrap()).unwrap();
        site.answer(&turn, number, option).is(200);
    }
    assert_eq!(site.over(&turn)["answer"], "fetch allowed, drop rejected");
}

#[test]
fn what_we_do_for_an_agent_is_asked_too() {
    let (site, id) = world();
    let (file, long) = (site.env.path("project/touched"), "z".repeat(3_000));
    for (option, is_done) in [(3, false), (1, true)] {
        let turn = site.prompt(&id, &format!("run: touch {} {long}", file.display()));
        let question = site.questions(&turn, 1).remove(0);
        let command = format!("touch {} {long}", file.display());
        assert!(question["title"] == command, "{:.100}", question["title"]);
        site.answer(&turn, 1, option).is(200);
        site.over(&turn);
        assert_eq!(file.exists(), is_done);
    }
}
