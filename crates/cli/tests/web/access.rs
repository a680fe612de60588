//! The way in: links that work once, cookies that are worth nothing afterwards, and where the server may listen at all.

use std::process::{Command, Stdio};

use serde_json::json;

use crate::client::{Answer, Request};
use crate::env::TestEnv;
use crate::site::Site;
use crate::sockets::{elsewhere, family, listening, until};

/// What every answer carries.
const SEALS: [&str; 8] = [
    "content-security-policy",
    "x-content-type-options",
    "x-frame-options",
    "referrer-policy",
    "cross-origin-opener-policy",
    "cross-origin-resource-policy",
    "permissions-policy",
    "cache-control",
];

/// The answer tells browsers what to keep from others, and lets no other site read it.
#[track_caller]
pub(crate) fn assert_sealed(answer: &Answer) {
    for name in SEALS {
        assert!(answer.header(name).is_some(), "{name} is missing: {answer:?}");
    }
    let policy = answer.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    let open = answer.headers.iter().find(|(name, _)| name.starts_with("access-control"));
    assert_eq!(open, None);
    for other in ["server", "x-powered-by"] {
        assert_eq!(answer.header(other), None);
    }
}

impl Site {
    /// The code of a new link.
    pub(crate) fn code(&self) -> String {
        let url = self.env.json(["login"])["url"].as_str().unwrap().to_owned();
        let base = format!("http://{}/login#", self.address);
        url.strip_prefix(&base).unwrap_or_else(|| panic!("{url}")).to_owned()
    }

    pub(crate) fn log_in(&self, code: &str) -> Answer {
        let request = Request::new("POST", "/login").form(&format!("code={code}"));
        request.send_from(elsewhere(), self.address)
    }

    /// The secret that a browser is given for a new link.
    pub(crate) fn cookie(&self) -> String {
        let answer = self.log_in(&self.code()).is(303);
        let set = answer.header("set-cookie").unwrap();
        set.split(['=', ';']).nth(1).unwrap().to_owned()
    }

    /// A secret as a browser sends it.
    pub(crate) fn as_cookie(&self, secret: &str) -> String {
        format!("rethread-{}={secret}", self.address.port())
    }
}

fn page(site: &Site, cookie: &str) -> Answer {
    Request::new("GET", "/").header("Cookie", cookie).send_from(elsewhere(), site.address)
}

#[test]
fn a_link_logs_one_browser_in_once() {
    let site = Site::new();
    let code = site.code();
    let answer = site.log_in(&code).is(303);
    assert_sealed(&answer);
    assert_eq!(answer.header("location"), Some("/"));
    let set = answer.header("set-cookie").unwrap();
    let (pair, rest) = set.split_once("; ").unwrap();
    assert_eq!(rest, "Path=/; HttpOnly; SameSite=Strict; Max-Age=43200");
    let secret = pair.strip_prefix(&site.as_cookie("rtk_")).unwrap_or_else(|| panic!("{pair}"));
    assert_eq!(secret.len(), 64, "{pair}");
    page(&site, pair).is(200);

    let again = site.log_in(&code).is(303);
    assert_eq!(again.header("location"), Some("/login?refused"));
    assert_eq!(again.header("set-cookie"), None);
    page(&site, pair).is(200);
}

#[test]
fn a_link_that_expired_or_never_was_lets_nobody_in() {
    let site = Site::new();
    let code = site.code();
    site.env.change_store("update token set expires_at = 1 where pass = 'link'");
    let nobody = format!("rtk_{}", "0".repeat(64));
    for code in [code.as_str(), &nobody, "", "x", &site.token, "rtk_", "%00", "' or 1=1 --"] {
        let answer = site.log_in(code).is(303);
        assert_eq!(answer.header("location"), Some("/login?refused"), "{code}");
        assert_eq!(answer.header("set-cookie"), None, "{code}");
    }
    for form in ["", "code", "kode=x", "code=a&code=b"] {
        let answer = Request::new("POST", "/login").form(form).send_from(elsewhere(), site.address);
        assert!((300..500).contains(&answer.status), "{form}: {answer:?}");
        assert_eq!(answer.header("set-cookie"), None, "{form}");
        assert_sealed(&answer);
        if answer.status >= 400 {
            assert!(!answer.code().is_empty(), "{form}");
        }
    }
}

#[test]
fn a_cookie_is_worth_nothing_after_the_logout() {
    let site = Site::new();
    let (mine, other) = (site.cookie(), site.cookie());
    let (mine, other) = (site.as_cookie(&mine), site.as_cookie(&other));
    let out = Request::new("POST", "/logout").header("Cookie", &mine);
    let answer = out.send(site.address).is(303);
    assert_eq!(answer.header("location"), Some("/login?out"));
    let set = answer.header("set-cookie").unwrap();
    assert!(set.starts_with(&site.as_cookie("; ")) && set.contains("Max-Age=0"), "{set}");
    page(&site, &mine).is(401);
    page(&site, &other).is(200);
    // Somebody may have set a second one: neither counts.
    page(&site, &format!("{other}; {other}")).is(401);
    // A person who comes without one is shown the way in.
    let lost = Request::new("GET", "/").header("Accept", "text/html");
    let answer = lost.send_from(elsewhere(), site.address).is(303);
    assert_eq!(answer.header("location"), Some("/login"));
}

#[test]
fn guessing_codes_is_slow() {
    let site = Site::new();
    let guesser = elsewhere();
    let guess = |from| {
        let request = Request::new("POST", "/login").form(&format!("code=rtk_{}", "1".repeat(64)));
        request.send_from(from, site.address)
    };
    let held = (0..60).map(|_| guess(guesser)).find(|answer| answer.status == 429);
    let held = held.expect("sixty guesses in a row are too many");
    assert_eq!(held.code(), "too_many_requests");
    assert!(held.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    assert_sealed(&held);
    // Whoever comes from elsewhere is not held up, nor is anybody with a token.
    guess(elsewhere()).is(303);
    Request::new("GET", "/api/v1/sessions")
        .by(&site.token)
        .send_from(guesser, site.address)
        .is(200);
}

/// Starts another server of the same store; gives where it listens.
fn another(site: &Site) -> (crate::site::Running, String) {
    let command = site.env.command(["serve", "--addr", "127.0.0.1:0"]);
    let said = std::sync::Arc::default();
    let (child, address, _) = crate::site::begin(command, &said);
    (crate::site::Running(child), format!("http://{address}"))
}

#[test]
fn a_browser_is_led_to_a_server_that_runs() {
    let mut site = Site::new();
    let leads_to = || {
        let link = site.env.json(["login"])["url"].as_str().unwrap().to_owned();
        link.split("/login").next().unwrap().to_owned()
    };
    let first = format!("http://{}", site.address);
    assert_eq!(leads_to(), first);
    let (other, second) = another(&site);
    assert_eq!(leads_to(), second);
    // Killed: it has no time to say so.
    drop(other);
    assert_eq!(leads_to(), first);
    site.kill();
    let refused = site.env.run(["login"]);
    assert!(refused.stderr.contains("no server runs on this store"), "{refused}");
    site.env.run(["login", "--json"]).assert_error(1, "refused");
}

#[test]
fn where_it_runs_already_is_told() {
    let site = Site::new();
    let address = site.address.to_string();
    let refused = site.env.run(["serve", "--addr", &address]);
    assert_eq!(refused.code, Some(2), "{refused}");
    let told = format!(
        "hint: Rethread already serves this store at http://{address}: `rethread login --open`"
    );
    assert!(refused.stderr.contains(&told), "{refused}");
    // Whoever wants to see it is led there. There is no browser here, so the link is printed.
    let opened = site.env.run(["serve", "--open", "--addr", &address]).succeeded();
    assert!(opened.stderr.contains(&format!("http://{address}/login#rtk_")), "{opened}");
    let elsewhere = crate::env::TestEnv::new();
    let refused = elsewhere.run(["serve", "--addr", &address]);
    assert!(refused.stderr.contains("--addr 127.0.0.1:0 takes a free port"), "{refused}");
}

#[test]
fn the_first_token_is_in_a_file_for_its_user_alone() {
    use std::os::unix::fs::PermissionsExt;
    let site = Site::new();
    let file = format!("{}.token", site.env.store().display());
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o600);
    // The store has no secret in it, only what cannot be turned back.
    site.get("/api/v1/sessions").is(200);
    for name in std::fs::read_dir(site.env.path("store")).unwrap() {
        let path = name.unwrap().path();
        if path.display().to_string() != file {
            let bytes = std::fs::read(&path).unwrap();
            let found = bytes.windows(68).any(|part| part == site.token.as_bytes());
            assert!(!found, "{}", path.display());
        }
    }
    let env = TestEnv::with_store(site.env.store());
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let second = env.run(["serve", "--addr", "127.0.0.1:0"]);
    assert_eq!(second.code, Some(2), "{second}");
    assert!(second.stderr.contains("can be read by others"), "{second}");
}

#[test]
fn nothing_but_serve_listens() {
    let env = TestEnv::new();
    env.agent("ref", &[]);
    env.basket();
    // These stay until their input ends: one is talked to, the others wait.
    let staying: [(&[&str], &str); 4] = [
        (&["record"], "{\"role\": \"user\", \"content\": \"x\"}\n"),
        (&["mcp"], "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n"),
        (&["continue", "hang", "--with", "ref"], ""),
        (&["run", "ref"], "say: hello\n"),
    ];
    for (args, input) in staying {
        use std::io::{Read, Write};
        let mut command = env.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).unwrap();
        // Once it has opened its store, it has opened everything else too.
        let pid = child.id();
        let store = env.store().to_owned();
        until("it opens the store, or ends", || {
            let has = family(pid).iter().any(|one| {
                let files = std::fs::read_dir(format!("/proc/{one}/fd")).ok();
                let mut links = files.into_iter().flatten().flatten();
                links.any(|file| std::fs::read_link(file.path()).is_ok_and(|it| it == store))
            });
            (has || child.try_wait().unwrap().is_some()).then_some(())
        });
        for _ in 0..50 {
            assert_eq!(listening(pid), Vec::<String>::new(), "{args:?}");
        }
        drop(stdin);
        drop(child.kill());
        drop(child.stdout.take().map(|mut out| out.read_to_end(&mut Vec::new())));
        drop(child.wait());
    }
}

#[test]
fn serve_listens_on_this_machine_alone() {
    let site = Site::new();
    let found = listening(site.pid());
    let port = format!("{:04X}", site.address.port());
    assert_eq!(found, [format!("0100007F:{port}")]);
}

#[test]
fn nobody_elsewhere_reaches_it_without_tls() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let env = TestEnv::new();
        let refused = env.run(["serve", "--addr", address]);
        assert_eq!(refused.code, Some(2), "{refused}");
        assert!(refused.stderr.contains("nothing would be encrypted"), "{refused}");
        assert!(refused.stderr.contains("--tls-cert"), "{refused}");
        env.set("serve", format!("addr = {address:?}"));
        let refused = env.run(["serve"]);
        assert!(refused.stderr.contains("nothing would be encrypted"), "{refused}");
    }
    let env = TestEnv::new();
    for (args, what) in [
        (&["--behind-proxy"][..], "--host"),
        (&["--tls-cert", "x"], "--tls-key"),
        (&["--tls-cert", "none.pem", "--tls-key", "none.pem"], "none.pem"),
    ] {
        let all = ["serve", "--addr", "0.0.0.0:0"].into_iter().chain(args.iter().copied());
        let refused = env.run(all);
        assert_ne!(refused.code, Some(0), "{refused}");
        assert!(refused.stderr.contains(what), "{refused}");
    }
}

#[test]
fn behind_a_proxy_it_answers_to_the_name_it_was_given() {
    let env = TestEnv::new();
    let more = ["--behind-proxy", "--host", "rethread.example"];
    let site = Site::on(env, "0.0.0.0:0", &more);
    let ask = |host: &str, origin: &str| {
        let request = Request::new("POST", "/api/v1/sessions").by(&site.token);
        let request = request.header("Host", host).header("Origin", origin);
        request.json(&json!({})).send(site.address).status
    };
    assert_eq!(ask("rethread.example", "https://rethread.example"), 201);
    assert_eq!(ask("rethread.example", "http://rethread.example"), 403);
    assert_eq!(ask("evil.example", "https://rethread.example"), 403);
    // The cookie is for HTTPS alone, and no other host can set it.
    let url = site.env.json(["login"])["url"].as_str().unwrap().to_owned();
    let code = url.strip_prefix("https://rethread.example/login#").unwrap();
    let request = Request::new("POST", "/login").header("Host", "rethread.example");
    let answer = request.form(&format!("code={code}")).send(site.address).is(303);
    let set = answer.header("set-cookie").unwrap();
    let name = format!("__Host-{}", site.as_cookie("rtk_"));
    assert!(set.starts_with(&name) && set.ends_with("; Secure"), "{set}");
    // Who asks is what the proxy says last: one who guesses does not hold up the others.
    let guess = |from: &str| {
        let request = Request::new("POST", "/login").header("Host", "rethread.example");
        let request = request.header("X-Forwarded-For", &format!("192.0.2.7, {from}"));
        request.form("code=x").send(site.address).status
    };
    assert!((0..100).any(|_| guess("198.51.100.1") == 429));
    assert_eq!(guess("198.51.100.2"), 303);
}

#[test]
fn with_a_certificate_it_speaks_https() {
    let env = TestEnv::new();
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", "key.pem"])
        .args(["-addext", "subjectAltName=IP:127.0.0.1", "-out", "cert.pem"])
        .current_dir(env.root())
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let [cert, key] = ["cert.pem", "key.pem"].map(|name| env.path(name).display().to_string());
    let site = Site::within(env, &["--tls-cert", &cert, "--tls-key", &key]);
    let url = format!("https://{}/api/v1/sessions", site.address);
    let asked = Command::new("curl")
        .args(["--silent", "--show-error", "--cacert", &cert, "--max-time", "60"])
        .args(["--header", &format!("Authorization: Bearer {}", site.token), &url])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&asked.stdout), r#"{"items":[]}"#, "{asked:?}");
    // Whoever speaks plainly gets nothing, and is in nobody's way.
    assert!(crate::sockets::raw(site.address, b"GET / HTTP/1.1\r\n\r\n").is_none());
}
