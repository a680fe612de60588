//! Conversations by chance through the proxy, compared with what they would be without one: frame by frame, byte by byte.

use fastrand::Rng;
use rethread_acp::proxy::Proxy;
use rethread_domain::{Role, SessionId};
use rethread_engine::program::Fault;
use rethread_engine::{Engine, Order, Span};
use rethread_testkit::{TestProgram, TestStore, seed};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::world::{WATCHDOG, World, actor};

/// More of them, for a long run: `CONVERSATIONS=20000`.
fn conversations() -> usize {
    let given = std::env::var_os("CONVERSATIONS").and_then(|text| text.into_string().ok());
    given.map_or(40, |text| text.parse().expect("CONVERSATIONS is a number"))
}

/// An editor, a proxy and an agent that says what it is asked to say.
struct Line {
    to: WriteHalf<DuplexStream>,
    from: Lines<BufReader<ReadHalf<DuplexStream>>>,
    serving: JoinHandle<()>,
    engine: Engine,
    store: TestStore,
    folder: TempDir,
}

impl Line {
    async fn new() -> Self {
        let store = TestStore::sqlite().await;
        let engine = store.engine();
        let folder = TempDir::new().unwrap();
        let log = folder.path().join("log");
        let command =
            [actor().display().to_string(), "mirror".to_owned(), log.display().to_string()];
        let mut launcher = World::with(command.to_vec()).launcher;
        "calm".clone_into(&mut launcher.entry.name);
        let proxy = Proxy {
            engine: engine.clone(),
            program: TestProgram::new(&engine),
            launcher,
            others: Box::new(|name| Err(Fault::refused("unknown_agent", format!("no {name}"), ""))),
            folder: folder.path().to_owned(),
            tells: false,
        };
        let (near, far) = tokio::io::duplex(64 * 1024);
        let (from_editor, to_editor) = tokio::io::split(far);
        let serving = tokio::spawn(proxy.serve(from_editor, to_editor, std::future::pending()));
        let (from, to) = tokio::io::split(near);
        let from = BufReader::new(from).lines();
        Self { to, from, serving, engine, store, folder }
    }

    async fn send(&mut self, line: &str) {
        self.to.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    async fn next(&mut self) -> String {
        let line = timeout(WATCHDOG, self.from.next_line()).await;
        line.expect("the proxy says nothing").unwrap().expect("the proxy is gone")
    }

    async fn call(&mut self, method: &str, params: Value) -> Value {
        let call = json!({ "jsonrpc": "2.0", "id": "own", "method": method, "params": params });
        self.send(&call.to_string()).await;
        let answer: Value = serde_json::from_str(&self.next().await).unwrap();
        assert_eq!(answer["id"], "own", "{answer}");
        answer["result"].clone()
    }

    async fn begin(&mut self) -> String {
        self.call("initialize", json!({ "protocolVersion": 1 })).await;
        let params = json!({ "cwd": self.folder.path(), "mcpServers": [] });
        self.call("session/new", params).await["sessionId"].as_str().unwrap().to_owned()
    }

    /// The lines that the agent got.
    fn log(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap();
        log.lines().map(str::to_owned).collect()
    }

    async fn end(mut self) {
        self.to.shutdown().await.unwrap();
        timeout(WATCHDOG, &mut self.serving).await.expect("the proxy does not end").unwrap();
    }
}

/// An id as JSON-RPC allows it, and as some send it.
fn any_id(rng: &mut Rng) -> String {
    match rng.u8(..6) {
        0 => rng.u64(..).to_string(),
        1 => format!("-{}", rng.u32(..)),
        2 => format!("\"r-{}\"", rng.u16(..)),
        3 => "\"\\u00e4\\\"\\\\ \"".to_owned(),
        4 => format!("\"{}\"", rng.u8(..)),
        _ => rng.u8(..3).to_string(),
    }
}

/// A value as raw JSON, in spellings that a parser would not keep.
fn any_value(rng: &mut Rng, depth: u8) -> String {
    match rng.u8(..if depth == 0 { 6 } else { 8 }) {
        0 => "null".to_owned(),
        1 => "1.000e+40".to_owned(),
        2 => rng.i64(..).to_string(),
        3 => "\"\\ud83d\\ude00 \\u0000 \\/ ä\"".to_owned(),
        4 => "true".to_owned(),
        5 => format!("\"{}\"", "x".repeat(rng.usize(..300))),
        6 => {
            let all: Vec<String> = (0..rng.u8(..3)).map(|_| any_value(rng, depth - 1)).collect();
            format!("[{}]", all.join(" , "))
        }
        _ => format!("{{ {} }}", members(rng, depth - 1).join(",")),
    }
}

/// Members of an object: known words, unknown ones, and more than one of a name.
fn members(rng: &mut Rng, depth: u8) -> Vec<String> {
    let names = ["_meta", "id", "method", "a b", "\\u0061", "x", "x", "error"];
    let count = rng.u8(..4);
    (0..count)
        .map(|_| {
            let name = names[rng.usize(..names.len())];
            format!("\"{name}\": {}", any_value(rng, depth))
        })
        .collect()
}

fn object(mut given: Vec<String>, rng: &mut Rng) -> String {
    given.extend(members(rng, 2).into_iter().filter(|member| !member.starts_with("\"method")));
    format!("{{{}}}", given.join(", "))
}

/// What an agent sends by itself: the line, whether it is a question, and the text that it says.
fn said(rng: &mut Rng) -> (String, bool, String) {
    let with_session = |given: &str, rng: &mut Rng| {
        object(vec!["\"sessionId\":$S".to_owned(), given.to_owned()], rng)
    };
    let (method, params, id, text) = match rng.u8(..8) {
        0..=3 => {
            let text = format!("w{} ", rng.u16(..));
            let update = format!(
                "{{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{{\"type\":\"text\",\"text\":\"{text}\"}},\"y\":{}}}",
                any_value(rng, 1)
            );
            ("session/update", with_session(&format!("\"update\":{update}"), rng), None, text)
        }
        4 => {
            let update = format!("{{\"sessionUpdate\":\"dance\",\"z\":{}}}", any_value(rng, 2));
            (
                "session/update",
                with_session(&format!("\"update\":{update}"), rng),
                None,
                String::new(),
            )
        }
        5 => ("_vendor/note", object(Vec::new(), rng), None, String::new()),
        6 => {
            let params = with_session("\"options\":[]", rng);
            ("session/request_permission", params, Some(any_id(rng)), String::new())
        }
        _ => ("_vendor/ask", object(Vec::new(), rng), Some(any_id(rng)), String::new()),
    };
    let id = id.map_or_else(String::new, |id| format!("\"id\":{id},"));
    let is_question = !id.is_empty();
    let line = format!("{{\"jsonrpc\":\"2.0\",{id}\"method\":\"{method}\",\"params\":{params}}}");
    (line, is_question, text)
}

/// The same line with another id, where it has one, and another session.
fn renamed(line: &str, id: Option<&str>, session: &str) -> String {
    with_id(&line.replace("$S", &json!(session).to_string()), id)
}

fn with_id(line: &str, id: Option<&str>) -> String {
    let (Some(id), Some(rest)) = (id, line.strip_prefix("{\"jsonrpc\":\"2.0\",\"id\":")) else {
        return line.to_owned();
    };
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
    values.next().unwrap().unwrap();
    let at = values.byte_offset();
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id}{}", &rest[at..])
}

/// The id of a line, as it is written.
fn id_of(line: &str) -> String {
    #[derive(serde::Deserialize)]
    struct Head<'a> {
        #[serde(borrow)]
        id: &'a RawValue,
    }
    let head: Head<'_> = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
    head.id.get().to_owned()
}

/// One request of the editor and what comes of it; gives what the agent said, if it was a prompt.
async fn exchange(
    rng: &mut Rng,
    line: &mut Line,
    session: &str,
    expected: &mut Vec<(String, bool)>,
) -> Option<String> {
    let is_prompt = rng.bool();
    let method = if is_prompt {
        "session/prompt"
    } else {
        ["_vendor/do", "session/set_mode"][rng.usize(..2)]
    };
    let all: Vec<(String, bool, String)> = (0..rng.u8(..6)).map(|_| said(rng)).collect();
    let asks = all.iter().filter(|(_, is_question, _)| *is_question).count();
    let answer = match rng.u8(..4) {
        0 => format!(
            "\"error\":{}",
            object(vec!["\"code\":-32050".into(), "\"message\":\"m\"".into()], rng)
        ),
        _ => format!("\"result\":{}", object(vec!["\"stopReason\":\"end_turn\"".into()], rng)),
    };
    let lines: Vec<&String> = all.iter().map(|(line, ..)| line).collect();
    let own = json!({ "say": lines, "asks": asks, "answer": answer });
    let given = vec![
        "\"sessionId\":$S".to_owned(),
        format!("\"_do\":{own}"),
        "\"prompt\":[{\"type\":\"text\",\"text\":\"hello\"}]".to_owned(),
        "\"modeId\":\"m\"".to_owned(),
    ];
    let (id, params) = (any_id(rng), object(given, rng));
    let asked = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params},\"more\":{}}}",
        any_value(rng, 1)
    );
    // What the agent says has the marks of its own.
    let asked_ours = asked.replacen("$S", &json!(session).to_string(), 1);
    line.send(&asked_ours).await;
    expected.push((asked.replacen("$S", "\"native-1\"", 1), false));
    let mut shown = String::new();
    for (said, is_question, text) in &all {
        let seen = line.next().await;
        let id = is_question.then(|| id_of(&seen));
        assert_eq!(seen, renamed(said, id.as_deref(), session));
        shown.push_str(text);
        if let Some(id) = id {
            let result = any_value(rng, 2);
            let reply =
                |id: &str| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}");
            line.send(&reply(&id)).await;
            expected.push((reply(&id_of(&renamed(said, None, ""))), true));
        }
    }
    assert_eq!(line.next().await, format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},{answer}}}"));
    is_prompt.then_some(shown)
}

/// What is recorded is what was said.
async fn assert_recorded(line: &Line, session: &str, prompts: &[String]) {
    let id: SessionId = session.parse().unwrap();
    let span = Span { from: 1, to: u32::MAX, order: Order::OldestFirst, limit: 10_000 };
    let messages = line.engine.messages(id, span).await.unwrap();
    let asked = messages.iter().filter(|message| message.role == Role::User);
    assert!(asked.clone().all(|message| message.body.head() == "hello"));
    assert_eq!(asked.count(), prompts.len());
    let said = messages.iter().filter(|message| message.role == Role::Assistant);
    let said: String = said.map(|message| message.body.head()).collect();
    assert_eq!(said, prompts.concat());
}

#[tokio::test]
async fn conversations_by_chance_pass_unchanged_and_are_recorded() {
    let seed = seed();
    let mut left = conversations();
    let mut round = 0;
    while left > 0 {
        let mut rng = Rng::with_seed(seed.wrapping_add(round));
        let mut line = Line::new().await;
        let session = line.begin().await;
        let (mut expected, mut prompts) = (Vec::new(), Vec::new());
        // Several in one process: what one leaves behind meets the next.
        for _ in 0..left.min(20) {
            for _ in 0..rng.u8(1..5) {
                prompts.extend(exchange(&mut rng, &mut line, &session, &mut expected).await);
            }
        }
        let got = line.log();
        // The greeting and the session come first.
        let got = &got[2..];
        assert_eq!(got.len(), expected.len(), "round {round}");
        for (got, (expected, is_answer)) in got.iter().zip(&expected) {
            // An answer has the agent's own id again; a request has one of ours.
            let id = (!is_answer).then(|| id_of(got));
            assert_eq!(*got, with_id(expected, id.as_deref()), "round {round}");
        }
        assert_recorded(&line, &session, &prompts).await;
        line.store.expect_sound().await;
        line.end().await;
        left -= left.min(20);
        round += 1;
    }
}

#[tokio::test]
async fn garbage_of_the_editor_is_answered_and_the_next_line_is_read() {
    let mut line = Line::new().await;
    let session = line.begin().await;
    for (garbage, code, id) in [
        ("{\"half\":".to_owned(), -32700, Value::Null),
        ("\u{1}\u{2}".to_owned(), -32700, Value::Null),
        ("[]".to_owned(), -32700, Value::Null),
        (
            format!(
                "{{\"id\":7,\"method\":\"_x\",\"params\":\"{}\"}}",
                "x".repeat(51 * 1024 * 1024)
            ),
            -32600,
            json!(7),
        ),
    ] {
        let (mut to, text) = (line.to, format!("{garbage}\n"));
        let written = tokio::spawn(async move {
            to.write_all(text.as_bytes()).await.unwrap();
            to
        });
        let answer: Value =
            serde_json::from_str(&line.from.next_line().await.unwrap().unwrap()).unwrap();
        line.to = timeout(WATCHDOG, written).await.unwrap().unwrap();
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), &id));
    }
    // An answer that nobody asked for is none of anybody's business.
    line.send(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"no"}}"#).await;
    line.send(r#"{"jsonrpc":"2.0","id":99,"result":{}}"#).await;
    let own = json!({ "say": [], "asks": 0, "answer": "\"result\":{\"x\":1}" });
    let answer = line.call("_vendor/do", json!({ "sessionId": session, "_do": own })).await;
    assert_eq!(answer, json!({ "x": 1 }));
    line.end().await;
}

#[tokio::test]
async fn a_line_of_fifty_mebibytes_passes_both_ways() {
    let mut line = Line::new().await;
    line.begin().await;
    let text = "y".repeat(49 * 1024 * 1024);
    let say = format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"_vendor/large\",\"params\":{{\"t\":\"{text}\"}}}}"
    );
    let own = json!({ "say": [say], "asks": 0, "answer": "\"result\":{}" });
    let call =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "_vendor/do", "params": { "_do": own } });
    let (mut to, sent) = (line.to, format!("{call}\n"));
    let written = tokio::spawn(async move {
        to.write_all(sent.as_bytes()).await.unwrap();
        to
    });
    assert_eq!(line.from.next_line().await.unwrap().unwrap(), say);
    let answer: Value =
        serde_json::from_str(&line.from.next_line().await.unwrap().unwrap()).unwrap();
    assert_eq!(answer["id"], 1);
    line.to = written.await.unwrap();
    line.end().await;
}

#[tokio::test]
async fn what_follows_the_answer_to_a_new_session_comes_behind_it() {
    let mut line = Line::new().await;
    line.call("initialize", json!({ "protocolVersion": 1 })).await;
    let update = |n: u32| {
        let update = json!({ "sessionUpdate": "_vendor", "n": n });
        let params = json!({ "sessionId": "native-1", "update": update });
        json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }).to_string()
    };
    let then: Vec<String> = (0..200).map(update).collect();
    let own = json!({ "say": [update(1000)], "then": then });
    let params = json!({ "cwd": line.folder.path(), "mcpServers": [], "_do": own });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "session/new", "params": params });
    line.send(&call.to_string()).await;
    let answer: Value = serde_json::from_str(&line.next().await).unwrap();
    assert_eq!(answer["id"], 1, "{answer}");
    for n in [1000].into_iter().chain(0..200) {
        let seen: Value = serde_json::from_str(&line.next().await).unwrap();
        assert_eq!(seen["params"]["update"]["n"], n);
        assert_eq!(seen["params"]["sessionId"], answer["result"]["sessionId"]);
    }
    line.end().await;
}
