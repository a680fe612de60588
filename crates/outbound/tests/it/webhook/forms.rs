//! What receivers read: the notice itself, and what Slack and Discord make a message of.

use rethread_outbound::webhook::{Event, Format, Notice};
use serde_json::{Value, json};

use super::setup::{notice, sent};

/// What hostile titles and reasons try.
const HOSTILE: [&str; 12] = [
    "<!here> <!channel> <@U012> <#C012>",
    "<https://evil.example|Click here to approve>",
    "@everyone @here <@123> <@&456> <#789>",
    "[approve](https://evil.example) https://evil.example/x discord.gg/abc",
    "**bold** _it_ ~~no~~ `code` ```\nblock\n``` ||hidden||",
    "# Heading\n> quote\n- list\n-# small",
    "&lt;!here&gt; &amp;",
    "\\*\\<!here>\\",
    "\u{202e}drah \u{0}\u{1b}[31m\u{200b}",
    ":smile: <:x:1> <a:x:1> <t:1:R> </cmd:1>",
    "\"},{\"text\":\"x",
    "",
];

/// All texts of a message, by their names.
fn texts(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Array(values) => values.iter().for_each(|value| texts(value, found)),
        Value::Object(values) => values.values().for_each(|value| texts(value, found)),
        _ => (),
    }
}

fn length(value: &Value) -> usize {
    value.as_str().unwrap().encode_utf16().count()
}

fn hostile(text: &str) -> Notice {
    let own = || Some(text.to_owned());
    Notice {
        title: text.to_owned(),
        status: text.to_owned(),
        workflow_id: text.to_owned(),
        reason: own(),
        snapshot_id: own(),
        worktree: own(),
        resume: own(),
        ..notice()
    }
}

#[tokio::test]
async fn json_is_the_notice_itself() {
    let (received, body) = sent(Format::Json, &notice()).await;
    assert_eq!(
        body,
        json!({
            "id": "0198-d1", "event": "workflow_paused", "at": "2026-11-16T07:00:00Z",
            "workflow_id": "0198-w1", "title": "Fix the login", "status": "paused",
            "reason": "requested", "snapshot_id": "0198-s1", "session_number": 2,
            "tasks_completed": 3, "tasks_total": 5, "worktree": "login",
            "resume": "rethread workflow resume 0198-w1",
        })
    );
    assert_eq!(serde_json::from_slice::<Notice>(&received.body).unwrap(), notice());
    for text in HOSTILE {
        let (received, _) = sent(Format::Json, &hostile(text)).await;
        assert_eq!(serde_json::from_slice::<Notice>(&received.body).unwrap(), hostile(text));
    }
}

#[tokio::test]
async fn slack_gets_a_text_and_blocks() {
    let (_, body) = sent(Format::Slack, &notice()).await;
    assert_eq!(body["text"], "Workflow paused: Fix the login (3 of 5 tasks)");
    assert_eq!(body["blocks"][0]["text"]["text"], "Workflow paused");
    assert_eq!(body["blocks"][1]["text"]["text"], "“Fix the login”");
    assert_eq!(body["blocks"][2]["text"]["text"], "requested");
    let fields = body["blocks"][3]["fields"].as_array().unwrap();
    assert_eq!(fields.last().unwrap()["text"], "To resume: rethread workflow resume 0198-w1");
}

#[tokio::test]
async fn nothing_hostile_means_anything_to_slack() {
    for text in HOSTILE {
        let (_, body) = sent(Format::Slack, &hostile(text)).await;
        assert_eq!(body["mrkdwn"], false);
        for block in body["blocks"].as_array().unwrap() {
            let fields = block["fields"].as_array().cloned().unwrap_or_default();
            for text in fields.iter().chain(block.get("text")) {
                assert_eq!((&text["type"], &text["emoji"]), (&json!("plain_text"), &json!(false)));
                assert_ne!(text["text"], "", "Slack refuses what is empty");
            }
        }
        let mut found = Vec::new();
        texts(&body, &mut found);
        for found in found {
            assert!(!found.contains(['<', '>', '\u{202e}', '\u{0}', '\u{1b}', '\n']), "{found:?}");
            let bare = found.replace("&amp;", "").replace("&lt;", "").replace("&gt;", "");
            assert!(!bare.contains('&'), "{found}");
        }
    }
    let (_, body) = sent(Format::Slack, &hostile("a < b && c")).await;
    assert_eq!(body["blocks"][2]["text"]["text"], "a &lt; b &amp;&amp; c");
}

#[tokio::test]
async fn discord_gets_a_content_and_an_embed() {
    let (_, body) = sent(Format::Discord, &notice()).await;
    assert_eq!(body["content"], "Workflow paused (3 of 5 tasks)");
    assert_eq!(body["allowed_mentions"], json!({ "parse": [] }));
    let embed = &body["embeds"][0];
    assert_eq!(
        (&embed["title"], &embed["description"]),
        (&json!("Fix the login"), &json!("requested"))
    );
    assert_eq!(embed["timestamp"], "2026-11-16T07:00:00Z");
    let last = embed["fields"].as_array().unwrap().last().unwrap();
    assert_eq!(last["value"], "rethread workflow resume 0198\\-w1");
}

#[tokio::test]
async fn nothing_hostile_means_anything_to_discord() {
    for text in HOSTILE {
        let (_, body) = sent(Format::Discord, &hostile(text)).await;
        assert_eq!(body["content"], "Workflow paused (3 of 5 tasks)");
        let embed = &body["embeds"][0];
        let fields = embed["fields"].as_array().unwrap();
        let values = fields.iter().map(|field| &field["value"]);
        for shown in values.chain([&embed["title"], &embed["description"]]) {
            let shown = shown.as_str().unwrap();
            // Whatever is left when escaped pairs are taken away means nothing.
            let mut bare = String::new();
            let mut letters = shown.chars();
            while let Some(letter) = letters.next() {
                if letter == '\\' {
                    assert!(letters.next().is_some_and(|next| next.is_ascii_punctuation()));
                } else {
                    bare.push(letter);
                }
            }
            assert!(
                !bare.contains([
                    '*', '_', '~', '`', '|', '<', '>', '@', '#', '[', ':', '.', '-', '\n'
                ])
            );
        }
    }
    let (_, body) = sent(Format::Discord, &hostile("@everyone")).await;
    assert_eq!(body["embeds"][0]["title"], "\\@everyone");
}

#[tokio::test]
async fn no_limit_of_the_receivers_is_passed() {
    for text in ["&", "*", "😀", "word ", "\u{200b}"] {
        let long = hostile(&text.repeat(100_000));
        let (received, _) = sent(Format::Json, &long).await;
        assert!(received.body.len() < 200_000);
        let (_, slack) = sent(Format::Slack, &long).await;
        for block in slack["blocks"].as_array().unwrap() {
            let most = if block["type"] == "header" { 150 } else { 3000 };
            assert!(block.get("text").is_none_or(|text| length(&text["text"]) <= most));
            let fields = block["fields"].as_array().cloned().unwrap_or_default();
            assert!(fields.len() <= 10 && fields.iter().all(|text| length(&text["text"]) <= 2000));
        }
        let (_, discord) = sent(Format::Discord, &long).await;
        let embed = &discord["embeds"][0];
        let fields = embed["fields"].as_array().unwrap();
        assert!(length(&embed["title"]) <= 256 && length(&embed["description"]) <= 4096);
        assert!(fields.iter().all(|field| length(&field["value"]) <= 1024));
        let each = fields.iter().map(|field| length(&field["value"]) + length(&field["name"]));
        let all = each.sum::<usize>() + length(&embed["title"]) + length(&embed["description"]);
        assert!(all <= 6000, "{all}");
    }
}

#[test]
fn events_are_known_by_their_names() {
    for event in Event::ALL {
        assert_eq!(event.to_string().parse(), Ok(event));
        assert_eq!(serde_json::from_str::<Event>(&json!(event).to_string()).unwrap(), event);
    }
    let unknown = "paused".parse::<Event>().unwrap_err().to_string();
    assert!(unknown.starts_with("there is no such event; there are workflow_started, workflow_p"));
}
