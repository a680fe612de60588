//! `rethread mcp --http`

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::env::TestEnv;
use crate::mcp_client::{failed, passkey, succeeded, text};

const VERSION: &str = "2026-07-28";

struct Http {
    child: Child,
    port: u16,
    token: String,
}

impl Drop for Http {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Http {
    fn start(env: &TestEnv) -> Self {
        let mut command = env.command(["mcp", "--http", "127.0.0.1:0"]);
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the server starts");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let mut after = |mark: &str| loop {
            let line = lines.next().expect("the server tells where it is").expect("text");
            if let Some((_, rest)) = line.split_once(mark) {
                return rest.to_owned();
            }
        };
        let port = after("http://127.0.0.1:").trim_end_matches("/mcp").parse().expect("a port");
        let file = after("The token is in ");
        let about = std::fs::metadata(&file).expect("the token's file");
        assert_eq!(about.permissions().mode() & 0o777, 0o600);
        let token = std::fs::read_to_string(file).expect("the token").trim().to_owned();
        assert_eq!(token.len(), 64);
        Self { child, port, token }
    }

    /// Sends a request as it is; gives status and body.
    fn raw(&self, request: &[u8]) -> (u16, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("the server listens");
        // It may answer before it has read everything.
        drop(stream.write_all(request));
        let mut answer = Vec::new();
        drop(stream.read_to_end(&mut answer));
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        (status, answer.split_once("\r\n\r\n").map_or(String::new(), |(_, body)| body.to_owned()))
    }

    fn post(&self, headers: &[(&str, &str)], body: &str) -> (u16, String) {
        let mut request = format!(
            "POST /mcp HTTP/1.1\r\nContent-Length: {}\r\nConnection: close\r\n",
            body.len()
        );
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        self.raw(format!("{request}\r\n{body}").as_bytes())
    }

    /// Headers of a good request.
    fn good(&self) -> Vec<(&'static str, String)> {
        vec![
            ("Host", format!("127.0.0.1:{}", self.port)),
            ("Authorization", format!("Bearer {}", self.token)),
            ("Content-Type", "application/json".to_owned()),
            ("Accept", "application/json, text/event-stream".to_owned()),
            ("MCP-Protocol-Version", VERSION.to_owned()),
        ]
    }

    fn with(&self, changes: &[(&'static str, Option<String>)], message: &Value) -> (u16, String) {
        let mut headers = self.good();
        headers.push(("Mcp-Method", text(&message["method"]).to_owned()));
        if let Some(name) = message["params"]["name"].as_str() {
            headers.push(("Mcp-Name", name.to_owned()));
        }
        for (name, value) in changes {
            headers.retain(|(known, _)| known != name);
            headers.extend(value.clone().map(|value| (*name, value)));
        }
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        self.post(&headers, &message.to_string())
    }

    fn call(&self, method: &str, mut params: Value) -> Value {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": VERSION,
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let (status, body) = self.with(&[], &message);
        assert_eq!(status, 200, "{body}");
        answer_in(&body)
    }

    fn tool(&self, name: &str, arguments: Value) -> Value {
        self.call("tools/call", json!({"name": name, "arguments": arguments}))
    }
}

/// The answer in a body: as it is, or the last event of a stream.
fn answer_in(body: &str) -> Value {
    let lines = body.lines().map(|line| line.trim_start_matches("data:").trim());
    let found = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut answers = found.filter(|value| value["id"] == 1);
    answers.next_back().unwrap_or_else(|| panic!("no answer in {body}"))
}

fn world() -> (TestEnv, Http) {
    let env = TestEnv::new();
    env.agent("ref", &["--resume"]);
    let http = Http::start(&env);
    (env, http)
}

#[test]
fn a_passkey_is_recalled_by_another_server() {
    let (env, first) = world();
    let key = passkey();
    let told = first.tool(
        "invoke_agent",
        json!({"agentName": "ref", "prompt": format!("my passkey is {key}")}),
    );
    let told = succeeded(&told);
    assert_eq!(told["answer"], "ACK: I was told 1 message");
    let token = first.token.clone();
    drop(first);
    let second = Http::start(&env);
    assert_eq!(second.token, token, "it is made once");
    let asked = second.tool("invoke_agent", json!({
        "agentName": "ref", "prompt": "What was the passkey?", "continueSessionId": told["sessionId"],
    }));
    assert_eq!(succeeded(&asked)["answer"], format!("The passkey is {key}"));
}

#[test]
fn only_those_with_the_token_who_name_this_host_and_come_from_no_page_are_answered() {
    let (_env, http) = world();
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": {
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientCapabilities": {},
    }}});
    let port = http.port;
    let bearer = |token: &str| Some(format!("Bearer {token}"));
    let tokens = [
        (bearer(&http.token), true),
        (None, false),
        (bearer("wrong"), false),
        (bearer(""), false),
        (bearer(&http.token[..63]), false),
        (Some(format!("Basic {}", http.token)), false),
    ];
    let hosts = [
        (Some(format!("127.0.0.1:{port}")), true),
        (Some(format!("localhost:{port}")), true),
        (Some("127.0.0.1:1".to_owned()), false),
        (Some("evil.example".to_owned()), false),
        (Some(format!("127.0.0.1.nip.io:{port}")), false),
        (None, false),
    ];
    let origins = [
        (None, true),
        (Some(format!("http://127.0.0.1:{port}")), true),
        (Some("null".to_owned()), false),
        (Some("https://evil.example".to_owned()), false),
        (Some(format!("http://localhost:{}", port.wrapping_add(1))), false),
        (Some(format!("http://evil.example:{port}")), false),
    ];
    let sites = [
        (None, true),
        (Some("cross-site".to_owned()), false),
        (Some("same-site".to_owned()), false),
    ];
    let mut cells = 0;
    for (token, token_ok) in &tokens {
        for (host, host_ok) in &hosts {
            for (origin, origin_ok) in &origins {
                for (site, site_ok) in &sites {
                    let changes = [
                        ("Authorization", token.clone()),
                        ("Host", host.clone()),
                        ("Origin", origin.clone()),
                        ("Sec-Fetch-Site", site.clone()),
                    ];
                    let (status, body) = http.with(&changes, &list);
                    let is_good = *token_ok && *host_ok && *origin_ok && *site_ok;
                    assert_eq!(status == 200, is_good, "{changes:?}: {status} {body}");
                    assert!(is_good || !body.contains("invoke_agent"), "{changes:?}: {body}");
                    assert!(*token_ok || host.is_none() || status == 401, "{changes:?}: {status}");
                    cells += 1;
                }
            }
        }
    }
    assert_eq!(cells, 648);
}

#[test]
fn nothing_else_is_answered() {
    let (_env, http) = world();
    let port = http.port;
    let twice = format!(
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nHost: evil.example\r\nAuthorization: Bearer {}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}",
        http.token
    );
    assert!(matches!(http.raw(twice.as_bytes()).0, 400 | 403));
    for path in ["/", "/mcp/", "/healthz", "/../etc/passwd"] {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n");
        let (status, body) = http.raw(request.as_bytes());
        assert!(matches!(status, 400 | 401) && !body.contains("invoke"), "{path}: {status} {body}");
    }
}

#[test]
fn bodies_that_are_no_messages_or_too_long_do_no_harm() {
    let (_env, http) = world();
    let good = http.good();
    let headers: Vec<(&str, &str)> =
        good.iter().map(|(name, value)| (*name, value.as_str())).collect();
    for body in ["", "{", "[]", "null", "{\"jsonrpc\":\"2.0\"}", "\u{0}", &"[".repeat(100_000)] {
        let (status, text) = http.post(&headers, body);
        assert!((400..500).contains(&status), "{body:.40}: {status} {text}");
    }
    let long =
        http.tool("invoke_agent", json!({"agentName": "ref", "prompt": "x".repeat(10 << 20)}));
    assert!(failed(&long).contains("at most 1048576 are allowed"), "{long:#}");
    let longer =
        http.tool("invoke_agent", json!({"agentName": "ref", "prompt": "x".repeat(17 << 20)}));
    assert!(failed(&longer).contains("too long. Put the long part into a file"), "{longer:#}");
    let (status, _) = http.post(&headers, &"x".repeat(17 << 20));
    assert_eq!(status, 413);
    assert_eq!(
        succeeded(&http.tool("invoke_agent", json!({"agentName": "ref", "prompt": "say: well"})))["answer"],
        "well"
    );
}

#[test]
fn an_older_client_has_a_session_of_the_protocol() {
    let (_env, http) = world();
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "old", "version": "1"}}});
    let (status, body) = http.with(&[("MCP-Protocol-Version", None), ("Mcp-Method", None)], &hello);
    assert_eq!(status, 200, "{body}");
    assert_eq!(answer_in(&body)["result"]["protocolVersion"], "2025-11-25");
}

#[test]
fn others_are_let_in_only_by_name() {
    let env = TestEnv::new();
    let output = env.run(["mcp", "--http", "0.0.0.0:0"]);
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stderr.contains("--public-host"), "{output}");
    assert_eq!(env.run(["mcp", "--http", "nonsense"]).code, Some(2));
}

#[test]
fn a_token_that_others_can_read_is_refused() {
    let env = TestEnv::new();
    let folder = env.path("home/.local/share/rethread");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("mcp-token");
    std::fs::write(&file, "x".repeat(64)).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let output = env.run(["mcp", "--http", "127.0.0.1:0"]);
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stderr.contains("can be read by others"), "{output}");
}

#[test]
fn without_http_nothing_listens() {
    let env = TestEnv::new();
    let mcp = crate::mcp_client::Mcp::start(&env);
    let sockets = std::fs::read_dir(format!("/proc/{}/fd", mcp.child.id())).unwrap();
    let open: Vec<_> = sockets
        .filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok())
        .filter(|target| target.to_string_lossy().starts_with("socket:"))
        .collect();
    // Tokio's own pair for signals is no listener.
    let listening = std::fs::read_to_string(format!("/proc/{}/net/tcp", mcp.child.id())).unwrap();
    for socket in &open {
        let inode = socket
            .to_string_lossy()
            .trim_start_matches("socket:[")
            .trim_end_matches(']')
            .to_owned();
        assert!(!listening.contains(&format!(" {inode} ")), "{socket:?}");
    }
}
