//! Prompts over the API: sent once, cancelled at any time, told without secrets; and lists that change while they are read.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Answer, Request};
use crate::env::TestEnv;
use crate::site::Site;
use crate::sockets::until;

const TOKEN: &str = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";

fn world(flags: &[&str]) -> (Site, String) {
    let env = TestEnv::new();
    env.agent("ref", flags);
    let site = Site::within(env, &[]);
    let id = site.record("talk", &["hello"]);
    (site, id)
}

/// Waits until this was written down of an answer that streams: then it was passed on, or held back.
fn until_streamed(site: &Site, text: &str) {
    let script = "import sqlite3, sys\n\
                  found = sqlite3.connect(sys.argv[1]).execute('select 1 from stream where instr(what, ?)', [sys.argv[2]])\n\
                  sys.exit(found.fetchone() is None)";
    until(text, || {
        let store = site.env.store().to_str().unwrap();
        let looked = Command::new("python3").args(["-c", script, store, text]).status();
        looked.unwrap().success().then_some(())
    });
}

/// All that a turn told of what was said.
fn said(site: &Site, turn: &str) -> String {
    site.steps(turn).iter().filter_map(|step| step["text"].as_str().map(str::to_owned)).collect()
}

#[test]
fn a_secret_that_comes_in_pieces_is_masked_in_what_is_told() {
    let (site, id) = world(&[]);
    let (begin, end) = TOKEN.split_at(16);
    let turn = site.prompt(
        &id,
        &format!("do: say: Look.\ndo: part: It is {begin}\ndo: wait for: go\ndo: part: {end}\ndo: say: , all of it."),
    );
    until_streamed(&site, begin);
    std::fs::write(site.env.path("project/go"), "").unwrap();
    site.over(&turn);
    let told = said(&site, &turn);
    assert!(!told.contains(begin) && !told.contains(end), "{told}");
    assert!(
        told.starts_with("Look.\nIt is [redacted: ") && told.ends_with("], all of it.\n"),
        "{told}"
    );
}

#[test]
fn a_key_of_several_lines_that_come_one_by_one_is_masked() {
    let (site, id) = world(&[]);
    let line = "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gt";
    let name = "OPENSSH PRIVATE KEY";
    let turn = site.prompt(
        &id,
        &format!(
            "do: say: -----BEGIN {name}-----\ndo: say: {line}\ndo: wait for: go\ndo: say: {line}\n\
             do: say: -----END {name}-----\ndo: say: after"
        ),
    );
    until_streamed(&site, line);
    std::fs::write(site.env.path("project/go"), "").unwrap();
    site.over(&turn);
    let told = said(&site, &turn);
    assert!(!told.contains("b3Bl"), "{told}");
    assert!(told.contains("[redacted: ") && told.ends_with("after\n"), "{told}");
}

/// Sends a prompt under a key.
fn keyed(site: &Site, id: &str, key: &str, agent: &str, prompt: &str) -> Answer {
    let path = format!("/api/v1/sessions/{id}/prompts");
    let request = Request::new("POST", &path).by(&site.token).header("Idempotency-Key", key);
    request.json(&json!({"prompt": prompt, "agent": agent})).send(site.address)
}

#[test]
fn a_prompt_that_is_refused_does_not_use_up_its_key() {
    let (site, id) = world(&[]);
    assert_eq!(
        keyed(&site, &id, "k", "nobody-at-all", "say: hello").is(422).code(),
        "unknown_agent"
    );
    let first = keyed(&site, &id, "k", "ref", "say: hello").is(202).json();
    let again = keyed(&site, &id, "k", "ref", "say: hello").is(202).json();
    assert_eq!(again["turn_id"], first["turn_id"]);
    assert_eq!(keyed(&site, &id, "k", "ref", "say: other").is(409).code(), "key_reused");
    site.over(first["turn_id"].as_str().unwrap());
}

#[test]
fn a_prompt_is_sent_once_also_over_a_kill() {
    let (mut site, id) = world(&[]);
    let asked = |site: &Site, text: &str| {
        let all = site.get(&format!("/api/v1/sessions/{id}/messages?limit=100")).is(200).json();
        let own = all["items"].as_array().unwrap().iter().filter(|one| one["content"] == text);
        own.count()
    };
    let ended = keyed(&site, &id, "ended", "ref", "say: once").is(202).json();
    site.over(ended["turn_id"].as_str().unwrap());
    keyed(&site, &id, "cut off", "ref", "hang").is(422);
    keyed(&site, &id, "cut-off", "ref", "hang").is(202);
    until("it is under way", || (asked(&site, "hang") == 1).then_some(()));
    site.kill();
    site.restart();
    for (key, prompt) in [("ended", "say: once"), ("cut-off", "hang")] {
        let again = keyed(&site, &id, key, "ref", prompt);
        assert_eq!(again.is(409).code(), "key_reused", "{prompt}");
        assert_eq!(asked(&site, prompt), 1, "{prompt}");
    }
    let whole = site.get(&format!("/api/v1/sessions/{id}")).is(200).json();
    assert_eq!(whole["running_turns"], json!([]));
}

#[test]
fn a_cancel_is_heard_while_the_agent_is_opened() {
    for hangs in ["initialize", "session/new"] {
        let (site, id) = world(&["--hang-on", hangs]);
        let turn = site.prompt(&id, "say: never");
        let log = site.env.path("ref.log");
        until("the agent is asked", || {
            std::fs::read_to_string(&log).ok().filter(|text| text.contains(hangs)).map(drop)
        });
        let begun = Instant::now();
        site.post(&format!("/api/v1/turns/{turn}/cancel"), &json!({})).is(200);
        assert_eq!(site.over(&turn)["status"], "cancelled", "{hangs}");
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    }
}

#[test]
fn how_others_opened_their_conversations_is_not_shown() {
    let (site, id) = world(&[]);
    site.over(&site.prompt(&id, "say: hello"));
    let (anna, bert) = (site.token_for("anna", "read"), site.token_for("bert", "write"));
    let get =
        |path: &str, token: &str| Request::new("GET", path).by(token).send(site.address).is(200);
    for (token, count) in [(&anna, 1), (&bert, 0), (&site.token, 1)] {
        let told = get("/api/v1/agents/openings", token).json();
        assert_eq!(told["openings"].as_array().unwrap().len(), count, "{told:#}");
        let page = get("/agents", token).text();
        assert_eq!(page.contains("No conversation was opened yet."), count == 0);
    }
    let whole = format!("/api/v1/sessions/{id}");
    assert_eq!(get(&whole, &anna).json()["openings"].as_array().unwrap().len(), 1);
    let hidden = Request::new("GET", &whole).by(&bert).send(site.address);
    assert_eq!(hidden.is(404).code(), "session_not_found");
}

/// Reads a list part by part, and does something after each; gives the ids.
fn paged(site: &Site, query: &str, mut between: impl FnMut(usize)) -> Vec<String> {
    let (mut found, mut next) = (Vec::new(), String::new());
    for part in 0.. {
        let page = site.get(&format!("/api/v1/sessions?limit=3{query}{next}")).is(200).json();
        let ids = page["items"].as_array().unwrap().iter();
        found.extend(ids.map(|one| one["session_id"].as_str().unwrap().to_owned()));
        between(part);
        let Some(cursor) = page["next"].as_str() else { break };
        next = format!("&cursor={cursor}");
    }
    found
}

#[test]
fn a_list_that_shrinks_while_it_is_read_neither_repeats_nor_skips() {
    let site = Site::new();
    let mut made: Vec<String> =
        (0..10).map(|n| site.record(&format!("s{n}"), &["hello"])).collect();
    made.reverse();
    let delete = |n: usize| {
        let path = format!("/api/v1/sessions/{}", made[n]);
        Request::new("DELETE", &path).by(&site.token).send(site.address).is(200);
    };
    // One that was given, the one that the cursor names, and two that come next.
    let found = paged(&site, "", |part| match part {
        0 => [0, 2, 3, 7].into_iter().for_each(delete),
        1 => delete(6),
        _ => (),
    });
    let expected: Vec<&String> = [0, 1, 2, 4, 5, 6, 8, 9].map(|n| &made[n]).into();
    assert_eq!(found.iter().collect::<Vec<_>>(), expected);
    // Those that are deleted have a list of their own, the last one first; some are brought back meanwhile.
    for n in [8, 9] {
        delete(n);
    }
    let found = paged(&site, "&deleted=true", |part| {
        if part == 0 {
            for n in [8, 6, 3] {
                site.post(&format!("/api/v1/sessions/{}/undelete", made[n]), &Value::Null).is(200);
            }
        }
    });
    let expected: Vec<&String> = [9, 8, 6, 7, 2, 0].map(|n| &made[n]).into();
    assert_eq!(found.iter().collect::<Vec<_>>(), expected);
}

#[test]
fn a_page_reads_of_how_it_was_opened_only_what_it_shows() {
    let (site, id) = world(&[]);
    for _ in 0..2 {
        site.over(&site.prompt(&id, "say: hello"));
        let many: Vec<Value> = (0..60).map(|_| json!({"role": "user", "content": "x"})).collect();
        site.post(&format!("/api/v1/sessions/{id}/messages"), &json!({"messages": many})).is(201);
    }
    site.over(&site.prompt(&id, "say: hello"));
    let page = |query: &str| site.get(&format!("/sessions/{id}{query}")).is(200).text();
    let opened = |page: &str| page.matches("<li class=\"opened ").count();
    let last = 1 + 3 * 2 + 2 * 60;
    for (query, count) in [
        (String::new(), 1),
        (format!("/talk?after={last}"), 0),
        (format!("/talk?after={}", last - 2), 1),
        (format!("?before={}", last - 3), 0),
        ("?at=63".to_owned(), 1),
        ("?before=5".to_owned(), 1),
        ("?before=0".to_owned(), 0),
    ] {
        assert_eq!(opened(&page(&query)), count, "{query}");
    }
    // The first ones cannot be read any more: whoever shows later ones does not notice.
    site.env.change_store("update fact set what = '{\"what\":\"attached\" no more' where after < 10 and what like '%attached%'");
    assert_eq!(opened(&page("")), 1);
    assert_eq!(opened(&page("?at=63")), 1);
}
