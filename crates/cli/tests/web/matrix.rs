//! Who may what: every address with every wrong credential, with every role, and with the ids of other users.

use serde_json::{Value, json};

use crate::access::assert_sealed;
use crate::client::{Answer, Request};
use crate::routes::{self, Route};
use crate::site::Site;
use crate::sockets::{elsewhere, raw, until};

#[test]
fn nobody_gets_in_without_a_credential() {
    let site = Site::new();
    let id = site.record("secret-title", &["secret-text"]);
    let wrong = routes::wrong_credentials(&site);
    let head = || site.get("/api/v1/sessions").json();
    let before = head();
    let mut cells = 0;
    for route in routes::all(&site).iter().filter(|route| !route.is_open()) {
        let from = elsewhere();
        for (what, headers) in &wrong {
            let mut request = route.request(&id);
            for (name, value) in headers {
                request = request.header(name, value);
            }
            let answer = request.send_from(from, site.address);
            assert_eq!(answer.status, 401, "{what}: {route:?} {}", answer.text());
            assert_eq!(answer.code(), "unauthenticated", "{what}: {route:?}");
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
            assert!(!answer.text().contains("secret-"), "{what}: {route:?}");
            assert_sealed(&answer);
            cells += 1;
        }
    }
    assert!(cells > 900, "{cells}");
    assert_eq!(head(), before);
}

#[test]
fn what_is_open_tells_nothing() {
    let site = Site::new();
    site.record("secret-title", &["secret-text"]);
    for path in ["/healthz", "/readyz", "/login"] {
        let answer = Request::new("GET", path).send_from(elsewhere(), site.address).is(200);
        assert!(!answer.text().contains("secret-"), "{path}");
        assert!(!answer.text().contains(env!("CARGO_PKG_VERSION")), "{path}");
        assert_sealed(&answer);
    }
    for path in ["/assets/x", "/assets/", "/assets/..%2f..%2fetc%2fpasswd", "/assets/../metrics"] {
        let answer = Request::new("GET", path).send_from(elsewhere(), site.address);
        assert!([401, 404].contains(&answer.status), "{path} {answer:?}");
    }
    // Other ways to write an address lead nowhere, least of all in.
    for path in [
        "//api/v1/tokens",
        "/api/v1//tokens",
        "/api/v1/tokens/",
        "/api/v1/%74okens",
        "/login/../api/v1/tokens",
        "/assets/../../api/v1/tokens",
        "/healthz/../metrics",
        "/API/V1/tokens",
        "/login?/api/v1/tokens",
        "/login;/api/v1/tokens",
        "/metrics%00",
        "/login%2f..%2fmetrics",
    ] {
        let writer = site.token_for("bert", "write");
        for token in [None, Some(&writer)] {
            let mut request = Request::new("GET", path);
            if let Some(token) = token {
                request = request.by(token);
            }
            let answer = request.send_from(elsewhere(), site.address);
            let text = answer.text();
            assert!(!text.contains("\"tokens\"") && !text.contains("rethread_requests"), "{path}");
        }
    }
}

#[test]
fn a_role_allows_no_more_than_it_says() {
    let site = Site::new();
    let id = site.record("x", &["x"]);
    let (reads, writes) = (site.token_for("anna", "read"), site.token_for("anna", "write"));
    let (mut refused, before) = (0, site.get("/api/v1/sessions").json());
    for route in routes::all(&site).iter().filter(|route| !route.is_open()) {
        let needs_write = !route.is_read() && route.path != "/logout";
        for (token, is_refused) in
            [(&reads, needs_write || route.is_for_admins()), (&writes, route.is_for_admins())]
        {
            if is_refused {
                let answer = route.request(&id).by(token).send(site.address).is(403);
                assert_eq!(answer.code(), "forbidden", "{route:?}");
                assert_sealed(&answer);
                refused += 1;
            }
        }
    }
    assert!(refused > 30, "{refused}");
    // The document says of each operation which role it needs, and it is the one that is asked for.
    let document = site.get("/api/v1/openapi.json").is(200).json();
    for route in routes::documented(&document) {
        let operation = &document["paths"][&route.path][route.method.to_lowercase()];
        let role = match (route.is_for_admins(), route.is_read()) {
            (true, _) => "admin",
            (_, true) => "read",
            _ => "write",
        };
        assert_eq!(operation["security"], json!([{"token": [role]}]), "{route:?}");
    }
    assert_eq!(site.get("/api/v1/sessions").json(), before);
}

const HOSTS: [&str; 10] = [
    "127.0.0.1:PORT",
    "localhost:PORT",
    "[::1]:PORT",
    "LOCALHOST:PORT",
    "evil.com",
    "127.0.0.1.nip.io:PORT",
    "",
    "127.0.0.1:PORT\r\nHost: 127.0.0.1:PORT",
    "127.0.0.1:1",
    "missing",
];
const ORIGINS: [&str; 7] = [
    "",
    "null",
    "http://127.0.0.1:PORT",
    "https://evil.com",
    "http://127.0.0.1:1",
    "https://127.0.0.1:PORT",
    "http://127.0.0.1:PORT.evil.com",
];
const SITES: [&str; 5] = ["", "none", "same-origin", "same-site", "cross-site"];
const KINDS: [(&str, &str); 4] = [
    ("GET / HTTP/1.1\r\n", "\r\n"),
    ("GET /api/v1/sessions HTTP/1.1\r\n", "\r\n"),
    (
        "POST /api/v1/sessions HTTP/1.1\r\n",
        "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
    ),
    (
        "GET /api/v1/events HTTP/1.1\r\n",
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    ),
];

/// Only who calls us by our name, and whom no other site sent, is answered; the cookie is always good.
#[test]
fn pages_of_other_sites_get_no_answer() {
    let site = Site::new();
    let (cookie, port) = (site.as_cookie(&site.cookie()), site.address.port().to_string());
    let (mut cells, mut begun) = (0, 0);
    for host in HOSTS {
        for origin in ORIGINS {
            for from in SITES {
                for (n, (line, rest)) in KINDS.into_iter().enumerate() {
                    let mut text = line.to_owned();
                    if host != "missing" {
                        text += &format!("Host: {host}\r\n");
                    }
                    for (name, value) in [("Origin", origin), ("Sec-Fetch-Site", from)] {
                        if !value.is_empty() {
                            text += &format!("{name}: {value}\r\n");
                        }
                    }
                    text += &format!("Cookie: {cookie}\r\n{rest}");
                    let is_good = HOSTS[..4].contains(&host)
                        && [ORIGINS[0], ORIGINS[2]].contains(&origin)
                        && SITES[..3].contains(&from);
                    let text = text.replace("PORT", &port);
                    let answer = raw(site.address, text.as_bytes()).expect("an answer");
                    let expected = if is_good { [200, 200, 201, 101][n] } else { 403 };
                    // Without a host it is not even a request.
                    let is_expected =
                        answer.status == expected || host == "missing" && answer.status == 400;
                    assert!(is_expected, "{expected}: {text} {answer:?}");
                    assert_sealed(&answer);
                    begun += usize::from(answer.status == 201);
                    cells += 1;
                }
            }
        }
    }
    assert_eq!((cells, begun), (1_400, 24));
    let there = site.get("/api/v1/sessions?limit=100").json();
    assert_eq!(there["items"].as_array().unwrap().len(), begun);
}

#[test]
fn an_address_with_a_host_in_it_counts_too() {
    let site = Site::new();
    let ask = |target: &str, host: &str| {
        let text =
            format!("GET {target} HTTP/1.1\r\n{host}Authorization: Bearer {}\r\n\r\n", site.token);
        raw(site.address, text.as_bytes()).map(|answer| answer.status)
    };
    let own = format!("Host: {}\r\n", site.address);
    assert_eq!(ask("/api/v1/sessions", &own), Some(200));
    assert_eq!(ask(&format!("http://{}/api/v1/sessions", site.address), &own), Some(200));
    assert_eq!(ask("http://evil.com/api/v1/sessions", &own), Some(403));
    assert_eq!(ask("http://evil.com/api/v1/sessions", "Host: evil.com\r\n"), Some(403));
    assert_ne!(ask("http://evil.com/api/v1/sessions", ""), Some(200));
    assert_eq!(
        ask(&format!("http://{}/api/v1/sessions", site.address), "Host: evil.com\r\n"),
        Some(403)
    );
}

/// Three users, each with a session, a workflow, a turn and two tokens.
struct World {
    site: Site,
    people: Vec<Person>,
}

struct Person {
    name: &'static str,
    reads: String,
    writes: String,
    session: String,
    workflow: String,
    turn: String,
}

impl Person {
    /// What is theirs of the kind that the address is about.
    fn own(&self, route: &Route) -> &str {
        let path = route.path.trim_start_matches("/api/v1");
        if path.starts_with("/workflows") {
            &self.workflow
        } else if path.starts_with("/turns") {
            &self.turn
        } else {
            &self.session
        }
    }

    /// Whether an answer has something of theirs in it.
    fn is_in(&self, answer: &Answer) -> bool {
        let text = answer.text();
        let marker = format!("beacon{}", self.name);
        [&self.session, &self.workflow, &self.turn, &marker].into_iter().any(|it| text.contains(it))
    }
}

impl World {
    fn new() -> Self {
        let env = crate::env::TestEnv::new();
        env.agent("ref", &[]);
        env.set("workflow", "agent = \"ref\"");
        let site = Site::within(env, &[]);
        let people = ["anna", "bert", "cleo"].into_iter().map(|name| Self::person(&site, name));
        Self { people: people.collect(), site }
    }

    fn person(site: &Site, name: &'static str) -> Person {
        let (reads, writes) = (site.token_for(name, "read"), site.token_for(name, "write"));
        let post = |path: &str, body: &Value| {
            let answer = Request::new("POST", path).by(&writes).json(body).send(site.address);
            assert!(answer.status < 300, "{path}: {}", answer.text());
            answer.json()
        };
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let title = json!({"title": format!("common beacon{name}")});
        let session = text(&post("/api/v1/sessions", &title)["session_id"]);
        let said = json!({"messages": [{
            "role": "assistant", "content": format!("common beacon{name}"), "agent": format!("beacon{name}"),
        }]});
        post(&format!("/api/v1/sessions/{session}/messages"), &said);
        let prompt = json!({"prompt": "say: hello", "agent": "ref"});
        let turn = text(&post(&format!("/api/v1/sessions/{session}/prompts"), &prompt)["turn_id"]);
        let folder = site.env.path(&format!("project-{name}"));
        std::fs::create_dir(&folder).unwrap();
        for args in [
            &["init", "--quiet", "-b", "main"][..],
            &["-c", "user.email=a@example.com", "-c", "user.name=A", "commit", "--quiet"],
        ] {
            let mut git = std::process::Command::new("git");
            if args.len() > 4 {
                git.args(args).args(["--allow-empty", "-m", "first"]);
            } else {
                git.args(args);
            }
            assert!(git.current_dir(&folder).status().unwrap().success());
        }
        let issue = format!("beacon{name}");
        let order = json!({"worktree": folder.display().to_string(), "issue": issue});
        let workflow = text(&post("/api/v1/workflows", &order)["id"]);
        Person { name, reads, writes, session, workflow, turn }
    }

    /// Waits until nothing moves by itself.
    fn settle(&self) {
        for person in &self.people {
            let get = |path: String| {
                Request::new("GET", &path).by(&person.reads).send(self.site.address).is(200).json()
            };
            until("the turn ends", || {
                let turn = get(format!("/api/v1/turns/{}", person.turn));
                (turn["status"] != "running").then_some(())
            });
            until("the workflow rests", || {
                let workflow = get(format!("/api/v1/workflows/{}", person.workflow));
                (workflow["is_running"] == false).then_some(())
            });
        }
    }
}

#[test]
fn the_ids_of_others_are_as_good_as_none() {
    let world = World::new();
    world.settle();
    let site = &world.site;
    let known = |person: &Person| {
        let get = |path: String| site.get(&path).is(200).text();
        (
            get(format!("/api/v1/sessions/{}", person.session)),
            get(format!("/api/v1/sessions/{}/messages", person.session)),
            get(format!("/api/v1/workflows/{}", person.workflow)),
        )
    };
    let before: Vec<_> = world.people.iter().map(known).collect();
    let nobody = "0198aaaa-0000-7000-8000-000000000000";
    let mut cells = 0;
    for route in routes::all(site).iter().filter(|it| it.path.contains("{id}")) {
        for caller in &world.people {
            for token in [&caller.reads, &caller.writes] {
                let ask = |id: &str| route.request(id).by(token).send(site.address);
                let none = ask(nobody);
                assert!([403, 404].contains(&none.status), "{route:?} {}", none.text());
                for other in world.people.iter().filter(|other| other.name != caller.name) {
                    let id = other.own(route);
                    let answer = ask(id);
                    assert_eq!(answer.status, none.status, "{route:?} {}", answer.text());
                    // Not a word differs but the id itself.
                    let text = answer.text().replace(id, nobody);
                    assert_eq!(text, none.text(), "{route:?}");
                    assert_sealed(&answer);
                    cells += 1;
                    // The end of an id is as good as the whole.
                    let (short, none) = (ask(&id[24..]), ask(&nobody[24..]));
                    assert_eq!(short.status, none.status, "{route:?} {}", short.text());
                    assert!(!other.is_in(&short), "{route:?} {}", short.text());
                }
            }
        }
    }
    assert!(cells > 300, "{cells}");
    assert_eq!(world.people.iter().map(known).collect::<Vec<_>>(), before);
}

#[test]
fn everybody_reads_their_own_and_whoever_may_reads_all() {
    let world = World::new();
    world.settle();
    let site = &world.site;
    let reads = routes::all(site);
    let reads = reads.iter().filter(|it| it.is_read() && it.path.contains("{id}"));
    // What needs a snapshot has none to show here.
    let mut read = 0;
    for route in reads.filter(|it| !it.path.contains("snapshot") && !it.path.ends_with("compare")) {
        for person in &world.people {
            for token in [&person.reads, &person.writes, &site.token] {
                let answer = route.request(person.own(route)).by(token).send(site.address);
                assert_eq!(answer.status, 200, "{route:?} {}", answer.text());
                read += 1;
            }
        }
    }
    assert!(read > 60, "{read}");
}

#[test]
fn lists_show_what_is_ones_own() {
    let world = World::new();
    world.settle();
    let site = &world.site;
    let all = routes::all(site);
    let lists = all.iter().filter(|it| it.is_read() && !it.path.contains('{') && !it.is_open());
    let (mut lists_with_own, mut lists_with_all) = (0, 0);
    for route in lists.filter(|it| !it.is_endless()) {
        let base = route.request("").path;
        let sign = if base.contains('?') { '&' } else { '?' };
        let common = base.replace("=x", "=common");
        let asked = [
            base.clone(),
            common,
            format!("{base}{sign}user=anna"),
            format!("{base}{sign}user=cleo"),
            format!("{base}{sign}user="),
            format!("{base}{sign}user=%25"),
            format!("{base}{sign}user=*"),
            format!("{base}{sign}user_id=anna&scope=all&admin=true&role=admin"),
        ];
        for path in asked {
            for caller in &world.people {
                for token in [&caller.reads, &caller.writes] {
                    let answer = Request::new("GET", &path).by(token).send(site.address);
                    assert!(answer.status < 500, "{path} {}", answer.text());
                    for other in world.people.iter().filter(|other| other.name != caller.name) {
                        assert!(!other.is_in(&answer), "{path} {}", answer.text());
                    }
                    lists_with_own += usize::from(caller.is_in(&answer));
                }
            }
            let answer = site.get(&path);
            let sees_all = world.people.iter().all(|person| person.is_in(&answer));
            lists_with_all += usize::from(sees_all);
        }
    }
    // Sessions, searches, use and workflows, by the API and as pages.
    assert!(lists_with_own > 30 && lists_with_all >= 5, "{lists_with_own} {lists_with_all}");
}

/// Reading changes nothing: not the log, not what is derived from it.
#[test]
fn nothing_changes_by_reading() {
    let site = Site::new();
    let id = site.record("x", &["one", "two"]);
    let state = || (site.env.data(["export", &id]), site.get("/api/v1/sessions").text());
    let before = state();
    for route in routes::all(&site).iter().filter(|route| !route.is_endless()) {
        for method in ["GET", "HEAD", "OPTIONS"] {
            // What is only to be posted does not happen by another method.
            let request = Request { method: method.to_owned(), ..route.request(&id) };
            if method == "HEAD" {
                let mut stream =
                    std::io::BufReader::new(request.by(&site.token).begin(site.address));
                let answer = crate::client::head(&mut stream).expect("an answer");
                assert!(answer.status < 500, "{route:?}");
            } else {
                let answer = request.by(&site.token).send(site.address);
                assert!(answer.status < 500, "{method} {route:?} {}", answer.text());
            }
        }
    }
    assert_eq!(state(), before);
}

/// What is imported says itself whose it is: nobody brings something in another's name, or takes what is another's.
#[test]
fn only_whoever_may_everything_imports() {
    let site = Site::new();
    let id = site.record("hers", &["hello"]);
    let written = site.get(&format!("/api/v1/sessions/{id}/export?format=jsonl")).is(200).text();
    let other = "0198aaaa-0000-7000-8000-00000000000a";
    let said = written.replace(&id, other);
    let said: String = said.lines().map(|line| renamed(line) + "\n").collect();
    let import = |token: &str, text: &str| {
        let mut request = Request::new("POST", "/api/v1/import").by(token);
        request = request.header("Content-Type", "application/x-ndjson");
        request.body = text.as_bytes().to_vec();
        request.send(site.address)
    };
    let count = |token: &str| {
        let list = Request::new("GET", "/api/v1/sessions").by(token).send(site.address).json();
        list["items"].as_array().unwrap().len()
    };
    let (bert, anna) = (site.token_for("bert", "write"), site.token_for("anna", "read"));
    assert_eq!(import(&bert, &said).is(403).code(), "forbidden");
    assert_eq!((count(&bert), count(&anna)), (0, 1));
    assert_eq!(import(&site.token, &written).is(409).code(), "session_exists");
    import(&site.token, &said).is(201);
    assert_eq!((count(&bert), count(&anna)), (0, 2));
}

/// The line with ids of messages that are not taken yet.
fn renamed(line: &str) -> String {
    let mut value: Value = serde_json::from_str(line).unwrap();
    if value["type"] == "message" {
        value["id"] = json!(format!("{}x", value["id"].as_str().unwrap()));
    }
    value.to_string()
}
