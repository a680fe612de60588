//! Agents that do not keep to the protocol. Whatever they send, the turn ends as it should, and soon.

use rethread_engine::agents::OpenRequest;

use crate::world::{World, say, text};

const END: &str = r#"{"jsonrpc":"2.0","id":$ID,"result":{"stopReason":"end_turn"}}"#;

fn chunk(text: &str) -> String {
    let content = format!(r#"{{"type":"text","text":"{text}"}}"#);
    let update = format!(r#"{{"sessionUpdate":"agent_message_chunk","content":{content}}}"#);
    format!(
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{update}}}}}"#
    )
}

/// Lines that are no frames at all.
const NO_FRAMES: &[&str] = &[
    "",
    "   ",
    "\r",
    "hello",
    "\u{feff}",
    "\u{1b}[31mred\u{1b}[0m",
    "null",
    "true",
    "1",
    "\"text\"",
    "[]",
    "{",
    "}",
    "{}",
    "{}{}",
    "{\"a\":1,}",
    "{'method':'session/update'}",
    "{\"method\":NaN}",
    "Content-Length: 5",
];

/// Objects that are neither a call nor an answer to one of ours, or ask for what there is not.
const WRONG_FRAMES: &[&str] = &[
    r#"{"jsonrpc":"2.0"}"#,
    r#"{"jsonrpc":"2.0","method":5}"#,
    r#"{"jsonrpc":"2.0","method":null}"#,
    r#"{"jsonrpc":"2.0","method":{}}"#,
    r#"{"jsonrpc":"2.0","id":{},"method":"fs/read_text_file"}"#,
    r#"{"jsonrpc":"2.0","id":[],"result":1}"#,
    r#"{"jsonrpc":"2.0","id":true,"method":"x"}"#,
    r#"{"jsonrpc":"2.0","id":999999,"result":{}}"#,
    r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}"#,
    r#"{"jsonrpc":"2.0","id":"abc","result":{}}"#,
    r#"{"jsonrpc":"2.0","id":-3,"result":{}}"#,
    r#"{"jsonrpc":"2.0","id":1e99,"result":{}}"#,
    r#"{"jsonrpc":"2.0","id":99999999999999999999999,"result":{}}"#,
    r#"{"jsonrpc":"2.0","id":null,"result":{}}"#,
    r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#,
    r#"{"jsonrpc":"2.0","result":{"stopReason":"end_turn"}}"#,
    r#"{"jsonrpc":"2.0","error":{"code":1}}"#,
    r#"{"jsonrpc":"2.0","method":"_private/thing","params":{"a":[1,2]}}"#,
    r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}"#,
    r#"{"jsonrpc":"2.0","id":5,"method":"no/such/method"}"#,
    r#"{"jsonrpc":"2.0","id":5,"method":"fs/read_text_file"}"#,
    r#"{"jsonrpc":"2.0","id":5,"method":"fs/read_text_file","params":[]}"#,
    r#"{"jsonrpc":"2.0","id":5,"method":"fs/write_text_file","params":{"sessionId":"s","path":5}}"#,
    r#"{"jsonrpc":"2.0","id":5,"method":"terminal/output","params":{"sessionId":"s","terminalId":"none"}}"#,
    r#"{"jsonrpc":"2.0","id":5,"method":"terminal/create","params":{"sessionId":"s","command":""}}"#,
    r#"{"jsonrpc":"2.0","id":5,"method":"session/request_permission","params":{"sessionId":"other"}}"#,
    r#"{"jsonrpc":"2.0","id":5,"method":"session/request_permission","params":{"sessionId":"s","options":7}}"#,
    r#"{"jsonrpc":"2.0","method":"session/update"}"#,
    r#"{"jsonrpc":"2.0","method":"session/update","params":null}"#,
    r#"{"jsonrpc":"2.0","method":"session/update","params":[1]}"#,
    r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s"}}"#,
];

/// Updates without a text.
const WRONG_UPDATES: &[&str] = &[
    "null",
    "[]",
    "{}",
    r#"{"sessionUpdate":1}"#,
    r#"{"sessionUpdate":"agent_message_chunk"}"#,
    r#"{"sessionUpdate":"agent_message_chunk","content":7}"#,
    r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":7}}"#,
    r#"{"sessionUpdate":"tool_call"}"#,
    r#"{"sessionUpdate":"tool_call","toolCallId":7,"content":"x"}"#,
    r#"{"sessionUpdate":"tool_call","toolCallId":"t","content":{"x":1},"locations":7}"#,
    r#"{"sessionUpdate":"plan","entries":{}}"#,
    r#"{"sessionUpdate":"usage_update","used":"many","size":-1}"#,
];

fn update(update: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{update}}}}}"#
    )
}

/// Lines of which nothing may come.
fn wrong() -> Vec<Vec<u8>> {
    let deep = |open: &str, close: &str| format!("{}{}", open.repeat(10_000), close.repeat(10_000));
    let texts = [NO_FRAMES, WRONG_FRAMES].concat();
    let mut lines: Vec<Vec<u8>> = texts.into_iter().map(|text| text.as_bytes().to_vec()).collect();
    lines.extend(WRONG_UPDATES.iter().map(|text| update(text).into_bytes()));
    let made = [
        "x".repeat(100_000),
        format!("[{}]", chunk("in a batch")),
        format!("{}{}", chunk("two"), chunk("on one line")),
        chunk("half of it")[..40].to_owned(),
        format!("log: {}", chunk("after text")),
        chunk("of another session").replace("\"s\"", "\"other\""),
        deep("[", "]"),
        deep("{\"a\":", "}"),
        update(&deep("[", "]")),
    ];
    lines.extend(made.map(String::into_bytes));
    lines.extend([
        b"\xff\xfe\x00 binary".to_vec(),
        b"{\"method\":\"\xff\"}".to_vec(),
        vec![0; 5000],
    ]);
    let broken = chunk("X").into_bytes().into_iter();
    lines.push(broken.map(|byte| if byte == b'X' { 0xff } else { byte }).collect());
    lines
}

/// Lines that are odd, with the text that comes of them.
fn odd() -> Vec<(String, &'static str)> {
    vec![
        (format!("\u{feff}{}\r", chunk("B")), "B"),
        (format!("  {}  ", chunk("B")), "B"),
        (chunk("B").replace("\"jsonrpc\":\"2.0\",", ""), "B"),
        (chunk("B").replace("\"sessionId\":\"s\",", ""), "B"),
        (chunk("B").replace("\"2.0\"", "2"), "B"),
        (chunk("B").replace("{\"jsonrpc\"", "{\"id\":null,\"jsonrpc\""), "B"),
        (chunk("B").replace("session/update", r"session\/update"), "B"),
        (chunk(r"\ud83d"), "\u{fffd}"),
        (chunk(r"\u0000"), "\u{0}"),
        (update(r#"{"content":"B","sessionUpdate":"agent_message_chunk","new":[[[]]]}"#), "B"),
    ]
}

#[tokio::test]
async fn what_is_wrong_is_left_out_and_what_is_right_goes_through() {
    let wrong = wrong().into_iter().map(|line| (line, ""));
    let odd = odd().into_iter().map(|(line, counts)| (line.into_bytes(), counts));
    let cases: Vec<(Vec<u8>, &str)> = wrong.chain(odd).collect();
    assert!(cases.len() >= 60, "{}", cases.len());
    for (wrong, counts) in cases {
        let said = [
            chunk("A").as_bytes(),
            b"\n",
            &wrong,
            b"\n",
            chunk("Z").as_bytes(),
            b"\n",
            END.as_bytes(),
            b"\n",
        ]
        .concat();
        let world = World::scripted(&[("session/prompt", &said)]);
        let mut agent = world.open().await;
        let (ended, updates) = say(&mut *agent, "go").await;
        let case = String::from_utf8_lossy(&wrong[..wrong.len().min(200)]).into_owned();
        assert_eq!(ended.map(|ended| ended.stop), Ok("end_turn".to_owned()), "{case}");
        assert_eq!(text(&updates), format!("A{counts}Z"), "{case}");
        // And the next turn is like any other.
        let (_, updates) = say(&mut *agent, "again").await;
        assert!(text(&updates).starts_with('A'), "{case}");
    }
}

#[tokio::test]
async fn answers_of_any_shape_end_the_turn() {
    for (answer, expected) in [
        (r#"{"id":$ID,"result":{"stopReason":"end_turn"}}"#, "end_turn"),
        (r#"{"id":"$ID","result":{"stopReason":"end_turn"}}"#, "end_turn"),
        (r#"{"id":$ID,"error":null,"result":{"stopReason":"end_turn"}}"#, "end_turn"),
        (r#"{"id":$ID,"result":{"stopReason":"tired"}}"#, "tired"),
        (r#"{"id":$ID,"result":{"stopReason":"end_turn","usage":7}}"#, "end_turn"),
        (r#"{"id":$ID,"result":{}}"#, "nonsense"),
        (r#"{"id":$ID,"result":null}"#, "nonsense"),
        (r#"{"id":$ID,"result":[]}"#, "nonsense"),
        (r#"{"id":$ID,"result":{"stopReason":7}}"#, "nonsense"),
        (r#"{"id":$ID}"#, "nonsense"),
        (r#"{"id":$ID,"error":{}}"#, "refused"),
        (r#"{"id":$ID,"error":"boom"}"#, "refused"),
        (r#"{"id":$ID,"error":7}"#, "refused"),
        (r#"{"id":$ID,"error":{"code":"x","message":{}}}"#, "refused"),
        (
            r#"{"id":$ID,"error":{"code":-32603,"message":"both"},"result":{"stopReason":"end_turn"}}"#,
            "refused",
        ),
        (r#"{"id":$ID,"result":{"stopReason":"end_turn"}}"#, "end_turn"),
        (r#"{"id":$ID,"result":{"stopReason":"end_turn"}}$EXIT"#, "end_turn"),
        (r#"{"id":$ID,"result":{"stopRea$EXIT"#, "agent_ended"),
        ("$EXIT", "agent_ended"),
    ] {
        let said = if answer.ends_with("$EXIT") {
            answer.to_owned()
        } else {
            format!("{answer}\n{answer}\n")
        };
        let world = World::scripted(&[("session/prompt", said.as_bytes())]);
        let mut agent = world.open().await;
        let (ended, _) = say(&mut *agent, "go").await;
        let ended = ended.map_or_else(|trouble| trouble.name().to_owned(), |ended| ended.stop);
        assert_eq!(ended, expected, "{answer}");
    }
}

#[tokio::test]
async fn a_session_without_a_name_is_none() {
    for answer in ["null", "{}", r#"{"sessionId":7}"#, r#"{"sessionId":""}"#, "[]"] {
        let said = format!("{{\"id\":$ID,\"result\":{answer}}}\n");
        let world = World::scripted(&[("session/new", said.as_bytes())]);
        let mut agent = world.start().await;
        assert_eq!(agent.open(OpenRequest::New).await.unwrap_err().name(), "nonsense", "{answer}");
    }
    // A load answers nothing of the kind, and some answer nothing at all.
    let world = World::scripted(&[("session/load", b"{\"id\":$ID}\n")]);
    let mut agent = world.start().await;
    assert_eq!(agent.open(OpenRequest::Load("mine")).await.unwrap().native, "mine");
}

#[tokio::test]
async fn no_mutation_of_good_traffic_makes_it_hang() {
    let tool = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"t","title":"ls","content":[{"type":"diff","path":"/a","newText":"x"}]}}}"#;
    let ask = r#"{"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"t"},"options":[{"optionId":"a","name":"A","kind":"allow_once"}]}}"#;
    let good = [&chunk("A"), tool, ask, &chunk("Z"), ""].join("\n").into_bytes();
    let mut dice = fastrand::Rng::with_seed(20_261_115);
    for _ in 0..150 {
        let mut bad = good.clone();
        for _ in 0..=dice.usize(..8) {
            let at = dice.usize(..bad.len());
            match dice.usize(..4) {
                0 => bad[at] = u8::try_from(dice.usize(..256)).unwrap(),
                1 => drop(bad.drain(at..(at + dice.usize(..20)).min(bad.len()))),
                2 => bad.insert(at, b"{}[]\",:\n\\0"[dice.usize(..10)]),
                _ => bad.truncate(at.max(1)),
            }
        }
        bad.extend_from_slice(b"\n");
        bad.extend_from_slice(END.as_bytes());
        bad.push(b'\n');
        let world = World::scripted(&[("session/prompt", &bad)]);
        let mut agent = world.open().await;
        let (ended, _) = say(&mut *agent, "go").await;
        assert_eq!(ended.unwrap().stop, "end_turn", "{}", String::from_utf8_lossy(&bad));
    }
}
