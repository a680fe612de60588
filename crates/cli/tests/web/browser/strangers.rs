//! Pages of other sites: nothing that they can make a browser do reaches the server, though the browser is logged in.

use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpListener};

use serde_json::{Value, json};

use super::{Browser, Visit};
use crate::client;
use crate::env::user;
use crate::site::Site;

/// A server that answers every request with one page; it ends with the test's process.
fn elsewhere(page: String) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            drop(client::head(&mut BufReader::new(&mut stream)));
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{page}",
                page.len()
            );
            drop(stream.write_all(answer.as_bytes()));
        }
    });
    address
}

/// Tries everything that a page can try, and notes in `tried` what came of it.
const PAGE: &str = r#"<!DOCTYPE html><title>elsewhere</title>
<form id="form" method="post" action="BASE/sessions/ID/rename" target="frame"><input name="title" value="stolen"></form>
<form id="plain" method="post" enctype="text/plain" action="BASE/api/v1/sessions/ID/pause" target="frame"><input name='{"a":"' value='"}'></form>
<iframe name="frame"></iframe>
<iframe id="framed" src="BASE/"></iframe>
<script>
window.tried = {};
const note = (name, answer) => answer.then(() => 'answered', () => 'refused').then((what) => { tried[name] = what; });
const socket = (name, path) => note(name, new Promise((done, fail) => {
  const socket = new WebSocket('ws' + 'BASE'.slice(4) + path);
  socket.onopen = done; socket.onerror = fail;
}));
const source = (name) => note(name, new Promise((done, fail) => {
  const source = new EventSource('BASE/api/v1/events', { withCredentials: true });
  source.onopen = done; source.onerror = () => { source.close(); fail(); };
}));
const load = (name, tag, path) => note(name, new Promise((done, fail) => {
  const one = document.createElement(tag);
  one.onload = done; one.onerror = fail; one.src = 'BASE' + path; document.body.append(one);
}));
const ask = (name, path, options) => note(name, fetch('BASE' + path, { credentials: 'include', ...options }));
const post = { method: 'POST', body: '{"title":"stolen"}', headers: { 'Content-Type': 'text/plain' } };
ask('read', '/api/v1/sessions', {});
ask('read the page', '/sessions/ID', {});
ask('read blindly', '/api/v1/sessions', { mode: 'no-cors' });
ask('write', '/api/v1/sessions/ID', { ...post, method: 'PATCH' });
ask('write JSON', '/api/v1/sessions', { ...post, headers: { 'Content-Type': 'application/json' } });
ask('write text', '/api/v1/sessions', post);
ask('write blindly', '/api/v1/sessions/ID/pause', { ...post, mode: 'no-cors' });
ask('log out', '/logout', { ...post, mode: 'no-cors' });
ask('delete', '/api/v1/sessions/ID', { method: 'DELETE' });
note('beacon', navigator.sendBeacon('BASE/sessions/ID/pause', 'x') ? Promise.reject() : Promise.reject());
socket('socket', '/api/v1/events');
source('events');
load('script', 'script', '/api/v1/sessions');
load('image', 'img', '/assets/icon.svg');
load('api as image', 'img', '/api/v1/sessions');
document.getElementById('form').submit();
document.getElementById('plain').submit();
</script>"#;

/// The addresses of all frames, as the browser has them.
fn frames(browser: &Browser) -> Vec<String> {
    let tree = browser.tool("Page.getFrameTree", &json!({}));
    let children = tree["frameTree"]["childFrames"].as_array().cloned().unwrap_or_default();
    let url = |frame: &Value| frame["frame"]["url"].as_str().unwrap_or_default().to_owned();
    children.iter().map(url).collect()
}

#[test]
fn a_page_of_another_origin_gets_nothing_and_changes_nothing() {
    let visit = Visit::to(Site::new());
    let env = &visit.site.env;
    let id = env.record(["--title", "Mine"], &[user("Hello.")]);
    let page = PAGE.replace("BASE", &visit.at("")).replace("ID", &id);
    let browser = &visit.browser;
    // The same host with another port: for cookies that is the same site, so the browser sends ours along.
    browser.open(&format!("http://{}/", elsewhere(page)));
    let tried = browser.until(
        "all was tried",
        "return window.tried && Object.keys(tried).length === 15 ? tried : null",
    );
    for (name, what) in tried.as_object().unwrap() {
        assert_eq!(what, "refused", "{name}");
    }
    browser.until("the frames are done", "return document.readyState === 'complete'");
    for frame in frames(browser) {
        assert!(!frame.contains("/sessions/") && frame != visit.at("/"), "{frame}");
    }
    let said = visit.site.said.lock().unwrap().clone();
    assert!(said.matches("wrong_origin").count() >= 8, "{said}");
    let sessions = env.json(["list"]);
    assert_eq!(sessions.as_array().unwrap().len(), 1, "{sessions:#}");
    assert_eq!((&sessions[0]["title"], &sessions[0]["status"]), (&json!("Mine"), &json!("active")));
    visit.go("/");
    assert!(browser.shown().contains("Mine"), "still logged in");
}

#[test]
fn another_name_for_this_machine_opens_nothing() {
    let site = Site::new();
    site.record("Mine", &["Hello."]);
    let browser = Browser::with(&["--host-resolver-rules=MAP evil.test 127.0.0.1"]);
    browser.open(&format!("http://evil.test:{}/", site.address.port()));
    let shown = browser.shown();
    assert!(shown.contains("does not have that name"), "{shown}");
    assert!(!shown.contains("Mine"), "{shown}");
    let link = site.env.json(["login"])["url"].as_str().unwrap().to_owned();
    browser.open(&link.replace("127.0.0.1", "evil.test"));
    browser
        .until("it is told", "return document.body.innerText.includes('does not have that name')");
    assert_eq!(browser.run("return document.cookie"), "");
}
